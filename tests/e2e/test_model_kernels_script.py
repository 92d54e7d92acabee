"""``benchmarks/model_kernels.py``: modelled times of kernels as large models have them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import model_kernels

from autofuse import api


def run(repo: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repo / "benchmarks" / "model_kernels.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_names_tell_the_kernels_apart() -> None:
    names = [g["name"] for g in model_kernels.graphs()]
    assert len(set(names)) == len(names) >= 80
    for g in model_kernels.graphs():
        assert api.read(g).name == g["name"]


def test_what_it_prints(repo: Path) -> None:
    lines = run(repo, "--only", "rms_norm_8192_4096").stdout.splitlines()
    assert "model" in lines[0]
    assert "nothing is measured" in lines[0]
    assert len(lines) == 5  # two lines of titles, three types


def test_no_kernel_is_faster_than_its_bytes(repo: Path) -> None:
    found = json.loads(run(repo, "--only", "sums_of", "--json").stdout)
    assert len(found["kernels"]) == 16
    assert all(k["us"] > k["gm_us"] > 0 for k in found["kernels"])


def test_a_word_that_no_kernel_has(repo: Path) -> None:
    done = run(repo, "--only", "convolution")
    assert done.returncode == 2
    assert "convolution" in done.stderr
