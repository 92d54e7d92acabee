"""The names of a graph are the interface: those that C++ and Ascend C use otherwise, and those of other formats."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofuse import api

pytestmark = pytest.mark.twin

GRAPH: dict[str, Any] = {
    "schema": "autofuse.graph/1",
    "name": "cos",
    "symbols": {"gamma": {"min": 1, "max": 64}, "ge": {"min": 1, "max": 9, "hint": 4}},
    "inputs": [
        {"name": "gamma", "dtype": "float32", "shape": ["gamma", "ge"]},
        {"name": "model.0/weight", "dtype": "float32", "shape": ["ge"]},
        {"name": "int", "dtype": "float32", "shape": ["gamma", 1]},
    ],
    "nodes": [
        {"name": "n", "op": "Add", "inputs": ["gamma", "model.0/weight"], "outputs": ["t"]},
        {"name": "m", "op": "Mul", "inputs": ["t", "int"], "outputs": ["y0"]},
    ],
    "outputs": ["y0", "t"],
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "g.json").write_text(json.dumps(GRAPH), encoding="utf-8")
    return tmp_path / "g.json"


def test_commands_take_and_print_them(
    autofuse: Callable[..., Any], path: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "g.npy", np.full((5, 3), 2, np.float32))
    np.save(tmp_path / "w.npy", np.full(3, 1, np.float32))
    given = ["--input", "gamma=g.npy", "--input", "model.0/weight=w.npy"]
    done = autofuse("run", path, *given, "--save", "saved")
    assert done.code == 0, done.err
    assert "gamma=5, ge=3" in done.out
    assert sorted(p.name for p in (tmp_path / "saved").iterdir()) == ["t.npy", "y0.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "saved" / "t.npy"), np.full((5, 3), 3))

    done = autofuse("build", path, "-o", "out")
    done = autofuse("run", "out", "--shape", "gamma=7", "--shape", "ge=2", "--json")
    assert done.json()["result"]["symbols"] == {"gamma": 7, "ge": 2}
    assert [o["output"] for o in done.json()["result"]["outputs"]] == ["y0", "t"]

    assert "ran with gamma=" in autofuse("verify", path, "--shapes", 1).out
    assert "gamma=8, ge=" in autofuse("explain", path, "--shape", "gamma=8").out
    shown = autofuse("show", path).out
    assert "model.0/weight" in shown
    assert "[gamma, ge]" in shown
    for words in (("run", path, "--shape", "gamma=99"), ("explain", path, "--shape", "ge=0")):
        done = autofuse(*words)
        assert done.code == 1
        assert "v_" not in done.err


def test_functions_take_them(path: Path, tmp_path: Path) -> None:
    built = api.build(path)
    built.write(tmp_path / "out")
    for kernel in (api.load(built), api.load(tmp_path / "out")):
        x = np.ones((4, 2), np.float32)
        arrays = {"gamma": x, "model.0/weight": np.ones(2, np.float32), "int": x[:, :1]}
        done = kernel.run(arrays, symbols={"gamma": 4})
        assert list(done.outputs) == ["y0", "t"]
    metadata = json.loads(built.files["v_cos.json"])
    assert [s["called"] for s in metadata["symbols"]] == ["gamma", "ge"]
    assert [i["name"] for i in metadata["inputs"]] == ["gamma", "model.0/weight", "int"]


def test_outputs_whose_names_are_no_names_of_files(
    autofuse: Callable[..., Any], tmp_path: Path
) -> None:
    outputs = ["a/b", "a_b", "A_b", "a.b"]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
        "nodes": [
            {"name": f"n{k}", "op": "Add", "inputs": ["x", {"const": k}], "outputs": [name]}
            for k, name in enumerate(outputs)
        ],
        "outputs": outputs,
    }
    (tmp_path / "g.json").write_text(json.dumps(graph), encoding="utf-8")
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    done = autofuse("run", "g.json", "--input", "x=x.npy", "--save", "saved")
    assert done.code == 0, done.err
    files = sorted((tmp_path / "saved").iterdir())
    assert [p.name for p in files] == ["A_b_3.npy", "a.b.npy", "a_b.npy", "a_b_2.npy"]
    assert [int(np.load(p)[0]) for p in files] == [2, 3, 0, 1]
