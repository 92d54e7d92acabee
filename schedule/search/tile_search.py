"""Which tile a template gets: a loop over a few dozen pairs of a length and a number of cores.

The same pairs, in the same order, as ``autofuse_tile_search.h``; a test compiles that header and compares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from autofuse.schedule.search.tile_cost import (
    BoundForm,
    ChipTable,
    Tiled,
    TileParts,
    least_time,
    tile_parts,
    tile_time,
)

__all__ = ["best_of_length", "lengths", "search"]

#: So many lengths, each shorter than the one before by this part of it, from the longest on.
SERIES, SHORTER = 16, 4
#: Numbers of tiles for each core that a length is made for, from the fewest on.
SHARES = 4
#: The next number of cores that is tried, as a part of the one before.
FEWER = (3, 4)


def search(form: BoundForm, chip: ChipTable) -> Tiled | None:
    """The pair that takes the fewest cycles, the first of equals; None where no tile is legal.

    Args:
        form: a template for given sizes.
        chip: figures.
    """
    if form.largest == 0:
        return None
    best: Tiled | None = None
    for tile in lengths(form, chip):
        best = best_of_length(form, chip, tile, best)
    return best


def best_of_length(
    form: BoundForm, chip: ChipTable, tile: int, best: Tiled | None = None
) -> Tiled | None:
    """The best number of cores for tiles of a length, or ``best`` where that is no better."""
    parts = tile_parts(form, chip, tile)
    for per_core, least in _tiles_per_core(form, chip, parts):
        if best is None or least < best.cycles:
            cycles = tile_time(form, chip, parts, per_core)
            if best is None or cycles < best.cycles:
                best = Tiled(tile, per_core, max(-(-parts.tiles // per_core), 1), cycles)
    return best


def lengths(form: BoundForm, chip: ChipTable) -> list[int]:
    """The lengths that are tried, each once.

    Those of a series from the longest on: the shortest that makes as many pieces of the axis, or the next one with
    which tiles start at cache lines.  And those with which all cores have equally many tiles.
    """
    found: list[int] = []

    def add(tile: int, step: int) -> None:
        tile = min(-(-max(tile, 1) // step) * step, form.longest, form.largest)
        if tile not in found:
            found.append(tile)

    line = _line_step(form, chip)
    tile = form.largest
    add(tile, form.granule)
    for _ in range(SERIES):
        if tile < 1:
            break
        even = -(-form.extent // max(-(-form.extent // tile), 1))
        add(even, line if line <= even else form.granule)
        tile -= max(tile // SHORTER, form.granule)
    if not form.looped and form.outer > 0:
        fewest = max(-(-form.extent // form.largest), 1)
        share = max(-(-fewest * form.outer // chip.cores), 1)
        for tiles in range(share, share + SHARES):
            add(-(-form.extent // max(tiles * chip.cores // form.outer, 1)), form.granule)
    return found


def _tiles_per_core(
    form: BoundForm, chip: ChipTable, parts: TileParts
) -> Iterator[tuple[int, float]]:
    """The numbers of tiles that a core may have, and cycles that they take at least.

    From all cores on, until fewer take longer; where the last tile takes longer than others, also those with which its
    core has time for it.
    """
    tiles = parts.tiles
    fewest = per_core = max(-(-tiles // chip.cores), 1)
    last = fewest + parts.late
    shortest = math.inf
    while per_core == fewest or per_core <= tiles:
        least = least_time(form, chip, parts, per_core)
        yield per_core, least
        if per_core > last and least >= shortest:
            return
        shortest = min(shortest, least)
        cores = -(-tiles // per_core) * FEWER[0] // FEWER[1]
        per_core += 1
        if per_core > last:
            per_core = max(per_core, -(-tiles // max(cores, 1)))


def _line_step(form: BoundForm, chip: ChipTable) -> int:
    """The shortest length with whose multiples tiles start at cache lines, as far as that depends on them."""
    apart = 0
    for c in form.copies:
        distance = c.tiles_apart * form.granule
        if distance and math.gcd(chip.line, c.apart) > math.gcd(chip.line, distance):
            apart |= distance
    return form.granule * (chip.line // math.gcd(chip.line, apart)) if apart else form.granule
