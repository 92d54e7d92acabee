"""An output of a chip beside NumPy's: how many elements differ, and what the farthest of them are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.ir.dtypes import DType
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import Reference

__all__ = ["LISTED", "compared"]

Array: TypeAlias = npt.NDArray[Any]

#: Elements that are listed: what a bundle takes.
LISTED = 16


def compared(
    got: Array, reference: Reference, dtype: DType, inputs: Mapping[str, Array]
) -> dict[str, Any]:
    """The fields of a row of a bundle that say how an output compares.

    Args:
        got: what the chip has.
        reference: what NumPy has, and how far an element may be from that.
        dtype: of the output.
        inputs: whose elements are listed beside those that differ, where they have the shape of the output.
    """
    want = reference.value
    found = compare("y", got, reference, dtype)
    at = np.flatnonzero(_differs(got, want, dtype).reshape(-1))
    state = "differs" if found.wrong else "within" if at.size else "equal"
    beside = [x for x in inputs.values() if x.shape == want.shape]
    return {
        "state": state,
        "elements": int(want.size),
        "differing": int(at.size),
        "wrong": min(found.wrong, int(at.size)),
        "differences": [
            {
                "at": [int(k) for k in np.unravel_index(i, want.shape)] if want.shape else [],
                "inputs": [_text(x.reshape(-1)[i]) for x in beside],
                "got": _text(got.reshape(-1)[i]),
                "want": _text(want.reshape(-1)[i]),
            }
            for i in _farthest(at, got, reference)
        ],
    }


def _differs(got: Array, want: Array, dtype: DType) -> Array:
    """Elements with other bits; one NaN is as good as another."""
    if dtype.kind == "b":
        return np.asarray(got.view(np.uint8) != want.view(np.uint8)).reshape(want.shape)
    if dtype.kind in "iu":
        return np.asarray(got != want)
    a, b = _wide(got), _wide(want)
    with np.errstate(all="ignore"):
        other = (a != b) & ~(np.isnan(a) & np.isnan(b))
        return np.asarray(other | ((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))))


def _wide(x: Array) -> Array:
    """In float64, which has all floats of 16 and 32 bits."""
    return x.astype(np.float64)


def _farthest(at: Array, got: Array, reference: Reference) -> list[int]:
    """Of the elements that differ those farthest off, by what is allowed there."""
    if not at.size:
        return []
    with np.errstate(all="ignore"):
        off = np.abs(_wide(got.reshape(-1)[at]) - _wide(reference.value.reshape(-1)[at]))
        if reference.tolerance is not None:
            off = off / np.maximum(reference.tolerance.reshape(-1)[at], 1e-300)
    off[~np.isfinite(off)] = np.inf
    order = np.argsort(-off, kind="stable")[:LISTED]
    return [int(i) for i in at[order]]


def _text(value: Any) -> str:
    """An element so that it can be read back: no NaN and no infinity is a number of JSON."""
    if isinstance(value, np.bool_ | np.integer):
        return str(int(value))
    return repr(float(value))
