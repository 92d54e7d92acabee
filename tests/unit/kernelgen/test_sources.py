"""What a definition is made of: files, lines, graphs; functions of PyTorch are in tests/torch."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from extras import needs

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen import names
from autofuse.clients.kernelgen.defining.definition import Definition
from autofuse.clients.kernelgen.defining.sources import describe


@pytest.fixture
def file(tmp_path: Path, graph_of: Callable[..., dict[str, Any]]) -> Path:
    path = tmp_path / "add.json"
    path.write_text(json.dumps(graph_of()), encoding="utf-8")
    return path


def refused(source: Any, **options: Any) -> tuple[str, str, str]:
    """Code, message and hint."""
    with pytest.raises(AutofuseError) as caught:
        describe(source, **options)
    d = caught.value.diagnostics[0]
    return d.code, d.message, d.hint


def test_a_graph_file(file: Path) -> None:
    for source in (file, str(file)):
        d = describe(source, target="nvidia-h100")
        assert d.requirement == "the file add.json"
        assert (d.name, d.kind, d.device) == ("add", "Pointwise", "nvidia-h100")
        assert [n.op for n in d.graph.nodes] == ["Add"]


def test_the_default_is_the_target_of_builds(file: Path) -> None:
    assert describe(file).device == api.DEFAULT_TARGET


def test_a_graph(graph_of: Callable[..., dict[str, Any]]) -> None:
    d = describe(api.read(graph_of()), target="nvidia-h100")
    assert d.requirement == "the graph add"


def test_an_akg_file(tmp_path: Path) -> None:
    tensor = {"data_type": "float32", "format": "DefaultFormat", "shape": [4, 8]}
    info = {
        "composite": True,
        "op": "Fused_Exp",
        "platform": "AKG",
        "process": "aicore",
        "input_desc": [[{**tensor, "tensor_name": "input_0"}]],
        "output_desc": [{**tensor, "tensor_name": "output_0"}],
        "op_desc": [
            {
                "attr": [],
                "impl_path": "",
                "input_desc": [[{**tensor, "name": "x", "tensor_name": "input_0"}]],
                "name": "Exp",
                "output_desc": [{**tensor, "name": "output", "tensor_name": "output_0"}],
            }
        ],
    }
    path = tmp_path / "Fused_Exp.info"
    path.write_text(json.dumps(info), encoding="utf-8")
    d = describe(path, target="nvidia-h100")
    assert ([n.op for n in d.graph.nodes], d.name) == (["Exp"], "Fused_Exp")
    assert Definition.from_json(d.to_json()) == d


@needs("onnx")
def test_an_onnx_model(tmp_path: Path) -> None:
    import onnx

    helper = onnx.helper
    x = helper.make_tensor_value_info("x", 1, ["batch size", 8])
    y = helper.make_tensor_value_info("y", 1, ["batch size", 8])
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"], axis=-1)], "small", [x], [y]
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), str(path))
    d = describe(path, target="nvidia-h100")
    assert (d.kind, d.requirement) == ("Normalization", "the file small.onnx")
    assert Definition.from_json(d.to_json()) == d


def test_a_line() -> None:
    line = "softmax  over the last axis of\tx float16 [b, 4096], then multiply by mask."
    d = describe(line, target="nvidia-h100")
    assert d.requirement == line
    assert d.description == (
        "softmax over the last axis of x float16 [b, 4096], then multiply by mask. "
        "mask is float16 [b, 4096], the default for operands without a type or shape"
    )


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("nothing.json", "AF1001"),
        ("folder/nothing", "AF1001"),
        ("nothing.onnx", "AF1001"),
        (Path("relu of x float32 [n]"), "AF1001"),
        ("nothing.py", "AF1005"),
        ("", "AF1401"),
        ("frobnicate", "AF1001"),
        ("relu of x", "AF1401"),
        ("\0", "AF1401"),
        ("x" * 5000, "AF1401"),
    ],
)
def test_what_is_no_source(
    source: Any, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, message, hint = refused(source)
    assert found == code
    assert message
    assert hint or code == "AF1001"


def test_a_file_comes_before_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    file.rename(tmp_path / "relu of x float32 [n]")
    assert describe("relu of x float32 [n]", target="nvidia-h100").name == "add"


def test_example_inputs_are_for_functions_only(file: Path) -> None:
    for source in (file, "relu of x float32 [n]"):
        code, message, hint = refused(source, inputs=["x=float32[3]"])
        assert code == "AF1005"
        assert "--input x=float32[3]" in message
        assert "FILE.py:NAME" in hint


def test_options_and_targets_that_are_wrong() -> None:
    line = "relu of x float32 [n]"
    assert refused(line, target="gtx")[0] == "AF5006"
    assert refused(line, rounds=9)[0] == "AF5007"
    assert refused(line, target_speedup=-1.0)[0] == "AF5007"


def test_what_the_target_cannot_compute_is_refused() -> None:
    """No kernel: no definition that promises one."""
    assert (
        refused("sum over the last axis of x float16 [b, 768]", target="ascend310p")[0] == "AF3002"
    )


def test_the_memory_of_the_device_is_that_of_the_test_shapes() -> None:
    line = "relu of x float32 [n]"
    small = describe(line, target="nvidia-h100", memory_bytes=1 << 20)
    assert small.analysis.memory_bytes == 1 << 20
    assert (
        max(p.case.bytes for p in small.analysis.points if p.case.use == "performance") <= 1 << 18
    )
    assert Definition.from_json(small.to_json()) == small


def test_names_of_files() -> None:
    assert names.definition_files("softmax") == ("definition.md", "definition.json")
    document, data = names.definition_files("../x/broadcast", seed_names=True)
    assert document == "x_broadcast算子定义文档.md"
    assert "/" not in document + data
    assert data.endswith(".json")
