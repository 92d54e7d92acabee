"""Bytes that a kernel moves, by the model of its templates."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.api import BuildResult, SplitResult
from autofuse.codegen.backends.interface import plans
from autofuse.schedule.axes.result import Group, ScheduleResult
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import comparable, solve_template
from autofuse.targets import ascend_chip

__all__ = ["modelled_bytes"]


def modelled_bytes(built: BuildResult | SplitResult, sizes: Mapping[str, int]) -> int | None:
    """Return the bytes between GM and the cores, in both directions, for the form and templates with the lowest cost.

    Args:
        built: the kernel, or several.
        sizes: values of its symbols, and possibly of others.

    Returns:
        The bytes; None if no template is legal for these sizes, or the kernel has no templates.
    """
    if plans(built.target):
        return None
    parts = built.parts if isinstance(built, SplitResult) else (built,)
    total = 0
    for p in parts:
        forms = [_form(r, Costs(ascend_chip(p.target)), sizes) for r in p.schedule]
        legal = [f for f in forms if f is not None]
        if not legal:
            return None
        total += min(legal)[1]
    return total


def _form(
    result: ScheduleResult, costs: Costs, sizes: Mapping[str, int]
) -> tuple[float, int] | None:
    """Return modelled cycles and bytes of one form of a graph."""
    groups = [_group(g, costs, sizes) for g in result.groups]
    found = [g for g in groups if g is not None]
    if len(found) < len(groups):
        return None
    barriers = sum(g.sync_before for g in result.groups) * costs.target.sync_all
    return barriers + sum(c for c, _ in found), sum(count for _, count in found)


def _group(group: Group, costs: Costs, sizes: Mapping[str, int]) -> tuple[float, int] | None:
    legal = []
    for impl in group.impls:
        found = solve_template(impl, costs, sizes)
        if found is not None:
            form, _ = costs.bound(impl, sizes, None)
            moved = form.shares(costs.chip, found.tile, found.per_core).bytes
            legal.append((comparable(found.cycles, impl, costs), round(moved)))
    return min(legal, default=None)
