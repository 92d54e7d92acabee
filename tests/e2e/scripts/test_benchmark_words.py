"""Every option of a benchmark has an explanation."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Those whose figures are in docs/performance.md and docs/verification.md.
NAMED = (
    "model/timed_vs_model.py",
    "model/traffic.py",
    "model/validate_model.py",
    "peers/peers.py",
    "speed/generate.py",
    "speed/twin.py",
    "tiling/choose.py",
    "tiling/tiling_latency.py",
)


def started(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("script", NAMED)
def test_every_option_is_explained(script: str) -> None:
    done = started(script, "--help")
    assert done.returncode == 0
    lines = done.stdout.partition("options:\n")[2].splitlines()
    # An option stands two columns in; its explanation in the same line or the next one.
    options = 0
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("  -"):
            explained = "  " in line.strip() or following.startswith("   ")
            assert explained, line
            options += 1
    # --help is one that every script has.
    assert options >= 2
