"""``ascir.ops``: ``ascir.ops.<Type>(name, graph)`` adds a node.

Every name makes a node: a client builds its whole graph first.  Ops that autofuse does not know are refused when the
graph is scheduled, all at once and each with its name.
"""

from __future__ import annotations

from collections.abc import Callable

from autofuse.diagnostics import AutofuseError, Where
from autofuse.pyautofuse.cann_ops import op_names
from autofuse.pyautofuse.graphs import FusedGraph, Graph, HintGraph
from autofuse.pyautofuse.nodes import Operator

__all__ = ["AscBackend", "AscGraph"]


def AscBackend(name: str, hint_graph: HintGraph, fused_graph: FusedGraph) -> Operator:  # noqa: N802
    """A node of ``fused_graph`` that runs ``hint_graph``: ``x`` its inputs, ``y[i]`` its outputs, both by index.

    Raises:
        AutofuseError: AF1103, an argument is no such graph.
    """
    if not isinstance(hint_graph, HintGraph):
        raise _not_a("HintGraph", name, hint_graph)
    return _add("AscBackend", name, fused_graph, FusedGraph, hint_graph)


AscGraph = AscBackend


def _add(
    kind: str, name: str, graph: object, wanted: type[Graph], subgraph: HintGraph | None = None
) -> Operator:
    if not isinstance(graph, wanted):
        raise _not_a(wanted.__name__, name, graph)
    node = Operator(kind, name, graph, subgraph)
    graph.operators.append(node)
    return node


def _not_a(wanted: str, name: str, found: object) -> AutofuseError:
    text = f"{name} is to be added to {found!r}, which is no {wanted}"
    return AutofuseError.of("AF1103", text, where=Where(node=str(name)))


def __getattr__(kind: str) -> Callable[[str, Graph], Operator]:
    """The constructor of nodes of a type."""
    if kind.startswith("_"):
        raise AttributeError(kind)

    def add(name: str, graph: Graph) -> Operator:
        return _add(kind, name, graph, Graph)

    add.__name__ = add.__qualname__ = kind
    add.__doc__ = f"Add a node of type {kind}."
    return add


def __dir__() -> list[str]:
    return sorted({*__all__, *op_names()})
