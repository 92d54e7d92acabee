"""The tiling solver: template, tile, tiles per core and cores for given sizes, by ``schedule.search.tile_cost``.

The same choices, in the same order, as ``autofuse_form_solver.h`` and ``autofuse_tiling_solver.h``;
tests compile these headers and compare.  Here it ranks templates, and folds the tiling of graphs whose sizes are all
known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.cost.cost import evaluate
from autofuse.schedule.search.cost_form import ticks
from autofuse.schedule.search.costs import Costs, Searched
from autofuse.schedule.search.tile_cost import UNLIMITED, BoundForm, ChipTable, Solution
from autofuse.schedule.search.tile_search import Search, few_lengths
from autofuse.schedule.search.workload import Tiling, workload

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


def solve(
    form: BoundForm,
    chip: ChipTable,
    searched: dict[ChipTable, Searched] | None = None,
    *,
    least: int = UNLIMITED,
    again: bool = False,
) -> Solution | None:
    """The tiling of the least cost that a short search finds; None where no tile is legal.

    Lengths from a long one on, each half of the one before, and all where there are few.  About the best of them the
    lengths next to it, those with which a number of cores have so many tiles each, and equal pieces of the axis; with
    each length all tiles per core that may be better than the best so far.

    Args:
        form: a template for given sizes.
        chip: figures.
        searched: what searches of this form that went to their end have found; such a one is added.
        least: what the best of other templates counts for; the search stops where it is hopeless beside that.
        again: whether the template loads data again.
    """
    if form.largest == 0:
        return None
    searched = {} if searched is None else searched
    known = searched.get(chip)
    if known is None:
        return _search(form, chip, searched, least, again)
    halves, spread, refined = known
    for before, best in halves:
        if _hopeless(form, before, best.cost, least):
            return best
    return (
        _search(form, chip, searched, least, again)
        if _left_behind(spread, again, least)
        else refined
    )


def _search(
    form: BoundForm,
    chip: ChipTable,
    searched: dict[ChipTable, Searched],
    least: int,
    again: bool,
) -> Solution:
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
    searched[chip] = tuple(halves), spread, refined
    return refined


def _hopeless(form: BoundForm, before: int, cost: int, least: int) -> bool:
    """Whether lengths cost far more than another template and do not get better soon; beside none, never."""
    if form.looped:
        # One core goes through all of an axis: one length tells as much.
        return cost - cost // 7 * 2 > least
    if few_lengths(form):
        # No length is so many times as short.
        return before == UNLIMITED and cost // -(-form.largest // form.granule) > least
    return cost // 2 > least and before - cost < before // 4


def _left_behind(spread: Solution, again: bool, least: int) -> bool:
    """Whether the best of lengths that are far apart is too bad for what is better nearby to matter."""
    return least != UNLIMITED and _counted(spread.cost, again) > least + least // HOPELESS


def solve_template(
    impl: ImplGraph,
    costs: Costs,
    sizes: Mapping[str, int],
    ub: int | None = None,
    cores: int | None = None,
    least: int = UNLIMITED,
) -> Solution | None:
    """The tiling of a template; None where it is not legal for these sizes.

    Args:
        impl: the template.
        costs: of templates on the chip.
        sizes: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the target has.
        cores: cores, if fewer than the target has.
        least: what the best of other templates counts for; one that cannot win is not looked at to the end.
    """
    try:
        if not all(c.holds(sizes) for c in impl.tiling.conditions):
            return None
        bound, searched = costs.bound(impl, sizes, ub)
    except ExprError:
        return None  # a size that it divides by is 0
    chip = costs.chip
    if cores is not None and cores < chip.cores:
        chip = replace(chip, cores=cores)
    return solve(bound, chip, searched, least=least, again=costs.form(impl).reads_again)


def by_promise(impls: Sequence[ImplGraph], costs: Costs) -> list[tuple[int, ImplGraph]]:
    """The templates of a group with their places, in the order in which they are searched.

    After those of the lowest rank the others are mostly hopeless; of equals the last ones are the best.
    """
    return sorted(enumerate(impls), key=lambda row: (costs.form(row[1]).rank, -row[0]))


def comparable(cost: _Cost, impl: ImplGraph, costs: Costs) -> _Cost:
    """What a template's cost, in any unit, counts for beside those of other templates: see :data:`LEEWAY`."""
    return _counted(cost, costs.form(impl).reads_again)


def _counted(cost: _Cost, again: bool) -> _Cost:
    if not again:
        return cost
    return cost + (cost // LEEWAY if isinstance(cost, int) else cost / LEEWAY)


def best_tiling(
    impl: ImplGraph, costs: Costs, sizes: Mapping[str, int], *, barriers: int = 0
) -> Tiling | None:
    """What the host function chooses for a template, with its modelled time; None where no tile is legal.

    Args:
        impl: the template.
        costs: of templates on the chip.
        sizes: values of all symbols of the graph.
        barriers: times that all cores meet before it.
    """
    found = solve_template(impl, costs, sizes)
    if found is None:
        return None
    target = costs.target
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
    costs: Costs,
    sizes: Mapping[str, int] | None = None,
    *,
    ub: int | None = None,
    cores: int | None = None,
) -> Choice | None:
    """The tiling of a graph as the host function chooses it; None where nothing is legal.

    Args:
        results: the schedules of the graph.
        costs: of templates on the chip.
        sizes: values of all symbols of the graph; None where it has none.
        ub: bytes of UB that are granted, if fewer than the target has.
        cores: cores that are granted, if fewer.
    """
    best: tuple[int, Choice] | None = None
    first_key = 0
    for r in results:
        limit = UNLIMITED if best is None else best[0]
        found = _choose_in(r, costs, first_key, sizes or {}, ub, cores, limit)
        if found is not None:
            best = found
        first_key += _keys(r)
    return None if best is None else best[1]


def modelled_ticks(result: ScheduleResult, costs: Costs) -> int | None:
    """What a schedule of known sizes costs with the tiling that is chosen; None where nothing is legal."""
    found = _choose_in(result, costs, 0, {}, None, None, UNLIMITED)
    return None if found is None else found[0]


def _keys(result: ScheduleResult) -> int:
    count = 1
    for g in result.groups:
        count *= len(g.impls)
    return count


def _choose_in(
    result: ScheduleResult,
    costs: Costs,
    first_key: int,
    sizes: Mapping[str, int],
    ub: int | None,
    granted: int | None,
    limit: int,
) -> tuple[int, Choice] | None:
    """Cost of a result with its barriers, and the choice; None where it is not less than ``limit``."""
    target = costs.target
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
        for i, impl in by_promise(g.impls, costs):
            found = solve_template(impl, costs, sizes, ub, most, min(least, bound))
            if found is None:
                continue
            cost = min(comparable(found.cost, impl, costs), UNLIMITED)
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
