"""``ops``: the table of all ops, the page of one, and what other verbs say that leads there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.api import build
from autofuse.commands.graphs.op_list import ops
from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.registry import all_ops
from autofuse.report.text.ops import file_text


def test_the_table_has_every_op_on_80_columns(autofuse: Callable) -> None:
    done = autofuse("ops", COLUMNS="80")
    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    listed = {line.split()[0] for line in done.out.splitlines()[1:] if line[:1].strip()}
    assert {r.name for r in all_ops(user=True)} <= listed
    assert "Muls" not in listed


def test_the_table_as_json(autofuse: Callable) -> None:
    rows = {r["name"]: r for r in autofuse("ops", "--json").json()["result"]["ops"]}
    assert set(rows) == {r.name for r in all_ops(user=True)}
    assert rows["AddN"]["inputs"] == [1, None]
    assert rows["Ln"]["aliases"] == ["Log"]
    assert rows["Softmax"]["attributes"] == [
        {
            "name": "axis",
            "kind": "int",
            "required": True,
            "default": None,
            "meaning": "the dimension; a negative one counts from the end",
        }
    ]


def test_the_page_of_an_op_has_what_one_needs_to_write_it(autofuse: Callable) -> None:
    found = autofuse("ops", "Silu", "--json").json()["result"]
    assert found["aliases"] == ["Swish"]
    (alpha,) = found["attributes"]
    assert (alpha["name"], alpha["required"], alpha["default"]) == ("alpha", False, 1.0)
    chips = {t: c["dtypes"] for c in found["chips"] for t in c["targets"]}
    assert chips["ascend910b1"]["float16"] == "wider"
    assert chips["ascend310p"]["bfloat16"] == "-"
    assert chips["ascend950pr"] == chips["ascend950dt"]
    assert chips["ascend950pr"].keys() == chips["ascend910b1"].keys()
    text = autofuse("ops", "Swish").out
    for word in ("Silu", "alpha", "1.0", "5 units in the last place", "ascend310p", '"op": "Silu"'):
        assert word in text


@pytest.mark.parametrize("name", ["Softmax", "Slice", "LaguerrePolynomialL", "Select"])
def test_the_example_on_the_page_is_a_file_that_builds(
    autofuse: Callable, tmp_path: Path, name: str
) -> None:
    out = autofuse("ops", name, COLUMNS="80").out
    assert max(map(len, out.splitlines())) <= 80
    path = tmp_path / "example.json"
    path.write_text(out[out.index("{\n") :], encoding="utf-8")
    assert autofuse("build", path).code == 0


@pytest.mark.parametrize("row", all_ops(user=True), ids=lambda r: r.name)
def test_the_example_of_every_op_builds(row: OpDef, tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    path.write_text(file_text(ops(row.name).result["example"]), encoding="utf-8")
    assert [n.op for n in build(path).graph.nodes] == [row.name]


def test_the_text_of_an_example_is_the_example() -> None:
    node = {"op": "b" * 99, "inputs": ["x"], "attrs": {"axis": [1]}}
    graph = {"name": "a", "nodes": [node], "outputs": ["y"]}
    assert json.loads(file_text(graph)) == graph


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Sofmax", "did you mean 'Softmax'? 'autofuse ops Softmax' describes it"),
        ("MatMul", "autofuse makes vector kernels: call a library for this op"),
        ("Qqqq", "'autofuse ops' lists the ops"),
        ("Muls", 'write {"const": 2.0} as an input of Mul'),
    ],
)
def test_an_unknown_op(autofuse: Callable, name: str, hint: str) -> None:
    done = autofuse("ops", name)
    assert (done.code, done.out) == (1, "")
    assert f"error AF1201: the op '{name}' is not known" in done.err
    assert hint in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"op": "ReduceSomething"}, "AF1201"),
        ({"inputs": ["x", "x"]}, "AF1202"),
        ({"attrs": {}}, "AF1205"),
        ({"attrs": {"axis": "one"}}, "AF1205"),
        ({"attrs": {"axis": 1, "zzz": 2}}, "AF1205"),
    ],
)
def test_a_node_that_is_written_wrong_leads_to_the_op(
    autofuse: Callable, native: Callable, tmp_path: Path, changes: dict, code: str
) -> None:
    node = {"name": "s", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": 1}}
    path = tmp_path / "g.json"
    path.write_text(json.dumps(native(nodes=[node | changes])), encoding="utf-8")
    (found,) = autofuse("build", path, "--json").json()["diagnostics"]
    assert found["code"] == code
    assert "autofuse ops" in found["hint"]
    assert ("'autofuse ops Softmax'" in found["hint"]) is (code != "AF1201")
