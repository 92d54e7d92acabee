"""Values with error bounds, and rounding to dtypes, for the reference of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autofuse.implgraph.ir.dtypes import DType, numpy_dtype

__all__ = [
    "Array",
    "Value",
    "difference",
    "largest",
    "overflow_unit",
    "own_error",
    "round_result",
    "round_to",
    "ulp_of",
    "widen",
    "widened",
]

Array: TypeAlias = npt.NDArray[Any]


@dataclass(slots=True)
class Value:
    """A tensor under evaluation: ``data`` in float64, int64, uint64 or bool, and its ``error``.

    Inputs keep their own type until they are used. For bool, ``error`` is a mask of elements that may flip.
    """

    data: Array
    error: Array | None = None


def difference(a: Array, b: Array) -> Array:
    """Return |a - b|; equal infinities and two NaN differ by 0, a NaN differs from a number by inf."""
    if a.dtype.kind in "iub":
        return np.abs(a.astype(np.float64) - b.astype(np.float64))
    d = np.asarray(a - b)
    d = np.asarray(np.abs(d))
    odd = np.isnan(d)
    if odd.any():
        d[odd] = np.where((np.isnan(a) & np.isnan(b)) | (a == b), 0.0, np.inf)[odd]
    return d


# Digits of the significand, smallest normal number, largest number.
_FLOAT = {
    "float32": (24, 2.0**-126, (2 - 2.0**-23) * 2.0**127),
    "float16": (11, 2.0**-14, 65504.0),
    "bfloat16": (8, 2.0**-126, (2 - 2.0**-7) * 2.0**127),
}


def largest(dtype: DType) -> float:
    """Return the largest finite number of a float dtype."""
    return _FLOAT[dtype.name][2]


def ulp_of(value: Array, dtype: DType) -> Array:
    """Return the distance of neighbouring numbers of a float dtype at each value, or up to twice that."""
    digits, normal, _ = _FLOAT[dtype.name]
    return np.asarray(np.maximum(np.abs(value), normal) * 2.0 ** (1 - digits))


def own_error(
    exact: Array, data: Array, ulp: float, dtype: DType, moved: Array | None = None
) -> Array | None:
    """Return the op's own error: ``ulp`` units, or nothing where it must be exact.

    Args:
        exact: the result before it is rounded.
        data: the result, rounded.
        ulp: of the op; no op rounds by less than half a unit.
        dtype: dtype of the result.
        moved: bound on the change of ``exact`` by the errors of the operands; None: they have none.
    """
    digits, normal, _ = _FLOAT[dtype.name]
    size = np.abs(data)
    own = np.asarray(np.maximum(size, normal))
    own *= max(ulp, 0.5) * 2.0 ** (1 - digits)
    beyond = np.isinf(size)
    if beyond.any():
        slack = np.full(np.count_nonzero(beyond), 0.0 if ulp <= 0.5 else 64 * overflow_unit(dtype))
        if moved is not None:
            slack += 2 * np.broadcast_to(moved, size.shape)[beyond]
        own[beyond] = _overflow_error(np.asarray(exact)[beyond], slack, dtype)
    if ulp <= 0.5:
        # Correctly rounded: an exact result, an infinity from infinities and a NaN carry no error.
        same = exact == data
        if moved is not None:
            # A result that is exact by chance is rounded if the operands move it by half a unit; the bounds are
            # first-order and may be off by a factor of 2, and a unit may be half of ``ulp_of``.
            same &= moved < own / 4
        if same.all():
            return None
        own[same] = 0.0
    else:
        # Approximations may give zero in place of a subnormal number.
        own[size < normal] += normal
    own[np.isnan(data)] = 0.0
    return own


def overflow_unit(dtype: DType) -> float:
    """Return the distance of the two largest numbers of a float dtype, or twice that: the margin of an overflow."""
    return float(ulp_of(np.asarray(largest(dtype)), dtype))


def _overflow_error(exact: Array, slack: Array, dtype: DType) -> Array:
    """Return the error of infinite results: a unit where ``exact`` barely overflows, else nothing."""
    top, unit = largest(dtype), overflow_unit(dtype)
    return np.where(np.abs(exact) - np.minimum(slack, top / 8) <= top, unit, 0.0)


def widen(x: Array) -> Array:
    """Widen to float64, int64 (uint64 if needed) or bool with the same values; wide arrays are returned unchanged."""
    if x.dtype == np.bool_ or x.dtype == np.uint64:
        return x
    if x.dtype.kind in "iu":
        return x.astype(np.int64, copy=False)
    return x.astype(np.float64, copy=False)


def widened(x: Value) -> Value:
    """Return the value with wide data."""
    return Value(widen(x.data), x.error)


def round_to(x: Array, dtype: DType) -> Array:
    """Round a float64 array to a float dtype, ties to even, and return it as float64.

    bfloat16 is rounded through float32, as the chip does when it computes in float32 and casts.
    """
    if dtype.name == "bfloat16":
        return x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    return x.astype(numpy_dtype(dtype)).astype(np.float64)


def round_result(x: Array, dtype: DType) -> Array:
    """Round the result of a reference to the declared dtype, and widen it again.

    A float becomes an integer as on the chip: out of range saturates, NaN becomes 0.  Integers
    wrap.
    """
    if dtype.kind == "f":
        return round_to(x.astype(np.float64, copy=False), dtype)
    if dtype.kind == "b":
        return np.asarray(x.astype(np.bool_, copy=False))
    if x.dtype.kind == "f":
        return _saturate(x, dtype)
    wide = np.uint64 if dtype.name == "uint64" else np.int64
    return np.asarray(x.astype(numpy_dtype(dtype)).astype(wide, copy=False))


def _saturate(x: Array, dtype: DType) -> Array:
    limits = np.iinfo(numpy_dtype(dtype))
    wide = np.uint64 if dtype.name == "uint64" else np.int64
    inside = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    # The limits of 64-bit types are not float64 numbers, so compare with the next power of two.
    high, low = float(limits.max), float(limits.min)
    top, bottom = x >= high, x <= low
    out = np.where(top | bottom, 0.0, inside).astype(wide)
    out[top] = limits.max
    out[bottom] = limits.min
    return np.asarray(out)
