"""``BroadcastInner`` and ``BroadcastOuter``: [o] -> [o, m] and [o, i] -> [o, m, i] in UB."""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Call, Count, Phases
from autofuse.implgraph.expr.expression import ONE, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.placement.row_operands import broadcast_run

__all__ = ["FUNCTIONS", "spreads"]


def _call(s: FunctionSite) -> Call:
    """Return the call if one run of axes is new."""
    run, extents = broadcast_run(s.node, s.source), s.padded(s.node.y)
    counts = [product(extents[: run[0]]), product(extents[run[0] : run[-1] + 1])]
    if run[-1] + 1 == len(extents):
        return s.made(map(Count, counts), "Inner")
    return s.made(map(Count, (*counts, product(extents[run[-1] + 1 :]))), "Outer")


def _covers(p: Proof) -> Findings:
    return spreads(p, p.source)


def spreads(p: Proof, source: Node) -> Findings:
    """Check ``[outer, 1, inner] -> [outer, mid, inner]``: the new axes are in place, and cover the tile."""
    y, run = p.n.y, broadcast_run(p.n, source)
    outer, mid, inner = (*p.counts, ONE)[:3]
    strides, needed = y.vectorized_strides, p.span(y)
    if not run:
        yield p.wrong(f"{p.api} makes no new axis")
        return
    yield from p.same(inner, strides[run[-1]], f"elements of {p.api} that are repeated")
    if run[0] > 0:
        yield from p.same(mid * inner, strides[run[0] - 1], f"elements of a row of {p.api}")
    # Larger than the tile if rows are padded and this one is the only row.
    yield from p.at_least(product(p.counts), needed, f"elements of {p.api}")
    if run[0] > 0 or run[-1] + 1 < len(strides):
        yield from p.same(outer * mid * inner, needed, f"elements of {p.api}, outer x mid x inner")
    yield from p.at_least(outer * inner, p.span(source.y), f"{p.api} reads all of {source.name}")


def _fits(p: Proof) -> Findings:
    """Check that operand, result and scratch space fit their buffers, with rows at 32-byte addresses."""
    outer, *_, last = p.counts
    size, made = p.n.y.dtype.itemsize, product(p.counts)
    if p.call.form == "Inner":
        # Elements are spread in groups of eight, to 32 bytes each.
        eights = align_up(outer, 8)
        yield from p.fit((made * size, eights * size, eights * p.block))
    else:
        yield from p.fit((made * size, outer * last * size))
    if product(p.counts[:-1]) != 1:
        yield from p.aligned(last * size, f"rows of {p.api}")


def _phases(s: Call) -> Phases:
    if s.form == "Outer":
        return ((s.reads, s.writes),)
    dst, tmp = s.writes
    return ((s.reads, (tmp,)), ((tmp,), (dst,)))


FUNCTIONS = {"Broadcast": DeviceFunction("", _call, _covers, _fits, phases=_phases)}
