"""Converts an argument of a call to the array that a kernel reads, exactly, or raises AF5007."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import Tensor

__all__ = ["as_array", "misfit", "plain_array", "wrong_dtype"]

Array: TypeAlias = npt.NDArray[Any]

#: Most characters of a number in a message.
_LONGEST = 40


def misfit(message: str, hint: str = "") -> AutofuseError:
    """Return an AF5007 error with a message and a hint."""
    return AutofuseError.of("AF5007", message, hint=hint)


def as_array(tensor: Tensor, value: Any) -> Array:
    """Return an input as an array: an array unchanged, a number as an array of one element.

    Raises:
        AutofuseError: AF5007, it is neither, it is masked, or the input's dtype lacks the value.
    """
    if isinstance(value, np.ndarray):
        array = plain_array(tensor.name, value)
        if tensor.scalar and array.size == 1:
            return array.reshape(tuple(1 for _ in tensor.shape))
        return array
    if not _is_number(value):
        text = f"input {tensor.name} must be a NumPy array, not {type(value).__name__}"
        raise misfit(text)
    if tensor.shape and not tensor.scalar:
        raise misfit(f"input {tensor.name} is a tensor of rank {len(tensor.shape)}, not a number")
    return np.full(tuple(1 for _ in tensor.shape), _converted(tensor, value))


def plain_array(name: str, value: Array) -> Array:
    """Return the array without its subclass; a masked array is refused, since its mask would be lost.

    Raises:
        AutofuseError: AF5007, it is a masked array.
    """
    if isinstance(value, np.ma.MaskedArray):
        text = f"input {name} is a masked array, and a kernel reads every element"
        raise misfit(text, hint=f"{name}.filled(...) replaces masked elements by a number")
    return np.asarray(value)


def wrong_dtype(tensor: Tensor, array: Array) -> tuple[Diagnostic, ...]:
    """Return AF5007 if the dtype of an array is not the input's, since a kernel converts nothing."""
    if array.dtype == numpy_dtype(tensor.dtype):
        return ()
    text = f"input {tensor.name} is {array.dtype}, the kernel takes {tensor.dtype}"
    # astype would lose information of other kinds, or fail.
    hint = f"{tensor.name}.astype({str(tensor.dtype)!r})" if _is_real(array.dtype) else ""
    return misfit(text, hint=hint).diagnostics


def _is_number(value: Any) -> bool:
    """Return True for a real number, an infinity or NaN, of Python or NumPy."""
    if isinstance(value, np.generic):
        return _is_real(value.dtype)
    return isinstance(value, numbers.Real | Decimal)


def _is_real(d: np.dtype[Any]) -> bool:
    """Return True for dtypes whose elements are real numbers."""
    return d.kind in "biuf" or d == numpy_dtype(BY_NAME["bfloat16"])


def _converted(tensor: Tensor, value: Any) -> Any:
    """Convert a number to the dtype of an input: floats round to nearest, other types must hold it exactly.

    Raises:
        AutofuseError: AF5007, the dtype cannot hold the number.
    """
    np_type, kind = numpy_dtype(tensor.dtype), tensor.dtype.kind
    error = misfit(f"input {tensor.name}: {_shown(value)} is not a value of {tensor.dtype}")
    try:
        if kind != "f":
            limits = (0, 1) if kind == "b" else (np.iinfo(np_type).min, np.iinfo(np_type).max)
            whole = int(value)
            if whole != value or not limits[0] <= whole <= limits[1]:
                raise error
            return np_type.type(whole)
        found = np.asarray(value)
        found = np.asarray(float(value)) if found.dtype.kind == "O" else found
    except (ArithmeticError, ValueError):
        # NaN and infinities as integers, and numbers beyond float64.
        raise error from None
    with np.errstate(over="ignore"):
        made = found.astype(np_type)[()]
    if math.isinf(made) and value not in (math.inf, -math.inf):
        raise error
    return made


def _shown(value: Any) -> str:
    """Return a number for a message; of a long one the first digits."""
    try:
        text = str(value)
    except ValueError:
        return "an integer with more digits than Python prints"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
