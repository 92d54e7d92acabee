"""Modelled time of a generated kernel with a fixed tiling, for the figures of any chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autofuse.results import BuildResult
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.search.bound import bind
from autofuse.schedule.search.breakdown import cost_of
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import choose, solve_template
from autofuse.targets import TargetSpec, ascend_chip

__all__ = ["graph_model"]


def graph_model(
    built: BuildResult, sizes: Mapping[str, int], key: int | None
) -> tuple[frozenset[str], Callable[[TargetSpec], float]] | None:
    """Return the vector table rows of a kernel, and its time as a function of the chip; None if no tiling is legal.

    The tiling is fixed to the one for the chip that the kernel was built for, since another would change the work.

    Args:
        built: the kernel.
        sizes: a value for every symbol.
        key: the template that ran; None: the host function's choice.
    """
    costs = Costs(ascend_chip(built.target))
    if key is None:
        chosen = choose(built.schedule, costs, sizes)
        if chosen is None:
            return None
        key = chosen.key
    keys = tiling_keys(built.schedule)
    if not 0 <= key < len(keys):
        return None
    barriers = {id(i): g.sync_before for r in built.schedule for g in r.groups for i in g.impls}
    tiled = [(impl, solve_template(impl, costs, sizes)) for impl in keys[key]]
    legal = [(impl, t) for impl, t in tiled if t is not None]
    if len(legal) < len(tiled):
        return None

    def predict(chip: TargetSpec) -> float:
        """Return the time of all groups, which share the head of the kernel."""
        total = chip.kernel_head_us
        for impl, t in legal:
            form = bind(cost_form(impl, chip), impl.tiling, sizes)
            cost = cost_of(form, chip, t.tile, t.per_core, barriers=int(barriers[id(impl)]))
            total += cost.total - chip.kernel_head_us
        return total

    return frozenset().union(*(costs.form(impl).kinds for impl, _ in legal)), predict
