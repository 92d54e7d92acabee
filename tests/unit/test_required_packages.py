"""Tests skip where an optional package is missing, and say how to install it."""

import os
import subprocess
import sys
from pathlib import Path

import draws
import extras
import pytest

#: Packages that no test may need without saying so.  ``make test`` installs only onnx of them.
OPTIONAL = ("torch", "triton", "onnx", "distributed", "onnxruntime")
BLOCKED = "import sys\nsys.modules.update(dict.fromkeys({names}))\n"


def run_pytest(
    repo: Path, folder: Path, names: tuple[str, ...], *words: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process where ``names`` cannot be imported, nor in any process it starts."""
    (folder / "sitecustomize.py").write_text(BLOCKED.format(names=names))
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--snapshot-warn-unused",
            *words,
        ],
        cwd=repo,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", ["torch", "triton"])
def test_the_tests_of_the_extras_refuse_to_start_without_a_package(
    repo: Path, tmp_path: Path, name: str
) -> None:
    done = run_pytest(repo, tmp_path, (name,), "--extras", "--co", "tests/unit/twin")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert name in done.stderr
    assert "pip install 'ascend-autofuse[gpu" in done.stderr


@pytest.mark.slow
def test_no_test_fails_without_the_optional_packages(repo: Path, tmp_path: Path) -> None:
    """Run the quick tests of the files that name onnx, or of all files with CORPUS=all.

    ``make test`` itself runs the others without torch, Triton and distributed.
    """
    own = Path(__file__)
    files = [
        str(p)
        for p in sorted((repo / "tests").rglob("test_*.py"))
        if "__snapshots__" not in p.parts and p != own and "onnx" in p.read_text(encoding="utf-8")
    ]
    marks = "not corpus and not slow and not twin"
    if draws.WHOLE:
        files = ["tests", f"--deselect={own.relative_to(repo)}"]
    done = run_pytest(repo, tmp_path, OPTIONAL, "-p", "no:xdist", "-m", marks, *files)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    assert "pip install 'ascend-autofuse[onnx]'" in done.stdout


def test_a_mark_names_a_package_that_an_extra_installs(repo: Path) -> None:
    text = (repo / "pyproject.toml").read_text(encoding="utf-8")
    for extra in extras.EXTRAS.values():
        assert f"\n{extra} = [" in text
