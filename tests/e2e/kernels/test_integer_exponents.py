"""Powers of floats with integer exponents that the type of the base does not hold: every bit of an exponent counts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from extras import needs

import autofuse

EXPONENTS = [0, 1, 2, 3, -1, -2, 255, 257, 2049, 16777215, 16777216, 16777217, -16777217]
LARGE = [2**31 - 1, -(2**31), 2**31 + 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
BASES = [-1.0, 1.0, -0.0, 0.0, np.inf, -np.inf, np.nan, -2.0, 0.5, 1.0000001, -0.9999999, 1.000003]
BASE_TYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def power(base: str, exponent: str) -> dict[str, Any]:
    """A graph of one power, all bases with all exponents."""
    return {
        "schema": "autofuse.graph/1",
        "name": "powers",
        "symbols": {"n": {"min": 0, "max": 1000}, "m": {"min": 0, "max": 1000}},
        "inputs": [
            {"name": "x", "dtype": base, "shape": ["n", 1]},
            {"name": "k", "dtype": exponent, "shape": ["m"]},
        ],
        "nodes": [{"name": "p", "op": "Pow", "inputs": ["x", "k"], "outputs": ["y"]}],
        "outputs": ["y"],
    }


def exact(x: np.ndarray, k: list[int]) -> np.ndarray:
    """The powers in float64, with signs of Python's integers."""
    with np.errstate(all="ignore"):
        size = np.power(np.abs(x.astype(np.float64)), np.array(k, np.float64))
    odd = np.array([e % 2 == 1 for e in k])
    return np.where(odd & np.signbit(x), -size, size)


def agree(got: np.ndarray, want: np.ndarray) -> None:
    """Assert that numbers agree within 64 ulp and in sign, also of zeros and infinities."""
    with np.errstate(all="ignore"):
        near = want.astype(got.dtype).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])
    finite = number & np.isfinite(near) & (np.abs(near) > 1e-37)
    unit = {2: 2.0**-7, 4: 2.0**-23}[got.itemsize]
    error = np.abs(got[finite].astype(np.float64) - near[finite]) / np.abs(near[finite])
    assert error.max(initial=0.0) <= 64 * unit
    np.testing.assert_array_equal(np.isinf(got)[number], np.isinf(near)[number])


@pytest.mark.parametrize(
    ("base", "target"),
    [
        *(("float32", t) for t in ("ascend910b1", "ascend950pr", "cpu")),
        pytest.param("float32", "nvidia-h100", marks=needs("torch", "triton")),
        ("float16", "cpu"),
        ("bfloat16", "ascend910b1"),
    ],
)
def test_the_last_bit_of_an_exponent_gives_the_sign(base: str, target: str) -> None:
    for exponent in ("int64",) if target == "ascend950pr" else ("int32", "int64"):
        known = [*EXPONENTS, *(e for e in LARGE if exponent == "int64" or -(2**31) <= e < 2**31)]
        x, k = np.array(BASES).astype(BASE_TYPES[base])[:, None], np.array(known, exponent)
        made = autofuse.load(autofuse.build(power(base, exponent), target=target))
        agree(made(x, k), exact(x, known))


@pytest.mark.parametrize("exponent", ["int8", "uint16", "uint32", "uint64"])
def test_other_types_of_exponents(exponent: str) -> None:
    limits = np.iinfo(exponent)
    known = [e for e in [*EXPONENTS, *LARGE, limits.max] if limits.min <= e <= limits.max]
    x = np.array(BASES).astype(np.float16)[:, None]
    made = autofuse.load(autofuse.build(power("float16", exponent), target="cpu"))
    agree(made(x, np.array(known, exponent)), exact(x, known))


@pytest.mark.parametrize(
    ("base", "exponent", "target"),
    [
        ("float32", {"const": 2**40 + 1, "dtype": "int64"}, "cpu"),
        ("float32", {"const": -16777217}, "cpu"),
        ("float32", {"const": 16777217}, "ascend910b1"),
        ("float16", {"const": 2049.0}, "ascend910b1"),
        ("bfloat16", {"const": 257}, "cpu"),
    ],
)
def test_a_number_as_exponent(base: str, exponent: dict[str, Any], target: str) -> None:
    """Also a number without a type, which takes that of the base only where it has the number."""
    graph = power(base, "int32")
    graph["inputs"] = [{"name": "x", "dtype": base, "shape": ["n", 1]}]
    graph["nodes"][0]["inputs"] = ["x", exponent]
    graph["symbols"] = {"n": {"min": 0, "max": 1000}}
    x = np.array(BASES).astype(BASE_TYPES[base])[:, None]
    made = autofuse.load(autofuse.build(graph, target=target))
    agree(made(x), exact(x, [int(exponent["const"])]))
