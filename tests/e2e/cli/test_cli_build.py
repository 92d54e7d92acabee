"""``build``: all files or none."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.base.artifacts import MANIFEST
from autofuse.targets import load_target


def tree(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_build_says_what_it_made(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    done = autofuse("build", graph, "-o", "out")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("kernel add_one for ascend910b1: ")
    assert lines[1].split() == ["key", "template", "tile", "UB", "of", "183.8", "KiB", "only", "if"]
    assert lines[2].split()[:2] == ["0", "general"]
    assert "add_one_0_" not in done.out
    assert "key 0 calls add_one_0_general_0_" in autofuse("build", graph, "-o", "out", "-v").out
    assert "KiB" in lines[2]
    assert "generated, not compiled: there is no CANN here" in done.out
    assert lines[-1] == f"next: autofuse verify {graph}"
    written = set(tree(tmp_path / "out"))
    assert written >= {"add_one.json", "device/add_one_kernel.cpp", "CMakeLists.txt", MANIFEST}


def test_build_as_json(autofuse: Callable, graph: Path, tmp_path: Path) -> None:
    found = autofuse("build", graph, "--json").json()["result"]
    assert found["folder"] == "autofuse-out/add_one"
    assert found["name"] == "add_one"
    assert found["compiled"]["done"] is False
    assert found["written"]["created"] == found["files"]
    assert set(found["files"]) | {MANIFEST} == set(tree(tmp_path / found["folder"]))
    keys = [r["key"] for r in found["templates"]]
    assert keys == list(range(len(keys)))
    for r in found["templates"]:
        assert 0 < r["ub_bytes"] <= r["ub_limit"]
        assert r["tile"] > 0
    assert set(found["seconds"]) == {
        "read",
        "lower",
        "simplify",
        "schedule",
        "kernel",
        "passes",
        "emit",
    }


def test_output_does_not_depend_on_place_or_hash_seed(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    other = tmp_path / "elsewhere" / "renamed.json"
    other.parent.mkdir()
    other.write_bytes(graph.read_bytes())
    autofuse("build", graph, "-o", "a", PYTHONHASHSEED="1")
    autofuse("build", other, "-o", "b", PYTHONHASHSEED="2")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_building_again_changes_nothing(autofuse: Callable, graph: Path) -> None:
    autofuse("build", graph, "-o", "out")
    written = autofuse("build", graph, "-o", "out", "--json").json()["result"]["written"]
    assert written["unchanged"]
    assert written["created"] == written["updated"] == written["removed"] == []


def test_an_edited_file_is_kept_unless_forced(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    autofuse("build", graph, "-o", "out")
    kernel = tmp_path / "out" / "device" / "add_one_kernel.cpp"
    generated = kernel.read_text()
    kernel.write_text("// mine\n")
    before = tree(tmp_path)
    done = autofuse("build", graph, "-o", "out")
    assert done.code == 1
    assert done.out == ""
    assert "error AF5005: device/add_one_kernel.cpp was edited after it was generated" in done.err
    assert "--force" in done.err
    assert tree(tmp_path) == before
    assert autofuse("build", graph, "-o", "out", "--force").code == 0
    assert kernel.read_text() == generated


def test_another_target(autofuse: Callable, graph: Path) -> None:
    found = autofuse("build", graph, "-t", "ascend910b4", "--json").json()["result"]
    assert found["target"] == "ascend910b4"
    assert found["next"] == f"autofuse verify {graph} -t ascend910b4"
    done = autofuse("build", graph, "-t", "ascend310p", "-o", "p")
    assert done.code == 0, done.err
    checked = load_target("ascend310p").checked
    assert f"ascend310p is experimental: {checked}\n" in done.out
    assert "experimental" not in autofuse("build", graph, "-o", "q").out


def fake_cann(folder: Path, cmake: str) -> dict[str, str]:
    """An environment with a bisheng and a cmake of our own."""
    tools = {"cann/bin/bisheng": "#!/bin/sh\n", "path/cmake": f"#!/bin/sh\n{cmake}\n"}
    for name, text in tools.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return {"ASCEND_HOME_PATH": str(folder / "cann"), "PATH": f"{folder / 'path'}:/usr/bin:/bin"}


def test_with_cann_it_compiles(
    autofuse: Callable, graph: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cann = tmp_path_factory.mktemp("tools")
    env = fake_cann(cann, f'echo "$PWD $@" >> {cann}/calls')
    done = autofuse("build", graph, "-o", "out", **env)
    assert done.code == 0, done.err
    assert f"compiled with {cann}/cann/bin/bisheng" in done.out.replace("\n", "")
    calls = (cann / "calls").read_text().splitlines()
    assert [c.partition("/out ")[2] for c in calls] == [
        "--preset ascend",
        "--build --preset ascend",
    ]
    presets = json.loads((graph.parent / "out" / "CMakePresets.json").read_text())
    assert "ascend" in [p["name"] for p in presets["configurePresets"]]
    assert "ascend" in [p["name"] for p in presets["buildPresets"]]


def test_a_failing_compiler_is_reported_with_its_words(
    autofuse: Callable, graph: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    env = fake_cann(tmp_path_factory.mktemp("tools"), "echo 'no such chip' >&2; exit 3")
    done = autofuse("build", graph, "-o", "out", **env)
    assert done.code == 1
    assert "error AF5002: the files were generated, but `cmake --preset ascend` failed" in done.err
    assert "no such chip" in done.err


@pytest.mark.twin
@pytest.mark.slow
def test_the_cmake_project_builds_for_the_twin(
    autofuse: Callable, graph: Path, tmp_path: Path
) -> None:
    autofuse("build", graph, "-o", "out")
    twin = autofuse("doctor", "--twin-dir").out.strip()
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for words in (
        ["--preset", "twin", f"-DAUTOFUSE_TWIN_DIR={twin}"],
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
    assert (tmp_path / "out" / "build" / "twin" / "libadd_one.so").is_file()


def test_a_folder_of_graphs(autofuse: Callable, native: Callable, tmp_path: Path) -> None:
    """Each graph has a folder at its place; one that fails stops no other one."""
    sqrt = {"name": "m", "op": "MatrixSquareRoot", "inputs": ["x"], "outputs": ["y"]}
    graphs = {
        "a.json": native(),
        "deep/a.json": native(name="deep"),
        "deep/unknown.json": native(nodes=[sqrt]),
        "graph.schema.json": {},
    }
    for name, g in graphs.items():
        path = tmp_path / "g" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(g), encoding="utf-8")
    done = autofuse("build", "g", "-o", "out", "--jobs", "2")
    assert (done.code, done.err) == (0, "")
    assert "2 built, 1 not supported yet" in done.out
    autofuse("build", "g/a.json", "-o", "alone")
    assert tree(tmp_path / "out" / "a") == tree(tmp_path / "alone")
    assert (tmp_path / "out" / "deep" / "a" / "device" / "deep_kernel.cpp").is_file()
    assert not (tmp_path / "out" / "deep" / "unknown").exists()
    (tmp_path / "g" / "broken.json").write_text(json.dumps(native(outputs=["z"])), encoding="utf-8")
    found = autofuse("build", "g", "-o", "out", "--json")
    assert found.code == 1
    result = found.json()["result"]
    assert result["counts"] == {"built": 2, "failed": 1, "not supported yet": 1}
    rows = {Path(r["graph"]).relative_to("g").as_posix(): r for r in result["graphs"]}
    assert rows["a.json"]["folder"] == "out/a"
    assert rows["a.json"]["written"]["created"] == 0 < rows["a.json"]["written"]["unchanged"]
    assert rows["a.json"]["keys"] > 0
    assert rows["broken.json"]["codes"] == ["AF1107"]
    (d,) = found.json()["diagnostics"]
    assert d["where"]["path"] == "g/broken.json"


def test_graphs_with_one_name_do_not_meet(tmp_path: Path) -> None:
    from autofuse.commands.kernels.building import _folders

    paths = [tmp_path / p for p in ("a.json", "a.onnx", "b/a.json", "b.json")]
    folders = _folders(paths, tmp_path, Path("out"))
    assert [p.as_posix() for p in folders] == ["out/a.json", "out/a.onnx", "out/b/a", "out/b"]


def test_a_folder_without_graphs(autofuse: Callable, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = autofuse("build", "empty")
    assert done.code == 1
    assert "error AF1001" in done.err


def test_the_graph_of_a_generated_folder_is_no_graph_file(autofuse: Callable, graph: Path) -> None:
    assert autofuse("build", graph, "-o", "out").code == 0
    done = autofuse("explain", "out/add_one.graph.json")
    assert done.code == 1
    assert done.err.count("error") == 1
    assert "hint: this is the graph of a generated folder" in done.err


def test_build_lists_the_files_with_v_only(autofuse: Callable, graph: Path) -> None:
    quiet = autofuse("build", graph)
    assert quiet.code == 0, quiet.err
    assert "files in autofuse-out/add_one: " in quiet.out
    assert "CMakeLists.txt" not in quiet.out
    names = autofuse("build", graph, "--json").json()["result"]["files"]
    assert len(names) > 3
    verbose = autofuse("build", graph, "-v")
    listed = [x.strip() for x in verbose.out.partition("files in ")[2].splitlines()[1:-2]]
    assert sorted(listed) == sorted(names)
    # What a reader should open first comes first.
    assert listed[:2] == ["device/add_one_kernel.cpp", "host/add_one_tiling.cpp"]
    assert listed[-1].startswith("include/")
    split = autofuse("build", graph, "--split", "--verbose")
    assert all(f"\n  {n}\n" in split.out for n in names)


def test_a_condition_of_a_template_is_a_bound_of_a_size(
    autofuse: Callable, native: Callable, tmp_path: Path
) -> None:
    node = {"name": "s", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": 1}}
    made = native(
        symbols={"m": {"min": 1, "max": 100000, "hint": 4096}, "n": {"min": 1, "max": 100000}},
        inputs=[{"name": "x", "dtype": "float32", "shape": ["m", "n"]}],
        nodes=[node],
    )
    (tmp_path / "g.json").write_text(json.dumps(made), encoding="utf-8")
    rows = autofuse("build", "g.json", "--json").json()["result"]["templates"]
    (bound,) = (c for r in rows for c in r["conditions"])
    assert bound.startswith("needs n >= ")
    assert [len(r["formulas"]) for r in rows] == [len(r["conditions"]) for r in rows]
    done = autofuse("build", "g.json", COLUMNS="80")
    assert bound.removeprefix("needs ") in done.out
    assert max(map(len, done.out.partition("files in")[0].splitlines())) <= 80
    for word in ("Ceiling", "dominated", "inf"):
        assert word not in done.out.partition("files in")[0]
