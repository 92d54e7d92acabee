"""Tables for people fit 80 columns, and no name or number in them is torn where there is room for it."""

import io
import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from autofuse import api
from autofuse.commands.graphs.explaining import explain
from autofuse.report.text.console import Screen
from autofuse.report.text.fitting import folded
from autofuse.report.text.kernels.build import print_build
from autofuse.report.text.kernels.explain import print_explanation, print_kernels
from autofuse.report.text.tables import table

ROOT = Path(__file__).parents[2]
GRAPHS = sorted([*(ROOT / "examples").glob("*.json"), *(ROOT / "tests/snapshot/graphs").glob("*")])


def shown(thing, monkeypatch=None, columns="80"):
    """What is printed, on something that is no terminal."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as m:
        m.setenv("COLUMNS", columns)
        screen = Screen(out)
    thing(screen) if callable(thing) else screen.print(thing)
    return out.getvalue()


@pytest.mark.parametrize("path", GRAPHS, ids=lambda p: p.stem)
def test_explain_and_build_fit(path):
    found = explain(path, shapes=[], target="ascend910b1").result
    text = shown(lambda screen: print_explanation(screen, found))
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80
    for r in found["results"]:
        for g in r["groups"]:
            for t in g["templates"]:
                assert f" {t['template']} " in text
            for x in g["rejected"]:
                assert x["title"] in text
    for words in ("dominated", "inf ", "modelled ", "Ceil", "Floor"):
        assert words not in text
    built = api.build(path)
    summary = built.summary() | {
        "seconds": {},
        "experimental": False,
        "written": {},
        "folder": "out",
        "files": [],
        "compiled": {"done": False, "why": "not compiled"},
        "next": "nothing",
    }
    text = shown(lambda screen: print_build(screen, summary, verbose=False))
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("path", GRAPHS, ids=lambda p: p.stem)
def test_kernels_of_a_gpu_fit(path):
    found = explain(path, shapes=[], target="nvidia-h100").result
    text = shown(lambda screen: print_kernels(screen, found))
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80
    assert all(f"\n{k['name']} " in text for k in found["kernels"])


def test_a_column_shrinks_at_words_first():
    out = table("name", "n", "meaning", right=("n",))
    out.add_row("a_name_of_some_length", "12345", "words " * 20)
    out.add_row("b", "1", "short")
    lines = shown(out, columns="50").splitlines()
    assert max(map(len, lines)) <= 50
    assert lines[0] == "name                       n  meaning"
    assert lines[1].startswith("a_name_of_some_length  12345  words words words")
    assert lines[2] == " " * 30 + "words words words"
    assert lines[-1] == "b                          1  short"


def test_a_long_name_is_broken_at_its_marks():
    assert folded("encoder/layer_10/attention/weight", 16) == [
        "encoder/layer_",
        "10/attention/",
        "weight",
    ]
    assert folded("x" * 20, 8) == ["x" * 8, "x" * 8, "x" * 4]
    assert folded("two words", 5) == ["two", "words"]
    # Wide characters take two columns.
    assert folded("張量張量", 4) == ["張量", "張量"]


def test_what_fits_no_table_becomes_blocks():
    columns = [f"column{k}" for k in range(8)]
    out = table(*columns)
    out.add_row(*(f"{k}" * 30 for k in range(8)))
    lines = shown(out, columns="60").splitlines()
    assert lines[0] == f"column0: {'0' * 30}"
    assert lines[1:] == [f"  column{k}: {str(k) * 30}" for k in range(1, 8)]


def test_names_send_nothing_to_the_terminal():
    out = table("name")
    out.add_row("a\x1b[31mb\x07")
    assert shown(out).splitlines() == ["name", "a␛[31mb␇"]
    assert shown(lambda screen: screen.print("x \x1b]0;title\x07")) == "x ␛]0;title␇\n"


def test_a_graph_of_long_names_fits(tmp_path):
    long = "model/encoder_layer_11/self_attention/query_projection/kernel" * 4
    graph = {
        "schema": "autofuse.graph/1",
        "name": "g" * 60,
        "symbols": {"sequence_length_of_the_batch": {"min": 1, "max": 9999}},
        "inputs": [
            {"name": long, "dtype": "float32", "shape": ["sequence_length_of_the_batch", 77]},
            {"name": "b", "dtype": "float32", "shape": [77]},
        ],
        "nodes": [
            {"name": "n", "op": "Add", "inputs": [long, "b"], "outputs": ["t"]},
            {"name": "m", "op": "Softmax", "inputs": ["t"], "outputs": ["y"], "attrs": {"axis": 1}},
        ],
        "outputs": ["y"],
    }
    (tmp_path / "g.json").write_text(json.dumps(graph), encoding="utf-8")
    found = explain(tmp_path / "g.json", shapes=[], target="ascend910b1").result
    text = shown(lambda screen: print_explanation(screen, found))
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80
