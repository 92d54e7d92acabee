"""The client's graph containers: HintGraph (one loop nest) and FusedGraph (several, and the buffers between them)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.clients.cann.pyautofuse.dtype_rules import infer_dtype
from autofuse.clients.cann.pyautofuse.nodes import Operator
from autofuse.clients.cann.pyautofuse.sizes import Axis, SizeExpr, SizeLike, size_of
from autofuse.frontends.builder import topological_order

__all__ = ["FusedGraph", "Graph", "HintComputeGraph", "HintGraph", "ShapeInfo", "argument_order"]

_SYMBOL = re.compile(r"[A-Za-z_]\w*\Z", re.A)
_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.S)


class Graph:
    """Named nodes in creation order."""

    def __init__(self, name: str = "fused_graph") -> None:
        self.name = str(name)
        self.operators: list[Operator] = []

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def set_name(self, name: str) -> None:
        """Change the name, from which the kernel's name derives."""
        self.name = str(name)

    def get_input_num(self) -> int:
        """Return the number of Data nodes."""
        return sum(n.type == "Data" for n in self.operators)

    def get_output_num(self) -> int:
        """Return the number of Output nodes."""
        return sum(n.type == "Output" for n in self.operators)

    def infer_dtype_of(self, node: Operator) -> None:
        """Infer the unset element types of a node's outputs from its inputs."""
        infer_dtype(node)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class HintGraph(Graph):
    """One loop nest before scheduling.

    Attributes:
        sizes: the symbols, in creation order.
        axes: the axes.
        axis_map: the argument of :meth:`set_axis_map`.
    """

    def __init__(self, name: str = "fused_graph") -> None:
        super().__init__(name)
        self.sizes: list[str] = []
        self.axes: list[Axis] = []
        self.axis_map: Mapping[Any, Any] = {}

    def create_size(self, name: str) -> SizeExpr:
        """Create a size known when the kernel is called; it becomes an argument of ``AutofuseTiling``.

        Raises:
            AutofuseError: AF1105, the name is invalid; AF1106, it is taken.
        """
        if not isinstance(name, str) or not _SYMBOL.match(name):
            raise AutofuseError.of(
                "AF1105", f"{name!r} is not a legal name of a size", hint="such as s0"
            )
        if name in self.sizes:
            raise AutofuseError.of(
                "AF1106",
                f"the size {name!r} of {self.name} is created twice",
                where=Where(node=name),
            )
        self.sizes.append(name)
        return SizeExpr.symbol(name)

    def create_axis(self, name: str, size: SizeLike) -> Axis:
        """Create an axis of ``size`` iterations."""
        e = size_of(size, f"the size of axis {name}")
        axis = Axis(len(self.axes), str(name), SizeExpr(e))
        self.axes.append(axis)
        return axis

    def set_axis_map(self, axis_map: Mapping[Any, Any]) -> None:
        """Store which axes of this graph are axes of others; unused, as strides say how graphs fit together."""
        self.axis_map = dict(axis_map)

    def infer_dtypes(self) -> None:
        """Set the unset element types that follow from the inputs."""
        position = {id(n): i for i, n in enumerate(self.operators)}
        edges = [
            [position[id(s.node)] for s in n.sources() if id(s.node) in position]
            for n in self.operators
        ]
        order, _ = topological_order(edges)
        for i in order:
            self.infer_dtype_of(self.operators[i])


class FusedGraph(Graph):
    """HintGraphs as AscBackend nodes, and the buffers between them; they become one library."""


class HintComputeGraph:
    """CANN's graph of whole networks.  Only CANN's compiler adds nodes; a client can only create an empty one."""

    def __init__(self, name: str = "fused_graph") -> None:
        self.name = str(name)

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def get_info(self) -> str:
        """Return the name and the (empty) list of nodes."""
        return f"{self.name}\nNode num:0\n"


@dataclass(frozen=True, slots=True)
class ShapeInfo:
    """Sources of the values of sizes: name of a size -> C++ text."""

    sources: Mapping[str, str] = field(default_factory=dict)


def argument_order(graphs: list[HintGraph]) -> list[str]:
    """Return the symbols of all graphs in the order in which ``AutofuseTiling`` takes them.

    This is the order of creation, except for names that differ only in a trailing number (ks0, ks1, ..., ks10): these
    are sorted by number.  Clients list them sorted as strings but pass them by number.
    """
    names = list(dict.fromkeys(s for g in graphs for s in g.sizes))
    stems = {m[1] for n in names if (m := _NUMBERED.match(n))}
    if len(stems) == 1 and all(_NUMBERED.match(n) for n in names):
        return sorted(names, key=lambda n: int(_number(n)))
    return names


def _number(name: str) -> str:
    found = _NUMBERED.match(name)
    assert found is not None
    return found[2]
