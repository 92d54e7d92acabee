"""Joins nested Pads of the same value into one, so that the number of pieces does not grow with every Pad."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode
from autofuse.implgraph.ops.registry import lookup

__all__ = ["with_nested_pads_joined"]

_PAD = "Pad"


def with_nested_pads_joined(graph: FusionGraph) -> FusionGraph:
    """Return the graph with one Pad for every chain of Pads without other users; ``graph`` itself without any."""
    pads = sum(lookup(n.op).name == _PAD for n in graph.nodes)
    if pads < 2:
        return graph
    uses = Counter(x for n in graph.nodes for x in n.inputs if isinstance(x, str))
    uses.update(o.tensor for o in graph.outputs)
    made: dict[str, FusionNode] = {}
    for n in graph.nodes:
        x = n.inputs[0] if n.inputs else None
        inner = made.get(x) if isinstance(x, str) and uses[x] == 1 else None
        if inner is not None and _alike(inner, n):
            del made[inner.outputs[0]]
            n = replace(n, inputs=inner.inputs, attrs={**n.attrs, **_both(inner, n)})
        made[n.outputs[0]] = n
    if len(made) == len(graph.nodes):
        return graph
    nodes = tuple(made.values())
    used = {*graph.inputs, *(y for n in nodes for y in n.outputs)}
    tensors = {name: t for name, t in graph.tensors.items() if name in used}
    return replace(graph, nodes=nodes, tensors=tensors)


def _alike(inner: FusionNode, outer: FusionNode) -> bool:
    """Return True if both pad with the same value; 0.0 is not -0.0."""
    pads = lookup(inner.op).name == lookup(outer.op).name == _PAD
    return pads and repr(inner.attrs.get("value", 0.0)) == repr(outer.attrs.get("value", 0.0))


def _both(inner: FusionNode, outer: FusionNode) -> dict[str, Any]:
    """Return the attributes of one frame as wide as both."""

    def widths(end: str) -> tuple[Any, ...]:
        given: list[Any] = [inner.attrs[end], outer.attrs[end]]
        return tuple(a + b for a, b in zip(*given, strict=True))

    return {end: widths(end) for end in ("low", "high")}
