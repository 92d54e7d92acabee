"""Generated files that their user edited: adopted, kept by builds, given up; folders that mean harm."""

import json
from pathlib import Path

import pytest

import autofuse
from autofuse.base.artifacts import MANIFEST, Written, read_files, write_files
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.edits import Edited, blamed, edited_files, stale_findings
from autofuse.base.manifest import GENERATED, read_manifest
from autofuse.measure import adopting

KERNEL = "device/add_one_kernel.cpp"
HEADER = "include/autofuse_device.h"


def graph(op: str = "Add") -> dict[str, object]:
    return {
        "schema": "autofuse.graph/1",
        "name": "add_one",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 8]}],
        "nodes": [{"name": "n", "op": op, "inputs": ["x", {"const": 1.0}], "outputs": ["y"]}],
        "outputs": ["y"],
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    autofuse.build(graph()).write(folder)
    return folder


def edit(folder: Path, name: str = KERNEL, text: str = "// mine\n") -> str:
    path = folder / name
    path.write_text(path.read_text() + text)
    return path.read_text()


def rebuilt(folder: Path, op: str = "Add", *, force: bool = False) -> Written:
    return autofuse.build(graph(op)).write(folder, force=force)


def refused(code: str, call: object, *args: object, **named: object) -> Diagnostic:
    with pytest.raises(AutofuseError) as e:
        call(*args, **named)  # type: ignore[operator]
    assert [d.code for d in e.value.diagnostics] == [code]
    return e.value.diagnostics[0]


def test_an_edit_that_is_not_adopted_stops_a_build_that_says_how_to_keep_it(out: Path) -> None:
    edit(out)
    assert edited_files(out) == (Edited(KERNEL, adopted=False),)
    assert f"autofuse adopt {out}" in refused("AF5005", rebuilt, out).hint


@pytest.mark.parametrize("force", [False, True])
def test_an_adopted_edit_outlives_builds(out: Path, force: bool) -> None:
    generated = (out / KERNEL).read_text()
    mine = edit(out)
    assert adopting.adopt(out) == (KERNEL,)
    assert adopting.adopt(out) == ()
    done = rebuilt(out, force=force)
    assert (done.kept, done.stale, done.updated) == ((KERNEL,), (), ())
    assert (out / KERNEL).read_text() == mine
    assert (out / GENERATED / KERNEL).read_text() == generated
    again = edit(out, text="// more\n")
    rebuilt(out, force=force)
    assert (out / KERNEL).read_text() == again
    assert read_files(out)[KERNEL] == again
    assert not any(n.startswith(GENERATED) for n in read_files(out))


def test_a_build_says_that_what_is_generated_changed(out: Path) -> None:
    mine = edit(out)
    adopting.adopt(out)
    done = rebuilt(out, "Mul")
    assert done.stale == (KERNEL,)
    (finding,) = stale_findings(out, done.stale)
    assert (finding.code, finding.severity) == ("AF5016", "warning")
    assert f"--drop {KERNEL}" in finding.hint
    assert edited_files(out) == (Edited(KERNEL, adopted=True, stale=True),)
    difference = adopting.differences(out)[KERNEL]
    assert difference is not None
    assert "+// mine" in difference
    assert any(line.startswith("-") and "Muls(" in line for line in difference.splitlines())
    assert rebuilt(out, "Mul").stale == (KERNEL,)
    assert adopting.accept(out, [KERNEL]) == (KERNEL,)
    assert rebuilt(out, "Mul").stale == ()
    assert (out / KERNEL).read_text() == mine


def test_dropping_takes_what_is_generated_now(out: Path) -> None:
    edit(out)
    adopting.adopt(out)
    rebuilt(out, "Mul")
    assert adopting.drop(out, [KERNEL]) == (KERNEL,)
    assert edited_files(out) == ()
    assert not (out / GENERATED).exists()
    assert rebuilt(out, "Mul").unchanged == tuple(sorted(read_files(out)))


def test_an_edit_that_nobody_adopted_can_be_dropped(out: Path) -> None:
    generated = (out / KERNEL).read_text()
    edit(out)
    adopting.drop(out, [str(out / KERNEL)])
    assert (out / KERNEL).read_text() == generated
    assert rebuilt(out).updated == ()


def test_an_edited_file_that_is_no_longer_generated_is_left_to_its_user(tmp_path: Path) -> None:
    write_files({"a.cpp": "int a;\n", "b.cpp": "int b;\n"}, tmp_path / "out")
    (tmp_path / "out" / "b.cpp").write_text("int mine;\n")
    adopting.adopt(tmp_path / "out")
    done = write_files({"a.cpp": "int a;\n"}, tmp_path / "out")
    assert done.stale == ("b.cpp",)
    assert (tmp_path / "out" / "b.cpp").read_text() == "int mine;\n"
    assert "no longer generated" in stale_findings(tmp_path / "out", done.stale)[0].message


def test_only_code_is_adopted(out: Path) -> None:
    (out / "add_one.json").write_text("{}")
    assert adopting.adopt(out) == ()
    refused("AF5007", adopting.adopt, out, ["add_one.json"])
    refused("AF5007", adopting.adopt, out, [KERNEL])
    refused("AF5007", adopting.adopt, out, ["/etc/passwd"])
    refused("AF5007", adopting.adopt, out, ["../out2/x.cpp"])
    refused("AF5007", adopting.accept, out, [HEADER])


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    for call in (adopting.adopt, adopting.accept):
        refused("AF1001", call, tmp_path)


@pytest.mark.parametrize("name", ["../stolen.cpp", "/tmp/stolen.cpp", "a/../../stolen.cpp"])
def test_names_that_lead_out_of_the_folder_are_no_files_of_it(out: Path, name: str) -> None:
    content = json.loads((out / MANIFEST).read_text())
    content["files"][name] = "0" * 64
    content["edited"] = {name: {"generated": "0" * 64, "edited": "0" * 64}}
    (out / MANIFEST).write_text(json.dumps(content))
    assert name not in read_manifest(out).names
    assert name not in read_files(out)
    assert edited_files(out) == ()


@pytest.mark.parametrize("where", ["file", "folder", "circle"])
def test_links_out_of_the_folder_are_refused(out: Path, tmp_path: Path, where: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / Path(KERNEL).name).write_text("secret\n")
    if where == "folder":
        (out / KERNEL).unlink()
        (out / "device").rmdir()
        (out / "device").symlink_to(secret)
    else:
        (out / KERNEL).unlink()
        to = secret / Path(KERNEL).name if where == "file" else out / KERNEL
        (out / KERNEL).symlink_to(to)
    for call in (read_files, edited_files, adopting.adopt, adopting.differences):
        assert "symbolic link" in refused("AF1001", call, out).message
    assert "symbolic link" in refused("AF5005", rebuilt, out, force=True).message
    assert (secret / Path(KERNEL).name).read_text() == "secret\n"


def test_generated_text_is_not_written_through_a_link(out: Path, tmp_path: Path) -> None:
    edit(out)
    (tmp_path / "elsewhere").mkdir()
    (out / GENERATED).symlink_to(tmp_path / "elsewhere")
    refused("AF1001", adopting.adopt, out)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    "edits",
    [None, [], {"a": 1}, {KERNEL: {"generated": "x", "edited": "y"}}, {KERNEL: {"generated": "0"}}],
)
def test_a_manifest_with_edits_that_make_no_sense(out: Path, edits: object) -> None:
    content = json.loads((out / MANIFEST).read_text())
    (out / MANIFEST).write_text(json.dumps(content | {"edited": edits}))
    assert not read_manifest(out).edits


def broken(path: str, line: int, *notes: str) -> AutofuseError:
    return AutofuseError.of("AF5002", "does not compile", where=Where(path, line=line), notes=notes)


def test_an_error_in_an_edited_file_is_its_users(out: Path) -> None:
    edit(out)
    with pytest.raises(AutofuseError) as e, blamed(out):
        raise broken(KERNEL, 7)
    (d,) = e.value.diagnostics
    assert (d.code, d.where.path, d.where.line) == ("AF5015", str(out / KERNEL), 7)


def test_an_error_in_a_header_that_an_edit_calls_is_its_users(out: Path) -> None:
    edit(out)
    note = f"/somewhere/{KERNEL}:12: called from here"
    with pytest.raises(AutofuseError) as e, blamed(out):
        raise broken(HEADER, 7, f"{HEADER}:7: no match", note)
    assert e.value.diagnostics[0].where.line == 12


def test_other_errors_stay_what_they_are(out: Path) -> None:
    with pytest.raises(AutofuseError, match="AF5002"), blamed(out):
        raise broken(KERNEL, 7)
    edit(out)
    with pytest.raises(AutofuseError, match="AF5002"), blamed(out):
        raise broken("host/other.cpp", 7)
    with pytest.raises(AutofuseError, match="AF5002"), blamed(None):
        raise broken(KERNEL, 7)


def test_a_part_of_a_split_is_adopted_in_the_whole(tmp_path: Path) -> None:
    part = write_files({"device/k.cpp": "int k;\n"}, tmp_path / "p")
    texts = {"parts/a/device/k.cpp": "int k;\n", "driver.cpp": "int d;\n"}
    texts[f"parts/a/{MANIFEST}"] = (part.folder / MANIFEST).read_text()
    write_files(texts, tmp_path / "out")
    (tmp_path / "out/parts/a/device/k.cpp").write_text("int mine;\n")
    found = refused("AF5007", adopting.adopt, tmp_path / "out/parts/a")
    assert found.hint == f"autofuse adopt {(tmp_path / 'out').resolve()}"
    assert adopting.adopt(tmp_path / "out") == ("parts/a/device/k.cpp",)
