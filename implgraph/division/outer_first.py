"""Reductions over dimensions on both sides of the kept ones, in two steps: the outer dimensions first.

A sum of ``[n, c, h, w]`` over n, h and w reads rows of h * w elements.  Unless these start at cache lines of GM, each
row is copied separately into its own place in UB, which takes longer.  A sum over n alone reads dense runs of c * h * w
elements.  Its result, ``[c, h * w]``, goes through a workspace and is small compared with the operand::

    x [n, c, h * w] -> ReduceSum over n -> [c, h * w] -> ReduceSum over h * w -> [c]

:mod:`autofuse.implgraph.division.worth` proposes the candidates.  With known sizes the scheduler compares both forms;
otherwise the host does.
"""

from __future__ import annotations

from typing import TypeAlias

from autofuse.implgraph.division.online_parts import axes_of
from autofuse.implgraph.division.split_reductions import flattened
from autofuse.implgraph.division.worth import Worth
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import AttrValue, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.targets import TargetSpec

__all__ = ["outer_first"]

Dims: TypeAlias = tuple[Expr, ...]


def outer_first(graph: FusionGraph, target: TargetSpec) -> FusionGraph:
    """Return the graph with such reductions in two steps; the graph itself without any.

    Args:
        graph: a graph without composite ops.
        target: the chip; gives the length of a cache line.
    """
    worth = Worth(target)
    tensors = dict(graph.tensors)
    nodes: list[FusionNode] = []

    def put(n: FusionNode, what: str, op: str, x: str, dims: Dims, **attrs: AttrValue) -> str:
        name = f"{n.name}_{what}"
        while name in tensors or any(m.name == name for m in graph.nodes):
            name += "_"
        tensors[name] = Tensor(name, tensors[x].dtype, dims, origin=n.origin)
        nodes.append(FusionNode(name, op, (x,), (name,), attrs, n.origin))
        return name

    for n in graph.nodes:
        x = n.inputs[0] if n.op in REDUCES else None
        if not isinstance(x, str):
            nodes.append(n)
            continue
        shape, gone = flattened(tensors[x].shape, axes_of(n, len(tensors[x].shape)))
        if not worth.dense_first(shape, gone, tensors[x].dtype.itemsize):
            nodes.append(n)
            continue
        outer = gone[:-1]
        runs = tuple(s for d, s in enumerate(shape) if d not in outer)
        flat = put(n, "rows", "Reshape", x, shape, shape=shape)
        dense = put(n, "outer", n.op, flat, runs, axes=outer, keepdims=False)
        whole = put(n, "inner", n.op, dense, runs[:-1], axes=(len(runs) - 1,), keepdims=False)
        attrs: dict[str, AttrValue] = {"shape": tensors[n.outputs[0]].shape}
        nodes.append(FusionNode(n.name, "Reshape", (whole,), n.outputs, attrs, n.origin))
    return (
        replace(graph, nodes=tuple(nodes), tensors=tensors)
        if len(tensors) > len(graph.tensors)
        else graph
    )
