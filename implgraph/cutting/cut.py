"""A FusionGraph cut into parts that run one after another, and the tensors passed between them.

A cut is a position in the order of the graph's nodes.  A part is the FusionGraph between two cuts; its inputs are
inputs of the whole graph and tensors that earlier parts made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autofuse.implgraph.expr.expression import Expr, product
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor

__all__ = [
    "INPUT",
    "OUTPUT",
    "PASSED",
    "Cutter",
    "Part",
    "Passed",
    "Place",
    "Split",
    "expressions",
    "needed_nodes",
]

#: Kinds of :class:`Place`.
INPUT, OUTPUT, PASSED = "input", "output", "passed"


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a tensor of a part: input or output ``index`` of the whole graph, or passed tensor ``index``."""

    kind: str
    index: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part: a graph that becomes one kernel.

    Attributes:
        graph: the part; its name is that of the whole graph with ``_part<k>`` appended.
        sources: location of every input of the part.
        targets: destination of every output of the part.
    """

    graph: FusionGraph
    sources: tuple[Place, ...]
    targets: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor, dense in GM, that part ``maker`` writes for the parts ``users``; not an output of the whole graph.

    ``bytes``: its size with symbols at their hints.
    """

    tensor: Tensor
    maker: int
    users: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Split:
    """A graph split into parts.

    Attributes:
        graph: the whole.
        parts: in execution order.
        passed: the tensors passed between them, in the order in which they are made.
        cut_after: name of the last node of every part except the last.
    """

    graph: FusionGraph
    parts: tuple[Part, ...]
    passed: tuple[Passed, ...]
    cut_after: tuple[str, ...]


class Cutter:
    """Cuts one graph at positions in the order of its nodes.

    Nodes that no output needs are left out.  An output that overwrites an input is written once no later node reads
    that input; every other output is written by the part that makes its tensor.

    Attributes:
        graph: the whole.
        nodes: the needed nodes; a part consists of the nodes ``[first, end)``.
    """

    def __init__(self, graph: FusionGraph) -> None:
        self.graph = graph
        self.nodes = needed_nodes(graph)
        #: Position of the node that makes a tensor; -1 for an input.
        self._made = dict.fromkeys(graph.inputs, -1)
        #: Position of the last node, or written output, that reads a tensor.
        self._last: dict[str, int] = {}
        for n, node in enumerate(self.nodes):
            self._made.update(dict.fromkeys(node.outputs, n))
            self._last.update(dict.fromkeys(_operands(node), n))
        self._written = self._places()
        for o, n in zip(graph.outputs, self._written, strict=True):
            self._last[o.tensor] = max(self._last.get(o.tensor, -1), n)
        self._written_with: dict[int, list[str]] = {}
        for o, n in zip(graph.outputs, self._written, strict=True):
            self._written_with.setdefault(n, []).append(o.tensor)
        #: Tensors that a later part can read from an output of the whole graph.
        self._home = {
            o.tensor: k
            for k, o in reversed(tuple(enumerate(graph.outputs)))
            if o.inout is None and self._made[o.tensor] >= 0
        }
        typical = {s.name: s.typical for s in graph.symbols}
        self._bytes = {
            name: max(product(t.shape).evaluate(typical), 0) * t.dtype.itemsize
            for name, t in graph.tensors.items()
        }

    def _places(self) -> list[int]:
        """Return, for every output, the position of the node after which it is written."""
        outputs = self.graph.outputs
        read = dict(self._last)
        at = [max(self._made[o.tensor], 0) for o in outputs]
        for o, n in zip(outputs, at, strict=True):
            if o.inout is None:
                read[o.tensor] = max(read.get(o.tensor, 0), n)
        changed = True
        while changed:
            changed = False
            for k, o in enumerate(outputs):
                if o.inout is not None and read.get(o.inout, 0) > at[k]:
                    at[k] = read[o.inout]
                    changed = True
                if o.inout is not None and read.get(o.tensor, 0) < at[k]:
                    read[o.tensor] = at[k]
                    changed = True
        return at

    # one part ---------------------------------------------------------------------------------

    def part(self, first: int, end: int, name: str) -> FusionGraph:
        """Return the graph of the nodes ``[first, end)``: outputs of the whole first, then tensors later parts need."""
        graph = self.graph
        nodes = self.nodes[first:end]
        written = self._outputs(first, end)
        reads = {x for n in nodes for x in _operands(n)} | {
            graph.outputs[k].tensor for k in written
        }
        reads |= {o.inout for o in (graph.outputs[k] for k in written) if o.inout is not None}
        inputs = [x for x in graph.inputs if x in reads]
        inputs += [
            x for n in self.nodes[:first] for x in n.outputs if x in reads and x not in inputs
        ]
        outputs = [graph.outputs[k] for k in written]
        taken = {o.name for o in outputs} | set(graph.tensors)
        for x in self._passed(first, end):
            outputs.append(
                GraphOutput(x if not any(o.name == x for o in outputs) else _fresh(x, taken), x)
            )
        made = [x for n in nodes for x in n.outputs]
        tensors = {x: graph.tensors[x] for x in (*inputs, *made)}
        used = {s for e in expressions(nodes, tensors.values()) for s in e.symbols()}
        symbols = tuple(s for s in graph.symbols if s.name in used)
        called = graph.called if name == graph.name else ""
        return FusionGraph(
            name, symbols, tuple(inputs), tuple(nodes), tuple(outputs), tensors, called
        )

    def _outputs(self, first: int, end: int) -> list[int]:
        """Return the outputs of the whole graph that a part writes."""
        return [k for k, n in enumerate(self._written) if first <= n < end]

    def _passed(self, first: int, end: int) -> list[str]:
        """Return the tensors that a part makes for later ones, except outputs of the whole graph."""
        return [
            x
            for n in self.nodes[first:end]
            for x in n.outputs
            if self._last.get(x, -1) >= end and x not in self._home
        ]

    # all parts --------------------------------------------------------------------------------

    def split(self, ends: Sequence[int]) -> Split:
        """Return the parts that end at these positions; the last position is the number of nodes."""
        firsts = [0, *ends[:-1]]
        graph = self.graph
        graphs = [
            self.part(a, b, f"{graph.name}_part{k}" if len(ends) > 1 else graph.name)
            for k, (a, b) in enumerate(zip(firsts, ends, strict=True))
        ]
        users: dict[str, list[int]] = {}
        for k, g in enumerate(graphs):
            for x in g.inputs:
                users.setdefault(x, []).append(k)
        passed = [
            Passed(graph.tensors[x], k, tuple(users[x]), self._bytes[x])
            for k, (a, b) in enumerate(zip(firsts, ends, strict=True))
            for x in self._passed(a, b)
        ]
        number = {p.tensor.name: n for n, p in enumerate(passed)}
        parts = []
        for g, a, b in zip(graphs, firsts, ends, strict=True):
            sources = tuple(self._source(x, number) for x in g.inputs)
            written = self._outputs(a, b)
            targets = [Place(OUTPUT, k) for k in written]
            targets += [Place(PASSED, number[o.tensor]) for o in g.outputs[len(written) :]]
            parts.append(Part(g, sources, tuple(targets)))
        cuts = tuple(self.nodes[e - 1].label for e in ends[:-1])
        return Split(graph, tuple(parts), tuple(passed), cuts)

    def _source(self, x: str, number: dict[str, int]) -> Place:
        if self._made[x] < 0:
            return Place(INPUT, self.graph.inputs.index(x))
        return Place(PASSED, number[x]) if x in number else Place(OUTPUT, self._home[x])

    # bytes ------------------------------------------------------------------------------------

    def traffic(self, first: int) -> list[int]:
        """Return the bytes that the parts ``[first, end)`` read and write, for ``end`` from ``first + 1`` on.

        Symbols take their hints.  The sum over all parts is the cost of the cuts plus a constant.
        """
        out: list[int] = []
        loaded: set[str] = set()
        ending: dict[int, int] = {}
        total = 0
        for n in range(first, len(self.nodes)):
            node = self.nodes[n]
            written = self._written_with.get(n, [])
            for x in (*_operands(node), *written):
                if self._made[x] < first and x not in loaded:
                    loaded.add(x)
                    total += self._bytes[x]
            total += sum(self._bytes[x] for x in written)
            for x in node.outputs:
                last = self._last.get(x, -1)
                if x not in self._home and last > n:
                    total += self._bytes[x]
                    ending[last] = ending.get(last, 0) + self._bytes[x]
            total -= ending.pop(n, 0)
            out.append(total)
        return out


def needed_nodes(graph: FusionGraph) -> tuple[FusionNode, ...]:
    """Return the nodes that some output needs, in order."""
    wanted = {o.tensor for o in graph.outputs}
    out: list[FusionNode] = []
    for n in reversed(graph.nodes):
        if wanted & set(n.outputs):
            out.append(n)
            wanted.update(_operands(n))
    return tuple(reversed(out))


def _operands(node: FusionNode) -> Iterator[str]:
    return (x for x in node.inputs if isinstance(x, str))


def expressions(nodes: Sequence[FusionNode], tensors: Iterable[Tensor]) -> Iterator[Expr]:
    """Yield every size expression of nodes and tensors."""
    for t in tensors:
        yield from (*t.shape, *(t.strides or ()))
        if t.offset is not None:
            yield t.offset
    for n in nodes:
        for x in n.inputs:
            if isinstance(x, Constant) and x.expr is not None:
                yield x.expr
        for value in n.attrs.values():
            if isinstance(value, tuple):
                yield from (v for v in value if isinstance(v, Expr))


def _fresh(name: str, taken: set[str]) -> str:
    k = 1
    while f"{name}_{k}" in taken:
        k += 1
    return f"{name}_{k}"
