"""Random inputs that indices are computed from."""

import numpy as np
import pytest

from autofuse import api
from autofuse.machines.twin.oracle.balanced import balanced_inputs
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.indices import (
    bring_inside,
    computed_places,
    outside,
    place_extents,
    rounded_places,
)
from autofuse.measure.certificate.grid import GRIDS, grid_inputs

PLACES, COUNT = 13, 400


def const(value):
    return {"const": value}


def reader(inputs, steps, places=PLACES):
    """A graph that takes rows of a table by what the steps make of the inputs."""
    given = [{"name": n, "dtype": d, "shape": s} for n, d, s in inputs]
    nodes = [
        {"name": f"n{k}", "op": op, "inputs": list(xs), "outputs": [out], "attrs": attrs}
        for k, (out, op, xs, attrs) in enumerate(steps)
    ]
    last = {"name": "get", "op": "Gather", "inputs": ["table", steps[-1][0]], "outputs": ["y"]}
    table = {"name": "table", "dtype": "float32", "shape": [places, 4]}
    graph = {
        "schema": "autofuse.graph/1",
        "name": "reads",
        "inputs": [table, *given],
        "nodes": [*nodes, {**last, "attrs": {"axis": 0}}],
        "outputs": ["y"],
    }
    return api.read(graph)


I = [("i", "int32", [COUNT])]  # noqa: E741
TWO = [("i", "int32", [COUNT]), ("j", "int64", [COUNT])]
F = [("f", "float32", [COUNT])]

#: Name -> inputs, steps, and the index by NumPy.
PATHS = {
    "ignored label": (
        I,
        [("c", "Equal", ("i", const(-100)), {}), ("k", "Select", ("c", const(0), "i"), {})],
        lambda i: np.where(i == -100, 0, i),
    ),
    "ignored label beside 255": (
        I,
        [("c", "Equal", ("i", const(255)), {}), ("k", "Select", ("c", const(0), "i"), {})],
        lambda i: np.where(i == 255, 0, i),
    ),
    "maximum": (I, [("k", "Maximum", ("i", const(0)), {})], lambda i: np.maximum(i, 0)),
    "clip": (
        I,
        [("a", "Maximum", ("i", const(0)), {}), ("k", "Minimum", ("a", const(12)), {})],
        lambda i: np.clip(i, 0, 12),
    ),
    "mod": (I, [("k", "Remainder", ("i", const(13)), {})], lambda i: np.mod(i, 13)),
    "offset": (I, [("k", "Sub", ("i", const(1000)), {})], lambda i: i.astype(np.int64) - 1000),
    "scaled": (I, [("k", "Mul", ("i", const(5)), {})], lambda i: i.astype(np.int64) * 5),
    "cast": (F, [("k", "Cast", ("f",), {"dtype": "int32"})], lambda f: f.astype(np.int32)),
    "narrow cast": (
        [("j", "int64", [COUNT])],
        [("a", "Cast", ("j",), {"dtype": "int16"}), ("k", "Cast", ("a",), {"dtype": "int32"})],
        lambda j: j.astype(np.int16).astype(np.int32),
    ),
    "coordinate": (
        F,
        [
            ("a", "Mul", ("f", const(12.0)), {}),
            ("b", "Floor", ("a",), {}),
            ("k", "Cast", ("b",), {"dtype": "int64"}),
        ],
        lambda f: np.floor(f * np.float32(12)).astype(np.int64),
    ),
    "row and column": (
        TWO,
        [
            ("a", "Cast", ("i",), {"dtype": "int64"}),
            ("b", "Mul", ("a", const(4)), {}),
            ("k", "Add", ("b", "j"), {}),
        ],
        lambda i, j: i.astype(np.int64) * 4 + j,
    ),
    "sum of broadcast inputs": (
        [("i", "int32", [20, 1]), ("j", "int32", [1, 20])],
        [("k", "Add", ("i", "j"), {})],
        lambda i, j: i.astype(np.int64) + j,
    ),
    "moved": (
        [("i", "int32", [20, 30])],
        [
            ("a", "Transpose", ("i",), {"perm": [1, 0]}),
            ("b", "Slice", ("a",), {"starts": [3, 2], "shape": [20, 10]}),
            ("c", "Neg", ("b",), {}),
            ("k", "Reshape", ("c",), {"shape": [200]}),
        ],
        lambda i: -i.T[3:23, 2:12].reshape(200).astype(np.int64),
    ),
    "several of a row": (
        [("i", "int32", [40, 3])],
        [("k", "ReduceSum", ("i",), {"axes": [1]})],
        lambda i: i.astype(np.int64).sum(1),
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_indices_that_are_computed_exist(name):
    inputs, steps, index = PATHS[name]
    graph = reader(inputs, steps)
    assert computed_places(graph) == {n for n, _, _ in inputs}
    for seed in range(4):
        drawn = [random_inputs(graph, {}, seed), balanced_inputs(graph, {}, seed)]
        for data in (d for d in drawn if d is not None):
            found = index(*(data[n] for n, _, _ in inputs))
            assert found.min() >= -PLACES
            assert found.max() < PLACES
            assert outside(graph, data, {}) == ()
            # The indices are not all the same.
            assert len(np.unique(found)) >= 3


def test_what_the_path_is_for_is_among_the_numbers():
    def drawn(name):
        inputs, steps, _ = PATHS[name]
        graph = reader(inputs, steps)
        return np.concatenate([random_inputs(graph, {}, s)["i"] for s in range(4)])

    assert (drawn("ignored label") == -100).any()
    assert (drawn("ignored label beside 255") == 255).any()
    # Clipped values lie far outside, on both sides.
    for name in ("clip", "mod"):
        found = drawn(name)
        assert found.min() < -PLACES
        assert found.max() > PLACES


def test_numbers_that_a_place_is_found_among_stay():
    steps = [("k", "ArgMax", ("f",), {"axis": 1})]
    graph = reader([("f", "float32", [50, PLACES])], steps)
    assert computed_places(graph) == {"f"}
    assert rounded_places(graph) == frozenset()
    f = random_inputs(graph, {}, 0)["f"]
    assert (f != np.rint(f)).mean() > 0.8
    assert np.isnan(random_inputs(graph, {}, 0, special=True)["f"]).any()
    # Only numbers are rounded.
    inputs, steps, index = PATHS["coordinate"]
    graph = reader(inputs, steps)
    assert rounded_places(graph) == {"f"}
    f = random_inputs(graph, {}, 0, special=True)["f"]
    assert np.isfinite(f).all()
    assert np.abs(index(f) + 0.5).max() < PLACES


def test_indices_of_indices_exist():
    graph = {
        "schema": "autofuse.graph/1",
        "name": "twice",
        "inputs": [
            {"name": "table", "dtype": "float32", "shape": [7, 3]},
            {"name": "rows", "dtype": "int32", "shape": [50]},
            {"name": "i", "dtype": "int32", "shape": [90]},
        ],
        "nodes": [
            {"name": "a", "op": "Gather", "inputs": ["rows", "i"], "outputs": ["r"], "attrs": {"axis": 0}},
            {"name": "b", "op": "Add", "inputs": ["r", {"const": 3}], "outputs": ["k"]},
            {"name": "c", "op": "Gather", "inputs": ["table", "k"], "outputs": ["y"], "attrs": {"axis": 0}},
        ],
        "outputs": ["y"],
    }  # fmt: skip
    graph = api.read(graph)
    for seed in range(4):
        x = random_inputs(graph, {}, seed)
        assert np.abs(x["i"] + 0.5).max() < 50
        found = x["rows"][x["i"]] + 3
        assert found.min() >= -7
        assert found.max() < 7


def test_the_input_and_the_place_that_are_at_fault_are_named():
    inputs, steps, _ = PATHS["row and column"]
    graph = reader(inputs, steps)
    x = random_inputs(graph, {}, 0)
    x["i"][7], x["j"][7] = 2, 9
    (found,) = outside(graph, x, {})
    assert found.code == "AF5007"
    assert found.where.node == "get"
    assert "k[7] is 17, and table has 13 places along dimension 0" in found.message
    assert found.notes == ("computed from i[7] = 2", "computed from j[7] = 9")


def test_inputs_that_are_given_stay():
    inputs, steps, index = PATHS["row and column"]
    graph = reader(inputs, steps)
    x = random_inputs(graph, {}, 0)
    x["i"][:] = 3
    bring_inside(graph, x, {}, 1, fixed=("i",), drawn=False)
    assert (x["i"] == 3).all()
    assert index(x["i"], x["j"]).max() < PLACES


def test_data_that_nothing_evaluates_and_grids_keep_to_places():
    inputs, steps, index = PATHS["ignored label"]
    graph = reader(inputs, steps)
    assert {x: str(e) for x, e in place_extents(graph).items()} == {"i": str(PLACES)}
    found = index(grid_inputs(graph, {}, next(iter(GRIDS)), 0)["i"])
    assert found.min() >= -PLACES
    assert found.max() < PLACES


def test_graphs_without_computed_indices_are_left_alone():
    graph = reader([("i", "int64", [COUNT])], [("k", "Cast", ("i",), {"dtype": "int32"})])
    assert computed_places(graph) == frozenset()
    assert np.abs(random_inputs(graph, {}, 0)["i"] + 0.5).max() < PLACES
