"""Indices and masks in int32 and float32 on the CPU twin: the same as in 64 bits."""

from __future__ import annotations

import re
from typing import Any

import draws
import numpy as np
import pytest
from twin_graphs import check, graph

from autofuse import api
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel

pytestmark = pytest.mark.twin

OPS = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
}


def run(document: dict[str, Any], **arrays: np.ndarray) -> dict[str, np.ndarray]:
    built = api.build(document, verify_ir=True)
    path = compile_kernel(built.files, "k", checked=True)
    return TwinKernel(path, built.graph, check="all").run(arrays).outputs


def long_word(built: api.BuildResult) -> bool:
    """Whether a kernel has vectors of 64-bit integers."""
    kernel = next(
        text for name, text in built.files.items() if name.endswith(".cpp") and "kernel" in name
    )
    return re.search(r"LocalTensor<u?int64_t>", kernel) is not None


def test_comparisons_of_any_number_with_small_ones() -> None:
    """What the Cast rounds does not pass what it is compared with."""
    edge = (1 << 24) - 1
    numbers = {"none": -100, "most": edge, "least": -edge}
    nodes = [
        (f"{op}_{name}", op, ["x", {"const": value, "dtype": "int64"}], {})
        for op in OPS
        for name, value in numbers.items()
    ]
    document = graph({"x": ("int64", [600])}, nodes, [n[0] for n in nodes])
    rng = draws.rng()
    near = rng.choice([-1, 1], 300) * (1 << 24) + rng.integers(-4, 5, 300)
    far = rng.integers(-(1 << 63), (1 << 63) - 1, 290, dtype=np.int64) >> rng.integers(0, 64, 290)
    ends = np.iinfo(np.int64)
    special = [ends.min, ends.max, ends.min + 1, ends.max - 1, -100, -101, -99, edge, -edge, 0]
    x = np.concatenate([near, far, special]).astype(np.int64)
    got = run(document, x=x)
    for op, exact in OPS.items():
        for name, value in numbers.items():
            np.testing.assert_array_equal(got[f"{op}_{name}"].astype(bool), exact(x, value))


def causal(n: Any, symbols: dict[str, Any] | None = None) -> dict[str, Any]:
    nodes = [
        ("i", "Iota", [], {"shape": [n], "axis": 0, "dtype": "int64"}),
        ("a", "Reshape", ["i"], {"shape": [1, n]}),
        ("b", "Reshape", ["i"], {"shape": [n, 1]}),
        ("d", "Sub", ["a", "b"]),
        ("m", "LessEqual", ["d", {"const": 0, "dtype": "int64"}]),
        ("t", "LogicalAnd", ["m", {"const": True, "dtype": "bool"}]),
        ("y", "Select", ["t", "x", -1e9]),
    ]
    return graph({"x": ("float32", [3, n, n])}, nodes, ["y"], **(symbols or {}))


@pytest.mark.parametrize("size", [1, 37, 128])
def test_the_mask_of_a_causal_softmax(size: int) -> None:
    assert not long_word(check(causal(size)))


def test_the_mask_for_any_size() -> None:
    document = causal("n", {"n": {"min": 1, "max": 4096}})
    assert not long_word(check(document, bindings=[{"n": 1}, {"n": 50}]))


def test_indices_of_more_than_floats_count() -> None:
    """Up to 2^31 of them are int32."""
    nodes = [
        ("i", "Iota", [], {"shape": ["n"], "axis": 0, "dtype": "int64"}),
        ("j", "Sub", [{"const": 40, "dtype": "int64"}, "i"]),
        ("m", "Maximum", ["i", "j"]),
        ("c", "Less", ["m", {"const": 30, "dtype": "int64"}]),
        ("y", "Select", ["c", "x", 0.0]),
    ]
    document = graph({"x": ("float32", ["n"])}, nodes, n={"min": 1, "max": 1 << 31})
    assert not long_word(check(document, bindings=[{"n": 1}, {"n": 50}]))


def test_positions_of_what_is_not_padding() -> None:
    """A running sum of truths, which leaves as int64."""
    nodes = [
        ("m", "NotEqual", ["x", {"const": 1, "dtype": "int64"}]),
        ("c", "Cast", ["m"], {"dtype": "int64"}),
        ("s", "CumSum", ["c"], {"axis": 1}),
        ("p", "Mul", ["s", "c"]),
        ("y", "Add", ["p", {"const": 1, "dtype": "int64"}]),
    ]
    x = draws.rng().integers(0, 3, (5, 70))
    got = run(graph({"x": ("int64", [5, 70])}, nodes), x=x)["y"]
    mask = (x != 1).astype(np.int64)
    np.testing.assert_array_equal(got, np.cumsum(mask, 1) * mask + 1)
    assert got.dtype == np.int64


def test_floats_of_indices() -> None:
    """Windows and distances; no zero is negative."""
    nodes = [
        ("i", "Iota", [], {"shape": [100], "axis": 0, "dtype": "int64", "start": -50}),
        ("q", "FloorDiv", ["i", {"const": 7, "dtype": "int64"}]),
        ("r", "Remainder", ["i", {"const": 7, "dtype": "int64"}]),
        ("n", "Mul", ["r", {"const": -2, "dtype": "int64"}]),
        ("k", "Neg", ["i"]),
        *((f"f{x}", "Cast", [x], {"dtype": "float32"}) for x in "qnk"),
        ("y", "Add", ["fq", "x"]),
        ("z", "Div", ["x", "fn"]),
        ("w", "Div", ["x", "fk"]),
    ]
    got = run(graph({"x": ("float32", [100])}, nodes, ["y", "z", "w"]), x=np.ones(100, np.float32))
    i = np.arange(-50, 50)
    np.testing.assert_array_equal(got["y"], (i // 7 + 1).astype(np.float32))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(
            np.sign(got["z"]), np.sign(1 / (i % 7 * -2).astype(np.float32))
        )
        np.testing.assert_array_equal(np.sign(got["w"]), np.sign(1 / (-i).astype(np.float32)))
    assert got["z"][i % 7 == 0].min() == np.inf
    assert got["w"][50] == np.inf
