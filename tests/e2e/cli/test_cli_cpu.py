"""What the verbs do for a CPU."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.targets import cpu_names, find_target, load_cpu


@pytest.fixture
def file(tmp_path: Path, native: Callable) -> Path:
    path = tmp_path / "add_one.json"
    path.write_text(json.dumps(native()), encoding="utf-8")
    return path


def test_targets_lists_cpus(autofuse: Callable) -> None:
    assert "CPU target" in autofuse("targets").out
    rows = autofuse("targets", "--json").json()["result"]["cpus"]
    assert [r["name"] for r in rows] == list(cpu_names()) == ["cpu"]
    assert rows[0]["simd_bytes"] == load_cpu("cpu").simd_bytes


def test_every_figure_of_a_cpu_has_a_source(autofuse: Callable) -> None:
    text = autofuse("targets", "cpu").out
    assert "cpu (C++)" in text
    for figure in find_target("cpu").figures():
        assert figure.name in text
        assert figure.status == "assumed"
        assert figure.source


def test_there_is_no_other_cpu() -> None:
    with pytest.raises(AutofuseError, match="AF5006"):
        load_cpu("gpu")


@pytest.mark.twin
def test_a_folder_is_built_and_run(autofuse: Callable, file: Path, tmp_path: Path) -> None:
    done = autofuse("build", file, "-t", "cpu", "-o", tmp_path / "out")
    assert done.code == 0
    made = {p.name for p in (tmp_path / "out").iterdir()}
    assert made == {"add_one.cpp", "add_one.graph.json", "manifest.json"}
    done = autofuse("run", tmp_path / "out")
    assert done.code == 0
    assert "add_one on the CPU" in done.out


@pytest.mark.twin
def test_verify(autofuse: Callable, file: Path) -> None:
    done = autofuse("verify", file, "-t", "cpu", "--json")
    assert done.code == 0
    (row,) = done.json()["result"]["graphs"]
    assert row["state"] == "passed"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("verify", "-t", "cpu", "--device", "cuda"),
            "C++ loops run on this machine's CPU",
        ),
        (("verify", "-t", "cpu", "--check", "fast"), "--check is for the CPU twin"),
        (("run", "-t", "cpu", "--key", "0"), "--key is for the CPU twin"),
        (("run", "-t", "cpu", "--trace", "t.json"), "--trace is for the CPU twin"),
        (("build", "-t", "cpu", "--ub", "65536"), "bytes of UB are for"),
        (("build", "-t", "cpu", "--entry", "op-package"), "unknown entry"),
        (("dump", "-t", "cpu", "--stage", "kernel"), "have no templates"),
        (("explain", "-t", "cpu"), "cpu has no templates"),
    ],
)
def test_what_does_not_go_together(
    autofuse: Callable, file: Path, words: tuple[str, ...], message: str
) -> None:
    done = autofuse(words[0], file, *words[1:])
    assert done.code == 1
    assert "error AF5007" in done.err
    assert message in done.err
