"""Which tiles are legal, and the sizes at which symbolic kernels are compared."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.graph import ImplGraph, TilingSpec

__all__ = ["largest_tile", "sample_env", "smallest_tile"]

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

    def fits(tile: int) -> bool:
        return spec.ub.evaluate({**env, spec.tile_size: tile}) <= limit

    if top >= 1 and (top == extent or top % spec.granule == 0) and fits(top):
        return top
    lo, hi = 0, top // spec.granule
    while lo < hi:
        mid = (lo + hi + 1) // 2
        lo, hi = (mid, hi) if fits(mid * spec.granule) else (lo, mid - 1)
    return lo * spec.granule
