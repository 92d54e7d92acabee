"""Values of the names of an ONNX graph while it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from autofuse.frontends.builder import Array, Shape
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import Tensor

__all__ = [
    "Array",
    "Foreign",
    "Known",
    "NeededError",
    "Traced",
    "Value",
    "dtype_of_array",
    "uniform_value",
]


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A tensor of the FusionGraph; ``sources``: inputs of the ONNX graph that its elements depend on."""

    tensor: Tensor
    sources: frozenset[str]

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.tensor.dtype

    @property
    def shape(self) -> Shape:
        """Sizes, outermost first."""
        return self.tensor.shape


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Elements that are known while the graph is read: initialisers, constants, sizes.

    Attributes:
        array: the elements; of dtype object if some are sizes (Expr).
        name: the ONNX tensor, naming the parameter if a kernel has to read it.
        cast: element type of sizes; None: int64.
    """

    array: Array
    name: str = ""
    cast: DType | None = None

    @property
    def dtype(self) -> DType | None:
        """Element type, or None if autofuse does not have it."""
        return self.cast or dtype_of_array(self.array)

    @property
    def shape(self) -> Shape:
        """Sizes, outermost first."""
        return tuple(const(n) for n in self.array.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Foreign:
    """A value of an unsupported type such as ``double`` or ``sequence``; its shape may be known."""

    type_name: str
    shape: Shape
    sources: frozenset[str]

    @property
    def dtype(self) -> None:
        """None: autofuse does not have the type."""
        return None


Value: TypeAlias = "Traced | Known | Foreign"


class NeededError(Exception):
    """An operand must be known at compile time, such as the shape of a Reshape.

    Attributes:
        sources: inputs of the ONNX graph that would have to be known.
    """

    def __init__(self, text: str, sources: frozenset[str]) -> None:
        super().__init__(text)
        self.sources = sources


def dtype_of_array(array: Array) -> DType | None:
    """Return the DType of an array; objects are sizes."""
    return BY_NAME["int64"] if array.dtype == object else BY_NAME.get(array.dtype.name)


def uniform_value(array: Array) -> int | float | bool | None:
    """Return the common value of all elements, or None."""
    if array.size == 0 or array.dtype == object:
        return None
    first = array.reshape(-1)[0] if array.size == 1 else array[(0,) * array.ndim]
    # An array without strides is one element, however large its shape is.
    if array.size > 1 and any(n > 1 and s for n, s in zip(array.shape, array.strides, strict=True)):
        same = (array == first) | (first != first) & (array != array)
        # Zeros of both signs compare equal but behave differently.
        if not same.all() or (array.dtype.kind not in "iub" and _mixed_zeros(array, first)):
            return None
    if array.dtype.kind == "b":
        return bool(first)
    return int(first) if array.dtype.kind in "iu" else float(first)


def _mixed_zeros(array: Array, first: Any) -> bool:
    return bool(
        first == 0 and np.signbit(array.astype(np.float64)).any() != np.signbit(float(first))
    )
