"""Compares an output of a chip with NumPy's: the number of differing elements, and the worst of them."""

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

#: Most elements listed, as in a bundle.
LISTED = 16


def compared(
    got: Array, reference: Reference, dtype: DType, inputs: Mapping[str, Array]
) -> dict[str, Any]:
    """Return the fields of a bundle row that describe the comparison of an output.

    Args:
        got: the chip's output.
        reference: NumPy's output with the tolerance per element.
        dtype: dtype of the output.
        inputs: inputs of the output's shape are listed beside elements that differ.
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
    """Return a mask of elements with different bits; all NaN are equal."""
    if dtype.kind == "b":
        return np.asarray(got.view(np.uint8) != want.view(np.uint8)).reshape(want.shape)
    if dtype.kind in "iu":
        return np.asarray(got != want)
    a, b = _wide(got), _wide(want)
    with np.errstate(all="ignore"):
        other = (a != b) & ~(np.isnan(a) & np.isnan(b))
        return np.asarray(other | ((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))))


def _wide(x: Array) -> Array:
    """Widen to float64, which represents all 16-bit and 32-bit floats."""
    return x.astype(np.float64)


def _farthest(at: Array, got: Array, reference: Reference) -> list[int]:
    """Return the differing elements with the largest errors relative to their tolerance."""
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
    """Return an element as text that can be read back, since JSON has no NaN or infinity."""
    if isinstance(value, np.bool_ | np.integer):
        return str(int(value))
    return repr(float(value))
