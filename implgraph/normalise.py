"""A FusionGraph without views and without implicit broadcasts, as lowering walks it."""

from __future__ import annotations

from dataclasses import dataclass

from autofuse.diagnostics import AutofuseError, Where
from autofuse.implgraph.expr import ONE, Expr, product
from autofuse.implgraph.fusion import Constant, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.infer import operand_dtypes
from autofuse.implgraph.iteration_space import Runs, broadcast_runs
from autofuse.implgraph.ops import lookup

__all__ = ["BROADCAST", "INPUT", "OP", "Program", "Step", "Use"]

#: Kinds of steps.
INPUT, OP, BROADCAST = range(3)


@dataclass(frozen=True, slots=True)
class Use:
    """An operand of a step: a tensor (index) or a constant; ``runs`` None for equal sizes."""

    tensor: int
    runs: Runs | None
    constant: Constant | None = None


@dataclass(slots=True)
class Step:
    """What makes a tensor."""

    kind: int
    tensor: Tensor
    uses: tuple[Use, ...] = ()
    node: FusionNode | None = None
    index: int = -1


class Program:
    """The normalised FusionGraph: steps, views resolved, and the classes of linked tensors."""

    def __init__(self, graph: FusionGraph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self.index: dict[str, int] = {}
        self.counts: list[Expr] = []
        self._parent: list[int] = []
        self._products: dict[tuple[Expr, ...], Expr] = {(): ONE}
        self._runs: dict[tuple[tuple[Expr, ...], tuple[Expr, ...]], Runs | None] = {}
        for i, name in enumerate(graph.inputs):
            self._add(name, Step(INPUT, graph.tensors[name], index=i))
        for node in graph.nodes:
            self._add_node(node)

    def _add(self, name: str, step: Step) -> None:
        n = len(self.steps)
        self.index[name] = n
        self.steps.append(step)
        self.counts.append(self.count(step.tensor.shape))
        self._parent.append(n)

    def count(self, shape: tuple[Expr, ...]) -> Expr:
        """Number of elements."""
        n = self._products.get(shape)
        if n is None:
            n = self._products[shape] = product(shape)
        return n

    def _pattern(self, source: tuple[Expr, ...], target: tuple[Expr, ...]) -> Runs | None:
        if source == target:
            return None
        key = (source, target)
        if key not in self._runs:
            equal = self.count(source) == self.count(target)
            self._runs[key] = None if equal else broadcast_runs(source, target)
        return self._runs[key]

    def _add_node(self, node: FusionNode) -> None:
        if len(node.outputs) != 1:
            raise AutofuseError.of(
                "AF1202",
                f"{node.op} has {len(node.outputs)} outputs, not 1",
                where=Where(pointer=node.origin, node=node.name),
            )
        tensors = self.graph.tensors
        result = tensors[node.outputs[0]]
        row = lookup(node.op)
        moves = row.compute_type == "broadcast"
        if row.cost == "none" or moves:
            source = node.inputs[0]
            if isinstance(source, str):
                runs = (
                    None
                    if row.cost == "none"
                    else self._pattern(tensors[source].shape, result.shape)
                )
                if runs is None:
                    self.index[node.outputs[0]] = self.index[source]
                    return
                self._add(
                    node.outputs[0],
                    Step(BROADCAST, result, (Use(self.index[source], runs),), node),
                )
                return
        operands = [tensors[x] if isinstance(x, str) else x for x in node.inputs]
        uses: list[Use] = []
        n = len(self.steps)
        links: list[int] = []
        count = self.count(result.shape)
        for x, d in zip(node.inputs, operand_dtypes(operands), strict=True):
            if not isinstance(x, str):
                uses.append(Use(-1, (), Constant(x.value, d)))
                continue
            runs = self._pattern(tensors[x].shape, result.shape)
            uses.append(Use(self.index[x], runs))
            if runs is None and self.counts[self.index[x]] == count:
                links.append(self.index[x])
        # A broadcast or view of a constant is a step of one constant operand.
        self._add(node.outputs[0], Step(BROADCAST if moves else OP, result, tuple(uses), node))
        for i in links:
            self._union(i, n)

    def find(self, i: int) -> int:
        """Representative of the class of a tensor."""
        p = self._parent
        while p[i] != i:
            p[i] = p[p[i]]
            i = p[i]
        return i

    def _union(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a != b:
            self._parent[max(a, b)] = min(a, b)
