"""Running sums that a graph writes with Slices and a Concat are one kernel, which computes the same."""

from __future__ import annotations

from typing import Any

import draws
import numpy as np
import pytest
from triton_checks import TARGET
from triton_graphs import graph

from autofuse import api
from autofuse.machines.gpu.kernel import TritonKernel

pytestmark = pytest.mark.triton

ROWS, COLS = 5, 37


def turned(cols: Any = COLS, axis: int = 1, **attrs: Any) -> dict[str, Any]:
    """flip, CumSum, flip."""
    flip = {"starts": [0, 0], "shape": [ROWS, cols], "steps": [1, 1]}
    extent = (ROWS, cols)[axis]
    flip["starts"][axis] = extent - 1 if isinstance(extent, int) else f"{extent} - 1"
    flip["steps"][axis] = -1
    nodes = [("Slice", ["x0"], flip), ("CumSum", ["t0"], {"axis": axis, **attrs})]
    return graph("turned", [("float32", [ROWS, cols])], [*nodes, ("Slice", ["t1"], flip)], ["t2"])


def behind_zero(value: float = 0.0, kept: int = COLS - 1, **attrs: Any) -> dict[str, Any]:
    """A number, and the CumSum of all but the last element."""
    part = {"starts": [0, 0], "shape": [ROWS, kept]}
    nodes = [
        ("Slice", ["x0"], part),
        ("CumSum", ["t0"], {"axis": -1, **attrs}),
        ("Broadcast", [value], {"shape": [ROWS, 1]}),
        ("Concat", ["t2", "t1"], {"axis": 1}),
    ]
    return graph("behind", [("float32", [ROWS, COLS])], nodes, ["t3"])


def run(made: dict[str, Any], x: np.ndarray) -> tuple[str, np.ndarray]:
    built = api.build(made, target=TARGET)
    found = TritonKernel(built.files, built.graph)(x)
    return built.files[f"{built.name}_triton.py"], found


def values() -> np.ndarray:
    return draws.rng().normal(size=(ROWS, COLS)).astype(np.float32)


def kernels(text: str) -> int:
    return text.count("@triton.jit\ndef turned") + text.count("@triton.jit\ndef behind")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("exclusive", [False, True])
def test_turned_around(axis: int, exclusive: bool) -> None:
    x = values()
    text, found = run(turned(axis=axis, exclusive=exclusive), x)
    right = np.flip(np.cumsum(np.flip(x.astype(np.float64), axis), axis), axis)
    right = right - x if exclusive else right
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
    assert kernels(text) == 1
    assert "scratch" not in text


def test_turned_around_with_a_symbol() -> None:
    made = turned("n")
    made["symbols"] = {"n": {"min": 1}}
    x = values()
    text, found = run(made, x)
    right = np.cumsum(x[:, ::-1].astype(np.float64), 1)[:, ::-1]
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
    assert "scratch" not in text


def test_behind_a_zero() -> None:
    x = values()
    x[2, 5] = np.inf  # what is before it stays finite
    text, found = run(behind_zero(), x)
    right = np.concatenate([np.zeros((ROWS, 1)), np.cumsum(x[:, :-1].astype(np.float64), 1)], 1)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
    assert kernels(text) == 1


def along_other_axes() -> dict[str, Any]:
    made = turned(axis=0)
    made["nodes"][1]["attrs"]["axis"] = 1
    return made


OTHERS = {
    "a one": behind_zero(1.0),
    "from the end": behind_zero(reverse=True),
    "exclusive": behind_zero(exclusive=True),
    "two elements fewer": behind_zero(kept=COLS - 2),
    "along other axes": along_other_axes(),
}


@pytest.mark.parametrize("what", OTHERS)
def test_others_stay(what: str) -> None:
    made = OTHERS[what]
    x = values()
    text, found = run(made, x)
    if made["name"] == "turned":
        right = np.flip(np.cumsum(np.flip(x.astype(np.float64), 0), 1), 0)
    else:
        (_, total, first, _) = made["nodes"]
        kept = x[:, : made["nodes"][0]["attrs"]["shape"][1]].astype(np.float64)
        attrs = total["attrs"]
        sums = np.cumsum(kept[:, ::-1], 1)[:, ::-1] if attrs.get("reverse") else np.cumsum(kept, 1)
        sums = sums - kept if attrs.get("exclusive") else sums
        begin = np.full((ROWS, 1), first["inputs"][0]["const"])
        right = np.concatenate([begin, sums], 1)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
    assert "_running_sum(" in text
