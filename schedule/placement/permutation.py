"""Multi-dimensional loads: the DMA itself moves every element to its position in the tile.

Each dimension has its own strides in GM and UB.  Otherwise a Load whose contiguous axis in GM differs from that of the
tile is moved in rows, padded, and transposed in UB (:mod:`autofuse.schedule.placement.transposition`); 64-bit elements
move one by one, since no call transposes them, and stores may have short rows.  The command is slow: it is for GM runs
of whole cache lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, Expr, const, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Condition, Node, TensorView
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.targets import Architecture

__all__ = ["is_permuted", "permuted_load", "stride_limits"]


def is_permuted(n: Node) -> bool:
    """Return True if a Load is a multi-dimensional command."""
    return n.op == "Load" and bool(n.attrs.get("permuted"))


def _is_one_run(y: TensorView, layout: Layout) -> bool:
    """Return True if the tile of a Load has the same layout in GM and UB."""
    gm = dict(zip(y.axis, y.strides, strict=True))
    inside = zip(y.vectorized_axis, y.vectorized_strides, strict=True)
    return not layout.pitches and all(gm[a] == s for a, s in inside)


def _is_in_rows(y: TensorView, layout: Layout) -> bool:
    """Return True if the tile of a Load consists of contiguous rows that start at UB blocks."""
    gm = dict(zip(y.axis, y.strides, strict=True))
    outer = y.vectorized_strides[:-1]
    return gm[y.vectorized_axis[-1]] == 1 and all(
        layout.in_blocks(s * y.dtype.itemsize) for s in outer
    )


def permuted_load(n: Node, layout: Layout) -> Node:
    """Return the Load as one multi-dimensional command; unchanged if it is one run, or rows.

    Raises:
        TemplateRejectedError: it has more dimensions than a command, goes backwards, is indexed, or its runs in GM are
            not known to be cache lines.
    """
    y, arch = n.y, layout.arch
    gm = dict(zip(y.axis, y.strides, strict=True))
    if not y.vectorized_axis or _is_one_run(y, layout) or _is_in_rows(y, layout):
        return n
    if len(y.vectorized_axis) > arch.dma_dims:
        raise TemplateRejectedError(
            Wording(
                "{} has {} in a tile; a load has {} at most",
                n,
                counted(len(y.vectorized_axis), "dimension"),
                arch.dma_dims,
            )
        )
    if len(n.inputs) > 1 or any(c < 0 for a in y.vectorized_axis for _, c in gm[a].terms):
        raise TemplateRejectedError(Wording("{} has a negative stride or an index", n))
    nbytes = _run(y, layout) * y.dtype.itemsize
    known = nbytes.as_int()
    if known is None or known < arch.cache_line_bytes:
        raise TemplateRejectedError(
            Wording(
                "{} loads contiguous runs of {}, which may be shorter than {}",
                n,
                counted(nbytes, "byte"),
                arch.cache_line_bytes,
            )
        )
    return replace(n, attrs={**n.attrs, "permuted": True})


def _run(y: TensorView, layout: Layout) -> Expr:
    """Return the length of contiguous runs in GM: the minimum within a tile, or that of axes that are whole in it."""
    gm, tile_in = dict(zip(y.axis, y.strides, strict=True)), layout.split.tile_in
    left = [a for a in y.vectorized_axis if a != tile_in]
    found = const(layout.permuting) if tile_in in y.vectorized_axis and gm[tile_in] == 1 else ONE
    while (a := next((a for a in left if gm[a] == found), None)) is not None:
        left.remove(a)
        found = product((found, layout.split.sizes[a]))
    return found


def stride_limits(
    n: Node, ranges: Mapping[str, tuple[int, int]], arch: Architecture
) -> list[Condition]:
    """Return conditions that keep the GM strides of a Load within the limits of a command, where size ranges do not."""
    strides, most = dict(zip(n.y.axis, n.y.strides, strict=True)), arch.dma_dim_stride_max
    far = [
        s for a, s in strides.items() if a in n.y.vectorized_axis and bounds(s, ranges)[1] > most
    ]
    return [Condition(s, at_most=most) for s in far]
