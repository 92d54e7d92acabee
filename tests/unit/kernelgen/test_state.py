"""What the stages record is kept, checked, and never half written."""

import json
from pathlib import Path

import pytest

import autofuse.clients.kernelgen.state as states
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.state_format import STAGES, Record, Round, Speed, State

CARD = {"device": "a card", "driver_version": "1"}


def measured(value: float, unit: str = "us") -> Record:
    return Record(value=value, unit=unit, status="measured", by=CARD, when="2026-01-01T00:00:00")


def full() -> State:
    speed = Speed(sizes={"n": 3}, kernel=measured(2.0), baseline=measured(3.0), bottleneck="launch")
    done = Round(version="v1.0", family="block_size_optimization", bottleneck="launch", why="")
    state = State(operator="op", target="nvidia-h100", speeds=(speed,), rounds=(done,))
    return state.but(tuning={"op_rows": {"rows": 2}}).done("describe", "k", {"a.json": "{}"})


def code(error: pytest.ExceptionInfo[AutofuseError]) -> str:
    return error.value.diagnostics[0].code


def test_a_state_is_read_as_it_was_saved(tmp_path: Path) -> None:
    states.save(tmp_path, full())
    assert states.load(tmp_path) == full()
    assert [p.name for p in tmp_path.iterdir()] == [states.STATE]


def test_a_folder_without_a_state_has_none(tmp_path: Path) -> None:
    assert states.load(tmp_path) is None
    assert states.load(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("pointer", "value", "wanted"),
    [
        ("schema", "autofuse.kernelgen/2", "AF1004"),
        ("version", "0.0.1", "AF5010"),
        ("operator", None, "AF1103"),
        ("names", "other", "AF1104"),
        ("more", 1, "AF1102"),
        ("stages", {"describe": {"key": "k", "files": {"../a": "0"}}}, "AF1104"),
        ("stages", {"describe": {"key": "k", "files": {"a/../b": "0"}}}, "AF1104"),
        ("stages", {"describe": {"key": "k", "files": {"/etc/a": "0"}}}, "AF1104"),
        ("stages", {"sixth": {"key": "k"}}, "AF1104"),
        ("tuning", {"k": {"rows": "two"}}, "AF1104"),
        ("tuning", {"```": {"rows": 2}}, "AF1104"),
    ],
)
def test_what_is_no_state_is_told(tmp_path: Path, pointer: str, value: object, wanted: str) -> None:
    states.save(tmp_path, full())
    path = tmp_path / states.STATE
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), pointer: value}), "utf-8")
    with pytest.raises(AutofuseError) as error:
        states.load(tmp_path)
    assert code(error) == wanted
    assert error.value.diagnostics[0].where.path == str(path)


def test_a_state_that_was_cut_off_is_told(tmp_path: Path) -> None:
    states.save(tmp_path, full())
    path = tmp_path / states.STATE
    path.write_text(path.read_text("utf-8")[:-40], "utf-8")
    with pytest.raises(AutofuseError) as error:
        states.load(tmp_path)
    assert code(error) == "AF1002"


@pytest.mark.parametrize(
    "wrong",
    [
        {"by": {}},
        {"when": ""},
        {"status": "predicted"},
        {"status": "guessed"},
        {"value": float("nan")},
        {"value": float("inf")},
    ],
)
def test_a_number_has_a_source(wrong: dict[str, object]) -> None:
    good = measured(1.0).model_dump()
    assert Record.model_validate(good) == measured(1.0)
    with pytest.raises(ValueError, match=r".+"):
        Record.model_validate({**good, **wrong})


def test_a_stage_that_ends_ends_those_behind_it() -> None:
    state = State(operator="op", target="t")
    for stage in STAGES:
        state = state.done(stage, f"key of {stage}", {f"{stage}.txt": stage})
    assert list(state.stages) == list(STAGES)
    again = state.done("check", "another")
    assert list(again.stages) == ["describe", "generate", "check"]
    assert again.is_done("check", "another")
    assert not again.is_done("check", "key of check")
    assert set(again.files) == {"describe.txt", "generate.txt"}


# files ----------------------------------------------------------------------------------------


def test_files_of_a_stage_are_known_again(tmp_path: Path) -> None:
    state = State(operator="op", target="t")
    files = {"a.py": "one\n", "b.py": "two\n"}
    state = states.write(tmp_path, state, files, force=False).done("generate", "k", files)
    states.unchanged(tmp_path, state)
    (tmp_path / "a.py").write_text("changed\n", "utf-8")
    (tmp_path / "b.py").unlink()
    with pytest.raises(AutofuseError) as error:
        states.unchanged(tmp_path, state)
    assert code(error) == "AF5010"
    found = error.value.diagnostics[0]
    assert "a.py was edited" in found.message
    assert found.notes == ("b.py is gone",)
    states.unchanged(tmp_path, state, ("describe",))


def test_what_is_not_ours_is_replaced_with_force_only(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a person's\n", "utf-8")
    state = State(operator="op", target="t")
    with pytest.raises(AutofuseError) as error:
        states.write(tmp_path, state, {"a.py": "ours\n"}, force=False)
    assert code(error) == "AF5005"
    assert (tmp_path / "a.py").read_text("utf-8") == "a person's\n"
    states.write(tmp_path, state, {"a.py": "ours\n"}, force=True)
    assert (tmp_path / "a.py").read_text("utf-8") == "ours\n"


def test_a_writer_that_is_killed_leaves_what_the_next_one_takes(tmp_path: Path) -> None:
    state = State(operator="op", target="t")
    files = {"a.py": "old a\n", "b.py": "old b\n"}
    before = states.write(tmp_path, state, files, force=False).done("generate", "k", files)
    states.save(tmp_path, before)
    # Killed behind the first file: the state on disk is what it was before the second.
    states.write(tmp_path, before, {"a.py": "new a\n"}, force=False)
    now = states.load(tmp_path)
    assert now is not None
    states.unchanged(tmp_path, now)
    again = {"a.py": "new a\n", "b.py": "new b\n"}
    done = states.write(tmp_path, now, again, force=False).done("generate", "k2", again)
    states.unchanged(tmp_path, done)
    assert done.coming == {}


def test_only_what_stages_wrote_is_removed(tmp_path: Path) -> None:
    files = {"a.py": "ours\n", "b.py": "ours too\n"}
    state = states.write(tmp_path, State(operator="op", target="t"), files, force=False)
    state = state.done("generate", "k", files)
    (tmp_path / "b.py").write_text("edited\n", "utf-8")
    (tmp_path / "c.py").write_text("a person's\n", "utf-8")
    states.remove(tmp_path, state, ["a.py", "b.py", "c.py", "d.py"])
    assert sorted(p.name for p in tmp_path.glob("*.py")) == ["b.py", "c.py"]
