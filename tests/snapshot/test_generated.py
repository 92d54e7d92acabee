"""What is generated for small graphs, each of which covers one thing, byte by byte.

``graphs/*.json`` say what they cover; ``make snapshots`` accepts the present output.
"""

import functools
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.printer import print_graph
from autofuse.implgraph.ir.text_parser import parse_graph

GRAPHS = Path(__file__).parent / "graphs"
NAMES = tuple(sorted(p.stem for p in GRAPHS.glob("*.json")))
#: The small host files differ in names and parameters only: a fixed size, a scalar, a symbol.
WITH_ALL_HOST_FILES = ("abs_test", "runtime_scalar", "symbolic_rows")

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot name")
each_graph = pytest.mark.parametrize("name", NAMES)


class _TextFile(SingleFileSnapshotExtension):
    """A file of its own, with the name that the assertion gives: ``abs_test.kernel.cpp``."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: Any = 0) -> str:
        return str(index)


# One class per ending: syrupy finds snapshots that no test uses by their ending.
_KINDS = {
    ending: type(f"_{ending.capitalize()}File", (_TextFile,), {"file_extension": ending})
    for ending in ("cpp", "h", "json", "txt")
}


@functools.cache
def built(name: str) -> api.BuildResult:
    """The graph, built once per process, with the IR checked after every stage."""
    return api.build(GRAPHS / f"{name}.json", verify_ir=True)


def impls_of(name: str) -> list[ImplGraph]:
    return [i for r in built(name).schedule for g in r.groups for i in g.impls]


def check(snapshot: SnapshotAssertion, file: str, text: str) -> None:
    """``text`` is what the snapshot ``file`` holds."""
    base, _, ending = file.rpartition(".")
    expected = snapshot(name=base, extension_class=_KINDS[ending])
    assert text == expected, f"{file} differs; if that is on purpose: make snapshots"


def test_the_graphs_reach_every_kind_of_template() -> None:
    assert len(NAMES) >= 15
    # The suffix of a transposition names the axes in its tile.
    assert {
        (i.template, "" if i.template == "transpose" else i.suffix)
        for n in NAMES
        for i in impls_of(n)
    } == {
        ("general", ""),
        ("general", "unaligned"),
        ("general", "rows_26"),
        ("general", "rows_32"),
        ("row", ""),
        ("row", "unaligned"),
        ("reduce", ""),
        ("reduce", "block_128"),
        ("reduce", "rows_2"),
        ("reduce_all", ""),
        ("reduce_all", "tight"),
        ("transpose", ""),
        ("narrow", ""),
        ("narrow", "outer"),
        ("scan", ""),
        ("scan_all", ""),
        ("scan_all", "few"),
    }


@each_graph
def test_impl_graphs(name: str, snapshot: SnapshotAssertion) -> None:
    for impl in impls_of(name):
        text = print_graph(impl)
        assert parse_graph(text) == impl
        check(snapshot, f"{name}.impl.{impl.name.removeprefix(name + '_')}.txt", text)


@each_graph
def test_kernel(name: str, snapshot: SnapshotAssertion) -> None:
    check(snapshot, f"{name}.kernel.cpp", built(name).files[f"device/{name}_kernel.cpp"])


@each_graph
def test_host(name: str, snapshot: SnapshotAssertion) -> None:
    files = built(name).files
    check(snapshot, f"{name}.tiling.cpp", files[f"host/{name}_tiling.cpp"])
    if name in WITH_ALL_HOST_FILES:
        for part in ("get_kernel", "infer_shape", "launch"):
            check(snapshot, f"{name}.{part}.cpp", files[f"host/{name}_{part}.cpp"])
        check(snapshot, f"{name}.tiling_data.h", files["autofuse_tiling_data.h"])


@each_graph
def test_metadata(name: str, snapshot: SnapshotAssertion) -> None:
    check(snapshot, f"{name}.metadata.json", built(name).files[f"{name}.json"])


def test_project(snapshot: SnapshotAssertion) -> None:
    """The other files, once: they differ in the graph's name only."""
    files = built("abs_test").files
    for file in ("CMakeLists.txt", "CMakePresets.json"):
        check(snapshot, f"abs_test.{file}", files[file])


@functools.cache
def split() -> api.SplitResult:
    """A graph of several kernels: what passes on is a tensor, an output and nothing; a symbol; an output in place."""
    nodes = [
        ("exp_0", "Exp", ["x"], "a", {}),
        ("relu_0", "Relu", ["a"], "b", {}),
        ("add_0", "Add", ["b", "bias"], "c", {}),
        ("tanh_0", "Tanh", ["c"], "d", {}),
        ("abs_0", "Abs", ["bias"], "e", {}),
    ]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "several",
        "symbols": {"s0": {"min": 1, "max": 4096, "hint": 100}},
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": ["s0", 96]},
            {"name": "bias", "dtype": "float32", "shape": [96]},
        ],
        "nodes": [
            {"name": n, "op": op, "inputs": i, "outputs": [o], "attrs": a}
            for n, op, i, o, a in nodes
        ],
        "outputs": ["c", "d", {"name": "f", "tensor": "e", "inout": "bias"}],
    }
    return api.build_split(graph, cut_after=["exp_0", "add_0", "tanh_0"], verify_ir=True)


def test_driver(snapshot: SnapshotAssertion) -> None:
    files = split().files
    check(snapshot, "several.driver.cpp", files["host/several_driver.cpp"])
    check(snapshot, "several.tiling_data.h", files["autofuse_tiling_data.h"])
    check(snapshot, "several.split.json", files["several.split.json"])
    check(snapshot, "several.CMakeLists.txt", files["CMakeLists.txt"])


@pytest.mark.twin
def test_driver_runs_on_the_twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))
    report = api.verify(split(), shapes=3)
    assert report.ok, [str(d) for d in report.diagnostics]


@pytest.mark.twin
@each_graph
def test_runs_on_the_twin(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot of a wrong kernel is worth nothing: every tiling key computes what it should."""
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path))
    report = api.verify(built(name), shapes=4)
    assert report.ok, [str(d) for d in report.diagnostics]
    ran = {c.key for c in report.cases if c.status == "passed"}
    assert ran == set(range(len(built(name).metadata["tilingKeys"])))
