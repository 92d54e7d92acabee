"""The variant in Ascend C: the project that is built, and the function that calls it, on the CPU twin."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from extras import required

pytestmark = required("torch")

import torch
from torch_functions import loaded, wrong

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import Definition, define
from autofuse.clients.kernelgen.files.ascendc import ascendc_files
from autofuse.clients.kernelgen.files.generate import four_files, triton_target
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.targets import find_target

ADAMW = Path(__file__).resolve().parents[3] / "examples" / "gallery" / "adamw.json"


def definition_of(graph: api.GraphLike, target: str) -> Definition:
    return define(api.read(graph), find_target(target), requirement="a test")


@pytest.mark.twin
@pytest.mark.slow
def test_the_function_calls_the_library(tmp_path: Path) -> None:
    """AdamW has outputs in place, scalars and inputs of two types."""
    definition = definition_of(ADAMW, "ascend910b1")
    for name, text in ascendc_files(definition).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    folder = tmp_path / "ascendc"
    wrapper = folder / "adamw_ascendc.py"
    function = loaded(wrapper.read_text().replace("__file__", repr(str(wrapper))), "adamw")
    graph, sizes = definition.graph, {"n": 1009}
    inputs = random_inputs(graph, sizes, 1)
    with pytest.raises(FileNotFoundError, match="is not built"):
        wrong(graph, function, inputs, sizes)
    twin = [sys.executable, "-m", "autofuse", "doctor", "--twin-dir"]
    where = subprocess.run(twin, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in (
        ["cmake", "-S", "kernel", "-B", "build", f"-DAUTOFUSE_TWIN_DIR={where.strip()}"],
        ["cmake", "--build", "build"],
    ):
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert not wrong(graph, function, inputs, sizes)
    given = [torch.from_numpy(inputs[x].copy()) for x in graph.inputs]
    given[1] = torch.zeros(2 * 1009)[::2]
    with pytest.raises(ValueError, match="m has strides"):
        function(*given)


def test_the_files_of_a_chip_and_of_a_card() -> None:
    for target in ("ascend910b3", "nvidia-h100", "triton-ascend910b1"):
        files = ascendc_files(definition_of(ADAMW, target))
        assert {Path(f).parts[0] for f in files} == {"ascendc"}
        ast.parse(files["ascendc/adamw_ascendc.py"])
        chip = "ascend910b3" if target == "ascend910b3" else "ascend910b1"
        assert chip in files["ascendc/kernel/adamw.json"]


def test_kernels_in_triton_for_a_chip() -> None:
    assert triton_target("ascend910b1").name == "triton-ascend910b1"
    text = four_files(definition_of(ADAMW, "ascend910b1"))["adamw_triton.py"]
    assert "adamw_items[(min(blocks, 48),)]" in text
    with pytest.raises(
        AutofuseError, match=r"AF5007.*autofuse has no Triton kernels for ascend310p"
    ):
        triton_target("ascend310p")


@pytest.mark.parametrize("name", ["ctypes", "Path", "lru_cache", "torch", "lambda"])
def test_names_that_the_file_uses(name: str) -> None:
    graph = {
        "schema": "autofuse.graph/1",
        "name": name,
        "inputs": [{"name": name, "dtype": "float32", "shape": [8]}],
        "nodes": [{"name": "n", "op": "Exp", "inputs": [name], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    files = ascendc_files(definition_of(graph, "ascend910b1"))
    (text,) = (t for f, t in files.items() if f.endswith("_ascendc.py"))
    tree = ast.parse(text)
    bound = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    bound += [
        a.asname or a.name
        for n in tree.body
        if isinstance(n, ast.Import | ast.ImportFrom)
        for a in n.names
    ]
    assert len(bound) == len(set(bound))
