"""``BroadcastInner`` and ``BroadcastOuter``: [o] -> [o, m] and [o, i] -> [o, m, i] in UB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autofuse.codegen.functions.definition import (
    DeviceFunction,
    Extent,
    Findings,
    FunctionSite,
    Phases,
    locals_of,
    room_of,
    span,
)
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.ir.kernel_ir import Call, Count
from autofuse.implgraph.expr.expression import ONE, Expr, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.layout import BLOCK
from autofuse.schedule.placement.row_operands import broadcast_run

if TYPE_CHECKING:
    from autofuse.codegen.verification.model import Kernel

__all__ = ["BROADCAST", "spreads"]


def _call(s: FunctionSite) -> Call:
    """One run of axes appears."""
    run, extents = broadcast_run(s.node, s.source), s.padded(s.node.y)
    counts = [product(extents[: run[0]]), product(extents[run[0] : run[-1] + 1])]
    if run[-1] + 1 == len(extents):
        return s.made(map(Count, counts), "Inner")
    return s.made(map(Count, (*counts, product(extents[run[-1] + 1 :]))), "Outer")


def _covers(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Extent) -> Findings:
    return spreads(kernel, s, n, kernel.nodes[n.inputs[0]], counts, extent)


def spreads(
    kernel: Kernel, s: Call, n: Node, source: Node, counts: Sequence[Expr], extent: Extent
) -> Findings:
    """[outer, 1, inner] -> [outer, mid, inner]: the new axes in their place, and all of the tile."""
    y, run = n.y, broadcast_run(n, source)
    outer, mid, inner = (*counts, ONE)[:3]
    strides, needed = y.vectorized_strides, span(y, extent)
    if not run:
        yield Finding(f"{s.api} makes no new axis", n.name)
        return
    yield from kernel.same(
        inner, strides[run[-1]], f"elements of {s.api} that are repeated", n.name
    )
    if run[0] > 0:
        yield from kernel.same(
            mid * inner, strides[run[0] - 1], f"elements of a row of {s.api}", n.name
        )
    # More than the tile where rows are padded and this one is the only row.
    yield from kernel.at_least(product(counts), needed, f"elements of {s.api}", n.name)
    if run[0] > 0 or run[-1] + 1 < len(strides):
        yield from kernel.same(
            outer * mid * inner, needed, f"elements of {s.api}, outer x mid x inner", n.name
        )
    yield from kernel.at_least(
        outer * inner, span(source.y, extent), f"{s.api} reads all of {source.name}", n.name
    )


def _fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Findings:
    locals_ = locals_of(s)
    rooms = [room_of(kernel, x) for x in locals_]
    size = n.y.dtype.itemsize
    yield from kernel.at_least(
        rooms[0], product(counts) * size, f"bytes of {locals_[0]} in {s.api}", n.name
    )
    if s.form == "Inner":
        rows, cols = counts
        eights = align_up(rows, 8)
        yield from kernel.at_least(
            rooms[1], eights * size, f"bytes of {locals_[1]} in {s.api}", n.name
        )
        yield from kernel.at_least(rooms[2], eights * BLOCK, f"scratch space of {s.api}", n.name)
        if rows != 1:
            yield from kernel.multiple(cols * size, BLOCK, f"rows of {s.api}", n.name)
        return
    outer, mid, inner = counts
    yield from kernel.at_least(
        rooms[1], outer * inner * size, f"bytes of {locals_[1]} in {s.api}", n.name
    )
    if outer != 1 or mid != 1:
        yield from kernel.multiple(inner * size, BLOCK, f"rows of {s.api}", n.name)


def _phases(s: Call) -> Phases:
    if s.form == "Outer":
        return ((s.reads, s.writes),)
    dst, tmp = s.writes
    return ((s.reads, (tmp,)), ((tmp,), (dst,)))


BROADCAST = DeviceFunction("", _call, _covers, _fits, phases=_phases)
