"""The trace of a build as text, a bounded number of lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autofuse.report.text.trace_steps import BuildTrace, Step
from autofuse.schedule.axes.result import Verdict

__all__ = ["cost_text", "trace_text"]

#: Lines of one step, lines in total, and characters of a line.
STEP_LINES, LINES, WIDTH = 60, 4_000, 200


def trace_text(trace: BuildTrace, target: str) -> str:
    """Every step: one line where nothing changed, else the first lines of its diff or text."""
    lines = [f"trace of {trace.name} for {target}; all cycles are those of a model"]
    lines += [line for step in trace.steps for line in _step(step)]
    more = len(lines) - LINES
    if more > 0:
        lines[LINES:] = [f"... {more} more lines; AUTOFUSE_TRACE=html has them"]
    return "".join(f"{line if len(line) <= WIDTH else line[:WIDTH] + '...'}\n" for line in lines)


def _step(step: Step) -> Iterator[str]:
    if not step.lines and not step.candidates:
        yield f"{step.title}: no change"
        return
    yield step.title
    yield from (f"  {_candidate(v)}" for v in step.candidates)
    yield from (f"  {line}" for line in step.lines[:STEP_LINES])
    more = len(step.lines) + step.left_out - STEP_LINES
    if more > 0:
        yield f"  ... {more} more lines; AUTOFUSE_TRACE=html has them"


def _candidate(v: Verdict) -> str:
    if not v.reason:
        return f"kept      {v.template}: {cost_text(v)}"
    return f"rejected  {v.template}: {cost_text(v)}; {v.reason}"


def cost_text(v: Verdict) -> str:
    """What a candidate costs at typical sizes."""
    if v.cycles is None:
        return "no cost, it cannot be made"
    if math.isinf(v.cycles):
        return "not legal at the sample size"
    return f"{v.cycles:.0f} cycles (model)"
