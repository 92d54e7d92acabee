"""``explain``: every template with modelled times, and never a figure that looks measured."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from twin_graphs import every_template

from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.graphs.explaining import explain
from autofuse.targets import load_target


@pytest.fixture
def softmax(tmp_path: Path, native: Callable) -> Path:
    nodes = [
        {"name": "s", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": -1}}
    ]
    made = native(
        name="soft",
        symbols={"n": {"min": 1, "max": 1 << 20, "hint": 1000}, "m": {"min": 1, "max": 4096}},
        inputs=[{"name": "x", "dtype": "float32", "shape": ["m", "n"]}],
        nodes=nodes,
    )
    path = tmp_path / "soft.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    return path


def test_every_output_says_that_it_is_a_model(autofuse: Callable, graph: Path) -> None:
    done = autofuse("explain", graph)
    assert done.code == 0, done.err
    first, note, *_ = done.out.splitlines()
    assert first.startswith("kernel add_one for ascend910b1 at n=500: ")
    assert first.endswith(" us (model)")
    assert note.startswith("model: nothing here was measured")
    found = autofuse("explain", graph, "--json").json()["result"]
    assert found["note"].startswith("model: nothing here was measured")
    assert found["sizes"] == {"n": 500}


def test_templates_have_times_that_add_up_and_ub_that_fits(
    autofuse: Callable, softmax: Path
) -> None:
    found = autofuse("explain", softmax, "-s", "n=3000", "--json").json()["result"]
    (result,) = (r for r in found["results"] if r["chosen"])
    assert result["total_us"] == found["total_us"]
    (group,) = result["groups"]
    (taken,) = (t for t in group["templates"] if t["chosen"])
    assert taken["us"]["total"] == group["us"] == pytest.approx(found["total_us"])
    legal = [t for t in group["templates"] if t["legal"]]
    assert len(legal) >= 2
    for t in legal:
        us = t["us"]
        assert us["total"] >= us["start"] + max(us["mte2"], us["vector"], us["mte3"], us["gm"])
        assert t["bound_us"] <= us["total"]
        assert t["us"]["total"] >= taken["us"]["total"]
        assert sum(b["bytes"] * b["count"] for b in t["ub"]) == t["ub_bytes"] <= t["ub_limit"]
        assert bool(t["lost"]) is not t["chosen"]
        assert t["without_conflict"] <= t["two_operand_calls"]
        left = t["two_operand_calls"] - t["without_conflict"]
        assert len([c for c in t["bank_conflicts"] if c["between"] == "sources"]) >= left
        assert all(c["reason"] for c in t["bank_conflicts"])
        starts = {b["bank"]: b["offset"] for b in t["ub"] if not b["pad"]}
        assert all(at % 512 == bank for bank, at in starts.items() if bank is not None)


def test_a_square_is_named_as_what_no_address_helps(autofuse: Callable, repo: Path) -> None:
    graph = repo / "examples" / "adam_like.json"
    found = autofuse("explain", graph, "--json").json()["result"]
    (template,) = found["results"][0]["groups"][0]["templates"]
    assert (template["two_operand_calls"], template["without_conflict"]) == (5, 4)
    (left,) = template["bank_conflicts"]
    assert left["between"] == "sources"
    assert left["reason"] == "both are the same tensor"
    assert [b["pad"] for b in template["ub"]].count(True) == 1
    text = autofuse("explain", graph).out
    assert "4 of 5 calls with two tensors are free of bank conflicts" in text
    assert "both are the same tensor" in text


def test_where_no_address_helps_the_reason_is_the_chip(autofuse: Callable, repo: Path) -> None:
    """On Ascend 950 an operand has bytes in all groups of banks, whatever room UB has."""
    graph = repo / "examples" / "adam_like.json"
    found = autofuse("explain", graph, "-t", "ascend950pr", "--json").json()["result"]
    (template,) = found["results"][0]["groups"][0]["templates"]
    reasons = {c["reason"] for c in template["bank_conflicts"]}
    assert reasons == {"256 bytes of an operand span all groups of banks"}


def test_what_waits_is_slower_for_that_and_not_for_the_unit_that_grew_a_little(repo: Path) -> None:
    reason, title = "its queues are too short for loads to run ahead", "row (tile z0)"
    graph = repo / "examples" / "gallery" / "swiglu.json"
    with every_template():
        found = explain(graph, shapes=[], target="ascend910b1").result
    (result,) = found["results"]
    (t,) = (t for t in result["groups"][0]["templates"] if t["title"] == title)
    assert re.fullmatch(rf"[\d.]+ % slower by the model than the one taken; {reason}", t["lost"])


def test_what_is_not_legal_and_what_was_rejected_say_why(autofuse: Callable, softmax: Path) -> None:
    found = autofuse("explain", softmax, "-s", "n=1000000", "--json").json()["result"]
    templates = [t for r in found["results"] for g in r["groups"] for t in g["templates"]]
    whole = [t for t in templates if t["template"].startswith("reduce_all")]
    assert whole
    assert all(not t["legal"] and "not legal for these sizes" in t["lost"] for t in whole)
    assert any(t["legal"] and t["chosen"] for t in templates)
    text = autofuse("explain", softmax, "-s", "n=1000000").out
    assert "\nreduce_all (tile z0)" in text
    assert "not legal for these sizes: " in text
    rejected = [r for x in found["results"] for g in x["groups"] for r in g["rejected"]]
    for r in rejected:
        assert r["reason"]
        assert f"\n{r['title']} " in text


def test_the_key_is_the_one_that_runs(autofuse: Callable, softmax: Path) -> None:
    words = ["-s", "n=77", "-s", "m=300"]
    found = autofuse("explain", softmax, *words, "--json").json()["result"]
    ran = autofuse("run", softmax, *words, "--json").json()["result"]
    assert (found["key"], found["keys"]) == (ran["key"], ran["keys"])
    text = autofuse("explain", softmax, *words).out
    assert f"the host function chooses tiling key {ran['key']} of {ran['keys']}" in text
    # What lies in UB has the names of the graph.
    assert re.search(r" TQue 0 VECIN +\d x \d+ +x\n", text)
    assert re.search(r" TBuf 0 VECCALC +\d x \d+ +(scratch|steps of y)\n", text)


def test_several_groups_share_the_head_of_the_kernel(
    autofuse: Callable, tmp_path: Path, native: Callable
) -> None:
    made = native(
        inputs=[
            {"name": "x", "dtype": "float32", "shape": ["n", 8]},
            {"name": "w", "dtype": "float32", "shape": [5, 7]},
        ],
        nodes=[
            {"name": "a", "op": "Exp", "inputs": ["x"], "outputs": ["y"]},
            {"name": "b", "op": "Abs", "inputs": ["w"], "outputs": ["z"]},
        ],
        outputs=["y", "z"],
    )
    path = tmp_path / "two.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    found = autofuse("explain", path, "--json").json()["result"]
    groups = found["results"][0]["groups"]
    assert len(groups) == 2
    both = sum(g["us"] for g in groups) - load_target(found["target"]).kernel_head_us
    assert found["total_us"] == pytest.approx(both)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--shape", "k=3"], "AF1005", "unknown symbol 'k'"),
        (["--shape", "n=0"], "AF5007", "n must be from 1 to 65536"),
        (["--shape", "n=x"], "AF1005", "'x' is not a size"),
        (["--shape", f"n={'9' * 5000}"], "AF1005", "--shape n: no size has 5000 digits"),
        (["--shape", "n"], "AF1005", "expected NAME=VALUE"),
        (["--target", "ascend950"], "AF5006", "did you mean 'ascend950"),
    ],
)
def test_words_that_do_not_fit(
    autofuse: Callable, graph: Path, words: list[str], code: str, message: str
) -> None:
    done = autofuse("explain", graph, *words)
    assert (done.code, done.out) == (1, "")
    assert f"error {code}" in done.err
    assert message in done.err


def test_sizes_that_the_kernel_refuses_have_no_times(
    autofuse: Callable, tmp_path: Path, native: Callable
) -> None:
    made = native(
        symbols={"n": {"min": 0, "max": 9}},
        inputs=[{"name": "x", "dtype": "float32", "shape": [3, "n"]}],
        nodes=[
            {"name": "a", "op": "ArgMax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": 1}}
        ],
    )
    path = tmp_path / "g.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    assert autofuse("explain", path, "-s", "n=1").code == 0
    for verb in ("explain", "run"):
        done = autofuse(verb, path, "-s", "n=0")
        assert done.code == 1
        assert "a is an ArgMax along a dimension of n, which must not be 0" in done.err


def test_the_same_words_give_the_same_bytes(autofuse: Callable, softmax: Path) -> None:
    assert autofuse("explain", softmax).out == autofuse("explain", softmax).out


def test_sizes_that_do_not_fit_are_refused_before_the_graph_is_scheduled(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("the graph was built first")

    monkeypatch.setattr("autofuse.api.build", never)
    for words, code in ((["k=3"], "AF1005"), (["n=0"], "AF5007")):
        with pytest.raises(AutofuseError) as caught:
            explain(graph, shapes=words, target="ascend910b1")
        assert [d.code for d in caught.value.diagnostics] == [code]


def test_a_folder_that_build_wrote_is_explained_and_others_are_no_graph_file(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    autofuse("build", graph, "-o", "out")
    done = autofuse("explain", "out")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("kernel add_one for ascend910b1")
    done = autofuse("show", "out")
    assert (done.code, done.out) == (1, "")
    assert "error AF1001: this folder holds a generated kernel, not a graph file" in done.err
    assert "'autofuse run out' runs it, and times it with --html FILE" in done.err
    done = autofuse("explain", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "error AF1001: this is a folder, not a graph file" in done.err


def test_the_page_says_what_the_text_says_and_needs_nothing_else(
    autofuse: Callable, softmax: Path, tmp_path: Path
) -> None:
    done = autofuse("explain", softmax, "--html", "page.html")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("wrote page.html\n")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    head, note, key, *_ = done.out.splitlines()
    assert f"<h1>{head}</h1>" in page
    assert html.escape(note) in page
    assert key.lower() in page.lower()
    found = autofuse("explain", softmax, "--json").json()["result"]
    (group,) = found["results"][0]["groups"]
    for t in group["templates"]:
        assert t["title"] in page
        assert html.escape(t["lost"]) in page
        parts = ("start", "mte2", "vector", "gm") if t["legal"] else ()
        assert all(f">{t['us'][p]:.2f}<" in page for p in parts)
    assert not re.search(r"<script|https?:|<link|<img", page)


def test_names_are_text_on_the_page(autofuse: Callable, native: Callable, tmp_path: Path) -> None:
    nodes = [{"name": "a", "op": "Abs", "inputs": ["<b>x"], "outputs": ["y"]}]
    inputs = [{"name": "<b>x", "dtype": "float32", "shape": ["n", 8]}]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(native(name="<i>", inputs=inputs, nodes=nodes)), encoding="utf-8")
    done = autofuse("explain", path, "--html", "page.html")
    assert (done.code, done.err) == (0, "")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "kernel &lt;i&gt; for" in page
    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
    assert "<i>" not in page
    done = autofuse("explain", path, "--html", path)
    assert (done.code, done.out) == (1, "")
    assert "error AF1005: " in done.err
