"""``ascir.ops``: ``ascir.ops.<Type>(name, graph)`` makes a node.

Every name makes a node: a client builds its whole graph first.  Ops that autofuse does not know are refused when the
graph is scheduled, all at once and each with its name.  So nothing is imported here under a name that may be an op's.

The graph may be left out where a node has inputs: it is then that of what is linked to the node.
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

#: Nodes that have no inputs, and so must be given their graph.
_FIRST = ("Data", "Scalar", "ScalarData", "IndexExpr")

#: Nodes whose number of outputs the client says.
_SEVERAL_OUTPUTS = ("Split",)


def AscBackend(  # noqa: N802
    name: str, hint_graph: _HintGraph, fused_graph: _FusedGraph | None = None
) -> _Operator:
    """A node of ``fused_graph`` that runs ``hint_graph``: ``x`` its inputs, ``y[i]`` its outputs, both by index.

    ``fused_graph`` may be left out: it is then that of what is linked to the node.

    Raises:
        ClientTypeError: AF1103, an argument is no such graph.
    """
    if not isinstance(hint_graph, _HintGraph):
        raise _not_a("HintGraph", name, hint_graph)
    if not isinstance(fused_graph, _FusedGraph | None):
        raise _not_a("FusedGraph", name, fused_graph)
    return _Operator("AscBackend", name, fused_graph, hint_graph)


AscGraph = AscBackend


def _not_a(wanted: str, name: str, found: object) -> _diagnostics.AutofuseError:
    text = f"{name} is to be added to {found!r}, which is no {wanted}"
    where = _diagnostics.Where(node=str(name))
    return _errors.ClientTypeError.of("AF1103", text, where=where)


def __getattr__(kind: str) -> _Callable[..., _Operator]:
    """The constructor of nodes of a type."""
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
    made.__doc__ = f"Make a node of type {kind}."
    return made


def __dir__() -> list[str]:
    return sorted({*__all__, *_op_names()})
