"""Candidate tilings for a tuner to measure, which may be faster on a chip than the model's choice."""

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
    """Return tilings for given sizes: the best tiles of every template by the model, changing one group at a time.

    The returned tilings leave the sizes open.

    Args:
        results: the schedules of the graph.
        costs: costs of their templates.
        sizes: values of all symbols.
        top: maximum per template.

    Returns:
        The tilings, least modelled time first; they include the search's choice in each schedule.
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
    """Return the best tiles of a template: each length with the best number of cores, and with all cores."""
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
                # Count only participating cores, so that equal choices coincide.
                found.setdefault(replace(one, cores=at.cores), at.cycles)
    return sorted(found, key=lambda t: found[t])[:top]


def legal_everywhere(
    given: Sequence[GivenTiling],
    results: Sequence[ScheduleResult],
    costs: Costs,
    points: Sequence[Mapping[str, int]],
) -> Iterator[GivenTiling]:
    """Yield the tilings that are legal at all given sizes."""
    for t in given:
        if all(not isinstance(given_cycles(t, results, costs, s), str) for s in points):
            yield t
