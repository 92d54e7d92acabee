"""Legal tiles, and the sizes at which symbolic kernels are compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from autofuse.base import tiling
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph, TilingSpec

__all__ = ["fits_every_size", "largest_tile", "sample_env", "smallest_tile", "takes_every_size"]

#: A number of UB bytes above any limit.
_MOST = 1 << 62


def sample_env(graph: HintGraph | ImplGraph) -> dict[str, int]:
    """Return typical values of a graph's symbols: the hints, else 1024, within the ranges."""
    return {s.name: s.typical for s in graph.symbols}


def smallest_tile(spec: TilingSpec, env: Mapping[str, int]) -> int:
    """Return the smallest legal tile: one granule, or the whole axis if that is shorter."""
    return max(1, min(spec.opened.granule, spec.opened.longest.evaluate(env)))


def takes_every_size(spec: TilingSpec) -> bool:
    """Return True if the smallest tile fits UB and a DMA command for all sizes."""
    if spec.conditions or spec.row_elements == 1:
        return not spec.conditions
    if not (spec.opened.extent * spec.outer * spec.reduce_outer).symbols():
        return False  # no other conditions
    limited = spec.opened.most is not None and not spec.opened.most.is_const
    return not limited and spec.ub.symbols() <= {spec.opened.symbol}


def fits_every_size(spec: TilingSpec, ub: int | None = None) -> bool:
    """Return True if limits and UB usage do not depend on sizes, so that the smallest tile always fits.

    Stricter than :func:`takes_every_size` for tiles whose rows have one element: there UB may hold whole axes.

    Args:
        spec: the tiling of a template.
        ub: usable bytes of UB, if fewer than the template was made for.
    """
    if spec.conditions or not spec.ub.symbols() <= {spec.opened.symbol}:
        return False
    if spec.opened.most is not None and (spec.opened.most.as_int() or 0) < spec.opened.granule:
        return False
    return spec.ub.evaluate({spec.opened.symbol: spec.opened.granule}) <= (
        spec.ub_limit if ub is None else ub
    )


def largest_tile(spec: TilingSpec, env: Mapping[str, int], ub: int | None = None) -> int:
    """Return the largest tile whose buffers fit UB, a multiple of the granule or the whole axis; 0 if none fits.

    Args:
        spec: the tiling of a template.
        env: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the template was made for.
    """
    extent = max(1, spec.opened.longest.evaluate(env))
    top = extent if spec.opened.most is None else min(extent, spec.opened.most.evaluate(env))
    limit = spec.ub_limit if ub is None else min(spec.ub_limit, ub)
    needed = (
        spec.ub,
        spec.opened.symbol,
        tuple((s, env[s]) for s in sorted(spec.ub.symbols()) if s in env),
    )
    return _largest(needed, limit, spec.opened.granule, top, top == extent)


@lru_cache(maxsize=512)
def _largest(
    needed: tuple[Expr, str, tuple[tuple[str, int], ...]],
    limit: int,
    granule: int,
    top: int,
    whole: bool,
) -> int:
    """Return the largest tile up to ``top`` for which ``needed`` (bytes, tile symbol, other symbols) fits ``limit``.

    ``whole``: the tile ``top`` need not be a multiple of the granule.  Cached: used when a template's costs are read,
    when it is ranked, and when its tiling is folded.
    """
    ub, symbol, sizes = needed
    env = dict(sizes)

    def bytes_of(tile: int) -> int:
        env[symbol] = tile
        return min(ub.evaluate(env), _MOST)

    longest = top if whole else top + granule
    return tiling.largest_tile(longest, granule, top, limit, bytes_of)
