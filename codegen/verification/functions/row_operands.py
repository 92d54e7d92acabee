"""Extents of ``autofuse::WithRows``: a tensor [r, c] and an operand with an element per row, [r]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autofuse.codegen.ir.kernel_ir import Call, LocalArg
from autofuse.codegen.verification.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ZERO, Expr, align_up
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.scratch import row_bytes

__all__ = ["rows_fit", "same_rows", "takes_rows"]


def takes_rows(s: Call) -> bool:
    """Whether the call has an operand with an element per row."""
    return s.api.startswith("autofuse::WithRows<")


def same_rows(kernel: Kernel, s: Call, n: Node) -> Iterator[Finding]:
    """The tensor and the result lie alike, and the other operand has the axes around the rows, side by side."""
    x, each = (kernel.nodes[i] for i in n.inputs)
    if (x.y.vectorized_axis, x.y.dtype) != (n.y.vectorized_axis, n.y.dtype):
        yield Finding(f"{s.api} reads {x.name}, which has other rows", n.name)
        return
    for have, want in zip(x.y.vectorized_strides, n.y.vectorized_strides, strict=True):
        yield from kernel.same(have, want, f"distance of rows of {x.name}", n.name)
    axes = each.y.vectorized_axis
    if axes != n.y.vectorized_axis[: len(axes)] or each.y.dtype != n.y.dtype:
        yield Finding(f"{s.api} reads {each.name}, which has no element for each row", n.name)


def rows_fit(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Iterator[Finding]:
    """Tensors and scratch space lie in their buffers, and rows start at 32-byte addresses."""
    if len(counts) != 2:
        yield Finding(f"{s.api} has {len(counts)} counts", n.name)
        return
    rows, cols = counts
    size = n.y.dtype.itemsize
    used = (
        rows * cols * size,
        rows * cols * size,
        align_up(rows, 8) * size,
        row_bytes(n.y.dtype, rows, cols, kernel.arch),
    )
    locals_ = [a.local for a in s.args if isinstance(a, LocalArg)]
    for local, nbytes in zip(locals_, used, strict=True):
        room = kernel.nbytes.get(kernel.buffer_of(local), ZERO)
        yield from kernel.at_least(room, nbytes, f"bytes of {local} in {s.api}", n.name)
    if rows != 1:
        yield from kernel.multiple(cols * size, kernel.arch.block_bytes, f"rows of {s.api}", n.name)
