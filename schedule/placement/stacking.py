"""Combines columns that several Stores of a group write, pieces of short rows, into one Store of a stacked tensor.

Separately computed columns, such as the halves of an interleaved rotation or the corners of boxes, are strided in GM:
their Stores would move single elements.  ``Stack`` places them side by side in UB, as the long rows of one tensor,
whose Store is that of short rows (:mod:`autofuse.schedule.placement.lacing`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Attr, Axis, Node, TensorView
from autofuse.schedule.axes.tiling_axes import GroupInput
from autofuse.schedule.legal.ends import is_sink

__all__ = ["STACK", "columns_of", "stack_counts", "stacked"]

#: The op that places tensors side by side.
STACK = "Stack"


@dataclass(frozen=True, slots=True)
class _Columns:
    """Stores of one output or workspace that differ only in their offsets, ``step`` elements apart."""

    stores: tuple[Node, ...]
    step: int

    @property
    def first(self) -> Node:
        return self.stores[0]


def stacked(g: GroupInput) -> GroupInput | None:
    """Return the group with an axis for columns that several Stores write: one Store of their Stack replaces these.

    That axis is the last of its ``axes``.  None if there are no such columns, or two tensors have different numbers of
    them.
    """
    found = _columns(g.nodes)
    counts = {len(c.stores) for c in found}
    if len(counts) != 1:
        return None
    size = const(counts.pop())
    name = "column"
    while any(a.name == name for a in g.axes):
        name += "_"
    number = Axis(len(g.axes), name, size)
    at = min(_place(g.order, c) for c in found)

    def view(y: TensorView, repeat: Expr = ONE, stride: Expr = ZERO) -> TensorView:
        if y.axis != g.order:
            return y
        axis, repeats, strides = (
            (*old[:at], new, *old[at:])
            for old, new in ((y.axis, number.id), (y.repeats, repeat), (y.strides, stride))
        )
        return replace(y, axis=axis, repeats=repeats, strides=strides)

    # All stored tensors are known once the last column is.
    after = {max(c.stores, key=g.nodes.index).name: c for c in found}
    gone = {n.name for c in found for n in c.stores}
    nodes: list[Node] = []
    for n in g.nodes:
        if n.name in after:
            c = after[n.name]
            y = view(c.first.y, size, const(c.step))
            stack = replace(
                c.first,
                name=f"{c.first.name}_stack",
                op=STACK,
                inputs=tuple(m.inputs[0] for m in c.stores),
                y=replace(y, offset=ZERO, mem=None),
            )
            attrs = {**c.first.attrs, "columns": len(c.stores)}
            nodes += [stack, replace(c.first, inputs=(stack.name,), y=y, attrs=attrs)]
        elif n.name not in gone:
            nodes.append(replace(n, y=view(n.y)))
    kept = {c.first.name: c for c in found}
    sinks = {n.name: _sink(n, gone, kept) for n in nodes if is_sink(n)}
    order = (*g.order[:at], number.id, *g.order[at:])
    made = (sinks.get(n.name, n) for n in nodes)
    return replace(
        g,
        axes=(*g.axes, number),
        order=order,
        nodes=tuple(n for n in made if n is not None),
    )


def _columns(nodes: Sequence[Node]) -> list[_Columns]:
    """Return the evenly spaced columns that the group writes, in column order."""
    named = {n.name: n for n in nodes}
    stores: dict[tuple[str, Attr], list[Node]] = {}
    for sink in filter(is_sink, nodes):
        into = stores.setdefault((sink.op, sink.attrs["index"]), [])
        into += [named[i] for i in sink.inputs if i in named]
    made = (_evenly_apart(found, named) for found in stores.values() if len(found) > 1)
    return [c for c in made if c is not None]


def _evenly_apart(stores: Sequence[Node], named: Mapping[str, Node]) -> _Columns | None:
    """Return the Stores as columns if they differ only in their offsets, by multiples of one number."""
    base = stores[0].y
    places: list[tuple[int, Node]] = []
    for n in stores:
        apart = (n.y.offset - base.offset).as_int()
        alike = replace(n.y, offset=base.offset) == base
        if apart is None or not alike or named[n.inputs[0]].y.repeats != base.repeats:
            return None
        places.append((apart, n))
    places.sort(key=lambda row: row[0])
    steps = {b - a for (a, _), (b, _) in pairwise(places)}
    if len(steps) != 1 or 0 in steps:
        return None
    return _Columns(tuple(n for _, n in places), steps.pop())


def _place(order: Sequence[int], c: _Columns) -> int:
    """Return the position of the column axis: outside the axes within one column."""
    y = c.first.y
    strides = dict(zip(y.axis, y.strides, strict=True))
    inside = (
        i
        for i, a in enumerate(order)
        if y.varies_along(a) and strides[a].is_const and strides[a].value < c.step
    )
    return next(inside, len(order))


def _sink(n: Node, gone: Collection[str], kept: Mapping[str, _Columns]) -> Node | None:
    """Return a sink with its remaining Stores, or None if it loses all."""
    inputs = tuple(i for i in n.inputs if i in kept or i not in gone)
    if not inputs:
        return None
    fewer = sum(len(kept[i].stores) - 1 for i in inputs if i in kept)
    pieces = n.number("pieces", 1) - fewer
    attrs = {k: v for k, v in n.attrs.items() if k != "pieces"}
    return replace(n, inputs=inputs, attrs=attrs | ({"pieces": pieces} if pieces > 1 else {}))


def columns_of(store: Node) -> int:
    """Return the number of pieces of an output that a Store writes."""
    return store.number("columns", 1)


def stack_counts(n: Node, extent: Callable[[int], Expr], source: Node) -> tuple[Expr, ...]:
    """Return ``outer, row, unit`` of the function, in elements.

    Args:
        n: the node.
        extent: iterations of a vectorised axis in this tile.
        source: one of its operands.
    """
    axes = n.y.vectorized_axis
    at = next(i for i, a in enumerate(axes) if a not in source.y.vectorized_axis)
    outer = product(extent(a) for a in axes[:at])
    unit = n.y.vectorized_strides[at]
    # With several rows, the last one is copied including its padding.
    return outer, extent(axes[at + 1]) * n.y.vectorized_strides[at + 1], unit
