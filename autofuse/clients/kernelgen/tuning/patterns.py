"""Successful tuning changes over all operators; later runs try them first.

A pattern records the case (kind of operator, form of kernel, data volume, bottleneck), the change of blocks that sped
it up, the gain, and whether the gain was measured or predicted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from autofuse.base import cache
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.markdown import plain, table
from autofuse.clients.kernelgen.state_format import (
    MOST_PATTERNS,
    Case,
    Pattern,
    PatternFile,
    Run,
    State,
    read_patterns,
)
from autofuse.clients.kernelgen.tuning.log import MISSING, value
from autofuse.clients.kernelgen.tuning.tables import FAMILIES, document_name, title

__all__ = [
    "BUCKETS",
    "PATTERNS",
    "SUMMARY",
    "bucket_of",
    "helping",
    "joined",
    "load",
    "record",
    "save",
    "summary_text",
]

PATTERNS, SUMMARY = "patterns.json", "optimization_patterns.md"
BUCKETS = ("within a mebibyte", "within L2", "beyond L2")
_SMALL = 1 << 20


def bucket_of(nbytes: int, l2_bytes: int) -> str:
    """Return the class of a call's data volume.

    Args:
        nbytes: bytes that the call must move.
        l2_bytes: L2 size of the card.
    """
    return BUCKETS[0] if nbytes <= _SMALL else BUCKETS[1] if nbytes <= l2_bytes else BUCKETS[2]


def load(path: Path) -> PatternFile:
    """Read a pattern file; empty if it does not exist.

    Raises:
        AutofuseError: AF1xxx, it cannot be read or is malformed.
    """
    return read_patterns(path) if path.exists() else PatternFile()


def record(path: Path, found: Iterable[Pattern], state: State) -> None:
    """Add the patterns of a tuning run to a file, and the run itself even if it found none.

    Raises:
        AutofuseError: as :func:`load` and :func:`save`.
    """
    before, rounds = load(path), state.rounds
    first = rounds[0].speeds if rounds else state.speeds
    run = Run(
        operator=state.operator,
        target=state.target,
        bottleneck=first[-1].bottleneck if first else "",
        families=tuple(r.family for r in rounds),
        helped=tuple(r.family for r in rounds if r.before != r.after and state.tuning),
        before=rounds[0].speedup if rounds else state.speedup,
        after=state.speedup,
        ended=state.ended,
    )
    runs = {r.key(): r for r in (*before.runs, run)}
    kept = sorted(runs.values(), key=Run.key)[:MOST_PATTERNS]
    save(path, joined(before.patterns, found), kept)


def joined(known: Iterable[Pattern], found: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """Return all patterns sorted by key; of equal ones, keep the one with the largest gain."""
    out: dict[tuple[object, ...], Pattern] = {}
    for p in (*known, *found):
        old = out.get(p.key())
        if old is None:
            out[p.key()] = p
            continue
        best = p if (p.gain.value, old.operator) > (old.gain.value, p.operator) else old
        operators = tuple(sorted({*old.operators, *p.operators}))
        out[p.key()] = best.model_copy(update={"operators": operators})
    ordered = sorted(out.values(), key=lambda p: repr(p.key()))
    return tuple(ordered[:MOST_PATTERNS])


def helping(patterns: Sequence[Pattern], case: Case) -> list[Pattern]:
    """Return the patterns that helped in such a case: measured before predicted, largest gain first."""
    found = [p for p in patterns if p.case == case and p.gain.value > 0]
    return sorted(found, key=lambda p: (p.gain.status != "measured", -p.gain.value, repr(p.key())))


def save(path: Path, patterns: Sequence[Pattern], runs: Sequence[Run] = ()) -> tuple[Path, Path]:
    """Write the file and, next to it, a readable summary.

    Returns:
        Both paths.

    Raises:
        AutofuseError: AF5005, they cannot be written.
    """
    file = PatternFile(patterns=tuple(patterns), runs=tuple(runs))
    data = file.model_dump(mode="json", by_alias=True)
    summary = path.parent / (
        SUMMARY if path.name == PATTERNS else f"{path.name.removesuffix('.json')}.md"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        cache.write_atomic(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        cache.write_atomic(summary, summary_text(patterns, runs))
    except OSError as e:
        text = f"{path} cannot be written: {e.strerror or e}"
        raise AutofuseError.of("AF5005", text) from e
    return path, summary


def summary_text(patterns: Sequence[Pattern], runs: Sequence[Run] = ()) -> str:
    """Return the readable summary: a section for each family that helped, and all runs."""
    lines = ["# Patterns of optimisation (优化模式总结)", ""]
    if not patterns:
        lines += ["Nothing has helped so far.", ""]
    for family, row in FAMILIES.items():
        own = [p for p in patterns if p.family == family]
        if not own:
            continue
        lines += [f"## {title(family)}", "", f"{row.idea[0].upper()}{row.idea[1:]}.", ""]
        lines += table(
            ("For (适用场景)", "Change (优化策略)", "Brought", "To"),
            ((_case(p.case), _change(p.change), value(p.gain), _operators(p)) for p in own),
        )
    if runs:
        lines += ["## Runs (调优记录)", "", "All runs, including those where nothing helped.", ""]
        lines += table(
            ("Operator", "Target", "Bottleneck", "Tried", "Helped", "Speedup", "Ended"),
            (_run(r) for r in runs),
        )
    return "\n".join(lines)


def _case(c: Case) -> str:
    own = document_name(c.bottleneck)
    limit = f"{plain(c.bottleneck)}{f' ({own})' if own else ''}"
    return f"{plain(c.kind)}, {plain(c.form)}, {plain(c.bucket)}, {plain(c.target)}: {limit}"


def _run(r: Run) -> tuple[str, ...]:
    tried, helped = (", ".join(map(title, f)) or "nothing" for f in (r.families, r.helped))
    speedup = value(r.after)
    if r.before is not None and r.after is not None and r.before.value != r.after.value:
        speedup = f"{r.before.value:.4g}x, then {speedup}"
    words = (plain(r.operator), plain(r.target), plain(r.bottleneck) or MISSING)
    return (*words, tried, helped, speedup, plain(r.ended) or MISSING)


def _change(change: dict[str, int]) -> str:
    words = [
        f"{plain(k)} {'+' if s > 0 else '-'}{abs(s)}"
        if k == "stages"
        else f"{plain(k)} {'x' if s > 0 else '/'} {2 ** abs(s)}"
        for k, s in change.items()
    ]
    return ", ".join(words) or "back to the default rules"


def _operators(p: Pattern) -> str:
    return ", ".join(plain(o) for o in dict.fromkeys((p.operator, *p.operators)))
