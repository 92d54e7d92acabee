"""``run --trace`` and ``--html``: a run with modelled times."""

import ctypes
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.search.bound import bind
from autofuse.schedule.search.breakdown import cost_of
from autofuse.schedule.search.cost_form import cost_form

pytestmark = pytest.mark.twin

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def slices(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [e for e in found["traceEvents"] if e["ph"] == "X"]


def test_a_trace_and_a_page(autofuse: Callable, tmp_path: Path) -> None:
    done = autofuse("run", EXAMPLES / "demo.json", "--trace", "t.json", "--html", "t.html")
    assert (done.code, done.err) == (0, "")
    assert "modelled time on ascend910b1" in done.out
    assert "model: nothing here was measured" in done.out
    assert "wrote t.json" in done.out
    assert "wrote t.html" in done.out
    assert " ok" in done.out
    found = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert "model" in found["otherData"]["note"]
    graph = json.loads((EXAMPLES / "demo.json").read_text(encoding="utf-8"))
    named = {e["name"] for e in slices(found)}
    # Every op of the graph has an instruction of its own, but for those that `gelu` was opened into, which are one op
    # again; so have loads and stores.
    opened = {"cube", "scale_cube", "inner", "scale_inner", "tanh", "shift", "halve"}
    nodes = {n["name"] for n in graph["nodes"]} - opened
    assert "gelu" in nodes
    assert named >= nodes | {"x", "bias", "residual", "out"}
    assert {e["cat"] for e in slices(found)} == {"start", "MTE2", "V", "MTE3"}
    ends = max(e["ts"] + e["dur"] for e in slices(found))
    assert ends == pytest.approx(found["autofuse"]["total_us"], rel=1e-3)
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|\bsrc=|\bhref=|url\(", page)
    assert "(model)" in page
    assert "model: nothing here was measured" in page
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert data is not None
    report = json.loads(data[1])
    (function,) = report["functions"]
    lines = {n for line in function["lines"] if (n := line["node"]) is not None}
    # Each node that ran has lines in the source, and a place among the loops.
    assert lines == set(range(len(report["nodes"])))
    placed: list[int] = []

    def walk(loops: list[dict[str, Any]]) -> None:
        for x in loops:
            if "loop" in x:
                assert function["first"] <= x["first"] < x["last"]
                walk(x["inside"])
            else:
                placed.append(x["node"])

    walk(function["loops"])
    assert set(placed) == lines


def test_what_json_says(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    done = autofuse("run", graph, "--shape", "n=5000", "--trace", "t.json", "--json")
    found = done.json()["result"]
    timed = found["timed"]
    assert found["saved"] == ["t.json"]
    assert "model" in timed["note"]
    assert timed["loaded_bytes"] == timed["stored_bytes"] == 5000 * 8 * 4
    assert "slices" not in timed
    assert timed["cut"] == timed["unpriced"] == []
    core = next(c for c in timed["cores"] if c["core"] == timed["slowest"])
    for pipe in core["pipes"].values():
        assert 0 <= pipe["utilisation"] <= 1
        waits = sum(pipe["stalls_us"].values())
        assert pipe["us"] + waits <= timed["total_us"] - timed["start_us"] + 1e-6
    path = timed["critical_path"]
    length = sum(p["us"] for p in path["parts"]) + sum(path["waits_us"].values())
    assert length == pytest.approx(timed["total_us"] - timed["start_us"], rel=1e-3)
    assert autofuse("run", graph, "--json").json()["result"]["timed"] is None


def test_a_suffix_makes_a_page(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    assert autofuse("run", graph, "--trace", "t.html").code == 0
    assert (tmp_path / "t.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_files_are_the_same_every_time(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert autofuse("run", graph, "--trace", f"{name}.json", "--html", f"{name}.html").code == 0
    for kind in ("json", "html"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_a_folder_of_generated_files(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    autofuse("build", graph, "-o", "out", "--target", "ascend910b4")
    assert autofuse("run", "out", "--trace", "t.json").code == 0
    found = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert found["autofuse"]["target"] == "ascend910b4"


def test_a_file_that_cannot_be_written(autofuse: Callable, graph: Path) -> None:
    done = autofuse("run", graph, "--trace", "nowhere/t.json")
    assert done.code == 1
    assert "error AF5005" in done.err
    assert "nowhere/t.json" in done.err


def test_all_files_are_written_or_none(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("before", encoding="utf-8")
    words = ["--trace", "t.json", "--save", "made/out", "--html"]
    done = autofuse("run", graph, *words, "nowhere/t.html")
    assert done.code == 1
    assert "error AF5005: cannot write nowhere/t.html: there is no folder nowhere" in done.err
    assert (tmp_path / "t.json").read_text(encoding="utf-8") == "before"
    assert not (tmp_path / "made").exists()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".auto")) == []
    assert autofuse("run", graph, *words, "t.html").code == 0
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]


def test_files_that_would_destroy_each_other_are_refused(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    done = autofuse("run", graph, "--trace", "t.json", "--html", "./t.json")
    assert done.code == 1
    assert "error AF1005: --trace and --html name the same file, t.json" in done.err
    before = graph.read_bytes()
    done = autofuse("run", graph, "--trace", graph)
    assert done.code == 1
    assert "would overwrite the graph" in done.err
    assert graph.read_bytes() == before
    # A page twice is one page.
    done = autofuse("run", graph, "--trace", "t.html", "--html", "t.html", "--json")
    assert done.json()["result"]["saved"] == ["t.html"]


def test_names_that_are_markup_are_text_of_the_page(
    autofuse: Callable, native: Callable, tmp_path: Path
) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    nodes = [{"name": hostile, "op": "Abs", "inputs": ["x"], "outputs": ["y"]}]
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(native(nodes=nodes)), encoding="utf-8")
    done = autofuse("run", path, "--html", "t.html")
    assert done.code == 0, done.err
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert "<img" not in page
    assert page.count("</script>") == 2
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert hostile in {n["node"] for n in json.loads(data[1])["nodes"]}


# the library ----------------------------------------------------------------------------------


def document(
    shape: list[int],
    nodes: list[dict[str, Any]],
    *,
    inputs: str = "x",
    outputs: list[Any] | None = None,
) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": "k",
        "inputs": [{"name": n, "dtype": "float32", "shape": shape} for n in inputs],
        "nodes": nodes,
        "outputs": outputs or ["y"],
    }


ABS = [{"name": "a", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}]
CHAIN = [
    {"name": "a", "op": "Exp", "inputs": ["x"], "outputs": ["t"]},
    {"name": "b", "op": "Div", "inputs": ["t", "z"], "outputs": ["u"]},
    {"name": "c", "op": "Sqrt", "inputs": ["u"], "outputs": ["y"]},
]


def timed(graph: dict[str, Any], **options: Any) -> tuple[api.BuildResult, api.TimedRun]:
    built = api.build(graph, target="ascend910b2")
    return built, api.timed(built, random_inputs(built.graph, {}, 1), **options)


def tile_of(built: api.BuildResult, name: str) -> int:
    """A member of the tiling data that the host function chooses for a graph of fixed sizes."""
    types = {"int64_t": ctypes.c_int64, "uint32_t": ctypes.c_uint32}
    members = [(f["name"], types[f["type"]]) for f in built.metadata["tilingData"]]
    layout = type("Layout", (ctypes.Structure,), {"_fields_": members})
    data = api.load(built).library.tiling([]).data
    return int(getattr(layout.from_buffer_copy(data.ljust(ctypes.sizeof(layout), b"\0")), name))


@pytest.mark.parametrize(
    ("shape", "nodes", "inputs", "within"),
    [
        ([4096, 4096], ABS, "x", 0.07),
        ([4096, 1024], CHAIN, "xz", 0.07),
        ([64, 8192], CHAIN, "xz", 0.07),
        # Where rows lie at odd addresses, loads cannot use all of GM even while they have it.
        ([1000, 1003], ABS, "x", 0.09),
    ],
    ids=["abs", "chain", "small chain", "abs, odd rows"],
)
def test_the_time_is_that_of_the_cost_model(
    shape: list[int], nodes: list[dict[str, Any]], inputs: str, within: float
) -> None:
    """Where a node is one instruction, the clocks say what the model's formula says, within a few percent."""
    built, found = timed(document(shape, nodes, inputs=inputs))
    (impl,) = list(tiling_keys(built.schedule))[found.run.key]
    form = bind(cost_form(impl, built.target), impl.tiling, {})
    tile, per_core = (
        tile_of(built, n) for n in (impl.tiling.opened.symbol, impl.tiling.block_size)
    )
    assert -(-form.tiles(tile) // per_core) == found.report["active_cores"]
    cost = cost_of(form, built.target, tile, per_core)
    assert found.report["total_us"] == pytest.approx(cost.total, rel=within)
    core = next(c for c in found.report["cores"] if c["core"] == found.report["slowest"])
    assert core["pipes"]["MTE2"]["us"] == pytest.approx(cost.mte2, rel=0.02)
    assert core["pipes"]["MTE3"]["us"] == pytest.approx(cost.mte3, rel=1e-3)


def test_results_are_those_of_a_run() -> None:
    built, found = timed(document([300, 700], CHAIN, inputs="xz"))
    inputs = random_inputs(built.graph, {}, 1)
    plain = api.load(built)(*(inputs[n] for n in built.graph.inputs))
    assert np.array_equal(found.run.outputs["y"], plain, equal_nan=True)


def test_an_input_that_is_overwritten_is_overwritten_once() -> None:
    graph = document([64, 512], ABS, outputs=[{"tensor": "y", "inout": "x"}])
    graph["nodes"] = [{"name": "a", "op": "Add", "inputs": ["x", {"const": 1.0}], "outputs": ["y"]}]
    built = api.build(graph)
    x = np.arange(64 * 512, dtype=np.float32).reshape(64, 512)
    kept = x.copy()
    found = api.timed(built, {"x": x})
    assert np.array_equal(x, kept + 1)
    assert found.report["slices"]


def test_cores_are_sampled_and_the_page_says_so() -> None:
    _, found = timed(document([8192, 8192], ABS))
    report = found.report
    assert report["active_cores"] > 5
    assert len(report["sampled"]) <= 5
    assert {0, report["active_cores"] - 1} <= set(report["sampled"])
    assert report["loaded_bytes"] == report["stored_bytes"] == 4 << 26
    assert "cores were recorded" in found.page()
    # Not faster than memory.
    least = 1e-3 * report["loaded_bytes"] / 1490
    assert report["total_us"] > least


def test_groups_that_wait_for_each_other() -> None:
    """A workspace between two groups: all cores meet, and what is read there was in L2."""
    nodes = [
        {
            "name": "s",
            "op": "ReduceSum",
            "inputs": ["x"],
            "outputs": ["t"],
            "attrs": {"axes": [0, 1]},
        },
        {"name": "d", "op": "Sub", "inputs": ["x", "t"], "outputs": ["y"]},
    ]
    _, found = timed(document([2048, 512], nodes))
    waits = [
        cause
        for c in found.report["cores"]
        for p in c["pipes"].values()
        for cause in p["stalls_us"]
    ]
    assert "other cores" in waits
    assert found.report["total_us"] > found.report["start_us"] + 8000 / 1850


def test_several_kernels_are_refused_and_each_of_them_taken(tmp_path: Path) -> None:
    built = api.build_split(document([128, 128], CHAIN, inputs="xz"), cut_after=["a"])
    inputs = random_inputs(built.graph, {}, 0)
    with pytest.raises(AutofuseError, match=r"AF5007.*several kernels"):
        api.timed(built, inputs)
    built.write(tmp_path / "out")
    with pytest.raises(AutofuseError, match=r"AF5007.*several kernels"):
        api.timed(tmp_path / "out", inputs)
    for part in built.parts:
        folder = tmp_path / "out" / "parts" / part.name
        found = api.timed(folder, random_inputs(part.graph, {}, 0))
        assert found.report["total_us"] > found.report["start_us"]
    one = api.build_split(document([128, 128], ABS))
    assert one.split is None
    assert api.timed(one, random_inputs(one.graph, {}, 0)).report["total_us"] > 0
