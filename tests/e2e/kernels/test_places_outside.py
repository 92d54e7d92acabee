"""An index outside of its dimension takes the nearest place on every target, and every check reports it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extras import needs

import autofuse

ON_ALL = (
    "ascend910b1",
    "ascend950pr",
    "cpu",
    pytest.param("nvidia-h100", marks=needs("torch", "triton")),
)
ROWS, SIZE = 4, 9
EDGES = [0, 8, -1, -9, 9, -10, 100, 2**31 - 1, -(2**31)]
FAR = [2**31, 2**32 + 3, -(2**32) - 3, 2**63 - 1, -(2**63)]


def document(op: str, dtype: str, shape: list[Any], axis: int, *nodes: Any) -> dict[str, Any]:
    """A graph of one gather, of a table whose long dimension is ``axis``."""
    table = [ROWS, "n"] if axis == 1 else ["n", ROWS]
    last = {
        "name": "pick",
        "op": op,
        "inputs": ["x", "k"],
        "outputs": ["y"],
        "attrs": {"axis": axis},
    }
    return {
        "schema": "autofuse.graph/1",
        "name": "places",
        "symbols": {s: {"min": 0, "max": 5000} for s in ("n", "m") if s in [*table, *shape]},
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": table},
            {"name": "k", "dtype": dtype, "shape": shape},
        ],
        "nodes": [*nodes, last],
        "outputs": ["y"],
    }


def nearest(index: list[int]) -> list[int]:
    return [min(max(k + SIZE if k < 0 else k, 0), SIZE - 1) for k in index]


@pytest.mark.parametrize("target", ON_ALL)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(
    ("op", "axis"), [("Gather", 0), ("GatherElements", 1), ("GatherElements", 0)]
)
def test_the_nearest_place_is_taken(op: str, axis: int, dtype: str, target: str) -> None:
    index = EDGES + (FAR if dtype == "int64" else [])
    x = np.arange(ROWS * SIZE, dtype=np.float32)
    x = x.reshape((ROWS, SIZE) if axis == 1 else (SIZE, ROWS))
    at = np.array(nearest(index))
    if op == "Gather":
        given, shape, want = np.array(index, dtype), ["m"], x.take(at, axis)
    else:
        line = [[k] for k in index] if axis == 0 else [index]
        given = np.array(np.repeat(line, ROWS, 1 - axis), dtype)
        shape = ["m", ROWS] if axis == 0 else [ROWS, "m"]
        want = x.take(at, axis)
    made = autofuse.load(autofuse.build(document(op, dtype, shape, axis), target=target))
    np.testing.assert_array_equal(made(x, given), want)


def test_one_element_of_a_line_of_a_known_size() -> None:
    """A kernel may pick the element by comparing places."""
    graph = document("GatherElements", "int64", [ROWS, 1], 1)
    graph["symbols"] = {}
    graph["inputs"][0]["shape"] = [ROWS, SIZE]
    x = np.arange(ROWS * SIZE, dtype=np.float32).reshape(ROWS, SIZE)
    made = autofuse.load(autofuse.build(graph))
    for part in (FAR[:4], FAR[1:], EDGES[4:8]):
        found = made(x, np.array(part, np.int64)[:, None])
        np.testing.assert_array_equal(found[:, 0], x[np.arange(ROWS), nearest(part)])


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_checked_mode_names_node_index_and_place(op: str) -> None:
    shape = ["m"] if op == "Gather" else ["m", ROWS]
    graph = document(op, "int32", shape, 0)
    x = np.arange(ROWS * SIZE, dtype=np.float32).reshape(SIZE, ROWS)
    k = np.zeros((3,) if op == "Gather" else (3, ROWS), np.int32)
    made = autofuse.load(autofuse.build(graph), check="all")
    made(x, k)
    k[(1,) if op == "Gather" else (1, 2)] = 9
    with pytest.raises(autofuse.AutofuseError) as caught:
        made(x, k)
    (found,) = caught.value.diagnostics
    assert found.code == "AF5007"
    assert found.where.node == "pick"
    place = "[1]" if op == "Gather" else "[1][2]"
    assert f"k{place} is 9, and x has 9 places along dimension 0" in found.message


def test_an_index_without_dimensions() -> None:
    made = autofuse.load(autofuse.build(document("Gather", "int32", [], 0)), check="all")
    x = np.arange(ROWS * SIZE, dtype=np.float32).reshape(SIZE, ROWS)
    np.testing.assert_array_equal(made(x, np.array(-1, np.int32)), x[-1])
    with pytest.raises(autofuse.AutofuseError, match="k is 9, and x has 9 places"):
        made(x, np.array(9, np.int32))


@pytest.mark.parametrize("target", ON_ALL)
def test_verify_names_a_computed_index(target: str) -> None:
    far = {
        "name": "far",
        "op": "Maximum",
        "inputs": ["k", {"const": 6000}],
        "outputs": ["at"],
    }
    graph = document("Gather", "int32", ["m"], 0, far)
    graph["nodes"][1]["inputs"] = ["x", "at"]
    report = autofuse.verify(graph, target=target, shapes=[{"n": 9, "m": 5}])
    (found,) = (d for d in report.diagnostics if d.severity == "error")
    assert not report.ok
    assert found.where.node == "pick"
    assert "at[0] is 6000, and 4 more, and x has 9 places along dimension 0" in found.message
