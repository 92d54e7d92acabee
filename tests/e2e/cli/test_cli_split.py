"""Graphs that are too much for one kernel, from the command line: where to cut, several kernels, a driver."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofuse import api, splitting
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.machines.twin.run.native import StatusError
from autofuse.targets import load_target

SPLIT_KEYS = {
    *("schema", "generator", "name", "target", "cann", "dynamic", "graphSha256", "cutAfter"),
    *("symbols", "inputs", "outputs", "parts", "passed", "pieces", "driver"),
}


def wide(alive: int, size: int | str = "n", **fields: Any) -> dict[str, Any]:
    """``alive`` results one after the other, then their sum from the last on: all alive at once.  In place of x."""
    names = [f"r{k}" for k in range(alive)]
    nodes = [
        {"name": f"step{k}", "op": "Add", "inputs": [x, {"const": 0.5}], "outputs": [y]}
        for k, (x, y) in enumerate(zip(["x", *names], names, strict=False))
    ]
    total = names[-1]
    for k in reversed(range(alive - 1)):
        nodes.append(
            {"name": f"sum{k}", "op": "Maximum", "inputs": [total, f"r{k}"], "outputs": [f"s{k}"]}
        )
        total = f"s{k}"
    return {
        "schema": "autofuse.graph/1",
        "name": "wide",
        "symbols": {size: {"min": 1, "max": 1 << 20}} if isinstance(size, str) else {},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [size, 3]}],
        "nodes": nodes,
        "outputs": [total],
        **fields,
    }


@pytest.fixture
def too_much(tmp_path: Path) -> Path:
    path = tmp_path / "wide.json"
    path.write_text(json.dumps(wide(70)), encoding="utf-8")
    return path


# refusals -------------------------------------------------------------------------------------


def test_a_refusal_says_where_to_cut(autofuse: Callable, too_much: Path) -> None:
    done = autofuse("build", too_much, "--json")
    assert done.code == 1
    (found,) = done.json()["diagnostics"]
    assert found["code"] == "AF3004"
    (name,) = found["cut_after"]
    assert found["hint"] == f"cut after node {name} (2 kernels); autofuse build --split does that"
    assert not (too_much.parent / "autofuse-out").exists()
    assert found["hint"] in autofuse("build", too_much).err.replace("\n", "")
    # The same from a worker.
    (row,) = autofuse("verify", too_much, "--json").json()["diagnostics"]
    assert row["cut_after"] == [name]


def test_of_large_graphs_no_places_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search would take far longer than the refusal."""

    def never(*_: Any, **__: Any) -> None:
        pytest.fail("places to cut are looked for")

    monkeypatch.setattr(splitting, "_find_split", never)
    with pytest.raises(AutofuseError) as e:
        api.build(wide(110))
    assert [d.code for d in e.value.diagnostics] == ["AF3004"]
    assert "--split" in str(e.value) or "split the graph" in str(e.value)


def test_what_is_said_is_true() -> None:
    """The parts are accepted by the checks that refused the whole, and one part more would be one too many."""
    with pytest.raises(AutofuseError) as e:
        api.build(wide(70))
    built = api.build_split(wide(70))
    assert built.cut_after == e.value.diagnostics[0].cut_after
    assert len(built.parts) == 2
    for p in built.parts:
        assert api.build(p.graph).files == p.files


@pytest.mark.parametrize("op", ["MatMul", "NoSuchOp"])
def test_an_unknown_op_is_no_matter_of_cuts(autofuse: Callable, tmp_path: Path, op: str) -> None:
    graph = wide(3, nodes=[{"name": "m", "op": op, "inputs": ["x", "x"], "outputs": ["y"]}])
    path = tmp_path / "g.json"
    path.write_text(json.dumps({**graph, "outputs": ["y"]}), encoding="utf-8")
    done = autofuse("build", path, "--split", "--json")
    assert done.code == 1
    assert {d["code"] for d in done.json()["diagnostics"]} == {"AF1201"}


def odd_rows() -> dict[str, Any]:
    """Two nodes that a chip without unaligned copies cannot have, among others that it can."""
    steps = [("Exp", "x", "a"), ("Exp", "odd", "b"), ("Abs", "a", "c"), ("Abs", "b", "d")]
    sizes = {"x": 64, "odd": 33}
    return {
        "schema": "autofuse.graph/1",
        "name": "odd_rows",
        "inputs": [{"name": n, "dtype": "float16", "shape": [50, s]} for n, s in sizes.items()],
        "nodes": [
            {"name": f"n_{out}", "op": op, "inputs": [source], "outputs": [out]}
            for op, source, out in steps
        ],
        "outputs": ["c", "d"],
    }


def test_where_no_cut_helps_every_node_in_the_way_is_named(
    autofuse: Callable, tmp_path: Path
) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps(odd_rows()), encoding="utf-8")
    plain = autofuse("build", path, "-t", "ascend310p", "--json")
    assert plain.code == 1
    assert all("cut_after" not in d for d in plain.json()["diagnostics"])
    done = autofuse("build", path, "-t", "ascend310p", "--split", "-o", "out", "--json")
    assert done.code == 1
    found = done.json()["diagnostics"]
    assert [d["where"]["node"] for d in found] == ["n_b", "n_d"]
    assert all(d["where"]["pointer"].startswith("/nodes/") for d in found)
    assert all("the other nodes of the graph form 2 kernels" in d["notes"][-1] for d in found)
    assert not (tmp_path / "out").exists()


def test_an_op_package_has_no_driver(autofuse: Callable, too_much: Path) -> None:
    done = autofuse("build", too_much, "--split", "--entry", "op-package", "--json")
    assert done.code == 1
    (found,) = done.json()["diagnostics"]
    assert found["code"] == "AF5007"
    assert "op-package" in found["message"]


# builds ---------------------------------------------------------------------------------------


def test_a_graph_that_needs_no_split_is_built_as_without(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    plain = autofuse("build", graph, "-o", "plain", "--json").json()["result"]
    split = autofuse("build", graph, "-o", "split", "--split", "--json").json()["result"]
    assert split["files"] == plain["files"]
    for name in [*plain["files"], "manifest.json"]:
        text = (tmp_path / "plain" / name).read_text()
        assert (tmp_path / "split" / name).read_text() == text, name


def test_the_folder_of_a_split(autofuse: Callable, too_much: Path, tmp_path: Path) -> None:
    done = autofuse("build", too_much, "--split", "-o", "out", "--json")
    assert done.code == 0, done.err
    found = done.json()["result"]
    assert [p["name"] for p in found["parts"]] == ["wide_part0", "wide_part1"]
    assert found["next"] == f"autofuse verify {too_much} --split"
    manifest = json.loads((tmp_path / "out" / "wide.split.json").read_text())
    assert set(manifest) == SPLIT_KEYS
    assert manifest["cutAfter"] == found["cut_after"]
    assert [p["name"] for p in manifest["passed"]] == [p["name"] for p in found["passed"]]
    # What every part is, a build of its own graph is as well.
    for p in manifest["parts"]:
        folder = tmp_path / "out" / p["folder"]
        text = (folder / f"{p['name']}.graph.json").read_text()
        again = api.build(from_json_as(FusionGraph, json.loads(text)))
        assert {n: (folder / n).read_text() for n in again.files} == dict(again.files)
    text = autofuse("build", too_much, "--split", "-o", "out")
    assert text.code == 0
    assert "2 kernels and a driver" in text.out
    assert f"cut after node {found['cut_after'][0]}" in text.out
    assert "unchanged" in text.out


def test_the_same_graph_gives_the_same_files() -> None:
    assert api.build_split(wide(70)).files == api.build_split(wide(70)).files


# on the twin ----------------------------------------------------------------------------------


@pytest.mark.twin
def test_a_folder_runs_and_a_graph_is_verified(
    autofuse: Callable, too_much: Path, tmp_path: Path
) -> None:
    assert autofuse("build", too_much, "--split", "-o", "out").code == 0
    np.save(tmp_path / "x.npy", np.arange(21, dtype=np.float32).reshape(7, 3))
    for words in ([], ["--check", "all", "--check-seed", "3"]):
        done = autofuse("run", "out", "-i", "x=x.npy", "--save", "got", *words, "--json")
        assert done.code == 0, done.out
        found = done.json()["result"]
        assert (found["parts"], found["symbols"]) == (2, {"n": 7})
        assert found["workspace"] >= 512
        got = np.load(tmp_path / "got" / f"{found['outputs'][0]['output']}.npy")
        np.testing.assert_array_equal(got, np.arange(21, dtype=np.float32).reshape(7, 3) + 35)
    part = autofuse("run", "out/parts/wide_part0", "--json")
    assert part.code == 0
    assert part.json()["result"]["name"] == "wide_part0"
    done = autofuse("verify", too_much, "--split", "--shapes", "2", "--json")
    assert done.code == 0, done.out
    (row,) = done.json()["result"]["graphs"]
    assert (row["state"], row["parts"]) == ("passed", 2)
    names = [o["output"] for o in row["outputs"]]
    assert "s0" in names
    assert any(n.startswith("wide_part0.") for n in names)
    assert "2 kernels" in autofuse("run", too_much, "--split").out


@pytest.mark.twin
def test_keys_of_all_kernels_workspaces_and_in_place() -> None:
    """Symbolic rows, softmax in the middle, an output in place of an input that the last part still reads."""
    graph = {
        "schema": "autofuse.graph/1",
        "name": "mixed",
        "symbols": {"m": {"min": 1, "max": 200}, "n": {"min": 1, "max": 500}},
        "inputs": [
            {"name": "x", "dtype": "float16", "shape": ["m", "n"]},
            {"name": "y", "dtype": "float16", "shape": ["n", "m"]},
        ],
        "nodes": [
            {"name": "e", "op": "Tanh", "inputs": ["x"], "outputs": ["a"]},
            {"name": "s", "op": "Softmax", "inputs": ["a"], "outputs": ["b"], "attrs": {"axis": 1}},
            *(
                {"name": n, "op": op, "inputs": i, "outputs": [o], "attrs": at}
                for n, op, i, o, at in (
                    ("t", "Transpose", ["y"], "c", {"perm": [1, 0]}),
                    ("f", "Add", ["b", "c"], "d", {}),
                    ("g", "Mul", ["d", "x"], "z", {}),
                    ("h", "ReduceMax", ["z"], "w", {"axes": [0]}),
                    ("i", "Sub", ["z", "w"], "u", {}),
                    ("j", "ReduceMax", ["u"], "v", {"axes": [1]}),
                )
            ),
        ],
        "outputs": ["z", "v", {"name": "o", "tensor": "a", "inout": "x"}],
    }
    built = api.build_split(graph, cut_after=["e", "s", "f"], verify_ir=True)
    assert len(built.parts) == 4
    manifest = json.loads(built.files["mixed.split.json"])
    assert any(p["workspace"]["bytes"] != 0 for p in manifest["parts"])
    kernel = api.load(built)
    assert kernel.key_count > 1
    sizes = [{"m": 1, "n": 1}, {"m": 33, "n": 70}, {"m": 200, "n": 17}]
    assert api.verify(built, shapes=sizes).ok
    rng = np.random.default_rng(5)
    x = rng.random((33, 70), np.float32).astype(np.float16)
    y = rng.random((70, 33), np.float32).astype(np.float16)
    once, again = x.copy(), x.copy()
    plain = kernel.run({"x": once, "y": y})
    checked = api.load(built, check="all", check_seed=7).run({"x": again, "y": y}, key=plain.key)
    for name, value in plain.outputs.items():
        np.testing.assert_array_equal(value, checked.outputs[name])
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, x)


@pytest.mark.twin
def test_what_the_driver_refuses() -> None:
    built = api.build_split(wide(4), cut_after=["step1"], target=load_target("ascend910b1"))
    library = api.load(built).library
    for size, text in ((0, "n is not in [1, 1048576]"), (1 << 21, "n is not in [1, 1048576]")):
        with pytest.raises(AutofuseError, match=r"AF5003") as e:
            library.tiling([size])
        assert text in str(e.value)
    with pytest.raises(AutofuseError, match="no such tiling key"):
        library.tiling([5], library.key_count)


@pytest.mark.twin
def test_more_than_four_gib_between_the_kernels_is_refused_when_the_size_is_known() -> None:
    graph = wide(3)
    graph["symbols"]["n"]["max"] = 1 << 31
    library = api.load(api.build_split(graph, cut_after=["step1"])).library
    assert library.tiling([1 << 20]).workspace >= 12 << 20
    with pytest.raises(AutofuseError, match="take more than 4 GiB of workspace"):
        library.tiling([1 << 30])


def test_more_than_four_gib_between_the_kernels_is_refused_at_once_where_sizes_are_fixed() -> None:
    api.build_split(wide(3, 1 << 20), cut_after=["step1"])
    with pytest.raises(AutofuseError, match="take 12884901888 bytes") as e:
        api.build_split(wide(3, 1 << 29), cut_after=["step1"])
    assert e.value.diagnostics[0].code == "AF3006"


@pytest.mark.twin
def test_a_refusal_of_a_part_is_explained_by_the_part() -> None:
    target = load_target("ascend910b1")
    small = target.with_ub(2048)
    graph = wide(24, inputs=[{"name": "x", "dtype": "float32", "shape": ["n"]}])
    built = api.build_split(graph, cut_after=["step1"], target=small)
    with pytest.raises(StatusError) as own:
        api.load(built.parts[1]).library.tiling([40_000])
    with pytest.raises(StatusError) as e:
        api.load(built).library.tiling([40_000])
    # The code names the part, the text is what the part says.
    assert (e.value.rc, e.value.text) == (own.value.rc + 200_000_000, own.value.text)
    assert e.value.not_applicable


# malformed ------------------------------------------------------------------------------------


def changed(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    """A manifest with another value at a place."""

    def change(manifest: dict[str, Any]) -> None:
        at: Any = manifest
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


MALFORMED: dict[str, str | Callable[[dict[str, Any]], None]] = {
    "empty": "",
    "a list": "[]",
    "an object without members": "{}",
    "another schema": changed("schema", value="autofuse.split/2"),
    "no parts": changed("parts", value=[]),
    "a part that is no object": changed("parts", 0, value=7),
    "a folder outside": changed("parts", 0, "name", value="../wide_part0"),
    "the name of another part": changed("parts", 0, "name", value="wide_part1"),
    "a part with no keys": changed("parts", 1, "tilingKeys", value=0),
    "a negative radix": changed("parts", 1, "keyRadix", value=-1),
    "a parameter too few": changed("parts", 1, "inputs", value=[]),
    "an input that is not there": changed("parts", 0, "inputs", 0, value={"name": "x", "input": 4}),
    "a tensor that nobody made": changed("parts", 0, "inputs", 0, value={"name": "x", "passed": 0}),
    "an output that is written twice": changed(
        "parts", 0, "outputs", 0, value={"name": "s0", "output": 0}
    ),
    "a place of two kinds": changed(
        "parts", 0, "inputs", 0, value={"name": "x", "input": 0, "passed": 0}
    ),
    "an index that is no number": changed(
        "parts", 0, "inputs", 0, value={"name": "x", "input": "one"}
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_manifest_that_is_not_ours(tmp_path: Path, case: str) -> None:
    built = api.build_split(wide(4), cut_after=["step1"])
    built.write(tmp_path / "out")
    path = tmp_path / "out" / "wide.split.json"
    how = MALFORMED[case]
    if isinstance(how, str):
        path.write_text(how)
    else:
        manifest = json.loads(path.read_text())
        how(manifest)
        path.write_text(json.dumps(manifest))
    with pytest.raises(AutofuseError) as e:
        api.load(tmp_path / "out")
    (found,) = e.value.diagnostics
    assert found.code == "AF1001"
    assert "wide.split.json" in found.message


def test_a_part_that_is_gone(autofuse: Callable, too_much: Path, tmp_path: Path) -> None:
    assert autofuse("build", too_much, "--split", "-o", "out").code == 0
    (tmp_path / "out" / "parts/wide_part1/wide_part1.graph.json").unlink()
    done = autofuse("run", "out", "--json")
    assert done.code == 1
    assert done.json()["diagnostics"][0]["code"] == "AF1001"


# CMake ----------------------------------------------------------------------------------------


@pytest.mark.twin
@pytest.mark.slow
def test_the_cmake_project_is_one_library_with_the_functions_of_one_kernel(
    autofuse: Callable, tmp_path: Path
) -> None:
    built = api.build_split(wide(4), cut_after=["step1"])
    built.write(tmp_path / "out")
    twin = autofuse("doctor", "--twin-dir").out.strip()
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "kernel.bin").write_bytes(b"\x00\x7f\xff")
    binary = f"-DAUTOFUSE_KERNEL_BINARY_wide_part1={tmp_path / 'kernel.bin'}"
    for words in (
        ["--preset", "twin", f"-DAUTOFUSE_TWIN_DIR={twin}", binary],
        ["--build", "--preset", "twin"],
    ):
        done = subprocess.run(
            ["cmake", *words],
            cwd=tmp_path / "out",
            env={**os.environ, "PATH": tools},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    library = tmp_path / "out" / "build" / "twin" / "libwide.so"
    code = f"""
import ctypes, numpy as np
from autofuse import api
from autofuse.machines.twin.run.kernel import TwinKernel
from pathlib import Path
graph = api.read_folder(Path({str(tmp_path / "out")!r}))[0]
kernel = TwinKernel(Path({str(library)!r}), graph)
x = np.arange(12, dtype=np.float32).reshape(4, 3)
np.testing.assert_array_equal(kernel(x), x + 2)
lib = ctypes.CDLL({str(library)!r})
data, size = ctypes.POINTER(ctypes.c_uint8)(), ctypes.c_uint64()
assert lib.GetPartCount() == 2
assert lib.GetPartKernelBin(1, ctypes.byref(data), ctypes.byref(size)) == 0
assert bytes(data[: size.value]) == bytes((0, 127, 255))
assert lib.GetPartKernelBin(0, ctypes.byref(data), ctypes.byref(size)) != 0
assert lib.GetPartKernelBin(9, ctypes.byref(data), ctypes.byref(size)) != 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
