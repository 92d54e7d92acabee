"""A first, plain ranking of templates: modelled cycles of the slowest core.  Model figures, not measurements."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.graph import ImplGraph, TilingSpec
from autofuse.targets import TargetSpec

__all__ = ["largest_tile", "modelled_cycles", "sample_env", "smallest_tile"]

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
    return max(1, min(spec.granule, spec.extent.evaluate(env)))


def largest_tile(spec: TilingSpec, env: Mapping[str, int]) -> int:
    """The largest tile whose buffers fit UB, a multiple of the granule or the whole axis; 0 if none fits."""
    extent = max(1, spec.extent.evaluate(env))
    top = extent if spec.tile_max is None else min(extent, spec.tile_max.evaluate(env))

    def fits(tile: int) -> bool:
        return spec.ub.evaluate({**env, spec.tile_size: tile}) <= spec.ub_limit

    if top >= 1 and (top == extent or top % spec.granule == 0) and fits(top):
        return top
    lo, hi = 0, top // spec.granule
    while lo < hi:
        mid = (lo + hi + 1) // 2
        lo, hi = (mid, hi) if fits(mid * spec.granule) else (lo, mid - 1)
    return lo * spec.granule


def modelled_cycles(impl: ImplGraph, target: TargetSpec) -> float:
    """Modelled cycles of the slowest core at a sample size: DMA heads and bytes, one head per command and row.

    The same plain rule as the tiling solver's: tiles per core x (heads of the commands + bytes / rate).
    """
    spec, env = impl.tiling, sample_env(impl)
    tile = largest_tile(spec, env)
    if tile == 0:
        return float("inf")
    extent, outer = spec.extent.evaluate(env), spec.outer.evaluate(env)
    # Smaller tiles spread over more cores; a tile of some 16 KiB already moves at full rate.
    wanted = max(1, -(-(extent * outer) // target.aiv_cores))
    while (
        tile > spec.granule
        and tile > wanted
        and tile * spec.row_elements.evaluate(env) * 4 > (1 << 14)
    ):
        tile = max(spec.granule, (tile // 2) // spec.granule * spec.granule)
    tiles = outer * -(-extent // tile)
    per_core = -(-tiles // target.aiv_cores)
    at = {**env, spec.tile_size: tile, spec.block_size: per_core}
    cycles = 0.0
    for n in impl.nodes:
        if n.op not in ("Load", "Store") or n.loop_axis is None:
            continue
        sizes = [
            r.evaluate(at)
            for a, r in zip(n.y.axis, n.y.repeats, strict=True)
            if a in n.y.vectorized_axis
        ]
        elements = 1
        for s in sizes:
            elements *= s
        head = target.load_head if n.op == "Load" else target.store_head
        rate = target.load_rate_all if n.op == "Load" else target.store_rate_all
        cycles += head + elements * n.y.dtype.itemsize / rate
    return per_core * (cycles + 40.0)
