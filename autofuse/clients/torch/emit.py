"""Values of a region as the graph of its kernel is made of them.

A value that is the same for all elements (``full``, a Python number) stays a constant for as long as ops can take it as
one; a tensor is made of it only where one is needed.
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
        tensor: the tensor of the graph; None where all elements are ``number``.
        number: that number.
    """

    dtype: DType
    shape: Shape
    tensor: Tensor | None = None
    number: Number = 0


@dataclass(frozen=True, slots=True)
class Indexed:
    """A tensor of places.

    Attributes:
        index: the places.
        extent: size of the dimension along which they are.
        wraps: negative ones count from its end.
    """

    index: Value
    extent: Expr
    wraps: bool


class Emitter(builder.Emitter[Value]):
    """Adds nodes to a graph.

    Attributes:
        sizes: its symbols.
        indices: what is used as places, in order.
    """

    def __init__(self, name: str, sizes: Sizes) -> None:
        super().__init__(name)
        self.sizes = sizes
        self.indices: list[Indexed] = []

    def error(self, code: str, text: str, hint: str = "") -> RefusedError:
        """The region is not one kernel."""
        return RefusedError(text)

    def refuse(self) -> None:
        """RefusedError for what was found first."""
        try:
            super().refuse()
        except AutofuseError as e:
            raise RefusedError(e.diagnostics[0].message) from None

    def check(self, shape: Shape) -> None:
        """RefusedError if there are too many dimensions."""
        if len(shape) > MAX_RANK:
            raise RefusedError(
                f"{counted(len(shape), 'dimension')}; kernels have at most {MAX_RANK}"
            )

    def names(self, op: str) -> tuple[str, str]:
        """Numbers: what PyTorch calls nodes changes from one trace to the next."""
        count = len(self.nodes)
        return f"t{count}", f"{op}_{count}"

    # values -----------------------------------------------------------------------------------

    def input(self, dtype: DType, shape: Shape) -> Value:
        """A parameter of the kernel, contiguous."""
        return Value(dtype, shape, self.parameter(f"x{len(self.inputs)}", dtype, shape))

    def full(self, shape: Shape, number: Number, dtype: DType) -> Value:
        """A tensor of equal elements."""
        return Value(dtype, shape, None, _converted(number, dtype))

    def shape(self, x: Value) -> Shape:
        """Sizes, outermost first."""
        return x.shape

    def operand(self, x: Value) -> Tensor | Constant:
        """A tensor, or the number that all elements are."""
        return Constant(x.number, x.dtype) if x.tensor is None else x.tensor

    def tensor(self, x: Value) -> Tensor:
        """Return a value as a tensor of the graph."""
        if x.tensor is not None:
            return x.tensor
        shape = x.shape or (const(1),)
        wide = self.emit("Broadcast", [Constant(x.number, x.dtype)], {"shape": shape})
        return wide if x.shape else self.emit("Reshape", [wide], {"shape": ()})

    def made(self, tensor: Tensor, xs: Sequence[Value]) -> Value:
        """The result of a node."""
        return Value(tensor.dtype, tensor.shape, tensor)

    # what is known ----------------------------------------------------------------------------

    def folded(
        self,
        name: str,
        xs: Sequence[Value | Number],
        constants: Sequence[Constant],
        attrs: Mapping[str, Any],
    ) -> Value:
        """Nothing is computed here: the first operand becomes a tensor."""
        at, x = next((i, x) for i, x in enumerate(xs) if isinstance(x, Value))
        first = self.made(self.tensor(x), ())
        return self.op(name, *xs[:at], first, *xs[at + 1 :], **attrs)

    def converted(self, x: Value, dtype: DType) -> Value | None:
        """Equal elements in another element type."""
        if x.dtype == dtype:
            return x
        return self.full(x.shape, x.number, dtype) if x.tensor is None else None

    def kept(self, x: Value, shape: Shape, move: Move | None, *, copied: bool) -> Value | None:
        """Equal elements are so in every order."""
        return replace(x, shape=shape) if x.tensor is None else None


def _converted(number: Number, dtype: DType) -> Number:
    """A number as an element of a dtype: floats of 16 bits are rounded and integers wrap, as PyTorch's are."""
    if dtype.kind == "f":
        if dtype.bits == 32:
            return float(number)
        # By way of float32, as PyTorch does.
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
