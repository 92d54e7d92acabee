"""An argument of a call as the array that a kernel reads: exactly the elements of its input, or AF5007."""

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

#: Characters of a number in a message.
_LONGEST = 40


def misfit(message: str, hint: str = "") -> AutofuseError:
    """Return an AF5007 error with a message and a hint."""
    return AutofuseError.of("AF5007", message, hint=hint)


def as_array(tensor: Tensor, value: Any) -> Array:
    """The elements of an input: an array as it is, a number as an array of one element.

    Raises:
        AutofuseError: AF5007, it is neither, it has a mask, or the input has no such value.
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
    """The array without its subclass; a masked array is refused, since its mask would be lost.

    Raises:
        AutofuseError: AF5007, it is a masked array.
    """
    if isinstance(value, np.ma.MaskedArray):
        text = f"input {name} is a masked array, and a kernel reads every element"
        raise misfit(text, hint=f"{name}.filled(...) puts a number in place of what is masked")
    return np.asarray(value)


def wrong_dtype(tensor: Tensor, array: Array) -> tuple[Diagnostic, ...]:
    """AF5007, if the elements of an array are not those of the input; a kernel converts nothing."""
    if array.dtype == numpy_dtype(tensor.dtype):
        return ()
    text = f"input {tensor.name} is {array.dtype}, the kernel takes {tensor.dtype}"
    # Of other kinds astype leaves something out, or fails.
    hint = f"{tensor.name}.astype({str(tensor.dtype)!r})" if _is_real(array.dtype) else ""
    return misfit(text, hint=hint).diagnostics


def _is_number(value: Any) -> bool:
    """True for a real number, an infinity and NaN, of Python or NumPy."""
    if isinstance(value, np.generic):
        return _is_real(value.dtype)
    return isinstance(value, numbers.Real | Decimal)


def _is_real(d: np.dtype[Any]) -> bool:
    """True for dtypes whose elements are real numbers."""
    return d.kind in "biuf" or d == numpy_dtype(BY_NAME["bfloat16"])


def _converted(tensor: Tensor, value: Any) -> Any:
    """A number in the dtype of an input: rounded to nearest by a float, by others not changed at all.

    Raises:
        AutofuseError: AF5007, the dtype has no such number.
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
        # Of NaN and infinities as integers, and of numbers that no float64 is.
        raise error from None
    with np.errstate(over="ignore"):
        made = found.astype(np_type)[()]
    if math.isinf(made) and value not in (math.inf, -math.inf):
        raise error
    return made


def _shown(value: Any) -> str:
    """A number in a message; the first digits of a long one."""
    try:
        text = str(value)
    except ValueError:
        return "an integer of more digits than Python writes"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
