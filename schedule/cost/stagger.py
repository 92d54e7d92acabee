"""Loops in which every core starts at a step of its own.

Where all cores go through one tensor from its start, as through the scale of a norm whose rows do not fit UB, they ask
for the same addresses at the same time, and GM answers them one after another.  A loop whose steps may be done in any
order starts on each core at another step instead, and goes on from the first one when it is through the last.  Steps
have an order where one takes over what an earlier one left: accumulators, running sums, counts of elements.
"""

from __future__ import annotations

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.schedule.placement.scan import SCAN
from autofuse.targets import TargetSpec

__all__ = ["in_any_order", "passes", "same_on_all_cores", "with_staggered_loops"]


def with_staggered_loops(impl: ImplGraph, target: TargetSpec) -> ImplGraph:
    """The template, with those passes staggered that gain by it.

    Args:
        impl: a template.
        target: the chip; one that reads a tensor in one order as fast as in several has nothing to gain.
    """
    spec, model = impl.tiling, target.model
    if impl.r_axis is None or model.shared_gbs <= model.same_order_gbs:
        return impl
    if spec.tiles.as_int() == 1 or spec.reduce_steps.as_int() == 1:
        return impl  # a core is alone, or has one step
    found = tuple(
        p
        for p, nodes in enumerate(passes(impl))
        if in_any_order(impl, nodes) and any(same_on_all_cores(impl, n) for n in nodes)
    )
    return replace(impl, tiling=replace(spec, staggered=found)) if found else impl


def passes(impl: ImplGraph) -> tuple[tuple[Node, ...], ...]:
    """The nodes of every pass of the reduce loop."""
    inside = [n for n in impl.nodes if n.loop_axis is not None and n.loop_axis == impl.r_axis]
    count = max((n.loop_pass for n in inside), default=-1) + 1
    return tuple(tuple(n for n in inside if n.loop_pass == p) for p in range(count))


def in_any_order(impl: ImplGraph, nodes: tuple[Node, ...]) -> bool:
    """Return True if no step of a loop with these nodes depends on what an earlier step left."""
    counts = {n.name for n in impl.nodes if n.attrs.get("count")}
    return not any(
        n.joins is not None or n.op == SCAN or not counts.isdisjoint(n.inputs) for n in nodes
    )


def same_on_all_cores(impl: ImplGraph, n: Node) -> bool:
    """Return True if a node in the reduce loop is a Load that does not change with the tiles of the cores."""
    assert impl.r_axis is not None
    looped = impl.merged_from(impl.r_axis)
    moving = {
        a
        for a, s in zip(n.y.axis, n.y.strides, strict=True)
        if s != 0 and a not in n.y.vectorized_axis
    }
    return n.op == "Load" and moving <= looped
