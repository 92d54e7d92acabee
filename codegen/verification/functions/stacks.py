"""Extents of ``autofuse::StackRows``: row ``(o, r)`` of operand ``c`` is ``(o*k + c)*unit + r`` of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autofuse.codegen.ir.kernel_ir import Call, LocalArg
from autofuse.codegen.verification.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ZERO, Expr, align_up, const, product
from autofuse.implgraph.ir.graph import Node

__all__ = ["is_stack", "stack_covers", "stack_fits"]


def is_stack(s: Call) -> bool:
    """Whether the call places tensors side by side."""
    return s.api == "autofuse::StackRows"


def stack_covers(
    kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Callable[[int], Expr]
) -> Iterator[Finding]:
    """Every operand is all of one column, in a layout that differs from that of the result by the columns only."""
    axes, sources = n.y.vectorized_axis, [kernel.nodes[i] for i in n.inputs]
    own = [i for i, a in enumerate(axes) if a not in sources[0].y.vectorized_axis]
    if len(counts) != 3 or len(own) != 1 or own[0] + 1 == len(axes):
        yield Finding(f"{s.api} does not place rows side by side", n.name)
        return
    outer, row, unit = counts
    at = own[0]
    column, inside, around = axes[at], axes[at + 1 :], axes[:at]
    strides = dict(zip(axes, n.y.vectorized_strides, strict=True))
    k = const(len(sources))
    yield from kernel.same(extent(column), k, f"operands of {s.api}", n.name)
    yield from kernel.same(strides[column], unit, f"distance of columns of {s.api}", n.name)
    yield from kernel.same(outer, product(extent(a) for a in around), f"rows of {s.api}", n.name)
    whole = extent(inside[0]) * strides[inside[0]]
    yield from kernel.same(row, whole, f"elements of a row of {s.api}", n.name)
    wanted = {a: strides[a] for a in inside}
    step = unit
    for a in reversed(around):
        yield from kernel.same(strides[a], step * k, f"distance of rows of {s.api}", n.name)
        wanted[a] = step
        step = step * extent(a)
    for x in sources:
        if x.y.vectorized_axis != (*around, *inside) or x.y.dtype is not n.y.dtype:
            yield Finding(f"{x.name} is no column of {n.name}", n.name)
            continue
        for a, have in zip(x.y.vectorized_axis, x.y.vectorized_strides, strict=True):
            yield from kernel.same(have, wanted[a], f"distance of rows of {x.name}", n.name)


def stack_fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Iterator[Finding]:
    """Columns and operands lie in their buffers, with what follows a row up to the next 32 bytes."""
    if len(counts) != 3:
        return  # a finding of its own
    outer, row, unit = counts
    size = n.y.dtype.itemsize
    last = align_up(row, kernel.arch.block_bytes // size)
    yield from kernel.multiple(unit * size, kernel.arch.block_bytes, f"columns of {s.api}", n.name)
    yield from kernel.at_least(unit, last, f"elements of a column of {s.api}", n.name)
    locals_ = [a.local for a in s.args if isinstance(a, LocalArg)]
    for local, k in zip(locals_, (len(n.inputs), *(1 for _ in n.inputs)), strict=True):
        room = kernel.nbytes.get(kernel.buffer_of(local), ZERO)
        used = ((outer * k - 1) * unit + last) * size
        yield from kernel.at_least(room, used, f"bytes of {local} in {s.api}", n.name)
