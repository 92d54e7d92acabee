"""A first, plain ranking of templates: modelled cycles of the slowest core.  Model figures, not measurements."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.graph import ImplGraph, TilingSpec
from autofuse.schedule.transposition import ROW_BYTES, copy_rows, transpose_cycles
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
    return max(1, min(spec.granule, spec.longest.evaluate(env)))


def largest_tile(spec: TilingSpec, env: Mapping[str, int]) -> int:
    """The largest tile whose buffers fit UB, a multiple of the granule or the whole axis; 0 if none fits."""
    extent = max(1, spec.longest.evaluate(env))
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


def modelled_cycles(impl: ImplGraph, target: TargetSpec, *, by_rows: bool = False) -> float:
    """Modelled cycles of the slowest core at a sample size: DMA heads and bytes, one head per command.

    The same plain rule as the tiling solver's: tiles per core x (heads of the commands + bytes / rate); what is in a
    reduce loop counts once for every iteration.  ``by_rows``: the rows of copies and transpositions in UB count as
    well, to compare ways to transpose a group.
    """
    spec, env = impl.tiling, sample_env(impl)
    tile = largest_tile(spec, env)
    if tile == 0:
        return float("inf")
    extent, outer = spec.extent.evaluate(env), spec.outer.evaluate(env)
    # Smaller tiles spread over more cores; a tile of some 16 KiB already moves at full rate.
    wanted = max(1, -(-(extent * outer) // target.aiv_cores))
    while (
        not spec.reduce_tiles
        and tile > spec.granule
        and tile > wanted
        and tile * spec.row_elements.evaluate(env) * 4 > (1 << 14)
    ):
        tile = max(spec.granule, (tile // 2) // spec.granule * spec.granule)
    at = {**env, spec.tile_size: tile}
    per_core = -(-spec.tiles.evaluate(at) // target.aiv_cores)
    at[spec.block_size] = per_core
    steps = spec.reduce_steps.evaluate(at)
    cycles = 0.0
    loop_head = 0.0
    for n in impl.nodes:
        looped = n.loop_axis == impl.r_axis
        if by_rows and n.op == "UbTranspose" and n.loop_axis is not None:
            source = next(m for m in impl.nodes if m.name == n.inputs[0])
            cycles += transpose_cycles(source, impl, at) * (steps if looped else 1)
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
        nbytes = elements * n.y.dtype.itemsize
        if by_rows:
            rows, commands = copy_rows(n, impl, at)
            nbytes, head = nbytes + rows * ROW_BYTES, head * commands
        loop_head = 40.0 if looped else loop_head
        cycles += (head + nbytes / rate) * (steps if looped else 1)
    return per_core * (cycles + loop_head * steps + 40.0)
