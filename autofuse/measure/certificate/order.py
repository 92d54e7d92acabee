"""Summation order of a kernel, and the sizes that may change the bits of a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.placement.scan import SCAN, scanned_axes
from autofuse.schedule.templates.invariant import depends_on_order

__all__ = ["STATUS", "may_change", "orders"]

#: Evidence that nothing else changes bits.
STATUS = (
    "from the kernel text and the twin; the chip's order of lanes within one instruction is assumed"
)


def may_change(
    graph: FusionGraph, schedule: Sequence[ScheduleResult], invariant: bool
) -> dict[str, Any]:
    """Return the sizes and choices that may change the bits of a row of the results.

    Returns:
        ``sizes``: symbols and fixed sizes of the graph; ``choices``: some of ``cores``, ``ub``, ``template`` and
        ``tile``; ``why``, in words, and ``status``.
    """
    sensitive = [(impl, n) for impl in _impls(schedule) for n in impl.nodes if depends_on_order(n)]
    if not sensitive:
        why = "no result depends on an order: there is no sum of floats"
        return {"sizes": [], "choices": [], "why": why, "status": STATUS}
    reduced = {size: None for impl, n in sensitive for size in _reduced(impl, n)}
    labels = graph.symbol_labels()
    if invariant:
        sizes = _in_words(reduced, labels)
        why = "the order of every sum of floats depends only on the summed elements"
        return {"sizes": sizes, "choices": [], "why": why, "status": STATUS}
    sizes = sorted({*_in_words(reduced, labels), *labels.values()})
    return {
        "sizes": sizes,
        "choices": ["cores", "ub", "template", "tile"],
        "why": "the order of a sum of floats depends on the tile and the template, which the host function "
        "chooses; --invariant builds a kernel in which it depends only on the summed elements",
        "status": STATUS,
    }


def orders(schedule: Sequence[ScheduleResult]) -> list[dict[str, Any]]:
    """Return how each template reduces floats; invariant kernels of a graph with equal orders give equal bits.

    Returns:
        A dict per template and reduction: ``template``, ``group``, ``op``, ``dtype``, ``calls`` (the axes that a call
        reduces, ``inner`` or ``outer``, and its elements), ``loop`` (steps joined one after the other), ``tile``.
    """
    return [row for impl in _impls(schedule) for n in impl.nodes for row in _order(impl, n)]


def _impls(schedule: Sequence[ScheduleResult]) -> Iterator[ImplGraph]:
    for r in schedule:
        for g in r.groups:
            yield from g.impls


def _order(impl: ImplGraph, n: Node) -> Iterator[dict[str, Any]]:
    if not depends_on_order(n):
        return
    source = next((s for s in impl.nodes if s.name in n.inputs[:1]), None)
    if source is None:
        return
    before = source.y.vectorized_axis
    after = set(n.y.vectorized_axis)
    gone = [a for a in before if a not in after]
    calls = []
    if n.op in REDUCES and gone:
        size = {a.id: a.size for a in impl.axes}
        kind = "inner" if before[-1] in gone else "outer"
        calls = [{"along": kind, "elements": str(_product([size[a] for a in gone]))}]
    looped = _goes_on(impl, n)
    yield {
        "template": impl.title,
        "group": impl.group,
        "op": n.op,
        "dtype": n.y.dtype.name,
        "calls": calls,
        "loop": str(impl.tiling.reduce_steps) if looped else "1",
        "tile": str(impl.tiling.opened.granule)
        if impl.suffix == "fixed"
        else impl.tiling.opened.symbol,
    }


def _goes_on(impl: ImplGraph, n: Node) -> bool:
    """Return True if the steps of a reduce loop all add to a result; False for rows that are complete in one step."""
    if impl.r_axis is None or n.op not in REDUCES:
        return impl.r_axis is not None
    return impl.merged_from(impl.r_axis).isdisjoint(n.y.varies())


def _product(sizes: Sequence[Expr]) -> Expr:
    found = Expr.of(1)
    for s in sizes:
        found = found * s
    return found


def _reduced(impl: ImplGraph, n: Node) -> Iterator[Expr]:
    """Yield the sizes of the graph's axes along which a node reduces, or computes running sums."""
    own = {a.id: a for a in impl.axes}
    if n.op == SCAN:
        yield from (own[a].size for a in scanned_axes(n))
        return
    source = next((s for s in impl.nodes if s.name in n.inputs[:1]), None)
    gone = set() if source is None else {*source.y.varies()} - {*n.y.varies()}
    for a in gone:
        yield from _original(impl, a)
    if impl.r_axis is not None and _goes_on(impl, n):
        yield from _original(impl, impl.r_axis)


def _original(impl: ImplGraph, axis: int) -> Iterator[Expr]:
    """Yield the sizes of the original axes of an axis."""
    own = {a.id: a for a in impl.axes}
    if not own[axis].origin:
        yield own[axis].size
    for a in own[axis].origin:
        yield from _original(impl, a)


def _in_words(sizes: Sequence[Expr] | dict[Expr, None], labels: dict[str, str]) -> list[str]:
    """Return symbols by the user's names, and known sizes other than 1."""
    found = set()
    for size in sizes:
        found |= {labels.get(s, s) for s in size.symbols()} or {str(size)}
    return sorted(found - {"1"})
