"""The CANN release that a kernel needs: in its metadata, and as a check in its CMake project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from twin_graphs import graph

from autofuse.api import build, build_split
from autofuse.codegen.backends.ascendc.releases import all_releases, cann_json, releases_of
from autofuse.results import BuildResult, SplitResult
from autofuse.targets import load_target, target_names

ARCH = load_target("ascend910b1").arch
PLAIN = graph({"x": ("float32", [1024])}, [("y", "Abs", ["x"])])
COUNTS: list[tuple[Any, ...]] = [("y", "ArgMax", ["x"], {"axis": 1})]
INDEX = graph({"x": ("float32", [64, 512])}, COUNTS)
BACK = graph(
    {"x": ("float32", [8192])},
    [("y", "Slice", ["x"], {"starts": [8191], "shape": [2688], "steps": [-1]})],
)
PICKS = graph(
    {"x": ("float32", [8192])},
    [("y", "Slice", ["x"], {"starts": [1], "shape": [2688], "steps": [3]})],
)


def needs(built: BuildResult) -> Any:
    return json.loads(built.files[f"{built.name}.json"])["cann"]


@pytest.mark.parametrize("target", target_names())
def test_the_metadata_name_the_release(target: str) -> None:
    assert needs(build(PLAIN, target=target)) == {"release": None, "calls": {}}
    assert needs(build(BACK, target=target)) == {"release": "8.5", "calls": {"Arange": "8.5"}}


def test_what_a_header_calls_counts() -> None:
    built = build(PICKS)
    assert "Arange(" not in built.files[f"device/{built.name}_kernel.cpp"]
    assert needs(built)["release"] == "8.5"


def test_comments_and_other_names_do_not_count() -> None:
    for text in ("// Arange(x)\n", "MyArange(x)", "Arange x"):
        assert releases_of(text, {}, ARCH) == {}
    assert releases_of("AscendC::Arange<half>(x)", {}, ARCH) == {"Arange": "8.5"}
    included = {
        "include/autofuse_a.h": '#include "autofuse_b.h"\n',
        "include/autofuse_b.h": "Arange(x)",
    }
    assert releases_of('#include "autofuse_a.h"\n', included, ARCH) == {"Arange": "8.5"}


def test_the_last_release_of_several() -> None:
    found = all_releases([{"A": "8.5"}, {"B": "10.1"}, {"A": "8.5", "C": "9.0.1"}])
    assert cann_json(found) == {"release": "10.1", "calls": {"A": "8.5", "B": "10.1", "C": "9.0.1"}}


# CMake ----------------------------------------------------------------------------------------
TOOLKIT, COMPILER = "aarch64-linux/ascend_toolkit_install.info", "compiler/version.info"


def configured(
    built: BuildResult | SplitResult, tmp_path: Path, info: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    """CMake for the chip, with a folder of CANN that has these files and a package that ends the configuration."""
    home = tmp_path / "cann"
    own = {"cmake/ASCConfig.cmake": 'message(FATAL_ERROR "the package was asked for")\n'}
    for path, text in {**own, **info}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    built.write(tmp_path / "out")
    return subprocess.run(
        [
            *("cmake", "-S", str(tmp_path / "out"), "-B", str(tmp_path / "build")),
            *("-DAUTOFUSE_BACKEND=ascend", f"-DASC_DIR={home / 'cmake'}", *options),
        ],
        env={**os.environ, "ASCEND_HOME_PATH": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")


@needs_cmake
@pytest.mark.parametrize(
    ("info", "release"),
    [
        ({TOOLKIT: "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\narch=aarch64\n"}, "8.1.RC1"),
        ({COMPILER: "Version=7.7.0.1.238\nversion_dir=8.1.RC1\ntimestamp=1\n"}, "8.1.RC1"),
        ({COMPILER: "Version=8.3.T5.0.B028\nversion_dir=8.3.RC1.alpha001\n"}, "8.3.RC1.alpha001"),
    ],
)
def test_an_older_release_stops_the_configuration(
    tmp_path: Path, info: dict[str, str], release: str
) -> None:
    ended = configured(build(INDEX), tmp_path, info)
    said = " ".join(ended.stderr.split())
    assert ended.returncode
    assert f"CANN {release} in" in said
    assert "this kernel calls Arange, which CANN has from 8.5 on" in said
    assert "the package was asked for" not in said


@needs_cmake
@pytest.mark.parametrize(
    "info",
    [
        {TOOLKIT: "version=8.5.0\n"},
        {COMPILER: "Version=8.5.T8.0.B060\nversion_dir=8.5.0.alpha002\n"},
        {TOOLKIT: "version=10.0.RC1\n"},
    ],
)
def test_a_later_release_goes_on(tmp_path: Path, info: dict[str, str]) -> None:
    ended = configured(build(INDEX), tmp_path, info)
    assert "too old" not in ended.stderr
    assert "is not known" not in ended.stderr
    assert "the package was asked for" in ended.stderr


@needs_cmake
def test_the_check_can_be_left_out_and_is_not_made_in_vain(tmp_path: Path) -> None:
    old = {TOOLKIT: "version=8.1.RC1\n"}
    ended = configured(build(INDEX), tmp_path / "a", old, "-DAUTOFUSE_CANN_CHECK=OFF")
    assert "the package was asked for" in ended.stderr
    ended = configured(build(PLAIN), tmp_path / "b", old)
    assert "too old" not in ended.stderr
    ended = configured(build(INDEX), tmp_path / "c", {})
    assert "needs 8.5 or later: Arange" in " ".join(ended.stderr.split())
    assert "the package was asked for" in ended.stderr


@needs_cmake
def test_several_kernels_need_what_one_of_them_needs(tmp_path: Path) -> None:
    nodes: list[tuple[Any, ...]] = [("a", "ArgMax", ["x"], {"axis": 1}), ("y", "Neg", ["z"])]
    both = graph({"x": ("float32", [64, 512]), "z": ("float32", [33])}, nodes, ["a", "y"])
    built = build_split(both, cut_after=["n0"])
    assert isinstance(built, SplitResult)
    found = json.loads(built.files[f"{built.name}.split.json"])
    assert found["cann"] == {"release": "8.5", "calls": {"Arange": "8.5"}}
    ended = configured(built, tmp_path, {TOOLKIT: "version=8.1.RC1\n"})
    assert "is too old" in " ".join(ended.stderr.split())
