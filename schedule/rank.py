"""The ranking of templates: cycles of the cost model at typical sizes.  Model figures, not measurements."""

from __future__ import annotations

from autofuse.implgraph.graph import ImplGraph
from autofuse.schedule.cost_form import TICK_BITS
from autofuse.schedule.solver import solve_template
from autofuse.schedule.tile_limits import sample_env
from autofuse.targets import TargetSpec

__all__ = ["modelled_cycles"]


def modelled_cycles(impl: ImplGraph, target: TargetSpec) -> float:
    """Modelled cycles of a template at typical sizes, with the tiling that the host function would choose.

    Without what all templates have in common, the start of a kernel; infinite where the template is not legal.
    """
    found = solve_template(impl, target, sample_env(impl))
    return float("inf") if found is None else found.cost / (1 << TICK_BITS)
