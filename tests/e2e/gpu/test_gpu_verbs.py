"""From a graph file to numbers through the library and the command line, for targets of Triton kernels."""

import json
from collections.abc import Callable
from pathlib import Path

import draws
import numpy as np
import pytest
import triton_modules as written
from extras import needs

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.targets import gpu_names

pytestmark = pytest.mark.triton


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "soft.json"
    path.write_text(json.dumps(written.softmax_graph()), encoding="utf-8")
    return path


@pytest.mark.parametrize("target", gpu_names())
def test_a_build_is_verified_and_loaded(target: str) -> None:
    built = api.build(written.softmax_graph(), target=target)
    assert set(built.files) == {"soft_triton.py", "soft.graph.json"}
    assert api.build_split(written.softmax_graph(), target=target).files == built.files
    report = api.verify(built, shapes=[{"rows": 3}, {"rows": 0}], seed=1)
    assert report.ok, report.diagnostics
    rng = draws.rng()
    x, bias = (rng.standard_normal(s).astype(np.float16) for s in ((7, 96), (96,)))
    want = np.exp(x.astype(np.float64) + bias)
    want /= want.sum(-1, keepdims=True)
    assert np.allclose(api.load(built)(x, bias), want, rtol=2e-3, atol=1e-6)


def test_what_the_twin_has_is_refused() -> None:
    built = api.build(written.softmax_graph(), target="nvidia-h100")
    with pytest.raises(AutofuseError, match="AF5007: check_seed is for the CPU twin"):
        api.verify(built, check_seed=1)
    with pytest.raises(AutofuseError, match="AF5007: check is for the CPU twin"):
        api.load(built, check="all")
    with pytest.raises(AutofuseError, match="AF5007: nvidia-h100 has no templates"):
        api.timed(built, {})
    ascend = api.build(written.softmax_graph())
    for call in (api.load, api.verify):
        with pytest.raises(AutofuseError, match="AF5007: check_seed is for the CPU twin"):
            call(ascend, device="cuda", check_seed=1)


def test_verify_as_json(autofuse: Callable, file: Path) -> None:
    done = autofuse("verify", file, "-t", "nvidia-h100", "--shapes", "2", "--json")
    found = done.json()["result"]
    assert (found["target"], found["device"]) == ("nvidia-h100", "cpu")
    (row,) = found["graphs"]
    assert (row["state"], row["keys"], row["cases"]) == ("passed", 0, 2)
    text = autofuse("verify", file, "-t", "nvidia-h100", "--shapes", "2").out
    assert "soft.json: passed, 2 runs, " in text


def test_run_takes_a_graph_or_a_folder(autofuse: Callable, file: Path, tmp_path: Path) -> None:
    built = autofuse("build", file, "-t", "nvidia-h100", "-o", "out")
    assert built.code == 0
    assert "kernel soft for nvidia-h100: " in built.out
    assert f"next: autofuse verify {file} -t nvidia-h100" in built.out
    for words in ((file, "-t", "nvidia-h100"), ("out",)):
        done = autofuse("run", *words, "--shape", "rows=5", "--save", "saved")
        assert done.code == 0, done.err
        assert "soft on Triton's interpreter: rows=5\n" in done.out
        assert np.load(tmp_path / "saved" / "y.npy").shape == (5, 96)
    module = tmp_path / "out" / "soft_triton.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace("    return y", "    return y + 1"), encoding="utf-8")
    done = autofuse("run", "out", "--shape", "rows=5")
    assert done.code == 1
    assert "error AF6001: 480 of 480 elements of output y differ from NumPy" in done.err
    refused = autofuse("run", "out", "--key", "0")
    assert "error AF5007: --key is for the CPU twin" in refused.err


def test_a_folder_of_graphs(autofuse: Callable, file: Path) -> None:
    done = autofuse("build", file.parent, "-t", "nvidia-h100", "-o", "made", "--json")
    assert done.code == 0
    (row,) = done.json()["result"]["graphs"]
    assert (row["state"], row["keys"], row["parts"]) == ("built", 0, 1)


def test_dump_and_explain_name_the_module(autofuse: Callable, file: Path) -> None:
    assert "==> soft_triton.py" in autofuse("dump", file, "-t", "nvidia-h100").out
    done = autofuse("explain", file, "-t", "nvidia-h100", "--shape", "rows=3", "--json")
    assert done.json()["result"]["files"] == ["soft_triton.py"]
    assert done.json()["result"]["sizes"] == {"rows": 3}
    (kernel,) = done.json()["result"]["kernels"]
    assert (kernel["rows"], kernel["cols"], kernel["launched"]) == (3, 96, True)
    text = autofuse("explain", file, "-t", "nvidia-h100").out
    assert f"{kernel['name']}  rows  1024x96" in text
    assert "the kernels are in soft_triton.py" in text
    none = autofuse("explain", file, "-t", "nvidia-h100", "--shape", "rows=0").out
    assert "none" in none
    assert "passes" not in none


@needs("onnx")
def test_a_model_of_several_kernels(autofuse: Callable, tmp_path: Path) -> None:
    import onnx

    h = onnx.helper
    x, y = (h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4, 4]) for n in "xy")
    nodes = [h.make_node("MatMul", ["x", "x"], ["m"]), h.make_node("Relu", ["m"], ["y"])]
    model = h.make_model(h.make_graph(nodes, "g", [x], [y]))
    onnx.save(model, tmp_path / "model.onnx")
    for verb in ("build", "run"):
        done = autofuse(verb, "model.onnx", "-t", "nvidia-h100")
        assert done.code == 0, done.err
        assert "1 in 1 kernel, 1 left out" in done.out


def test_blocks_from_a_file(autofuse: Callable, tmp_path: Path) -> None:
    graph = tmp_path / "fixed.json"
    graph.write_text(json.dumps(written.softmax_graph() | {"symbols": {}}).replace('"rows"', "24"))
    card = (graph, "-t", "nvidia-h100")
    done = autofuse("explain", *card, "--tuning-out", "blocks.json")
    assert done.code == 0, done.err
    blocks = tmp_path / "blocks.json"
    found = json.loads(blocks.read_text())
    (kernel,) = found["kernels"]
    assert kernel["rows"] != 2
    blocks.write_text(json.dumps(found | {"kernels": [{"name": kernel["name"], "rows": 2}]}))
    shown = autofuse("explain", *card, "--tuning", blocks)
    assert "2x128" in shown.out
    assert f"{kernel['name']}: the tuning file gives rows 2" in shown.out
    verified = autofuse("verify", *card, "--tuning", blocks, "--json").json()["result"]
    assert verified["counts"]["passed"] == 1
    built = autofuse("build", *card, "--tuning", blocks, "-o", "out")
    assert built.code == 0, built.err
    assert f"--tuning {blocks}" in built.out.replace("\n", " ")
    assert "ROWS=2, COLS=128" in (tmp_path / "out" / "soft_triton.py").read_text()
    assert autofuse("run", "out").code == 0


def test_where_no_blocks_are_taken(autofuse: Callable, file: Path, tmp_path: Path) -> None:
    card = ("-t", "nvidia-h100", "--tuning", "blocks.json")
    for words, text in (
        (("build", file, *card, "--split"), "leave out --split"),
        (("build", tmp_path, *card), "for one graph"),
        (("verify", file, file, *card), "for one graph"),
        (("verify", file, *card, "--symbolic"), "leave out --symbolic"),
        (("verify", file, *card), "AF1001"),
        (("explain", file, "--tuning-out", "blocks.json"), "for NVIDIA cards"),
        (("explain", file, "-t", "nvidia-h100", "--tuning-out", file), "would overwrite the graph"),
    ):
        done = autofuse(*words)
        assert done.code == 1, words
        assert text in (done.err + done.out), words
    schema = json.loads(autofuse("schema", "--tuning").out)
    assert schema["$defs"]["TuningModel"]["properties"]["kernels"]["type"] == "array"


def test_a_graph_that_is_shrunk_has_other_blocks(autofuse: Callable, tmp_path: Path) -> None:
    large = json.dumps(written.softmax_graph() | {"symbols": {}}).replace('"rows"', "2048")
    graph = tmp_path / "large.json"
    graph.write_text(large)
    card = (graph, "-t", "nvidia-h100")
    assert autofuse("explain", *card, "--tuning-out", "blocks.json").code == 0
    done = autofuse("verify", *card, "--tuning", "blocks.json")
    assert done.code == 1
    assert "AF5007" in done.err
    assert "the folder that build --tuning -o DIR writes" in done.err.replace("\n", " ")
