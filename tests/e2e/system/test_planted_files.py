"""Commands that run in a folder of planted files: none of them is imported or executed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.twin

#: Modules that a worker needs, of the standard library and of others, and what Python runs at its start.
MODULES = ("numpy", "json", "linecache", "importlib", "encodings", "sitecustomize", "usercustomize")
#: Programs that compiling takes.
PROGRAMS = ("g++", "cc1plus", "as", "ld", "collect2", "cmake", "git", "python3")


@pytest.fixture
def planted(tmp_path: Path, graph: Path) -> Path:
    """The folder of a graph; what is planted in it leaves a file where it is executed."""
    told = tmp_path / "told"
    told.mkdir()
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(told / name)!r}, 'w').close()\n")
    package = tmp_path / "autofuse"
    package.mkdir()
    for name in ("__init__", "__main__", "cli"):
        (package / f"{name}.py").write_text(
            f"open({str(told / 'autofuse')!r}, 'w').close()\n__version__ = '0.0'\n"
        )
    for name in PROGRAMS:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\ntouch {told / name}\nexit 1\n")
        path.chmod(0o755)
    (tmp_path / "kernel_operator.h").write_text("#error planted\n")
    return told


def _autofuse(
    folder: Path, cache: Path, *words: object, **more: str
) -> subprocess.CompletedProcess[str]:
    """The installed command, which does not look into the current folder itself."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("AUTOFUSE_", "PYTHON"))}
    code = "import sys; from autofuse.cli import main; sys.exit(main())"
    # As the script of an installation does: what it imports is not of the current folder.
    script = cache.parent / "autofuse_script.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(code)
    return subprocess.run(
        [sys.executable, script, *map(str, words)],
        cwd=folder,
        env={**environ, "AUTOFUSE_CACHE_DIR": str(cache), **more},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty cache, so that the compiler is called."""
    return tmp_path_factory.mktemp("elsewhere") / "cache"


@pytest.mark.parametrize("words", [("verify",), ("run",), ("build", "-o", "out")])
def test_nothing_of_the_current_folder_is_imported(
    planted: Path, graph: Path, cache: Path, words: tuple[str, ...]
) -> None:
    done = _autofuse(graph.parent, cache, words[0], graph.name, *words[1:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(p.name for p in planted.iterdir()) == []


@pytest.mark.parametrize("place", ["{0}:", "{0}::", ".:{0}"])
def test_nothing_of_the_current_folder_is_executed(
    planted: Path, graph: Path, cache: Path, place: str
) -> None:
    accident = {
        name: place.format(os.environ.get(name, "/nonexistent"))
        for name in ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH")
    }
    path = place.format(os.environ["PATH"])
    if not place.startswith("."):
        path = f":{path}"
    done = _autofuse(graph.parent, cache, "verify", graph.name, PATH=path, **accident)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(p.name for p in planted.iterdir()) == []


def test_many_graphs_at_a_time(planted: Path, graph: Path, cache: Path) -> None:
    """`build` of a folder works in processes of its own."""
    folder = graph.parent / "graphs"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(
            json.dumps({**json.loads(graph.read_text()), "name": name})
        )
    done = _autofuse(graph.parent, cache, "build", "graphs", "-o", "out", "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(p.name for p in planted.iterdir()) == []


@pytest.mark.parametrize("path", ["{0}:", ":{0}", "{0}:."])
def test_a_worker_has_the_modules_of_its_parent_but_for_the_current_folder(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    """The user's own Python takes an empty entry of PYTHONPATH for the current folder."""
    (tmp_path / "here.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.here = True\n")
    named = tmp_path_factory.mktemp("named")
    (named / "jobs.py").write_text(
        "import importlib.util, sys\n"
        "def job(item):\n"
        "    import autofuse\n"
        "    found = importlib.util.find_spec('here')\n"
        "    return [autofuse.__file__, found is not None, hasattr(sys, 'here')]\n"
    )
    (named / "script.py").write_text(
        "import autofuse, json, sys\n"
        "from autofuse.machines.twin.run.worker import WorkerPool\n"
        "sys.path.insert(0, '')\n"
        "with WorkerPool('jobs:job', workers=1) as pool:\n"
        "    print(json.dumps([autofuse.__file__, pool.run(0).value]))\n"
    )
    done = subprocess.run(
        [sys.executable, named / "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path.format(named)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    file, found = json.loads(done.stdout)
    assert found == [file, False, False]


def test_a_folder_that_pythonpath_names_in_full_stays(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("def job(item):\n    return item + 1\n")
    code = (
        "from autofuse.machines.twin.run.worker import WorkerPool\n"
        "with WorkerPool('jobs:job', workers=1) as pool:\n"
        "    print(pool.run(1).value)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "2", done.stderr


def test_python_m_autofuse_imports_nothing_else_of_the_current_folder(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    (graph.parent / "numpy.py").write_text("raise SystemExit('planted')\n")
    (graph.parent / "typer.py").write_text("raise SystemExit('planted')\n")
    done = autofuse("verify", graph)
    assert done.code == 0, done.out + done.err
