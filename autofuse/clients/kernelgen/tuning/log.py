"""``optimization_log.md``: the state of a folder as text, in the order of the source document.

Every number comes from a record: :func:`value` writes it and states whether it was measured, predicted, or comes from
the twin.  Inputs (sizes, settings, the target) are written as in the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from autofuse.clients.kernelgen.log_template import SECTIONS
from autofuse.clients.kernelgen.markdown import bullets, plain, table
from autofuse.clients.kernelgen.state_format import Accuracy, Record, Round, Settings, Speed, State
from autofuse.clients.kernelgen.tuning.tables import BOTTLENECKS, FAMILIES, document_name, title

__all__ = ["LOG", "MISSING", "log_text", "sizes_text", "value"]

LOG = "optimization_log.md"
#: Text in place of a number without a record.
MISSING = "not recorded"
_ROUNDS = ("one", "two", "three", "four", "five")
_ROUNDS_OF_DOCUMENT = ("一", "二", "三", "四", "五")
_REACHED = {None: MISSING, True: "yes (是)", False: "no (否)"}
#: Title of a section in the document -> the lines that follow it.
_Behind = Mapping[str, Callable[[], Iterator[str]]]


def value(record: Record | None) -> str:
    """Return a number with unit, status and source, or :data:`MISSING`."""
    if record is None:
        return MISSING
    unit = plain(record.unit)
    unit = f" {unit}" if unit and unit not in ("x", "%") else unit
    by = record.by.get("device") or record.by.get("model") or next(iter(record.by.values()))
    return f"{digits(record.value)}{unit} ({record.status}: {plain(by)})"


def digits(number: float) -> str:
    """Return four digits of a number, or its whole integer part; large numbers get no exponent."""
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Return the sizes of one run as text."""
    return ", ".join(f"{plain(n)} = {size}" for n, size in sizes.items()) or "the graph's sizes"


def log_text(state: State) -> str:
    """Return the log of an operator; it depends only on the state.

    Args:
        state: state of its folder.
    """
    lines = [
        f"# Optimisation log of {plain(state.operator)} (性能优化记录)",
        "",
        f"Target: {plain(state.target)}. Every number has its status: measured on the named device, predicted by a",
        "model, or from the twin, which interprets the kernels and gives no times.",
        "",
    ]
    for k, r in enumerate(state.rounds):
        lines += [
            f"## Round {_ROUNDS[k]}: {_family(r.family)} (第{_ROUNDS_OF_DOCUMENT[k]}轮优化)",
            "",
        ]
        lines += _round(state, r, state.rounds[k + 1 :])
    if not state.rounds:
        lines += ["## Before tuning (初始状态)", "", *_untuned(state)]
    lines += _summary(state)
    lines += _accuracy(state.accuracy)
    return "\n".join(lines)


def _round(state: State, r: Round, later: Sequence[Round]) -> Iterator[str]:
    """Yield every section of the document."""
    family = FAMILIES.get(r.family)
    values = {
        **_known(r),
        "修改类型": "performance parameters (性能参数修改): only the kernel file changes",
        "修改内容": "lines of the kernel file, below",
        "问题分析": plain(r.why) or MISSING,
        "优化思路": MISSING if family is None else family.idea,
        "预期效果": value(r.expected),
        "新加速比": value(r.result),
        "加速比提升": value(r.gain),
        "是否达到目标": _REACHED[r.reached],
        "成功经验": _nested(_helped(r)),
        "失败教训": _nested(_failed(r)),
        "后续优化方向": _nested(_next(state, later)),
    }
    behind: _Behind = {
        "性能瓶颈分析": lambda: _times(r.speeds),
        "修改方案": lambda: _code(r),
    }
    return _sections(values, behind)


def _untuned(state: State) -> Iterator[str]:
    """Yield the log's lines for a kernel without a round of tuning."""
    now = Round(
        version=state.kernel_version,
        family="",
        bottleneck=state.speeds[-1].bottleneck if state.speeds else "",
        why="",
        speeds=state.speeds,
        speedup=state.speedup,
        target=state.target_speedup,
    )
    speedup, target = state.speedup, state.target_speedup
    reached = None if speedup is None or target is None else speedup.value > target
    values = {
        **_known(now),
        "修改类型": "none",
        "修改内容": "no change",
        "问题分析": plain(state.ended) or MISSING,
        "优化思路": "nothing was tried",
        "预期效果": MISSING,
        "新加速比": value(speedup),
        "加速比提升": MISSING,
        "是否达到目标": _REACHED[reached],
        "成功经验": "nothing",
        "失败教训": "nothing",
        "后续优化方向": _nested(_next(state, ())),
    }
    return _sections(values, {"性能瓶颈分析": lambda: _times(now.speeds)})


def _sections(values: Mapping[str, str], behind: _Behind) -> Iterator[str]:
    """Yield all sections, with field values looked up by their titles in the document."""
    for name, own, fields in SECTIONS:
        yield from (f"### {name} ({own})", "")
        for english, field in fields:
            word = english[0].upper() + english[1:].partition(",")[0].partition(":")[0]
            yield f"- {word} ({field}): {values[field]}".replace(": \n", ":\n")
        yield ""
        yield from behind[own]() if own in behind else ()


def _known(r: Round) -> dict[str, str]:
    """Return the log's fields for a kernel before a change."""
    return {
        "版本号": plain(r.version) or MISSING,
        "测试Shape": "; ".join(sizes_text(s.sizes) for s in r.speeds) or MISSING,
        "当前加速比": value(r.speedup),
        "目标加速比": MISSING if r.target is None else f"> {digits(r.target)}x",
        "内存带宽利用率": _each([(s, s.bandwidth) for s in r.speeds]),
        "Cache命中率": value(r.profile.cache_hit),
        "并行度": _each([(s, s.parallelism) for s in r.speeds]),
        "AI Core利用率": value(r.profile.core_use),
        "主要瓶颈": _named(r.bottleneck, r.speeds[-1] if r.speeds else None),
    }


def _family(key: str) -> str:
    return title(key) if key in FAMILIES else plain(key)


def _each(records: Sequence[tuple[Speed, Record | None]]) -> str:
    """Return a record for every set of sizes as text."""
    if all(x is None for _, x in records):
        return MISSING
    return "; ".join(f"{value(x)} at {sizes_text(s.sizes)}" for s, x in records)


def _named(bottleneck: str, speed: Speed | None) -> str:
    if not bottleneck:
        return MISSING
    own, row = document_name(bottleneck, speed), BOTTLENECKS.get(bottleneck)
    words = "" if row is None else f": {row.words}"
    return f"{plain(bottleneck)}{f' ({own})' if own else ''}{words}"


def _times(speeds: Sequence[Speed]) -> Iterator[str]:
    if speeds:
        yield from table(
            ("Shape", "Baseline time", "Kernel time", "Speedup (加速比)", "Bottleneck"),
            (
                (
                    sizes_text(s.sizes),
                    value(s.baseline),
                    value(s.kernel),
                    value(s.speedup),
                    plain(s.bottleneck) or MISSING,
                )
                for s in speeds
            ),
        )


def _code(r: Round) -> Iterator[str]:
    if r.code is None:
        yield from (f"Before (修改前), After (修改后): {MISSING}", "")
        return
    kept = r.before == r.after
    after = "After (修改后), unchanged, since no setting was better:" if kept else "After (修改后):"
    for name, code in (("Before (修改前):", r.code.before), (after, r.code.after)):
        yield from (name, "", "```python", code, "```", "")


def _nested(lines: Sequence[str]) -> str:
    """Return a list nested under a field."""
    return "".join(f"\n  - {line}" for line in lines) or "nothing"


def _helped(r: Round) -> list[str]:
    known = "; proposed by a pattern from an earlier run"
    return [
        f"{_setting(t.settings, r.before)}: {value(t.speedup)}{known if t.known else ''}"
        for t in r.trials
        if not t.reason
    ]


def _failed(r: Round) -> list[str]:
    return [
        f"{_setting(t.settings, r.before)}: {value(t.speedup)}; {plain(t.reason)}"
        for t in r.trials
        if t.reason
    ]


def _next(state: State, later: Sequence[Round]) -> list[str]:
    passed = (f"{_family(n)}: skipped, {plain(why)}" for n, why in state.skipped.items())
    return [*(_family(r.family) for r in later), *passed]


def _setting(settings: Settings, before: Settings) -> str:
    """Return the changes from the previous settings, as text."""
    words = []
    for kernel in {**before, **settings}:
        old, new = before.get(kernel, {}), settings.get(kernel, {})
        changed = [f"{plain(k)} {new[k]}" for k in new if old.get(k) != new[k]]
        changed += [f"{plain(k)} by the rules" for k in old if k not in new]
        if changed:
            words.append(f"{plain(kernel)}: {', '.join(changed)}")
    return "; ".join(words) or "no change"


def _summary(state: State) -> Iterator[str]:
    yield from ("## All rounds (参数调整总结)", "")
    if state.rounds:
        yield from table(
            ("Round", "Family", "Speedup before", "Speedup after", "Gain"),
            (
                (name, _family(r.family), value(r.speedup), value(r.result), value(r.gain))
                for name, r in zip(_ROUNDS, state.rounds, strict=False)
            ),
        )
    yield from (f"Tuning ended: {plain(state.ended) or MISSING}.", "")


def _accuracy(cases: Sequence[Accuracy]) -> Iterator[str]:
    yield from ("## Accuracy (正确性测试)", "")
    if not cases:
        yield from bullets([f"accuracy: {MISSING}"])
        return
    rows: list[tuple[str, ...]] = []
    for c in cases:
        verdict = "passed" if c.ok else f"failed: {plain(c.reason)}"
        verdict += "; at smaller sizes, for the interpreter" if c.smaller else ""
        if not c.outputs:
            rows.append((sizes_text(c.sizes), c.data, *(MISSING,) * 5, verdict))
        for d in c.outputs:
            document = {None: MISSING, True: "yes", False: "no"}[d.document]
            found = (value(d.error), value(d.max_diff), value(d.function_diff), document, verdict)
            rows.append((sizes_text(c.sizes), c.data, plain(d.output), *found))
    head = ("Shape", "Data", "Output", "Largest error (oracle)", "max_diff (baseline)")
    lines = [(*head, "max_diff (function)", "Within the document's tolerance", "Verdict"), *rows]
    if not any(d.function_diff for c in cases for d in c.outputs):
        lines = [(*line[:5], *line[6:]) for line in lines]
    yield from table(lines[0], lines[1:])
