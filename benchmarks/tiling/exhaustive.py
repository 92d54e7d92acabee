"""The best of all legal tilings of a template by the solver's integer model: every tile, every number of cores.

A test tool.  It evaluates the formulas of ``schedule.search.solver`` with NumPy for all choices at once, in 64-bit
integers: tensors of less than 2**40 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autofuse.schedule.search.cost_form import Place, Route
from autofuse.schedule.search.tile_cost import (
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
        even = _Choices(form, chip, tile, per_core)
        for found in (even, even.uneven()):
            if not len(found.tile):
                continue
            cost, cores = found.costs()
            i = int(np.argmin(cost))
            if best is None or cost[i] < best.cost:
                best = Solution(
                    int(found.tile[i]), int(found.per_core[i]), int(cores[i]), int(cost[i])
                )
    return best


def _choices(form: BoundForm, chip: ChipTable) -> Iterator[tuple[Array, Array]]:
    """Tiles, and as few tiles per core as make every number of cores occur that can be had."""
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
    return _Choices(form, chip, tile, per_core).costs()


def _at(line: Line, t: Array) -> Array:
    return line.base + line.step * t


@dataclass(frozen=True)
class _Flow:
    """Where the bytes of a load come from: with all cores from so many places, or alone, from L2 or from memory."""

    together: Array
    near: Array
    places: Array


class _Choices:
    """Tiles, and tiles per core, of one template."""

    def __init__(self, form: BoundForm, chip: ChipTable, tile: Array, per_core: Array) -> None:
        self.form, self.chip, self.tile, self.per_core = form, chip, tile, per_core
        self.pieces = -(-form.extent // tile)
        outer, inner = form.outer, form.reduce_outer
        self.tiles = np.full_like(tile, outer) if form.looped else outer * self.pieces
        self.steps = self.pieces * inner if form.looped else np.full_like(tile, inner)
        self.cores = -(-self.tiles // per_core)
        self.length = np.minimum(tile, max(form.extent, 1))
        self.flows: list[_Flow | None] = []
        self.gm = self._gm()

    def costs(self) -> tuple[Array, Array]:
        chip, per_core, cores = self.chip, self.per_core, self.cores
        once, period, rest, _ = self._pipes(self.length, cores)
        tail, behind, every, whole = self._last
        spare = np.where(self.tiles == every, (per_core * cores - self.tiles) * whole, 0)
        tails = np.maximum(-(-per_core // every) * tail + behind - spare, 0)
        pipeline = once + per_core * period + tails
        gm = self.gm + np.where(self.gm > 0, rest, 0)
        hidden = np.minimum(gm, pipeline) >> HIDDEN_BITS
        cost = chip.core_start * cores + np.maximum(gm, pipeline) + hidden
        empty = self.tiles == 0
        return np.where(empty, chip.core_start, cost), np.where(empty, 1, cores)

    def uneven(self) -> _Choices:
        """The same with more tiles for all cores but the last one, where the last tile of the axis takes it longer."""
        tail, behind, every, whole = self._last
        longer = (tail + behind > 0) & (self.tiles == every) & (self.cores > 1)
        tiles, cores = self.tiles[longer], self.cores[longer]
        made_up = -(-(tail + behind)[longer] // np.maximum(whole[longer], 1))
        even = -(-(tiles + made_up) // cores)
        most = -(-tiles // (cores - 1)) - 1
        tried = [np.minimum(k, most) for k in (even - 1, even, even + 1)]
        more = [k > self.per_core[longer] for k in tried]
        tile = np.concatenate([self.tile[longer][m] for m in more])
        per_core = np.concatenate([k[m] for k, m in zip(tried, more, strict=True)])
        return _Choices(self.form, self.chip, tile, per_core)

    @cached_property
    def _last(self) -> tuple[Array, Array, Array, Array]:
        """What the last tile of the axis takes longer and leaves unhidden; one of how many it is; what others take."""
        form = self.form
        last = np.maximum(form.extent - (self.pieces - 1) * self.tile, 0)
        alone = np.zeros_like(self.cores)
        _, whole, _, exposed = self._pipes(self.length, alone)
        _, shorter, _, behind = self._pipes(last, alone)
        short = (self.pieces > 1) & (last * form.row_step < self.chip.block)
        tail = np.where(short, np.maximum(shorter - whole, 0), 0)
        behind = np.where(short, np.maximum(behind - exposed, 0), 0)
        every = np.maximum(self.pieces, 1)
        if form.looped:
            tail, every = tail // every, np.ones_like(every)
        return tail, behind, every, whole

    def _gm(self) -> Array:
        """Ticks of GM for all cores; fills ``flows``."""
        form, chip, steps = self.form, self.chip, self.steps
        most = np.maximum(np.minimum(self.tiles, chip.cores), 1)
        zero = np.zeros_like(self.tile)
        read, again, same, same_core, written, cached = zero, zero, zero, zero, zero, zero
        streamed = shared = zero
        for c in form.copies:
            place = form.bodies[c.body].place
            runs = {Place.ONCE: zero, Place.TILE: self.tiles, Place.STEP: self.tiles * steps}[place]
            moved = c.count * (c.whole + c.each * runs)
            distinct = np.minimum(c.count * c.distinct, moved)
            cached = cached + distinct
            if c.route is Route.WRITE:
                self.flows.append(None)
                written = written + moved
                continue
            together = (most > 1) & (not c.varies)
            if c.varies_by_tile and (form.looped or form.outer < chip.cores):
                together &= self.pieces <= 1
            if place is Place.ONCE:
                together = np.ones_like(together)
                same_core = same_core + c.count * c.each
            held = distinct
            if c.route is Route.AGAIN:
                held = _at(c.footprint, self.length) * most * np.maximum(steps, 1)
            more = moved - distinct
            kept = more * ((chip.l2 << SHARE_BITS) // np.maximum(held, 1)) >> SHARE_BITS
            hit = np.where(held > chip.l2, kept, more)
            places = np.ones_like(steps)
            if form.bodies[c.body].staggered:
                places = np.maximum(np.minimum(steps, most), 1)
            elif c.varies_by_tile:
                places = np.maximum(np.minimum(self.pieces, most), 1)
            same = same + np.where(together, moved // places, 0)
            shared = shared + np.where(together, moved - moved // places, 0)
            read = read + np.where(together, 0, moved - hit)
            again = again + np.where(together, 0, hit)
            if c.route is Route.STREAM:
                streamed = streamed + np.where(together, 0, distinct)
            self.flows.append(_Flow(together, (more > 0) & (2 * hit >= moved), places))
        gm = (read * chip.read_share >> TICK_SHIFT) + (again * chip.again_share >> TICK_SHIFT)
        gm = gm + (same * chip.same_share >> TICK_SHIFT)
        gm = gm + (shared * chip.shared_share >> TICK_SHIFT)
        gm = gm + (written * chip.write_share >> TICK_SHIFT)
        cached = cached - np.where(cached > chip.l2, streamed, 0)
        share = (chip.l2 << SHARE_BITS) // np.maximum(cached, 1)
        spilled = np.where(cached > chip.l2, written - (written * share >> SHARE_BITS), 0)
        gm = gm + (spilled * chip.writeback_share >> TICK_SHIFT)
        core = same_core * chip.same_share >> TICK_SHIFT
        return np.asarray(gm + self.cores * core)

    def _pipes(self, length: Array, cores: Array) -> tuple[Array, Array, Array, Array]:
        """Ticks of a core beside others, as in ``Pipes`` of the solver."""
        form, chip = self.form, self.chip
        zero = np.zeros_like(self.tile)
        bodies = range(len(form.bodies))
        load, store = [zero for _ in bodies], [zero for _ in bodies]
        loaded, stored = [zero for _ in bodies], [zero for _ in bodies]
        cycles = [zero for _ in bodies]
        memory = np.maximum(chip.load_rate, cores * chip.read_share)
        near = np.maximum(chip.hot_rate, cores * chip.again_share)
        in_order = np.maximum(chip.load_rate, cores * chip.same_share)
        apart = np.maximum(chip.load_rate, cores * chip.shared_share)
        block = chip.block
        for c, flow in zip(form.copies, self.flows, strict=True):
            commands, rows = _at(c.commands, length), np.maximum(_at(c.rows, length), 1)
            row = _at(c.row_bytes, length)
            padded = np.where((row < block) & (rows > 1), chip.short_row, -(-row // block) * block)
            bits = chip.line | c.aligned | np.where(self.pieces > 1, c.tiled * self.tile, 0)
            off = chip.line - (bits & -bits)
            spread = padded * (row + off) // np.maximum(row, chip.line)
            billed = np.where((off > 0) & (row + off > chip.line), spread, padded)
            billed = c.count * rows * billed
            issue = chip.row * np.maximum(rows - commands, 0)
            if flow is None:
                store[c.body] = store[c.body] + c.count * (issue + chip.store_issue * commands)
                stored[c.body] = stored[c.body] + billed
                continue
            load[c.body] = load[c.body] + c.count * (issue + chip.load_issue * commands)
            first = billed // flow.places
            all_cores = first * in_order + (billed - first) * apart
            one_core = billed * np.where(flow.near, near, memory)
            loaded[c.body] = loaded[c.body] + np.where(flow.together, all_cores, one_core)
        for v in form.calls:
            along = np.maximum(_at(v.along, length) - 1, 0)
            times = 1 + np.ceil(np.log2(along + 1)).astype(np.int64)
            cycles[v.body] = cycles[v.body] + _at(v.cycles, length) * times
        once, steady, exposed, rest = zero, zero, zero, zero
        for i, b in enumerate(form.bodies):
            vector = b.heads + (cycles[i] >> TICK_SHIFT)
            mte2 = load[i] + (loaded[i] >> TICK_SHIFT)
            rate = np.maximum(chip.store_rate, cores * chip.write_share)
            mte3 = store[i] + (stored[i] * rate >> TICK_SHIFT)
            latency = chip.latency if b.loads else 0
            alone = latency + mte2 + vector + mte3
            wait = alone if b.chained else np.maximum(latency + mte2, mte3) + vector
            busiest = np.maximum(np.maximum(mte2, vector), np.maximum(mte3, b.scalar))
            period = np.maximum(busiest, wait // b.buffers)
            alone = np.maximum(alone, b.scalar)
            if b.place is Place.ONCE:
                once = once + alone
                continue
            times = self.steps if b.place is Place.STEP else np.ones_like(self.steps)
            steady = steady + times * period
            exposed = np.where(times > 0, np.maximum(exposed, alone - period), exposed)
            rest = np.where(times > 0, np.maximum(rest, latency + vector), rest)
        return once + exposed, steady, rest, exposed
