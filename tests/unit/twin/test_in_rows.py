"""Large references are made a few rows at a time, and compared in parts: nothing else changes."""

import copy
from typing import Any

import draws
import numpy as np
import pytest

from autofuse import api
from autofuse.machines.twin.oracle import compare as compare_module
from autofuse.machines.twin.oracle import in_rows as module
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import Reference, evaluate


def graph(dtype: str, *nodes: tuple[str, str, list[Any], dict[str, Any]]) -> dict[str, Any]:
    shapes = {"x": [13, 3, 7], "z": [3, 7], "row": [1, 1, 7], "column": [13, 1, 1]}
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": n, "dtype": dtype, "shape": s} for n, s in shapes.items()],
        "nodes": [
            {"name": f"n_{y}", "op": op, "inputs": i, "outputs": [y], "attrs": a}
            for y, op, i, a in nodes
        ],
        "outputs": [y for y, *_ in nodes],
    }


ELEMENTWISE = (
    ("a", "Add", ["x", "row"], {}),
    ("b", "Mul", ["a", "z"], {}),
    ("c", "Sub", ["b", "column"], {}),
    ("d", "Maximum", ["c", {"const": 0.5}], {}),
    ("e", "Greater", ["b", "c"], {}),
    ("f", "Where", ["e", "a", "d"], {}),
    ("g", "Cast", ["f"], {"dtype": "int32"}),
    ("h", "Div", ["column", "row"], {}),
)
ALONG = tuple(
    node
    for axis in (0, 1, 2)
    for node in (
        (f"s{axis}", "Softmax", ["x"], {"axis": axis}),
        (f"r{axis}", "ReduceSum", ["x"], {"axes": [axis], "keepdims": axis == 1}),
        (f"m{axis}", "ReduceMean", [f"s{axis}"], {"axes": [axis], "keepdims": axis != 1}),
        (f"p{axis}", "ReduceMax", ["x"], {"axes": [axis], "keepdims": False}),
        (f"k{axis}", "CumSum", ["x"], {"axis": axis}),
        (f"i{axis}", "ArgMax", ["x"], {"axis": axis}),
    )
)


@pytest.mark.parametrize("nodes", [ELEMENTWISE, ALONG], ids=["elementwise", "along"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("block", [1, 40, 100])
def test_blocks_are_the_whole(
    nodes: Any, dtype: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fusion = api.read(graph(dtype, *nodes))
    inputs = random_inputs(fusion, {}, draws.seed())
    whole = evaluate(fusion, copy.deepcopy(inputs), {})
    monkeypatch.setattr(module, "_BLOCK", block)
    parts = evaluate(fusion, inputs, {})
    for name, wanted in whole.items():
        found = parts[name]
        assert found.ill_conditioned == wanted.ill_conditioned, name
        assert found.value.dtype == wanted.value.dtype
        # NumPy adds a column of few rows in another order than one of many.
        near = {"rtol": 1e-13, "atol": 0.0}
        np.testing.assert_allclose(
            found.value.astype(np.float64), wanted.value.astype(np.float64), **near
        )
        assert (found.tolerance is None) == (wanted.tolerance is None), name
        if wanted.tolerance is not None:
            np.testing.assert_allclose(found.tolerance, wanted.tolerance, **near)


@pytest.mark.parametrize("wrong", [[], [3], [64, 65, 130], [199]])
def test_parts_of_a_comparison_come_to_the_same(
    wrong: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = draws.rng()
    want = rng.uniform(1, 2, (10, 20)).astype(np.float32)
    got = (want.astype(np.float64) * (1 + 1e-7 * rng.uniform(-2, 2, want.shape))).astype(np.float32)
    got.reshape(-1)[wrong] += 1
    tolerance = np.full(want.shape, 1e-5)
    dtype = api.read(graph("float32", ELEMENTWISE[0])).tensors["x"].dtype
    whole = compare("y", got, Reference(want, tolerance), dtype)
    monkeypatch.setattr(compare_module, "_PART", 7)
    assert compare("y", got, Reference(want, tolerance), dtype) == whole
    assert whole.wrong == len(wrong)
    assert whole.first == (None if not wrong else divmod(wrong[0], 20))
    assert whole.max_abs == np.abs(got.astype(np.float64) - want).max()
