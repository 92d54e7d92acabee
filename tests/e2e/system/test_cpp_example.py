"""The C++ example builds, as its own first lines say, and what it calls is right; and it notices what is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autofuse import api
from autofuse.machines.twin.run.kernel import TwinKernel

pytestmark = [pytest.mark.twin, pytest.mark.slow]

STRICT = "-Wall -Wextra -Wpedantic -Wshadow -Werror"


def tool(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A program, with those of the environment first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(w) for w in words],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


def must(*words: object, cwd: Path | None = None) -> str:
    done = tool(*words, cwd=cwd)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the example was built."""
    folder = tmp_path_factory.mktemp("cpp")
    cli = (sys.executable, "-m", "autofuse")
    must(*cli, "build", repo / "examples" / "add_bias_dynamic.json", "-o", folder / "kernel")
    must(
        *("cmake", "-S", repo / "examples" / "cpp", "-B", folder / "build"),
        f"-DAUTOFUSE_KERNEL_DIR={folder / 'kernel'}",
        f"-DAUTOFUSE_TWIN_DIR={must(*cli, 'doctor', '--twin-dir').strip()}",
        f"-DCMAKE_CXX_FLAGS={STRICT}",
    )
    must("cmake", "--build", folder / "build")
    return folder / "build"


def test_it_calls_the_kernel_and_the_numbers_are_right(built: Path) -> None:
    assert "100% tests passed" in must("ctest", "--test-dir", built)
    library = built / "kernel" / "libadd_bias_dynamic.so"
    lines = must(built / "call_kernel", library).splitlines()
    assert sum(": right, " in line for line in lines) == 7
    (ran,) = (int(x.split()[0]) for x in lines if x.endswith(" template(s): right"))
    assert ran > 1  # the program compares it with the number of keys
    assert "4 threads: right" in lines
    assert "x of [4, 6] with a bias of [5]: 210, input bias does not have the shape [cols]" in lines
    assert "cols of 0: 202, cols is not in [1, 65536]" in lines
    assert must(built / "call_kernel", library, 100, 33).startswith("right, ")


def test_it_notices_a_kernel_that_computes_something_else(built: Path, repo: Path) -> None:
    """The same sizes and names, but x - bias."""
    graph = json.loads((repo / "examples" / "add_bias_dynamic.json").read_text(encoding="utf-8"))
    graph["nodes"][0]["op"] = "Sub"
    wrong = api.load(api.build(graph)).path
    done = tool(built / "call_kernel", wrong, 3, 5)
    assert done.returncode == 1
    assert done.stderr.startswith("element 0 is ")


def test_it_notices_a_library_of_another_graph(built: Path, repo: Path) -> None:
    other = api.load(api.build(repo / "examples" / "abs_test.json")).path
    done = tool(built / "call_kernel", other)
    assert (done.returncode, done.stderr) == (1, "the header is not the one of this library\n")
    assert tool(built / "call_kernel", built / "nothing.so").returncode == 1
    assert tool(built / "call_kernel").returncode == 2


def test_a_kernel_may_have_the_name_of_a_function_of_the_c_library(
    autofuse: Callable, native: Callable, tmp_path: Path
) -> None:
    """Without -Bsymbolic the launcher would call that function, and the output would stay as it was."""
    graph = native(name="send")
    (tmp_path / "send.json").write_text(json.dumps(graph), encoding="utf-8")
    autofuse("build", "send.json", "-o", "out")
    twin = autofuse("doctor", "--twin-dir").out.strip()
    must("cmake", "--preset", "twin", f"-DAUTOFUSE_TWIN_DIR={twin}", cwd=tmp_path / "out")
    must("cmake", "--build", "--preset", "twin", cwd=tmp_path / "out")
    kernel = TwinKernel(tmp_path / "out" / "build" / "twin" / "libsend.so", api.read(graph))
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(3, 8)
    assert np.array_equal(kernel(x), x + np.float32(1))
