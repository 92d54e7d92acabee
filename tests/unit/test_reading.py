"""Files that somebody names, or that lie in a folder he names: pipes, devices and huge files are refused at once."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from autofuse import failures
from autofuse.base import artifacts, cache, reading
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands import words

HUGE = 2 << 30


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as f:
        f.truncate(HUGE)


BAD: list[Callable[[Path], None]] = [pipe, device, sparse]


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """What reads a whole file of 2 GB ends in MemoryError."""
    with Path("/proc/self/statm").open(encoding="ascii") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("make", BAD)
def test_texts(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "f")
    with pytest.raises(ValueError, match=r"is not a regular file|the limit is"):
        reading.content(tmp_path / "f")


def test_as_many_bytes_as_the_limit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert reading.content(tmp_path / "f", 3) == b"abc"
    with pytest.raises(ValueError, match="f has 3 bytes, the limit is 2"):
        reading.content(tmp_path / "f", 2)


@pytest.mark.parametrize("make", BAD)
def test_reproducers(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "g.json")
    assert "the input cannot be shown" in failures._source(str(tmp_path / "g.json"))


@pytest.mark.parametrize("make", BAD)
def test_inputs(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x.npy")
    with pytest.raises(
        AutofuseError, match=r"is not a valid \.npy file|not a \.npy file|no such file"
    ) as e:
        words.array(str(tmp_path / "x.npy"))
    assert e.value.diagnostics[0].code == "AF1001"


def test_inputs_that_say_they_are_large_are_not_read_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    assert words.array(str(tmp_path / "x.npy")).tolist() == [[0, 1, 2], [3, 4, 5]]
    np.save(tmp_path / "y.npy", np.zeros((0, 3)))
    assert words.array(str(tmp_path / "y.npy")).shape == (0, 3)
    with (tmp_path / "z.npy").open("wb") as f:
        header = {"descr": "|u1", "fortran_order": False, "shape": (HUGE // 4,)}
        np.lib.format.write_array_header_1_0(f, header)
        f.truncate(f.tell() + HUGE // 4)
    found = words.array(str(tmp_path / "z.npy"))
    assert type(found) is np.ndarray
    assert found.shape == (HUGE // 4,)


@pytest.mark.parametrize("make", BAD)
@pytest.mark.parametrize("name", ["a/b.txt", artifacts.MANIFEST])
def test_folders_of_kernels(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    folder = tmp_path / "out"
    artifacts.write_files({"a/b.txt": "1", "c.txt": "2"}, folder)
    make(folder / name)
    if name != artifacts.MANIFEST:
        with pytest.raises(AutofuseError) as e:
            artifacts.read_files(folder)
        assert e.value.diagnostics[0].code == "AF1001"
    with pytest.raises(AutofuseError) as e:
        artifacts.write_files({"a/b.txt": "3", "c.txt": "2"}, folder)
    assert e.value.diagnostics[0].code == "AF5005"


@pytest.mark.parametrize("make", BAD)
def test_entries_of_the_cache(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "f")
    if make is sparse:
        assert len(reading.sha256(tmp_path / "f")) == 64
    else:
        with pytest.raises(ValueError, match="is not a regular file"):
            cache._digest(tmp_path / "f")
