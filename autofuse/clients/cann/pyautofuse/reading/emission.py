"""Values of a client's graphs as a FusionGraph is made of them; ops of constants only are computed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.frontends.builder import Emitter, Move, Number, Shape
from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, Tensor

__all__ = ["Emission", "Value"]

Value: TypeAlias = Tensor | Constant


class Emission(Emitter[Value]):
    """Tensors and nodes of a graph in the making; a constant has an element type, and no shape of its own."""

    @property
    def origin(self) -> str:
        """The client's node."""
        return "/" + "".join(c if c.isalnum() or c in "_./-" else "_" for c in self.node)

    def error(self, code: str, text: str, hint: str = "") -> AutofuseError:
        """A diagnostic at the client's node."""
        return AutofuseError.of(code, text, where=Where(node=self.node), hint=hint)

    def shape(self, x: Value) -> Shape:
        """Sizes, outermost first."""
        return x.shape if isinstance(x, Tensor) else ()

    def dtype(self, value: Value) -> DType:
        """The element type of a value; constants have one here."""
        assert value.dtype is not None
        return value.dtype

    def operand(self, x: Value) -> Value:
        """Values are what nodes take."""
        return x

    def tensor(self, x: Value) -> Tensor:
        """The value as a tensor."""
        return x if isinstance(x, Tensor) else self.emit("Broadcast", [x], {"shape": ()})

    def made(self, tensor: Tensor, xs: Sequence[Value]) -> Value:
        """The result of a node."""
        return tensor

    def folded(
        self,
        name: str,
        xs: Sequence[Value | Number],
        constants: Sequence[Constant],
        attrs: Mapping[str, Any],
    ) -> Constant:
        """The number."""
        value, dtype = self.evaluated(name, constants, attrs)
        return Constant(_plain(value, dtype), dtype)

    def converted(self, x: Value, dtype: DType) -> Value | None:
        """Constants are cast as all ops of constants are computed."""
        return x if x.dtype == dtype else None

    def kept(self, x: Value, shape: Shape, move: Move | None, *, copied: bool) -> Value | None:
        """A constant becomes a tensor where it gets a shape."""
        return None if isinstance(x, Tensor) else self.emit("Broadcast", [x], {"shape": shape})

    def constant_as(self, constant: Constant, to: DType) -> Constant:
        """Return a constant converted to another element type.

        Raises:
            AutofuseError: AF1203, that type cannot represent it.
        """
        if constant.dtype == to:
            return constant
        error = self.error(
            "AF1203",
            f"the constant {constant.value} does not fit {to}",
            "Cast the other operand first",
        )
        try:
            # NumPy rounds integers of any length to float64 only.
            exact = float(constant.value) if to.kind == "f" else constant.value
            with np.errstate(all="ignore"):
                value = _plain(np.asarray(exact).astype(numpy_dtype(to)), to)
        except OverflowError:
            raise error from None
        same = value == constant.value or (value != value and constant.value != constant.value)
        if to.kind in "iub" and not same:
            raise error
        return Constant(value, to)


def _plain(value: np.ndarray, dtype: DType) -> int | float | bool:
    """A Python number; of the types of ml_dtypes too."""
    if dtype.kind == "f":
        return float(value)
    return bool(value) if dtype.kind == "b" else int(value)
