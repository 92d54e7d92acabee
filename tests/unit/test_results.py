"""Archives of measured results, and the pages that are made from them."""

import subprocess
import sys
from pathlib import Path

import archive
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOUND = {"gpu/sweep.jsonl": b"{}\n", "gpu/libraries/sweep.jsonl": b"", "bench/a.json": b"\x00\xff"}


@pytest.mark.parametrize(("machine", "page"), [("h100", "measured_gpu"), ("h200", "measured_h200")])
def test_the_page_is_that_of_the_results(tmp_path, machine, page):
    command = [sys.executable, "benchmarks/gpu/report.py", machine, f"--page={page}"]
    subprocess.run([*command, f"--docs={tmp_path}"], cwd=ROOT, check=True)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    assert made
    for name in made:
        assert (ROOT / "docs" / name).read_text() == (tmp_path / name).read_text(), name


def test_files_come_back(tmp_path):
    archive.add("card", FOUND, tmp_path)
    assert archive.machines(tmp_path) == ["card"]
    assert archive.names("card", tmp_path) == sorted(FOUND)
    assert all(archive.read("card", n, tmp_path) == data for n, data in FOUND.items())
    wanted = {"sweep.jsonl": b"{}\n", "libraries/sweep.jsonl": b""}
    assert archive.files("card", "gpu", tmp_path) == wanted
    archive.extract("card", tmp_path / "out", folder=tmp_path)
    assert archive.files(tmp_path / "out" / "gpu", "", tmp_path) == wanted
    archive.add("card", {"bench/a.json": b"new"}, tmp_path)
    archive.remove("card", ["gpu/sweep.jsonl"], tmp_path)
    assert archive.names("card", tmp_path) == ["bench/a.json", "gpu/libraries/sweep.jsonl"]
    assert archive.read("card", "bench/a.json", tmp_path) == b"new"


def test_an_archive_depends_on_its_files_alone(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    archive.add("card", FOUND, one)
    for name in reversed(FOUND):
        archive.add("card", {name: FOUND[name]}, two)
    assert (one / "card.tar.xz").read_bytes() == (two / "card.tar.xz").read_bytes()


def test_what_is_not_there_is_named(tmp_path):
    archive.add("card", FOUND, tmp_path)
    with pytest.raises(KeyError, match=r"no other\.json in the archive of card"):
        archive.read("card", "other.json", tmp_path)
    with pytest.raises(KeyError, match=r"no other\.json"):
        archive.remove("card", ["other.json"], tmp_path)
    with pytest.raises(FileNotFoundError, match="not of board"):
        archive.names("board", tmp_path)
    for name in ("../a", "/a", "a//b", "."):
        with pytest.raises(ValueError, match="no name of a file"):
            archive.add("card", {name: b""}, tmp_path)


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(archive, "FOLDER", tmp_path)
    file = tmp_path / "times.jsonl"
    file.write_text("{}\n")
    assert archive.main(["add", "card", f"gpu/sweep.jsonl={file}"]) == 0
    assert archive.main(["list", "card"]) == 0
    assert capsys.readouterr().out.split() == ["3", "gpu/sweep.jsonl"]
    out = tmp_path / "out"
    assert archive.main(["extract", "card", "gpu/sweep.jsonl", "--out", str(out)]) == 0
    assert (out / "gpu" / "sweep.jsonl").read_text() == "{}\n"
    assert archive.main(["remove", "card", "gpu/sweep.jsonl"]) == 0
    assert archive.main(["extract", "card", "gpu/sweep.jsonl", "--out", str(out)]) == 1
    assert "no gpu/sweep.jsonl in the archive of card" in capsys.readouterr().err


def test_no_results_are_committed_elsewhere():
    """Text of results is compressed, in one place."""
    command = ["git", "ls-files", "benchmarks"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no checkout of git")
    suffixes = {Path(n).suffix for n in listed.stdout.split() if (ROOT / n).exists()}
    assert suffixes <= {".py", ".toml", ".xz"}
