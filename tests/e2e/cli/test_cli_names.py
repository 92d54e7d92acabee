"""The names of a graph are the interface: those that C++ and Ascend C use otherwise, and those of other formats."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import needs

from autofuse import api

pytestmark = [pytest.mark.sampled(2), pytest.mark.twin]

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
        assert done.symbols == {"gamma": 4, "ge": 2}
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


#: Names that would be something else in C++, CMake, HTML, a path, a shell or a terminal.
ODD = [
    "a b",
    "x;0",
    "w[\u00e9]",
    "onnx::MatMul_12",
    "*/ int main() { //",
    '"; #error "',
    "back\\",
    "what??/",
    "</script><b>",
    "../../up",
    "${HOME} $(id) `id`",
    "a=b",
    "\u5f35\u91cf",
]


def odd_graph() -> dict[str, Any]:
    outputs = [f"y {name}" for name in ODD]
    return {
        "schema": "autofuse.graph/1",
        "name": 'my graph/v1"; */ #error',
        "symbols": {"n": {"min": 1, "max": 64, "hint": 9}},
        "inputs": [{"name": name, "dtype": "float32", "shape": ["n"]} for name in ODD],
        "nodes": [
            {"name": f"n {name}", "op": "Add", "inputs": [name, {"const": 1.0}], "outputs": [y]}
            for name, y in zip(ODD, outputs, strict=True)
        ],
        "outputs": outputs,
    }


def test_names_of_any_characters_hold_outside_of_the_code(
    autofuse: Callable[..., Any], tmp_path: Path
) -> None:
    graph = odd_graph()
    (tmp_path / "g.json").write_text(json.dumps(graph), encoding="utf-8")
    words: list[str] = []
    for k, name in enumerate(ODD):
        np.save(tmp_path / f"{k}.npy", np.full(5, k, np.float32))
        words += ["--input", f"{name}={k}.npy"]
    done = autofuse("run", "g.json", *words, "--save", "saved", "--html", "t.html", "--json")
    assert done.code == 0, done.err
    found = done.json()["result"]
    assert found["name"] == graph["name"]
    assert [o["output"] for o in found["outputs"]] == graph["outputs"]
    assert sorted(float(np.load(p)[0]) for p in (tmp_path / "saved").iterdir()) == [
        float(k + 1) for k in range(len(ODD))
    ]
    assert {p.parent for p in (tmp_path / "saved").rglob("*")} == {tmp_path / "saved"}
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2
    assert "<b>" not in page

    shown = autofuse("show", "g.json", "-o", "g.svg")
    svg = (tmp_path / "g.svg").read_text(encoding="utf-8")
    assert "</script>" not in svg
    assert "w[\u00e9]" in svg
    assert graph["name"] in shown.out
    for name in ODD:
        assert name in shown.out

    assert graph["name"] in autofuse("build", "g.json", "-o", "out").out
    written = {
        p: p.read_text(encoding="utf-8") for p in (tmp_path / "out").rglob("*") if p.is_file()
    }
    for p, text in written.items():
        if p.suffix != ".json" and p.parent.name != "include":
            assert text.isascii(), p
            assert not [x for x in text.splitlines() if x.endswith(("\\", "??/"))], p
            plain = re.sub(r'"(?:[^"\\\n]|\\.)*"', "", text)
            code = [line.partition("//")[0] for line in plain.splitlines()]
            assert not [x for x in code if "int main() {" in x or "</script>" in x], p
    metadata = json.loads((tmp_path / "out" / "my_graph_v1_error.json").read_text(encoding="utf-8"))
    assert metadata["called"] == graph["name"]
    assert metadata["kernelName"] == "my_graph_v1_error"
    assert [i["name"] for i in metadata["inputs"]] == ODD
    done = autofuse("run", "out", "--shape", "n=3", "--json")
    assert [o["output"] for o in done.json()["result"]["outputs"]] == graph["outputs"]

    done = autofuse("run", "g.json", "--input", "nothing=0.npy")
    assert f"nothing is not an input of {graph['name']}" in done.err


@needs("onnx")
def test_a_model_keeps_its_names(autofuse: Callable[..., Any], tmp_path: Path) -> None:
    import onnx

    from tests.support.onnx_models import model, node, value

    long = "w[\u00e9] " + "n" * 300
    made = model(
        [
            node("Add", ["in put;0", long], ["onnx::Add_12"], name="/layer 1/add"),
            node("Mul", ["onnx::Add_12", "in put;0"], ["y\x1b[31m;0"], name="/layer 1/mul"),
        ],
        [value("in put;0", ["batch size", 16]), value(long, [16])],
        ["y\x1b[31m;0"],
    )
    made.graph.name = "my graph/v1"
    onnx.save(made, tmp_path / "m.onnx")
    np.save(tmp_path / "w.npy", np.full(16, 2, np.float32))
    words = ["--input", f"{long}=w.npy", "--shape", "batch size=3"]
    done = autofuse("run", "m.onnx", *words, "--json")
    assert done.code == 0, done.err
    found = done.json()["result"]
    assert (found["name"], found["symbols"]) == ("my graph/v1", {"batch size": 3})
    # What would be a command to a terminal is shown.
    assert [o["output"] for o in found["outputs"]] == ["y\u241b[31m;0"]
    text = autofuse("explain", "m.onnx", "--shape", "batch size=3").out
    assert "\x1b" not in text
    assert text.startswith("kernel my graph/v1 for ")
    assert "onnx::Add_12" in text
    assert "batch size=3" in text
    built = api.build(tmp_path / "m.onnx")
    assert [i["name"] for i in built.metadata["inputs"]] == ["in put;0", long]


@needs("onnx")
def test_control_characters_are_given_as_they_are_and_as_they_are_shown(
    autofuse: Callable[..., Any], tmp_path: Path
) -> None:
    import onnx

    from tests.support.onnx_models import model, node, value

    made = model([node("Exp", ["in\tput"], ["y"])], [value("in\tput", ["batch\nsize", 3])], ["y"])
    onnx.save(made, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.zeros((4, 3), np.float32))
    for tensor, symbol in (("in\tput", "batch\nsize"), ("in put", "batch\u240asize")):
        words = ["--input", f"{tensor}=x.npy", "--shape", f"{symbol}=4"]
        done = autofuse("run", "m.onnx", *words, "--json")
        assert done.json()["result"]["symbols"] == {"batch\u240asize": 4}
        text = autofuse("explain", "m.onnx", "--shape", f"{symbol}=4").out
        assert "batch\u240asize=4" in text


def test_an_info_file_keeps_its_names(tmp_path: Path) -> None:
    def desc(name: str) -> dict[str, Any]:
        return {
            "data_type": "float32",
            "format": "DefaultFormat",
            "shape": [8],
            "tensor_name": name,
        }

    info = {
        "composite": True,
        "composite_graph": "1.2",
        "id": 1,
        "op": "my graph/v1",
        "input_desc": [[desc("in put;0")]],
        "op_desc": [
            {
                "attr": None,
                "impl_path": "",
                "input_desc": [[desc("in put;0")]],
                "name": "Abs",
                "output_desc": [desc("y [\u00e9]")],
            }
        ],
        "output_desc": [desc("y [\u00e9]")],
        "platform": "AKG",
        "process": "aicore",
    }
    path = tmp_path / "g.info"
    path.write_text(json.dumps(info), encoding="utf-8")
    built = api.build(path)
    assert (built.graph.name, built.graph.label) == ("my_graph_v1", "my graph/v1")
    done = api.load(built).run({"in put;0": np.full(8, -2, np.float32)})
    assert done.outputs["y [\u00e9]"].tolist() == [2.0] * 8


@needs("onnx")
def test_a_model_of_several_kernels_keeps_its_names(
    autofuse: Callable[..., Any], tmp_path: Path
) -> None:
    import onnx

    from tests.support.onnx_models import model, node, value

    made = model(
        [
            node("Abs", ["in put;0"], ["onnx::Abs_1"]),
            node("MatMul", ["onnx::Abs_1", "big w"], ["mm 1"]),
            node("Neg", ["mm 1"], ["y [0]"]),
        ],
        [value("in put;0", ["batch size", 4])],
        ["y [0]"],
        constants={"big w": np.eye(4, dtype=np.float32)},
    )
    made.graph.name = "my graph/v1"
    onnx.save(made, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.full((2, 4), -3, np.float32))
    done = autofuse("run", "m.onnx", "--input", "in put;0=x.npy", "--json")
    assert done.code == 0, done.err
    found = done.json()["result"]
    assert (found["name"], found["symbols"]) == ("my graph/v1", {"batch size": 2})
    assert [o["output"] for o in found["outputs"]] == ["y [0]"]
    text = autofuse("run", "m.onnx").out
    assert "my graph/v1 on the CPU twin: batch size=8;" in text
    assert "--shape 'batch size=8'" in text
    assert autofuse("run", "m.onnx", "--shape", "batch size=3").code == 0
    built = autofuse("build", "m.onnx", "-o", "out")
    assert built.out.startswith("model my graph/v1 for ")
    assert "my_graph_v1.model.json" not in built.out
    assert "my_graph_v1.model.json" in autofuse("build", "m.onnx", "-o", "out", "-v").out
    manifest = json.loads((tmp_path / "out" / "my_graph_v1.model.json").read_text("utf-8"))
    assert (manifest["name"], manifest["called"]) == ("my_graph_v1", "my graph/v1")


def test_cuts_and_errors_name_nodes_as_the_graph_does(
    autofuse: Callable[..., Any], tmp_path: Path
) -> None:
    graph = {
        "schema": "autofuse.graph/1",
        "name": "my graph/v1",
        "inputs": [{"name": "x", "dtype": "int64", "shape": [64]}],
        "nodes": [
            {"name": "first node", "op": "Abs", "inputs": ["x"], "outputs": ["t [0]"]},
            {"name": "second;node", "op": "Neg", "inputs": ["t [0]"], "outputs": ["y"]},
        ],
        "outputs": ["y"],
    }
    (tmp_path / "g.json").write_text(json.dumps(graph), encoding="utf-8")
    split = api.build_split(tmp_path / "g.json", cut_after=["first node"])
    assert split.cut_after == ("first node",)
    assert [p.graph.outputs[0].name for p in split.parts] == ["t [0]", "y"]
    done = autofuse("build", "g.json", "--target", "ascend310p", "--json")
    assert done.code == 1
    places = [
        d["where"]["node"] for d in done.json()["diagnostics"] if "node" in d.get("where", {})
    ]
    assert places
    assert set(places) <= {"first node", "second;node"}
