"""Values of a region, from which the graph of its kernel is built.

A uniform value (``full``, a Python number) stays a constant as long as ops accept one; it becomes a tensor only where
one is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.sizes import Sizes
from autofuse.frontends import builder
from autofuse.frontends.builder import MAX_RANK, Move, Number, Shape
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, Tensor

__all__ = ["BFLOAT16", "BOOL", "FLOAT32", "INT64", "Emitter", "Indexed", "Number", "Value"]

BOOL, INT64 = BY_NAME["bool"], BY_NAME["int64"]
BFLOAT16, FLOAT32 = BY_NAME["bfloat16"], BY_NAME["float32"]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the region.

    Attributes:
        dtype: element type.
        shape: sizes, outermost first.
        tensor: the tensor of the graph; None if all elements are ``number``.
        number: that number.
    """

    dtype: DType
    shape: Shape
    tensor: Tensor | None = None
    number: Number = 0


@dataclass(frozen=True, slots=True)
class Indexed:
    """A tensor of indices.

    Attributes:
        index: the indices.
        extent: size of the indexed dimension.
        wraps: negative indices count from its end.
    """

    index: Value
    extent: Expr
    wraps: bool


class Emitter(builder.Emitter[Value]):
    """Adds nodes to a graph.

    Attributes:
        sizes: its symbols.
        indices: tensors used as indices, in order.
    """

    def __init__(self, name: str, sizes: Sizes) -> None:
        super().__init__(name)
        self.sizes = sizes
        self.indices: list[Indexed] = []

    def error(self, code: str, text: str, hint: str = "") -> RefusedError:
        """Return the error that the region cannot be a kernel."""
        return RefusedError(text)

    def refuse(self) -> None:
        """Raise RefusedError for the first finding."""
        try:
            super().refuse()
        except AutofuseError as e:
            raise RefusedError(e.diagnostics[0].message) from None

    def check(self, shape: Shape) -> None:
        """Raise RefusedError if there are too many dimensions."""
        if len(shape) > MAX_RANK:
            raise RefusedError(
                f"{counted(len(shape), 'dimension')}; kernels have at most {MAX_RANK}"
            )

    def names(self, op: str) -> tuple[str, str]:
        """Return numbered names, because PyTorch's node names differ between traces."""
        count = len(self.nodes)
        return f"t{count}", f"{op}_{count}"

    # values -----------------------------------------------------------------------------------

    def input(self, dtype: DType, shape: Shape) -> Value:
        """Add a contiguous parameter of the kernel."""
        return Value(dtype, shape, self.parameter(f"x{len(self.inputs)}", dtype, shape))

    def full(self, shape: Shape, number: Number, dtype: DType) -> Value:
        """Return a tensor of equal elements."""
        return Value(dtype, shape, None, _converted(number, dtype))

    def shape(self, x: Value) -> Shape:
        """Return the sizes, outermost first."""
        return x.shape

    def operand(self, x: Value) -> Tensor | Constant:
        """Return the tensor, or the number that all elements equal."""
        return Constant(x.number, x.dtype) if x.tensor is None else x.tensor

    def tensor(self, x: Value) -> Tensor:
        """Return a value as a tensor of the graph."""
        if x.tensor is not None:
            return x.tensor
        shape = x.shape or (const(1),)
        wide = self.emit("Broadcast", [Constant(x.number, x.dtype)], {"shape": shape})
        return wide if x.shape else self.emit("Reshape", [wide], {"shape": ()})

    def made(self, tensor: Tensor, xs: Sequence[Value]) -> Value:
        """Return the result of a node."""
        return Value(tensor.dtype, tensor.shape, tensor)

    # known values -----------------------------------------------------------------------------

    def folded(
        self,
        name: str,
        xs: Sequence[Value | Number],
        constants: Sequence[Constant],
        attrs: Mapping[str, Any],
    ) -> Value:
        """Apply an op to constants without folding: the first operand becomes a tensor."""
        at, x = next((i, x) for i, x in enumerate(xs) if isinstance(x, Value))
        first = self.made(self.tensor(x), ())
        return self.op(name, *xs[:at], first, *xs[at + 1 :], **attrs)

    def converted(self, x: Value, dtype: DType) -> Value | None:
        """Convert a uniform value to another element type."""
        if x.dtype == dtype:
            return x
        return self.full(x.shape, x.number, dtype) if x.tensor is None else None

    def kept(self, x: Value, shape: Shape, move: Move | None, *, copied: bool) -> Value | None:
        """Keep a uniform value uniform: reordering does not change it."""
        return replace(x, shape=shape) if x.tensor is None else None


def _converted(number: Number, dtype: DType) -> Number:
    """Return a number as an element of a dtype: as in PyTorch, 16-bit floats are rounded and integers wrap."""
    if dtype.kind == "f":
        if dtype.bits == 32:
            return float(number)
        # Through float32, as PyTorch does.
        with np.errstate(over="ignore"):
            return float(np.float32(number).astype(numpy_dtype(dtype)))
    if dtype.kind == "b":
        return bool(number)
    if isinstance(number, float) and number != number:
        return 0
    if number in (float("inf"), float("-inf")):
        raise RefusedError(f"{number} as {dtype}")
    whole = int(number) & ((1 << dtype.bits) - 1)
    return whole - (1 << dtype.bits) if dtype.kind == "i" and whole >> (dtype.bits - 1) else whole
