"""Where programs are looked for, and what they get: never something of the current folder by accident."""

import os
from pathlib import Path

import pytest

from autofuse.base import programs
from autofuse.base.cann import first_failure


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program in it."""
    _program(tmp_path / "tool", "touch planted")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _program(path: Path, line: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("path", ["", ":", ".:/usr/bin", "/usr/bin:", "/usr/bin::/bin", "./:.."])
def test_a_program_of_the_current_folder_is_not_found(planted, monkeypatch, path):
    monkeypatch.setenv("PATH", path)
    assert programs.program("tool") is None


def test_a_program_is_found_where_path_names_its_folder_in_full(planted, monkeypatch):
    other = _program(planted / "bin" / "tool", "true")
    monkeypatch.setenv("PATH", f":bin:{other.parent}")
    assert programs.program("tool") == str(other)


def test_a_path_is_a_path(planted):
    assert programs.program("./tool") == str(planted / "tool")
    assert programs.program("./none") is None


def test_without_path_the_folders_of_the_system_count(monkeypatch):
    monkeypatch.delenv("PATH")
    assert Path(programs.program("sh") or "").is_absolute()


LISTS = (
    *("PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
    *("COMPILER_PATH", "CMAKE_PREFIX_PATH", "PYTHONPATH"),
)


@pytest.mark.parametrize("name", LISTS)
def test_no_list_of_folders_means_the_current_folder(monkeypatch, name):
    monkeypatch.setenv(name, "/a::.:below:/b:")
    assert programs.environment()[name] == "/a:/b"
    monkeypatch.setenv(name, ":")
    assert programs.environment().get(name) == (os.defpath if name == "PATH" else None)


def test_other_variables_pass(monkeypatch):
    monkeypatch.setenv("OTHER", "a::b")
    found = programs.environment(MORE="1")
    assert (found["OTHER"], found["MORE"]) == ("a::b", "1")


def test_a_command_for_the_chip_does_not_come_from_the_folder_it_runs_in(planted, monkeypatch):
    monkeypatch.setenv("PATH", f":{os.environ['PATH']}")
    failure = first_failure([["tool"]], planted)
    assert failure is not None
    assert failure.why == "there is no program tool"
    assert not (planted / "planted").exists()
