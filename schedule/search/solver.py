"""The tiling solver: template, tile, tiles per core and cores for given sizes, by ``autofuse_tile_search.h``.

Makes the same choices, in the same order, as ``autofuse_tiling_solver.h``; tests compile that header and compare.  Used
to rank templates, and to fold the tiling of graphs with known sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.search.bound import Tiled, search
from autofuse.schedule.search.breakdown import Tiling, cost_of
from autofuse.schedule.search.costs import Costs

__all__ = [
    "Choice",
    "best_tiling",
    "choose",
    "comparable",
    "result_cycles",
    "solve_template",
]

#: A template that reloads data must beat one that keeps them in UB by this fraction of its time: the model assumes that
#: L2 still holds them, and no measured time was available to check that.
LEEWAY = 1 / 4


def solve_template(
    impl: ImplGraph,
    costs: Costs,
    sizes: Mapping[str, int],
    ub: int | None = None,
    cores: int | None = None,
) -> Tiled | None:
    """Return the tiling of a template; None if it is illegal for these sizes.

    Args:
        impl: the template.
        costs: costs of templates on the chip.
        sizes: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the target has.
        cores: cores, if fewer than the target has.
    """
    chip = costs.chip if cores is None else costs.chip.granted(cores)
    try:
        if not all(c.holds(sizes) for c in impl.tiling.conditions):
            return None
        bound, searched = costs.bound(impl, sizes, ub)
    except (ExprError, OverflowError):
        return None  # division by a size of 0, or a size beyond the host's integers
    if chip.cores not in searched:
        searched[chip.cores] = search(bound, chip)
    return searched[chip.cores]


def comparable(cycles: float, impl: ImplGraph, costs: Costs) -> float:
    """Return a template's time, in any unit, adjusted for comparison with other templates: see :data:`LEEWAY`."""
    return cycles + cycles * LEEWAY if costs.form(impl).reads_again else cycles


def best_tiling(
    impl: ImplGraph, costs: Costs, sizes: Mapping[str, int], *, barriers: int = 0
) -> Tiling | None:
    """Return the tiling that the host function chooses for a template, with its modelled time; None if none is legal.

    Args:
        impl: the template.
        costs: costs of templates on the chip.
        sizes: values of all symbols of the graph.
        barriers: number of barriers before it.
    """
    found = solve_template(impl, costs, sizes)
    if found is None:
        return None
    bound, _ = costs.bound(impl, sizes, None)
    cost = cost_of(bound, costs.target, found.tile, found.per_core, barriers=barriers)
    return Tiling(found.tile, found.per_core, found.cores, cost)


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice of the host function: key, cores, and the other fields of the tiling data."""

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
    """Return the tiling of a graph that the host function chooses; None if nothing is legal.

    Args:
        results: the schedules of the graph.
        costs: costs of templates on the chip.
        sizes: values of all symbols of the graph; None if it has no symbols.
        ub: bytes of UB that are granted, if fewer than the target has.
        cores: cores that are granted, if fewer.
    """
    best: tuple[float, Choice] | None = None
    first_key = 0
    for r in results:
        found = _choose_in(r, costs, first_key, sizes or {}, ub, cores)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
        first_key += _keys(r)
    return None if best is None else best[1]


def result_cycles(
    result: ScheduleResult,
    costs: Costs,
    sizes: Mapping[str, int] | None = None,
    *,
    ub: int | None = None,
    cores: int | None = None,
) -> float | None:
    """Return the cycles of a schedule with the chosen tiling; arguments as for :func:`choose`."""
    found = _choose_in(result, costs, 0, sizes or {}, ub, cores)
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
) -> tuple[float, Choice] | None:
    """Return the cycles of a result including barriers, and the choice; None if a group has no legal template."""
    target = costs.target
    most = target.aiv_cores if granted is None else min(granted, target.aiv_cores)
    cycles = sum(g.sync_before for g in result.groups) * target.sync_all
    key, digit, cores, taken = first_key, 1, 1, 0
    fields: dict[str, int] = {}
    for g in reversed(result.groups):
        best: Tiled | None = None
        chosen, least = 0, math.inf
        for i, impl in enumerate(g.impls):
            found = solve_template(impl, costs, sizes, ub, most)
            if found is not None:
                counted = comparable(found.cycles, impl, costs)
                if best is None or counted < least:
                    best, chosen, least = found, i, counted
        if best is None:
            return None
        spec = g.impls[chosen].tiling
        key += digit * chosen
        digit *= len(g.impls)
        first_core = 0 if spec.first_core is None else taken
        taken = first_core + best.cores
        cores = max(cores, min(taken, most))
        cycles += best.cycles
        fields |= {spec.opened.symbol: best.tile, spec.block_size: best.per_core}
        if spec.first_core is not None:
            fields[spec.first_core] = first_core
    return cycles, Choice(key, cores, fields)
