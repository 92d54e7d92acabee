"""The four files of operators, run: kernels against NumPy, tests in both forms, in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import draws
import pytest
from extras import needs
from triton_checks import ELEMENTS, TARGET, small

from autofuse import api
from autofuse.clients.kernelgen.defining.definition import define
from autofuse.clients.kernelgen.files.generate import four_files
from autofuse.machines.twin.oracle.sizes import shapes_for
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import verify_in_subprocess
from autofuse.targets import find_target

pytestmark = [pytest.mark.sampled(2), pytest.mark.triton]

REPO = Path(__file__).resolve().parents[3]
GALLERY = sorted((REPO / "examples" / "gallery").glob("*.json"))
WORKER = REPO / "tests" / "support" / "bench_worker.py"
#: Of the gallery those that take the interpreter little time, of several forms.
QUICK = ("adamw", "embedding_gather", "rms_norm_residual")

SMALL: Mapping[str, Any] = {
    "schema": "autofuse.graph/1",
    "name": "scaled",
    "symbols": {"n": {"min": 0, "max": 65536}},
    "inputs": [
        {"name": "x", "dtype": "float16", "shape": ["n", 12]},
        {"name": "w", "dtype": "float16", "shape": [12]},
        {"name": "i", "dtype": "int32", "shape": ["n"]},
    ],
    "nodes": [
        {"name": "p", "op": "Mul", "inputs": ["x", "w"], "outputs": ["y"]},
        {"name": "g", "op": "Gather", "inputs": ["w", "i"], "outputs": ["z"], "attrs": {"axis": 0}},
    ],
    "outputs": ["y", "z"],
}


def files_of(graph: api.GraphLike, **options: Any) -> dict[str, str]:
    return four_files(define(api.read(graph), find_target(TARGET), requirement="test"), **options)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_plain_kernels_agree_with_numpy(interpreter: WorkerPool, path: Path) -> None:
    seed = draws.seed()
    built = api.build(small(api.read(path)), target=TARGET, entry="plain")
    (text,) = (t for f, t in built.files.items() if f.endswith(".py"))
    assert "Launcher" not in text
    bindings = shapes_for(built.graph, 3, seed, max_elements=ELEMENTS)
    report = verify_in_subprocess(
        built.files, built.graph, pool=interpreter, bindings=bindings, seed=seed
    )
    assert report.ok, f"seed {seed}: {report.diagnostics}"


@needs("torch", "triton")
@pytest.mark.slow
def test_tests_in_the_form_of_kernelgen(tmp_path: Path) -> None:
    paths = [p for p in GALLERY if p.stem in QUICK]
    folders = [written(tmp_path / p.stem, files_of(p)) for p in paths]
    folders.append(written(tmp_path / "scaled", files_of(SMALL)))
    done = run(WORKER, *folders)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stdout + done.stderr


@needs("torch", "triton")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tl.store(y_ptr", "tl.store(y_ptr + 1", "not close"),
        ("x = x.contiguous()", "x = x.contiguous() * 2", "not close"),
        ("dtype=torch.float16", "dtype=torch.float32", "torch.float32, not torch.float16"),
    ],
)
def test_a_wrong_kernel_is_found(tmp_path: Path, old: str, new: str, message: str) -> None:
    files = files_of(SMALL)
    assert old in files["scaled_triton.py"]
    files["scaled_triton.py"] = files["scaled_triton.py"].replace(old, new)
    done = run(WORKER, written(tmp_path / "scaled", files))
    assert message in done.stdout


@needs("torch", "triton")
@pytest.mark.slow
def test_scripts_in_the_form_of_the_document(tmp_path: Path) -> None:
    folder = written(tmp_path / "scaled", files_of(SMALL, names="document"))
    done = run("scaled_accuracy.py", "--device", "cpu", "--verbose", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Testing Scaled Accuracy..."
    assert lines[1].startswith("Shape: (")
    assert any(line.startswith("✓ Test passed: max_diff = ") for line in lines)
    assert lines[-1] == "All accuracy tests passed!"
    broken = (folder / "scaled_baseline.py").read_text().replace("x * w", "x * w * 2")
    (folder / "scaled_baseline.py").write_text(broken)
    done = run("scaled_accuracy.py", "--device", "cpu", cwd=folder)
    assert done.returncode == 1
    assert "Test failed: max_diff = " in done.stderr


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_the_performance_script_runs_where_there_is_no_card(tmp_path: Path, device: str) -> None:
    folder = written(tmp_path / "scaled", files_of(SMALL, names="document"))
    done = run("scaled_performance.py", "--device", device, cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    taken = [x for x in lines if "falling back" in x]
    assert taken == ([] if device == "cpu" else ["No npu found: falling back to --device cpu."])
    assert any("interprets the kernel" in x and "not times of a device" in x for x in lines)
    assert sum(x.startswith("Triton time: ") for x in lines) == 5
    assert lines[-1] == "All performance tests completed!"


@needs("torch", "triton")
def test_arguments_of_any_layout(tmp_path: Path) -> None:
    """Copies are made of inputs that are not contiguous; what is overwritten has to be."""
    graph = {
        "schema": "autofuse.graph/1",
        "name": "added",
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [4, 6]},
            {"name": "y", "dtype": "float32", "shape": [4, 6], "strides": [8, 1]},
            {"name": "z", "dtype": "float32", "shape": [4, 6]},
        ],
        "nodes": [
            {"name": "a", "op": "Add", "inputs": ["x", "y"], "outputs": ["s"]},
            {"name": "b", "op": "Add", "inputs": ["s", "z"], "outputs": ["t"]},
        ],
        "outputs": [{"name": "z2", "tensor": "t", "inout": "z"}],
    }
    folder = written(tmp_path / "added", files_of(graph))
    script = """
import torch
from added_triton import added
from added_baseline import added as baseline
x, y, z = torch.randn(6, 4).T, torch.randn(4, 6), torch.randn(4, 6)
want = x + y + z
for given in (y, torch.empty(4, 8)[:, :6].copy_(y)):
    for f in (added, baseline):
        z2 = z.clone()
        made = f(x, given, z2)
        assert made is z2
        torch.testing.assert_close(made, want)
for wrong in ((x, y, z.T.contiguous().T), (x[:3], y, z), (x.double(), y, z)):
    try:
        added(*wrong)
    except ValueError as e:
        print(e)
"""
    (folder / "use.py").write_text(f"import os\nos.environ['TRITON_INTERPRET'] = '1'\n{script}")
    done = run("use.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("z has strides")
    assert said[1] == "x is torch.float32(3, 6), not float32(4, 6)"
    assert said[2] == "x is torch.float64(4, 6), not float32(4, 6)"
