"""Tilings that may be faster on a chip than the one that the model prefers: what a tuner measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import Group, ScheduleResult
from autofuse.schedule.search.bound import Tiled, best_of_length
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import GivenTile, GivenTiling, given_cycles, placed
from autofuse.schedule.search.solver import comparable, solve_template

__all__ = ["candidates", "legal_everywhere", "searched"]


def searched(
    result: ScheduleResult, costs: Costs, sizes: Mapping[str, int]
) -> tuple[GivenTile, ...] | None:
    """Return the search's choice for each group if this schedule runs; None if it is not legal for these sizes."""
    found = []
    for g in result.groups:
        best = _best(g, costs, sizes)
        if best is None:
            return None
        found.append(best)
    return tuple(found)


def candidates(
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
    top: int,
) -> list[GivenTiling]:
    """Tilings for given sizes: of every template the best tiles by the model, one group changed at a time.

    The sizes of what is returned are left open.

    Args:
        results: the schedules of the graph.
        costs: of their templates.
        sizes: values of all symbols.
        top: of each template, at most.

    Returns:
        Those with the least modelled time first; what the search takes in each schedule is among them.
    """
    found: dict[tuple[GivenTile, ...], GivenTiling] = {}
    for r in results:
        start = searched(r, costs, sizes)
        if start is None:
            continue
        found.setdefault(start, GivenTiling({}, start))
        for i, g in enumerate(r.groups):
            for impl in g.impls:
                for tile in _tiles(impl, costs, sizes, top):
                    groups = (*start[:i], tile, *start[i + 1 :])
                    found.setdefault(groups, GivenTiling({}, groups))
    timed = [(given_cycles(t, results, costs, sizes), t) for t in found.values()]
    legal = [(c, t) for c, t in timed if not isinstance(c, str)]
    return [t for _, t in sorted(legal, key=lambda pair: pair[0])]


def _best(group: Group, costs: Costs, sizes: Mapping[str, int]) -> GivenTile | None:
    best: tuple[float, GivenTile] | None = None
    for impl in group.impls:
        t = solve_template(impl, costs, sizes)
        if t is None:
            continue
        counted = comparable(t.cycles, impl, costs)
        if best is None or counted < best[0]:
            best = counted, GivenTile(impl.name, t.tile, t.cores)
    return None if best is None else best[1]


def _tiles(impl: ImplGraph, costs: Costs, sizes: Mapping[str, int], top: int) -> list[GivenTile]:
    """The best tiles of a template: each length with the cores that suit it, and with all of them."""
    try:
        form, _ = costs.bound(impl, sizes, None)
    except (ExprError, OverflowError):
        return []
    if form.largest == 0:
        return []
    chip = costs.chip
    found: dict[GivenTile, float] = {}
    for length in form.lengths(chip):
        best = best_of_length(form, chip, length)
        for cores in (chip.cores, best.cores):
            one = GivenTile(impl.name, length, max(min(cores, form.tiles(length)), 1))
            at = placed(impl, costs, sizes, one)
            if isinstance(at, Tiled):
                # As many as really take part, so that equal choices are one.
                found.setdefault(replace(one, cores=at.cores), at.cycles)
    return sorted(found, key=lambda t: found[t])[:top]


def legal_everywhere(
    given: Sequence[GivenTiling],
    results: Sequence[ScheduleResult],
    costs: Costs,
    points: Sequence[Mapping[str, int]],
) -> Iterator[GivenTiling]:
    """Those that are legal at all of some sizes."""
    for t in given:
        if all(not isinstance(given_cycles(t, results, costs, s), str) for s in points):
            yield t
