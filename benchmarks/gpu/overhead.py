"""Measure the host time of a call of a small region on a GPU: autofuse with and without its launcher, and Inductor.

    python benchmarks/gpu/overhead.py
    python benchmarks/gpu/overhead.py --calls 2000 --rounds 11 --json overhead.json

The kernels take about 2 us, so the host limits a loop of calls: the time is the wall time of the loop, including the
final synchronisation, over the calls.  Competitors take turns in every round; the median over the rounds counts.
Results are compared with eager before and after.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import triton

import autofuse
from autofuse.clients.torch import autofuse as backend

Call = Callable[..., Any]


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Apply four operators on equal shapes."""
    return torch.sigmoid(torch.relu(x + y) * 0.5)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of rows."""
    return torch.softmax(x, -1)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the RMS norm of rows, computed in float32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def cases(device: str) -> dict[str, tuple[Call, tuple[torch.Tensor, ...]]]:
    """Return name -> (function, arguments)."""

    def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=dtype)

    bf16 = torch.bfloat16
    return {
        "chain 4096": (chain, (normal(4096), normal(4096))),
        "softmax 32x128": (softmax, (normal(32, 128),)),
        "rms_norm 64x4096 bf16": (
            rms_norm,
            (normal(64, 4096, dtype=bf16), normal(4096, dtype=bf16)),
        ),
    }


def launchers() -> list[Any]:
    """Return the launcher classes of the modules that autofuse has imported in this process."""
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("autofuse_triton_")]
    return [m.Launcher for m in modules if hasattr(m, "Launcher")]


@contextmanager
def by_triton() -> Iterator[None]:
    """Launch generated modules through ``kernel[grid](...)`` every time, without state from earlier launches."""
    classes = launchers()
    kept = [c.__call__ for c in classes]

    def forgetting(call: Call) -> Call:
        def launch(self: Any, *args: Any, **options: Any) -> None:
            self.ready.clear()
            call(self, *args, **options)

        return launch

    for c in classes:
        c.__call__ = forgetting(c.__call__)
    try:
        yield
    finally:
        for c, call in zip(classes, kept, strict=True):
            c.__call__ = call


def competitors(function: Call) -> dict[str, tuple[Call, Callable[[], Any]]]:
    """Return name -> (call, context of the calls)."""
    torch._dynamo.reset()
    own = torch.compile(function, backend=backend, dynamic=False, options={"fallback": "error"})
    return {
        "eager": (function, nullcontext),
        "inductor": (torch.compile(function, dynamic=False), nullcontext),
        "autofuse": (own, nullcontext),
        "autofuse, kernel[grid]": (own, by_triton),
    }


def check(call: Call, function: Call, args: tuple[torch.Tensor, ...]) -> None:
    """Compare a result with eager's."""
    torch.testing.assert_close(call(*args), function(*args))


def loop_us(call: Call, args: tuple[torch.Tensor, ...], calls: int) -> float:
    """Return the microseconds of one call in a loop."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call(*args)
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / calls


def measure(device: str, calls: int, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return case -> competitor -> minimum and median microseconds of a call."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for name, (function, args) in cases(device).items():
        with torch.no_grad():
            made = competitors(function)
            times: dict[str, list[float]] = {who: [] for who in made}
            for i in range(rounds + 1):
                for who, (call, around) in made.items():
                    with around():
                        check(call, function, args)
                        took = loop_us(call, args, calls)
                        check(call, function, args)
                    if i:  # the first round warms up
                        times[who].append(took)
        out[name] = {
            who: {"least_us": round(min(t), 2), "median_us": round(statistics.median(t), 2)}
            for who, t in times.items()
        }
    return out


def main() -> int:
    """Measure, print, and write if requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: there is no GPU")
        return 0
    found = {
        "device": torch.cuda.get_device_name(args.device),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
        "autofuse": autofuse.__version__,
        "calls": args.calls,
        "rounds": args.rounds,
        "wall_us_per_call": measure(args.device, args.calls, args.rounds),
    }
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(
        f"{found['device']}, torch {found['torch']}, triton {found['triton']}; us per call, median (least)"
    )
    for name, row in found["wall_us_per_call"].items():
        print(name)
        for who, t in row.items():
            print(f"  {who:24} {t['median_us']:7.1f} ({t['least_us']:.1f})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
