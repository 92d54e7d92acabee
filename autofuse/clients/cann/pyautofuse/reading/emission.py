"""Construction of a FusionGraph from a client's values; ops on constants are folded immediately."""

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
    """Tensors and nodes of a graph under construction; a constant has an element type but no shape."""

    @property
    def origin(self) -> str:
        """Name of the client's node."""
        return "/" + "".join(c if c.isalnum() or c in "_./-" else "_" for c in self.node)

    def error(self, code: str, text: str, hint: str = "") -> AutofuseError:
        """Return an error at the client's node."""
        return AutofuseError.of(code, text, where=Where(node=self.node), hint=hint)

    def shape(self, x: Value) -> Shape:
        """Return the sizes, outermost first."""
        return x.shape if isinstance(x, Tensor) else ()

    def dtype(self, value: Value) -> DType:
        """Return the element type of a value; constants have one here."""
        assert value.dtype is not None
        return value.dtype

    def operand(self, x: Value) -> Value:
        """Return the operand for a value: the value itself."""
        return x

    def tensor(self, x: Value) -> Tensor:
        """Return the value as a tensor."""
        return x if isinstance(x, Tensor) else self.emit("Broadcast", [x], {"shape": ()})

    def made(self, tensor: Tensor, xs: Sequence[Value]) -> Value:
        """Return the result of a node."""
        return tensor

    def folded(
        self,
        name: str,
        xs: Sequence[Value | Number],
        constants: Sequence[Constant],
        attrs: Mapping[str, Any],
    ) -> Constant:
        """Return the folded constant."""
        value, dtype = self.evaluated(name, constants, attrs)
        return Constant(_plain(value, dtype), dtype)

    def converted(self, x: Value, dtype: DType) -> Value | None:
        """Fold the cast of a constant."""
        return x if x.dtype == dtype else None

    def kept(self, x: Value, shape: Shape, move: Move | None, *, copied: bool) -> Value | None:
        """Turn a constant into a tensor when it gets a shape."""
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
            # NumPy rounds arbitrarily long integers only to float64.
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
    """Return a Python number, also for the types of ml_dtypes."""
    if dtype.kind == "f":
        return float(value)
    return bool(value) if dtype.kind == "b" else int(value)
