"""Run the real client of CANN's interface on autofuse: torch.compile through inductor_npu_ext, on the CPU twin.

The client is a folder of the public repository Ascend/torchair, `experimental/_inductor_npu_ext`, which is not included
here.  It must be checked out, and this Python needs torch:

    python benchmarks/clients/torchair_client.py --client torchair/experimental/_inductor_npu_ext
    python benchmarks/clients/torchair_client.py --client ... --only softmax --only rope
    python benchmarks/clients/torchair_client.py --client ... --unit-tests

torch compiles every pattern with the client's backend in its debug CPU mode, where CPU tensors replace NPU tensors and
the backend calls autofuse instead of the client's stub.  The results are compared with eager torch.  Without torch or
the client, the script reports this and exits with status 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Make = Callable[[Any, int], list[Any]]

#: Sizes of the leading dimension: with dynamic shapes, one graph serves all of them.
STATIC, DYNAMIC = (6,), (6, 9, 33)


def patterns(torch: Any) -> dict[str, tuple[Callable[..., Any], Make, float]]:
    """Return name -> (function, its arguments for a leading size, tolerance against eager torch)."""
    f = torch.nn.functional

    def r(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*shape, generator=generator).to(dtype)

    generator = torch.Generator().manual_seed(0)
    half, brain = torch.float16, torch.bfloat16

    def layer_norm(x: Any, w: Any, b: Any) -> Any:
        return f.layer_norm(x, (x.shape[-1],), w, b)

    def rms_norm(x: Any, w: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) * (1.0 / 64) + 1e-6) * w

    def swiglu(x: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        return f.silu(a) * b

    def rope(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def masked_softmax(x: Any, m: Any) -> Any:
        return torch.softmax(x.masked_fill(m, float("-inf")), dim=-1)

    def adamw(p: Any, g: Any, m: Any, v: Any) -> Any:
        m2 = 0.9 * m + 0.1 * g
        v2 = 0.999 * v + 0.001 * g * g
        return p * (1 - 1e-3) - 1e-3 * (m2 / (torch.sqrt(v2) + 1e-8)), m2, v2

    def batch_norm(x: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
        return f.batch_norm(x, mean, var, w, b, training=False)

    def quantise(x: Any) -> Any:
        s = x.abs().amax(dim=-1, keepdim=True) / 127.0
        return torch.clamp(torch.round(x / s), -128.0, 127.0), s

    def in_place(x: Any, m: Any, g: Any) -> Any:
        m.mul_(0.9).add_(g, alpha=0.1)
        x.sub_(m * 0.01)
        return x.abs().sum(-1)

    return {
        "add_relu": (lambda x, y: torch.relu(x + y), lambda _, n: [r(n, 64), r(n, 64)], 1e-6),
        "bias_gelu": (lambda x, b: f.gelu(x + b), lambda _, n: [r(n, 96), r(96)], 2e-6),
        "softmax": (lambda x: torch.softmax(x, -1), lambda _, n: [r(n, 64)], 1e-6),
        "log_softmax": (lambda x: torch.log_softmax(x, -1), lambda _, n: [r(n, 50)], 5e-6),
        "layer_norm": (layer_norm, lambda _, n: [r(n, 128), r(128), r(128)], 5e-6),
        "rms_norm": (rms_norm, lambda _, n: [r(n, 64), r(64)], 5e-6),
        "swiglu": (swiglu, lambda _, n: [r(n, 96)], 2e-6),
        "rope": (rope, lambda _, n: [r(n, 4, 32), r(n, 1, 32), r(n, 1, 32)], 2e-6),
        "masked_softmax": (
            masked_softmax,
            lambda _, n: [r(n, 40), (r(n, 40) > 1.0)],
            2e-6,
        ),
        "half_add": (
            lambda x, y: (x + y) * 0.5,
            lambda _, n: [r(n, 70, dtype=half), r(n, 70, dtype=half)],
            2e-3,
        ),
        "bf16_softmax": (
            lambda x: torch.softmax(x, -1),
            lambda _, n: [r(n, 64, dtype=brain)],
            1e-2,
        ),
        "adamw": (adamw, lambda _, n: [r(n, 33), r(n, 33), r(n, 33), r(n, 33).abs()], 2e-6),
        "in_place": (in_place, lambda _, n: [r(n, 48), r(n, 48), r(n, 48)], 1e-5),
        "mm_softmax": (
            lambda x, w: torch.softmax(x @ w, -1) * 2,
            lambda _, n: [r(n, 16), r(16, 24)],
            2e-6,
        ),
        "batch_norm": (
            batch_norm,
            lambda _, n: [r(n, 8, 5, 5), r(8), r(8).abs() + 0.5, r(8), r(8)],
            5e-6,
        ),
        "quantise": (quantise, lambda _, n: [r(n, 64)], 1e-6),
        "transpose_add": (
            lambda x, y: x.transpose(0, 1) + y,
            lambda _, n: [r(n, 48), r(48, n)],
            1e-6,
        ),
        "permute_mul": (
            lambda x, y: y * x.permute(1, 0, 2),
            lambda _, n: [r(n, 6, 16), r(6, n, 16)],
            1e-6,
        ),
        "slice_add": (lambda x, y: x[:, 3:19] + y, lambda _, n: [r(n, 32), r(n, 16)], 1e-6),
        "stride_two": (lambda x: x[:, ::2] - x[:, 1::2], lambda _, n: [r(n, 32)], 1e-6),
        "cat_scale": (
            lambda x, y: torch.cat((x * 2, y.exp()), dim=1),
            lambda _, n: [r(n, 24), r(n, 17)],
            2e-6,
        ),
        "two_sums": (
            lambda x, y: x.sum(-1) + y.sum(-1),
            lambda _, n: [r(n, 64), r(n, 64)],
            2e-5,
        ),
        "column_sum": (lambda x: x.sum(0), lambda _, n: [r(n, 64)], 2e-5),
        "max_all": (lambda x: torch.amax(x, (0, 1)), lambda _, n: [r(n, 64)], 1e-6),
        "where_compare": (
            lambda x, y: torch.where(x > y, x - y, torch.zeros_like(x)),
            lambda _, n: [r(n, 64), r(n, 64)],
            1e-6,
        ),
        "tanh_pow_erf": (
            lambda x: torch.tanh(x) + x.abs().pow(1.5) + torch.erf(x),
            lambda _, n: [r(n, 64)],
            5e-6,
        ),
        "bool_out": (
            lambda x, y: (x > y) & (x < 1.0),
            lambda _, n: [r(n, 40), r(n, 40)],
            0.0,
        ),
        "scalars": (
            lambda x: torch.where(x > 0, x, torch.full_like(x, float("inf"))),
            lambda _, n: [r(n, 40)],
            0.0,
        ),
    }


#: Statuses of a row.
STATUSES = {
    "ok": "right",
    "wrong": "with wrong numbers",
    "refused": "refused by autofuse",
    "not fused": "without a kernel",
    "client": "that the client itself cannot generate",
}


class _Log:
    """Count of compiled kernels."""

    def __init__(self) -> None:
        self.kernels = 0


def _watch(log: _Log) -> None:
    """Count the kernels that the client compiles."""
    from autofuse.clients.cann import compile_adapter

    inner = compile_adapter.jit_compile

    def counted(*args: Any, **kwargs: Any) -> None:
        inner(*args, **kwargs)
        log.kernels += 1

    compile_adapter.jit_compile = counted


def _load_client(client: Path, cache: str) -> Any:
    """Import the client in its debug CPU mode, with autofuse instead of its stub."""
    os.environ["TORCHINDUCTOR_NPU_EXT_DEBUG"] = "cpu+decompose+lowering"
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    os.environ["TORCHINDUCTOR_NPU_EXT_CACHE_DIR"] = cache
    sys.path[:0] = [str(client / "python"), str(client / "tests")]
    from torch._inductor.sizevars import SizeVarAllocator

    if not hasattr(SizeVarAllocator, "size_hint"):
        # torch 2.13 renamed this function; the client calls the old name.
        def size_hint(self: Any, expr: Any, *, fallback: int | None = None) -> int:
            return int(self.optimization_hint(expr, fallback=fallback))

        SizeVarAllocator.size_hint = size_hint
    import inductor_npu_ext
    from inductor_npu_ext.common import utils

    utils.is_kernel_need_stub = lambda _: False
    return inductor_npu_ext


def _close(torch: Any, got: Any, want: Any) -> float:
    """Return the largest error over ``1 + |want|``; infinite if non-finite values differ."""
    worst = 0.0
    for g, w in zip(_flat(got), _flat(want), strict=True):
        if g.shape != w.shape or g.dtype != w.dtype:
            return float("inf")
        a, b = g.to(torch.float64), w.to(torch.float64)
        same = (a == b) | (torch.isnan(a) & torch.isnan(b))
        error = torch.where(same, torch.zeros_like(a), (a - b).abs() / (1 + b.abs()))
        error = torch.nan_to_num(error, nan=float("inf"), posinf=float("inf"))
        worst = max(worst, float(error.max()) if error.numel() else 0.0)
    return worst


def _flat(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else (value,)


def run_pattern(
    torch: Any, log: _Log, entry: tuple[Callable[..., Any], Make, float], *, dynamic: bool
) -> dict[str, Any]:
    """Compile and compare one pattern, and return its row of the report."""
    function, make, tolerance = entry
    torch._dynamo.reset()
    before, start = log.kernels, time.perf_counter()
    row: dict[str, Any] = {"dynamic": dynamic, "status": "ok", "error": 0.0}
    compiled = torch.compile(function, dynamic=dynamic)
    try:
        for n in DYNAMIC if dynamic else STATIC:
            args = make(torch, n)
            known = [a.clone() for a in args]
            with torch.no_grad():
                want = function(*known)
                got = compiled(*args)
            # Compare writes to the arguments, too.
            error = _close(torch, (*_flat(got), *args), (*_flat(want), *known))
            row["error"] = max(row["error"], error)
        if row["error"] > tolerance:
            row["status"] = "wrong"
    except Exception as e:
        text = f"{type(e).__name__}: {e}"
        row["status"] = "refused" if "error AF" in text else "client"
        row["why"] = _why(text)
        row["trace"] = traceback.format_exc()[-4000:]
    row["kernels"] = log.kernels - before
    row["seconds"] = round(time.perf_counter() - start, 2)
    if row["status"] == "ok" and row["kernels"] == 0:
        row["status"] = "not fused"
    return row


def _why(text: str) -> str:
    """Return the line of a message that states the error."""
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    found = [x for x in lines if "error AF" in x] or lines
    return found[0][-300:]


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 if every kernel was right, or there was nothing to run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", type=Path, help="folder _inductor_npu_ext of a checkout")
    parser.add_argument("--only", action="append", default=[], help="a pattern; may be repeated")
    parser.add_argument("--unit-tests", action="store_true", help="the client's own tests instead")
    parser.add_argument("--json", type=Path, help="write the report here")
    options = parser.parse_args(argv)
    missing = None
    if options.client is None or not (options.client / "python" / "inductor_npu_ext").is_dir():
        missing = "there is no checkout of the client: --client PATH"
    elif importlib.util.find_spec("torch") is None:
        missing = "torch is not installed for this Python"
    if missing:
        print(f"skipped: {missing}")
        return 0
    # Debug output and the client's cache are removed at the end.
    with tempfile.TemporaryDirectory(prefix="torchair-") as folder:
        client = options.client.resolve()
        report = options.json.resolve() if options.json else None
        os.chdir(folder)
        if options.unit_tests:
            return _unit_tests(client, folder)
        return _patterns(client, folder, options.only, report)


def _unit_tests(client: Path, folder: str) -> int:
    os.environ["TORCH_COMPILE_DEBUG"] = "1"
    _load_client(client, f"{folder}/kernels")
    suite = unittest.defaultTestLoader.loadTestsFromName("ut")
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


def _patterns(client: Path, folder: str, only: Sequence[str], report: Path | None) -> int:
    # torch reads the environment at import: otherwise it would use texts from earlier runs.
    _load_client(client, f"{folder}/kernels")
    import torch

    log = _Log()
    _watch(log)
    known = patterns(torch)
    unknown = sorted(set(only) - set(known))
    if unknown:
        print(f"unknown patterns: {', '.join(unknown)}; known: {', '.join(known)}")
        return 2
    rows = {}
    print(f"torch {torch.__version__}")
    print(f"{'pattern':18} {'shapes':8} {'status':10} {'kernels':>7} {'error':>9} {'seconds':>8}")
    for name in only or known:
        for dynamic in (False, True):
            row = run_pattern(torch, log, known[name], dynamic=dynamic)
            rows[f"{name} {'dynamic' if dynamic else 'static'}"] = row
            print(
                f"{name:18} {'dynamic' if dynamic else 'static':8} {row['status']:10} {row['kernels']:7}"
                f" {row['error']:9.1e} {row['seconds']:8.2f} {row.get('why', '')}",
                flush=True,
            )
    count = {s: sum(r["status"] == s for r in rows.values()) for s in STATUSES}
    print(", ".join(f"{n} {STATUSES[s]}" for s, n in count.items() if n or s == "ok"))
    if report is not None:
        report.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    return 0 if count["ok"] + count["client"] == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
