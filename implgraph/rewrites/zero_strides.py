"""Rewrites inputs that repeat elements by strides of 0 to smaller inputs with a Broadcast, to avoid repeated loads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from autofuse.implgraph.expr.expression import ONE, ZERO
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ir.iteration_space import contiguous_strides

__all__ = ["without_zero_strides"]


def without_zero_strides(graph: FusionGraph) -> FusionGraph:
    """Return the graph with a Broadcast after every such input; ``graph`` itself without any."""
    tensors = dict(graph.tensors)
    made: list[FusionNode] = []
    whole: dict[str, str] = {}
    for x in graph.inputs:
        t = tensors[x]
        if t.strides is None:
            continue
        again = [s == ZERO and n != 1 for n, s in zip(t.shape, t.strides, strict=True)]
        if not any(again):
            continue
        shape = tuple(ONE if a else n for n, a in zip(t.shape, again, strict=True))
        dense = contiguous_strides(shape)
        kept = all(n == 1 or s == d for n, s, d in zip(shape, t.strides, dense, strict=True))
        tensors[x] = replace(t, shape=shape, strides=None if kept else t.strides)
        name = _new(f"{x}_repeated", tensors)
        tensors[name] = Tensor(name, t.dtype, t.shape, origin=t.origin)
        node = _new(name, {n.name for n in (*graph.nodes, *made)})
        made.append(FusionNode(node, "Broadcast", (x,), (name,), {"shape": t.shape}, t.origin))
        whole[x] = name
    if not whole:
        return graph
    nodes = tuple(
        replace(n, inputs=tuple(whole.get(i, i) if isinstance(i, str) else i for i in n.inputs))
        for n in graph.nodes
    )
    outputs = tuple(replace(o, tensor=whole.get(o.tensor, o.tensor)) for o in graph.outputs)
    return replace(graph, nodes=(*made, *nodes), outputs=outputs, tensors=tensors)


def _new(name: str, taken: Collection[str]) -> str:
    found, k = name, 0
    while found in taken:
        k += 1
        found = f"{name}_{k}"
    return found
