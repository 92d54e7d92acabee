"""Choice of a tuning file at given sizes, beside the host function's search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import GivenTiling, placed, taken, templates_of
from autofuse.targets import TargetSpec

__all__ = ["tuned_choice", "tuned_us"]


def tuned_choice(
    rows: Sequence[GivenTiling],
    results: Sequence[ScheduleResult],
    target: TargetSpec,
    sizes: Mapping[str, int],
) -> dict[str, Any] | None:
    """Return the row that the host function takes at these sizes, ready for JSON; None if the search decides.

    Args:
        rows: rows of a tuning file.
        results: the schedules of the graph.
        target: the chip.
        sizes: values of all symbols.

    Returns:
        ``row``: its index; ``key``: the tiling key; ``cores``; ``groups``: ``template``, ``tile``, ``tiles_per_core``
        and ``cores`` of each; ``total_us``: modelled.
    """
    costs = Costs(target)
    found = taken(rows, results, costs, sizes)
    if found is None:
        return None
    index, choice = found
    groups, us = _groups(rows[index], results, costs, sizes)
    return {
        "row": index,
        "key": choice.key,
        "cores": choice.cores,
        "groups": groups,
        "total_us": us,
    }


def tuned_us(
    row: GivenTiling,
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
) -> float:
    """Return the modelled time of a tiling that is legal at these sizes, in microseconds."""
    return _groups(row, results, costs, sizes)[1]


def _groups(
    row: GivenTiling,
    results: Sequence[ScheduleResult],
    costs: Costs,
    sizes: Mapping[str, int],
) -> tuple[list[dict[str, Any]], float]:
    """Return the choice per group, and the total time: the groups are one kernel with one head."""
    where = templates_of(row, results)
    assert where is not None
    index, choices = where
    head, us = costs.target.kernel_head_us, 1.0 / costs.target.clock_mhz
    rows, total = [], head
    for g, choice, given in zip(results[index].groups, choices, row.groups, strict=True):
        impl = g.impls[choice]
        tiled = placed(impl, costs, sizes, given)
        assert not isinstance(tiled, str)
        took = us * (tiled.cycles + g.sync_before * costs.target.sync_all)
        total += took
        rows.append(
            {
                "template": impl.name,
                "tile": tiled.tile,
                "tiles_per_core": tiled.per_core,
                "cores": tiled.cores,
                "us": head + took,
            }
        )
    return rows, total
