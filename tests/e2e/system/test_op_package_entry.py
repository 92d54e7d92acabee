"""An operator package on the fake CANN, with the commands of docs/op_package.md: built, installed, called, compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_canns import FakeCann

from autofuse import api
from autofuse.base import programs
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.measure.certificate import certify

GRAPHS = Path(__file__).parents[3] / "tests" / "snapshot" / "graphs"

# Names that mean something in C++, in CANN and in a shell; a size that no input tells; an output in place.
HOSTILE: dict[str, Any] = {
    "schema": "autofuse.graph/1",
    "name": '2D "; int main(){} //\\',
    "symbols": {
        "device": {"min": 0, "max": 4096, "hint": 33},
        "class": {"min": 16, "max": 4096, "hint": 40},
        "rc": {"min": 1, "max": 16, "hint": 5},
    },
    "inputs": [
        {"name": n, "dtype": "float32", "shape": ["class"] if n == "x_out" else ["device", "class"]}
        for n in ("X", "x", "x_out", "executor", "DTYPE_X", 'a"; system("true"); //', "$(id)`id`")
    ],
    "nodes": [
        {"name": "n1", "op": "Add", "inputs": ["X", "x"], "outputs": ["t1"]},
        {"name": "n2", "op": "Add", "inputs": ["t1", "x_out"], "outputs": ["t2"]},
        {"name": "n3", "op": "Mul", "inputs": ["executor", "DTYPE_X"], "outputs": ["t3"]},
        {"name": "n4", "op": "Add", "inputs": ["t3", "$(id)`id`"], "outputs": ["workspace"]},
        {
            "name": "n5",
            "op": "Sub",
            "inputs": ["t2", 'a"; system("true"); //'],
            "outputs": ["t5"],
        },
        {
            "name": "n6",
            "op": "Slice",
            "inputs": ["t5"],
            "outputs": ["int"],
            "attrs": {"starts": [0, 0], "shape": ["device", "rc"]},
        },
    ],
    "outputs": ["workspace", "int", {"name": "X_", "tensor": "t2", "inout": "X"}],
}


def environment(fake: FakeCann) -> dict[str, str]:
    """That of the shell in which somebody follows the page."""
    text = (fake.root / "set_env.sh").read_text(encoding="utf-8")
    assert "ASCEND_HOME_PATH" in text
    cmake = programs.program("cmake")
    assert cmake is not None
    return {
        **os.environ,
        "ASCEND_HOME_PATH": str(fake.root),
        "LD_LIBRARY_PATH": str(fake.root / "lib64"),
        "PATH": f"{Path(cmake).parent}:{os.environ['PATH']}",
    }


def ran(command: list[object], folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        [str(c) for c in command], cwd=folder, env=env, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.twin
@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "passed"),
    [
        pytest.param(HOSTILE, 8, id="hostile names"),
        pytest.param(GRAPHS / "reduce_twice.json", 1, id="workspace and barrier"),
    ],
)
def test_the_page_from_build_to_test(
    graph: Any, passed: int, tmp_path: Path, fake_cann: FakeCann
) -> None:
    built = api.build(graph, entry="op-package")
    folder = tmp_path / "package"
    built.write(folder)
    env = environment(fake_cann)
    # Compiling fast is worth more here than fast code.
    said = ran(["bash", "build.sh", "-DCMAKE_CXX_FLAGS_RELEASE=-O0"], folder, env)
    assert "built build_out/custom_opp_linux_" in said
    opp = tmp_path / "opp"
    said = ran(["bash", "install.sh", opp], folder, env)
    (vendor,) = (opp / "vendors").iterdir()
    assert f"next: source {vendor}/bin/set_env.bash" in said
    ran(["cmake", "-S", "example", "-B", "build_example", f"-DOPP={opp}"], folder, env)
    ran(["cmake", "--build", "build_example"], folder, env)
    words = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "test"]
    assert f"{passed} passed" in ran(words, folder, env)


@pytest.mark.twin
def test_a_package_that_was_not_built_is_not_installed(tmp_path: Path) -> None:
    api.build(GRAPHS / "in_out.json", entry="op-package").write(tmp_path)
    env = {"PATH": os.environ["PATH"]}
    for script, says in (
        ("install.sh", "run build.sh first"),
        ("build.sh", "ASCEND_HOME_PATH does not name the folder of CANN"),
    ):
        done = subprocess.run(
            ["bash", script], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == 1
        assert says in done.stderr


def timed(folder: Path) -> object:
    return api.timed(folder, {})


@pytest.mark.parametrize("load", [api.load, NpuKernel.load, certify, timed])
def test_an_operator_package_is_launched_by_cann_alone(
    load: Callable[[Path], object], tmp_path: Path
) -> None:
    api.build(GRAPHS / "in_out.json", entry="op-package").write(tmp_path)
    assert json.loads((tmp_path / "in_out.json").read_text())["kernelName"] == "in_out"
    with pytest.raises(
        AutofuseError, match=r"AF5007: in_out is an operator package, .* aclnn"
    ) as e:
        load(tmp_path)
    assert "--entry launch" in e.value.diagnostics[0].hint


def test_a_launcher_that_is_missing_is_named() -> None:
    built = api.build(GRAPHS / "in_out.json", target="ascend910b2")
    launcher = "host/in_out_launch.cpp"
    files = {p: t for p, t in built.files.items() if p != launcher}
    with pytest.raises(AutofuseError, match=f"AF5007: in_out has no launcher: {launcher}"):
        NpuKernel(files, built.graph)
