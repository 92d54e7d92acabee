"""A short fuzzing run of every target, the same inputs each time; ``benchmarks/fuzzing/fuzz.py`` runs longer ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

#: Inputs per target, those to start from included: a few seconds each.
RUNS = {"readers": 400, "expr": 1000, "pipeline": 24}
#: The loop that needs no atheris traces lines before Python 3.12, which is slow.
FEWER = 2


def fuzz(repo: Path, target: str, engine: str, runs: int) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(
                sys.executable,
                repo / "benchmarks" / "fuzzing" / "fuzz.py",
                "--json",
                "--target",
                target,
            ),
            *("--engine", engine, "--runs", str(runs), "--seed", "7"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    (row,) = json.loads(done.stdout)["targets"]
    found: dict[str, Any] = row
    return found


def check(row: dict[str, Any], runs: int) -> None:
    findings = [f"{f['finding']}\n{f['details']}\n{f.get('input')}" for f in row["findings"]]
    assert not findings, "\n\n".join(findings)
    assert row["lost"] == 0
    assert row["executions"] >= runs
    assert row["coverage"] > 200
    assert row["corpus"] > 10


@pytest.mark.parametrize("target", RUNS)
def test_fuzz(repo: Path, target: str) -> None:
    check(fuzz(repo, target, "auto", RUNS[target]), RUNS[target])


@pytest.mark.parametrize("target", ["readers", "expr"])
def test_the_loop_that_needs_no_atheris(repo: Path, target: str) -> None:
    runs = RUNS[target] // FEWER
    check(fuzz(repo, target, "own", runs), runs)


def test_findings_are_kept_and_made_smaller(repo: Path, tmp_path: Path) -> None:
    """The harness itself: an exception, a hang and too much memory are told from an answer."""
    program = f"""
import sys, json
sys.path.insert(0, {str(repo / "benchmarks")!r})
from fuzzing import harness
harness.LIMIT_S, harness.LIMIT_RSS_MB = 2.0, 64

def target(data):
    if b"loop" in data:
        while True: pass
    if b"grow" in data:
        bytearray(120 << 20)
    if b"bug" in data:
        raise KeyError("a bug")

h = harness.Harness("t", target)
h.limit()
found = [h.run(b"xx " + w) for w in (b"fine", b"bug", b"loop", b"grow")]
small = harness.minimise(h, b'{{"a": [1, 2, "bug"], "b": 3}}', found[1], 5).decode()
print(json.dumps([found, small]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    (fine, bug, loop, grow), small = json.loads(done.stdout)
    assert fine == ""
    assert bug.startswith("KeyError")
    assert loop.startswith("hang")
    assert grow.startswith("memory")
    assert small == "bug"
