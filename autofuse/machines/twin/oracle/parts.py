"""Subgraphs that compute some of the tensors of a graph."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput
from autofuse.machines.twin.oracle.oracle import shape_of

__all__ = ["elements", "sources", "up_to"]


def up_to(graph: FusionGraph, tensors: Collection[str]) -> FusionGraph:
    """Return the subgraph whose outputs are these tensors, named after them."""
    wanted = set(tensors)
    nodes: list[FusionNode] = []
    for n in reversed(graph.nodes):
        if wanted & set(n.outputs):
            nodes.append(n)
            wanted |= {x for x in n.inputs if isinstance(x, str)}
    outputs = tuple(GraphOutput(x, x) for x in sorted(tensors))
    return replace(graph, nodes=tuple(reversed(nodes)), outputs=outputs)


def sources(part: FusionGraph) -> Iterator[str]:
    """Return the inputs of a graph that some node reads."""
    used = {x for n in part.nodes for x in n.inputs} | {o.tensor for o in part.outputs}
    return (x for x in part.inputs if x in used)


def elements(part: FusionGraph, symbols: Mapping[str, int]) -> int:
    """Return the number of elements computed to evaluate a graph once."""
    shapes = (part.tensors[n.outputs[0]].shape for n in part.nodes)
    return sum(math.prod(shape_of(s, symbols)) for s in shapes)
