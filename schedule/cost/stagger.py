"""Loops that every core starts at a different step.

If all cores read one tensor from its start, such as the scale of a norm whose rows do not fit UB, they request the same
addresses at the same time, and GM serializes them.  A loop whose steps may run in any order instead starts at a
different step on each core and wraps around.  Steps are ordered if one depends on an earlier one: accumulators, running
sums, element counts.
"""

from __future__ import annotations

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.schedule.placement.scan import SCAN
from autofuse.targets import TargetSpec

__all__ = ["in_any_order", "passes", "same_on_all_cores", "with_staggered_loops"]


def with_staggered_loops(impl: ImplGraph, target: TargetSpec) -> ImplGraph:
    """Return the template with the passes staggered that gain from it.

    Args:
        impl: a template.
        target: the chip; no gain if it reads a tensor equally fast in one order and in several.
    """
    spec, model = impl.tiling, target.model
    if impl.r_axis is None or model.shared_gbs <= model.same_order_gbs:
        return impl
    if spec.tiles.as_int() == 1 or spec.reduce_steps.as_int() == 1:
        return impl  # a single core, or a single step
    found = tuple(
        p
        for p, nodes in enumerate(passes(impl))
        if in_any_order(impl, nodes) and any(same_on_all_cores(impl, n) for n in nodes)
    )
    return replace(impl, tiling=replace(spec, staggered=found)) if found else impl


def passes(impl: ImplGraph) -> tuple[tuple[Node, ...], ...]:
    """Return the nodes of every pass of the reduce loop."""
    inside = [n for n in impl.nodes if n.loop_axis is not None and n.loop_axis == impl.r_axis]
    count = max((n.loop_pass for n in inside), default=-1) + 1
    return tuple(tuple(n for n in inside if n.loop_pass == p) for p in range(count))


def in_any_order(impl: ImplGraph, nodes: tuple[Node, ...]) -> bool:
    """Return True if no step of a loop with these nodes depends on an earlier step."""
    counts = {n.name for n in impl.nodes if n.attrs.get("count")}
    return not any(
        n.joins is not None or n.op == SCAN or not counts.isdisjoint(n.inputs) for n in nodes
    )


def same_on_all_cores(impl: ImplGraph, n: Node) -> bool:
    """Return True if a node in the reduce loop is a Load that is the same for all tiles of the cores."""
    assert impl.r_axis is not None
    looped = impl.merged_from(impl.r_axis)
    moving = {
        a
        for a, s in zip(n.y.axis, n.y.strides, strict=True)
        if s != 0 and a not in n.y.vectorized_axis
    }
    return n.op == "Load" and moving <= looped
