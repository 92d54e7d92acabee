"""Turns findings of the twin into diagnostics with function, graph node and call.

A finding names a line of the kernel.  The text of the kernel has a comment ``// from: node: Op (/nodes/0)`` before the
calls of every node, so the nearest one above the line says where in the graph it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autofuse.base.diagnostics import Diagnostic, Where
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.native import Finding

__all__ = ["KernelText", "Spot", "diagnostics_of", "graph_node"]

_FUNCTION = re.compile(r"^\S.*\bvoid (\w+)\(")
_ORIGIN = re.compile(
    r"^\s*// from: (?P<node>[^:]+): (?P<op>\w+)(?:, [^()]*)?(?: \((?P<pointer>\S+)\))?"
)
_SHARED = re.compile(r"^\s*autofuse::\w+(?:<[\w:, ]*>)?\(")
_SHOWN = 8
_STATEMENT = 160
#: Text of a finding that only reports an incomplete output.
_UNWRITTEN = "gm-unwritten"


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of the kernel, explained.

    Attributes:
        line: the line, from 1.
        function: the template function around it.
        node: name of a node of the generated kernel.
        op: its operator.
        pointer: origin of the node, as a JSON pointer into the graph file.
        statement: the text of the call.
    """

    line: int
    function: str = ""
    node: str = ""
    op: str = ""
    pointer: str = ""
    statement: str = ""


@dataclass(frozen=True)
class KernelText:
    """The text of a kernel file."""

    text: str

    @classmethod
    def of(cls, library: Path) -> KernelText:
        """Read the kernel beside a library from ``compile_kernel``; empty if it is missing."""
        found = sorted((library.parent / "device").glob("*.cpp"))
        return cls(found[0].read_text(encoding="utf-8") if found else "")

    @cached_property
    def lines(self) -> list[str]:
        """The lines; line 1 is ``lines[0]``."""
        return self.text.splitlines()

    def spot(self, line: int, nested: bool = False) -> Spot | None:
        """Return the function, node and statement of a line, or None if there is no such line.

        Args:
            line: from 1; 0 for unknown.
            nested: the call is inside a function of a shared header, and ``line`` is the kernel's last line before it.
        """
        if not 0 < line <= len(self.lines):
            return None
        start, function = self._function(line)
        if nested:
            line = self._shared_call(line, start)
        for i in range(line - 1, start - 1, -1):
            if m := _ORIGIN.match(self.lines[i]):
                return Spot(
                    line, function, m["node"], m["op"], m["pointer"] or "", self._statement(line)
                )
        return Spot(line, function, statement=self._statement(line))

    def _function(self, line: int) -> tuple[int, str]:
        for i in range(line - 1, -1, -1):
            if m := _FUNCTION.match(self.lines[i]):
                return i, str(m[1])
        return 0, ""

    def _shared_call(self, line: int, start: int) -> int:
        """Return the call of a shared function after a line: later in the text, or in the next iteration."""
        end = line
        while end < len(self.lines) and not self.lines[end].startswith("}"):
            end += 1
        order = [*range(line, end), *range(start, line)]
        return next((i + 1 for i in order if _SHARED.match(self.lines[i])), line)

    def _statement(self, line: int) -> str:
        words: list[str] = []
        for text in self.lines[line - 1 : line + 11]:
            words.append(text.strip())
            if ";" in text:
                break
        joined = " ".join(words).replace("( ", "(")
        return joined if len(joined) <= _STATEMENT else joined[: _STATEMENT - 3] + "..."


def diagnostics_of(
    graph: FusionGraph,
    text: KernelText,
    found: Sequence[Finding],
    sizes: Mapping[str, int],
    key: int | None,
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic AF5004 per finding (AF6002 for outputs that are not written), at most a few.

    Args:
        graph: the graph that the kernel was generated from.
        text: text of the kernel.
        found: findings of the twin, at least one.
        sizes: sizes of the run.
        key: the tiling key that was forced, or None.
    """
    labels = graph.symbol_labels()
    at = ", ".join(f"{labels.get(k, k)}={v}" for k, v in sizes.items()) or "static sizes"
    run = f"{at}{'' if key is None else f', tiling key {key}'}"
    # If there is another finding, it is the cause of an incomplete output.
    causes = [f for f in found if f.code != _UNWRITTEN] or list(found)
    out = [_diagnostic(graph, text, f, run) for f in causes[:_SHOWN]]
    if len(causes) > _SHOWN:
        last = out[-1]
        more = f"and {len(causes) - _SHOWN} more findings"
        out[-1] = Diagnostic(
            last.code, last.message, last.where, last.hint, (*last.notes, more), last.severity
        )
    return tuple(out)


def _diagnostic(graph: FusionGraph, text: KernelText, f: Finding, run: str) -> Diagnostic:
    spot = text.spot(f.line, f.nested)
    notes = []
    if spot is not None:
        notes.append(_note("in", spot, f.core, f.count))
    if f.other is not None and (other := text.spot(f.other.line, f.other.nested)) is not None:
        notes.append(_note("conflicts with", other, f.other.core, f.other.count))
    if f.place and f.end > f.begin:
        notes.append(f"tensor: {f.place}, bytes [{f.begin}, {f.end})")
    notes.append(f"run: {run}")
    where = Where(node=graph_node(graph, spot) or graph.label, pointer=spot.pointer if spot else "")
    return Diagnostic(
        "AF6002" if f.code == _UNWRITTEN else "AF5004", str(f), where, "", tuple(notes)
    )


def _note(word: str, spot: Spot, core: int, count: int) -> str:
    origin = f", node {spot.node} ({spot.op})" if spot.node else ""
    times = f", time {count} of this line" if count else ""
    return f"{word} {spot.function} line {spot.line}{origin}, core {core}{times}: {spot.statement}"


def graph_node(graph: FusionGraph, spot: Spot | None) -> str:
    """Return the name in the graph; the kernel's name if the graph has no such place."""
    if spot is None:
        return ""
    names = {n.origin: n.label for n in graph.nodes if n.origin}
    names |= {
        t.origin: t.name for t in graph.tensors.values() if t.origin and t.name in graph.inputs
    }
    names |= {f"/outputs/{i}": o.name for i, o in enumerate(graph.outputs)}
    return names.get(spot.pointer) or spot.node
