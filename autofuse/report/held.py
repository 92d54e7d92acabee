"""Names of a buffer's contents in the graph: tensors, and intermediate steps of tensors."""

from __future__ import annotations

from collections.abc import Iterable

from autofuse.implgraph.ir.fusion import FusionGraph, tensors_by_origin
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph

__all__ = ["HeldNames"]


class HeldNames:
    """Names for the results of the nodes of a template.

    Args:
        impl: the template, or its graph.
        graph: the source graph.
    """

    def __init__(self, impl: HintGraph | ImplGraph, graph: FusionGraph) -> None:
        self._nodes = impl.by_name()
        self._inputs = graph.inputs
        self._ends: dict[str, str] = {}
        for n in impl.nodes:
            if n.op == "Data":
                self._ends[n.name] = graph.inputs[n.number("index")]
            elif n.op == "Output":
                name = graph.outputs[n.number("index")].name
                self._ends.update(dict.fromkeys((n.name, *n.inputs), name))
        self._results = {n.name: n.outputs[0] for n in graph.nodes}
        self._origins = tensors_by_origin(graph)

    def of(self, nodes: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the tensors that nodes hold, and those that nodes are steps of; a node without either is itself."""
        whole: dict[str, None] = {}
        steps: dict[str, None] = {}
        for name in nodes:
            tensor = self.loaded(name) or self._ends.get(name) or self._results.get(name)
            if tensor is not None:
                whole[tensor] = None
                continue
            node = self._nodes.get(name)
            made_for = self._origins.get(node.origin) if node is not None else None
            if made_for is None:
                whole[name] = None
            else:
                steps[made_for] = None
        return list(whole), [s for s in steps if s not in whole]

    def loaded(self, name: str) -> str | None:
        """Return the input that a node loads."""
        node = self._nodes.get(name)
        if node is None or node.op != "Load":
            return None
        end = self._nodes.get(node.inputs[0])
        return self._inputs[end.number("index")] if end is not None and end.op == "Data" else None
