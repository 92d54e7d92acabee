"""Steps of the scheduler by themselves: what groups are made of, and the templates that are tried for them."""

from __future__ import annotations

from contextlib import suppress

from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.lowering.lowering import groups
from autofuse.schedule import scheduler
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import GroupInput
from autofuse.schedule.memory.workspace import place_workspaces
from autofuse.schedule.realise import Template
from autofuse.schedule.search.costs import Costs
from autofuse.targets import TargetSpec


def group_inputs(hint: HintGraph, target: TargetSpec) -> list[GroupInput]:
    """What the templates of each group are made of."""
    spaces = place_workspaces(hint, target)
    return [*scheduler._group_inputs(hint, groups(hint), spaces, target, 0)]


def placed_templates(g: GroupInput) -> list[Template]:
    """The templates of a group that have a place, before a memory plan is made for them."""
    out, costs = [], Costs(g.target)
    for _, placer, group, candidate in scheduler._tries(g):
        with suppress(TemplateRejectedError):
            out.append(Template(group, candidate, placer(candidate), 0, costs))
    return out
