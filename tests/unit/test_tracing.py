"""``AUTOFUSE_TRACE``: every pass and every candidate, as text and as a page; nothing of it where it is off."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.cli import app
from autofuse.codegen.passes import PIPELINE as KERNEL_PASSES
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.simplify.canonicalise import PIPELINE
from autofuse.report.pages.build_trace_page import trace_page
from autofuse.report.text.ir.build_trace import LINES, STEP_LINES, BuildTrace, trace_text
from autofuse.schedule.axes.result import Verdict

ROOT = Path(__file__).resolve().parents[2]
GRAPH = ROOT / "tests" / "snapshot" / "graphs" / "softmax.json"
STEPS = ("narrow", "recognise", "decompose", "outer-first", "split-reductions", "loops")
HOSTILE = 'x</pre><script>alert("1")</script>\x1b[31m\u202e'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def traced(graph: Any) -> BuildTrace:
    trace = BuildTrace()
    api.observed(graph, trace)
    return trace


def hostile() -> FusionGraph:
    graph = api.read(GRAPH)
    (node,) = graph.nodes
    (y,) = node.outputs
    tensors = {"x": graph.tensors["x"], HOSTILE: replace(graph.tensors[y], name=HOSTILE)}
    return replace(
        graph,
        name=HOSTILE,
        nodes=(replace(node, outputs=(HOSTILE,)),),
        outputs=(replace(graph.outputs[0], tensor=HOSTILE),),
        tensors=tensors,
    )


def page_of(err: str) -> Path:
    found = re.fullmatch(r"trace: (.*\.trace\.html)\n", err)
    assert found
    return Path(found[1])


def test_nothing_is_said_where_it_is_off(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BuildTrace, "__init__", lambda self: pytest.fail("a trace was begun"))
    api.build(GRAPH)
    assert capsys.readouterr() == ("", "")
    assert not cache.exists()


def test_text_names_every_pass_and_is_the_same_each_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = api.build(GRAPH)
    monkeypatch.setenv("AUTOFUSE_TRACE", "text")
    assert api.build(GRAPH) == plain
    out, text = capsys.readouterr()
    assert out == ""
    for title in (
        *(f"lower: {name}" for name in STEPS),
        *(f"simplify: {p.name}: no change" for p in PIPELINE),
        *(f"passes: {type(p).__name__}" for p in KERNEL_PASSES),
        "schedule: legalise group 0",
        "schedule: candidates of group 0",
    ):
        assert f"\n{title}" in text, title
    assert "  -y: float32[400, 77] = Softmax(x, axis=-1)\n" in text
    assert "  +y: float32[400, 77] = Div(softmax_exp, softmax_reducesum)\n" in text
    assert re.search(r"\n  kept      softmax_0_reduce_all\w+: \d+ cycles \(model\)\n", text)
    assert "0x" not in text
    api.build(GRAPH)
    assert capsys.readouterr().err == text


def test_candidates_have_reasons_and_costs() -> None:
    graph = ROOT / "tests/snapshot/graphs/column_sums.json"
    verdicts = [v for s in traced(graph).steps for v in s.candidates]
    kept = [v for v in verdicts if not v.reason]
    slower = [v for v in verdicts if v.reason.startswith("never the fastest on the grid of ")]
    others = [v for v in verdicts if v.reason.startswith(("never more than ", "not legal at any "))]
    assert kept
    assert slower
    assert sorted(kept + slower + others, key=repr) == sorted(verdicts, key=repr)
    assert all(v.cycles for v in verdicts)
    assert f"rejected  {slower[0].template}: " in trace_text(traced(graph), "chip")


def test_forms_are_told_apart() -> None:
    titles = [s.title for s in traced(ROOT / "tests/snapshot/graphs/column_sums.json").steps]
    assert "simplify: form 1: dead-code" in titles
    assert any(t.startswith("schedule: form 0: candidates") for t in titles)


def test_text_is_bounded() -> None:
    trace = BuildTrace()
    one, other = api.read(GRAPH), api.read(ROOT / "examples" / "demo.json")
    for _ in range(LINES):
        trace("lower", "a", one, other)
    lines = trace_text(trace, "chip").splitlines()
    assert len(lines) == LINES + 1
    assert lines[-1].endswith("AUTOFUSE_TRACE=html has them")
    trace = BuildTrace()
    trace.failed(AutofuseError.of("AF3002", "m", notes=[str(k) for k in range(99)]))
    assert f"... {100 - STEP_LINES} more lines" in trace_text(trace, "chip")


def test_hostile_names_are_text_in_both_formats() -> None:
    trace = BuildTrace()
    graph = hostile()
    trace("read", "", "file", graph)
    trace("lower", HOSTILE, api.read(GRAPH), graph)
    trace("schedule", "candidates", None, (Verdict(HOSTILE, None, HOSTILE),))
    page = trace_page(trace, "chip")
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&quot;1&quot;)") >= 6
    text = trace_text(trace, "chip")
    assert "<script>" in text
    for shown in (page, text):
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = trace_page(traced(GRAPH), "ascend910b1")
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=|url\(|@import|<script|<link", page)
    assert "prefers-color-scheme: dark" in page
    assert page.count("<details>") == page.count("</details>") > 4
    assert "<ins>+softmax_exp:" in page
    assert "cycles (model)" in page


def test_the_library_puts_the_page_into_the_cache(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOFUSE_TRACE", "html")
    api.build_split(GRAPH)
    path = page_of(capsys.readouterr().err)
    assert path.name == "softmax.trace.html"
    assert path.is_relative_to(cache / "traces")
    assert path.read_text() == trace_page(traced(GRAPH), "ascend910b1")
    (cache / "traces").rename(cache / "moved")
    (cache / "traces").write_text("no folder")
    api.build(GRAPH)
    assert capsys.readouterr().err.startswith("trace: the page cannot be written: ")


def test_build_puts_the_page_beside_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for _ in range(2):
        args = ["build", str(GRAPH), "-o", str(folder)]
        done = CliRunner().invoke(app, args, env={"AUTOFUSE_TRACE": "html"})
        assert done.exit_code == 0, done.output
        assert (folder / "softmax.trace.html").is_file()
        assert "softmax.trace.html" not in (folder / "manifest.json").read_text()


@pytest.mark.parametrize(
    "verb", [["explain"], ["dump", "--stage", "kernel"], ["dump", "--stage", "hint"]]
)
def test_verbs_that_build_are_traced(verb: list[str]) -> None:
    done = CliRunner().invoke(app, [*verb, str(GRAPH)], env={"AUTOFUSE_TRACE": "text"})
    assert done.exit_code == 0, done.output
    assert "\nsimplify: dead-code: no change\n" in done.stderr
    assert "trace of" not in done.stdout


def test_a_build_that_fails_is_traced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOFUSE_TRACE", "text")
    with pytest.raises(AutofuseError):
        api.build(GRAPH, ub_bytes=256)
    text = capsys.readouterr().err
    assert re.search(r"\n  rejected  .*: no cost; it cannot be generated; .*256", text)
    assert "\nfailed\n  AF3" in text


def test_threads_have_traces_of_their_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOFUSE_TRACE", "text")
    graphs = [GRAPH, ROOT / "examples" / "demo.json"]
    alone = []
    for g in graphs:
        api.build(g)
        alone.append(capsys.readouterr().err)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(api.build, graphs))
    text = capsys.readouterr().err
    assert text in ("".join(alone), "".join(reversed(alone)))


def test_a_wrong_value_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_TRACE", "yes")
    with pytest.raises(AutofuseError, match="AF5008"):
        api.build(GRAPH)
