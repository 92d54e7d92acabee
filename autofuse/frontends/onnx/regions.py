"""Regions of a model, sets of nodes that become one kernel, and their graphs.

A region grows along tensors that pass between nodes: once fused, such a tensor need not be written and read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autofuse.frontends.builder import topological_order
from autofuse.frontends.onnx.pieces import FALLBACK, KERNEL, ModelPieces
from autofuse.frontends.regions import grow
from autofuse.implgraph.cutting.cut import expressions
from autofuse.implgraph.expr.expression import Expr, product
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Operand

__all__ = [
    "MAX_PARAMETERS",
    "MAX_REGION",
    "Region",
    "Regions",
    "evaluated",
    "execution_order",
]

#: Most nodes of the model in one region.
MAX_REGION = 64
#: Most inputs and outputs of a region; with more, a kernel has more queues than buffers.
MAX_PARAMETERS = 32
#: Size assumed for a symbol when comparing bytes.
_TYPICAL = 1024


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes of a model that become one kernel, or one view.

    Attributes:
        nodes: node indices, in order.
        graph: their computation, with names that depend only on its structure; the graph is called ``region``.
        inputs: for every input of the graph the key of the tensor (``ModelPieces.keys``).
        outputs: for every output the same.
        view: True if nothing is computed: the results have the elements of the operands, in order.
    """

    nodes: tuple[int, ...]
    graph: FusionGraph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    view: bool


def execution_order(
    units: Sequence[Sequence[int]], needs: Mapping[int, Collection[int]]
) -> list[int]:
    """Return the indices of units (sets of nodes) in topological order.

    Raises:
        ValueError: there is a cycle.
    """
    home = {n: k for k, unit in enumerate(units) for n in unit}
    edges = [
        sorted({home[d] for n in unit for d in needs[n]} - {k}) for k, unit in enumerate(units)
    ]
    order, stuck = topological_order(edges)
    if stuck:
        raise ValueError(f"units {stuck} need each other")
    return order


class Regions:
    """Graphs and bytes of regions of one model.

    Attributes:
        pieces: the model.
        needs: node that runs, in a kernel or alone -> the nodes that it depends on.
    """

    def __init__(self, pieces: ModelPieces) -> None:
        self.pieces = pieces
        self.needs = {p.index: p.needs for p in pieces.pieces if p.kind in (KERNEL, FALLBACK)}
        self._maker = {t: k for k, n in enumerate(pieces.nodes) for t in n.outputs}
        self._piece_of = {k: p.index for p in pieces.pieces if p.kind == KERNEL for k in p.nodes}
        named = set(pieces.keys.values())
        #: Tensors computed from constants and owned by no node: every region computes its own.
        self._common = {
            t
            for n in pieces.nodes
            if not any(isinstance(x, str) for x in n.inputs)
            for t in n.outputs
            if t not in named
        }
        self._readers: dict[str, set[int]] = {}
        for p in pieces.pieces:
            if p.index not in self.needs:
                continue
            for x in p.inputs:
                self._readers.setdefault(pieces.keys[x], set()).add(p.index)
        self._final = {pieces.keys[o] for o in pieces.outputs}
        self._typical = {s.name: min(max(_TYPICAL, s.min), s.max) for s in pieces.symbols.values()}

    def grown(self, eligible: Collection[int]) -> list[tuple[int, ...]]:
        """Return the eligible nodes as regions, with views cut off where they save nothing."""
        out: list[tuple[int, ...]] = []
        for nodes in grow(self.needs, eligible, self._gain, self._fits):
            out += self._without_views(nodes)
        return sorted(out)

    # graphs -----------------------------------------------------------------------------------

    def region(self, nodes: Iterable[int]) -> Region:
        """Return the graph of the nodes of a region."""
        chosen = tuple(sorted(nodes))
        outputs = self._outputs(chosen)
        ops = self._ops(chosen, outputs)
        made = {t for n in ops for t in n.outputs}
        inputs = list(
            dict.fromkeys(x for n in ops for x in n.inputs if isinstance(x, str) and x not in made)
        )
        names = {x: f"x{k}" for k, x in enumerate(inputs)}
        names |= {o: f"y{k}" for k, o in enumerate(outputs)}
        inner = (t for n in ops for t in n.outputs if t not in names)
        names |= {t: f"t{k}" for k, t in enumerate(inner)}
        graph = self._graph(ops, inputs, outputs, names)
        view = all(n.op == "Reshape" for n in ops)
        return Region(chosen, graph, tuple(inputs), tuple(outputs), view)

    def owners(self, region: Region) -> list[int | None]:
        """Return the model's node for every op of a region's graph; None for a shared one."""
        return [
            None
            if self._common.intersection(op.outputs)
            else self._piece_of[self._maker[op.outputs[0]]]
            for op in self._ops(region.nodes, region.outputs)
        ]

    def _graph(
        self,
        ops: Sequence[FusionNode],
        inputs: Sequence[str],
        outputs: Sequence[str],
        names: Mapping[str, str],
    ) -> FusionGraph:
        def operand(x: Operand) -> Operand:
            return x if isinstance(x, Constant) else names[x]

        nodes = tuple(
            FusionNode(
                f"n{k}",
                n.op,
                tuple(operand(x) for x in n.inputs),
                tuple(names[t] for t in n.outputs),
                n.attrs,
            )
            for k, n in enumerate(ops)
        )
        tensors = {
            new: replace(self.pieces.tensors[old], name=new, origin="")
            for old, new in names.items()
        }
        used = {s for e in expressions(nodes, tensors.values()) for s in e.symbols()}
        symbols = tuple(s for n, s in self.pieces.symbols.items() if n in used)
        results = tuple(GraphOutput(names[o], names[o]) for o in outputs)
        return FusionGraph(
            "region", symbols, tuple(names[x] for x in inputs), nodes, results, tensors
        )

    def _outputs(self, nodes: Sequence[int]) -> list[str]:
        """Return the keys of results that other nodes use."""
        inside = set(nodes)
        found = []
        for i in nodes:
            for o in self.pieces.pieces[i].outputs:
                key = self.pieces.keys[o]
                made_here = self._piece_of.get(self._maker.get(key, -1)) == i
                users = self._readers.get(key, set())
                if made_here and (key in self._final or users - inside) and key not in found:
                    found.append(key)
        return found

    def _ops(self, nodes: Sequence[int], outputs: Sequence[str]) -> list[FusionNode]:
        """Return the ops that the outputs depend on, shared ones included."""
        inside = {k for i in nodes for k in self.pieces.pieces[i].nodes}
        wanted: set[int] = set()
        todo = list(outputs)
        while todo:
            k = self._maker.get(todo.pop(), -1)
            if k < 0 or k in wanted:
                continue
            op = self.pieces.nodes[k]
            if k not in inside and self._common.isdisjoint(op.outputs):
                continue
            wanted.add(k)
            todo += (x for x in op.inputs if isinstance(x, str))
        return [self.pieces.nodes[k] for k in sorted(wanted)]

    def _is_view(self, i: int) -> bool:
        """Return True if the node only changes the shape."""
        ops = [self.pieces.nodes[k] for k in self.pieces.pieces[i].nodes]
        return bool(ops) and all(n.op == "Reshape" for n in ops)

    def _without_views(self, nodes: Sequence[int]) -> list[tuple[int, ...]]:
        """Split views at the ends into regions of their own: outside of a kernel they cost nothing."""
        left = set(nodes)
        out: list[tuple[int, ...]] = []
        needs = self.needs
        changed = True
        while changed:
            changed = False
            for i in sorted(left):
                if len(left) == 1 or not self._is_view(i):
                    continue
                read = {self.pieces.keys[x] for x in self.pieces.pieces[i].inputs}
                shared = any(self._readers.get(x, set()) & (left - {i}) for x in read)
                first = left.isdisjoint(needs[i]) and not shared
                last = not any(i in needs[j] for j in left)
                if first or last:
                    left.discard(i)
                    out.append((i,))
                    changed = True
        return [tuple(sorted(left)), *out]

    # bytes ------------------------------------------------------------------------------------

    def bytes_of(self, key: str, sizes: Mapping[str, int] | None = None) -> int:
        """Return the bytes of a tensor, with typical sizes if none are given."""
        t = self.pieces.tensors.get(key)
        if t is None:
            return 0
        env = self._typical if sizes is None else sizes
        return max(product(t.shape).evaluate(env), 0) * t.dtype.itemsize

    def unfused_bytes(self, nodes: Sequence[int], sizes: Mapping[str, int] | None = None) -> int:
        """Return the bytes that the nodes move if run one by one: each operand and result once, views nothing."""
        total = 0
        for i in nodes:
            p = self.pieces.pieces[i]
            if self._is_view(i):
                continue
            keys = {self.pieces.keys[x] for x in p.inputs} | {
                x
                for k in p.nodes
                for x in self.pieces.nodes[k].inputs
                if isinstance(x, str) and x in self.pieces.parameters
            }
            keys |= {self.pieces.keys[o] for o in p.outputs if o}
            total += sum(self.bytes_of(k, sizes) for k in keys)
        return total

    def fused_bytes(self, region: Region, sizes: Mapping[str, int] | None = None) -> int:
        """Return the bytes that the region reads and writes, each tensor once."""
        return sum(self.bytes_of(k, sizes) for k in (*region.inputs, *region.outputs))

    def _gain(self, maker: int, user: int) -> int:
        made = {self.pieces.keys[o] for o in self.pieces.pieces[maker].outputs}
        read = {self.pieces.keys[x] for x in self.pieces.pieces[user].inputs}
        return sum(max(self.bytes_of(k), 1) for k in made & read)

    def _fits(self, nodes: frozenset[int]) -> bool:
        if len(nodes) > MAX_REGION:
            return False
        region = self.region(nodes)
        return len(region.inputs) + len(region.outputs) <= MAX_PARAMETERS

    def typical(self) -> dict[str, int]:
        """Return the sizes at which bytes are compared."""
        return dict(self._typical)


def evaluated(shape: Iterable[Expr], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return a shape as numbers."""
    return tuple(e.evaluate(sizes) for e in shape)
