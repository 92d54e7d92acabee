"""Files on disk: all or none, and nothing of somebody else's is lost."""

import json
from pathlib import Path

import pytest

from autofuse.base.artifacts import MANIFEST, digest, write_files
from autofuse.base.diagnostics import AutofuseError

FILES = {"host/a.cpp": "int a;\n", "device/b.cpp": "int b;\n", "CMakeLists.txt": "project(x)\n"}


def tree(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8")
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def codes(error: pytest.ExceptionInfo[AutofuseError]) -> list[str]:
    return [d.code for d in error.value.diagnostics]


def test_writes_into_a_new_folder(tmp_path: Path) -> None:
    done = write_files(FILES, tmp_path / "deep" / "out")
    assert done.created == tuple(sorted(FILES))
    written = tree(tmp_path / "deep" / "out")
    manifest = json.loads(written.pop(MANIFEST))
    assert written == FILES
    assert manifest["files"] == {name: digest(text) for name, text in sorted(FILES.items())}


def test_leaves_nothing_beside_the_folder(tmp_path: Path) -> None:
    write_files(FILES, tmp_path / "out")
    write_files({**FILES, "host/a.cpp": "int c;\n"}, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_same_files_again_change_nothing(tmp_path: Path) -> None:
    write_files(FILES, tmp_path / "out")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.cpp")}
    done = write_files(FILES, tmp_path / "out")
    assert done.unchanged == tuple(sorted(FILES))
    assert done.created == done.updated == done.removed == ()
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.cpp")}


def test_replaces_its_own_and_removes_what_is_no_longer_generated(tmp_path: Path) -> None:
    write_files(FILES, tmp_path / "out")
    new = {"host/a.cpp": "int c;\n", "CMakeLists.txt": "project(x)\n"}
    done = write_files(new, tmp_path / "out")
    assert done.updated == ("host/a.cpp",)
    assert done.removed == ("device/b.cpp",)
    written = tree(tmp_path / "out")
    written.pop(MANIFEST)
    assert written == new
    assert not (tmp_path / "out" / "device").exists()


def test_keeps_files_it_does_not_know(tmp_path: Path) -> None:
    write_files(FILES, tmp_path / "out")
    (tmp_path / "out" / "device" / "notes.txt").write_text("mine")
    write_files({"host/a.cpp": "int c;\n"}, tmp_path / "out")
    assert (tmp_path / "out" / "device" / "notes.txt").read_text() == "mine"


def test_keeps_an_edited_file_that_is_no_longer_generated(tmp_path: Path) -> None:
    write_files(FILES, tmp_path / "out")
    (tmp_path / "out" / "device" / "b.cpp").write_text("edited")
    done = write_files({"host/a.cpp": "int a;\n"}, tmp_path / "out")
    assert done.removed == ("CMakeLists.txt",)
    assert (tmp_path / "out" / "device" / "b.cpp").read_text() == "edited"


@pytest.mark.parametrize("name", ["host/a.cpp", MANIFEST])
def test_refuses_a_file_it_did_not_write(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(AutofuseError, match="was not written by autofuse") as error:
        write_files(FILES, tmp_path / "out")
    assert codes(error) == ["AF5005"]
    assert error.value.diagnostics[0].where.path == str(mine)
    assert tree(tmp_path) == before


def test_refuses_all_edited_files_at_once(tmp_path: Path) -> None:
    write_files(FILES, tmp_path / "out")
    for name in ("host/a.cpp", "device/b.cpp"):
        (tmp_path / "out" / name).write_text("edited")
    before = tree(tmp_path)
    with pytest.raises(AutofuseError, match="was edited after it was generated") as error:
        write_files(FILES, tmp_path / "out")
    assert codes(error) == ["AF5005", "AF5005"]
    assert tree(tmp_path) == before


def test_force_overwrites(tmp_path: Path) -> None:
    write_files(FILES, tmp_path / "out")
    (tmp_path / "out" / "host" / "a.cpp").write_text("edited")
    (tmp_path / "out" / MANIFEST).write_text("{}")
    done = write_files(FILES, tmp_path / "out", force=True)
    assert done.updated == ("host/a.cpp",)
    assert tree(tmp_path / "out")["host/a.cpp"] == FILES["host/a.cpp"]


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(AutofuseError, match="a file of that name exists"):
        write_files(FILES, tmp_path / "out", force=True)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_failed_move_undoes_the_ones_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(FILES, tmp_path / "out")
    before = tree(tmp_path)
    new = {
        "CMakeLists.txt": "project(y)\n",
        "fresh/c.cpp": "int c;\n",
        "host/a.cpp": "int a2;\n",
    }
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "a.cpp" and "new" in self.parts:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(AutofuseError, match="No space left on device") as error:
        write_files(new, tmp_path / "out")
    assert codes(error) == ["AF5005"]
    assert tree(tmp_path) == before
    assert not (tmp_path / "out" / "fresh").exists()


def test_a_failure_leaves_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Path, *args: object, **kwargs: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(AutofuseError, match="No space left"):
        write_files(FILES, tmp_path / "deep" / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a//b", "", MANIFEST, "./a"])
def test_a_path_outside_the_folder_is_a_programming_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a path inside the output folder"):
        write_files({name: "x"}, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_files({"a.txt": "ä\r\nb\n"}, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == "ä\r\nb\n".encode()
