"""Which tiles are legal, and the sizes at which symbolic kernels are compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.graph import ImplGraph, TilingSpec

__all__ = ["fits_every_size", "largest_tile", "sample_env", "smallest_tile", "takes_every_size"]

#: Value of a symbol without hint when a symbolic kernel is ranked.
SAMPLE = 1024


def sample_env(impl: ImplGraph) -> dict[str, int]:
    """Typical values of the graph's symbols: the hints, else 1024, within the ranges."""
    return {
        s.name: max(s.min, min(s.max, s.hint if s.hint is not None else SAMPLE))
        for s in impl.symbols
    }


def smallest_tile(spec: TilingSpec, env: Mapping[str, int]) -> int:
    """The smallest legal tile: one granule, or the whole axis if that is shorter."""
    return max(1, min(spec.granule, spec.longest.evaluate(env)))


def takes_every_size(spec: TilingSpec) -> bool:
    """Whether the smallest tile fits UB and a DMA command whatever the sizes are."""
    if spec.conditions or spec.row_elements == 1:
        return not spec.conditions
    if not (spec.extent * spec.outer * spec.reduce_outer).symbols():
        return False  # nothing else is asked for
    limited = spec.tile_max is not None and not spec.tile_max.is_const
    return not limited and spec.ub.symbols() <= {spec.tile_size}


def fits_every_size(spec: TilingSpec) -> bool:
    """Whether its limits and what it needs of UB know nothing of the sizes, so that its smallest tile always fits.

    Stricter than :func:`takes_every_size` for tiles whose rows have one element: there UB may hold whole axes.
    """
    if spec.conditions or not spec.ub.symbols() <= {spec.tile_size}:
        return False
    if spec.tile_max is not None and (spec.tile_max.as_int() or 0) < spec.granule:
        return False
    return spec.ub.evaluate({spec.tile_size: spec.granule}) <= spec.ub_limit


def largest_tile(spec: TilingSpec, env: Mapping[str, int], ub: int | None = None) -> int:
    """The largest tile whose buffers fit UB, a multiple of the granule or the whole axis; 0 if none fits.

    Args:
        spec: the tiling of a template.
        env: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the template was made for.
    """
    extent = max(1, spec.longest.evaluate(env))
    top = extent if spec.tile_max is None else min(extent, spec.tile_max.evaluate(env))
    limit = spec.ub_limit if ub is None else min(spec.ub_limit, ub)
    needed = (
        spec.ub,
        spec.tile_size,
        tuple((s, env[s]) for s in sorted(spec.ub.symbols()) if s in env),
    )
    return _largest(needed, limit, spec.granule, top, top == extent)


@lru_cache(maxsize=512)
def _largest(
    needed: tuple[Expr, str, tuple[tuple[str, int], ...]],
    limit: int,
    granule: int,
    top: int,
    whole: bool,
) -> int:
    """The largest tile up to ``top`` for which ``needed`` (bytes, symbol of the tile, other symbols) fits ``limit``.

    ``whole``: the tile ``top`` need not be a multiple of the granule.  Remembered: a template is asked for it when its
    costs are read, when it is ranked, and when its tiling is folded.
    """
    ub, symbol, sizes = needed
    env = dict(sizes)

    def fits(tile: int) -> bool:
        env[symbol] = tile
        return ub.evaluate(env) <= limit

    if top >= 1 and (whole or top % granule == 0) and fits(top):
        return top
    lo, hi = 0, top // granule
    while lo < hi:
        mid = (lo + hi + 1) // 2
        lo, hi = (mid, hi) if fits(mid * granule) else (lo, mid - 1)
    return lo * granule
