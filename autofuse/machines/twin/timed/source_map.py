"""Maps the functions of a kernel to their lines, loops and graph nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from autofuse.implgraph.ir.fusion import FusionGraph, tensors_by_origin
from autofuse.machines.twin.run.findings import KernelText, Spot, graph_node

__all__ = ["SourceMap"]

_LOOP = re.compile(r"^\s*for \((?P<head>.*)\) \{\s*$")
_START = re.compile(r"^\S.*\bvoid (?P<name>\w+)\(")


class SourceMap:
    """Looks up the nodes of calls.

    Args:
        text: text of the kernel.
        graph: the graph that it was generated from.
    """

    def __init__(self, text: KernelText, graph: FusionGraph) -> None:
        self.text, self.graph = text, graph
        self._spots: dict[tuple[int, bool], Spot | None] = {}
        self._nodes: dict[tuple[str, str], int] = {}
        #: Every node that a call was looked up for, in the order of the look-ups.
        self.nodes: list[dict[str, Any]] = []

    @cached_property
    def _tensors(self) -> Mapping[str, str]:
        return tensors_by_origin(self.graph)

    def node(self, line: int, nested: bool) -> int:
        """Return the number of the node that a call belongs to, an index of :attr:`nodes`."""
        key = (line, nested)
        if key not in self._spots:
            self._spots[key] = self.text.spot(line, nested)
        spot = self._spots[key]
        function, name = ("", "") if spot is None else (spot.function, spot.node)
        if (function, name) not in self._nodes:
            self._nodes[function, name] = len(self.nodes)
            of_graph = graph_node(self.graph, spot) if name else ""
            self.nodes.append(
                {
                    "node": of_graph or name or "(no node)",
                    "tensor": self._tensors.get(spot.pointer, "")
                    if spot is not None and name
                    else "",
                    "kernel_node": name,
                    "op": "" if spot is None else spot.op,
                    "pointer": "" if spot is None else spot.pointer,
                    "function": function,
                }
            )
        return self._nodes[function, name]

    def functions(self) -> list[dict[str, Any]]:
        """Return lines and loops of the functions that contain the nodes.

        Returns:
            Per function ``name``, ``first`` (number of its first line), ``lines`` with ``text`` and ``node`` (a number
            or None), and ``loops``: a tree of ``loop`` (its head), ``first``, ``last``, ``inside``, or ``node``.
        """
        wanted = dict.fromkeys(n["function"] for n in self.nodes)
        return [self._function(name) for name in wanted if name]

    def _function(self, name: str) -> dict[str, Any]:
        lines = self.text.lines
        start = next(i for i, x in enumerate(lines) if (m := _START.match(x)) and m["name"] == name)
        end = next(
            (i for i in range(start, len(lines)) if lines[i].startswith("}")), len(lines) - 1
        )
        owners = self._owners(name, range(start, end + 1))
        return {
            "name": name,
            "first": start + 1,
            "lines": [{"text": lines[i], "node": owners.get(i)} for i in range(start, end + 1)],
            "loops": self._loops(range(start, end + 1), owners),
        }

    def _owners(self, function: str, lines: Iterable[int]) -> Mapping[int, int]:
        """Map lines to their nodes: a node extends from its comment to the next one or the end of the block."""
        out: dict[int, int] = {}
        depth = 0
        for i in lines:
            text = self.text.lines[i]
            closing = text.strip().startswith("}")
            indent = len(text) - len(text.lstrip())
            if closing and indent < depth:
                depth = 0
                continue
            spot = self.text.spot(i + 1)
            if spot is None or not spot.node or (function, spot.node) not in self._nodes:
                continue
            if text.strip().startswith("// from:"):
                depth = indent
            if depth:
                out[i] = self._nodes[function, spot.node]
        return out

    def _loops(self, lines: range, owners: Mapping[int, int]) -> list[dict[str, Any]]:
        """Return the loops with the nodes inside them, by indentation."""
        top: list[dict[str, Any]] = []
        open_: list[tuple[int, dict[str, Any]]] = []
        for i in lines:
            text = self.text.lines[i]
            indent = len(text) - len(text.lstrip())
            while open_ and text.strip().startswith("}") and indent <= open_[-1][0]:
                open_.pop()[1]["last"] = i + 1
            inside = open_[-1][1]["inside"] if open_ else top
            if m := _LOOP.match(text):
                loop: dict[str, Any] = {
                    "loop": m["head"],
                    "first": i + 1,
                    "last": i + 1,
                    "inside": [],
                }
                inside.append(loop)
                open_.append((indent, loop))
            elif i in owners and not any(x.get("node") == owners[i] for x in inside):
                inside.append({"node": owners[i]})
        return top
