"""What is generated for small graphs, each of which covers one thing, byte by byte.

``graphs/*.json`` say what they cover; ``make snapshots`` accepts the present output.  Every kernel is kept whole, since
a change of the compiler is read there; of the other files only those that ``IMPL_GRAPHS``, ``TILINGS`` and ``METADATA``
name.  The rest has one line each in ``NAME.digests.txt``: no byte changes without a failure, and
``make replay BASE=HEAD`` shows what changed.
"""

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ir_text_parser import parse_graph
from pages.templates_page import FAMILIES
from syrupy.assertion import SnapshotAssertion
from text_snapshots import check
from twin_graphs import every_template

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.printer import print_graph
from autofuse.schedule.templates import transpose

GRAPHS = Path(__file__).parent / "graphs"
SNAPSHOTS = Path(__file__).parent / "__snapshots__" / "test_generated"
NAMES = tuple(sorted(p.stem for p in GRAPHS.glob("*.json")))

#: Graph -> the ImplGraph of it that is kept: one for each family of templates, and what is to be seen there.
IMPL_GRAPHS = {
    "abs_test": ("0_general_0_nil_2_nil", "general: the graph of the source document"),
    "bias_unaligned": (
        "0_row_0_nil_0_nil_unaligned",
        "row: rows padded in UB, a load before loops",
    ),
    "channels_last": ("0_narrow_0_nil_0_nil_outer", "narrow: short rows, channels to the inside"),
    "reduce_rows": ("0_reduce_0_nil_0_2", "reduce: an accumulator, two symbolic sizes"),
    "running_sum": ("0_scan_0_nil_2_3", "scan: a loop that goes backwards and carries a row"),
    "running_sum_rows": ("0_scan_all_0_nil_0_nil_few", "scan_all: segments of a row"),
    "softmax": ("0_reduce_all_0_nil_0_nil", "reduce_all: two reductions that meet the data again"),
    "transpose": ("0_transpose_0_nil_2_nil_z1_32", "transpose: a constant tile with a short tail"),
}
#: Graphs whose host tiling is kept, and what only that one has.
TILINGS = {
    "abs_test": "fixed sizes, one template",
    "broadcast_leading": "two symbols, four templates, a tile of rows",
    "channels_last": "short rows: the units of a tile are runs",
    "column_sums": "two schedules with several groups, of which the host chooses one",
    "reduce_twice": "two groups and a workspace between them",
    "runtime_scalar": "a number that is passed through",
    "softmax_shared": "a template that only some sizes may take",
    "staggered": "loops that start at another step on each core",
    "symbolic_rows": "a symbol that may be 0",
    "transpose": "two tiled axes, one of a constant length",
}
#: Graph -> the entry of the kernel whose metadata is kept, and why; ``several.split.json`` is that of a split.
METADATA = {
    "abs_test": ("op-package", "fixed sizes; an op package has another digest"),
    "in_out": ("launch", "an output in place of an input"),
    "reduce_twice": (
        "launch",
        "several groups, keys for all pairs of their templates, a workspace",
    ),
    "softmax_shared": ("launch", "keys that hold for some sizes only"),
    "symbolic_rows": ("launch", "symbolic sizes"),
}
#: The small host files differ in names and parameters only: a fixed size, a scalar, a symbol.
WITH_ALL_HOST_FILES = ("abs_test", "runtime_scalar", "symbolic_rows")
SMALL_HOST_FILES = ("get_kernel", "infer_shape", "launch")
#: Files of a build system, once: they differ in the graph's name only.
PROJECT_FILES = ("CMakeLists.txt", "CMakePresets.json")
#: The operator package that is kept: with a size that is a symbol, and an output in place of an input.
PACKAGED = "in_out"
#: Of its files, those that no other kernel has: suffix -> path.
PACKAGE_FILES = {
    "CMakeLists.txt": "CMakeLists.txt",
    "CMakePresets.json": "CMakePresets.json",
    "build.sh": "build.sh",
    "install.sh": "install.sh",
    "op_host.CMakeLists.txt": "op_host/CMakeLists.txt",
    "op_host.cpp": "op_host/autofuse_in_out.cpp",
    "op_kernel.CMakeLists.txt": "op_kernel/CMakeLists.txt",
    "op_kernel.cpp": "op_kernel/autofuse_in_out.cpp",
    "example.CMakeLists.txt": "example/CMakeLists.txt",
    "example.cpp": "example/main.cpp",
    "test.py": "test/test_autofuse_in_out.py",
}
#: Of ``split()``: suffix -> path.
SPLIT_FILES = {
    "driver.cpp": "host/several_driver.cpp",
    "tiling_data.h": "autofuse_tiling_data.h",
    "split.json": "several.split.json",
    "CMakeLists.txt": "CMakeLists.txt",
}

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")
each_graph = pytest.mark.parametrize("name", NAMES)


@functools.cache
def built(name: str, entry: str = "launch") -> api.BuildResult:
    """The graph, built once per process, with the IR checked after every stage."""
    return api.build(GRAPHS / f"{name}.json", entry=entry, verify_ir=True)


@functools.cache
def impls_of(name: str) -> list[ImplGraph]:
    """All templates, also those that never win."""
    with every_template():
        made = api.build(GRAPHS / f"{name}.json", verify_ir=True)
    return [i for r in made.schedule for g in r.groups for i in g.impls]


def test_the_graphs_reach_every_kind_of_template() -> None:
    assert len(NAMES) >= 15
    # The suffix of a transposition names the axes in its tile.
    assert {
        (i.template, "" if i.template == "transpose" else i.suffix)
        for n in NAMES
        for i in impls_of(n)
    } == {
        ("general", ""),
        ("general", "rows_26"),
        ("general", "rows_32"),
        ("row", ""),
        ("row", "unaligned"),
        ("reduce", ""),
        ("reduce", "apart"),
        ("reduce", "block_32"),
        ("reduce", "block_128"),
        ("reduce", "rows_2"),
        ("reduce_all", ""),
        ("reduce_all", "tight"),
        ("transpose", ""),
        ("narrow", ""),
        ("narrow", "outer"),
        ("narrow", "rows_32"),
        ("scan", ""),
        ("scan_all", ""),
        ("scan_all", "few"),
    }


def test_every_kind_of_template_is_on_the_page() -> None:
    def kind(template: str, suffix: str) -> tuple[str, str]:
        """Without the number of rows in a tile, which depends on that of the cores, and other lengths."""
        short = template == transpose.NAME or suffix.startswith("cut_")
        return template, "" if short else re.sub(r"^(rows|block)_\d+$", r"\1", suffix)

    found = {kind(i.template, i.suffix) for n in NAMES for i in impls_of(n)}
    assert found <= {kind(f.template, f.suffix) for f in FAMILIES}


def test_one_impl_graph_of_every_family_is_kept() -> None:
    kept = [i.template for n in IMPL_GRAPHS for i in impls_of(n) if is_kept(n, i)]
    assert sorted(kept) == sorted({i.template for n in NAMES for i in impls_of(n)})


def is_kept(name: str, impl: ImplGraph) -> bool:
    return name in IMPL_GRAPHS and impl.name == f"{name}_{IMPL_GRAPHS[name][0]}"


@each_graph
def test_impl_graphs_are_read_as_they_were_written(name: str) -> None:
    for impl in impls_of(name):
        assert parse_graph(print_graph(impl)) == impl


@pytest.mark.parametrize("name", IMPL_GRAPHS)
def test_impl_graph(name: str, snapshot: SnapshotAssertion) -> None:
    (impl,) = (i for i in impls_of(name) if is_kept(name, i))
    check(snapshot, f"{name}.impl.{IMPL_GRAPHS[name][0]}.txt", print_graph(impl))


@each_graph
def test_kernel(name: str, snapshot: SnapshotAssertion) -> None:
    check(snapshot, f"{name}.kernel.cpp", built(name).files[f"device/{name}_kernel.cpp"])


@pytest.mark.parametrize("name", TILINGS)
def test_tiling(name: str, snapshot: SnapshotAssertion) -> None:
    check(snapshot, f"{name}.tiling.cpp", built(name).files[f"host/{name}_tiling.cpp"])


@pytest.mark.parametrize("name", WITH_ALL_HOST_FILES)
def test_small_host_files(name: str, snapshot: SnapshotAssertion) -> None:
    files = built(name).files
    for part in SMALL_HOST_FILES:
        check(snapshot, f"{name}.{part}.cpp", files[f"host/{name}_{part}.cpp"])
    check(snapshot, f"{name}.tiling_data.h", files["autofuse_tiling_data.h"])


@pytest.mark.parametrize("name", METADATA)
def test_metadata(name: str, snapshot: SnapshotAssertion) -> None:
    check(snapshot, f"{name}.metadata.json", built(name, METADATA[name][0]).files[f"{name}.json"])


def others(name: str) -> Iterator[tuple[str, str]]:
    """The files that are not kept whole."""
    for impl in impls_of(name):
        if not is_kept(name, impl):
            yield f"impl.{impl.name.removeprefix(name + '_')}", print_graph(impl)
    files = built(name).files
    if name not in TILINGS:
        yield "tiling", files[f"host/{name}_tiling.cpp"]
    if METADATA.get(name, ("",))[0] != "launch":
        yield "metadata", files[f"{name}.json"]


@each_graph
def test_other_files(name: str, snapshot: SnapshotAssertion) -> None:
    lines = [f"{hashlib.sha256(t.encode()).hexdigest()[:16]} {kind}\n" for kind, t in others(name)]
    if lines:
        hint = "make replay BASE=HEAD shows what differs"
        check(snapshot, f"{name}.digests.txt", "".join(lines), hint)


def test_project(snapshot: SnapshotAssertion) -> None:
    for file in PROJECT_FILES:
        check(snapshot, f"abs_test.{file}", built("abs_test").files[file])


def test_operator_package(snapshot: SnapshotAssertion) -> None:
    files = built(PACKAGED, "op-package").files
    for suffix, file in PACKAGE_FILES.items():
        check(snapshot, f"{PACKAGED}.op_package.{suffix}", files[file])
    kept = {*PACKAGE_FILES.values(), f"{PACKAGED}.json", f"{PACKAGED}.graph.json"}
    # What else is there is as in the folder of the launcher.
    launch = built(PACKAGED).files
    assert sorted(files.keys() - kept) == sorted(
        [
            *(f"op_host/{PACKAGED}_{part}.inc" for part in ("infer_shape", "tiling")),
            *(f"op_host/autofuse_{h}.h" for h in ("log", "math", "shape", "status", "tiling")),
            "op_host/autofuse_tiling_data.h",
            *(f"op_kernel/autofuse_{h}.h" for h in ("device", "math", "tiling_data")),
        ]
    )
    for part in ("infer_shape", "tiling"):
        assert files[f"op_host/{PACKAGED}_{part}.inc"] == launch[f"host/{PACKAGED}_{part}.cpp"]


def test_no_file_is_left_over(request: pytest.FixtureRequest) -> None:
    expected = {f"{n}.impl.{i}.txt" for n, (i, _) in IMPL_GRAPHS.items()}
    expected |= {f"{n}.kernel.cpp" for n in NAMES} | {f"{n}.tiling.cpp" for n in TILINGS}
    expected |= {f"{n}.metadata.json" for n in METADATA}
    expected |= {f"{n}.{p}.cpp" for n in WITH_ALL_HOST_FILES for p in SMALL_HOST_FILES}
    expected |= {f"{n}.tiling_data.h" for n in WITH_ALL_HOST_FILES}
    expected |= {f"{n}.digests.txt" for n in NAMES if any(others(n))}
    expected |= {f"abs_test.{f}" for f in PROJECT_FILES} | {f"several.{f}" for f in SPLIT_FILES}
    expected |= {f"{PACKAGED}.op_package.{f}" for f in PACKAGE_FILES}
    found = {p.name for p in SNAPSHOTS.iterdir()}
    if request.config.getoption("update_snapshots"):
        for file in found - expected:
            (SNAPSHOTS / file).unlink()
    else:
        assert found == expected


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
    for suffix, file in SPLIT_FILES.items():
        check(snapshot, f"several.{suffix}", split().files[file])


@pytest.mark.twin
def test_driver_runs_on_the_twin() -> None:
    report = api.verify(split(), shapes=3)
    assert report.ok, [str(d) for d in report.diagnostics]


@pytest.mark.twin
@each_graph
def test_runs_on_the_twin(name: str) -> None:
    """The snapshot of a wrong kernel is worth nothing: every tiling key computes what it should."""
    report = api.verify(built(name), shapes=4)
    assert report.ok, [str(d) for d in report.diagnostics]
    ran = {c.key for c in report.cases if c.status == "passed"}
    assert ran == set(range(len(built(name).metadata["tilingKeys"])))
