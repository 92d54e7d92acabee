"""The trial of the real client says why it does nothing where the client, or torch, is missing."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("arguments", [[], ["--client", "nowhere"], ["--client", "."]])
def test_without_a_client(repo: Path, tmp_path: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(repo / "benchmarks" / "clients" / "torchair_client.py"), *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("skipped: there is no checkout of the client")


def test_without_torch(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "python" / "inductor_npu_ext").mkdir(parents=True)
    program = (
        "import importlib.util, runpy, sys\n"
        "importlib.util.find_spec = lambda name: None\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    script = str(repo / "benchmarks" / "clients" / "torchair_client.py")
    done = subprocess.run(
        [sys.executable, "-c", program, script, "--client", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "skipped: torch is not installed for this Python\n"
