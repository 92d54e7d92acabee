"""Renames the tensors of a graph from node names to the names in the ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from autofuse.base.visible import visible
from autofuse.frontends.onnx.values import Traced, Value
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput
from autofuse.implgraph.ir.names import tensor_name

__all__ = ["model_names", "own_name", "renamed"]

#: Default graph names of exporters.
_ANY_GRAPH = frozenset({"", "main_graph", "torch_jit", "torch-jit-export"})


def own_name(graph: str, path: str) -> str:
    """Return the name of a graph, or its file's stem if it has only an exporter's default name."""
    return (graph not in _ANY_GRAPH and graph) or Path(path).stem or graph or "onnx_graph"


def model_names(
    graph: FusionGraph,
    values: Mapping[str, Value],
    constants: Mapping[str, str],
    outputs: Iterable[str],
) -> dict[str, str]:
    """Return names for all tensors of the graph.

    Args:
        graph: the graph, whose inputs already have the model's names.
        values: tensor of the model -> its value in the graph.
        constants: parameter -> its initialiser, or an empty text.
        outputs: tensors of the model whose names are reserved.
    """
    taken = {x for x in graph.inputs if x not in constants}
    found = {x: x for x in taken}
    wanted = {x: name for x, name in constants.items() if name and x in graph.tensors}
    for name in dict.fromkeys((*outputs, *values)):
        v = values[name]
        if isinstance(v, Traced):
            wanted.setdefault(v.tensor.name, name)
    for x in (*wanted, *graph.tensors):
        if x in graph.tensors and x not in found:
            found[x] = tensor_name(wanted.get(x, x), taken)
    return found


def renamed(graph: FusionGraph, names: Mapping[str, str], outputs: Iterable[str]) -> FusionGraph:
    """Return the graph with other names; ``outputs``: the model's names of its outputs."""
    taken = set(names.values())
    used: set[str] = set(graph.inputs)
    parameters = []
    for o, wanted in zip(graph.outputs, outputs, strict=True):
        own = names[o.tensor]
        if own in used or own != visible(wanted):
            own = tensor_name(wanted if visible(wanted) != own else f"{own}_out", taken)
        used.add(own)
        parameters.append(GraphOutput(own, names[o.tensor]))
    nodes = tuple(
        replace(
            n,
            inputs=tuple(names[x] if isinstance(x, str) else x for x in n.inputs),
            outputs=tuple(names[x] for x in n.outputs),
        )
        for n in graph.nodes
    )
    tensors = {names[x]: replace(t, name=names[x]) for x, t in graph.tensors.items()}
    inputs = tuple(names[x] for x in graph.inputs)
    return replace(graph, inputs=inputs, nodes=nodes, outputs=tuple(parameters), tensors=tensors)
