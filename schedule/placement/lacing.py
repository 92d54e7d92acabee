"""Short rows: one run in GM, long rows in UB.

A tensor ``[t, k]`` with few numbers per row, such as pairs, boxes or three-channel pixels, is not moved row by row:
every row would be a row of a DMA command and take at least 32 bytes of UB.  All rows of a tile are one run.  In UB the
tensors of the group have ``k`` rows of ``t`` elements: loaded data are *unlaced*, row ``c`` taking every ``k``-th
element from ``c`` on; stored data are *laced* again.  Calls of the group then have long rows, values common to a short
row are contiguous, and a reduction over ``k`` adds rows.

In a tile of several long rows, each has a run of short ones.  Runs of whole 32-byte blocks are contiguous in UB; other
runs are as long there as their padded long rows, and are rows of a DMA command.

Short rows with gaps, such as the first two of four columns, are loaded with the gaps: one run of
:mod:`autofuse.schedule.placement.picking`, shared by other loads of the same rows.

``UnlaceByMask`` is GatherMask, for steps that it has patterns for; ``Unlace`` and ``Lace`` are Gather with a table of
offsets that is built once per core (:mod:`autofuse.schedule.placement.picking`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Attr, Node, TensorView
from autofuse.implgraph.ir.iteration_space import contiguous_strides
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.placement.picking import PATTERNS

__all__ = ["apart_view", "dense_view", "lace_counts", "lacing", "unlacing"]


def dense_view(n: Node, layout: Layout) -> tuple[TensorView, int] | None:
    """Return the view in which a tile of short rows of a Load or Store is one run in UB, and the elements of a row.

    None if it has no such rows.

    Raises:
        TemplateRejectedError: runs of several rows of the tile would not start at 32-byte addresses, or long rows are
            not contiguous.
    """
    y, axes = n.y, n.y.vectorized_axis
    short = tuple(a for a in axes if a in layout.short)
    if not short or axes[-1] in short:
        return None
    around = tuple(a for a in axes[:-1] if a not in short)
    order = (*around, axes[-1], *short)
    sizes = [layout.split.sizes[a] for a in order]
    strides = contiguous_strides(sizes)
    gm = dict(zip(y.axis, y.strides, strict=True))
    if any(gm[a] != s for a, s in list(zip(order, strides, strict=True))[len(around) :]):
        return None
    # Long rows are equally spaced, so only the outermost axis may be longer in UB than it is.
    _check_dense(n, (*short, *around[1:]), layout)
    if around and not layout.in_blocks(strides[len(around) - 1] * y.dtype.itemsize):
        # Including the padding of its long rows, a run is whole blocks.
        sizes[len(around)] = layout.extent(axes[-1])
        strides = contiguous_strides(sizes)
        nbytes = strides[len(around) - 1] * y.dtype.itemsize
        if not layout.in_blocks(nbytes):
            raise TemplateRejectedError(
                Wording(
                    "runs of {} of {} would not start at {}-byte addresses",
                    counted(nbytes, "byte"),
                    n,
                    layout.arch.block_bytes,
                )
            )
    k = product(layout.split.sizes[a] for a in short)
    return replace(y, vectorized_axis=order, vectorized_strides=strides), k.value


def _check_dense(n: Node, axes: Sequence[int], layout: Layout) -> None:
    """Raise TemplateRejectedError if long rows are not contiguous along some axes."""
    if any(layout.padded(a) for a in axes):
        raise TemplateRejectedError(Wording("rows of {} are padded for another tensor", n))


def apart_view(n: Node, layout: Layout) -> tuple[TensorView, int] | None:
    """Return the view of the first elements of short rows with gaps in GM that are one run in UB, and a row's elements.

    None if a Load has no such rows, or there are several runs of them.

    Raises:
        TemplateRejectedError: long rows are not contiguous.
    """
    y, axes = n.y, n.y.vectorized_axis
    short = tuple(a for a in axes if a in layout.short)
    if n.op != "Load" or len(n.inputs) > 1 or not short or len(axes) != len(short) + 1:
        return None
    gm = dict(zip(y.axis, y.strides, strict=True))
    sizes = layout.split.sizes
    inner = contiguous_strides([sizes[a] for a in short])
    k, step = product(sizes[a] for a in short), gm[axes[-1]].as_int()
    if (
        step is None
        or step <= k.value
        or any(gm[a] != s for a, s in zip(short, inner, strict=True))
    ):
        return None
    _check_dense(n, short, layout)
    own = zip(y.axis, y.repeats, y.strides, strict=True)
    repeats, strides = zip(*((ONE, ZERO) if a in short else (r, s) for a, r, s in own), strict=True)
    view = replace(
        y,
        repeats=repeats,
        strides=strides,
        vectorized_axis=axes[-1:],
        vectorized_strides=(const(step),),
    )
    return view, k.value


def unlacing(k: int, step: int) -> tuple[str, dict[str, Attr]]:
    """Return the op that makes long rows from ``k`` elements that are ``step`` apart in a run, and its attributes."""
    return "UnlaceByMask" if step in PATTERNS else "Unlace", {"k": k, "step": step}


def lacing(k: int) -> tuple[str, dict[str, Attr]]:
    """Return the op that makes a run from long rows, and its attributes."""
    return "Lace", {"k": k}


def lace_counts(n: Node, source: Node, extent: Callable[[int], Expr]) -> tuple[Expr, ...]:
    """Return ``outer, rows, k, pitch`` of the functions, in elements, and ``step, first`` for rows with gaps.

    Args:
        n: the node.
        source: its operand.
        extent: iterations of a vectorised axis in this tile.
    """
    run, rows = (n.y, source.y) if n.op == "Lace" else (source.y, n.y)
    order = run.vectorized_axis
    at = order.index(rows.vectorized_axis[-1])
    outer, k = product(extent(a) for a in order[:at]), const(n.number("k"))
    pitch = rows.vectorized_strides[-2]
    # Runs with the padding of long rows are transposed including it.
    padded = at > 0 and run.vectorized_strides[at - 1] == pitch * k
    counts = (outer, pitch if padded else extent(order[at]), k, pitch)
    if n.op == "Lace" or n.attrs["step"] == k.value:
        return counts
    return (*counts, *(const(n.number(name, 0)) for name in ("step", "first")))
