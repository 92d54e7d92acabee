"""``benchmarks/forms.py``: what it is worth to compare the forms of a graph by the model."""

import json
import subprocess
import sys
from pathlib import Path

import forms
import pytest
from twin_graphs import centred

from autofuse import api
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")


def test_a_form_that_the_estimate_does_not_take() -> None:
    found = forms.compare(api.read(centred(2048, 64)), CHIP)
    assert found is not None
    assert found.forms == 2
    assert found.ratio < 0.7
    summary = forms.total([found], CHIP)
    assert (summary["several_forms"], summary["changed"], summary["slower"]) == (1, 1, 0)


def test_one_that_it_takes_too_is_no_difference() -> None:
    found = forms.compare(api.read(centred(16_384, 64)), CHIP)
    assert found is not None
    assert found.ratio == 1.0
    assert forms.total([found], CHIP)["changed"] == 0


def test_what_it_prints(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps(centred(2048, 64)))
    command = [sys.executable, str(repo / "benchmarks" / "forms.py"), str(tmp_path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "model" in text.splitlines()[0]
    assert "1 take another form" in text
    made = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(made.stdout)["changed"] == 1


@pytest.mark.corpus
def test_no_graph_of_a_sample_of_the_corpus_gets_slower(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))[::25]
    found = [f for p in paths if (f := forms.compare(api.read(p), CHIP)) is not None]
    summary = forms.total(found, CHIP)
    assert summary["several_forms"] > 3
    assert summary["slower"] == 0
