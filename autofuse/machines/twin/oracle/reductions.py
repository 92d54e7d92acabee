"""Error bounds of reductions, of ops composed of them, and of ops that only move elements.

A sum of n numbers may be evaluated in any order: a kernel adds pairwise, or adds rows one after another and then sums
their sums, in float32 where the dtype is narrower, and rounds to the dtype once:

    error(sum x) = sum e_i + d(n) u sum |x_i| + the rounding to the dtype

``d(n) = log2(n) + 6 + sqrt(n) / 2`` (``OpDef.addends``) lies between the bound of pairwise sums and that of sequential
sums, whose roundings go either way. A sequential sum of equal numbers, whose roundings all go one way, exceeds it. If
every partial sum is exactly representable in any order, there is no error. The largest of n numbers has no error of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.rows.reductions import neutral, reduce_array, reduced_axes
from autofuse.machines.twin.oracle.rounding import (
    Array,
    Value,
    largest,
    own_error,
    round_result,
    ulp_of,
)

__all__ = ["composed", "moved", "reduced"]

F32 = BY_NAME["float32"]
#: Rounding error of one float32 operation, relative.
UNIT = 2.0**-24
#: Scales on which exactly summable numbers are detected.
_SCALES = (1.0, 2.0**12)


def moved(row: OpDef, attrs: Mapping[str, Any], operands: Sequence[Value], dtype: DType) -> Value:
    """Evaluate an op whose results are elements of its operands: their errors move along."""
    assert row.reference is not None
    data = round_result(row.reference([o.data for o in operands], attrs), dtype)
    if not operands or all(o.error is None for o in operands):
        return Value(data)
    fill = {**attrs, "value": 0.0} if "value" in attrs else attrs
    errors = [np.zeros_like(o.data) if o.error is None else o.error for o in operands]
    unsure: Array | None = None
    if row.compute_type == "gather":
        errors[1] = operands[1].data
        unsure = _other_places(row, attrs, operands)
    if dtype.kind != "b":
        errors = [e.astype(np.float64) if e.dtype.kind == "b" else e for e in errors]
    error = np.asarray(row.reference(errors, fill))
    if unsure is not None:
        error = np.where(unsure, True if dtype.kind == "b" else np.inf, error)
    return Value(data, error)


def _other_places(row: OpDef, attrs: Mapping[str, Any], operands: Sequence[Value]) -> Array | None:
    """Return a mask of elements that may have any value because their index is uncertain; None if indices are exact."""
    x, index = operands
    if index.error is None:
        return None
    wrong = np.asarray(index.error > 0)
    if row.name == "Gather":
        axis = attrs["axis"] % x.data.ndim
        after = x.data.ndim - axis - 1
        wrong = wrong.reshape((1,) * axis + wrong.shape + (1,) * after)
    return wrong


def reduced(
    row: OpDef, attrs: Mapping[str, Any], x: Value, dtype: DType, *, running: bool = False
) -> Value:
    """Evaluate ReduceSum, ReduceMax, ReduceMin, ReduceProd or CumSum.

    ``running``: the operand depends on an earlier reduction, and may be corrected as that proceeds.
    """
    if row.name == "CumSum":
        return _running(row, attrs, x, dtype)
    axes = reduced_axes(attrs.get("axes", ()), x.data.ndim)
    exact = reduce_array(row.name, x.data, axes, dtype)
    data = round_result(exact, dtype)
    error: Array | None
    if row.name in ("ReduceMax", "ReduceMin"):
        error = _extreme_error(row.name, x, axes, dtype)
    elif dtype.kind != "f":
        error = None if x.error is None else np.sum(x.error, axis=axes, keepdims=True)
    elif row.name == "ReduceSum":
        error = _sum_error(row, x, axes, exact, data, dtype, running=running)
    else:
        error = _product_error(row, x, axes, exact, data, dtype)
    if not attrs.get("keepdims", False):
        data = data.squeeze(axes)
        error = None if error is None else error.squeeze(axes)
    return Value(data, error)


def _count(x: Array, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[a] for a in axes], dtype=np.int64))


def _grown(row: OpDef, n: int) -> float:
    """Return the relative error of an op for n operands per result."""
    assert row.addends is not None
    return row.addends(n) * UNIT


def _sum_error(
    row: OpDef,
    x: Value,
    axes: tuple[int, ...],
    exact: Array,
    data: Array,
    dtype: DType,
    *,
    running: bool = False,
) -> Array | None:
    finite = np.where(np.isfinite(x.data), x.data, 0.0)
    size = np.abs(finite)
    total = size.sum(axis=axes, keepdims=True)
    error = np.asarray(_grown(row, _count(x.data, axes)) * total)
    for scale in () if running else _SCALES:
        whole = (finite * scale == np.rint(finite * scale)).all(axis=axes, keepdims=True)
        error[whole & (total * scale <= 2.0**24)] = 0.0
    # Partial sums may overflow, depending on their order.
    error[total > largest(F32) * (1 - 2.0**-10)] = np.inf
    return _summed(x, axes, error, exact, data, dtype)


def _summed(
    x: Value, axes: tuple[int, ...], error: Array, exact: Array, data: Array, dtype: DType
) -> Array | None:
    """Return the bound of a sum, with the errors of its addends and the final rounding."""
    if x.error is not None:
        error = np.asarray(error + np.sum(x.error, axis=axes, keepdims=True))
    own = own_error(exact, data, 0.5, dtype, error)
    if own is not None:
        error = np.asarray(error + own)
    error[~np.isfinite(exact) & np.isfinite(error)] = 0.0
    return error if error.any() else None


def _product_error(
    row: OpDef, x: Value, axes: tuple[int, ...], exact: Array, data: Array, dtype: DType
) -> Array | None:
    size = np.abs(x.data)
    top = np.prod(np.maximum(size, 1.0), axis=axes, keepdims=True)
    bottom = np.prod(np.where(size == 0, 1.0, np.minimum(size, 1.0)), axis=axes, keepdims=True)
    error = np.asarray(_grown(row, _count(x.data, axes)) * np.abs(exact))
    whole = (x.data == np.rint(x.data)).all(axis=axes, keepdims=True)
    error[whole & (top <= 2.0**24)] = 0.0
    error[(top > largest(F32)) | (bottom < 2.0**-126)] = np.inf
    if x.error is not None:
        grown = np.prod(size + x.error, axis=axes, keepdims=True)
        error = np.asarray(error + (grown - np.prod(size, axis=axes, keepdims=True)))
    own = own_error(exact, data, 0.5, dtype, error)
    if own is not None:
        error = np.asarray(error + own)
    error[np.isnan(error) & np.isnan(exact)] = 0.0
    return error if error.any() else None


def _extreme_error(op: str, x: Value, axes: tuple[int, ...], dtype: DType) -> Array | None:
    """Return the distance between the extreme of all lower ends and that of all upper ends."""
    if x.error is None or _count(x.data, axes) == 0:
        return None
    if dtype.kind == "b":
        raise TypeError("a bool has no largest value")
    error = np.where(np.isnan(x.data), 0.0, x.error)
    low = reduce_array(op, np.asarray(x.data - error), axes, dtype)
    high = reduce_array(op, np.asarray(x.data + error), axes, dtype)
    width = np.asarray(high - low, dtype=np.float64)
    return np.where(np.isnan(width), 0.0, width)


def _running(row: OpDef, attrs: Mapping[str, Any], x: Value, dtype: DType) -> Value:
    """Return the bound of the running sum at every element, from the addends up to there."""
    assert row.reference is not None
    exact = row.reference([x.data], attrs)
    data = round_result(exact, dtype)
    if dtype.kind != "f":
        return Value(data, None if x.error is None else row.reference([x.error], attrs))
    axis = reduced_axes((attrs["axis"],), x.data.ndim)
    finite = np.where(np.isfinite(x.data), x.data, 0.0)
    total = np.asarray(row.reference([np.abs(finite)], attrs))
    error = np.asarray(_grown(row, _count(x.data, axis)) * total)
    for scale in _SCALES:
        whole = (finite * scale == np.rint(finite * scale)).all(axis=axis, keepdims=True)
        error[np.broadcast_to(whole, error.shape) & (total * scale <= 2.0**24)] = 0.0
    # Partial sums may overflow, depending on their order.
    error[total > largest(F32) * (1 - 2.0**-10)] = np.inf
    if x.error is not None:
        error = error + row.reference([x.error], attrs)
    own = own_error(exact, data, 0.5, dtype, error)
    error = error if own is None else error + own
    error[~np.isfinite(exact) & np.isfinite(error)] = 0.0
    return Value(data, error if error.any() else None)


# compositions ---------------------------------------------------------------------------------


def composed(row: OpDef, attrs: Mapping[str, Any], x: Value, dtype: DType) -> Value:
    """Evaluate ops that ``implgraph/rewrites/decompose.py`` decomposes; bounds of the steps are in closed form."""
    return _COMPOSED[row.name](row, attrs, x, dtype)


def _mean(row: OpDef, attrs: Mapping[str, Any], x: Value, dtype: DType) -> Value:
    axes = reduced_axes(attrs.get("axes", ()), x.data.ndim)
    n = _count(x.data, axes)
    exact = np.asarray(np.sum(x.data, axis=axes, keepdims=True) / np.float64(n))
    data = round_result(exact, dtype)
    total = np.sum(np.abs(np.where(np.isfinite(x.data), x.data, 0.0)), axis=axes, keepdims=True)
    error = np.asarray(_grown(row, n) * total / max(n, 1))
    error[total > largest(F32) * (1 - 2.0**-10)] = np.inf
    if x.error is not None:
        error = error + np.sum(x.error, axis=axes, keepdims=True) / max(n, 1)
    error = np.asarray(error + row.ulp * ulp_of(data, dtype))
    error[~np.isfinite(exact) & np.isfinite(error)] = 0.0
    if not attrs.get("keepdims", False):
        data, error = data.squeeze(axes), error.squeeze(axes)
    return Value(data, error)


def _truth(row: OpDef, attrs: Mapping[str, Any], x: Value, dtype: DType) -> Value:
    assert row.reference is not None
    data = row.reference([x.data], attrs)
    if x.error is None:
        return Value(data)
    if x.data.dtype != np.bool_:
        x = Value(x.data != 0, np.asarray((x.error > 0) & (np.abs(x.data) <= x.error)))
    assert x.error is not None
    least = row.reference([x.data & ~x.error], attrs)
    most = row.reference([x.data | x.error], attrs)
    return Value(data, np.asarray(least != most))


def _arg(row: OpDef, attrs: Mapping[str, Any], x: Value, dtype: DType) -> Value:
    """Evaluate ArgMax or ArgMin: an index is exact, unless several elements could be the extreme one."""
    assert row.reference is not None
    data = round_result(row.reference([x.data], attrs), dtype)
    axis = reduced_axes((attrs["axis"],), x.data.ndim)[0]
    if x.error is None or x.data.shape[axis] == 0:
        return Value(data)
    # An unbounded element may be any number, also NaN, which wins.
    endless = ~np.isfinite(x.error)
    low = np.where(endless, -np.inf, x.data - x.error)
    high = np.where(endless, np.inf, x.data + x.error)
    if row.name == "ArgMax":
        near = high >= np.nanmax(low, axis=axis, keepdims=True)
    else:
        near = low <= np.nanmin(high, axis=axis, keepdims=True)
    nan = np.isnan(low)
    near = np.where(nan.any(axis=axis, keepdims=True), nan | endless, near)
    several = (near & (x.error > 0)).any(axis=axis, keepdims=True) | (near & endless).any(
        axis=axis, keepdims=True
    )
    several &= np.count_nonzero(near, axis=axis, keepdims=True) > 1
    # The index of any of these elements, which may be far apart.
    error = several * float(x.data.shape[axis])
    return Value(data, error if attrs.get("keepdims", False) else error.squeeze(axis))


def _softmax(row: OpDef, attrs: Mapping[str, Any], x: Value, dtype: DType) -> Value:
    assert row.reference is not None
    exact = row.reference([x.data], attrs)
    data = round_result(exact, dtype)
    axis = reduced_axes((attrs["axis"],), x.data.ndim)[0]
    top = np.max(x.data, axis=axis, keepdims=True, initial=neutral("ReduceMax", F32))
    shifted = np.abs(np.asarray(x.data - top))
    shifted = np.where(np.isfinite(shifted), shifted, 0.0)
    # The error of an exponent is a relative error of the exponential; the sum's error is a mean of these.
    given = np.zeros(x.data.shape) if x.error is None else x.error
    bent = given + np.max(given, axis=axis, keepdims=True, initial=0.0)
    each = bent + UNIT * shifted
    n = max(x.data.shape[axis], 1)
    e = np.exp(np.where(np.isfinite(x.data), np.asarray(x.data - top), -np.inf))
    share = np.asarray(e / np.maximum(e.sum(axis=axis, keepdims=True), 1e-300))
    mean = np.sum(share * each, axis=axis, keepdims=True)
    relative = each + mean + _grown(row, n)
    if row.name == "Softmax":
        error = np.abs(exact) * np.expm1(np.minimum(relative, 700.0)) + 2.0**-125
    else:
        error = relative + 4 * UNIT * np.abs(exact)
    error = np.asarray(error + row.ulp * ulp_of(data, dtype))
    error[~np.isfinite(exact) & ~np.isnan(error)] = 0.0
    error[np.isnan(exact)] = 0.0
    return Value(data, error)


_COMPOSED: Mapping[str, Callable[[OpDef, Mapping[str, Any], Value, DType], Value]] = {
    "ReduceMean": _mean,
    "ReduceAny": _truth,
    "ReduceAll": _truth,
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
