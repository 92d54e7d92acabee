"""Numbers at the ends of every dtype, and what NumPy makes of them: casts and places of extremes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["FLOATS", "INTEGERS", "converted", "edges", "place_of", "rows_with_edges", "same"]

#: Dtype -> digits, the least subnormal number and the largest finite one, as the formats define them.
FLOATS: dict[str, tuple[int, float, float]] = {
    "float32": (24, 2.0**-149, (2 - 2.0**-23) * 2.0**127),
    "float16": (11, 2.0**-24, 65504.0),
    "bfloat16": (8, 2.0**-133, (2 - 2.0**-7) * 2.0**127),
}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def kind_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def edges(name: str) -> Any:
    """Every value of a dtype of up to 16 bits; of a longer one those near 0, near powers of 2 and at the ends."""
    kind = kind_of(name)
    if name == "bool":
        return np.array([False, True])
    if kind.itemsize <= 2:
        return np.arange(1 << 8 * kind.itemsize).astype(f"u{kind.itemsize}").view(kind)
    if name == "float32":
        powers = 2.0 ** np.arange(-149, 128)
        ends = [0.0, np.inf, np.nan, FLOATS[name][2], 1e30, 1e-30, 65504.0, 65519.0, 65520.0]
        some = np.concatenate([powers, powers * 1.5, powers * (1 + 2.0**-12), ends])
        with np.errstate(all="ignore"):
            return np.concatenate([some, -some]).astype(np.float32)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    powers = [s * (1 << p) + d for p in range(64) for s in (1, -1) for d in (-1, 0, 1)]
    return np.array([v for v in powers if low <= v <= high] + [low, high], kind)


def converted(x: Any, to: str) -> Any:
    """A cast: floats round to even, to an integer towards 0 with what is outside at the nearest end and NaN 0."""
    kind = kind_of(to)
    if to == "bool":
        return x != 0
    is_float = x.dtype == kind_of("bfloat16") or x.dtype.kind == "f"
    with np.errstate(all="ignore"):
        if not is_float or to in FLOATS:
            return (x.astype(np.float32) if x.dtype == kind_of("bfloat16") else x).astype(kind)
    limits = np.iinfo(kind)
    whole = [0 if np.isnan(v) else v for v in x.astype(np.float64).tolist()]
    inside = [limits.max if v > limits.max else limits.min if v < limits.min else v for v in whole]
    return np.array([int(v) for v in inside], kind)


def same(got: Any, want: Any) -> Any:
    """Elements with equal bits, those of any NaN as of one: a zero has its sign."""
    assert got.dtype == want.dtype
    unsigned = f"u{want.dtype.itemsize}"
    with np.errstate(all="ignore"):
        both = (got != got) & (want != want)
    return both | (got.view(unsigned) == want.view(unsigned))


def rows_with_edges(name: str, columns: int, seed: int = 0) -> Any:
    """Rows of a float dtype with its edges first, in the middle and last, several of a kind, and nothing else."""
    digits, least, top = FLOATS[name]
    rng = np.random.default_rng(seed)
    middle = columns // 2 + 1
    rows: list[Any] = []

    def row(**at: float) -> None:
        line = rng.integers(-16, 17, columns) / 8
        for where, v in at.items():
            line[{"first": 0, "middle": middle, "next": middle + 1, "last": columns - 1}[where]] = v
        rows.append(line)

    for v in (np.nan, np.inf, -np.inf, top, -top):
        row(first=v), row(middle=v), row(last=v), row(middle=v, last=v)
    row(middle=np.nan, last=np.inf), row(first=-np.inf, middle=np.nan, last=np.inf)
    row(first=np.inf, last=np.nan), row(first=top, middle=np.inf), row(first=-top, last=-np.inf)
    # One unit of the last place apart.
    row(first=top * (1 - 2.0 ** (1 - digits)), middle=top)
    row(first=-top * (1 - 2.0 ** (1 - digits)), last=-top)
    for v in (np.nan, np.inf, -np.inf, 0.0, -0.0, top, -top, least, -least):
        rows.append(np.full(columns, v))  # noqa: PERF401
    for a, b in ((0.0, -0.0), (-0.0, 0.0), (-np.inf, np.nan), (np.inf, np.nan), (0.0, least)):
        for x, y in ((a, b), (b, a)):
            line = np.full(columns, x)
            line[middle:] = y
            rows.append(line)
    return np.array(rows).astype(np.float32).astype(kind_of(name))


def place_of(op: str, x: Any, axis: int) -> Any:
    """The first NaN, or else the first of the largest or least, found number by number in float64."""
    wide = np.moveaxis(x.astype(np.float64), axis, -1)
    found = np.zeros(wide.shape[:-1], np.int64)
    for at in np.ndindex(found.shape):
        line = wide[at].tolist()
        best = 0
        for i, v in enumerate(line):
            beats = v > line[best] if op == "ArgMax" else v < line[best]
            if np.isnan(v) or beats:
                best = i
            if np.isnan(v):
                break
        found[at] = best
    return found
