"""The driver from Python."""

import copy
import json
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autofuse
from autofuse import api
from autofuse.base.artifacts import MANIFEST
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.report.build_summary import largest_tile, typical_sizes

GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "twice",
    "symbols": {"n": {"min": 1, "max": 65536, "hint": 100}},
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 8]}],
    "nodes": [{"name": "add", "op": "Add", "inputs": ["x", "x"], "outputs": ["y"]}],
    "outputs": ["y"],
}
STAGES = ["read", "lower", "simplify", "schedule", "kernel", "passes", "emit"]


@pytest.fixture(scope="module")
def built() -> api.BuildResult:
    return autofuse.build(GRAPH)


def test_every_form_of_a_graph_gives_the_same(built: api.BuildResult, tmp_path: Path) -> None:
    text = json.dumps(GRAPH)
    path = tmp_path / "g.json"
    path.write_text(text)
    for form in (text, path, str(path), GRAPH, built.graph):
        again = autofuse.build(form)
        assert again.graph == built.graph
        assert again.files == built.files
        assert again == built


def test_a_result_has_everything(built: api.BuildResult) -> None:
    assert built.name == "twice"
    assert built.target.name == "ascend910b1"
    assert list(built.timings) == STAGES
    assert all(t >= 0 for t in built.timings.values())
    assert built.metadata["kernelName"] == "twice"
    assert built.hint.name == "twice"
    summary = built.summary()
    json.dumps(summary)
    assert summary["files"] == sorted(built.files)
    assert [r["key"] for r in summary["templates"]] == list(range(len(summary["templates"])))


def test_every_stage_can_be_checked(
    built: api.BuildResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr("autofuse.compiler.check", lambda g: calls.append(type(g).__name__))
    assert autofuse.build(GRAPH, verify_ir=True) == built
    assert calls[:2] == ["HintGraph", "HintGraph"]
    assert set(calls[2:]) == {"ImplGraph"}
    calls.clear()
    autofuse.build(GRAPH)
    assert calls == []
    monkeypatch.setenv("AUTOFUSE_DEBUG", "1")
    autofuse.build(GRAPH)
    assert calls


def test_hint_of_is_the_first_half_of_build(built: api.BuildResult) -> None:
    assert api.hint_of(GRAPH) == built.hint


def test_threads_may_build_at_once(built: api.BuildResult) -> None:
    results: list[api.BuildResult] = []
    threads = [
        threading.Thread(target=lambda: results.append(autofuse.build(GRAPH))) for _ in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [built] * 8


def test_errors_of_a_graph_come_all_at_once() -> None:
    wrong = {**GRAPH, "outputs": ["q"], "inputs": [{"name": "x", "dtype": "f99", "shape": ["n"]}]}
    with pytest.raises(AutofuseError) as caught:
        autofuse.build(wrong)
    assert {d.code for d in caught.value.diagnostics} >= {"AF1104", "AF1107"}


@pytest.mark.parametrize(
    "wrong", [{"inputs": np.zeros(2)}, {**GRAPH, "name": object()}, 5, None, b"{}"]
)
def test_what_is_no_graph_is_no_internal_error(wrong: object) -> None:
    for make in (api.read, api.build, api.build_split):
        with pytest.raises(AutofuseError) as caught:
            make(wrong)  # type: ignore[operator]
        assert [d.code for d in caught.value.diagnostics] == ["AF1103"]


def test_an_unknown_target() -> None:
    with pytest.raises(AutofuseError, match="unknown target 'x'"):
        autofuse.build(GRAPH, target="x")


@pytest.mark.parametrize("form", ["dict", "text", "path", "graph"])
def test_a_bug_is_af9001_with_the_graph(
    form: str, built: api.BuildResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AUTOFUSE_DEBUG", "1")
    monkeypatch.setattr("autofuse.codegen.backends.ascendc.backend.kernel_file", broken)
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    given = {
        "dict": GRAPH,
        "text": json.dumps(GRAPH),
        "path": tmp_path / "g.json",
        "graph": built.graph,
    }[form]
    with pytest.raises(AutofuseError) as caught:
        autofuse.build(given)
    (found,) = caught.value.diagnostics
    assert found.code == "AF9001"
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert any("RuntimeError: a bug of ours" in note for note in found.notes)
    (bundle,) = (tmp_path / "reproducers").iterdir()
    assert json.loads((bundle / "input.json").read_text())["name"] == "twice"


def test_without_a_cache_a_bug_is_still_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "file"))
    (found,) = api.internal_error(RuntimeError("x")).diagnostics
    assert found.code == "AF9001"
    assert found.notes[0].startswith("no reproducer could be written")


def test_old_reproducers_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))
    for i in range(30):
        api.internal_error(RuntimeError(f"number {i}"))
    assert len(list((tmp_path / "reproducers").iterdir())) == 20


# tiles ----------------------------------------------------------------------------------------


def test_typical_sizes() -> None:
    symbols = [Symbol("a", hint=7), Symbol("b"), Symbol("c", max=10), Symbol("d", min=5000)]
    assert typical_sizes(symbols) == {"a": 7, "b": 1024, "c": 10, "d": 5000}


def test_a_hint_of_zero_is_a_size() -> None:
    assert typical_sizes([Symbol("a", min=0, hint=0)]) == {"a": 0}


def test_largest_tile_is_the_last_that_fits(built: api.BuildResult) -> None:
    for result in built.schedule:
        for impl in (i for g in result.groups for i in g.impls):
            tiling = impl.tiling
            for n in (1, 3, 100, 65536):
                found = largest_tile(tiling, {"n": n})
                assert found is not None
                tile, used = found
                assert used == tiling.ub.evaluate({"n": n, tiling.opened.symbol: tile})
                assert used <= tiling.ub_limit
                larger = tile + tiling.opened.granule
                if larger <= tiling.opened.extent.evaluate({"n": n}) and tiling.opened.most is None:
                    more = tiling.ub.evaluate({"n": n, tiling.opened.symbol: larger})
                    assert more > tiling.ub_limit


def test_no_tile_fits(built: api.BuildResult) -> None:
    from dataclasses import replace

    tiling = built.schedule[0].groups[0].impls[0].tiling
    assert largest_tile(replace(tiling, ub=const(1 << 30)), {"n": 8}) is None
    assert (
        largest_tile(replace(tiling, lengths=(replace(tiling.opened, extent=sym("n")),)), {"n": 0})
        is None
    )


# the twin -------------------------------------------------------------------------------------


@pytest.mark.twin
def test_load_is_a_function_on_arrays(built: api.BuildResult, tmp_path: Path) -> None:
    built.write(tmp_path / "out")
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    for kernel in (autofuse.load(built), autofuse.load(tmp_path / "out")):
        assert np.array_equal(kernel(x), x + x)
        assert np.array_equal(kernel(x=x), x + x)


@pytest.mark.twin
def test_verify(built: api.BuildResult) -> None:
    report = api.verify(built, shapes=[{"n": 3}, {"n": 1000}])
    assert report.ok
    assert {c.symbols["n"] for c in report.cases} == {3, 1000}
    assert api.verify(GRAPH, shapes=2, seed=5).ok


@pytest.mark.parametrize("content", [{}, {"a.txt": "x"}])
def test_load_of_a_folder_without_a_kernel(tmp_path: Path, content: dict[str, str]) -> None:
    if content:
        autofuse.base.artifacts.write_files(content, tmp_path / "out")
    with pytest.raises(AutofuseError, match="this folder has no kernel"):
        autofuse.load(tmp_path / "out")


def test_load_of_a_folder_that_lost_a_file(built: api.BuildResult, tmp_path: Path) -> None:
    built.write(tmp_path)
    (tmp_path / "CMakeLists.txt").unlink()
    with pytest.raises(AutofuseError, match="a generated file cannot be read"):
        autofuse.load(tmp_path)


def test_a_manifest_cannot_name_files_elsewhere(built: api.BuildResult, tmp_path: Path) -> None:
    from autofuse.base.artifacts import read_files

    (tmp_path / "secret").write_text("x")
    built.write(tmp_path / "out")
    manifest = tmp_path / "out" / MANIFEST
    content = json.loads(manifest.read_text())
    content["files"]["../secret"] = "0"
    manifest.write_text(json.dumps(content))
    assert "../secret" not in read_files(tmp_path / "out")


def test_a_graph_of_copies_that_is_refused_has_no_cuts() -> None:
    """Nodes that no output needs are no reason to look for cuts: there is one node left at most."""
    graph = {
        "schema": "autofuse.graph/1",
        "name": "copies",
        "inputs": [{"name": "x", "dtype": "float16", "shape": [50, 33]}],
        "nodes": [
            {"name": "a", "op": "Exp", "inputs": ["x"], "outputs": ["p"]},
            {"name": "b", "op": "Exp", "inputs": ["p"], "outputs": ["q"]},
        ],
        "outputs": [{"name": "y", "tensor": "x"}],
    }
    for make in (api.build, api.build_split):
        with pytest.raises(AutofuseError) as e:
            make(graph, target="ascend310p")
        assert e.value.diagnostics[0].code == "AF3002"
        assert e.value.diagnostics[0].cut_after == ()


def test_a_result_travels_between_processes(built: api.BuildResult) -> None:
    """As that of a pool of processes does, which is how a server uses more than one processor."""
    for found in (pickle.loads(pickle.dumps(built)), copy.deepcopy(built)):
        assert found == built
        assert found.target.vector == built.target.vector
        assert found.target.figures() == built.target.figures()
        with pytest.raises(TypeError):
            found.target.vector["exp"] = None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda b: autofuse.build(GRAPH, target=None), TypeError, "not NoneType"),
        (lambda b: autofuse.build(GRAPH, ub_bytes=1e5), TypeError, "not float"),
        (lambda b: autofuse.build(GRAPH, ub_bytes="5"), TypeError, "not str"),
        (lambda b: autofuse.load_target(3), TypeError, "not int"),
        (lambda b: autofuse.build_split(GRAPH, cut_after="n"), TypeError, "sequence of names"),
        (lambda b: autofuse.verify(b, shapes=0), ValueError, "shapes must be from 1"),
        (lambda b: autofuse.verify(b, shapes="3"), TypeError, "shapes must be an integer"),
        (lambda b: autofuse.verify(b, shapes=[]), ValueError, "no shape"),
        (lambda b: autofuse.verify(b, shapes=[3]), TypeError, "dict of sizes"),
        (lambda b: autofuse.verify(b, shapes=[{}]), AutofuseError, "n is a symbol without a size"),
        (lambda b: autofuse.verify(b, shapes=[{"q": 1}]), AutofuseError, "its symbols are: n"),
        (lambda b: autofuse.verify(b, shapes=[{"n": "3"}]), TypeError, "the size n must be"),
        (lambda b: autofuse.verify(b, seed=-1), ValueError, "seed must be from 0"),
        (lambda b: autofuse.verify(b, seed=0.5), TypeError, "seed must be an integer"),
        (lambda b: autofuse.verify(b, check="some"), ValueError, "check is one of"),
        (lambda b: autofuse.verify(b, check_seed=1 << 64), ValueError, "check_seed must be from 0"),
    ],
)
def test_arguments_that_no_graph_could_make_right(
    built: api.BuildResult, call: Callable[[Any], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        call(built)


@pytest.mark.twin
@pytest.mark.parametrize(
    ("seed", "error", "text"),
    [(-1, ValueError, "check_seed must be from 0"), ("1", TypeError, "check_seed must be")],
)
def test_seeds_that_load_refuses(
    built: api.BuildResult, seed: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        autofuse.load(built, check_seed=seed)


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        ({"symbols": {"q": 3}}, AutofuseError, "AF5007: q is not a symbol"),
        ({"symbols": {"n": "3"}}, TypeError, "the size n must be an integer, not str"),
        ({"symbols": {"n": 3.0}}, TypeError, "the size n must be an integer, not float"),
        ({"symbols": {"n": 1 << 30}}, AutofuseError, "AF5007: dimension 0 of x is 3"),
        ({"cores": -1}, ValueError, "cores must be from 0"),
        ({"cores": 1 << 40}, ValueError, "cores must be from 0"),
        ({"cores": "2"}, TypeError, "cores must be an integer"),
        ({"key": -1}, AutofuseError, "AF5007: there is no tiling key -1"),
        ({"key": 99}, AutofuseError, "AF5007: there is no tiling key 99"),
        ({"key": 1 << 40}, AutofuseError, "there is no tiling key"),
        ({"key": "0"}, TypeError, "key must be an integer"),
    ],
)
@pytest.mark.twin
def test_arguments_of_a_call(
    built: api.BuildResult, words: dict[str, Any], error: type[Exception], text: str
) -> None:
    kernel = autofuse.load(built)
    x = np.ones((3, 8), np.float32)
    with pytest.raises(error, match=text):
        kernel.run({"x": x}, **words)
    assert np.array_equal(kernel.run({"x": x}, symbols={"n": np.int32(3)}).outputs["y"], x + x)
    with pytest.raises(TypeError, match="given by name, in a dict, not list"):
        kernel.run([x])


@pytest.mark.twin
def test_a_size_that_is_too_large_for_its_symbol_is_said_to_be(built: api.BuildResult) -> None:
    most = built.graph.symbols[0].max
    x = np.broadcast_to(np.float32(0), (most + 1, 8))
    with pytest.raises(AutofuseError, match=rf"n = {most + 1} is outside \[1, {most}\]"):
        autofuse.load(built).run({"x": x})
