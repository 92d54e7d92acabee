"""``ascir.ops``: ``ascir.ops.<Type>(name, graph)`` makes a node.

Every name makes a node, because a client builds its whole graph first.  Scheduling the graph refuses all unknown ops
at once, each by name.  So this module imports nothing under a name that could be an op.

The graph may be omitted for a node with inputs: the node then joins the graph of the nodes linked to it.
"""

from __future__ import annotations

from collections.abc import Callable as _Callable

from autofuse.base import diagnostics as _diagnostics
from autofuse.clients.cann.pyautofuse import errors as _errors
from autofuse.clients.cann.pyautofuse.cann_ops import op_names as _op_names
from autofuse.clients.cann.pyautofuse.graphs import FusedGraph as _FusedGraph
from autofuse.clients.cann.pyautofuse.graphs import Graph as _Graph
from autofuse.clients.cann.pyautofuse.graphs import HintGraph as _HintGraph
from autofuse.clients.cann.pyautofuse.nodes import Operator as _Operator

__all__ = ["AscBackend", "AscGraph"]

#: Nodes without inputs, which must be given their graph.
_FIRST = ("Data", "Scalar", "ScalarData", "IndexExpr")

#: Nodes whose number of outputs the client specifies.
_SEVERAL_OUTPUTS = ("Split",)


def AscBackend(  # noqa: N802
    name: str, hint_graph: _HintGraph, fused_graph: _FusedGraph | None = None
) -> _Operator:
    """Add a node to ``fused_graph`` that runs ``hint_graph``: ``x`` are its inputs, ``y[i]`` its outputs, by index.

    ``fused_graph`` may be omitted: the node then joins the graph of the nodes linked to it.

    Raises:
        ClientTypeError: AF1103, an argument is not such a graph.
    """
    if not isinstance(hint_graph, _HintGraph):
        raise _not_a("HintGraph", name, hint_graph)
    if not isinstance(fused_graph, _FusedGraph | None):
        raise _not_a("FusedGraph", name, fused_graph)
    return _Operator("AscBackend", name, fused_graph, hint_graph)


AscGraph = AscBackend


def _not_a(wanted: str, name: str, found: object) -> _diagnostics.AutofuseError:
    text = f"{name} is to be added to {found!r}, which is not a {wanted}"
    where = _diagnostics.Where(node=str(name))
    return _errors.ClientTypeError.of("AF1103", text, where=where)


def __getattr__(kind: str) -> _Callable[..., _Operator]:
    """Return the constructor of nodes of a type."""
    if kind.startswith("_"):
        raise AttributeError(kind)

    def add(name: str, graph: _Graph | None = None) -> _Operator:
        if not isinstance(graph, _Graph | None) or (graph is None and kind in _FIRST):
            raise _not_a("Graph", name, graph)
        return _Operator(kind, name, graph)

    def add_several(name: str, *rest: int | _Graph) -> _Operator:
        graphs = [r for r in rest if isinstance(r, _Graph)]
        counts = [r for r in rest if type(r) is int and r >= 0]
        if len(graphs) + len(counts) != len(rest) or max(len(graphs), len(counts)) > 1:
            text = f"{kind} takes a name, a number of outputs and a graph, not {rest!r}"
            where = _diagnostics.Where(node=str(name))
            raise _errors.ClientTypeError.of("AF1103", text, where=where)
        graph = graphs[0] if graphs else None
        return _Operator(kind, name, graph, count=counts[0] if counts else 0)

    made = add_several if kind in _SEVERAL_OUTPUTS else add
    made.__name__ = made.__qualname__ = kind
    made.__doc__ = f"Create a node of type {kind}."
    return made


def __dir__() -> list[str]:
    return sorted({*__all__, *_op_names()})
