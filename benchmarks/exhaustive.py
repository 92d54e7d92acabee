"""The best of all legal tilings of a template by the solver's integer model: every tile, every number of cores.

A test tool.  It evaluates the formulas of ``schedule.solver`` with NumPy for all choices at once, in 64-bit integers:
tensors of less than 2**40 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from autofuse.schedule.cost_form import Place, Route
from autofuse.schedule.layout import BLOCK
from autofuse.schedule.tile_cost import (
    HIDDEN_BITS,
    SHARE_BITS,
    TICK_SHIFT,
    BoundForm,
    ChipTable,
    Line,
    Solution,
)

__all__ = ["best_of_all", "costs", "legal_tiles"]

Array = npt.NDArray[np.int64]
#: Choices that are evaluated at a time.
CHUNK = 1 << 16


def legal_tiles(form: BoundForm) -> Array:
    """Every legal length of a tile."""
    found = np.arange(form.granule, form.largest + 1, form.granule, dtype=np.int64)
    return np.unique(np.append(found, max(form.largest, 1)))


def best_of_all(form: BoundForm, chip: ChipTable) -> Solution | None:
    """The choice of the least cost, the first of equals; None where no tile is legal."""
    if form.largest == 0:
        return None
    best: Solution | None = None
    for tile, per_core in _choices(form, chip):
        cost, cores = costs(form, chip, tile, per_core)
        i = int(np.argmin(cost))
        if best is None or cost[i] < best.cost:
            best = Solution(int(tile[i]), int(per_core[i]), int(cores[i]), int(cost[i]))
    return best


def _choices(form: BoundForm, chip: ChipTable) -> Iterator[tuple[Array, Array]]:
    """Tiles, and tiles per core so that every number of cores occurs that can be had."""
    tiles = legal_tiles(form)
    pieces = -(-form.extent // tiles)
    shared = form.outer * (np.ones_like(tiles) if form.looped else pieces)
    cores = np.arange(1, chip.cores + 1, dtype=np.int64)
    for first in range(0, len(tiles), max(CHUNK // chip.cores, 1)):
        part = slice(first, first + max(CHUNK // chip.cores, 1))
        t, n = np.meshgrid(tiles[part], cores, indexing="ij")
        work = np.broadcast_to(shared[part, None], t.shape)
        used = n <= np.maximum(work, 1)
        yield t[used], np.maximum(-(-work[used] // n[used]), 1)


def costs(form: BoundForm, chip: ChipTable, tile: Array, per_core: Array) -> tuple[Array, Array]:
    """Costs in ticks, and cores, of many choices."""

    def at(line: Line, t: Array) -> Array:
        return line.base + line.step * t

    pieces = -(-form.extent // tile)
    tiles = np.full_like(tile, form.outer) if form.looped else form.outer * pieces
    steps = pieces * form.reduce_outer if form.looped else np.full_like(tile, form.reduce_outer)
    cores = -(-tiles // per_core)
    length = np.minimum(tile, max(form.extent, 1))
    most = np.maximum(np.minimum(tiles, chip.cores), 1)
    zero = np.zeros_like(tile)
    bodies = range(len(form.bodies))
    load, store, stored = [zero for _ in bodies], [zero for _ in bodies], [zero for _ in bodies]
    moves = [[zero, zero, zero, zero] for _ in bodies]
    cycles = [zero for _ in form.bodies]
    read, again, same, same_core, written, cached = zero, zero, zero, zero, zero, zero
    streamed = shared = zero
    for c in form.copies:
        commands, rows, row = at(c.commands, length), at(c.rows, length), at(c.row_bytes, length)
        rows = np.maximum(rows, 1)
        padded = np.where((row < BLOCK) & (rows > 1), chip.short_row, -(-row // BLOCK) * BLOCK)
        bits = chip.line | c.aligned | np.where(pieces > 1, c.tiled * tile, 0)
        off = chip.line - (bits & -bits)
        spread = padded * (row + off) // np.maximum(row, chip.line)
        billed = c.count * rows * np.where((off > 0) & (row + off > chip.line), spread, padded)
        place = form.bodies[c.body].place
        runs = {Place.ONCE: zero, Place.TILE: tiles, Place.STEP: tiles * steps}[place]
        moved = c.count * (c.whole + c.each * runs)
        distinct = np.minimum(c.count * c.distinct, moved)
        issue = chip.row * np.maximum(rows - commands, 0)
        if c.route is Route.WRITE:
            store[c.body] = store[c.body] + c.count * (issue + chip.store_issue * commands)
            stored[c.body] = stored[c.body] + billed
            written, cached = written + moved, cached + distinct
            continue
        load[c.body] = load[c.body] + c.count * (issue + chip.load_issue * commands)
        together = (most > 1) & (not c.varies)
        if c.varies_by_tile:
            together &= pieces <= 1
        if place is Place.ONCE:
            together = np.ones_like(together)
            same_core = same_core + c.count * c.each
        held = distinct
        if c.route is Route.AGAIN:
            held = at(c.footprint, length) * most * np.maximum(steps, 1)
        more = moved - distinct
        kept = more * ((chip.l2 << SHARE_BITS) // np.maximum(held, 1)) >> SHARE_BITS
        hit = np.where(held > chip.l2, kept, more)
        near = (more > 0) & (2 * hit >= moved)
        places = np.ones_like(steps)
        if form.bodies[c.body].staggered:
            places = np.maximum(np.minimum(steps, most), 1)
        same = same + np.where(together, moved // places, 0)
        shared = shared + np.where(together, moved - moved // places, 0)
        read = read + np.where(together, 0, moved - hit)
        again = again + np.where(together, 0, hit)
        cached = cached + distinct
        if c.route is Route.STREAM:
            streamed = streamed + np.where(together, 0, distinct)
        in_order = np.where(together, billed // places, 0)
        parts = (
            np.where(~together & ~near, billed, 0),
            np.where(~together & near, billed, 0),
            in_order,
            np.where(together, billed, 0) - in_order,
        )
        for i, part in enumerate(parts):
            moves[c.body][i] = moves[c.body][i] + part
    for v in form.calls:
        along = np.maximum(at(v.along, length) - 1, 0)
        times = 1 + np.ceil(np.log2(along + 1)).astype(np.int64)
        cycles[v.body] = cycles[v.body] + at(v.cycles, length) * times
    vector = [b.heads + (c >> TICK_SHIFT) for b, c in zip(form.bodies, cycles, strict=True)]
    gm = (read * chip.read_share >> TICK_SHIFT) + (again * chip.again_share >> TICK_SHIFT)
    gm = gm + (same * chip.same_share >> TICK_SHIFT) + (shared * chip.shared_share >> TICK_SHIFT)
    gm = gm + (written * chip.write_share >> TICK_SHIFT)
    cached = cached - np.where(cached > chip.l2, streamed, 0)
    share = (chip.l2 << SHARE_BITS) // np.maximum(cached, 1)
    spilled = np.where(cached > chip.l2, written - (written * share >> SHARE_BITS), 0)
    gm = gm + (spilled * chip.writeback_share >> TICK_SHIFT)
    gm = gm + cores * (same_core * chip.same_share >> TICK_SHIFT)
    before, steady, exposed, rest = zero, zero, zero, zero
    for i, b in enumerate(form.bodies):
        memory, near, in_order, apart = moves[i]
        mte2 = memory * np.maximum(chip.load_rate, cores * chip.read_share)
        mte2 = mte2 + near * np.maximum(chip.hot_rate, cores * chip.again_share)
        mte2 = mte2 + in_order * np.maximum(chip.load_rate, cores * chip.same_share)
        mte2 = mte2 + apart * np.maximum(chip.load_rate, cores * chip.shared_share)
        mte2 = load[i] + (mte2 >> TICK_SHIFT)
        rate = np.maximum(chip.store_rate, cores * chip.write_share)
        mte3 = store[i] + (stored[i] * rate >> TICK_SHIFT)
        latency = chip.latency if b.loads else 0
        alone = latency + mte2 + vector[i] + mte3
        wait = alone if b.chained else np.maximum(latency + mte2, mte3) + vector[i]
        busiest = np.maximum(np.maximum(mte2, vector[i]), np.maximum(mte3, b.scalar))
        period = np.maximum(busiest, wait // b.buffers)
        alone = np.maximum(alone, b.scalar)
        if b.place is Place.ONCE:
            before = before + alone
            continue
        times = per_core * (steps if b.place is Place.STEP else 1)
        steady = steady + times * period
        exposed = np.where(times > 0, np.maximum(exposed, alone - period), exposed)
        rest = np.where(times > 0, np.maximum(rest, latency + vector[i]), rest)
    pipeline = before + steady + exposed
    gm = gm + np.where(gm > 0, rest, 0)
    hidden = np.minimum(gm, pipeline) >> HIDDEN_BITS
    cost = chip.core_start * cores + np.maximum(gm, pipeline) + hidden
    empty = tiles == 0
    return np.where(empty, chip.core_start, cost), np.where(empty, 1, cores)
