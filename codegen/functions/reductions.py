"""``ReduceInner`` and ``ReduceOuter``: [o, r] -> [o] and [o, r, i] -> [o, i] in UB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autofuse.codegen.functions.definition import (
    DeviceFunction,
    Extent,
    Findings,
    FunctionSite,
    locals_of,
    room_of,
    span,
)
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.ir.kernel_ir import Call, Count, Form
from autofuse.implgraph.expr.expression import ONE, Expr, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.layout import BLOCK
from autofuse.schedule.functions.scratch import reduce_inner_bytes, reduce_outer_bytes

if TYPE_CHECKING:
    from autofuse.codegen.verification.model import Kernel

__all__ = ["REDUCE"]


def _call(s: FunctionSite) -> Call:
    """One run of axes goes."""
    y, left = s.source.y, set(s.node.y.vectorized_axis)
    run = [i for i, a in enumerate(y.vectorized_axis) if a not in left]
    outer = product(s.padded(y)[: run[0]])
    length = product(s.extent(y.vectorized_axis[i]) for i in run)
    of = _operation(s.node, "")
    if run[-1] + 1 < len(y.vectorized_axis):
        return s.made(map(Count, (outer, length, y.vectorized_strides[run[-1]])), "Outer", of)
    # Padding, if there is any, is behind all elements of the run.
    pitch = y.vectorized_strides[run[0] - 1] if run[0] else None
    if pitch is None:
        whole_run = product(s.extents.in_ub(y, i, True) for i in run)
        pitch = align_up(whole_run, BLOCK // y.dtype.itemsize)
    return s.made(map(Count, (outer, length, pitch)), "Inner", of)


def _operation(n: Node, form: Form) -> tuple[str, ...]:
    return (f"{n.op.removeprefix('Reduce')}Of",)


def _covers(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Extent) -> Findings:
    """The axes that go are those that the call reduces, all of the tile and nothing of its padding."""
    y, left = kernel.nodes[n.inputs[0]].y, set(n.y.vectorized_axis)
    run = [i for i, a in enumerate(y.vectorized_axis) if a not in left]
    if len(counts) != 3 or not run or run != list(range(run[0], run[-1] + 1)):
        yield Finding(f"{s.api} reduces no run of axes", n.name)
        return
    outer, length, third = counts
    strides = y.vectorized_strides
    sizes = [extent(a) for a in y.vectorized_axis]
    result, source = span(n.y, extent), span(y, extent)
    for i in run[:-1]:
        below = sizes[i + 1] * strides[i + 1]
        yield from kernel.same(strides[i], below, f"rows of {s.api} without padding", n.name)
    if (run[-1] + 1 < len(strides)) != (s.form == "Outer"):
        yield Finding(f"{s.api} reduces other axes than {n.name}", n.name)
        return
    if s.form == "Outer":
        yield from kernel.same(third, strides[run[-1]], f"elements of a row of {s.api}", n.name)
        yield from kernel.same(
            length, product(sizes[i] for i in run), f"rows that {s.api} reduces", n.name
        )
        if run[0] > 0:
            yield from kernel.same(
                length * third, strides[run[0] - 1], f"elements between results of {s.api}", n.name
            )
        yield from kernel.same(outer * length * third, source, f"elements of {s.api}", n.name)
        yield from kernel.at_least(outer * third, result, f"results of {s.api}", n.name)
        return
    yield from kernel.same(
        length, product(sizes[i] for i in run), f"elements that {s.api} reduces", n.name
    )
    if run[0] > 0:
        yield from kernel.same(third, strides[run[0] - 1], f"pitch of {s.api}", n.name)
        yield from kernel.same(outer * third, source, f"elements of {s.api}", n.name)
    else:
        yield from kernel.same(outer, ONE, f"rows of {s.api}", n.name)
    yield from kernel.at_least(outer, result, f"results of {s.api}", n.name)


def _fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Findings:
    """Source, result and scratch space lie in their buffers, rows at 32-byte addresses, and no row is empty."""
    if len(counts) != 3:
        return  # a finding of its own
    locals_ = locals_of(s)
    rooms = [room_of(kernel, x) for x in locals_]
    outer, length, third = counts
    dtype = n.y.dtype
    size = dtype.itemsize
    yield from kernel.at_least(length, ONE, f"elements that {s.api} reduces", n.name)
    yield from kernel.multiple(third * size, BLOCK, f"rows of {s.api}", n.name)
    if s.form == "Outer":
        used = (outer * third * size, outer * length * third * size)
        scratch = reduce_outer_bytes(dtype, outer, length, third)
    else:
        yield from kernel.at_least(third, length, f"pitch of {s.api}", n.name)
        used = (align_up(outer * size, BLOCK), outer * third * size)
        scratch = reduce_inner_bytes(n.op, dtype, outer, length, third)
    for local, room, nbytes in zip(locals_, rooms, used, strict=False):
        yield from kernel.at_least(room, nbytes, f"bytes of {local} in {s.api}", n.name)
    yield from kernel.at_least(rooms[2], scratch, f"scratch space of {s.api}", n.name)


REDUCE = DeviceFunction("reduce", _call, _covers, _fits, _operation)
