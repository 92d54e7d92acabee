"""A FusionGraph without views and without implicit broadcasts, as lowering walks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import ONE, Expr, product
from autofuse.implgraph.expr.remainders import tight_bounds
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ir.iteration_space import Runs, broadcast_runs
from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.infer import operand_dtypes
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import PART, reduced_axes

__all__ = [
    "BROADCAST",
    "CONCAT",
    "FRAME",
    "GATHER",
    "INPUT",
    "IOTA",
    "OP",
    "REDUCE",
    "SCAN",
    "SLICE",
    "TRANSPOSE",
    "Program",
    "Step",
    "Use",
]

#: Kinds of steps.
INPUT, OP, BROADCAST, REDUCE, TRANSPOSE, SLICE, CONCAT, IOTA, GATHER, SCAN = range(10)
#: Numbers up to 13 are further kinds of instances.
FRAME = 14

_KINDS = {
    "elewise": OP,
    "broadcast": BROADCAST,
    "reduce": REDUCE,
    "transpose": TRANSPOSE,
    "slice": SLICE,
    "concat": CONCAT,
    "iota": IOTA,
    "gather": GATHER,
    "scan": SCAN,
    "frame": FRAME,
}

Shape: TypeAlias = tuple[Expr, ...]


@frozen
class Use:
    """An operand of a step: a tensor (index) or a constant; ``runs`` is None for equal sizes.

    ``shape`` is the operand's shape as the op sees it: views are resolved, so the tensor's own shape may differ.
    """

    tensor: int
    runs: Runs | None
    constant: Constant | None = None
    shape: Shape = ()


@dataclass(slots=True)
class Step:
    """A step that produces a tensor.

    ``numbers`` holds the reduced dimensions of a REDUCE, the permutation of a TRANSPOSE, the steps of a SLICE, the
    dimension of a CONCAT, GATHER or SCAN, the dimension of a FRAME and the number of elements before the framed ones,
    or start and step of an IOTA, which is one-dimensional; ``starts`` belongs to a SLICE.  ``shared`` is the number of
    leading dimensions of a GATHER's data that its index has too.  ``part`` is the number of rows that a REDUCE in parts
    sums up for each row of its result; 0 for any other one.
    """

    kind: int
    tensor: Tensor
    uses: tuple[Use, ...] = ()
    node: FusionNode | None = None
    index: int = -1
    numbers: tuple[int, ...] = ()
    starts: Shape = ()
    shared: int = 0
    part: int = 0

    @property
    def shape(self) -> Shape:
        """The result's dimensions in its own group, where the parts of a REDUCE are no dimension."""
        if not self.part:
            return self.tensor.shape
        return tuple(s for d, s in enumerate(self.uses[0].shape) if d not in self.numbers)

    @property
    def origin(self) -> str:
        """JSON pointer of the definition it comes from."""
        return self.node.origin if self.node else self.tensor.origin


class Program:
    """The normalised FusionGraph: steps, views resolved, and the classes of linked tensors."""

    def __init__(self, graph: FusionGraph, *, masks: bool = False) -> None:
        self.graph = graph
        #: Loads are masked: nothing outside a tensor's memory is read, wherever a window lies.
        self.masks = masks
        self.steps: list[Step] = []
        self.index: dict[str, int] = {}
        self.counts: list[Expr] = []
        #: For every tensor, True if it depends on a reduction.
        self.after_reduce: list[bool] = []
        #: For every tensor, the steps that use it.
        self.users: list[list[int]] = []
        self.ranges = graph.symbol_ranges()
        self._parent: list[int] = []
        self._products: dict[Shape, Expr] = {(): ONE}
        self._runs: dict[tuple[Shape, Shape], Runs | None] = {}
        self._ends: dict[int, list[int] | None] = {}
        #: Slices by the part of the operand that they take.
        self._slices: dict[tuple[object, ...], list[int]] = {}
        for i, name in enumerate(graph.inputs):
            self._add(name, Step(INPUT, graph.tensors[name], index=i))
        for node in graph.nodes:
            self._add_node(node)

    def _add(self, name: str, step: Step) -> int:
        n = len(self.steps)
        self.index[name] = n
        self.steps.append(step)
        self.counts.append(self.count(step.tensor.shape))
        self._parent.append(n)
        self.users.append([])
        reduced = step.kind == REDUCE
        for use in step.uses:
            if use.constant is None:
                self.users[use.tensor].append(n)
                reduced = reduced or self.after_reduce[use.tensor]
        self.after_reduce.append(reduced)
        return n

    def count(self, shape: Shape) -> Expr:
        """Return the number of elements."""
        n = self._products.get(shape)
        if n is None:
            n = self._products[shape] = product(shape)
        return n

    def at_least(self, a: Expr, b: Expr) -> bool:
        """Return True if a >= b for all values of the symbols."""
        if a.is_const and b.is_const:
            return a.value >= b.value
        return tight_bounds(a - b, self.ranges)[0] >= 0

    def ends(self, tensor: int) -> list[int] | None:
        """Return the ends of the pieces of a Concat; None unless all are known."""
        if tensor not in self._ends:
            step = self.steps[tensor]
            sizes = [use.shape[step.numbers[0]] for use in step.uses]
            known = all(s.is_const for s in sizes)
            self._ends[tensor] = list(accumulate(s.value for s in sizes)) if known else None
        return self._ends[tensor]

    def _pattern(self, source: Shape, target: Shape) -> Runs | None:
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
                f"{node.op} has {counted(len(node.outputs), 'output')}, not 1",
                where=Where(pointer=node.origin, node=node.label),
            )
        row = lookup(node.op)
        source = node.inputs[0] if node.inputs else None
        if isinstance(source, str) and self._is_view(node, row, source):
            self.index[node.outputs[0]] = self.index[source]
            return
        kind = BROADCAST if row.cost == "none" and row.compute_type in ("elewise", "view") else None
        if kind is None:
            kind = _KINDS.get(row.compute_type)
        if kind is None:
            raise AutofuseError.of(
                "AF2103",
                f"{row.name} cannot be compiled yet",
                where=Where(pointer=node.origin, node=node.label),
            )
        if kind == IOTA:
            self._add_iota(node)
            return
        self._add_step(node, kind)

    def _is_view(self, node: FusionNode, row: OpDef, source: str) -> bool:
        """Return True if the result is the operand under another shape."""
        tensors = self.graph.tensors
        if row.compute_type == "broadcast":
            return self._pattern(tensors[source].shape, tensors[node.outputs[0]].shape) is None
        return row.cost == "none" and row.compute_type in ("elewise", "view")

    def _add_step(self, node: FusionNode, kind: int) -> None:
        tensors = self.graph.tensors
        result = tensors[node.outputs[0]]
        operands = [tensors[x] if isinstance(x, str) else x for x in node.inputs]
        uses: list[Use] = []
        n = len(self.steps)
        links: list[int] = []
        count = self.count(result.shape)
        for x, d in zip(node.inputs, operand_dtypes(operands), strict=True):
            if not isinstance(x, str):
                uses.append(Use(-1, (), Constant(x.value, d, x.expr)))
                continue
            shape = tensors[x].shape
            runs = self._pattern(shape, result.shape) if kind in (OP, BROADCAST) else None
            i = self.index[x]
            uses.append(Use(i, runs, shape=shape))
            same = kind in (OP, BROADCAST, SCAN) and runs is None and self.counts[i] == count
            computed = kind in (OP, BROADCAST, TRANSPOSE) and self.after_reduce[i]
            if same or computed or kind == REDUCE:
                links.append(i)
        step = Step(kind, result, tuple(uses), node)
        rank = len(uses[0].shape) if uses else 0
        attrs: Mapping[str, Any] = node.attrs
        if kind == REDUCE:
            step.numbers = reduced_axes(attrs.get("axes", ()), rank)
            step.part = attrs.get(PART, 0)
        elif kind == TRANSPOSE:
            step.numbers = tuple(p % rank for p in attrs["perm"])
        elif kind == SLICE:
            step.numbers = attrs.get("steps") or (1,) * rank
            step.starts = attrs["starts"]
        elif kind == FRAME:
            step.numbers = (attrs["axis"], attrs["low"])
        elif kind in (CONCAT, GATHER, SCAN):
            step.numbers = (attrs.get("axis", -1) % rank,)
            step.shared = attrs.get("shared", 0)
        self._add(node.outputs[0], step)
        if kind == SLICE and not self.after_reduce[uses[0].tensor]:
            self._slices.setdefault(_taken(step), []).append(n)
            links += self.slices_alike(n)
        for i in links:
            self._union(i, n)

    def slices_alike(self, n: int) -> list[int]:
        """Return slices that take the same part of tensors linked to the operand of slice ``n``: one load may do.

        Empty for operands that depend on a reduction, since others in the group would have to wait too, and if ``n`` is
        not a slice.
        """
        step = self.steps[n]
        found = self._slices.get(_taken(step), []) if step.kind == SLICE else []
        if n not in found:
            return []
        root = self.find(step.uses[0].tensor)
        return [m for m in found if m != n and self.find(self.steps[m].uses[0].tensor) == root]

    def _add_iota(self, node: FusionNode) -> None:
        """Add an index tensor as a 1-D Iota broadcast to the other dimensions."""
        result = self.graph.tensors[node.outputs[0]]
        attrs: Mapping[str, Any] = node.attrs
        axis = attrs["axis"] % len(result.shape)
        numbers = (attrs.get("start", 0), attrs.get("step", 1))
        size = result.shape[axis]
        line = Tensor(result.name, result.dtype, (size,), origin=result.origin)
        n = self._add(node.outputs[0], Step(IOTA, line, (), node, numbers=numbers))
        shape = (size, *(ONE for _ in result.shape[axis + 1 :]))
        runs = self._pattern(shape, result.shape)
        if runs is not None:
            self._add(node.outputs[0], Step(BROADCAST, result, (Use(n, runs, shape=shape),), node))

    def find(self, i: int) -> int:
        """Return the representative of a tensor's class."""
        p = self._parent
        while p[i] != i:
            p[i] = p[p[i]]
            i = p[i]
        return i

    def _union(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a != b:
            self._parent[max(a, b)] = min(a, b)


def _taken(step: Step) -> tuple[object, ...]:
    """Return a key of the part of its operand that a slice takes."""
    return (step.uses[0].shape, step.starts, step.numbers, step.tensor.shape)
