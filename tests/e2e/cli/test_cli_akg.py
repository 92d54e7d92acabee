"""``build --flow akg`` as a user has it: what is written and said, and every wrong input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import akg_graphs
import pytest
from jsonschema import Draft202012Validator

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.akg import flow
from autofuse.clients.akg.models import KEY_SETS, kernel_schema
from autofuse.machines.gpu import loading

needs_triton = [
    pytest.mark.triton,
]
KINDS = [
    pytest.param("cpu", marks=pytest.mark.twin),
    pytest.param("gpu", marks=[*needs_triton, pytest.mark.slow]),
    "ascend",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mul_tanh.info"
    path.write_text(json.dumps(akg_graphs.FIXED["mul_tanh"]), encoding="utf-8")
    return path


def fits(doc: dict[str, Any], keys: str) -> bool:
    validator = Draft202012Validator(kernel_schema(keys))
    return not list(validator.iter_errors(doc))


@pytest.mark.parametrize("keys", KEY_SETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph", ["mul_tanh", "rows", "in place", "names"])
def test_the_json_fits_its_schema(kind: str, keys: str, graph: str, tmp_path: Path) -> None:
    for given in (akg_graphs.FIXED[graph], akg_graphs.SYMBOLIC.get(graph)):
        if given is None:
            continue
        result = flow.build(given, target=kind, keys=keys)
        result.write(tmp_path / "out", force=True)
        doc = json.loads((tmp_path / "out" / result.json_file).read_text())
        assert fits(doc, keys)
        for key in doc:
            if key not in ("kernelName", "sha256"):
                assert not fits({k: v for k, v in doc.items() if k != key}, keys) or (
                    key
                    in ("hostShapes", "deviceShapes", "runtimeVars", "SupportInfo", "targetInfo")
                )
            assert not fits(doc | {key: {"a": []}}, keys), key
        assert not fits(doc | {"more": 1}, keys)
        assert list(doc) == sorted(doc)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_and_said(autofuse: Callable, file: Path, kind: str) -> None:
    done = autofuse("build", file, "--flow", "akg", "-t", kind, "-o", "out")
    assert done.code == 0, done.err
    assert "kernel_meta/Fused_Mul_Tanh.json has the keys of upstream" in done.out
    assert f"autofuse verify {file}" in done.out
    out = file.parent / "out"
    doc = json.loads((out / "kernel_meta" / "Fused_Mul_Tanh.json").read_text())
    found = autofuse("build", file, "--flow", "akg", "-t", kind, "-o", "out", "--json").json()
    assert found["result"]["written"]["updated"] == []
    assert len(found["result"]["written"]["unchanged"]) == len(found["result"]["files"])
    if kind == "gpu":
        ptx = (out / "kernel_meta" / "Fused_Mul_Tanh.ptx").read_bytes()
        assert doc["sha256"] == hashlib.sha256(ptx).hexdigest()
        assert doc["kernelName"] == "Fused_Mul_Tanh_kernel"
        (row,) = found["result"]["launches"]
        assert row["registers"] > 0
        assert "1 launch," in done.out
    elif kind == "cpu":
        library = (out / "kernel_meta" / "Fused_Mul_Tanh.so").read_bytes()
        assert doc["sha256"] == hashlib.sha256(library).hexdigest()
        assert (doc["kernelName"], doc["threadNumber"]) == ("Fused_Mul_Tanh_kernel", "null")
    else:
        assert doc["sha256"] is None
        assert "sha256 is null because nothing is compiled" in done.out


PROCESSES = [
    pytest.param("cpu", "cpu", marks=pytest.mark.twin),
    pytest.param("cuda", "gpu", marks=needs_triton),
    ("aicore", "ascend"),
    (None, "ascend"),
]


@pytest.mark.parametrize(("process", "kind"), PROCESSES)
def test_the_process_of_the_file_chooses_the_flow(
    autofuse: Callable, tmp_path: Path, process: str | None, kind: str
) -> None:
    info = {k: v for k, v in akg_graphs.FIXED["mul_tanh"].items() if k != "process"}
    info |= {} if process is None else {"process": process}
    path = tmp_path / "f.info"
    path.write_text(json.dumps(info))
    found = autofuse("build", path, "--flow", "akg", "-o", "out", "--json").json()["result"]
    assert found["kind"] == kind
    assert found["next"].partition(" -t ")[2] in ("", flow.TARGET_WORDS[kind])
    # The command line overrides it.
    found = autofuse("build", path, "--flow", "akg", "-t", "ascend910b4", "-o", "b", "--json")
    assert found.json()["result"]["target"] == "ascend910b4"


def test_an_unknown_process_is_refused_with_its_place(autofuse: Callable, tmp_path: Path) -> None:
    path = tmp_path / "f.info"
    path.write_text(json.dumps(akg_graphs.FIXED["mul_tanh"] | {"process": "tpu"}, indent=1))
    done = autofuse("build", path, "--flow", "akg", "-o", "out", "--json")
    (found,) = done.json()["diagnostics"]
    assert (done.code, found["code"], found["where"]["pointer"]) == (1, "AF1104", "/process")
    assert "'tpu'" in found["message"]
    assert not (tmp_path / "out").exists()
    assert autofuse("build", path, "--flow", "akg", "-t", "ascend", "-o", "out").code == 0


@pytest.mark.twin
def test_every_file_of_a_folder_says_its_flow(autofuse: Callable, tmp_path: Path) -> None:
    for process in ("cpu", "aicore"):
        path = tmp_path / "graphs" / f"{process}.info"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(akg_graphs.FIXED["mul_tanh"] | {"process": process}))
    done = autofuse("build", "graphs", "--flow", "akg", "-o", "out")
    assert done.code == 0, done.err
    assert "1 compiled" in done.out
    assert list((tmp_path / "out" / "cpu" / "kernel_meta").glob("*.so"))
    assert (tmp_path / "out" / "aicore" / "CMakePresets.json").exists()


def test_nothing_of_a_project_for_ascend_changes(file: Path) -> None:
    built = api.build(file, target="ascend910b1")
    result = flow.build(file, target="ascend")
    extra = {name: text for name, text in result.files.items() if name not in built.files}
    assert {**built.files, **extra} == dict(result.files)
    assert list(extra) == ["kernel_meta/Fused_Mul_Tanh.json"]
    doc = json.loads(extra["kernel_meta/Fused_Mul_Tanh.json"])
    del doc["autofuse"]
    assert doc == {
        "magic": "RT_DEV_BINARY_MAGIC_ELF_AIVEC",
        "coreType": "VectorCore",
        "kernelName": "Fused_Mul_Tanh",
        "blockDim": 48,
        "binFileSuffix": ".o",
        "binFileName": "Fused_Mul_Tanh",
        "sha256": None,
    }


def test_with_cann_the_library_has_a_digest(
    autofuse: Callable, file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tools = tmp_path_factory.mktemp("tools")
    script = "mkdir -p build/ascend; printf binary > build/ascend/libFused_Mul_Tanh.so"
    for name, text in {"cann/bin/bisheng": "", "path/cmake": script}.items():
        path = tools / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    env = {"ASCEND_HOME_PATH": str(tools / "cann"), "PATH": f"{tools / 'path'}:/usr/bin:/bin"}
    done = autofuse("build", file, "--flow", "akg", "-t", "ascend", "-o", "out", **env)
    assert done.code == 0, done.err
    doc = json.loads((file.parent / "out" / "kernel_meta" / "Fused_Mul_Tanh.json").read_text())
    assert doc["sha256"] == hashlib.sha256(b"binary").hexdigest()
    assert doc["binFileName"] + doc["binFileSuffix"] == "libFused_Mul_Tanh.so"
    assert "null" not in done.out


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_folder(autofuse: Callable, file: Path, kind: str) -> None:
    folder = file.parent / "graphs"
    (folder / "deeper").mkdir(parents=True)
    for name, graph in {
        "a.info": akg_graphs.FIXED["mul_tanh"],
        "deeper/b.json": akg_graphs.FIXED["in place"],
        "c.info": akg_graphs.info("matmul", (), [akg_graphs.op("MatMul", (), {})], ()),
    }.items():
        (folder / name).write_text(json.dumps(graph), encoding="utf-8")
    done = autofuse("build", folder, "--flow", "akg", "-t", kind, "-o", "out", "-j", "1", "--json")
    found = done.json()["result"]
    assert found["counts"] == {"built": 2, "failed": 1, "not supported yet": 0}
    assert (file.parent / "out" / "a" / "kernel_meta" / "Fused_Mul_Tanh.json").is_file()
    assert (file.parent / "out" / "deeper" / "b" / "kernel_meta").is_dir()


def test_an_op_that_no_flow_takes(autofuse: Callable, file: Path) -> None:
    x, y = (akg_graphs.tensor(n, (16, 16), "float16") for n in "xy")
    graph = akg_graphs.info("mm", (x,), [akg_graphs.op("MatMul", (x, x), y)], (y,))
    file.write_text(json.dumps(graph), encoding="utf-8")
    for target in flow.TARGET_WORDS:
        done = autofuse("build", file, "--flow", "akg", "-t", target)
        assert done.code == 1
        assert "error AF1201" in done.err
        assert "MatMul" in done.err
        assert "/op_desc/0" in done.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--flow", "akg", "-t", "gpus"), "AF5006", "unknown target 'gpus'"),
        (("--flow", "akg", "-t", "triton-ascend910b1"), "AF5007", "AKG has no flow for"),
        (("--flow", "akg", "--split"), "AF5007", "--split does not apply to --flow akg"),
        (("--flow", "akg", "--partition"), "AF5007", "--partition does not apply"),
        pytest.param(("--flow", "akg", "--no-partition"), "", "", marks=needs_triton),
        (("--flow", "akg", "--entry", "op-package"), "AF5007", "--entry does not apply"),
        (("--flow", "akg", "-t", "gpu", "--ub", "65536"), "AF5007", "bytes of UB are for"),
        (("--flow", "akg", "-t", "cpu", "--ub", "65536"), "AF5007", "bytes of UB are for"),
        (("--flow", "akg", "-t", "cpu", "--tuning", "t.json"), "AF5007", "tuning"),
        (("--kernel-json", "document"), "AF5007", "--kernel-json is for the JSON of a flow"),
        (("-t", "gpu"), "AF5006", "unknown target 'gpu'"),
    ],
)
def test_what_does_not_go_together(
    autofuse: Callable, file: Path, words: tuple[str, ...], code: str, message: str
) -> None:
    done = autofuse("build", file, *words, "-o", "out")
    assert done.code == (1 if code else 0)
    if code:
        assert f"error {code}: " in done.err
        assert message in done.err
        assert not (file.parent / "out").exists()


def test_words_of_the_command_line_that_are_none(autofuse: Callable, file: Path) -> None:
    for words in (("--flow", "tvm"), ("--flow", "akg", "--kernel-json", "mine")):
        done = autofuse("build", file, *words)
        assert done.code != 0
        assert words[-1] in done.err


def test_a_file_that_is_no_graph(autofuse: Callable, file: Path) -> None:
    file.write_text('{"op": "x", "op_desc": 3}', encoding="utf-8")
    done = autofuse("build", file, "--flow", "akg", "-t", "gpu", "--json")
    assert done.code == 1
    assert done.json()["diagnostics"][0]["where"]["path"] == str(file)
    done = autofuse("build", "nowhere.info", "--flow", "akg", "-t", "gpu")
    assert "error AF1001" in done.err


def test_without_triton(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(AutofuseError, match="torch and triton, not installed") as caught:
        flow.build(file, target="gpu")
    assert caught.value.diagnostics[0].code == "AF5001"


def test_without_a_compiler(autofuse: Callable, file: Path) -> None:
    done = autofuse("build", file, "--flow", "akg", "-t", "cpu", AUTOFUSE_CXX="/nowhere/c++")
    assert done.code == 1
    assert "error AF5001" in done.err
    assert "/nowhere/c++" in done.err


def test_the_schema_is_printed(autofuse: Callable) -> None:
    for keys in KEY_SETS:
        found = json.loads(autofuse("schema", "--kernel-json", keys).out)
        Draft202012Validator.check_schema(found)
        assert found == kernel_schema(keys)
    done = autofuse("schema", "--kernel-json", "document", "--tuning")
    assert "error AF5007: schema prints one schema at a time" in done.err
    with pytest.raises(ValueError, match="keys are upstream or document"):
        flow.build({}, keys="mine")
