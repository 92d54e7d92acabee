"""A client's graph as text, for people."""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.clients.cann.pyautofuse.graphs import FusedGraph, Graph, HintGraph
from autofuse.clients.cann.pyautofuse.nodes import Operator, OpOutput, source_of
from autofuse.clients.cann.pyautofuse.sizes import Axis, SizeExpr
from autofuse.implgraph.ir.dtypes import DType

__all__ = ["graph_text"]


def graph_text(graph: HintGraph | FusedGraph) -> str:
    """Return the sizes, axes and nodes of a graph and its subgraphs as text."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"Graph: {graph.name}"
    if isinstance(graph, HintGraph):
        yield "Sizes:"
        yield from (f"  {s}: VAR" for s in graph.sizes)
        yield "Axis:"
        yield from (f"  {a.name}({a.id}) : ORIGINAL, size:{a.size}, " for a in graph.axes)
    yield "Nodes:"
    for node in graph.operators:
        yield from _node(node)
    for node in graph.operators:
        if node.subgraph is not None:
            yield from _lines(node.subgraph)


def _node(node: Operator) -> Iterator[str]:
    yield f"  {node.name}: {node.type}"
    if len(tuple(node.ir_attr)):
        inside = ", ".join(f"{k}: {_value(v)}" for k, v in sorted(node.ir_attr.values.items()))
        yield f"    .ir_attr = {{{inside}}}"
    if node.attr.sched.axes:
        yield f"    .axis = {_value(node.attr.sched.axes)}"
    if node.attr.api.compute_type != "unknown":
        yield f"    .api.compute_type = {node.attr.api.compute_type}"
    for name, source in node.inputs.items():
        yield f"    .{name} = {_value(source)}"
    for index, y in sorted(node.outputs.items()):
        place = ".y" if index == 0 else f".y[{index}]"
        if y.dtype is not None:
            yield f"    {place}: {_value(y.dtype)}"
        for field, value in (*y.given.items(), ("offset", y.offset)):
            if value is not None:
                yield f"      .{field} = {_value(value)}"


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "{" + ", ".join(_value(v) for v in value) + "}"
    if isinstance(value, Axis):
        return value.name
    if isinstance(value, SizeExpr):
        return value.expression
    if isinstance(value, DType):
        return value.name
    source = source_of(value)
    if isinstance(source, OpOutput):
        return f"{source.node.name}.y" + (f"[{source.index}]" if source.index else "")
    return str(value)
