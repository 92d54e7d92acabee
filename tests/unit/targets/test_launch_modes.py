"""Tests of launches and of barriers of all cores, for every architecture and entry."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from autofuse.api import build
from autofuse.codegen.render import read_text
from autofuse.results import BuildResult
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.targets import load_target
from tests.unit.schedule.conftest import make_graph

ENTRIES = ("launch", "torch", "op-package")
#: Chip -> kernel type alone and with barriers, the barrier, bytes of the workspace before everything else.
MODES = {
    "ascend910b1": ("AIV_ONLY", "MIX_AIV_1_0", r"  SyncAll\(\);", 0),
    "ascend910c": ("AIV_ONLY", "MIX_AIV_1_0", r"  SyncAll\(\);", 0),
    "ascend950pr": ("AIV_ONLY", "MIX_AIV_1_0", r"  SyncAll\(\);", 0),
    "ascend310p": ("AICORE", "AICORE", r"autofuse::MeetAll<autofuse::k\w+Meeting>\(\w+\);", 512),
}


@lru_cache(maxsize=32)
def built(chip: str, entry: str, rows: int) -> BuildResult:
    """A sum over rows: many are divided among cores, and their parts joined behind a barrier."""
    sums = [("y", "ReduceSum", ["x"], {"axes": (0,)})]
    graph = make_graph({"x": ("float32", [rows, 64])}, sums, ["y"])
    return build(graph, target=chip, entry=entry)


def entry_of(made: BuildResult) -> str:
    """The function that the host calls, and its includes."""
    found = [t for p, t in made.files.items() if p.startswith(("device/", "op_kernel/"))]
    (text,) = [t for t in found if 'extern "C"' in t and "KERNEL_TASK_TYPE_DEFAULT" in t]
    return "".join(re.findall(r"#include .*\n", text)) + text[text.index('extern "C"') :]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("chip", MODES)
def test_kernels_start_and_meet_as_their_architecture_does(chip: str, entry: str) -> None:
    alone, meeting, barrier, place = MODES[chip]
    plain, divided = built(chip, entry, 8), built(chip, entry, 200_000)
    assert not any(g.sync_before for r in plain.schedule for g in r.groups)
    assert all(any(g.sync_before for g in r.groups) for r in divided.schedule)
    for made, task in ((plain, alone), (divided, meeting)):
        text = entry_of(made)
        assert re.findall(r"KERNEL_TASK_TYPE_DEFAULT\(KERNEL_TYPE_(\w+)\)", text) == [task]
        meets = made is divided
        assert bool(re.search(barrier, text)) == meets
        assert ("SyncAll" in text) == (meets and place == 0)
        assert ("AUTOFUSE_BATCH_MODE" in text) == (meets and entry != "op-package")
        assert ('"autofuse_batch.h"' in text) == (meets and entry != "op-package")
        assert any("SetScheduleMode(1)" in t for t in made.files.values()) == (
            meets and entry == "op-package"
        )
    for r in divided.schedule:
        nodes = [n for g in r.groups for i in g.impls for n in i.nodes]
        offsets = [n.size("offset").value for n in nodes if n.op == "Workspace"]
        assert min(offsets) == place
        held = workspace_bytes(r.hint, divided.target).value
        assert held == place + workspace_bytes(r.hint, load_target("ascend910b1")).value


def test_every_key_clears_the_place_once() -> None:
    text = entry_of(built("ascend310p", "launch", 200_000))
    for branch in text.split("t.tiling_key ==")[1:]:
        found = re.findall(r"MeetAll<autofuse::(\w+)>", branch)
        assert found[0] == "kFirstMeeting"
        assert "kFirstMeeting" not in found[1:]


def test_architecture_has_all_that_kernels_ask_for() -> None:
    for chip in MODES:
        arch = load_target(chip).arch
        for rows in (8, 200_000):
            text = entry_of(built(chip, "launch", rows))
            asked = {*re.findall(r"KERNEL_TYPE_\w+", text), *re.findall(r"SyncAll\(\)", text)}
            assert not asked & arch.lacks, chip


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++: apt install g++")
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), ""),
        (("-DASC_DEVKIT_MAJOR=8", "-DASC_DEVKIT_MINOR=5"), ""),
        (("-DASC_DEVKIT_MAJOR=9", "-DASC_DEVKIT_MINOR=0"), ""),
        (("-DASC_DEVKIT_MAJOR=9", "-DASC_DEVKIT_MINOR=1"), "__schedmode__(1)"),
        (("-DASC_DEVKIT_MAJOR=10", "-DASC_DEVKIT_MINOR=0"), "__schedmode__(1)"),
        (("-DVERSION_FILE=version",), "__schedmode__(1)"),
        (("-DVERSION_FILE=ascendc",), "__schedmode__(1)"),
    ],
)
def test_batch_mode_is_asked_for_where_cann_has_a_word(
    tmp_path: Path, flags: tuple[str, ...], text: str
) -> None:
    (tmp_path / "autofuse_batch.h").write_text(read_text("autofuse_batch.h"), encoding="utf-8")
    source = '#include "autofuse_batch.h"\nmode AUTOFUSE_BATCH_MODE;\n'
    if flags and flags[0].startswith("-DVERSION_FILE="):
        folder = tmp_path / flags[0].partition("=")[2]
        folder.mkdir()
        version = "#define ASC_DEVKIT_MAJOR 9\n#define ASC_DEVKIT_MINOR 1\n"
        (folder / "asc_devkit_version.h").write_text(version, encoding="utf-8")
    words = ["g++", "-E", "-P", "-x", "c++", f"-I{tmp_path}", *flags, "-"]
    done = subprocess.run(words, input=source, capture_output=True, text=True, check=True)
    assert re.search(r"mode (.*);", done.stdout.replace("mode ;", "mode  ;"))[1].strip() == text
