"""The files of an operator with all the mistakes that a hand-written set is known to have, and without any."""

from __future__ import annotations

__all__ = ["FAULTY", "GOOD"]

_KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def spread(row_ptr, table_ptr, to_ptr, rows, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    live = (r < rows)[:, None] & (c < width)[None, :]
    line = tl.load(table_ptr + c, mask=c < width, other=0.0)
    tl.store(to_ptr + r[:, None] * width + c[None, :], tl.broadcast_to(line[None, :], (ROWS, COLS)), mask=live)


def spread(rows_in: torch.Tensor, line_in: torch.Tensor) -> torch.Tensor:
    whole = rows_in.contiguous()
    line = line_in.contiguous()
    width = line.numel()
    assert whole.shape[-1] == width
    rows = whole.numel() // width
    made = torch.empty_like(whole)
    grid = (triton.cdiv(rows, 16), triton.cdiv(width, 128))
    spread[grid](whole, line, made, rows, width, ROWS=16, COLS=128)
    return made
"""

_BASELINE = """\
import torch


def spread(rows_in: torch.Tensor, line_in: torch.Tensor) -> torch.Tensor:
    whole = rows_in.contiguous()
    line = line_in.contiguous()
    assert whole.shape[-1] == line.numel()
    return whole + line
"""

_ACCURACY = """\
import torch
from spread_baseline import spread as expected_of
from spread_triton import spread


def check():
    for shape in [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048)]:
        a = torch.randn(shape).npu()
        b = torch.randn(shape[-1]).npu()
        far = torch.abs(spread(a, b) - expected_of(a, b)).max().item()
        assert far < 1e-3, f"wrong by {far}"
        print(f"{shape} passed: {far:.2e}")


if __name__ == "__main__":
    check()
"""

_PERFORMANCE = """\
import time

import torch
from spread_baseline import spread as expected_of
from spread_triton import spread


def measure():
    count = 100
    for shape in [(512, 512, 512), (2048, 2048, 2048)]:
        a = torch.randn(shape).npu()
        b = torch.randn(shape[-1]).npu()
        torch.npu.synchronize()
        begin = time.time()
        for _ in range(count):
            expected_of(a, b)
        torch.npu.synchronize()
        slow = (time.time() - begin) / count
        begin = time.time()
        for _ in range(count):
            spread(a, b)
        torch.npu.synchronize()
        fast = (time.time() - begin) / count
        ratio = slow / fast
        print(f"baseline: {slow:.4f} ms, kernel: {fast:.4f} ms, {ratio:.2f}x")


if __name__ == "__main__":
    measure()
"""

#: All mistakes at once: kernel and function have one name, the kernel leaves out an operand that the baseline adds,
#: seconds are printed as milliseconds, the largest case takes 96 GiB, and all data are of one distribution.
FAULTY = {
    "spread_triton.py": _KERNEL,
    "spread_baseline.py": _BASELINE,
    "spread_accuracy.py": _ACCURACY,
    "spread_performance.py": _PERFORMANCE,
}

_LOADED = """\
    line = tl.load(table_ptr + c, mask=c < width, other=0.0)
    at = r[:, None] * width + c[None, :]
    sums = tl.load(row_ptr + at, mask=live, other=0.0) + line[None, :]
    tl.store(to_ptr + at, sums, mask=live)
"""
_STORED = _KERNEL[_KERNEL.index("    line = tl.load") : _KERNEL.index("\n\ndef spread(rows_in")]

#: The same without them.
GOOD = {
    "spread_triton.py": _KERNEL.replace("def spread(row_ptr", "def spread_kernel(row_ptr")
    .replace("spread[grid]", "spread_kernel[grid]")
    .replace(_STORED, _LOADED),
    "spread_baseline.py": _BASELINE,
    "spread_accuracy.py": _ACCURACY.replace(", (1024, 1024, 1024), (2048, 2048, 2048)", "")
    .replace("    for shape", "    for scale in (1.0, 0.1):\n      for shape")
    .replace("        a = torch.randn", "        a = scale * torch.randn"),
    "spread_performance.py": _PERFORMANCE.replace(", (2048, 2048, 2048)", "")
    .replace("time.time()", "time.perf_counter()")
    .replace("/ count\n", "/ count * 1000\n"),
}
