"""Inputs whose rows repeat or lie on each other, and sizes that have to fit each other."""

import math
from typing import Any

import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ops.requirements import requirements
from autofuse.machines.twin.oracle.sizes import shapes_for, sizes_with
from autofuse.machines.twin.verify.verify import verify_in_subprocess

SYMBOLS = {
    "n": {"min": 0, "max": 64, "hint": 16},
    "k": {"min": 0, "max": 64},
    "m": {"min": 1, "max": 64},
    "s": {"min": 0, "max": 128, "hint": 32},
}
#: Shape, strides, offset and dtype of inputs.
LAYOUTS: dict[str, Any] = {
    "repeated rows": ([64, 48], [0, 1], 0, "float32"),
    "repeated elements": ([33, 17], [1, 0], 0, "float16"),
    "one element": ([8, 9], [0, 0], 5, "int32"),
    "repeated in the middle": ([4, 5, 6], [6, 0, 1], 0, "float32"),
    "one row": ([1, 64], [0, 1], 0, "float32"),
    "windows": ([60, 5], [1, 1], 0, "float32"),
    "windows of windows": ([4, 10, 3], [12, 1, 1], 0, "bfloat16"),
    "halves": ([40, 64], [32, 1], 3, "float32"),
    "all but one": ([64, 64], [63, 1], 0, "int8"),
    "nothing": ([0, 64], [3, 1], 0, "float32"),
    "windows of any size": (["n", "n"], [1, 1], 0, "float32"),
    "repeated as often as wanted": (["n", 40], [0, 1], 0, "float32"),
    "rows at any distance": (["n", 64], ["s", 1], 0, "float32"),
}


def document(inputs: Any, nodes: Any, outputs: Any) -> dict[str, Any]:
    used = str((inputs, nodes))
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {n: s for n, s in SYMBOLS.items() if f"'{n}'" in used},
        "inputs": inputs,
        "nodes": nodes,
        "outputs": outputs,
    }


def tensor(name: str, layout: Any) -> dict[str, Any]:
    shape, strides, offset, dtype = layout
    return {"name": name, "dtype": dtype, "shape": shape, "strides": strides, "offset": offset}


def all_in_one(layouts: list[Any]) -> dict[str, Any]:
    inputs = [tensor(f"x{k}", x) for k, x in enumerate(layouts)]
    nodes = [
        {"name": f"a{k}", "op": "Maximum", "inputs": [f"x{k}", {"const": 0}], "outputs": [f"y{k}"]}
        for k in range(len(layouts))
    ]
    return document(inputs, nodes, [f"y{k}" for k in range(len(layouts))])


def passes(graph: Any, **how: Any) -> Any:
    built = api.build(graph, verify_ir=True)
    report = verify_in_subprocess(built.files, built.graph, check="all", **how)
    assert report.ok, report.diagnostics
    return built


@pytest.mark.twin
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_rows_that_repeat_or_lie_on_each_other(part: int) -> None:
    passes(all_in_one(list(LAYOUTS.values())[part::4]), count=3)


@pytest.mark.twin
@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("ReduceSum", {"axes": [1]}),
        ("ReduceMax", {"axes": [0]}),
        ("Transpose", {"perm": [1, 0]}),
        ("Softmax", {"axis": 1}),
        ("Slice", {"starts": [3, 1], "shape": [9, 20], "steps": [2, 1]}),
        ("Pad", {"low": [1, 2], "high": [0, 3]}),
    ],
)
def test_what_reads_windows(op: str, attrs: Any) -> None:
    node = {"name": "a", "op": op, "inputs": ["x"], "outputs": ["y"], "attrs": attrs}
    passes(document([tensor("x", ([30, 50], [20, 1], 0, "float32"))], [node], ["y"]))


def test_a_repeated_input_is_loaded_once() -> None:
    built = api.build(document([tensor("x", ([64, 48], [0, 1], 0, "float32"))], [
        {"name": "a", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}], ["y"]))  # fmt: skip
    (load,) = (n for n in built.hint.nodes if n.op == "Load")
    assert math.prod(r.value for r in load.y.repeats) == 48


# relations of sizes ---------------------------------------------------------------------------


def relation(op: str, of: Any, **attrs: Any) -> dict[str, Any]:
    """An op of x, beside a tensor that tells the sizes that x does not."""
    told = {"name": "p", "dtype": "float32", "shape": ["n", "k", "m", "s"]}
    nodes = [
        {"name": "a", "op": op, "inputs": ["x"], "outputs": ["t"], "attrs": attrs},
        {"name": "b", "op": "Add", "inputs": ["t", {"const": 1.0}], "outputs": ["y"]},
        {"name": "z", "op": "Abs", "inputs": ["p"], "outputs": ["q"]},
    ]
    x = {"name": "x", "dtype": "float32", "shape": of}
    return document([x, told], nodes, ["y", "q"])


#: A graph, sizes that fit, and sizes that do not.
RELATIONS: dict[str, Any] = {
    "start": (relation("Slice", ["n"], starts=["k"], shape=[2]), (8, 6, 1, 0), (8, 7, 1, 0)),
    "length": (relation("Slice", ["n"], starts=[0], shape=["k"]), (8, 8, 1, 0), (8, 9, 1, 0)),
    "both": (relation("Slice", ["n"], starts=["k"], shape=["m"]), (8, 3, 5, 0), (8, 4, 5, 0)),
    "steps": (
        relation("Slice", ["n"], starts=[0], shape=["k"], steps=[3]),
        (7, 3, 1, 0),
        (6, 3, 1, 0),
    ),
    "backwards": (
        relation("Slice", ["n"], starts=["k"], shape=["m"], steps=[-2]),
        (9, 8, 5, 0),
        (9, 8, 6, 0),
    ),
    "from behind the end": (
        relation("Slice", ["n"], starts=["k"], shape=["m"], steps=[-1]),
        (9, 8, 5, 0),
        (8, 8, 5, 0),
    ),
    "of a fixed size": (
        relation("Slice", [5, "n"], starts=[0, 0], shape=["k", 3]),
        (3, 5, 1, 0),
        (3, 6, 1, 0),
    ),
}


@pytest.mark.twin
@pytest.mark.parametrize("name", RELATIONS)
def test_sizes_that_do_not_fit_each_other_are_refused(name: str) -> None:
    graph, good, bad = RELATIONS[name]
    built = api.build(graph, verify_ir=True)
    kernel = api.load(built, check="all")
    for sizes, fits in ((good, True), (bad, False)):
        known = dict(zip("nkms", sizes, strict=True))
        shape = [known.get(d, d) for d in graph["inputs"][0]["shape"]]
        arrays = {"x": np.zeros(shape, np.float32), "p": np.zeros(sizes, np.float32)}
        if fits:
            kernel.run(arrays)
            continue
        with pytest.raises(AutofuseError, match="a is a Slice that takes elements"):
            kernel.run(arrays)


@pytest.mark.twin
@pytest.mark.slow
def test_verify_finds_sizes_that_fit() -> None:
    for name, (graph, _, _) in RELATIONS.items():
        read = api.read(graph)
        found = shapes_for(read, 6)
        assert len(found) == 6, name
        assert all(r.holds(sizes) for r in requirements(read) for sizes in found)
    passes(RELATIONS["both"][0], count=4)


def test_sizes_beside_those_that_are_given_fit_them() -> None:
    for name, (graph, good, bad) in RELATIONS.items():
        read = api.read(graph)
        needed = requirements(read)
        for fixed in ({"n": good[0]}, {"k": good[1]}, {"m": good[2], "n": good[0]}):
            found = sizes_with(read, fixed)
            assert found.keys() == SYMBOLS.keys()
            assert found.items() >= fixed.items()
            assert all(r.holds(found) for r in needed), name
        with pytest.raises(AutofuseError, match=r"AF1109.*cannot run with n = .*: a is a Slice"):
            sizes_with(read, dict(zip("nkms", bad, strict=True)))


def test_sizes_that_there_are_none_of() -> None:
    # Each is longer than the other one.
    graph = relation("Slice", ["n"], starts=["k"], shape=[2])
    graph["inputs"].append({"name": "o", "dtype": "float32", "shape": ["k"]})
    attrs = {"starts": ["n"], "shape": [2]}
    graph["nodes"].append(
        {"name": "c", "op": "Slice", "inputs": ["o"], "outputs": ["u"], "attrs": attrs}
    )
    graph["outputs"].append("u")
    with pytest.raises(AutofuseError) as caught:
        shapes_for(api.read(graph), 3)
    (d,) = caught.value.diagnostics
    assert d.code == "AF5007"
    assert "a is a Slice that takes elements k to" in d.hint


def test_what_no_sizes_make_right_is_refused_at_the_door() -> None:
    with pytest.raises(AutofuseError, match="AF1204"):
        api.read(relation("Slice", [8], starts=[9], shape=["m"]))


@pytest.mark.twin
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_rows_that_repeat(axis: int) -> None:
    """Of no rows there is no row that could be loaded."""
    node = {
        "name": "a",
        "op": "ReduceSum",
        "inputs": ["x"],
        "outputs": ["y"],
        "attrs": {"axes": [axis]},
    }
    graph = document([tensor("x", (["n", 40], [0, 1], 0, "float32"))], [node], ["y"])
    built = passes(graph, count=3)
    with pytest.raises(AutofuseError, match="dimension 0 of x has the stride 0, and no elements"):
        api.load(built).run({"x": np.zeros((0, 40), np.float32)})


def test_rows_at_a_distance_that_is_too_short_are_refused() -> None:
    read = api.read(all_in_one([LAYOUTS["rows at any distance"]]))
    (needed,) = requirements(read)
    assert needed.holds({"n": 2, "s": 64})
    assert not needed.holds({"n": 2, "s": 63})
