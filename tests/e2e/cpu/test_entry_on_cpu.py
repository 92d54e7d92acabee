"""The entries of a library, called as AKG calls them: with pointers, and with shapes where sizes are symbols."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import draws
import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.cpu.library import compile_library

pytestmark = pytest.mark.twin

RNG = draws.rng()


def document(name: str, shape: list[Any], nodes: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "inputs": [{"name": "x", "dtype": "float32", "shape": shape}],
        "nodes": nodes,
        "outputs": ["y"],
        **more,
    }


def library(graph: api.GraphLike) -> tuple[ctypes.CDLL, api.BuildResult]:
    built = api.build(graph, target="cpu")
    return ctypes.CDLL(str(compile_library(built.files, built.graph))), built


def pointers(*arrays: np.ndarray) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


NEGATED = [{"name": "n", "op": "Neg", "inputs": ["x"], "outputs": ["y"]}]


def test_the_static_entry_takes_an_array_of_pointers() -> None:
    lib, _ = library(document("fixed", [3, 5], NEGATED))
    x, y = RNG.standard_normal((3, 5)).astype(np.float32), np.full((3, 5), np.nan, np.float32)
    lib.fixed_kernel(pointers(x, y))
    np.testing.assert_array_equal(y, -x)


def test_the_dynamic_entry_takes_shapes_as_well() -> None:
    graph = document(
        "moving", ["a", "b"], NEGATED, symbols={s: {"min": 0, "max": 4096} for s in "ab"}
    )
    lib, _ = library(graph)
    for shape in ((3, 5), (1, 1), (0, 4)):
        x = RNG.standard_normal(shape).astype(np.float32)
        y = np.full(shape, np.nan, np.float32)
        rows = [(ctypes.c_int64 * 5)(0, *shape, shape[1], 1) for _ in (x, y)]
        table = (ctypes.c_void_p * 2)(*(ctypes.addressof(r) for r in rows))
        lib.moving_kernel(pointers(x, y), table)
        np.testing.assert_array_equal(y, -x)


def test_a_size_follows_from_a_multiple() -> None:
    graph = document(
        "halves",
        ["2 * a"],
        [
            {
                "name": "n",
                "op": "Slice",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"starts": ["a"], "shape": ["a"]},
            }
        ],
        symbols={"a": {"min": 1}},
    )
    kernel = api.load(api.build(graph, target="cpu"))
    x = RNG.standard_normal(14).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), x[7:])


def test_a_size_that_no_shape_has_is_given() -> None:
    graph = document(
        "ahead",
        [20],
        [
            {
                "name": "s",
                "op": "Slice",
                "inputs": ["x"],
                "outputs": ["s"],
                "attrs": {"starts": ["a"], "shape": [4]},
            },
            {"name": "n", "op": "Neg", "inputs": ["s"], "outputs": ["y"]},
        ],
        symbols={"a": {"min": 0, "max": 16}},
    )
    kernel = api.load(api.build(graph, target="cpu"))
    x = RNG.standard_normal(20).astype(np.float32)
    for a in (0, 3, 16):
        np.testing.assert_array_equal(kernel(x, symbols={"a": a}), -x[a : a + 4])
    with pytest.raises(AutofuseError, match="AF5007"):
        kernel(x)


def test_an_output_that_overwrites_an_input() -> None:
    graph = document("inplace", ["n"], NEGATED, symbols={"n": {"min": 0}})
    graph["outputs"] = [{"name": "x_out", "tensor": "y", "inout": "x"}]
    kernel = api.load(api.build(graph, target="cpu"))
    x = RNG.standard_normal(70000).astype(np.float32)
    want = -x
    assert kernel(x) is x
    np.testing.assert_array_equal(x, want)


def test_a_folder_is_loaded(tmp_path: Path) -> None:
    api.build(document("folder", [4], NEGATED), target="cpu").write(tmp_path / "out")
    kernel = api.load(tmp_path / "out")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(kernel(x), -x)


def test_arguments_that_do_not_fit() -> None:
    kernel = api.load(api.build(document("fixed", [3, 5], NEGATED), target="cpu"))
    for wrong in (np.zeros((3, 4), np.float32), np.zeros((3, 5), np.float64)):
        with pytest.raises(AutofuseError, match="AF5007"):
            kernel(wrong)


def test_what_only_the_twin_has_is_refused() -> None:
    built = api.build(document("fixed", [3, 5], NEGATED), target="cpu")
    with pytest.raises(AutofuseError, match="AF5007"):
        api.load(built, check="all")
    with pytest.raises(AutofuseError, match="AF5007"):
        api.load(built, device="cuda")
    with pytest.raises(AutofuseError, match="AF5007"):
        api.timed(built, {"x": np.zeros((3, 5), np.float32)})


def test_a_library_that_crashes_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    built = api.build(document("crash", [8], NEGATED), target="cpu")
    text = built.files["crash.cpp"].replace("crash_0(x, y)", "crash_0(x, nullptr)")
    assert text != built.files["crash.cpp"]
    from autofuse.machines.machine import verify

    report = verify({"crash.cpp": text}, built.graph, count=1)
    assert not report.ok
    assert [d.code for d in report.diagnostics] == ["AF5003"]
