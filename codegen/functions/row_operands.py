"""``WithRows``: a tensor [r, c] and an operand with an element per row, [r]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autofuse.codegen.functions.broadcasts import spreads
from autofuse.codegen.functions.definition import (
    DeviceFunction,
    Extent,
    Findings,
    FunctionSite,
    Phases,
    locals_of,
    room_of,
)
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.ir.kernel_ir import Call, Count, Form
from autofuse.implgraph.expr.expression import Expr, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.layout import BLOCK
from autofuse.schedule.functions.scratch import row_bytes
from autofuse.schedule.placement.row_operands import row_extents

if TYPE_CHECKING:
    from autofuse.codegen.verification.model import Kernel

__all__ = ["WITH_ROWS"]


def _call(s: FunctionSite) -> Call:
    """A tensor and an operand that has an element per row of it."""
    each = s.nodes[s.node.inputs[1]]
    rows, cols = row_extents(s.node, each, s.padded(s.node.y))
    return s.made((Count(product(rows)), Count(product(cols))), of=_operation(s.node, ""))


def _operation(n: Node, form: Form) -> tuple[str, ...]:
    return (n.op,)


def _covers(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Extent) -> Findings:
    yield from _same_rows(kernel, s, n)
    yield from spreads(kernel, s, n, kernel.nodes[n.inputs[1]], counts, extent)


def _same_rows(kernel: Kernel, s: Call, n: Node) -> Findings:
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


def _fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Findings:
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
        row_bytes(n.y.dtype, rows, cols),
    )
    locals_ = locals_of(s)
    for local, nbytes in zip(locals_, used, strict=True):
        room = room_of(kernel, local)
        yield from kernel.at_least(room, nbytes, f"bytes of {local} in {s.api}", n.name)
    if rows != 1:
        yield from kernel.multiple(cols * size, BLOCK, f"rows of {s.api}", n.name)


def _phases(s: Call) -> Phases:
    (x, each), (dst, tmp) = s.reads, s.writes
    return (((each,), (tmp,)), ((tmp,), (tmp,)), ((tmp, x), (dst,)))


WITH_ROWS = DeviceFunction("rows", _call, _covers, _fits, _operation, _phases)
