"""The command line as a user has it: a process, its two streams, its exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from command_server import Forks

#: Variables that change what is printed or where things are looked for.
_UNSET = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "ASCEND_HOME_PATH", "TERM")
#: Seconds for a command.
LIMIT_S = 300


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one object on stdout, with the fields that every verb has."""
        found = json.loads(self.out)
        assert found["schema"] == "autofuse.cli/1"
        assert set(found) == {"schema", "verb", "ok", "diagnostics", "result"}
        assert found["ok"] is (self.code == 0)
        return found


@pytest.fixture(scope="session")
def cache_dir(kernel_cache: Path) -> Path:
    return kernel_cache


@pytest.fixture(scope="session")
def _forks() -> Iterator[Forks]:
    with closing(Forks()) as forks:
        yield forks


@pytest.fixture
def autofuse(
    tmp_path: Path, cache_dir: Path, request: pytest.FixtureRequest
) -> Callable[..., Done]:
    """Run ``autofuse`` in an empty folder: in an interpreter of its own where variables are given, else in a fork."""

    def run(*words: object, cwd: Path = tmp_path, **env: str) -> Done:
        environ = {k: v for k, v in os.environ.items() if k not in _UNSET}
        environ = {k: v for k, v in environ.items() if not k.startswith("AUTOFUSE_")}
        environ |= {"AUTOFUSE_CACHE_DIR": str(cache_dir), **env}
        spoken = [str(w) for w in words]
        if not env:
            with TemporaryDirectory() as folder:
                out, err = streams = Path(folder, "out"), Path(folder, "err")
                code = request.getfixturevalue("_forks").run(spoken, cwd, environ, streams, LIMIT_S)
                return Done(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
        done = subprocess.run(
            [sys.executable, "-m", "autofuse", *spoken],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def _native(**changes: Any) -> dict[str, Any]:
    graph: dict[str, Any] = {
        "schema": "autofuse.graph/1",
        "name": "add_one",
        "symbols": {"n": {"min": 1, "max": 65536, "hint": 500}},
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 8]}],
        "nodes": [
            {"name": "add_0", "op": "Add", "inputs": ["x", {"const": 1.0}], "outputs": ["y"]}
        ],
        "outputs": ["y"],
    }
    graph |= changes
    return {k: v for k, v in graph.items() if v is not None}


@pytest.fixture
def native() -> Callable[..., dict[str, Any]]:
    """A small valid graph as a dict; keywords replace members, None removes one."""
    return _native


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A valid graph file."""
    path = tmp_path / "add_one.json"
    path.write_text(json.dumps(_native(), indent=1), encoding="utf-8")
    return path
