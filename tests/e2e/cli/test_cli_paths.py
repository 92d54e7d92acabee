"""One rule for every path of the command line: an empty one is refused, and never the current folder."""

import pytest

COMMANDS = (
    ("build", "add_one.json", "-o", ""),
    ("build", ""),
    ("run", "add_one.json", "--save", ""),
    ("run", "add_one.json", "--trace", ""),
    ("run", "add_one.json", "--html", ""),
    ("verify", ""),
    ("show", "add_one.json", "-o", ""),
    ("new", "first", "-o", ""),
    ("dump", ""),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_empty_path_is_refused(autofuse, graph, tmp_path, words) -> None:
    before = sorted(tmp_path.iterdir())
    done = autofuse(*words)
    assert done.code == 1
    assert "error AF1005: " in done.err
    assert "the path is empty" in done.err
    assert sorted(tmp_path.iterdir()) == before


def test_a_dot_is_the_current_folder(autofuse, tmp_path) -> None:
    assert autofuse("new", "first", "-o", ".").code == 0
    assert autofuse("new", "second").code == 0
    assert {"first.json", "second.json"} <= {p.name for p in tmp_path.iterdir()}
