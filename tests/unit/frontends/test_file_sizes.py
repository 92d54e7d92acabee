"""A file is read no further than a graph file may be long."""

import os
import threading
from pathlib import Path

import pytest
from extras import needs

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models
from autofuse.commands.graph_files import graph_files
from autofuse.frontends import MAX_FILE, read_graph
from autofuse.frontends.onnx.loading import model_of


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


@pytest.mark.parametrize(
    ("read", "code"),
    [(read_graph, "AF1002"), pytest.param(models.build, "AF1004", marks=needs("onnx"))],
)
def test_graphs_and_models_are_read_alike(tmp_path, read, code):
    """A device has no end, a file that is too large is not read, and a pipe is read to its end."""
    large = tmp_path / "large.onnx"
    with large.open("wb") as f:
        f.truncate(3 << 30)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"{ no graph",))
    writer.start()
    found = []
    for path in ("/dev/zero", large, tmp_path / "pipe", tmp_path, tmp_path / "none"):
        with pytest.raises(AutofuseError) as e:
            read(path)
        found.append(e.value.diagnostics[0])
    writer.join()
    assert [d.code for d in found] == ["AF1003", "AF1003", code, "AF1001", "AF1001"]
    assert "has more than" in found[0].message
    assert str(3 << 30) in found[1].message


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


@needs("onnx")
def test_a_kernel_of_onnx_has_64_mib():
    """One byte more is refused before anything is parsed; a file of that length is parsed, and is no model."""
    most = 64 * 1024 * 1024
    assert [_refused(bytes(n)) for n in (most, most + 1)] == ["AF1004", "AF1003"]


def _refused(data):
    with pytest.raises(AutofuseError) as caught:
        model_of(data)
    return caught.value.diagnostics[0].code
