"""Modules of Triton kernels as the library writes them, by hand: to test what calls them without what writes them."""

from __future__ import annotations

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.text.launching import LAUNCHER
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import GpuTarget

__all__ = ["MODULES", "build_split"]

_HEAD = f"""
import torch
import triton
import triton.language as tl


{LAUNCHER}

"""

_POINTWISE = (
    _HEAD
    + """
@triton.jit
def _kernel(a_ptr, b_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(a_ptr + at, mask=inside).to(tl.float32)
    b = tl.load(b_ptr + at, mask=inside).to(tl.float32)
    tl.store(out_ptr + at, (tl.maximum(a + b, 0.0) * 0.5).to(out_ptr.dtype.element_ty), mask=inside)


launch = Launcher(_kernel)


def NAME(a, b):
    if a.shape != b.shape or not (a.is_contiguous() and b.is_contiguous()):
        raise ValueError("two tensors of one shape, without gaps")
    n = a.numel()
    out = torch.empty_like(a)
    if n:
        launch((-(-n // 1024), 1, 1), (a, b, out), n, BLOCK=1024, num_warps=4)
    return out
"""
)

_SOFTMAX = (
    _HEAD
    + """
@triton.jit
def _kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row + at, (e / tl.sum(e, 0)).to(out_ptr.dtype.element_ty), mask=at < columns)


launch = Launcher(_kernel)


def NAME(x):
    if not x.is_contiguous():
        raise ValueError("a tensor has gaps")
    rows, columns = x.shape
    out = torch.empty_like(x)
    if out.numel():
        block = triton.next_power_of_2(columns)
        launch((rows, 1, 1), (x, out), columns, BLOCK=block, num_warps=4)
    return out
"""
)

#: Name of a region -> the text of its module; ``NAME`` stands for the name of the function.
MODULES = {
    "fused_add_relu_mul": _POINTWISE,
    "fused_reducemax_sub_exp_reducesum_div": _SOFTMAX,
}


def build_split(graph: FusionGraph, *, target: GpuTarget) -> api.SplitResult:
    """In place of :func:`autofuse.api.build_split`: a module of this file, or AF3001."""
    if graph.name not in MODULES:
        raise AutofuseError.of("AF3001", f"nobody has written {graph.name}")
    text = MODULES[graph.name].replace("NAME", graph.name)
    return api.SplitResult(graph, target, None, (), {f"{graph.name}_triton.py": text}, {})
