"""Files of wrong kinds: each verb says what a path is, and not only that it cannot be read."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autofuse.cli import main

GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "add_one",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [8]}],
    "nodes": [{"name": "a", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}

#: Verbs with what comes before and behind a file, and the kind of file that each takes.
VERBS = {
    "build": ((), (), "a graph file"),
    "show": ((), (), "a graph file"),
    "dump": ((), (), "a graph file"),
    "explain": ((), (), "a graph file"),
    "verify": ((), (), "a graph file"),
    "run": ((), (), "a graph file"),
    "certify": ((), (), "a graph file"),
    "tune": ((), (), "a graph file"),
    "bench": ((), (), "a graph file"),
    "kernelgen describe": ((), (), "a graph file"),
    "calibrate": ((), (), "a bundle"),
    "import-msprof": ((), ("-t", "ascend910b2"), "an operator table"),
    "build --tuning": (("g.json",), (), "a tuning file"),
    "run --against": (("g.json",), (), "a graph file"),
    "run --input": (("g.json",), (), "a .npy file"),
    "tune --bundle": (("g.json",), (), "a bundle"),
}
#: Those that take a folder, too.
FOLDERS = {"build", "verify", "run", "certify", "bench", "kernelgen describe"}


@dataclass
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


@pytest.fixture
def autofuse(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs a command in this process."""

    def run(*words: str) -> Done:
        code = main([*words])
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.json").write_text(json.dumps(GRAPH))
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.json").symlink_to("nowhere.json")
    (tmp_path / "empty.json").touch()
    (tmp_path / "binary.json").write_bytes(b"\x00\x01\xff\xfe")
    return tmp_path


def line(verb: str, path: str) -> tuple[str, ...]:
    before, behind, _ = VERBS[verb]
    name, *option = verb.split(" ")
    if name == "kernelgen":
        return (name, *option, path)
    path = f"x={path}" if option == ["--input"] else path
    return (name, *before, *option, path, *behind)


@pytest.mark.parametrize("verb", VERBS)
def test_a_path_that_leads_nowhere(autofuse: Callable, verb: str) -> None:
    done = autofuse(*line(verb, "none.json"), "--json")
    (found,) = done.json()["diagnostics"]
    assert (done.code, found["code"], found["message"]) == (1, "AF1001", "there is no such file")
    assert found["where"]["path"] == "none.json"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none/none.json", "there is no such file: there is no folder none"),
        ("g.json/none.json", "there is no such file: g.json is a file, not a folder"),
        (
            "broken.json",
            "broken.json is a symbolic link to nowhere.json, which is not there",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["show", "verify", "calibrate", "import-msprof"])
def test_why_a_path_leads_nowhere(autofuse: Callable, verb: str, path: str, message: str) -> None:
    done = autofuse(*line(verb, path), "--json")
    assert [d["message"] for d in done.json()["diagnostics"]] == [message]


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in FOLDERS])
def test_a_folder_in_the_place_of_a_file(autofuse: Callable, verb: str) -> None:
    done = autofuse(*line(verb, "folder"), "--json")
    (found,) = done.json()["diagnostics"]
    assert (done.code, found["code"]) == (1, "AF1001")
    assert found["message"] == f"this is a folder, not {VERBS[verb][2]}"


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("build", "this folder contains no graph file (*.json, *.info, *.onnx)"),
        ("verify", "this folder contains no graph file (*.json, *.info, *.onnx)"),
        ("bench", "this folder contains no graph file (*.json, *.info, *.onnx)"),
        ("run", "this folder has no kernel that autofuse built"),
        ("certify", "this folder has no kernel that autofuse built"),
        ("adopt", "this folder contains no autofuse build"),
        ("kernelgen check", "check needs the output of describe, which is not in folder"),
    ],
)
def test_a_folder_without_what_a_verb_takes(autofuse: Callable, verb: str, message: str) -> None:
    done = autofuse(*verb.split(), "folder")
    assert done.code == 1
    assert message in done.err


@pytest.mark.parametrize("verb", ["show", "calibrate", "build --tuning"])
def test_a_file_with_nothing_and_one_that_is_no_text(autofuse: Callable, verb: str) -> None:
    for path, message in (
        ("empty.json", "the file is empty"),
        ("binary.json", "this is a binary file, not JSON text"),
    ):
        done = autofuse(*line(verb, path))
        assert f"error AF1002: {message}\n" in done.err


@pytest.mark.parametrize(
    ("verb", "content", "code", "texts"),
    [
        (
            "calibrate",
            GRAPH,
            "AF1004",
            ["this is a graph file, not a bundle", "use it with autofuse build"],
        ),
        ("build --tuning", GRAPH, "AF1004", ["this is a graph file, not a tuning file"]),
        ("calibrate", [1], "AF1004", ["this is a list, not a bundle"]),
        ("calibrate", {"op_desc": []}, "AF1004", ["this is an info file of MindSpore AKG, not"]),
        (
            "calibrate",
            {"schema": "else/1"},
            "AF1004",
            ["this is not a bundle", "autofuse.bundle/1"],
        ),
        ("show", {"schema": "autofuse.bundle/1"}, "AF1104", ["hint: this is a bundle of autofuse"]),
        (
            "show",
            {"schema": "autofuse.tuning/1"},
            "AF1104",
            ["hint: this is a tuning file: use it"],
        ),
        ("show", {"schema": "autofuse.kernel/1"}, "AF1104", ["hint: this is the metadata of a ke"]),
    ],
)
def test_a_file_of_another_schema_is_called_what_it_is(
    autofuse: Callable, verb: str, content: object, code: str, texts: list[str], tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text(json.dumps(content))
    done = autofuse(*line(verb, "other.json"))
    assert done.code == 1
    assert f"error {code}: " in done.err
    for text in texts:
        assert text in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file; run as another user")
def test_a_file_that_this_user_may_not_read(autofuse: Callable, tmp_path: Path) -> None:
    (tmp_path / "g.json").chmod(0)
    done = autofuse("show", "g.json")
    assert "error AF1001: the file cannot be read: permission denied" in done.err


@pytest.mark.parametrize("verb", ["describe", "generate", "run"])
def test_a_missing_folder_is_no_line_of_english(autofuse: Callable, verb: str) -> None:
    done = autofuse("kernelgen", verb, "missing")
    assert "error AF1001: there is no such file\n  --> missing" in done.err


@pytest.mark.parametrize("verb", ["check", "tune", "log"])
def test_a_stage_of_a_missing_folder(autofuse: Callable, verb: str) -> None:
    assert "there is no folder missing" in autofuse("kernelgen", verb, "missing").err


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("adopt g.json", "AF1001", "this is a file, not an autofuse build folder"),
        ("adopt none", "AF1001", "there is no such folder"),
        ("kernelgen check g.json", "AF5010", "g.json is a file, not a folder"),
        ("kernelgen check none", "AF5010", "there is no folder none"),
    ],
)
def test_what_stands_in_the_place_of_a_folder(
    autofuse: Callable, command: str, code: str, message: str
) -> None:
    done = autofuse(*command.split(), "--json")
    (found,) = done.json()["diagnostics"]
    assert (done.code, found["code"], found["message"]) == (1, code, message)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("show g.json -o folder", "this is a folder"),
        ("show g.json -o none/x.svg", "there is no folder none"),
        ("show g.json -o g.json/x.svg", "g.json is a file, not a folder"),
        ("new x -o g.json", "g.json is a file, not a folder"),
    ],
)
def test_why_a_file_cannot_be_written(autofuse: Callable, command: str, reason: str) -> None:
    done = autofuse(*command.split(), "--json")
    (found,) = done.json()["diagnostics"]
    assert (done.code, found["code"]) == (1, "AF5005")
    assert found["message"].endswith(f": {reason}")


def test_a_choice_that_is_none_is_told_without_the_kind_of_the_exception(
    autofuse: Callable,
) -> None:
    assert "error AF1005: Invalid value for 'info|clear': 'no' is" in autofuse("cache", "no").err
