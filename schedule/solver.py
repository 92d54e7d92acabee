"""The tiling solver: template, tile, tiles per core and cores for given sizes, by the costs of ``schedule.tile_cost``.

The same search, in the same order, as ``host_templates/autofuse_tiling_solver.h``; a test compiles that header and
compares.  Here it ranks templates, and folds the tiling of graphs whose sizes are all known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from autofuse.implgraph.expr import ExprError
from autofuse.implgraph.graph import ImplGraph, TilingSpec
from autofuse.schedule.cost import evaluate
from autofuse.schedule.cost_form import CostForm, cost_form, ticks
from autofuse.schedule.result import ScheduleResult
from autofuse.schedule.tile_cost import (
    UNLIMITED,
    BoundForm,
    ChipTable,
    Solution,
    TileParts,
    bind,
    chip_table,
    tile_cost,
    tile_parts,
    undisturbed_cost,
)
from autofuse.schedule.workload import Tiling, workload
from autofuse.targets import TargetSpec

__all__ = [
    "Choice",
    "best_tiling",
    "by_promise",
    "choose",
    "comparable",
    "solve",
    "solve_template",
]

#: A template that loads data again has to be better than one that keeps them in UB by this part of its cost: the model
#: takes for granted that L2 has them still, and no time was there to check that with.
LEEWAY = 4
#: A template whose first choices are worse than the best of another one by more than this part of it is not looked at
#: any further.
HOPELESS = 8

_Cost = TypeVar("_Cost", int, float)
#: The costs before each half and the best after it, the best of all that are far apart, and the best nearby.
_Searched: TypeAlias = tuple[tuple[tuple[int, Solution], ...], Solution, Solution]


def solve(
    form: BoundForm, chip: ChipTable, *, least: int = UNLIMITED, again: bool = False
) -> Solution | None:
    """The tiling of the least cost that a short search finds; None where no tile is legal.

    Lengths from a long one on, each half of the one before, and all where there are few.  About the best of them the
    lengths next to it, those with which a number of cores have so many tiles each, and equal pieces of the axis; with
    each length all tiles per core that may be better than the best so far.

    Args:
        form: a template for given sizes.
        chip: figures.
        least: what the best of other templates counts for; the search stops where it is hopeless beside that.
        again: whether the template loads data again.
    """
    if form.largest == 0:
        return None
    known: _Searched | None = form.searched.get(chip)
    if known is None:
        return _search(form, chip, least, again)
    halves, spread, refined = known
    for before, best in halves:
        if _hopeless(form, before, best.cost, least):
            return best
    return _search(form, chip, least, again) if _left_behind(spread, again, least) else refined


def _search(form: BoundForm, chip: ChipTable, least: int, again: bool) -> Solution:
    """The same for a form that is searched for the first time.

    A search that goes to its end answers for every ``least`` from then on: without symbols, what ranks a template is
    what its tiling is folded from.
    """
    search = Search(form, chip)
    halves: list[tuple[int, Solution]] = []
    for before, best in search.halves():
        if _hopeless(form, before, best.cost, least):
            return best
        halves.append((before, best))
    spread = search.even()
    if _left_behind(spread, again, least):
        longest = search.longest()
        return longest if _left_behind(longest, again, least) else search.refine()
    refined = search.refine()
    form.searched[chip] = tuple(halves), spread, refined
    return refined


def _hopeless(form: BoundForm, before: int, cost: int, least: int) -> bool:
    """Whether lengths cost far more than another template and do not get better soon; beside none, never."""
    if form.looped:
        # One core goes through all of an axis: one length tells as much.
        return cost - cost // 7 * 2 > least
    if _few(form):
        # No length is so many times as short.
        return before == UNLIMITED and cost // -(-form.largest // form.granule) > least
    return cost // 2 > least and before - cost < before // 4


def _few(form: BoundForm) -> bool:
    """Whether all lengths are tried."""
    return form.largest <= (FEW_LOOPED if form.looped else FEW) * form.granule


def _left_behind(spread: Solution, again: bool, least: int) -> bool:
    """Whether the best of lengths that are far apart is too bad for what is better nearby to matter."""
    return least != UNLIMITED and _counted(spread.cost, again) > least + least // HOPELESS


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
        self._few = _few(form)
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


def solve_template(
    impl: ImplGraph,
    target: TargetSpec,
    sizes: Mapping[str, int],
    ub: int | None = None,
    cores: int | None = None,
    least: int = UNLIMITED,
) -> Solution | None:
    """The tiling of a template; None where it is not legal for these sizes.

    Args:
        impl: the template.
        target: the chip.
        sizes: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the target has.
        cores: cores, if fewer than the target has.
        least: what the best of other templates counts for; one that cannot win is not looked at to the end.
    """
    try:
        if not all(c.holds(sizes) for c in impl.tiling.conditions):
            return None
        form = cost_form(impl, target)
        bound = _bound(form, impl.tiling, sizes, ub)
    except ExprError:
        return None  # a size that it divides by is 0
    chip = chip_table(target)
    if cores is not None and cores < chip.cores:
        chip = replace(chip, cores=cores)
    return solve(bound, chip, least=least, again=form.reads_again)


def _bound(form: CostForm, spec: TilingSpec, sizes: Mapping[str, int], ub: int | None) -> BoundForm:
    """The costs of a template for given sizes; without symbols, the same object when asked again."""
    if sizes or ub is not None:
        return bind(form, spec, sizes, ub)
    if not form.bound:
        form.bound.append(bind(form, spec, sizes))
    found: BoundForm = form.bound[0]
    return found


def by_promise(impls: Sequence[ImplGraph], target: TargetSpec) -> list[tuple[int, ImplGraph]]:
    """The templates of a group with their places, in the order in which they are searched.

    After those of the lowest rank the others are mostly hopeless; of equals the last ones are the best.
    """
    return sorted(enumerate(impls), key=lambda row: (cost_form(row[1], target).rank, -row[0]))


def comparable(cost: _Cost, impl: ImplGraph, target: TargetSpec) -> _Cost:
    """What a template's cost, in any unit, counts for beside those of other templates: see :data:`LEEWAY`."""
    return _counted(cost, cost_form(impl, target).reads_again)


def _counted(cost: _Cost, again: bool) -> _Cost:
    if not again:
        return cost
    # mypyc tells int and float apart, and no type says that the share of an int is an int.
    share: Any = cost // LEEWAY if isinstance(cost, int) else cost / LEEWAY
    counted: _Cost = cost + share
    return counted


def best_tiling(
    impl: ImplGraph, target: TargetSpec, sizes: Mapping[str, int], *, barriers: int = 0
) -> Tiling | None:
    """What the host function chooses for a template, with its modelled time; None where no tile is legal.

    Args:
        impl: the template.
        target: the chip.
        sizes: values of all symbols of the graph.
        barriers: times that all cores meet before it.
    """
    found = solve_template(impl, target, sizes)
    if found is None:
        return None
    work = workload(impl, target, sizes, found.tile, per_core=found.per_core, barriers=barriers)
    return Tiling(found.tile, found.per_core, work.cores, evaluate(work, target))


@dataclass(frozen=True, slots=True)
class Choice:
    """What the host function chooses: key, cores, and the values of the other fields of the tiling data."""

    key: int
    cores: int
    fields: Mapping[str, int]


def choose(
    results: Sequence[ScheduleResult],
    target: TargetSpec,
    sizes: Mapping[str, int] | None = None,
    *,
    ub: int | None = None,
    cores: int | None = None,
) -> Choice | None:
    """The tiling of a graph as the host function chooses it; None where nothing is legal.

    Args:
        results: the schedules of the graph.
        target: the chip.
        sizes: values of all symbols of the graph; None where it has none.
        ub: bytes of UB that are granted, if fewer than the target has.
        cores: cores that are granted, if fewer.
    """
    best: tuple[int, Choice] | None = None
    first_key = 0
    for r in results:
        limit = UNLIMITED if best is None else best[0]
        found = _choose_in(r, target, first_key, sizes or {}, ub, cores, limit)
        if found is not None:
            best = found
        first_key += _keys(r)
    return None if best is None else best[1]


def modelled_ticks(result: ScheduleResult, target: TargetSpec) -> int | None:
    """What a schedule of known sizes costs with the tiling that is chosen; None where nothing is legal."""
    found = _choose_in(result, target, 0, {}, None, None, UNLIMITED)
    return None if found is None else found[0]


def _keys(result: ScheduleResult) -> int:
    count = 1
    for g in result.groups:
        count *= len(g.impls)
    return count


def _choose_in(
    result: ScheduleResult,
    target: TargetSpec,
    first_key: int,
    sizes: Mapping[str, int],
    ub: int | None,
    granted: int | None,
    limit: int,
) -> tuple[int, Choice] | None:
    """Cost of a result with its barriers, and the choice; None where it is not less than ``limit``."""
    most = target.aiv_cores if granted is None else min(granted, target.aiv_cores)
    total = sum(g.sync_before for g in result.groups) * ticks(target.sync_all)
    key, digit, cores, taken = first_key, 1, 1, 0
    fields: dict[str, int] = {}
    for g in reversed(result.groups):
        if total >= limit:
            return None
        best: Solution | None = None
        # A group that costs more than is left to the limit cannot win either, however its template is counted.
        left = max(limit - total, 0)
        bound = left + left // LEEWAY
        chosen, least = 0, UNLIMITED
        for i, impl in by_promise(g.impls, target):
            found = solve_template(impl, target, sizes, ub, most, min(least, bound))
            if found is None:
                continue
            cost = min(comparable(found.cost, impl, target), UNLIMITED)
            if best is None or (cost, i) < (least, chosen):
                best, chosen, least = found, i, cost
        if best is None:
            return None
        spec = g.impls[chosen].tiling
        key += digit * chosen
        digit *= len(g.impls)
        first_core = 0 if spec.first_core is None else taken
        taken = first_core + best.cores
        cores = max(cores, min(taken, most))
        total += best.cost
        fields |= {spec.tile_size: best.tile, spec.block_size: best.per_core}
        if spec.first_core is not None:
            fields[spec.first_core] = first_core
    if total >= limit:
        return None
    return total, Choice(key, cores, fields)
