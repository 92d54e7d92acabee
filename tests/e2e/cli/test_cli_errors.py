"""What the command says about files that are wrong: code, place, exit code, and nothing written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from malformed_cases import CASES

from autofuse.cli import main
from autofuse.commands.kernels import jobs

#: Malformed graphs whose whole message is kept as a snapshot: changes to a valid graph.
NODE = {"name": "n", "op": "Add", "inputs": ["x", "x"], "outputs": ["y"]}
INPUT = {"name": "x", "dtype": "float32", "shape": ["n", 8]}
SHOWN: dict[str, Any] = {
    "not_json": '{"schema": "autofuse.graph/1",\n "name": oops}\n',
    "not_a_graph": '{"hello": 1}\n',
    "empty_file": "",
    "missing_fields": {"inputs": None, "outputs": None},
    "unknown_field": {"nodez": []},
    "wrong_type": {"inputs": [{**INPUT, "shape": "n"}]},
    "unknown_dtype": {"inputs": [{**INPUT, "dtype": "flaot32"}]},
    "undefined_tensor": {"nodes": [{**NODE, "inputs": ["x", "xx"]}]},
    "unknown_op": {"nodes": [{**NODE, "op": "Maximun"}]},
    "arity": {"nodes": [{**NODE, "inputs": ["x"]}]},
    "shapes_do_not_broadcast": {
        "inputs": [INPUT, {"name": "w", "dtype": "float32", "shape": [7]}],
        "nodes": [{**NODE, "inputs": ["x", "w"]}],
    },
    "bad_expression": {"inputs": [{**INPUT, "shape": ["n +", 8]}]},
    "cycle": {
        "nodes": [
            {**NODE, "inputs": ["x", "b"], "outputs": ["a"]},
            {**NODE, "name": "m", "inputs": ["x", "a"], "outputs": ["b"]},
        ],
        "outputs": ["b"],
    },
    "several_at_once": {
        "symbols": {"n": {"min": 9, "max": 1}},
        "nodes": [{**NODE, "op": "Foo", "inputs": ["x", "q"]}],
    },
}


@pytest.mark.parametrize("name", SHOWN)
def test_message(
    name: str,
    native: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    snapshot: object,
) -> None:
    given = SHOWN[name]
    text = given if isinstance(given, str) else json.dumps(native(**given), indent=1)
    (tmp_path / "graph.json").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["build", "graph.json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]
    assert err == snapshot


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_malformed_graph(
    text: str | bytes,
    expected: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.chdir(tmp_path)
    assert main(["build", "graph.json", "-o", "out", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert found["result"] is None
    got = [(d["code"], d.get("where", {}).get("pointer", "")) for d in found["diagnostics"]]
    assert sorted(got) == sorted(expected)
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]
    # The terminal shows the same findings.
    assert main(["build", "graph.json", "-o", "out"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert sorted(code for code, _ in expected) == sorted(
        line[6:12] for line in err.splitlines() if line.startswith("error AF")
    )
    assert all(c.isprintable() or c == "\n" for c in err)
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]


@pytest.mark.parametrize("verb", ["build", "run", "verify", "dump", "show"])
def test_every_verb_that_reads_a_graph_reports_the_same(
    verb: str, autofuse: Callable, native: Callable, tmp_path: Path
) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(native(outputs=["q"])))
    done = autofuse(verb, "graph.json", "--json")
    assert done.code == 1
    assert [d["code"] for d in done.json()["diagnostics"]] == ["AF1107"]
    text = autofuse(verb, "graph.json")
    assert text.code == 1
    assert "error AF1107" in text.err
    assert "  --> graph.json:1:" in text.err
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]


@pytest.mark.parametrize("verb", ["build", "run", "verify", "dump", "show"])
def test_a_file_that_is_not_there(verb: str, autofuse: Callable) -> None:
    done = autofuse(verb, "none.json")
    assert done.code == 1
    assert done.out == ""
    assert "error AF1001" in done.err
    assert "none.json" in done.err


def test_an_internal_error_leaves_a_reproducer(
    graph: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("autofuse.schedule.scheduler._tried", broken)
    assert main(["build", str(graph), "-o", str(tmp_path / "out"), "--json"]) == 2
    (found,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert found["code"] == "AF9001"
    assert found["message"] == "internal error: ZeroDivisionError: a bug of ours"
    bundle = Path(found["notes"][0].removeprefix("reproducer: "))
    assert sorted(p.name for p in bundle.iterdir()) == [
        "input.json",
        "report.json",
        "traceback.txt",
    ]
    assert (bundle / "input.json").read_text() == graph.read_text()
    report = json.loads((bundle / "report.json").read_text())
    assert report["options"]["target"] == "ascend910b1"
    assert report["dependencies"]["numpy"]
    assert "ZeroDivisionError: a bug of ours" in (bundle / "traceback.txt").read_text()
    assert not (tmp_path / "out").exists()
    # The same failure does not pile up, and the terminal names the folder.
    assert main(["build", str(graph)]) == 2
    assert str(bundle) in capsys.readouterr().err
    assert len(list(bundle.parent.iterdir())) == 1


def test_a_bug_in_a_verb_is_an_internal_error_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**options: object) -> None:
        raise KeyError("schema")

    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("autofuse.commands.graphs.author.schema", broken)
    assert main(["schema"]) == 2
    assert "error AF9001: internal error: KeyError: 'schema'" in capsys.readouterr().err


def test_too_little_memory_is_no_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**options: object) -> None:
        raise MemoryError("Unable to allocate 37.3 GiB")

    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("autofuse.commands.graphs.author.schema", broken)
    assert main(["schema"]) == 1
    said = capsys.readouterr().err
    assert "error AF5003: there is not enough memory: Unable to allocate 37.3 GiB" in said
    assert not (tmp_path / "reproducers").exists()


def test_a_worker_without_memory_says_which_limit_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run, whose job reports other exceptions as bugs."""

    def broken(*args: object) -> None:
        raise MemoryError

    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("autofuse.commands.kernels.jobs._run", broken)
    with pytest.raises(MemoryError):
        jobs.run_job({"path": "g.json"})
