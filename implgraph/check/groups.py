"""Invariants of the groups of a HintGraph: reductions, index tensors, scalars, workspaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph, Node
from autofuse.implgraph.ir.group_order import groups
from autofuse.implgraph.ops.registry import find
from autofuse.implgraph.ops.rows.reductions import PART, REDUCES

__all__ = ["CHECKS", "Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken invariant, with the node or axis it concerns."""

    message: str
    node: str = ""
    axis: str = ""


def reductions_share_axes(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """All reductions of a group, or all of its reductions in parts, run over the same axes and keep the others."""
    if not isinstance(g, HintGraph):
        return
    nodes = g.by_name()
    over: dict[tuple[tuple[int, ...], bool], tuple[str, frozenset[int]]] = {}
    for n in g.ops(*REDUCES):
        if not n.inputs:
            continue  # reported by ops_are_known
        have, want = set(n.y.varies()), set(nodes[n.inputs[0]].y.varies())
        if not have < want:
            yield Finding(
                "the result of a reduction varies along some of its operand's axes", n.name
            )
            continue
        gone = frozenset(want - have)
        first, axes = over.setdefault((n.axis, PART in n.attrs), (n.name, gone))
        if axes != gone:
            names = ", ".join(g.axes[a].name for a in sorted(gone))
            yield Finding(f"reduces {names}, unlike {first} of the same group", n.name)


def operands_have_the_axes_of_results(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """In a HintGraph, each operand of an element-wise op varies along the axes of the result, or along none."""
    if not isinstance(g, HintGraph):
        return
    nodes = g.by_name()
    for n in g.nodes:
        row = find(n.op)
        if row is None or row.compute_type != "elewise":
            continue
        for x in n.inputs:
            have, want = ({a for a in y.varies() if g.axes[a].size != 1} for y in (nodes[x].y, n.y))
            if have and have != want:
                yield Finding(f"{x} varies along different axes from the result", n.name)


def lines_are_straight(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """An Iota of a HintGraph varies along one axis at most."""
    if isinstance(g, HintGraph):
        for n in g.ops("Iota"):
            if len(n.y.varies()) > 1:
                yield Finding("an Iota varies along one axis", n.name)


def scalars_have_a_value(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """A Scalar holds a value or an expression of the graph's symbols; in an ImplGraph, possibly an element count."""
    known = {s.name for s in g.symbols}
    for n in g.nodes:
        if n.op == "Scalar":
            if len(n.attrs.keys() & {"value", "expr", "count"}) != 1:
                yield Finding("a Scalar has the attribute value, expr or count", n.name)
            elif "count" in n.attrs:
                counted = isinstance(g, ImplGraph) and g.r_axis is not None
                if not counted or n.attrs["count"] not in ("before", "after"):
                    yield Finding("nothing is counted before or after an iteration", n.name)
            elif "expr" in n.attrs:
                yield from _expression(n, known)


def _expression(n: Node, known: set[str]) -> Iterator[Finding]:
    given = n.attrs["expr"]
    if not isinstance(given, Expr):
        yield Finding(f"{given!r} is not an expression", n.name)
    elif unknown := sorted(given.symbols() - known):
        yield Finding(f"the expression uses the unknown symbol {unknown[0]}", n.name)


def accumulators_are_joined(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """One node updates each accumulator: in the reduce loop, in the buffer of an initial value set outside it."""
    if not isinstance(g, ImplGraph):
        return
    nodes, seen = g.by_name(), set[str]()
    place = {n.name: i for i, n in enumerate(g.nodes)}
    for n in g.nodes:
        name = n.joins
        if name is None:
            continue
        init = nodes.get(name)
        if init is None or place[init.name] >= place[n.name]:
            yield Finding(f"joins {name}, which no earlier node defines", n.name)
            continue
        if init.name in seen:
            yield Finding(f"joins {name}, which another node also joins", n.name)
        seen.add(init.name)
        if n.loop_axis != g.r_axis or init.loop_axis == g.r_axis:
            yield Finding(f"joins {name} outside the loops of an accumulator", n.name)
        if (init.y.buf, init.y.dtype) != (n.y.buf, n.y.dtype) or n.y.buf is None:
            yield Finding(f"has a different buffer from {name}, which it joins", n.name)


def staggered_loops_join_nothing(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """Every staggered pass exists and has no accumulator."""
    if not isinstance(g, ImplGraph):
        return
    for p in g.tiling.staggered:
        inside = [n for n in g.nodes if n.loop_axis == g.r_axis and n.loop_pass == p]
        if g.r_axis is None or not inside:
            yield Finding(f"pass {p} is staggered but does not exist")
        for n in inside:
            if n.joins is not None:
                yield Finding(f"is joined in pass {p}, which is staggered", n.name)


def takeovers_end_in_a_store(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """Nodes that take over a Load's buffer share its queue, type and loop; a Store reads the last of them."""
    if not isinstance(g, ImplGraph):
        return
    nodes, last = g.by_name(), dict[str, Node]()
    stored = {x for n in g.nodes if n.op == "Store" for x in n.inputs}
    for n in g.nodes:
        name = n.over
        if name is None:
            continue
        load = nodes.get(name)
        if load is None or load.op != "Load" or load.y.que is None or load.name in stored:
            yield Finding(
                f"takes over the buffer of {name}, which is not a Load with a queue", n.name
            )
            continue
        have = (n.y.que, n.y.dtype, n.loop)
        if have != (load.y.que, load.y.dtype, load.loop):
            yield Finding(
                f"has a different queue, type or loop from {name}, whose buffer it takes over",
                n.name,
            )
        if name in last and last[name].name in stored:
            yield Finding(f"takes over the buffer of {name} after it is stored", n.name)
        last[name] = n
    for name, n in last.items():
        if n.name not in stored:
            yield Finding(f"is the last in the buffer of {name}, but is not stored", n.name)


def workspaces_are_written_first(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """Stores write a Workspace, in groups that run before those that load it."""
    if not isinstance(g, HintGraph):
        return
    nodes = g.by_name()
    group_of = {n.name: k for k, found in enumerate(groups(g)) for n in found}
    for n in g.ops("Workspace"):
        if any(nodes[i].op != "Store" for i in n.inputs):
            yield Finding("a Workspace must be written by Stores", n.name)
    for n in g.ops("Load"):
        source = nodes[n.inputs[0]] if n.inputs else n
        late = [i for i in source.inputs if group_of.get(i, -1) >= group_of.get(n.name, 0)]
        if source.op == "Workspace" and late:
            yield Finding(f"{late[0]} writes in the same group or a later one", n.name)


CHECKS = (
    reductions_share_axes,
    operands_have_the_axes_of_results,
    lines_are_straight,
    scalars_have_a_value,
    accumulators_are_joined,
    staggered_loops_join_nothing,
    takeovers_end_in_a_store,
    workspaces_are_written_first,
)
