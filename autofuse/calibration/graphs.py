"""The modelled time of a generated kernel as it was tiled, for the figures of any chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.results import BuildResult
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.cost.cost import Work, evaluate
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import choose, solve_template
from autofuse.schedule.search.workload import workload
from autofuse.targets import TargetSpec, ascend_chip

__all__ = ["graph_model", "kinds_of"]


def graph_model(
    built: BuildResult, sizes: Mapping[str, int], key: int | None
) -> tuple[tuple[Work, ...], Callable[[TargetSpec], float]] | None:
    """What a kernel does, and its time for a chip; None where the host function finds no tiling.

    The tiling stays that of the chip that the kernel was built for: another one would be other work.

    Args:
        built: the kernel.
        sizes: a value for every symbol.
        key: the template that ran; None: the one that the host function chooses.
    """
    target = ascend_chip(built.target)
    costs = Costs(target)
    if key is None:
        chosen = choose(built.schedule, costs, sizes)
        if chosen is None:
            return None
        key = chosen.key
    keys = tiling_keys(built.schedule)
    if not 0 <= key < len(keys):
        return None
    groups = [g for r in built.schedule for g in r.groups]
    before = {id(i): int(g.sync_before) for g in groups for i in g.impls}
    try:
        works = [_work(impl, costs, sizes, before[id(impl)]) for impl in keys[key]]
    except ExprError:
        return None  # a size that a template divides by is 0
    legal = tuple(w for w in works if w is not None)
    if len(legal) < len(works):
        return None

    def predict(chip: TargetSpec) -> float:
        """The groups are one kernel: it starts once."""
        found = [evaluate(w, chip) for w in legal]
        return sum(c.total - c.start for c in found) + max(c.start for c in found)

    return legal, predict


def _work(impl: ImplGraph, costs: Costs, sizes: Mapping[str, int], barriers: int) -> Work | None:
    """What a group does; None where its template is not legal for these sizes."""
    found = solve_template(impl, costs, sizes)
    if found is None:
        return None
    per_core = found.per_core
    return workload(impl, costs.target, sizes, found.tile, per_core=per_core, barriers=barriers)


def kinds_of(works: tuple[Work, ...]) -> frozenset[str]:
    """The rows of the vector table that works call."""
    bodies = [
        loop.body
        for w in works
        for loop in (*w.loops, *(w.tail.loops if w.tail is not None else ()))
    ]
    bodies += [w.once for w in works if w.once is not None]
    return frozenset(c.kind for b in bodies for c in b.calls)
