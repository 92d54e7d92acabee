"""Short rows: one run in GM, long rows in UB.

A tensor ``[t, k]`` of a few numbers per row, as pairs, boxes or pixels with three channels, is not moved row by row:
every row would be a row of a DMA command and take 32 bytes of UB at least.  All rows of a tile are one run.  In UB the
tensors of the group have ``k`` rows of ``t`` elements: what is loaded is *unlaced*, row ``c`` takes every ``k``-th
element from ``c`` on; what is stored is *laced* again.  Calls of the group then have long rows, what is the same for
a short row lies side by side, and a reduction over ``k`` adds rows.

Of a tile of several long rows each has a run of short ones.  Runs of a whole number of 32-byte blocks lie side by side
in UB; any other ones are as long there as their long rows are with their padding, and rows of a DMA command.

Short rows that lie apart, as the first two of four columns, are loaded with what lies between them: one run of
:mod:`autofuse.schedule.placement.picking`, which others of the same rows share.

``UnlaceByMask`` is GatherMask, for the steps that it has patterns for; ``Unlace`` and ``Lace`` are Gather with a table
of offsets that is made once per core (:mod:`autofuse.schedule.placement.picking`).
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
    """Return the view in which the tile of short rows of a Load or Store is one run in UB, and the elements of a row.

    None if it has no such rows.

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
    strides = contiguous_strides(sizes)
    gm = dict(zip(y.axis, y.strides, strict=True))
    if any(gm[a] != s for a, s in list(zip(order, strides, strict=True))[len(around) :]):
        return None
    # Long rows are one distance apart, so that only the outermost axis may be longer in UB than it is.
    _check_dense(n, (*short, *around[1:]), layout)
    if around and not layout.in_blocks(strides[len(around) - 1] * y.dtype.itemsize):
        # With the padding of its long rows, if they have one, a run is whole blocks.
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
    """Raises TemplateRejectedError where long rows do not lie side by side along some axes."""
    if any(layout.padded(a) for a in axes):
        raise TemplateRejectedError(Wording("rows of {} are padded for another tensor", n))


def apart_view(n: Node, layout: Layout) -> tuple[TensorView, int] | None:
    """Return the view of the first elements of short rows apart in GM that are one run in UB, and a row's elements.

    None if a Load has no such rows, or there are several runs of them.

    Raises:
        TemplateRejectedError: long rows do not lie side by side.
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
    """The op that makes long rows of ``k`` elements that are ``step`` apart in a run, and its attributes."""
    return "UnlaceByMask" if step in PATTERNS else "Unlace", {"k": k, "step": step}


def lacing(k: int) -> tuple[str, dict[str, Attr]]:
    """The op that makes a run of long rows, and its attributes."""
    return "Lace", {"k": k}


def lace_counts(n: Node, source: Node, extent: Callable[[int], Expr]) -> tuple[Expr, ...]:
    """``outer, rows, k, pitch`` of the functions, in elements, and ``step, first`` of rows that lie apart.

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
    # Runs that have the padding of long rows are turned with it.
    padded = at > 0 and run.vectorized_strides[at - 1] == pitch * k
    counts = (outer, pitch if padded else extent(order[at]), k, pitch)
    if n.op == "Lace" or n.attrs["step"] == k.value:
        return counts
    return (*counts, *(const(n.number(name, 0)) for name in ("step", "first")))
