"""The search of one template's tiling, by the costs of ``schedule.search.tile_cost``.

The same search, in the same order, as ``autofuse_tile_search.h``; a test compiles that header and
compares.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.schedule.search.tile_cost import (
    UNLIMITED,
    BoundForm,
    ChipTable,
    Solution,
    TileParts,
    tile_cost,
    tile_parts,
    undisturbed_cost,
)

__all__ = ["Search", "few_lengths"]

#: Where there are at most so many lengths, all are tried; else halves of a long one, but no more than that.
FEW, FEW_LOOPED, MOST = 12, 10, 16
#: Numbers of equal pieces of an axis that are tried, from the smallest on.
EVEN = 2
#: Halves in a row that are no better, before no further ones are tried, and where all lengths are.
WORSE_HALVES, WORSE_FEW = 3, 5
#: An axis of so many elements that a core goes through in several tiles, whose number makes more of a difference than
#: that of a longer one: so many halves that are no better are passed.
SHORT_AXIS, WORSE_SHORT = 64, 1
#: They start with a tile for one of so many cores at least, where cores share an axis, or with so many short granules.
FIRST_CORES, FIRST = 4, 8
#: Searches about the best choice so far; there is another one if the last has gained more than 2**-LITTLE.
ROUNDS, LITTLE = 2, 10
#: Granules from which on one more of them matters little.
LONG = 64
#: Lengths to both sides, also with one tile per core and where one core goes through all of an axis, ...
REACH, REACH_ONE, REACH_LOOPED = 8, 2, 2
#: ... and of those that do not start at lines, for short granules, and for long ones with several tiles per core.
REACH_SHORT, REACH_LONG = 4, 1
#: Lengths in a row that are no better, before no further ones are tried; where one more of them matters little.
WORSE, WORSE_ONE = 6, 1
#: Granules of a tile, short and long ones, from which on the lengths next to it are too close to it.
MANY_SHORT, MANY_LONG = 8, 24
#: Tiles per core up to which a root tells the number of cores, but for so many.
ROOT_TILES, ROOT_CORES = 4, 1
#: Cores, and tiles per core, more and less.
SHARE_CORES, SHARE_TILES = 1, 2
#: Pieces of an axis more and less, also where one core goes through all of it.
PIECES, PIECES_LOOPED = 4, 8
#: Numbers of pieces in a row that are no better, where one more of them matters.
WORSE_PIECES = 4
#: Tiles per core, or cores, more and less with one length.
AROUND = 40
#: Numbers of fewer cores in a row that are no better, before no further ones are tried.
VAIN = 7
#: Numbers of more cores in a row that could not be better if cores did not disturb each other, before no further ones,
#: and that are not, of element-wise templates.
VAIN_MORE, VAIN_CROWDED = 4, 6
#: A part of the cores that are idle because no more of them would help.
SPARED = 8
#: Bits of the number of lengths that are remembered.
SLOT_BITS = 8


def few_lengths(form: BoundForm) -> bool:
    """Whether all lengths are tried."""
    return form.largest <= (FEW_LOOPED if form.looped else FEW) * form.granule


class Search:
    """The search of one template.

    Args:
        form: a template for given sizes, with a legal tile.
        chip: figures.
    """

    def __init__(self, form: BoundForm, chip: ChipTable) -> None:
        self.form, self.chip = form, chip
        self._known: dict[int, TileParts] = {}
        self._seen = [0] * (1 << SLOT_BITS)
        self._best = Solution(1, 1, 0, UNLIMITED)
        self._line = _line_step(form, chip)
        self._few = few_lengths(form)
        shared = not form.looped and form.outer <= 1 and form.reduce_outer <= 1
        #: Cores share one axis with long granules, and that is all.
        self._element_wise = shared and form.granule >= LONG

    def halves(self) -> Iterator[tuple[int, Solution]]:
        """A few lengths that are far apart: the cost before each of them, and the best choice after it.

        After each, the search may stop: where they cost far more than another template and do not get better soon.
        """
        form = self.form
        few = self._few
        tile, worse = form.largest, 0
        most = WORSE_FEW if few else 0 if form.looped or form.granule >= LONG else WORSE_HALVES
        if form.looped and not few and form.largest < form.extent <= SHORT_AXIS:
            most = WORSE_SHORT
        if not few and not form.looped and form.outer <= 1:
            # Longer ones would leave the axis to fewer cores; halves of these keep as many busy.
            pieces = max(self.chip.cores // FIRST_CORES, 1)
            fewest = max(-(-form.extent // form.largest), 1)
            pieces <<= (-(-fewest // pieces) - 1).bit_length()
            tile = max(
                -(-form.extent // pieces), FIRST * form.granule if form.granule < LONG else 0
            )
            tile = self._round(tile, self._line)
        if form.looped:
            # A core that goes through all tiles takes longer for longer ones, as long as they are as many.
            tile = self._round(-(-form.extent // max(-(-form.extent // tile), 1)), form.granule)
        for _ in range(MOST):
            before = self._best.cost
            # Where one core goes through all of an axis, all lengths make as many tiles.
            self._try_length(tile, self._best.cores if form.looped else 0)
            yield before, self._best
            worse = worse + 1 if self._best.cost == before else 0
            if worse > most:
                break
            if few:
                following = self._shorter(tile, form.granule)
            else:
                following = self._round(tile // 2, self._line)
                if following > tile - tile // 4:
                    following = self._round(tile // 2, form.granule)
            if following >= tile:
                break
            tile = following

    def even(self) -> Solution:
        """The best of these, of one row by itself, and of equal pieces of an axis that a core goes through."""
        form = self.form
        if form.granule == 1 and not form.looped:
            self._try_length(1)  # one row by itself may be cheaper than a few short ones
        if form.looped:
            # It may start at lines where equal pieces do not.
            self._try_length(form.largest, self._best.cores)
        if form.looped or form.outer > 1:
            fewest = max(-(-form.extent // form.largest), 1)
            for pieces in range(fewest, fewest + EVEN):
                self._try_length(self._round(-(-form.extent // pieces), form.granule))
        return self._best

    def longest(self) -> Solution:
        """The best with the longest tile too, of cores that share one axis.

        The halves begin below it, and heads of calls make it the best where the vector unit limits.
        """
        if self._element_wise and not self._few:
            self._try_length(self.form.largest)
        return self._best

    def refine(self) -> Solution:
        """From there on to what is better nearby."""
        form = self.form
        if self._few:
            return self._best  # nothing is left to try
        for _ in range(ROUNDS):
            before = self._best.cost
            many = MANY_LONG if form.granule >= LONG else MANY_SHORT
            is_long = self._best.tile > many * form.granule
            if form.looped:
                self._near_pieces(PIECES_LOOPED)
                has_lines = self._line > form.granule
                self._near_lengths(REACH_LOOPED if has_lines else REACH_SHORT, WORSE)
            else:
                if self._best.per_core == 1:
                    self._near_lengths(REACH_ONE, WORSE_ONE if form.granule >= LONG else WORSE)
                else:
                    self._near_lengths(REACH, WORSE)
                if not self._spares_cores():
                    if is_long:
                        self._near_root()
                        self._near_shares()
                    self._fewer_tiles()
                if form.outer > 1:
                    self._near_pieces(PIECES)
            if before - self._best.cost <= before >> LITTLE:
                break
        return self._best

    def _spares_cores(self) -> bool:
        """Whether the best choice of an element-wise template leaves cores idle, with the others in reach.

        Since GM is busy or starting them takes too long: as many tiles on each gain nothing.
        """
        cores = self.chip.cores
        return self._element_wise and cores // SPARED < cores - self._best.cores <= AROUND

    def _near_lengths(self, reach: int, most: int) -> None:
        granule, line = self.form.granule, self._line
        is_short = granule < LONG
        if line > granule or (is_short and granule > 1):
            near = self._best.tile
            if is_short or self._best.per_core > 1:
                few = REACH_SHORT if is_short else REACH_LONG
                self._walk(near, granule, few, WORSE)
                self._walk(near, -granule, few, WORSE)
            part = 2 * granule
            while part < min(line, near + 1):
                self._try_length(self._round(near, part), self._best.cores)
                part *= 2
            if line == granule:
                return
        near = self._best.tile
        if line <= near:
            self._walk(near, line, reach, most)
            self._walk(near, -line, reach, most)

    def _walk(self, tile: int, step: int, reach: int, most: int) -> None:
        """So many lengths in one direction, until the most in a row are no better."""
        worse = 0
        for _ in range(reach):
            if worse >= most or (tile <= -step if step < 0 else tile >= self.form.largest):
                break
            before = self._best.cost
            tile = self._shorter(tile, -step) if step < 0 else self._longer(tile, step)
            self._try_length(tile, self._best.cores)
            worse = 0 if self._best.cost < before else worse + 1

    def _shorter(self, tile: int, step: int) -> int:
        """The next length by at least a step that makes other pieces of the axis, the shortest that makes as many.

        A longer one takes longer for each of them.
        """
        extent = self.form.extent
        pieces = -(-extent // max(tile - step, 1))
        return self._round(-(-extent // pieces), step) if pieces else 1

    def _longer(self, tile: int, step: int) -> int:
        extent = self.form.extent
        pieces = min(-(-extent // (tile + step)), -(-extent // tile) - 1)
        return self._round(-(-extent // pieces), step) if pieces > 0 else self.form.largest

    def _near_root(self) -> None:
        """With few tiles per core the pipes take a + b t ticks: the number of cores with the least cost is a root."""
        form, chip, near = self.form, self.chip, self._best
        other = 2 * near.tile if 2 * near.tile <= form.largest else near.tile // 2
        if near.per_core > ROOT_TILES or other == 0:
            return
        here, there = self._parts(near.tile).pipes, self._parts(other).pipes
        everything = min(form.extent * form.outer, UNLIMITED)
        for k in range(max(near.per_core - 1, 1), near.per_core + 2):
            rise = there.once - here.once + k * (there.period - here.period)
            rise //= other - near.tile
            if rise > 0:
                work = min(rise * everything, UNLIMITED)
                cores = _root(work // (k * chip.core_start), chip.cores)
                for c in range(cores - ROOT_CORES, cores + ROOT_CORES + 1):
                    self._try_share(c, k)

    def _near_shares(self) -> None:
        near = self._best
        for cores in range(near.cores - SHARE_CORES, near.cores + SHARE_CORES + 1):
            self._try_shares(cores, near.per_core)
        if self.chip.cores > near.cores + SHARE_CORES:
            self._try_shares(self.chip.cores, near.per_core)

    def _fewer_tiles(self) -> None:
        """The same cores with one tile each, and with half as many; one tile for each core that GM can keep busy."""
        near, chip = self._best, self.chip
        if near.per_core > 1:
            self._try_share(near.cores, 1)
            self._try_share(near.cores, near.per_core // 2)
        busy = (chip.load_rate + chip.read_share // 2) // chip.read_share
        self._try_share(min(busy, near.cores), 1)

    def _try_shares(self, cores: int, near: int) -> None:
        for per_core in range(near - SHARE_TILES, near + SHARE_TILES + 1):
            self._try_share(cores, per_core)

    def _try_share(self, cores: int, per_core: int) -> None:
        """The length for which every one of the cores gets so many tiles."""
        if per_core < 1 or not 1 <= cores <= self.chip.cores:
            return
        pieces = max(per_core * cores // max(self.form.outer, 1), 1)
        tile = self._round(-(-self.form.extent // pieces), self.form.granule)
        self._try_length(tile, self._best.cores)

    def _near_pieces(self, reach: int) -> None:
        pieces = max(-(-self.form.extent // self._best.tile), 1)
        most = WORSE_ONE if self.form.looped and self.form.granule > 1 else WORSE_PIECES
        self._try_pieces(pieces)
        for step in (1, -1):
            worse = 0
            for d in range(1, reach + 1):
                if worse == most or pieces + step * d < 1:
                    break
                before = self._best.cost
                self._try_pieces(pieces + step * d)
                worse = worse + 1 if self._best.cost == before else 0
        self._try_pieces(2 * pieces)

    def _try_pieces(self, pieces: int) -> None:
        tile = -(-self.form.extent // pieces)
        self._try_length(self._round(tile, self.form.granule), self._best.cores)
        if self._line > self.form.granule:
            self._try_length(self._round(tile, self._line), self._best.cores)

    def _try_length(self, tile: int, about: int = 0) -> None:
        """A length with about so many cores, those of a closed form if that is 0, and with others.

        From there on in both directions, as long as they may be better than the best so far.
        """
        slot = (tile * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 64 - SLOT_BITS
        if self._seen[slot] == tile:
            return
        self._seen[slot] = tile
        form, chip, parts, best = self.form, self.chip, self._parts(tile), self._best
        tiles, once, period = parts.tiles, parts.pipes.once, parts.pipes.period
        if tiles == 0:
            self._best = tile_cost(form, chip, parts, 1, best)
            return
        k = -(-tiles // (about or self._closed(parts)))
        cores = -(-tiles // k)
        fewest = -(-tiles // chip.cores)
        if best.cores == 0:
            best = Solution(tile, k, cores, UNLIMITED)  # legal, whatever it costs
            best = tile_cost(form, chip, parts, fewest, best)
        best = tile_cost(form, chip, parts, k, best)
        vain = 0
        for d in range(1, AROUND + 1):  # fewer cores, until the pipes take too long
            more = k + d if k <= cores else -(-tiles // (cores - d)) if cores > d else tiles + 1
            if more > tiles or once + more * period >= best.cost or vain == VAIN:
                break
            before, best = best, tile_cost(form, chip, parts, more, best)
            vain = vain + 1 if best is before else 0
        always = max(once + fewest * period, parts.gm + _rest(parts))
        vain = worse = 0
        for d in range(1, AROUND + 1):  # more cores, until they take too long to start
            fewer = k - d if k <= cores else -(-tiles // (cores + d))
            used = -(-tiles // fewer) if fewer > 0 else UNLIMITED
            if (
                used > chip.cores
                or always + chip.core_start * used >= best.cost
                or vain == VAIN_MORE
                or (worse == VAIN_CROWDED and self._element_wise)
            ):
                break
            before = best
            if undisturbed_cost(chip, parts, fewer) >= best.cost:
                vain += 1
            else:
                vain, best = 0, tile_cost(form, chip, parts, fewer, best)
            worse = worse + 1 if best is before else 0
        self._best = best

    def _closed(self, parts: TileParts) -> int:
        """Cores: the root of work over the start of a core, or as few as GM keeps busy."""
        chip, pipes = self.chip, parts.pipes
        work = min(parts.tiles * pipes.period, UNLIMITED)
        cores = _root(work // max(chip.core_start, 1), chip.cores)
        hidden = parts.gm + _rest(parts) - pipes.once
        if hidden < pipes.period or pipes.period == 0:
            return cores
        return min(cores, -(-parts.tiles // min(hidden // pipes.period, parts.tiles)))

    def _parts(self, tile: int) -> TileParts:
        found = self._known.get(tile)
        if found is None:
            found = self._known[tile] = tile_parts(self.form, self.chip, tile)
        return found

    def _round(self, tile: int, step: int) -> int:
        """A legal length: the next multiple of a step, the whole axis, or the largest."""
        up = -(-max(tile, 1) // step) * step
        return min(up, self.form.longest, self.form.largest)


def _rest(parts: TileParts) -> int:
    """Ticks that GM leaves to the pipes at least."""
    return parts.pipes.rest if parts.gm > 0 or parts.gm_core > 0 else 0


def _line_step(form: BoundForm, chip: ChipTable) -> int:
    """The shortest step of lengths with which tiles start at cache lines, as far as that depends on them.

    Rows whose distances in GM align no better than tiles of a granule do not count: no length changes where they start.
    """
    tiled = 0
    for c in form.copies:
        distance = c.tiled * form.granule
        if distance and _low_bit(chip.line | c.aligned) > _low_bit(distance):
            tiled |= c.tiled
    if not tiled:
        return form.granule
    return form.granule * (chip.line // _low_bit(chip.line | tiled * form.granule))


def _low_bit(x: int) -> int:
    """The largest power of two that divides ``x``, which is not 0."""
    return x & -x


def _root(x: int, most: int) -> int:
    """The largest integer of at most ``most`` whose square is at most ``x``; 1 for less."""
    low, high = 1, most
    while low < high:
        middle = low + (high - low + 1) // 2
        low, high = (middle, high) if middle * middle <= x else (low, middle - 1)
    return low
