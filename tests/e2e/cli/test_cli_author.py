"""``schema`` and ``new``: the first minutes with autofuse."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse.commands.graphs.author import new


def test_schema_is_a_json_schema(autofuse: Callable) -> None:
    done = autofuse("schema")
    assert (done.code, done.err) == (0, "")
    schema = json.loads(done.out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["type"] == "object"
    assert autofuse("schema", "--json").json()["result"]["json_schema"] == schema


def test_new_writes_a_graph_that_reads_and_its_schema(autofuse: Callable, tmp_path: Path) -> None:
    done = autofuse("new", "first")
    assert (done.code, done.err) == (0, "")
    assert "next: autofuse verify first.json" in done.out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first.json", "graph.schema.json"]
    graph = json.loads((tmp_path / "first.json").read_text())
    assert graph["name"] == "first"
    assert graph["$schema"] == "graph.schema.json"
    assert (tmp_path / "graph.schema.json").read_text() == autofuse("schema").out
    assert autofuse("show", "first.json").code == 0


def test_new_takes_the_name_of_the_file_too(autofuse: Callable, tmp_path: Path) -> None:
    assert autofuse("new", "first.json").code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first.json", "graph.schema.json"]
    assert json.loads((tmp_path / "first.json").read_text(encoding="utf-8"))["name"] == "first"


def test_new_into_another_folder(autofuse: Callable, tmp_path: Path) -> None:
    found = autofuse("new", "ops/first", "-o", "deep/graphs", "--json").json()["result"]
    assert found == {
        "graph": "deep/graphs/ops_first.json",
        "schema": "deep/graphs/graph.schema.json",
    }
    assert (tmp_path / "deep" / "graphs" / "ops_first.json").is_file()


def test_new_of_a_path_names_the_option_for_the_folder(autofuse: Callable, tmp_path: Path) -> None:
    done = autofuse("new", "examples/demo.json")
    assert done.code == 1
    assert "hint: autofuse new demo -o examples" in done.err
    assert list(tmp_path.iterdir()) == []


def test_new_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files appear by a rename of one that is whole: whoever ends before leaves none of that name."""
    seen = []

    def stopped(part: Path, path: Path) -> None:
        seen.append((path.name, json.loads(part.read_text())))
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        new("first", tmp_path)
    assert [name for name, _ in seen] == ["graph.schema.json"]
    assert list(tmp_path.iterdir()) == []


def test_new_does_not_overwrite(autofuse: Callable, tmp_path: Path) -> None:
    (tmp_path / "first.json").write_text("mine")
    done = autofuse("new", "first", "--json")
    assert done.code == 1
    assert [d["code"] for d in done.json()["diagnostics"]] == ["AF5005"]
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine"]


def test_a_second_graph_shares_the_schema(autofuse: Callable, tmp_path: Path) -> None:
    autofuse("new", "first")
    assert autofuse("new", "second").code == 0
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("name", ["a\nb", "../x", "", "/x", "x\x1b[31m"])
def test_new_refuses_an_illegal_name(autofuse: Callable, tmp_path: Path, name: str) -> None:
    done = autofuse("new", name)
    assert done.code == 1
    assert "error AF1105" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_name_has_a_file_of_its_own(autofuse: Callable, tmp_path: Path) -> None:
    done = autofuse("new", "my graph/v1; rm")
    assert done.code == 0
    assert (tmp_path / "my_graph_v1__rm.json").exists()
    assert "graph my graph/v1; rm:" in autofuse("show", "my_graph_v1__rm.json").out


def test_a_name_cannot_leave_the_folder(autofuse: Callable, tmp_path: Path) -> None:
    done = autofuse("new", "a/../../x", "-o", "inner")
    assert done.code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["inner"]
