"""Comparison of an output with its reference: the largest errors, and the first wrong element."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.ir.dtypes import DType
from autofuse.machines.twin.oracle.oracle import Reference, largest, ulp_of
from autofuse.machines.twin.oracle.rounding import overflow_unit

__all__ = ["Comparison", "compare", "unwritten"]

Array: TypeAlias = npt.NDArray[Any]

#: With more ill-conditioned elements than both of these, the comparison is inconclusive.
_ILL_COUNT, _ILL_SHARE = 16, 0.02
#: Elements compared at a time.
_PART = 1 << 17


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one output with its reference.

    Attributes:
        output: its name.
        elements: number of elements.
        wrong: number of elements farther from the reference than the tolerance.
        max_abs: largest absolute difference, over finite and well-conditioned elements.
        max_rel: largest difference relative to the reference.
        max_ulp: largest difference in units of the last place of the reference.
        ill_conditioned: elements without a meaningful reference, which were not compared.
        unwritten: elements that the kernel did not write.
        first: index of the first wrong element.
        got: its value.
        want: its reference.
        tolerance: the allowed difference there.
    """

    output: str
    elements: int
    wrong: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    ill_conditioned: int = 0
    unwritten: int = 0
    first: tuple[int, ...] | None = None
    got: str = ""
    want: str = ""
    tolerance: float = 0.0

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return self.wrong == 0 and self.unwritten == 0

    @property
    def inconclusive(self) -> bool:
        """True if so many elements are ill-conditioned that agreement means little."""
        return self.ill_conditioned > max(_ILL_COUNT, _ILL_SHARE * self.elements)

    def to_json(self) -> dict[str, Any]:
        """Return all attributes, as a JSON-ready dict."""
        return {**asdict(self), "first": None if self.first is None else list(self.first)}

    @classmethod
    def from_json(cls, d: dict[str, Any]) -> Comparison:
        """Return the inverse of :meth:`to_json`."""
        return cls(**{**d, "first": None if d["first"] is None else tuple(d["first"])})


def compare(name: str, got: Array, reference: Reference, dtype: DType) -> Comparison:
    """Compare an output with its reference.

    NaN agrees with NaN and an infinity with itself; the sign of zero does not count.  Where the
    exact result is within its tolerance of the largest finite number, that number and an infinity
    agree.
    """
    want = reference.value
    if got.shape != want.shape or got.dtype != want.dtype:
        raise ValueError(f"{name}: {got.dtype}{got.shape} against {want.dtype}{want.shape}")
    if dtype.kind == "b":
        # A bool is one byte, 0 or 1; anything else is not a bool.
        raw, expected = got.view(np.uint8).reshape(want.shape), want.view(np.uint8)
        return _report(name, raw, expected.reshape(want.shape), reference, raw != expected, dtype)
    if dtype.kind in "iu":
        return _report(name, got, want, reference, got != want, dtype)
    with np.errstate(all="ignore"):
        differs = got != want
        if differs.any():
            differs &= ~(np.isnan(got) & np.isnan(want))
        return _report(name, got, want, reference, np.asarray(differs), dtype)


def _report(
    name: str, got: Array, want: Array, reference: Reference, differs: Array, dtype: DType
) -> Comparison:
    found = _Found()
    # Compare a large output in parts, since a comparison allocates many arrays.
    flat = differs.reshape(-1)
    for start in range(0, flat.size, _PART):
        at = np.flatnonzero(flat[start : start + _PART])
        if at.size:
            _look_at(at + start, got.reshape(-1), want.reshape(-1), reference, dtype, found)
    fields: dict[str, Any] = {}
    if found.first is not None:
        i, tolerance = found.first
        place = np.unravel_index(i, want.shape) if want.shape else ()
        fields = {
            "first": tuple(int(x) for x in place),
            "got": str(got.reshape(-1)[i]),
            "want": str(want.reshape(-1)[i]),
            "tolerance": tolerance,
        }
    return Comparison(
        name,
        want.size,
        wrong=found.wrong,
        max_abs=found.max_abs,
        max_rel=found.max_rel,
        max_ulp=found.max_ulp if dtype.kind == "f" else found.max_abs,
        ill_conditioned=reference.ill_conditioned,
        **fields,
    )


@dataclass(slots=True)
class _Found:
    """Totals over the parts of an output compared so far; ``first``: index and tolerance of the first wrong element."""

    wrong: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    first: tuple[int, float] | None = None


def _look_at(
    at: Array, got: Array, want: Array, reference: Reference, dtype: DType, found: _Found
) -> None:
    """Add the elements ``at`` of the flat arrays, which differ."""
    g64, w64 = got[at].astype(np.float64), want[at].astype(np.float64)
    exact = reference.tolerance is None
    tolerance = reference.allowed(got, at)
    difference = np.abs(g64 - w64)
    if dtype.kind in "iu":
        difference = np.maximum(difference, 1.0)  # 64-bit numbers that agree as float64
    wrong = ~(difference <= tolerance) & ~np.isinf(tolerance)
    if dtype.kind == "f" and not exact:
        wrong &= ~_at_overflow(g64, w64, tolerance, dtype)
    counted = np.isfinite(difference) & ~np.isinf(tolerance)
    d, w_counted = difference[counted], w64[counted]
    found.max_abs = float(d.max(initial=found.max_abs))
    nonzero = w_counted != 0
    found.max_rel = float((d[nonzero] / np.abs(w_counted[nonzero])).max(initial=found.max_rel))
    if dtype.kind == "f":
        found.max_ulp = float((d / ulp_of(w_counted, dtype)).max(initial=found.max_ulp))
    bad = np.flatnonzero(wrong)
    if bad.size and found.first is None:
        found.first = int(at[bad[0]]), float(tolerance[bad[0]])
    found.wrong += int(bad.size)


def _at_overflow(got: Array, want: Array, tolerance: Array, dtype: DType) -> Array:
    """Return a mask of elements where one side is infinite and the other, like the exact result, close to the limit."""
    top, unit = largest(dtype), overflow_unit(dtype)
    reaches = np.abs(want) + tolerance >= top
    nearly = (np.abs(got) >= top - min(64 * unit, top / 8)) & (tolerance >= unit / 2)
    same_sign = np.signbit(got) == np.signbit(want)
    return np.asarray(
        same_sign & ((np.isinf(got) & np.isfinite(want) & reaches) | (np.isinf(want) & nearly))
    )


def unwritten(array: Array, pattern: int) -> Array:
    """Return a flat mask of the elements whose bytes all are ``pattern``."""
    raw = array.reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
    return np.asarray(np.all(raw == pattern, axis=1))
