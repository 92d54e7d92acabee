"""Exhaustive search for a template's best legal tiling by the deciding model: every tile, every number of cores.

A test tool.
"""

from __future__ import annotations

from functools import lru_cache

from autofuse.schedule.search.bound import BoundForm, Chip, Tiled

__all__ = ["best_of_all", "legal_tiles"]

#: Maximum tiles per core beyond the fewest, to leave time for a slower last tile.
_MOST_LATE = 40


def legal_tiles(form: BoundForm) -> list[int]:
    """Return every legal tile length."""
    found = range(form.granule, form.largest + 1, form.granule)
    return sorted({*found, max(form.largest, 1)})


def best_of_all(form: BoundForm, chip: Chip) -> Tiled | None:
    """Return the choice with the fewest cycles, the first among equals; None if no tile is legal."""
    if form.largest == 0:
        return None
    best: Tiled | None = None
    for tile in legal_tiles(form):
        tiles = form.tiles(tile)
        shares = _shares(tiles, chip.cores)
        times = form.times(chip, tile, shares)
        least = min(times)
        if best is None or least < best.cycles:
            per_core = shares[times.index(least)]
            best = Tiled(tile, per_core, max(-(-tiles // per_core), 1), least)
    return best


@lru_cache(maxsize=4096)
def _shares(tiles: int, cores: int) -> list[int]:
    """Return tiles per core that give every number of cores, and some more than the fewest."""
    fewest = max(-(-tiles // cores), 1)
    each = {max(-(-tiles // n), 1) for n in range(1, cores + 1)}
    return sorted({*each, *(k for k in range(fewest, fewest + _MOST_LATE) if k <= max(tiles, 1))})
