"""``--shape`` and ``--input`` of ``verify``, and data that name places which do not exist."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.twin

LABELS = {
    "schema": "autofuse.graph/1",
    "name": "picked",
    "symbols": {"rows": {"min": 1, "max": 64}, "classes": {"min": 2, "max": 999}},
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": ["rows", "classes"]},
        {"name": "label", "dtype": "int32", "shape": ["rows", 1]},
    ],
    "nodes": [
        {"name": "a", "op": "Equal", "inputs": ["label", {"const": -100}], "outputs": ["ignored"]},
        {"name": "b", "op": "Select", "inputs": ["ignored", {"const": 0}, "label"], "outputs": ["k"]},
        {"name": "pick", "op": "GatherElements", "inputs": ["x", "k"], "outputs": ["y"], "attrs": {"axis": 1}},
    ],
    "outputs": ["y"],
}  # fmt: skip


@pytest.fixture
def picked(tmp_path: Path) -> Path:
    path = tmp_path / "picked.json"
    path.write_text(json.dumps(LABELS), encoding="utf-8")
    return path


def labels(tmp_path: Path, *values: int) -> str:
    np.save(tmp_path / "label.npy", np.array(values, np.int32)[:, None])
    return f"label={tmp_path / 'label.npy'}"


@pytest.mark.parametrize("target", ["ascend910b1", "cpu"])
def test_sizes_and_data_that_are_given(
    autofuse: Callable, picked: Path, tmp_path: Path, target: str
) -> None:
    given = labels(tmp_path, 4, -100, 0, -5, 3)
    words = ("verify", picked, "-t", target, "--shape", "classes=5", "--input", given, "--json")
    (row,) = autofuse(*words).json()["result"]["graphs"]
    assert (row["state"], row["shapes"]) == ("passed", [{"rows": 5, "classes": 5}])
    assert row["outputs"][0]["elements"] == 5


def test_a_size_that_is_left_open_varies(autofuse: Callable, picked: Path) -> None:
    done = autofuse("verify", picked, "-t", "cpu", "--shape", "rows=7", "--json")
    (row,) = done.json()["result"]["graphs"]
    assert row["state"] == "passed"
    assert {s["rows"] for s in row["shapes"]} == {7}
    assert len({s["classes"] for s in row["shapes"]}) == len(row["shapes"]) > 1


@pytest.mark.parametrize(("verb", "target"), [("verify", "ascend910b1"), ("run", "cpu")])
def test_data_at_fault_are_named(
    autofuse: Callable, picked: Path, tmp_path: Path, verb: str, target: str
) -> None:
    given = labels(tmp_path, 4, -100, 5, -5, 3)
    done = autofuse(verb, picked, "-t", target, "--shape", "classes=5", "--input", given)
    assert done.code == 1
    fault = "AF5007: invalid input data: k[2][0] is 5, and x has 5 places along dimension 1"
    assert fault in done.err
    assert "computed from label[2][0] = 5" in done.err


def test_words_that_do_not_fit(autofuse: Callable, picked: Path, tmp_path: Path) -> None:
    wrong = {
        ("--shape", "clases=5"): "clases is not a symbol of picked",
        ("--shape", "rows=65"): "rows = 65 is outside [1, 64]",
        ("--shape", "rows=-1"): "is not a size",
        ("--input", "y=none.npy"): "y is not an input of picked",
        ("--input", labels(tmp_path, 1, 2), "--shape", "rows=3"): "dimension 0 of label is 2",
        ("--input", "label=none.npy", "--scheduler", "tcp://none:1"): "leave out one of them",
    }
    for words, why in wrong.items():
        done = autofuse("verify", picked, *words)
        assert done.code == 1
        assert why in done.err


def test_sizes_and_data_are_for_one_graph(
    autofuse: Callable, picked: Path, tmp_path: Path, native: Callable
) -> None:
    other = tmp_path / "other.json"
    fixed = [{"name": "x", "dtype": "float32", "shape": [300, 4000]}]
    other.write_text(json.dumps(native(inputs=fixed, symbols=None)), encoding="utf-8")
    done = autofuse("verify", picked, other, "--shape", "rows=3")
    assert "AF5007: --shape is for one graph, but there are 2" in done.err
    # A graph that is shrunk does not take data for its own sizes.
    np.save(tmp_path / "x.npy", np.zeros((300, 4000), np.float32))
    done = autofuse("verify", other, "--input", f"x={tmp_path / 'x.npy'}")
    assert "AF5007: --input is for the graph's own sizes" in done.err
