"""Benchmarks say what does not fit their command line before they measure anything."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Those whose figures are in docs/performance.md.
NAMED = (
    "banks.py",
    "choose.py",
    "generate.py",
    "peers.py",
    "tiling_latency.py",
    "timed_vs_model.py",
    "traffic.py",
    "twin.py",
    "validate_model.py",
)


def started(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        ("choose.py", ["--points", "0"], "'0' is not a number from 1 on"),
        ("choose.py", ["--targets", "ascend910b1,x"], "unknown target 'x'; known: ascend310p"),
        ("tiling_latency.py", ["--shapes", "0"], "'0' is not a number from 1 on"),
        ("tiling_latency.py", ["--repeat", "-1"], "'-1' is not a number from 1 on"),
        ("tiling_latency.py", ["--target", "ascend950pr"], "unknown target 'ascend950pr'"),
        ("banks.py", ["nowhere"], "nowhere is no folder"),
        ("banks.py", ["--limit", "0"], "'0' is not a number from 1 on"),
        ("generate.py", ["benchmarks"], "benchmarks: no graph file (*.json) is in it"),
        ("generate.py", ["examples", "--opt=-O9"], "invalid choice: '-O9'"),
        ("generate.py", ["examples", "--repeat", "x"], "'x' is not a number from 1 on"),
    ],
)
def test_words_that_do_not_fit(
    script: str, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    done = started(script, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", NAMED)
def test_every_option_is_explained(script: str) -> None:
    done = started(script, "--help")
    assert done.returncode == 0
    lines = done.stdout.partition("options:\n")[2].splitlines()
    # An option stands two columns in; its explanation in the same line or the next one.
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("  -"):
            explained = "  " in line.strip() or following.startswith("   ")
            assert explained, line
