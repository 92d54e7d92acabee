"""Template families: interface for the scheduler, the realisation of templates and the ranking.

No other code knows the name of a family or the meaning of its suffixes.  :mod:`autofuse.schedule.templates.table` lists
the families.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, Kind
from autofuse.schedule.placement.data_flow import DataFlow
from autofuse.schedule.placement.placement import Placed, place
from autofuse.schedule.placement.reduction import place_reduction
from autofuse.schedule.realise import Template

__all__ = ["ELEMENTWISE", "REDUCTION", "SCAN", "Candidates", "Family", "InLoops", "Placing"]

#: Proposals of a family: templates to try, each with the group on the axes that it requires.
Candidates = list[tuple[GroupInput, Candidate]]
Placing = Callable[[Candidate], Placed]

ELEMENTWISE, REDUCTION, SCAN = (frozenset({kind}) for kind in Kind)


class Family(Protocol):
    """A way to tile groups.

    Attributes:
        kinds: kinds of groups that it has templates for; it is used for no others.
    """

    kinds: frozenset[Kind]

    def candidates(self, g: GroupInput) -> Candidates:
        """Return the templates worth trying for a group, the most promising first; empty if it does not apply."""
        ...

    def placing(self, g: GroupInput) -> Placing:
        """Return the function that places all candidates of one group; by default without a reduce loop."""
        return partial(place, g)

    def planned(self, template: Template) -> ImplGraph:
        """Return a placed template with its memory plan: by default double buffered, else with one buffer per queue.

        Raises:
            TemplateRejectedError: no plan fits; gives the reason.
        """
        return template.in_tiles()

    def always_legal(self, impl: ImplGraph) -> bool:
        """Return True if ``impl``, one of its templates, is legal for every size of the graph's symbols."""
        return False


class InLoops(Family, Protocol):
    """A family in which some axes, given as reduced ones, are a loop inside the tile or around it."""

    def placing(self, g: GroupInput) -> Placing:
        """Return a function that places nodes to run once, per tile, or in the loop."""
        return partial(place_reduction, DataFlow(g))
