"""The log has what was recorded, in the order of the source document, and no number besides."""

import re

import pytest

from autofuse.clients.kernelgen.log_template import SECTIONS as TEMPLATE
from autofuse.clients.kernelgen.markdown import plain
from autofuse.clients.kernelgen.state_format import (
    Accuracy,
    Code,
    Difference,
    Profile,
    Record,
    Round,
    Speed,
    State,
    Trial,
)
from autofuse.clients.kernelgen.tuning.log import MISSING, log_text, value
from autofuse.clients.kernelgen.tuning.tables import FAMILIES

SECTIONS = (
    "当前版本信息",
    "性能瓶颈分析",
    "修改方案",
    "测试结果",
    "经验总结",
)
LINES = (
    "版本号",
    "测试Shape",
    "当前加速比",
    "目标加速比",
    "内存带宽利用率",
    "Cache命中率",
    "并行度",
    "AI Core利用率",
    "主要瓶颈",
    "修改类型",
    "修改内容",
    "问题分析",
    "优化思路",
    "预期效果",
    "修改前",
    "修改后",
    "新加速比",
    "加速比提升",
    "是否达到目标",
    "成功经验",
    "失败教训",
    "后续优化方向",
)


def measured(number: float, unit: str) -> Record:
    by = {"device": "NVIDIA Zed"}
    return Record(value=number, unit=unit, status="measured", by=by, when="2026-01-01T00:00:00")


def predicted(number: float, unit: str) -> Record:
    return Record(value=number, unit=unit, status="predicted", by={"model": "times of a card"})


def bare_round() -> Round:
    return Round(version="", family="block_size_optimization", bottleneck="", why="")


def filled() -> State:
    speed = Speed(
        sizes={"rows": 4096},
        kernel=measured(12.5, "us"),
        baseline=measured(25.0, "us"),
        speedup=measured(2.0, "x"),
        bandwidth=measured(61.25, "%"),
        parallelism=predicted(310.0, "%"),
        bottleneck="bandwidth",
    )
    before, after = {"op_rows": {"rows": 2}}, {"op_rows": {"rows": 4}}
    one = Round(
        version="v1.0",
        family="block_size_optimization",
        bottleneck="bandwidth",
        why="the reads are short",
        before=before,
        after=after,
        speeds=(speed,),
        speedup=measured(2.0, "x"),
        expected=predicted(7.5, "%"),
        trials=(
            Trial(settings=after, speedup=measured(2.2, "x"), known=True),
            Trial(settings={"op_rows": {"rows": 1}}, reason="the accuracy test fails: far off"),
        ),
        result=measured(2.2, "x"),
        gain=measured(10.0, "%"),
        target=2.5,
        reached=False,
        code=Code(before="ROWS = 2", after="ROWS = 4"),
    )
    return State(operator="op", target="nvidia-h100", rounds=(one,), ended="all rounds have run")


@pytest.mark.parametrize(
    "state",
    [
        State(operator="op", target="card"),
        State(operator="op", target="card", rounds=(bare_round(),) * 5),
        State(
            operator="op",
            target="card",
            rounds=(bare_round(),),
            speeds=(Speed(sizes={}),),
            accuracy=(Accuracy(sizes={}, data="random", ok=False, reason="it crashed"),),
        ),
    ],
    ids=["empty", "rounds", "cases"],
)
def test_without_records_there_is_no_number(state: State) -> None:
    text = log_text(state)
    assert re.findall(r"\d", text) == []
    assert MISSING in text


def test_a_round_has_every_section_of_the_document_in_its_order() -> None:
    text = log_text(filled())
    for words in (SECTIONS, LINES):
        places = [text.index(w) for w in words]
        assert places == sorted(places)
    # The empty form in the definition has no field that the log lacks.
    assert all(
        own in text for _, section, fields in TEMPLATE for own in (section, *dict(fields).values())
    )


def test_what_is_not_tuned_has_every_section_as_well() -> None:
    bare = filled().but(rounds=(), ended="no family of settings is left", target_speedup=1.5)
    text = log_text(bare.but(speedup=measured(1.25, "x"), skipped={next(iter(FAMILIES)): "none"}))
    words = [w for w in LINES if w not in ("修改前", "修改后")]
    assert [text.index(w) for w in words] == sorted(text.index(w) for w in words)
    assert "新加速比): 1.25x (measured: NVIDIA Zed)" in text
    assert "是否达到目标): no (否)" in text
    assert "问题分析): no family of settings is left" in text
    assert "skipped, none" in text


def test_every_number_of_a_record_says_where_it_comes_from() -> None:
    text = log_text(filled())
    for said in (
        "2x (measured: NVIDIA Zed)",
        "2.2x (measured: NVIDIA Zed)",
        "61.25% (measured: NVIDIA Zed)",
        "12.5 us (measured: NVIDIA Zed)",
        "310% (predicted: times of a card)",
        "7.5% (predicted: times of a card)",
        "10% (measured: NVIDIA Zed)",
    ):
        assert said in text
    assert f"Cache命中率): {MISSING}" in text
    assert f"AI Core利用率): {MISSING}" in text
    assert "> 2.5x" in text
    assert "no (否)" in text
    assert "内存带宽受限" in text
    assert "proposed by a pattern from an earlier run" in text
    assert "the accuracy test fails: far off" in text
    assert "rows 4" in text


def test_what_a_profiler_recorded_is_there() -> None:
    state = filled()
    profile = Profile(cache_hit=measured(83.5, "%"), core_use=measured(41.0, "%"))
    one = state.rounds[0].model_copy(update={"profile": profile})
    text = log_text(state.but(rounds=(one,)))
    assert "Cache命中率): 83.5% (measured: NVIDIA Zed)" in text
    assert "AI Core利用率): 41% (measured: NVIDIA Zed)" in text


def test_a_number_is_written_by_its_record_alone() -> None:
    assert value(None) == MISSING
    assert value(predicted(0.123456, "us")) == "0.1235 us (predicted: times of a card)"
    assert value(measured(123456.0, "us")) == "123456 us (measured: NVIDIA Zed)"
    twin = Record(value=0.0, unit="", status="twin", by={"interpreter": "triton"})
    assert value(twin) == "0 (twin: triton)"


@pytest.mark.parametrize(
    "hostile",
    ["a|b", "<img src=x>", "x\n## A heading", "[a](javascript:b)", "`code`", "\x1b[31mred", "$x$"],
)
def test_names_are_no_markdown(hostile: str) -> None:
    difference = Difference(output=hostile, elements=1, wrong=0, error=measured(1.0, ""))
    state = State(
        operator=hostile,
        target=hostile,
        accuracy=(
            Accuracy(
                sizes={hostile: 1}, data="random", ok=False, outputs=(difference,), reason=hostile
            ),
        ),
        speeds=(Speed(sizes={hostile: 1}, bottleneck=hostile),),
        rounds=(bare_round().model_copy(update={"why": hostile, "bottleneck": hostile}),),
        skipped={next(iter(FAMILIES)): hostile},
        ended=hostile,
    )
    text = log_text(state)
    assert hostile not in text
    assert "\x1b" not in text
    assert "\n## A heading" not in text
    assert plain(hostile) in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (6, 8) for row in rows)


def test_it_is_the_same_for_the_same_state() -> None:
    again = State.model_validate(filled().model_dump(mode="json", by_alias=True))
    assert log_text(again) == log_text(filled())


@pytest.mark.parametrize(
    ("bottleneck", "figure", "percent", "said"),
    [
        ("bandwidth", "bandwidth", 99.6, "内存带宽受限"),
        ("bandwidth", "bandwidth", 60.0, "内存带宽受限"),
        ("bandwidth", "bandwidth", 59.9, "内存带宽利用率低"),
        ("bandwidth", None, 0.0, "内存带宽受限"),
        ("parallelism", "parallelism", 100.0, ""),
        ("parallelism", "parallelism", 12.5, "并行度不足"),
        ("latency", "bandwidth", 99.0, "内存延迟高"),
        ("registers", "bandwidth", 99.0, "内存延迟高"),
        ("instructions", "bandwidth", 99.0, ""),
    ],
)
def test_nothing_is_called_low_beside_a_figure_that_is_not(
    bottleneck: str, figure: str | None, percent: float, said: str
) -> None:
    figures = {} if figure is None else {figure: measured(percent, "%")}
    speed = Speed(sizes={"rows": 4096}, bottleneck=bottleneck, **figures)
    state = filled()
    one = state.rounds[0].model_copy(update={"speeds": (speed,), "bottleneck": bottleneck})
    for text in (
        log_text(state.but(rounds=(one,))),
        log_text(state.but(rounds=(), speeds=(speed,))),
    ):
        (line,) = (x for x in text.splitlines() if "主要瓶颈" in x)
        assert (f"({said})" in line) == bool(said)
        low = {"内存带宽利用率低", "并行度不足"} - {said}
        assert not any(f"({x})" in text for x in low)


def test_code_before_and_after_is_shown() -> None:
    text = log_text(filled())
    before, after = text.index("Before (修改前):"), text.index("After (修改后):")
    assert (
        before
        < text.index("```python\nROWS = 2\n```")
        < after
        < text.index("```python\nROWS = 4\n```")
    )
    kept = (
        filled()
        .rounds[0]
        .model_copy(
            update={
                "after": filled().rounds[0].before,
                "code": Code(before="ROWS = 2", after="ROWS = 2"),
            }
        )
    )
    text = log_text(filled().but(rounds=(kept,)))
    assert "unchanged, since no setting was better" in text
    assert text.count("```python\nROWS = 2\n```") == 2
