"""Number of elements that a reduce loop has processed."""

from __future__ import annotations

from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, product, sym
from autofuse.implgraph.ir.graph import AxisType, ImplGraph
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["elements_done"]


def elements_done(impl: ImplGraph, actual: str, *, after: bool) -> Expr:
    """Return the number of elements along the reduced axes processed when an iteration begins, or ends.

    Args:
        impl: template with a reduce loop.
        actual: variable for the length of a tile, which may be a tail.
        after: include the elements of this iteration.

    Returns:
        An expression in the indices of the loop, which are variables with the names of the axes.
    """
    assert impl.r_axis is not None
    spec, axes = impl.tiling, impl.axes
    loop, tile_in = axes[impl.r_axis], impl.tile(AxisType.TILE_IN)
    tile_out = impl.tile(AxisType.TILE_OUT)
    inner = product(axes[a].size for a in _reduced_inside(impl) - {tile_in.id})
    parts = [axes[a] for a in loop.origin] if loop.type is AxisType.MERGED else [loop]
    done, below = ZERO, ONE
    for part in reversed(parts):
        tiles = part.id == tile_out.id
        done = done + sym(part.name) * (sym(spec.opened.symbol) if tiles else below)
        below = below * (spec.opened.extent if tiles else part.size)
    if after:
        done = done + (sym(actual) if spec.reduce_tiles else ONE)
    return done * inner


def _reduced_inside(impl: ImplGraph) -> set[int]:
    """Return the axes within one call that reductions reduce."""
    nodes = impl.by_name()
    found: set[int] = set()
    for n in impl.nodes:
        if n.op in REDUCES:
            source = nodes[n.inputs[0]].y
            found |= set(source.vectorized_axis) - set(n.y.vectorized_axis)
    return found
