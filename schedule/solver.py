"""The tiling solver: template, tile, tiles per core and cores for given sizes, by the costs of ``schedule.tile_cost``.

The same search, in the same order, as ``host_templates/autofuse_tiling_solver.h``; a test compiles that header and
compares.  Here it ranks templates, and folds the tiling of graphs whose sizes are all known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from autofuse.implgraph.expr import ExprError
from autofuse.implgraph.graph import ImplGraph
from autofuse.schedule.cost import evaluate
from autofuse.schedule.cost_form import Place, cost_form, ticks
from autofuse.schedule.result import ScheduleResult
from autofuse.schedule.tile_cost import (
    TICK_SHIFT,
    UNLIMITED,
    BoundForm,
    ChipTable,
    Solution,
    TileParts,
    bind,
    chip_table,
    tile_cost,
    tile_parts,
)
from autofuse.schedule.workload import Tiling, workload
from autofuse.targets import TargetSpec

__all__ = [
    "Choice",
    "best_tiling",
    "choose",
    "comparable",
    "solve",
    "solve_template",
]

#: A template that loads data again has to be better than one that keeps them in UB by this part of its cost: the model
#: takes for granted that L2 has them still, and no time was there to check that with.
LEEWAY = 4

_Cost = TypeVar("_Cost", int, float)


def solve(form: BoundForm, chip: ChipTable) -> Solution | None:
    """The tiling of the least cost that a short search finds; None where no tile is legal.

    Lengths from the largest on, each half of the one before, and all where there are few, each with the number of
    cores that a closed form gives; from the best of them on, neighbours in length, in tiles per core and in cores as
    long as that gets better.
    """
    if form.largest == 0:
        return None
    search = _Search(form, chip)
    search.run()
    return search.best


#: Where there are at most so many lengths, all are tried; else that many halves of the largest one.
FEW, HALVES = 16, 8
#: Numbers of equal pieces of an axis that are tried, from the smallest on.
EVEN = 3
#: Moves from the best choice so far, at most; lengths that are looked at in all.
ROUNDS, MOST_TILES = 8, 40
#: Halves in a row that are no better, before no further ones are tried.
WORSE = 2
#: Granules from which on one more of them matters little.
LONG = 64
#: Steps to both sides in length, and in tiles per core at the end.
REACH, FAR = 2, 2
#: Rows more or less in a tile, among which the work of the cores is made even.
NEAR = 8


class _Search:
    """The search of one template.  Attribute ``best``: the choice so far."""

    def __init__(self, form: BoundForm, chip: ChipTable) -> None:
        self.form, self.chip = form, chip
        self.parts: dict[int, TileParts] = {}
        self.tried: set[tuple[int, int]] = set()
        self.best: Solution | None = None
        line = _line_step(form, chip)
        self.steps = (form.granule, line) if line > form.granule else (form.granule,)

    def run(self) -> None:
        form = self.form
        self._start()
        assert self.best is not None
        if form.granule == 1 and not form.looped and form.largest > FEW:
            self._try_balanced()
        for _ in range(ROUNDS):
            before = self.best.cost
            self._neighbours()
            if self.best.cost == before:
                break
        if form.looped or form.outer > 1 or form.granule == 1:
            tile, per_core = self.best_choice()
            for k in range(max(per_core - FAR, 1), per_core + FAR + 1):
                self._try(tile, k)
        assert self.best.tile <= form.largest

    def _start(self) -> None:
        form = self.form
        if form.largest <= FEW * form.granule:
            for tile in range(form.granule, form.largest, form.granule):
                self._try_tile(tile)
            self._try_tile(form.largest)
        else:
            self._halves()
            # One row by itself may be cheaper than a few short ones.
            if form.granule == 1:
                self._try_tile(1)
            elif form.outer > 1 and not form.looped:
                # The same axis again and again: lengths that divide it evenly.
                fewest = max(-(-form.extent // form.largest), 1)
                for pieces in range(fewest, fewest + EVEN):
                    self._try_tile(self._round(-(-form.extent // pieces), form.granule))
        if form.looped:
            assert self.best is not None
            fewest = max(-(-form.extent // form.largest), 1)
            for steps in (fewest, fewest + 1, 2 * fewest):
                self._try(self._round(-(-form.extent // steps), form.granule), self.best.per_core)

    def _halves(self) -> None:
        tile, worse, least = self.form.largest, 0, UNLIMITED
        for _ in range(HALVES):
            self._try_tile(tile)
            assert self.best is not None
            worse = worse + 1 if self.best.cost == least else 0
            least = self.best.cost
            half = self._round(tile // 2, self.steps[-1])
            if half >= tile:
                half = self._round(tile // 2, self.form.granule)
            if half >= tile or worse == (WORSE if self.form.granule >= LONG else WORSE + 1):
                break
            tile = half

    def _try_balanced(self) -> None:
        """The lengths near the best one with which the core with the most to do has the fewest rows, on all cores."""
        form, tile = self.form, self.best_choice()[0]
        least = second = (UNLIMITED, 0)
        for t in range(max(2 * tile // 3, 1), min(tile + NEAR, form.largest) + 1):
            tiles = form.outer * -(-form.extent // t)
            rows = (t * -(-tiles // self.chip.cores), t)
            if rows[0] <= least[0]:  # of equals the longer one: fewer commands
                least, second = rows, least
            elif rows[0] <= second[0]:
                second = rows
        for _, t in (least, second):
            if t > 0:
                self._try(t, 1)

    def _neighbours(self) -> None:
        form, chip, best = self.form, self.chip, self.best
        assert best is not None
        tile, k, cores = best.tile, best.per_core, best.cores
        if form.looped:
            steps = max(-(-form.extent // tile), 1)
            self._try_pieces(steps + 1, k)
            if steps > 1:
                self._try_pieces(steps - 1, k)
        else:
            self._try_shares(k, cores)
            self._try_shares(k + 1, cores)
            self._try_shares(k - 1, cores)
            if cores < chip.cores:
                self._try_shares(k, chip.cores)
            self._try_shares(k, cores + 1)
            self._try_shares(k, cores - 1)
        near = self.best
        assert near is not None
        for step in self.steps:
            if step == 2 * form.granule:
                continue  # two granules are tried anyway
            for d in range(1, REACH + 1):
                self._try_like(near.tile + d * step, near)
                if near.tile > d * step:
                    self._try_like(near.tile - d * step, near)
        tile, k = self.best_choice()
        self._try(tile, k + 1)
        self._try(tile, k - 1)

    def best_choice(self) -> tuple[int, int]:
        """Length and tiles per core of the best choice so far."""
        assert self.best is not None
        return self.best.tile, self.best.per_core

    def _try_like(self, tile: int, near: Solution) -> None:
        """Another length, with as many tiles per core; of short granules also with as many cores."""
        tile = self._round(tile, self.form.granule)
        self._try(tile, near.per_core)
        if self.form.granule < LONG:
            parts = self._parts(tile)
            if parts is not None:
                self._try(tile, -(-parts.tiles // near.cores))

    def _try_shares(self, per_core: int, cores: int) -> None:
        """The length for which every one of the cores gets so many tiles."""
        if per_core < 1 or not 1 <= cores <= self.chip.cores:
            return
        pieces = max(per_core * cores // max(self.form.outer, 1), 1)
        self._try(self._round(-(-self.form.extent // pieces), self.form.granule), per_core)

    def _try_pieces(self, pieces: int, per_core: int) -> None:
        for step in self.steps:
            self._try(self._round(-(-self.form.extent // pieces), step), per_core)

    def _try_tile(self, tile: int) -> None:
        """A length, with the cores of the closed form and some about them."""
        form, chip = self.form, self.chip
        parts = self._parts(tile)
        if parts is None:
            return
        work = min(parts.tiles * _alone_on_gm(form, chip, parts), UNLIMITED)
        cores = _root(work // max(chip.core_start, 1), chip.cores)
        if parts.gm > 0:
            cores = min(cores, work // parts.gm + 1)
        k = -(-parts.tiles // max(cores, 1))
        self._try(tile, k)
        self._try(tile, k - 1)
        self._try(tile, 1)

    def _try(self, tile: int, per_core: int) -> None:
        """A length with so many tiles per core, or as few more as the cores take."""
        parts = self._parts(tile)
        if parts is None:
            return
        k = max(per_core, -(-parts.tiles // self.chip.cores), 1)
        if (tile, k) in self.tried:
            return
        self.tried.add((tile, k))
        found = tile_cost(self.form, self.chip, parts, k)
        if self.best is None or found.cost < self.best.cost:
            self.best = found

    def _parts(self, tile: int) -> TileParts | None:
        found = self.parts.get(tile)
        if found is None and len(self.parts) < MOST_TILES:
            found = self.parts[tile] = tile_parts(self.form, self.chip, tile)
        return found

    def _round(self, tile: int, step: int) -> int:
        """A legal length: the next multiple of a step, the whole axis, or the largest."""
        up = -(-max(tile, 1) // step) * step
        return min(up, self.form.longest, self.form.largest)


def _line_step(form: BoundForm, chip: ChipTable) -> int:
    """The shortest step of lengths with which tiles start at cache lines, as far as that depends on them."""
    tiled = 0
    for c in form.copies:
        tiled |= c.tiled
    bits = tiled * form.granule
    return form.granule * (chip.line // ((chip.line | bits) & -(chip.line | bits))) if bits else 0


def _alone_on_gm(form: BoundForm, chip: ChipTable, parts: TileParts) -> int:
    """Ticks between two tiles of a core that no other one disturbs."""
    total = 0
    for b, p in zip(form.bodies, parts.bodies, strict=True):
        if b.place is Place.ONCE:
            continue
        mte2 = (p.memory + p.same) * chip.load_rate + p.again * chip.hot_rate
        mte2 = p.load + (mte2 >> TICK_SHIFT)
        mte3 = p.store + (p.stored * chip.store_rate >> TICK_SHIFT)
        total += max(mte2, p.vector, mte3) * (parts.steps if b.place is Place.STEP else 1)
    return min(total, UNLIMITED)


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
) -> Solution | None:
    """The tiling of a template; None where it is not legal for these sizes.

    Args:
        impl: the template.
        target: the chip.
        sizes: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the target has.
        cores: cores, if fewer than the target has.
    """
    try:
        if not all(c.holds(sizes) for c in impl.tiling.conditions):
            return None
        form = cost_form(impl, target)
        bound = bind(form, impl.tiling, sizes, ub)
    except ExprError:
        return None  # a size that it divides by is 0
    chip = chip_table(target)
    if cores is not None:
        chip = replace(chip, cores=min(cores, chip.cores))
    return _solved(bound, chip)


#: Without symbols, what ranks a template is what its tiling is folded from; and groups that do the same to other
#: tensors have the same costs.
_solved = lru_cache(maxsize=128)(solve)


def comparable(cost: _Cost, impl: ImplGraph, target: TargetSpec) -> _Cost:
    """What a template's cost, in any unit, counts for beside those of other templates: see :data:`LEEWAY`."""
    if not cost_form(impl, target).reads_again:
        return cost
    return cost + (cost // LEEWAY if isinstance(cost, int) else cost / LEEWAY)


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
        barriers = sum(g.sync_before for g in r.groups)
        found = _choose_in(r, target, first_key, sizes or {}, ub, cores)
        if found is not None:
            cost = found[0] + barriers * ticks(target.sync_all)
            if best is None or cost < best[0]:
                best = (cost, found[1])
        first_key += _keys(r)
    return None if best is None else best[1]


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
) -> tuple[int, Choice] | None:
    """Cost of the groups of a result, and the choice."""
    most = target.aiv_cores if granted is None else min(granted, target.aiv_cores)
    key, digit, cores, taken, total = first_key, 1, 1, 0, 0
    fields: dict[str, int] = {}
    for g in reversed(result.groups):
        best: Solution | None = None
        chosen = least = 0
        for i, impl in enumerate(g.impls):
            found = solve_template(impl, target, sizes, ub, most)
            if found is None:
                continue
            cost = min(comparable(found.cost, impl, target), UNLIMITED)
            if best is None or cost < least:
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
    return total, Choice(key, cores, fields)
