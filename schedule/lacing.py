"""Short rows: one run in GM, long rows in UB.

A tensor ``[t, k]`` of a few numbers per row, as pairs, boxes or pixels with three channels, is not moved row by row:
every row would be a row of a DMA command and take 32 bytes of UB at least.  All rows of a tile are one run.  In UB the
tensors of the group have ``k`` rows of ``t`` elements: what is loaded is *unlaced*, row ``c`` takes every ``k``-th
element from ``c`` on; what is stored is *laced* again.  Calls of the group then have long rows, what is the same for
a short row lies side by side, and a reduction over ``k`` adds rows.

``UnlaceByMask`` is GatherMask, for the steps that it has patterns for; ``Unlace`` and ``Lace`` are Gather with a table
of offsets that is made once per core (:mod:`autofuse.schedule.picking`).
"""

from __future__ import annotations

from collections.abc import Callable

from autofuse.implgraph.expr import CeilDiv, Expr, const, product
from autofuse.implgraph.frozen import replace
from autofuse.implgraph.graph import Node, TensorView
from autofuse.schedule.layout import BLOCK, Layout
from autofuse.schedule.rejection import TemplateRejectedError

__all__ = ["LACES", "PATTERNS", "dense_view", "lace_counts", "short_rows"]

#: Calls that turn a run into long rows, and back.
LACES = frozenset({"Lace", "Unlace", "UnlaceByMask"})
#: Lengths of rows for which GatherMask has a pattern.
PATTERNS = (2, 4)


def dense_view(n: Node, layout: Layout) -> TensorView | None:
    """How the tile of a Load or Store of short rows lies in UB as one run; None if it has no such rows.

    Raises:
        TemplateRejectedError: runs of several rows of the tile would not start at 32-byte addresses, or long rows do
            not lie side by side.
    """
    y, axes = n.y, n.y.vectorized_axis
    short = tuple(a for a in axes if a in layout.short)
    if not short or axes[-1] in short:
        return None
    around = tuple(a for a in axes[:-1] if a not in short)
    order = (*around, axes[-1], *short)
    sizes = [layout.split.sizes[a] for a in order]
    strides = tuple(product(sizes[i + 1 :]) for i in range(len(order)))
    gm = dict(zip(y.axis, y.strides, strict=True))
    if any(gm[a] != s for a, s in list(zip(order, strides, strict=True))[len(around) :]):
        return None
    if any(layout.padded(a) for a in short):
        raise TemplateRejectedError(f"short rows of {n.name} are padded for another tensor")
    if around:
        nbytes = strides[len(around) - 1] * y.dtype.itemsize
        if CeilDiv(nbytes, const(BLOCK)) * BLOCK != nbytes:
            raise TemplateRejectedError(
                f"runs of {nbytes} bytes of {n.name} would not start at 32-byte addresses"
            )
    return replace(y, vectorized_axis=order, vectorized_strides=strides)


def short_rows(y: TensorView, layout: Layout) -> int:
    """Elements of the rows of a view that :func:`dense_view` gives; 0 for another one."""
    axes = y.vectorized_axis
    short = [a for a in axes if a in layout.short]
    if not short or len(short) == len(axes) or axes[-len(short) :] != tuple(short):
        return 0
    k = product(layout.split.sizes[a] for a in short)
    dense = y.vectorized_strides[-1] == 1 and y.vectorized_strides[-len(short) - 1] == k
    return k.value if dense else 0


def lace_counts(
    dense: TensorView, rows: TensorView, extent: Callable[[int], Expr]
) -> tuple[Expr, Expr, Expr, Expr]:
    """``outer, rows, k, pitch`` of the functions, in elements.

    Args:
        dense: the run.
        rows: the long rows.
        extent: iterations of a vectorised axis in this tile.
    """
    order = dense.vectorized_axis
    at = order.index(rows.vectorized_axis[-1])
    outer, k = (product(extent(a) for a in axes) for axes in (order[:at], order[at + 1 :]))
    return outer, extent(order[at]), k, rows.vectorized_strides[-2]
