"""The core stands alone: without clients, the other machines and the loop backends it builds and verifies kernels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import autofuse

pytestmark = [pytest.mark.twin, pytest.mark.slow]

#: Folders and public names of what is no part of the core.
WINGS = (
    "clients",
    *(f"machines/{name}" for name in ("cpu", "gpu", "witness")),
    *(f"codegen/backends/{name}" for name in ("cpu", "triton")),
    *("ascir_api.py", "compile_adapter.py", "models.py", "onnx_backend.py", "pyautofuse.py"),
    "torch.py",
)
#: Unit tests of the core; a run takes the first folders, and all with ``CORPUS=all`` (three minutes).
TESTS = (
    *("schedule/templates", "schedule/placement", "codegen/passes", "implgraph/lowering"),
    *("implgraph", "schedule", "codegen", "targets", "twin"),
)
FIRST = 2
#: A file with one of these looks at a wing.
OTHERS = re.compile(
    r"autofuse\.(clients|machines\.(cpu|gpu|witness)|codegen\.backends\.(cpu|triton))|triton|\"(nvidia|cpu)"
)
#: Runs autofuse, or pytest, from a folder.
RUN = """
import runpy, sys
sys.meta_path[:] = [f for f in sys.meta_path if "skbc" not in type(f).__module__]
sys.path.insert(0, sys.argv[1])
module = sys.argv[2]
del sys.argv[1:3]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package without its wings."""
    root = tmp_path_factory.mktemp("core")
    ignored = shutil.ignore_patterns("__pycache__")
    for source in reversed(autofuse.__path__):
        shutil.copytree(source, root / "autofuse", ignore=ignored, dirs_exist_ok=True)
    for wing in WINGS:
        path = root / "autofuse" / wing
        assert path.exists(), wing
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return root


def run(core: Path, module: str, *words: object, cwd: Path) -> str:
    """Return what a module prints, run from that folder."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, core, module, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_it_builds_and_verifies_on_the_twin(core: Path, repo: Path, tmp_path: Path) -> None:
    graph = repo / "examples" / "demo.json"
    run(core, "autofuse", "build", graph, "-o", "out", cwd=tmp_path)
    assert (tmp_path / "out" / "device" / "demo_kernel.cpp").is_file()
    assert "1 passed" in run(core, "autofuse", "verify", graph, cwd=tmp_path)
    assert "the CPU twin" in run(core, "autofuse", "run", "out", cwd=tmp_path)
    run(core, "autofuse", "explain", graph, cwd=tmp_path)


def test_its_unit_tests_pass(core: Path, repo: Path) -> None:
    some = TESTS[FIRST:] if os.environ.get("CORPUS") == "all" else TESTS[:FIRST]
    files = [
        f
        for folder in some
        for f in sorted((repo / "tests" / "unit" / folder).rglob("test_*.py"))
        if not OTHERS.search(f.read_text(encoding="utf-8"))
    ]
    assert len(files) > 10
    words = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not twin", "--tb=short")
    assert re.search(r"\d{2,} passed", run(core, "pytest", *words, *files, cwd=repo))
