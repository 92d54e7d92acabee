"""``benchmarks/families.py``: what the templates for short rows are worth by the model."""

import json
import subprocess
import sys
from pathlib import Path

import families
import forms
import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
PAIRS = graph(
    {"x": ("float32", (1 << 17, 2)), "s": ("float32", (1 << 17, 1))}, [("y", "Mul", ["x", "s"])]
)


def test_pairs_and_long_rows() -> None:
    pairs = families.compare(api.read(PAIRS), CHIP)
    assert pairs is not None
    assert pairs.ratio < 0.2
    rows = graph(
        {"x": ("float32", (4096, 64)), "s": ("float32", (4096, 1))}, [("y", "Mul", ["x", "s"])]
    )
    found = families.compare(api.read(rows), CHIP)
    assert found is not None
    assert found.ratio == 1.0


def test_what_it_prints(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(PAIRS))
    command = [sys.executable, str(repo / "benchmarks" / "families.py"), str(tmp_path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "model" in text.splitlines()[0]
    assert "1 take a template for short rows, 0 of them slower" in text


@pytest.mark.corpus
def test_no_graph_of_a_sample_of_the_corpus_gets_slower(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))[::25]
    found = [f for p in paths if (f := families.compare(api.read(p), CHIP)) is not None]
    summary = forms.total(found, CHIP)
    assert summary["changed"] > 1
    assert summary["slower"] == 0
