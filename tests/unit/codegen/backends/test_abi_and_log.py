"""The version of the C interface, and what the host functions say about their calls."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autofuse.base import abi, knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.render import read_text

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

# Two files of one library, as tiling and launch are.
TILING = """
#include "autofuse_log.h"
struct Data { uint32_t tiling_key; uint32_t block_dim; };
extern "C" int64_t Tile(int64_t rows, int64_t rc)
{
    const Data data = {3, 40};
    const uint32_t workspace = 512;
    if (autofuse::Logs(autofuse::kLogError)) {
        autofuse::LogTiling("k", "AutofuseTiling", {{"rows", rows}, {"cols", 8}}, rc, "too large", &data, &workspace);
    }
    return rc;
}
extern "C" void AutofuseSetLogger(AutofuseLogger logger, void* user, int32_t level)
{
    autofuse::SetLogger(logger, user, level);
}
"""
LAUNCH = """
#include "autofuse_log.h"
extern "C" void Launch(int64_t rc)
{
    if (autofuse::Logs(autofuse::kLogError)) {
        autofuse::LogLaunch("k", 3, 40, rc);
    }
}
"""
CALLS = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.Tile.argtypes = [ctypes.c_int64, ctypes.c_int64]
lib.Launch.argtypes = [ctypes.c_int64]
lib.Tile(4, 0)
lib.Tile(5, 102)
lib.Launch(0)
lib.Launch(1)
"""
FAILURES = [
    "k: AutofuseTiling(rows=5, cols=8) returned 102: too large",
    "k: AutofuseLaunch of key 3 on 40 cores returned 1",
]
CHOICE = "k: AutofuseTiling(rows=4, cols=8): key 3, 40 cores, 512 bytes of workspace"
LAUNCHED = "k: AutofuseLaunch of key 3 on 40 cores returned 0"


def compiled(folder: Path, name: str) -> Path:
    headers = folder / "include"
    headers.mkdir(exist_ok=True)
    (headers / "autofuse_log.h").write_text(read_text("autofuse_log.h"), encoding="utf-8")
    for file, text in {"tiling.cpp": TILING, "launch.cpp": LAUNCH}.items():
        (folder / file).write_text(text, encoding="utf-8")
    library = folder / f"{name}.so"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{headers}"]
    sources = [folder / "tiling.cpp", folder / "launch.cpp"]
    subprocess.run(["g++", *flags, *sources, "-o", library], check=True, timeout=300)
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("log"), "one")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (None, []),
        ("", []),
        ("off", []),
        ("error", FAILURES),
        ("info", [CHOICE, *FAILURES]),
        ("debug", [CHOICE, FAILURES[0], LAUNCHED, FAILURES[1]]),
    ],
)
def test_lines_of_a_level(library: Path, level: str | None, expected: list[str]) -> None:
    env = {} if level is None else {knobs.LOG_LEVEL.name: level}
    done = subprocess.run(
        [sys.executable, "-c", CALLS, library], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert done.stderr.splitlines() == [f"autofuse: {line}" for line in expected]


def test_an_unknown_level_is_said_once_and_not_repeated(library: Path) -> None:
    env = {knobs.LOG_LEVEL.name: "verbose\x1b[2J"}
    done = subprocess.run(
        [sys.executable, "-c", CALLS, library], env=env, capture_output=True, text=True, check=True
    )
    (line,) = done.stderr.splitlines()
    assert "none of off, error, info, debug" in line
    assert "verbose" not in line


def test_a_logger_gets_the_lines_of_its_library_alone(
    library: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
    one, other = ctypes.CDLL(str(library)), ctypes.CDLL(str(compiled(tmp_path, "other")))
    for lib in (one, other):
        lib.Tile.argtypes = [ctypes.c_int64, ctypes.c_int64]
        lib.AutofuseSetLogger.argtypes = [kind, ctypes.c_void_p, ctypes.c_int32]
        lib.AutofuseSetLogger.restype = None
    heard: list[tuple[int, str, int]] = []
    logger = kind(lambda level, text, user: heard.append((level, text.decode(), user)))
    one.AutofuseSetLogger(logger, 77, 2)
    one.Tile(4, 0)
    other.Tile(4, 0)
    assert heard == [(2, CHOICE, 77)]
    one.AutofuseSetLogger(logger, 77, 1)
    one.Tile(4, 0)
    one.Tile(5, 102)
    assert heard[1:] == [(1, FAILURES[0], 77)]
    one.AutofuseSetLogger(kind(), None, 0)
    one.Tile(5, 102)
    assert len(heard) == 2
    assert capfd.readouterr().err == ""


def test_the_levels_are_those_of_the_knob() -> None:
    names = re.search(r"kNames\[\] = \{(.*?)\}", read_text("autofuse_log.h"))
    assert names is not None
    assert tuple(re.findall(r"\w+", names[1])) == knobs.LOG_LEVEL.values


@pytest.mark.parametrize("header", ["autofuse_status.h", "autofuse_torch.h"])
def test_header_and_package_have_one_version(header: str) -> None:
    found = re.search(r"kAbiVersion = (\d+);", read_text(header))
    assert found is not None
    assert int(found[1]) == abi.ABI_VERSION


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("", "no AutofuseAbiVersion", "rebuild the kernel with this autofuse"),
        ("uint32_t AutofuseAbiVersion() { return 0; }", "version 0", "rebuild the kernel with"),
        ("uint32_t AutofuseAbiVersion() { return 9; }", "version 9", "a newer autofuse"),
    ],
)
def test_another_version_is_refused(tmp_path: Path, text: str, says: str, hint: str) -> None:
    source, library = tmp_path / "x.c", tmp_path / "x.so"
    source.write_text(f"#include <stdint.h>\n{text}\n", encoding="utf-8")
    subprocess.run(["g++", "-x", "c", source, "-shared", "-fPIC", "-o", library], check=True)
    with pytest.raises(AutofuseError) as e:
        abi.check_library(ctypes.CDLL(str(library)), "x.so")
    (found,) = e.value.diagnostics
    assert (found.code, found.where.path) == ("AF5007", "x.so")
    assert says in found.message
    assert found.hint.startswith(hint)
