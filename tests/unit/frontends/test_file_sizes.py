"""A file is read no further than a graph file may be long."""

import os
from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.graph_files import graph_files
from autofuse.frontends import MAX_FILE, read_graph


def refusal(path):
    with pytest.raises(AutofuseError) as caught:
        read_graph(path)
    (found,) = caught.value.diagnostics
    return found


def test_a_file_over_the_limit_is_not_opened(tmp_path, monkeypatch):
    large = tmp_path / "large.json"
    with large.open("wb") as f:
        f.truncate(2 << 30)
    monkeypatch.setattr(Path, "open", lambda *_, **__: pytest.fail("it is opened"))
    found = refusal(large)
    assert found.code == "AF1003"
    assert str(2 << 30) in found.message
    assert str(MAX_FILE) in found.message


def test_a_device_without_an_end_is_refused():
    found = refusal("/dev/zero")
    assert found.code == "AF1003"
    assert "more than" in found.message


def test_pipes_in_a_folder_are_no_graphs(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "pipe.json")
    (tmp_path / "folder.onnx").mkdir()
    graph = tmp_path / "graph.json"
    graph.write_text("{}")
    assert list(graph_files([tmp_path])) == [graph]
    graph.unlink()
    with pytest.raises(AutofuseError, match="no graph file"):
        list(graph_files([tmp_path]))
