"""Completion by the shell: it knows targets, ops, stages, entries, and what the graph on the line has."""

import json
from pathlib import Path

import pytest

from autofuse.cli import main

GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "my graph/v1",
    "symbols": {"z0": {"max": 999}, "int": {"max": 999}},
    "inputs": [
        {"name": "class", "dtype": "float32", "shape": ["z0", "int"]},
        {"name": "x", "dtype": "float32", "shape": ["int"]},
    ],
    "nodes": [{"name": "a", "op": "Add", "inputs": ["class", "x"], "outputs": ["y"]}],
    "outputs": ["y"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a graph and with a file that is none."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    (tmp_path / "bad.json").write_text("{")
    return tmp_path


def completed(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Completions of the last word of a line, as bash receives them."""
    words = line.split(" ")
    monkeypatch.setenv("_AUTOFUSE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("autofuse ver", ["verify"]),
        ("autofuse build g.json -t ascend950", ["ascend950dt", "ascend950pr"]),
        ("autofuse kernelgen describe g.json -t nvidia-h", ["nvidia-h100", "nvidia-h200"]),
        ("autofuse targets c", ["cpu"]),
        ("autofuse ops Soft", ["Softplus", "Softsign", "Softmax"]),
        ("autofuse ops ReLU", []),
        ("autofuse dump g.json --stage ", ["fusion", "hint", "impl", "kernel", "files"]),
        ("autofuse dump g.json -t cpu --stage ", ["fusion", "hint", "files"]),
        ("autofuse build g.json --entry ", ["launch", "op-package", "torch"]),
        ("autofuse build g.json -t nvidia-h100 --entry ", ["launch", "plain"]),
        ("autofuse build g.json -t none --entry ", []),
        ("autofuse build g.json --flow ", ["akg"]),
        ("autofuse build g.json --flow akg --kernel-json ", ["upstream", "document"]),
        ("autofuse run g.json --shape ", ["z0=", "int="]),
        ("autofuse explain g.json -s i", ["int="]),
        ("autofuse bench g.json --shape z", ["z0="]),
        ("autofuse tune g.json --shape ", ["z0=", "int="]),
        ("autofuse run g.json --input ", ["class=", "x="]),
        ("autofuse dump g.json --template ", ["0", "1"]),
        ("autofuse run bad.json --shape ", []),
        ("autofuse run none.json --shape ", []),
        ("autofuse run . --shape ", []),
    ],
)
def test_a_word_is_completed(
    line: str,
    names: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert completed(line, monkeypatch, capsys) == names
