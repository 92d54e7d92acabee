"""Writers of an output folder that are killed, at every step, and several of them at once."""

import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.base.artifacts import MANIFEST, read_files, write_files
from autofuse.base.diagnostics import AutofuseError

OLD = {"a.txt": "old a", "sub/b.txt": "old b", "sub/gone.txt": "gone", "same.txt": "same"}
NEW = {"a.txt": "new a", "sub/b.txt": "new b", "more/c.txt": "new c", "same.txt": "same"}
#: Events of the interpreter that stand for a change, or come right before one.
EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "shutil.rmtree")


def killed_at(step: int, action: Callable[[], object]) -> bool:
    """Run ``action`` in another process that is killed at its ``step``-th event; False if it ends before."""
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        left = [step]

        def hook(event: str, args: object) -> None:
            if event in EVENTS:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def whole(folder: Path) -> dict[str, str] | None:
    """What a user of the folder gets: all files of one build, or nothing."""
    try:
        found = read_files(folder)
    except AutofuseError as e:
        if [d.code for d in e.diagnostics] != ["AF1001"]:
            raise
        return None
    assert found in ({}, OLD, NEW)
    return found or None


def check_complete(folder: Path, files: dict[str, str]) -> None:
    assert read_files(folder) == files
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    assert set(manifest) == {"schema", "files"}
    for name, text in files.items():
        assert manifest["files"][name] == hashlib.sha256(text.encode()).hexdigest()
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert there == {*files, MANIFEST}


@pytest.mark.parametrize("before", [None, OLD], ids=["new folder", "update"])
@pytest.mark.parametrize("after", [OLD, NEW], ids=["write the old", "write the new"])
def test_killed_at_every_step(
    tmp_path: Path, before: dict[str, str] | None, after: dict[str, str]
) -> None:
    step = 0
    killed = True
    while killed:
        home = tmp_path / str(step)
        out = home / "out"
        home.mkdir()
        if before is not None:
            write_files(before, out)
        killed = killed_at(step, lambda out=out: write_files(NEW, out))
        whole(out)
        write_files(after, out)
        check_complete(out, after)
        step += 1
    assert step > 10


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert killed_at(6, lambda: write_files(NEW, out))
    (left,) = tmp_path.iterdir()
    write_files(NEW, out)
    assert left.exists()  # it might be in use, as far as one can tell
    os.utime(left, (1, 1))
    write_files(NEW, out)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_edited_by_hand_after_a_kill_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for step in range(100):
        write_files(OLD, out, force=True)
        if not killed_at(step, lambda: write_files(NEW, out)):
            break
        (out / "a.txt").write_text("mine")
        with pytest.raises(AutofuseError, match="edited"):
            write_files(NEW, out)
        assert (out / "a.txt").read_text() == "mine"
    assert step > 10


def test_writers_of_one_folder_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    failed: list[BaseException] = []

    def work(files: dict[str, str]) -> None:
        try:
            for _ in range(25):
                write_files(files, out)
                whole(out)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(f,)) for f in (OLD, NEW) * 4]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    write_files(NEW, out)
    check_complete(out, NEW)
