"""Quotients of 64-bit integers by known numbers: the expansion, run call by call in NumPy."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype
from autofuse.implgraph.ops.formulas.long_division import divided
from autofuse.implgraph.ops.formulas.long_integers import apart, mul

INT32 = BY_NAME["int32"]
ENDS = np.iinfo(np.int64)


@dataclass
class Value:
    """Elements, and the number that all of them are, if known."""

    x: np.ndarray
    dtype: DType
    known: int | float | None = None


def _word(x: np.ndarray) -> np.ndarray:
    return x.astype(np.uint64).astype(np.uint32).view(np.int32)


def _cast(x: np.ndarray, to: np.dtype, mode: str) -> np.ndarray:
    """Convert as the chip does: to a float to nearest, from a float with saturation."""
    if x.dtype.kind != "f":
        return x.astype(to)
    rounded = np.rint(x) if mode == "RINT" else np.trunc(x)
    if to.kind == "f":
        return rounded
    whole = rounded.astype(object)
    ends = np.iinfo(to)
    return np.array([min(max(int(v), ends.min), ends.max) for v in whole], to)


ARITHMETIC = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "IntAdds": operator.add,
    "Less": operator.lt,
    "Greater": operator.gt,
    "Equal": operator.eq,
    "MaskAnd": operator.and_,
    "MaskOr": operator.or_,
    "BitOr": operator.or_,
}


class Calls:
    """The interface of expansions; computes at once."""

    def __init__(self) -> None:
        self.count = 0

    def constant(self, value: float, dtype: DType) -> Value:
        return Value(np.array([value]).astype(numpy_dtype(dtype)), dtype, value)

    def constant_of(self, v: Value) -> int | float | None:
        return v.known

    def dtype_of(self, v: Value) -> DType:
        return v.dtype

    def emit(self, op: str, xs: Any, attrs: Any = None, dtype: DType | None = None) -> Value:
        self.count += 1
        d = dtype or xs[-1].dtype
        x = [v.x for v in xs]
        if op in ("Low", "High"):
            bits = x[0].astype(np.int64) >> (32 if op == "High" else 0)
            word = _word(bits)
            known = None if xs[0].known is None else int(word[0])
            return Value(word, INT32, known)
        if op == "Join":
            low, high = np.broadcast_arrays(*(v.astype(np.int64) for v in x))
            return Value((high << 32) | (low & 0xFFFFFFFF), d)
        if op in ("Shl", "Shr", "Sar"):
            n, unsigned = int(x[1][0]), x[0].view(np.uint32)
            done = {"Shl": unsigned << n, "Shr": unsigned >> n, "Sar": x[0] >> n}[op]
            return Value(done.view(np.int32), INT32)
        if op == "Cast":
            return Value(_cast(x[0], numpy_dtype(d), (attrs or {}).get("round", "")), d)
        if op == "Select":
            return Value(np.where(*x), d)
        if op == "Reinterpret":
            return Value(x[0].view(numpy_dtype(d)), d)
        if op == "MaskNot":
            return Value(~x[0], d)
        if op == "Neg":
            return Value(-x[0], d)
        done = ARITHMETIC[op](*x)
        return Value(done if done.dtype == bool else done.astype(numpy_dtype(d)), d)


def numbers(size: int, seed: int) -> np.ndarray:
    """Numbers of every length, multiples of ``size`` with their neighbours, and the ends of the range."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(ENDS.min, ENDS.max, 300, endpoint=True) >> rng.integers(0, 63, 300)
    near = [int(v) // size * size + d for v in drawn for d in (-1, 0, 1, size // 2)]
    ends = [0, 1, -1, ENDS.max, ENDS.max - 1, ENDS.min, ENDS.min + 1]
    return np.clip(np.array([*ends, *near], object), ENDS.min, ENDS.max).astype(np.int64)


def exact(x: int, c: int, floor: bool, remainder: bool) -> int:
    if c == 0:
        return 0
    q = x // c if floor else int(Fraction(x, c))
    value = x - q * c if remainder else q
    return (value - ENDS.min) % (1 << 64) + ENDS.min  # -2^63 / -1 wraps


SIZES = st.integers(0, (1 << 63) - 1) | st.integers(1, 1 << 31) | st.integers(1, 4000)
EDGES = [(1 << k) + d for k in (1, 16, 20, 30, 31, 32, 62) for d in (-1, 0, 1)]


@given(
    SIZES | st.sampled_from(EDGES),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1 << 30),
)
def test_by_a_number(size, negative, floor, remainder, seed):
    c = -size if negative else size
    x, calls = numbers(max(size, 1), seed), Calls()
    dtype = BY_NAME["int64"]
    with np.errstate(all="ignore"):
        got = divided(calls, (Value(x, dtype), calls.constant(c, dtype)), floor, remainder)
    want = [exact(v, c, floor, remainder) for v in x.tolist()]
    assert np.broadcast_to(got.x, x.shape).tolist() == want


@given(st.integers(ENDS.min, ENDS.max) | st.integers(-70000, 70000), st.integers(0, 1 << 30))
def test_product_with_a_number(c, seed):
    x, calls = numbers(1, seed), Calls()
    dtype = BY_NAME["int64"]
    with np.errstate(all="ignore"):
        got = mul(apart(calls, Value(x, dtype)), apart(calls, calls.constant(c, dtype))).joined()
        assert np.array_equal(got.x, x * np.int64(c))


@pytest.mark.parametrize("c", [3, 1000, -86400, 1 << 29])
def test_few_calls(c):
    """A quotient by four estimates on pairs of words takes 300 calls."""
    calls, dtype = Calls(), BY_NAME["int64"]
    divided(calls, (Value(numbers(3, 1), dtype), calls.constant(c, dtype)), True, False)
    assert calls.count < 100
