"""Steps of the scheduler by themselves: what groups are made of, and the templates that are tried for them."""

from __future__ import annotations

from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.lowering.lowering import groups
from autofuse.schedule import scheduler
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import GroupInput
from autofuse.schedule.memory.workspace import place_workspaces
from autofuse.schedule.realise import Template, placing
from autofuse.targets import TargetSpec


def group_inputs(hint: HintGraph, target: TargetSpec) -> list[GroupInput]:
    """What the templates of each group are made of."""
    spaces = place_workspaces(hint, target.arch)
    return [*scheduler._group_inputs(hint, groups(hint), spaces, target, 0)]


def placed_templates(g: GroupInput) -> list[Template]:
    """The templates of a group that have a place, before a memory plan is made for them."""
    out = []
    for group, choice in scheduler._tries(g):
        try:
            placed = placing(group)(choice)
        except TemplateRejectedError:
            continue
        out.append(Template(group, choice, placed, 0))
    return out
