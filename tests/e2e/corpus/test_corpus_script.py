"""``benchmarks/corpus/corpus.py``: what it counts when every graph runs in several orders of instructions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.twin, pytest.mark.slow]


def corpus(repo: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, repo / "benchmarks" / "corpus" / "corpus.py", *words, "--jobs", "1"],
        env={**os.environ, "AUTOFUSE_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_graph_runs_once_for_each_check_seed(repo: Path, tmp_path: Path) -> None:
    words = ("--limit", "2", "--check-seed", "3", "--check-seed", "0", "--check-seed", "3")
    done = corpus(repo, tmp_path, str(repo / "examples"), *words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["files"] == 2
    assert found["summary"]["check_seeds"] == [0, 3]
    assert found["summary"]["states"] == {"passed": 4}
    rows = [(r["path"], r["check_seed"]) for r in found["rows"]]
    assert [seed for _, seed in rows] == [3, 0, 3, 0]
    assert rows[0][0] == rows[1][0] != rows[2][0] == rows[3][0]


def test_text_names_the_orders(repo: Path, tmp_path: Path) -> None:
    done = corpus(repo, tmp_path, str(repo / "examples"), "--limit", "1", "--check-seed", "5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 files, each with --check-seed 5: 1 passed\n")
