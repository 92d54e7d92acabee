"""The comparison with peers runs without them and says how to install them; its times are not judged."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.twin

GENERATORS = [
    "autofuse",
    "Inductor",
    "autofuse build, process",
    "bishengir-compile, process",
]
#: What stands in for bishengir-compile: it writes what it was told to.
COMPILER = """\
#!{python}
import sys
from pathlib import Path
if sys.argv[1:] == ["--version"]:
    print("bishengir-compile 0.0 (none)")
    sys.exit()
(folder,) = [a.partition("=")[2] for a in sys.argv if a.startswith("--save-temps=")]
Path(folder).mkdir(exist_ok=True)
Path(folder, "module.hivm.opt.mlir").touch()
"""

COUNTS = ("--repeat", "2", "--processes", "1")


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "peers" / "peers.py", *COUNTS, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_table_without_peers() -> None:
    done = run("--case", "abs 200")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "Milliseconds: median / p95 / min of 2 repetitions, or 1 processes; autofuse "
    )
    times = [line for line in lines if line.startswith("| abs 200 x 200 |")]
    assert [t.split("|")[2].strip() for t in times] == GENERATORS
    (columns,) = {t.count("|") for t in (lines[2], lines[3], *times)}
    assert columns == 9
    for place in (1, 3):
        assert times[place].split("|")[3].strip() == "not installed"
    how = [line for line in lines if " is not installed: " in line]
    assert len(how) == 2
    assert "pip install torch==2.13.0" in how[0]
    assert "pip install --target B ascendnpu-ir" in how[1]


def test_json_with_a_compiler(tmp_path: Path) -> None:
    program = tmp_path / "bishengir-compile"
    program.write_text(COMPILER.format(python=sys.executable))
    program.chmod(0o755)
    done = run("--case", "abs 200", "--json", "--bishengir", program)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "autofuse.benchmark.peers/1"
    assert (found["repeat"], found["processes"]) == (2, 1)
    rows = {r["generator"]: r for r in found["rows"]}
    assert list(rows) == GENERATORS
    for name in ("autofuse", "autofuse build, process", "bishengir-compile, process"):
        assert rows[name]["status"] == "measured"
        for clock in ("wall_ms", "cpu_ms"):
            times = rows[name][clock]
            assert 0 < times["min"] <= times["median"] <= times["p95"]
    assert rows["autofuse"]["first_ms"]["wall"] > 0
    theirs = rows["bishengir-compile, process"]
    assert theirs["version"] == "bishengir-compile 0.0"
    wall = [rows[n]["wall_ms"]["median"] for n in (GENERATORS[3], GENERATORS[2])]
    assert theirs["ratio"]["wall"] == pytest.approx(wall[0] / wall[1])


def test_a_peer_that_fails_is_a_row(tmp_path: Path) -> None:
    program = tmp_path / "bishengir-compile"
    program.write_text("#!/bin/sh\necho 'x.mlir: error: too large' >&2\nexit 1\n")
    program.chmod(0o755)
    done = run("--case", "abs 200", "--bishengir", program, "--torch-python", tmp_path / "none")
    assert done.returncode == 0, done.stderr
    assert (
        "bishengir-compile, process fails on abs 200 x 200: x.mlir: error: too large" in done.stdout
    )
    assert "Inductor fails on abs 200 x 200: " in done.stdout


def test_a_python_without_torch_is_said_to_be_one(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
    bare.chmod(0o755)
    done = run("--case", "abs 200", "--torch-python", bare)
    assert done.returncode == 0, done.stderr
    assert "Inductor is not installed: No module named 'torch'" in done.stdout


def test_an_unknown_graph_is_refused() -> None:
    done = run("--case", "no such graph")
    assert done.returncode == 2
    assert "no graph has" in done.stderr
