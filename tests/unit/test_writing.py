"""Files of a verb: whole or not at all."""

import errno
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.writing import array, text, write_all


def full(f: BinaryIO) -> None:
    f.write(b"a part")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_texts_and_arrays(tmp_path: Path) -> None:
    x = np.arange(5, dtype=np.int16)
    folder = tmp_path / "a" / "b"
    write_all({folder / "t": text("ä"), folder / "x.npy": array(x)}, folder)
    assert (folder / "t").read_bytes() == "ä".encode()
    assert np.array_equal(np.load(folder / "x.npy"), x)
    assert sorted(p.name for p in folder.iterdir()) == ["t", "x.npy"]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old", encoding="utf-8")
    new = tmp_path / "new" / "folder"
    files = {tmp_path / "old": text("other"), new / "x": text("x"), tmp_path / "full": full}
    with pytest.raises(AutofuseError) as caught:
        write_all(files, new)
    (found,) = caught.value.diagnostics
    assert found.code == "AF5005"
    assert found.message == f"cannot write {tmp_path / 'full'}: No space left on device"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text(encoding="utf-8") == "old"


def test_links_devices_and_modes(tmp_path: Path) -> None:
    """A link keeps leading to its file, a device is written to and not replaced, new files have the usual mode."""
    (tmp_path / "file").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to("file")
    write_all({tmp_path / "link": text("new"), Path("/dev/null"): text("x")})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "new"
    assert not Path("/dev/null").is_file()
    (tmp_path / "plain").write_text("", encoding="utf-8")
    write_all({tmp_path / "made": text("")})
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain").chmod(0o640)
    write_all({tmp_path / "plain": text("more")})
    assert (tmp_path / "plain").stat().st_mode & 0o777 == 0o640
    with pytest.raises(AutofuseError, match="this is a folder"):
        write_all({tmp_path: text("x")})
    with pytest.raises(AutofuseError, match="No space left"):
        write_all({tmp_path / "file": text("lost"), Path("/dev/full"): text("x" * 100_000)})
    assert (tmp_path / "file").read_text(encoding="utf-8") == "new"
