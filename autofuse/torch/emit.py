"""Building the graph of a region op by op.

A value that is the same for all elements (``full``, a Python number) stays a constant for as long as ops can take it as
one; a tensor is made of it only where one is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.builder import MAX_RANK, GraphBuilder
from autofuse.frontends.json_positions import Document, Findings
from autofuse.frontends.names import identifier
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import Constant, Tensor
from autofuse.implgraph.ops import registry
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.rules import broadcast_shapes
from autofuse.torch.refusal import RefusedError
from autofuse.torch.sizes import Shape, Sizes

__all__ = ["BOOL", "FLOAT32", "INT64", "Emitter", "Number", "Value"]

Number: TypeAlias = int | float | bool

BOOL, INT64 = BY_NAME["bool"], BY_NAME["int64"]
FLOAT32 = BY_NAME["float32"]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the region.

    Attributes:
        dtype: element type.
        shape: sizes, outermost first.
        tensor: the tensor of the graph; None where all elements are ``number``.
        number: that number.
    """

    dtype: DType
    shape: Shape
    tensor: Tensor | None = None
    number: Number = 0


class Emitter:
    """Adds nodes to a graph.

    Attributes:
        builder: the graph so far.
        sizes: its symbols.
        origin: what is noted of every node that is added.
        inputs: names of the parameters, in order.
    """

    def __init__(self, name: str, sizes: Sizes) -> None:
        self.findings = Findings(Document(None, "", ""))
        self.builder = GraphBuilder(self.findings, name)
        self.sizes = sizes
        self.origin = ""
        self.inputs: list[str] = []

    def input(self, dtype: DType, shape: Shape) -> Value:
        """A parameter of the kernel, contiguous."""
        name = identifier(f"x{len(self.inputs)}", self.builder.taken)
        tensor = Tensor(name, dtype, shape)
        self.builder.add_tensor(tensor)
        self.inputs.append(name)
        return Value(dtype, shape, tensor)

    def full(self, shape: Shape, number: Number, dtype: DType) -> Value:
        """A tensor of equal elements."""
        return Value(dtype, shape, None, _converted(number, dtype))

    def tensor(self, x: Value) -> Value:
        """The same value as a tensor of the graph."""
        if x.tensor is not None:
            return x
        constant = Constant(x.number, x.dtype)
        if x.shape:
            return self._node("Broadcast", [constant], shape=x.shape)
        wide = self._node("Broadcast", [constant], shape=(const(1),))
        return self._node("Reshape", [wide], shape=())

    # ops --------------------------------------------------------------------------------------

    def op(self, name: str, *xs: Value | Number, **attrs: Any) -> Value:
        """One element-wise op with broadcasting; the operands have the dtypes that the op wants.

        Raises:
            RefusedError: the op does not take them.
        """
        operands: list[Value | Constant] = []
        for x in xs:
            if not isinstance(x, Value):
                operands.append(Constant(x))
            elif x.tensor is None:
                operands.append(Constant(x.number, x.dtype))
            else:
                operands.append(x)
        if not any(isinstance(o, Value) for o in operands):
            at = next(i for i, x in enumerate(xs) if isinstance(x, Value))
            first = xs[at]
            assert isinstance(first, Value)
            operands[at] = self.tensor(first)
        found = self._node(name, operands, **attrs)
        try:
            shape = broadcast_shapes([x.shape for x in xs if isinstance(x, Value)])
        except OpError as e:
            raise RefusedError(str(e)) from None
        return self.broadcast(found, shape)

    def _node(self, name: str, operands: Sequence[Value | Constant], **attrs: Any) -> Value:
        row = registry.find(name)
        if row is None or not row.user:
            raise RefusedError(f"needs the op {name!r}, which is not known")
        given: list[Tensor | Constant] = []
        for o in operands:
            if isinstance(o, Value):
                assert o.tensor is not None
                given.append(o.tensor)
            else:
                given.append(o)
        result = self.builder.infer(row, given, attrs, "")
        self._refuse()
        assert result is not None
        dtype, shape = result
        self.check_rank(shape)
        count = len(self.builder.nodes)
        tensor = Tensor(identifier(f"t{count}", self.builder.taken), dtype, shape)
        inputs = tuple(g.name if isinstance(g, Tensor) else g for g in given)
        self.builder.add_node(f"{name}_{count}", row.name, inputs, tensor, dict(attrs), self.origin)
        return Value(dtype, shape, tensor)

    def _refuse(self) -> None:
        try:
            self.findings.raise_if_any()
        except AutofuseError as e:
            raise RefusedError(e.diagnostics[0].message) from None

    def check_rank(self, shape: Shape) -> None:
        """RefusedError if there are too many dimensions."""
        if len(shape) > MAX_RANK:
            raise RefusedError(f"{len(shape)} dimensions; kernels have at most {MAX_RANK}")

    def cast(self, x: Value, dtype: DType) -> Value:
        """The value in another element type; to bool: whether it is not 0."""
        if x.dtype == dtype:
            return x
        if x.tensor is None:
            return Value(dtype, x.shape, None, _converted(x.number, dtype))
        return self._node("Cast", [x], dtype=dtype.name)

    def broadcast(self, x: Value, shape: Shape) -> Value:
        """NumPy's broadcast_to."""
        if x.shape == shape:
            return x
        if x.tensor is None:
            return Value(x.dtype, shape, None, x.number)
        return self._node("Broadcast", [x], shape=shape)

    def reshape(self, x: Value, shape: Shape) -> Value:
        """The same elements in the same order."""
        if x.shape == shape:
            return x
        if x.tensor is None:
            return Value(x.dtype, shape, None, x.number)
        return self._node("Reshape", [x], shape=shape)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """Axis i of the result is axis perm[i] of the operand."""
        shape = tuple(x.shape[p] for p in perm)
        if x.tensor is None:
            return Value(x.dtype, shape, None, x.number)
        moved = [p for p in perm if x.shape[p] != 1]
        if moved == sorted(moved):  # only axes of one element move
            return self.reshape(x, shape)
        return self._node("Transpose", [x], perm=tuple(perm))

    def slice(self, x: Value, starts: Sequence[Expr], shape: Shape, steps: Sequence[int]) -> Value:
        """Element j of the result along an axis is element start + j*step."""
        if x.shape == shape and all(s == 0 for s in starts) and all(s == 1 for s in steps):
            return x
        if x.tensor is None:
            return Value(x.dtype, shape, None, x.number)
        return self._node("Slice", [x], starts=tuple(starts), shape=shape, steps=tuple(steps))

    def part(self, x: Value, axis: int, start: Expr, size: Expr, step: int = 1) -> Value:
        """A range of one axis, all of the others."""
        rank = len(x.shape)
        starts = [start if i == axis else const(0) for i in range(rank)]
        shape = tuple(size if i == axis else x.shape[i] for i in range(rank))
        return self.slice(x, starts, shape, [step if i == axis else 1 for i in range(rank)])

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """Side by side along an axis; operands without elements are left out."""
        full = [x for x in xs if x.shape[axis] != 0] or list(xs[:1])
        if len(full) == 1:
            return full[0]
        return self._node("Concat", [self.tensor(x) for x in full], axis=axis)

    def pad(self, x: Value, low: Sequence[Expr], high: Sequence[Expr], number: Number) -> Value:
        """A border of one value."""
        if all(v == 0 for v in (*low, *high)):
            return x
        return self._node(
            "Pad", [self.tensor(x)], low=tuple(low), high=tuple(high), value=float(number)
        )

    def iota(self, size: Expr, dtype: DType, start: int = 0, step: int = 1) -> Value:
        """start, start + step, ... in one dimension."""
        return self._node(
            "Iota", [], shape=(size,), axis=0, dtype=dtype.name, start=start, step=step
        )

    def moved(self, name: str, *xs: Value, **attrs: Any) -> Value:
        """A reduction, a gather or a running sum: an op that needs tensors."""
        return self._node(name, [self.tensor(x) for x in xs], **attrs)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """A where the condition holds, else b; both of one dtype."""
        if condition.tensor is None:
            shape = broadcast_shapes([condition.shape, a.shape, b.shape])
            return self.broadcast(a if condition.number else b, shape)
        return self.op("Select", condition, a, b)


def _converted(number: Number, dtype: DType) -> Number:
    """A number as an element of a dtype: integers wrap, as PyTorch's do."""
    if dtype.kind == "f":
        return float(number)
    if dtype.kind == "b":
        return bool(number)
    if isinstance(number, float) and number != number:
        return 0
    if number in (float("inf"), float("-inf")):
        raise RefusedError(f"{number} as {dtype}")
    whole = int(number) & ((1 << dtype.bits) - 1)
    return whole - (1 << dtype.bits) if dtype.kind == "i" and whole >> (dtype.bits - 1) else whole
