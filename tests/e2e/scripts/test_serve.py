"""A served loop in threads, bounded: no error, equal answers, nothing that stays."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import serve
import serve_graphs

from autofuse import api

SCRIPT = Path(serve.__file__)


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *args], capture_output=True, text=True, timeout=300
    )


@pytest.mark.twin
def test_64_compiles_in_8_threads() -> None:
    done = run("--compiles", "64", "--mark", "16", "--load-every", "24", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert (report["compiles"], report["graphs"], report["threads"]) == (64, 32, 8)
    # Graphs 0 and 24, each by two threads.
    assert report["loaded"] == 4
    assert report["errors"] == report["differing"] == report["wrong"] == report["grown"] == []
    marks = report["marks"]
    assert [m["compiles"] for m in marks] == [16, 32, 48, 64]
    assert {m["libraries"] for m in marks} == {0}
    assert len({m["files"] for m in marks}) == 1
    assert all(m["blocks"] > 0 and m["rss_mb"] > 0 for m in marks)


def test_a_failure_and_a_difference_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(range(1000))

    def changing(number: int) -> str:
        if number == 2:
            return "{}"
        k = next(counted)
        text = serve_graphs.text(number)
        return text if number != 1 else text.replace("request_bias_1", f"request_bias_1_{k}")

    monkeypatch.setattr(serve, "text", changing)
    report = serve.serve(8, 2, mark=8, load_every=0)
    assert report["ok"] is False
    assert {e.partition(":")[0] for e in report["errors"]} == {"graph 2"}
    assert report["differing"] == ["files of graph 1"]


def test_what_grows_is_reported() -> None:
    def mark(compiles: int, rss: float, libraries: int = 0, files: int = 6) -> serve.Mark:
        return serve.Mark(compiles, 1.0, 1.0, rss, 1000, libraries, files, 9)

    flat = [mark(200, 50), mark(400, 80), mark(600, 81), mark(800, 79)]
    assert serve._grown(flat) == []
    assert serve._grown([*flat, mark(1000, 130, 2, 8)]) == [
        "memory by 50.0 MiB",
        "libraries by 2",
        "open files by 2",
    ]


def test_the_graphs_differ_and_can_be_built() -> None:
    kinds = len(serve_graphs.KINDS)
    texts = [serve_graphs.text(n) for n in range(10 * kinds)]
    assert len(set(texts)) == len(texts)
    assert serve_graphs.text(3) == texts[3]
    graphs = [api.read(t) for t in texts]
    assert any(g.symbols for g in graphs)
    assert any(not g.symbols for g in graphs)
