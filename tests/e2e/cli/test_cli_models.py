"""ONNX models of several regions from the command line: what is written, what is run, and how it is chosen."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import needs, required

pytestmark = [required("onnx"), pytest.mark.twin]


import onnx
from onnx_models import model, node, value

from autofuse import api

MANIFEST_KEYS = {
    *("schema", "generator", "name", "target", "modelSha256", "opsets", "counts", "symbols"),
    *("inputs", "outputs", "order", "regions", "fallbacks", "parameters"),
    *("known", "renamed", "unused"),
}


@pytest.fixture
def block(tmp_path: Path) -> Path:
    """Two layers: each a product, then what a kernel can do."""
    rng = np.random.default_rng(5)
    held = {n: rng.standard_normal((8, 8)).astype(np.float32) for n in ("w0", "w1")}
    held |= {n: rng.standard_normal(8).astype(np.float32) for n in ("b0", "b1")}
    nodes = []
    for k, x in enumerate(["in/x", "r0"]):
        nodes += [
            node("MatMul", [x, f"w{k}"], [f"m{k}"]),
            node("Add", [f"m{k}", f"b{k}"], [f"a{k}"]),
            node("Tanh", [f"a{k}"], [f"r{k}"]),
        ]
    nodes.append(node("Identity", ["r1"], ["../y"]))
    m = model(nodes, [value("in/x", ["batch", 8])], ["../y"], constants=held)
    path = tmp_path / "block.onnx"
    path.write_bytes(m.SerializeToString())
    return path


def test_build_writes_a_kernel_per_region_and_a_manifest(
    autofuse: Callable[..., Any], block: Path, tmp_path: Path
) -> None:
    done = autofuse("build", block, "-o", "out", "--json")
    found = done.json()["result"]
    assert found["counts"]["regions"] == 2
    assert [f["op"] for f in found["fallbacks"]] == ["MatMul", "MatMul"]
    manifest = json.loads((tmp_path / "out" / "small.model.json").read_text(encoding="utf-8"))
    assert set(manifest) == MANIFEST_KEYS
    assert manifest["order"] == [{"fallback": 0}, {"kernel": 0}, {"fallback": 1}, {"kernel": 1}]
    assert manifest["inputs"] == [{"name": "in/x", "dtype": "float32", "shape": ["batch", 8]}]
    (kernel,) = {r["folder"] for r in manifest["regions"]}
    run = api.load(tmp_path / "out" / kernel)
    x, b = np.ones((3, 8), np.float32), np.arange(8, dtype=np.float32)
    np.testing.assert_allclose(run(x, b), np.tanh(x + b), rtol=1e-5)
    again = autofuse("build", block, "-o", "out", "--json").json()["result"]
    assert not again["written"]["updated"]
    folder = autofuse("run", "out")
    assert (folder.code, "give the model, or" in folder.err) == (1, True)
    text = autofuse("build", block, "-o", "out").out
    assert "matrix multiplication" in text
    assert "Add Tanh" in text


def test_run_compares_with_the_reference(
    autofuse: Callable[..., Any], block: Path, tmp_path: Path
) -> None:
    x = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    args = ("run", block, "--input", "in/x=x.npy", "--save", "saved")
    found = autofuse(*args, "--json").json()["result"]
    assert found["symbols"] == {"batch": 5}
    assert [r["state"] for r in found["regions"]] == ["ok", "ok"]
    assert [r["bytes_moved"] is not None for r in found["regions"]] == [True, True]
    assert found["outputs"][0]["ok"]
    # The name of an output is no path.
    (saved,) = (tmp_path / "saved").iterdir()
    assert found["saved"] == [str(Path("saved") / saved.name)]
    assert np.load(saved).shape == (5, 8)
    text = autofuse("run", block, "--shape", "batch=0").out
    assert "batch=0" in text
    assert "counted by the twin" in text


def test_how_it_is_chosen(autofuse: Callable[..., Any], block: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.onnx"
    m = model([node("Relu", ["x"], ["y"])], [value("x", [4])], ["y"])
    whole.write_bytes(m.SerializeToString())
    assert "templates" in autofuse("build", whole, "-o", "one", "--json").json()["result"]
    several = autofuse("build", whole, "-o", "many", "--partition", "--json").json()["result"]
    assert several["counts"]["inKernels"] == 1
    refused = autofuse("build", block, "--no-partition", "--json").json()
    assert {d["code"] for d in refused["diagnostics"]} == {"AF1201"}
    as_graph = autofuse("build", block, "--split", "--json").json()
    assert {d["code"] for d in as_graph["diagnostics"]} == {"AF1201"}


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("build", "block.onnx", "--partition", "--split"), "--split needs a single kernel"),
        (("run", "block.onnx", "--partition", "--key", "0"), "--key needs a single kernel"),
        (("build", "g.json", "--partition"), "is not one"),
        (("run", "g.json", "--rtol", "0.1"), "--rtol and --atol"),
        (("run", "block.onnx", "--shape", "rows=3"), "rows is not a symbol"),
        (("run", "block.onnx", "--input", "x=no.npy"), "no.npy"),
        (("run", "block.onnx", "--input", "in/x=/dev/null"), "AF1001"),
        (("build", "none.onnx", "--partition"), "AF1001"),
    ],
)
def test_what_does_not_go_together(
    autofuse: Callable[..., Any], block: Path, args: Any, text: str
) -> None:
    assert block.exists()
    autofuse("new", "g")
    done = autofuse(*args)
    assert done.code == 1
    assert text in done.err


@pytest.mark.parametrize(
    ("target", "runs_on"),
    [
        ("cpu", "the CPU"),
        pytest.param("nvidia-h100", "Triton's interpreter", marks=needs("torch", "triton")),
    ],
)
def test_run_for_other_targets(
    autofuse: Callable[..., Any], block: Path, target: str, runs_on: str
) -> None:
    found = autofuse("run", block, "-t", target, "--shape", "batch=3", "--json").json()
    result = found["result"]
    assert found["ok"]
    assert (result["target"], result["runs_on"]) == (target, runs_on)
    assert [r["state"] for r in result["regions"]] == ["ok", "ok"]
    assert {f["reference"] for f in result["fallbacks"]} == {"onnx.reference"}
    assert [o["shape"] for o in result["outputs"]] == [[3, 8]]


def test_build_for_a_card_has_the_name_of_the_file(
    autofuse: Callable[..., Any], block: Path, tmp_path: Path
) -> None:
    m = onnx.load(block)
    m.graph.name = "main_graph"
    onnx.save(m, tmp_path / "two_layers.onnx")
    done = autofuse("build", "two_layers.onnx", "-t", "nvidia-h100", "-o", "out")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("model two_layers for nvidia-h100: ")
    assert "generated: Triton compiles each kernel on its first call" in done.out
    manifest = json.loads((tmp_path / "out" / "two_layers.model.json").read_text(encoding="utf-8"))
    assert manifest["target"] == "nvidia-h100"
    (kernel,) = {r["folder"] for r in manifest["regions"]}
    assert list((tmp_path / "out" / kernel).glob("*_triton.py"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("-t", "cpu", "--check", "all"), "--check is for the CPU twin"),
        (("-t", "cpu", "--device", "cuda"), "this machine's CPU, not on cuda"),
        (("-t", "nvidia-h100", "--device", "npu"), "kernels run on cpu, cuda or cuda:N"),
    ],
)
def test_options_that_do_not_go_with_a_target(
    autofuse: Callable[..., Any], block: Path, words: tuple[str, ...], why: str
) -> None:
    done = autofuse("run", block, *words)
    assert done.code == 1
    assert why in done.err
