"""Measure a kernel call from Python: tiling and launch of a tiny tensor on the twin, the code around them, and loops.

    python benchmarks/speed/torch_overhead.py
    python benchmarks/speed/torch_overhead.py --elements 4096 --calls 2000 --json

Times are measured processor time of the calling thread: minimum and median of several rounds.  They are not modelled,
and are unrelated to the time of the kernel on a chip.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from autofuse.clients.torch.region import Region


def per_call(call: Callable[[], Any], calls: int, rounds: int) -> dict[str, float]:
    """Return microseconds of one call: minimum, median and maximum of several rounds, after an uncounted first one."""
    times = []
    for i in range(rounds + 1):
        start = time.thread_time()
        for _ in range(calls):
            call()
        if i:
            times.append(1e6 * (time.thread_time() - start) / calls)
    return {
        "least_us": round(min(times), 2),
        "median_us": round(statistics.median(times), 2),
        "most_us": round(max(times), 2),
    }


def region_of(
    function: Callable[..., Any], *inputs: torch.Tensor, **how: Any
) -> tuple[Region, Any]:
    """Return the single region of a function, and the compiled function."""
    import autofuse.clients.torch.calls as calls

    found: list[Region] = []

    class Seen(Region):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            found.append(self)

    original = calls.Region
    calls.Region = Seen  # type: ignore[misc]
    try:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="autofuse", **how)
        with torch.no_grad():
            compiled(*inputs)
    finally:
        calls.Region = original  # type: ignore[misc]
    (region,) = found
    return region, compiled


def measure(elements: int, calls: int, rounds: int) -> dict[str, Any]:
    """Return all rows."""
    out: dict[str, Any] = {"elements": elements}
    for name, dynamic in (("static", False), ("dynamic", True)):
        x, y = torch.randn(elements), torch.randn(elements)

        def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.relu(a + b) * 0.5

        region, compiled = region_of(
            function, x, y, dynamic=dynamic, options={"target": "ascend910b1", "opt": "-O2"}
        )
        kernel, result = region.launch.kernel, torch.empty(elements)
        sizes = (elements,) if dynamic else ()
        pointers = [x.data_ptr(), y.data_ptr(), result.data_ptr()]
        given = [t.nbytes for t in (x, y, result)]
        with torch.no_grad():
            out[name] = {
                "tiling and launch": per_call(
                    lambda k=kernel, s=sizes, p=pointers, n=given: k.run(s, p, 1, n, 2),
                    calls,
                    rounds,
                ),
                "region (tensors in, tensors out)": per_call(
                    lambda r=region, a=x, b=y: r(a, b), calls, rounds
                ),
                "compiled function (with Dynamo's guards)": per_call(
                    lambda c=compiled, a=x, b=y: c(a, b), calls, rounds
                ),
                "eager": per_call(lambda f=function, a=x, b=y: f(a, b), calls, rounds),
            }
            own = {"backend": "autofuse", "options": {"choose": "all"}}
            for what, how in (
                ("C++ loops inside Inductor, with guards", own),
                ("Inductor, with guards", {}),
            ):
                # Each call would pass the guards of what was compiled before.
                torch._dynamo.reset()
                compiled = torch.compile(function, dynamic=dynamic, **how)
                out[name][what] = per_call(lambda c=compiled, a=x, b=y: c(a, b), calls, rounds)
    return out


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--elements", type=int, default=16)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args.elements, args.calls, args.rounds)
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    print(
        f"{args.elements} elements of float32, {args.calls} calls, {args.rounds} rounds; us of processor time"
    )
    for name in ("static", "dynamic"):
        for what, t in found[name].items():
            print(
                f"{name:8} {what:42} least {t['least_us']:7.2f}  median {t['median_us']:7.2f}  "
                f"most {t['most_us']:7.2f}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
