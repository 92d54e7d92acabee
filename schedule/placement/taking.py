"""Gathers of single elements: whole rows in UB, from which one call takes the elements.

An indexed Load reads each position with the scalar unit and issues a DMA command for it.  Where single elements are
gathered, a Load brings the rows of the indexed dimension instead, along an axis of their own, and ``TakeRows``
(``Gather``) takes the elements at the offsets that the index holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from autofuse.base.wording import Wording
from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    Expr,
    align_up,
    product,
    quotient,
)
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.legal.takes import TAKE

__all__ = ["check_takes", "rows_load", "take_counts"]


def rows_load(n: Node, layout: Layout) -> Node:
    """Return a placed Load for which :func:`is_of_rows` holds with the axis of its rows, which start at blocks."""
    y, size = n.y, n.size("row")
    row = layout.split.rows[size]
    pitch = align_up(size, layout.arch.block_bytes // y.dtype.itemsize)
    outer = y.vectorized_axis
    apart = tuple(
        product(layout.extent(a) for a in outer[i + 1 :]) * pitch for i in range(len(outer))
    )
    view = replace(
        y,
        axis=(*y.axis, row),
        repeats=(*y.repeats, size),
        strides=(*y.strides, ONE),
        vectorized_axis=(*outer, row),
        vectorized_strides=(*apart, ONE),
    )
    nest = (*(a for a in n.axis if a not in outer), *view.vectorized_axis)
    return replace(n, y=view, axis=nest)


def check_takes(nodes: Iterable[Node], layout: Layout) -> None:
    """Check that every ``TakeRows`` finds its elements together in the tile, in rows that start at blocks.

    Raises:
        TemplateRejectedError: one does not.
    """
    named = {n.name: n for n in nodes}
    for n in named.values():
        if n.op != TAKE:
            continue
        rows, offsets = (named[i] for i in n.inputs)
        axes, outer = n.y.vectorized_axis, rows.y.vectorized_axis[:-1]
        own = axes[len(outer) :]
        if not own or axes[: len(outer)] != outer:
            raise TemplateRejectedError(
                Wording("elements of a row of {} are apart in the tile", rows)
            )
        if offsets.y.vectorized_axis not in (own, axes):
            raise TemplateRejectedError(
                Wording("the index of {} varies along some of the axes of its rows", n)
            )
        if not _starts_at_blocks(n.y, layout):
            raise TemplateRejectedError(
                Wording("rows of {} do not start at addresses that are multiples of 32", n)
            )


def _starts_at_blocks(y: TensorView, layout: Layout) -> bool:
    """Return True if rows are padded, a multiple of blocks by a condition, or known to be one."""
    last = y.vectorized_axis[-1]
    if last == layout.split.vector[-1] or last in layout.pitches:
        return True
    return all(layout.in_blocks(s * y.dtype.itemsize) for s in y.vectorized_strides[:-1])


def take_counts(
    n: Node, source: Node, offsets: Node, extent: Callable[[int], Expr]
) -> tuple[Expr, ...]:
    """Return ``outer, rows, cols, pitch, to, from, at`` of the function, in elements.

    Args:
        n: the node.
        source: the rows.
        offsets: the offsets of the elements in them.
        extent: iterations of a vectorised axis in this tile.
    """
    y = n.y
    count = len(source.y.vectorized_axis) - 1
    outer, own, strides = y.vectorized_axis[:count], y.vectorized_axis[count:], y.vectorized_strides
    groups, to, start = ONE, ZERO, ZERO
    if outer:
        to, start = strides[count - 1], source.y.vectorized_strides[count - 1]
        groups = quotient(extent(outer[0]) * strides[0], to)
    at = to if offsets.y.vectorized_axis == y.vectorized_axis else ZERO
    if _is_one_run(y, own, extent):
        return groups, ONE, extent(own[0]) * strides[count], ZERO, to, start, at
    pitch = strides[-2]
    rows = quotient(extent(own[0]) * strides[count], pitch)
    return groups, rows, extent(own[-1]), pitch, to, start, at


def _is_one_run(y: TensorView, own: Sequence[int], extent: Callable[[int], Expr]) -> bool:
    """Return True if nothing lies between the elements of a tile along its last axes."""
    sizes = dict(zip(y.axis, y.repeats, strict=True))
    strides = y.vectorized_strides[len(y.vectorized_axis) - len(own) :]
    return all(
        extent(a) == sizes[a] and above == below * sizes[a]
        for (above, below), a in zip(pairwise(strides), own[1:], strict=True)
    )
