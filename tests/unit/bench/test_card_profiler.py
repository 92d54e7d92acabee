"""Counters of a card: what ``ncu`` prints, and what there is without it."""

import sys
from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.gpu.profiler import Counted, counters

METRICS = ("dram__bytes_read.sum", "some.pct")
PRINTED = """\
==PROF== Connected to process 7
"ID","Process ID","Kernel Name","dram__bytes_read.sum","some.pct"
"","","","byte","%"
"0","7","spin_kernel(long)","0","0"
"1","7","first_rows(float *, int)","1,024","12.5"
"2","7","second_rows","2,048","50"
"3","7","spin_kernel(long)","0","0"
"4","7","spin_kernel(long)","0","0"
"5","7","third_rows(int)","1","0.25"
"""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in PATH for a program of this name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{Path(sys.executable).parent}")
    return folder / "ncu"


def write(path: Path, text: str) -> None:
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(0o755)


def test_kernels_of_parts(ncu: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    text = f"import sys, os\nopen({str(asked)!r}, 'w').write(repr((sys.argv, os.getcwd())))\nprint({PRINTED!r})\n"
    write(ncu, text)
    assert counters(["-m", "watched"], METRICS, tmp_path) == [
        [Counted("first_rows", (1024.0, 12.5)), Counted("second_rows", (2048.0, 50.0))],
        [],
        [Counted("third_rows", (1.0, 0.25))],
    ]
    said = asked.read_text("utf-8")
    assert f"--metrics={','.join(METRICS)}" in said
    assert f"'{sys.executable}', '-m', 'watched'" in said
    assert f"'{tmp_path}')" in said


@pytest.mark.parametrize("status", [0, 3])
def test_counters_that_cannot_be_read(ncu: Path, tmp_path: Path, status: int) -> None:
    write(ncu, f"print('==ERROR== ERR_NVGPUCTRPERM\\x1b[31m')\nraise SystemExit({status})\n")
    with pytest.raises(AutofuseError, match=f"status {status} .*ERR_NVGPUCTRPERM") as e:
        counters(["-c", "pass"], METRICS, tmp_path)
    assert e.value.diagnostics[0].code == "AF5003"
    assert "\x1b" not in str(e.value)


def test_no_profiler(ncu: Path, tmp_path: Path) -> None:
    with pytest.raises(AutofuseError, match="not in PATH") as e:
        counters(["-c", "pass"], METRICS, tmp_path)
    assert e.value.diagnostics[0].code == "AF5001"
