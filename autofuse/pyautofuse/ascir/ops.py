"""``ascir.ops``: ``ascir.ops.<Type>(name, graph)`` adds a node.

Every name makes a node: a client builds its whole graph first.  Ops that autofuse does not know are refused when the
graph is scheduled, all at once and each with its name.  So nothing is imported here under a name that may be an op's.
"""

from __future__ import annotations

from collections.abc import Callable as _Callable

from autofuse.base import diagnostics as _diagnostics
from autofuse.pyautofuse.cann_ops import op_names as _op_names
from autofuse.pyautofuse.graphs import FusedGraph as _FusedGraph
from autofuse.pyautofuse.graphs import Graph as _Graph
from autofuse.pyautofuse.graphs import HintGraph as _HintGraph
from autofuse.pyautofuse.nodes import Operator as _Operator

__all__ = ["AscBackend", "AscGraph"]


def AscBackend(name: str, hint_graph: _HintGraph, fused_graph: _FusedGraph) -> _Operator:  # noqa: N802
    """A node of ``fused_graph`` that runs ``hint_graph``: ``x`` its inputs, ``y[i]`` its outputs, both by index.

    Raises:
        AutofuseError: AF1103, an argument is no such graph.
    """
    if not isinstance(hint_graph, _HintGraph):
        raise _not_a("HintGraph", name, hint_graph)
    return _add("AscBackend", name, fused_graph, _FusedGraph, hint_graph)


AscGraph = AscBackend


def _add(
    kind: str, name: str, graph: object, wanted: type[_Graph], subgraph: _HintGraph | None = None
) -> _Operator:
    if not isinstance(graph, wanted):
        raise _not_a(wanted.__name__, name, graph)
    node = _Operator(kind, name, graph, subgraph)
    graph.operators.append(node)
    return node


def _not_a(wanted: str, name: str, found: object) -> _diagnostics.AutofuseError:
    text = f"{name} is to be added to {found!r}, which is no {wanted}"
    return _diagnostics.AutofuseError.of("AF1103", text, where=_diagnostics.Where(node=str(name)))


def __getattr__(kind: str) -> _Callable[[str, _Graph], _Operator]:
    """The constructor of nodes of a type."""
    if kind.startswith("_"):
        raise AttributeError(kind)

    def add(name: str, graph: _Graph) -> _Operator:
        return _add(kind, name, graph, _Graph)

    add.__name__ = add.__qualname__ = kind
    add.__doc__ = f"Add a node of type {kind}."
    return add


def __dir__() -> list[str]:
    return sorted({*__all__, *_op_names()})
