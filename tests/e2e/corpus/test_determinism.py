"""The generator is a pure function: another process, folder, hash seed and order change no byte."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GENERATE = """
import sys
from pathlib import Path
from autofuse import api

for name in sys.argv[2:]:
    api.build(Path("graphs") / name, target=sys.argv[1]).write(Path("out") / Path(name).stem)
"""


def graphs(repo: Path) -> list[Path]:
    found = [*(repo / "tests" / "snapshot" / "graphs").glob("*.json")]
    found += [p for p in (repo / "examples").glob("*.json") if p.name != "abs_test.json"]
    return sorted(found, key=lambda p: p.name)


def start(
    folder: Path, target: str, paths: list[Path], seed: str, **env: str
) -> "subprocess.Popen[str]":
    """Generate everything from copies of the graphs in ``folder``."""
    (folder / "graphs").mkdir(parents=True)
    for p in paths:
        shutil.copy(p, folder / "graphs")
    return subprocess.Popen(
        [sys.executable, "-c", GENERATE, target, *(p.name for p in paths)],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": seed, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("target", ["ascend910b1", "nvidia-h100"])
def test_two_processes_write_the_same_bytes(target: str, repo: Path, tmp_path: Path) -> None:
    paths = graphs(repo)
    one, two = tmp_path / "one", tmp_path / "another" / "place"
    runs = [
        start(one, target, paths, "0"),
        start(two, target, paths[::-1], "4242", TZ="Asia/Tokyo", LC_ALL="C", COLUMNS="40"),
    ]
    for run in runs:
        text, _ = run.communicate(timeout=300)
        assert run.returncode == 0, text
    first, second = tree(one / "out"), tree(two / "out")
    assert {Path(f).parts[0] for f in first} == {p.stem for p in paths}
    assert first.keys() == second.keys()
    assert [f for f in first if first[f] != second[f]] == []
    # Nothing says where, when or by whom it was made.
    words = [str(tmp_path), str(repo), str(Path.home())]
    for file, data in first.items():
        assert not [w for w in words if w != "/" and w.encode() in data], file
