"""Invariants of the groups of a HintGraph: reductions, index tensors, scalars, workspaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autofuse.implgraph.expr import ExprError
from autofuse.implgraph.expr_parser import parse
from autofuse.implgraph.graph import HintGraph, ImplGraph, Node
from autofuse.implgraph.group_order import groups
from autofuse.implgraph.reduce_rows import REDUCES

__all__ = ["CHECKS", "Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken invariant: what, and at which node or axis."""

    message: str
    node: str = ""
    axis: str = ""


def reductions_share_axes(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """All reductions of a group run over the same axes, and keep all others of their operand."""
    if not isinstance(g, HintGraph):
        return
    nodes = g.by_name()
    over: dict[tuple[int, ...], tuple[str, frozenset[int]]] = {}
    for n in g.ops(*REDUCES):
        have, want = set(n.y.varies()), set(nodes[n.inputs[0]].y.varies())
        if not have < want:
            yield Finding(
                "the result of a reduction varies along some of its operand's axes", n.name
            )
            continue
        gone = frozenset(want - have)
        first, axes = over.setdefault(n.axis, (n.name, gone))
        if axes != gone:
            names = ", ".join(g.axes[a].name for a in sorted(gone))
            yield Finding(f"reduces {names}, unlike {first} of the same group", n.name)


def lines_are_straight(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """An Iota of a HintGraph varies along one axis at most."""
    if isinstance(g, HintGraph):
        for n in g.ops("Iota"):
            if len(n.y.varies()) > 1:
                yield Finding("an Iota varies along one axis", n.name)


def scalars_have_a_value(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """A Scalar has a value, or an expression of the graph's symbols."""
    known = {s.name for s in g.symbols}
    for n in g.nodes:
        if n.op == "Scalar":
            if ("value" in n.attrs) == ("expr" in n.attrs):
                yield Finding("a Scalar has the attribute value, or expr", n.name)
            elif "expr" in n.attrs:
                yield from _expression(n, known)


def _expression(n: Node, known: set[str]) -> Iterator[Finding]:
    try:
        unknown = sorted(parse(str(n.attrs["expr"])).symbols() - known)
    except ExprError as e:
        yield Finding(f"the expression cannot be read: {e}", n.name)
        return
    if unknown:
        yield Finding(f"the expression uses the unknown symbol {unknown[0]}", n.name)


def workspaces_are_written_first(g: HintGraph | ImplGraph) -> Iterator[Finding]:
    """A Workspace is written by Stores, in groups before those that load it."""
    if not isinstance(g, HintGraph):
        return
    nodes = g.by_name()
    group_of = {n.name: k for k, found in enumerate(groups(g)) for n in found}
    for n in g.ops("Workspace"):
        if any(nodes[i].op != "Store" for i in n.inputs):
            yield Finding("a Workspace is written by Stores", n.name)
    for n in g.ops("Load"):
        source = nodes[n.inputs[0]] if n.inputs else n
        late = [i for i in source.inputs if group_of.get(i, -1) >= group_of.get(n.name, 0)]
        if source.op == "Workspace" and late:
            yield Finding(f"{late[0]} writes in the same group or a later one", n.name)


CHECKS = (
    reductions_share_axes,
    lines_are_straight,
    scalars_have_a_value,
    workspaces_are_written_first,
)
