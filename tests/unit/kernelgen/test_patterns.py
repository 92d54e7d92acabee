"""What helped is kept over runs, joined, and found again for the same case only."""

import json
from pathlib import Path

import pytest

import autofuse.clients.kernelgen.tuning.patterns as known
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.state_format import Case, Pattern, Record, Round, State

CASE = Case(
    target="nvidia-h100",
    kind="Normalization",
    form="rows",
    bucket=known.BUCKETS[1],
    bottleneck="parallelism",
)


def pattern(
    gain: float,
    operator: str = "op",
    *,
    measured: bool = True,
    change: dict[str, int] | None = None,
    case: Case = CASE,
) -> Pattern:
    how = {"status": "measured", "by": {"device": "a card"}, "when": "2026-01-01T00:00:00"}
    if not measured:
        how = {"status": "predicted", "by": {"model": "times"}, "when": ""}
    return Pattern(
        case=case,
        family="warp_stage_optimization",
        change={"warps": 1} if change is None else change,
        gain=Record.model_validate({"value": gain, "unit": "%", **how}),
        operator=operator,
        operators=(operator,),
    )


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    patterns = known.joined((), [pattern(3.0), pattern(5.0, change={"stages": 1})])
    path, summary = known.save(tmp_path / "more" / known.PATTERNS, patterns)
    assert known.load(path).patterns == patterns
    assert summary.name == known.SUMMARY
    assert known.load(tmp_path / "nothing.json").patterns == ()
    other, beside = known.save(tmp_path / "own.json", ())
    assert (other.name, beside.name) == ("own.json", "own.md")
    assert "Nothing has helped so far." in beside.read_text("utf-8")


def test_equal_patterns_are_one(tmp_path: Path) -> None:
    (one,) = known.joined([pattern(3.0, "b")], [pattern(5.0, "a"), pattern(4.0, "c")])
    assert (one.gain.value, one.operator, one.operators) == (5.0, "a", ("a", "b", "c"))
    both = [pattern(3.0), pattern(9.0, measured=False)]
    assert len(known.joined((), both)) == 2
    # The order in which they came does not count.
    mixed = [pattern(5.0, "a"), pattern(5.0, "b"), pattern(1.0, change={"stages": 1})]
    assert known.joined((), mixed) == known.joined(mixed[::-1], ())


def test_what_helped_in_such_a_case() -> None:
    other = CASE.model_copy(update={"bottleneck": "launch"})
    mixed = [
        pattern(2.0),
        pattern(8.0, change={"warps": 2}),
        pattern(50.0, measured=False),
        pattern(90.0, case=other),
        pattern(-1.0, change={"warps": -1}),
    ]
    found = known.helping(mixed, CASE)
    assert [(p.gain.value, p.gain.status) for p in found] == [
        (8.0, "measured"),
        (2.0, "measured"),
        (50.0, "predicted"),
    ]


def test_buckets_are_by_bytes() -> None:
    found = [known.bucket_of(n, 1 << 25) for n in (0, 1 << 20, (1 << 20) + 1, 1 << 25, 1 << 26)]
    small, middle, large = known.BUCKETS
    assert found == [small, small, middle, middle, large]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "AF1002"),
        ("[]", "AF1004"),
        ('{"schema": "autofuse.patterns/2"}', "AF1004"),
        ('{"schema": "autofuse.patterns/1", "patterns": [{}]}', "AF1101"),
        ('{"schema": "autofuse.patterns/1", "more": 1}', "AF1102"),
    ],
)
def test_what_is_no_file_of_patterns_is_told(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text, "utf-8")
    with pytest.raises(AutofuseError) as error:
        known.load(path)
    assert error.value.diagnostics[0].code == code
    assert error.value.diagnostics[0].where.path == str(path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(AutofuseError) as error:
        known.save(tmp_path / "file" / "p.json", ())
    assert error.value.diagnostics[0].code == "AF5005"


def test_the_summary_says_for_what_by_how_much_and_how_it_is_known() -> None:
    text = known.summary_text([pattern(3.5), pattern(7.25, measured=False, change={"stages": -1})])
    assert "优化模式总结" in text
    assert "Normalization, rows, within L2, nvidia-h100: parallelism |" in text
    assert "| warps x 2 | 3.5% (measured: a card) | op |" in text
    assert "| stages -1 | 7.25% (predicted: times) | op |" in text
    reset = known.summary_text([pattern(1.0, change={})])
    assert "back to the default rules" in reset


@pytest.mark.parametrize("hostile", ["a|b", "<b>", "x\n# y", "`c`"])
def test_names_are_no_markdown(hostile: str) -> None:
    text = known.summary_text(
        [pattern(1.0, hostile, case=CASE.model_copy(update={"kind": hostile}))]
    )
    assert hostile not in text
    assert "\n# y" not in text


def test_a_file_is_the_same_for_the_same_patterns(tmp_path: Path) -> None:
    patterns = [pattern(3.0), pattern(5.0, change={"stages": 1})]
    texts = []
    for k, order in enumerate((patterns, patterns[::-1])):
        path, _ = known.save(tmp_path / f"{k}.json", known.joined((), order))
        texts.append(path.read_text("utf-8"))
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["schema"] == "autofuse.patterns/1"


def test_every_run_is_in_the_summary(tmp_path: Path) -> None:
    """Also one that nothing helped, and once: the last run of an operator counts."""
    file = tmp_path / known.PATTERNS
    speedup = Record(value=1.5, unit="x", status="predicted", by={"model": "times of a card"})
    tried = Round(version="v1.0", family="block_size_optimization", bottleneck="L2", why="")
    state = State(
        operator="op",
        target="ascend910b1",
        rounds=(tried,),
        speedup=speedup,
        ended="nothing is left",
    )
    known.record(file, (), state)
    known.record(file, (), state.but(ended="all rounds have run"))
    known.record(file, (), State(operator="other", target="ascend910b1", ended="it is fast"))
    found = known.load(file)
    assert (found.patterns, [r.operator for r in found.runs]) == ((), ["op", "other"])
    text = (tmp_path / known.SUMMARY).read_text(encoding="utf-8")
    assert "Nothing has helped so far." in text
    assert (
        "| op | ascend910b1 | not recorded | Block sizes (块大小优化) | nothing | 1.5x (predicted"
        in text
    )
    assert "all rounds have run" in text
    assert "nothing is left" not in text
    assert "it is fast" in text
    known.record(file, [pattern(3.0)], state)
    assert len(known.load(file).patterns) == 1
