"""Trace of a build by an observer of the driver, rendered as a bounded number of lines.

The texts depend only on graph, target and options: no wall-clock times, no addresses. Names come from graph files, so
every line is made printable here.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.codegen.ir.kernel_ir import KernelFn
from autofuse.implgraph.cutting.cut import Split
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.implgraph.ir.printer import print_graph
from autofuse.report.text.console import printable
from autofuse.report.text.ir.graph import fusion_text
from autofuse.report.text.ir.kernel import kernel_text
from autofuse.schedule.axes.result import ScheduleResult, Verdict

__all__ = ["BuildTrace", "Step", "cost_text", "trace_text"]

#: Most lines of one step in the text, lines in total, and characters of a line.
STEP_LINES, LINES, WIDTH = 60, 4_000, 200
#: Most lines kept of one step, and most lines of a text that is diffed.
MOST_LINES, LONGEST = 5_000, 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """A stage or a pass.

    Attributes:
        title: ``stage``, or ``stage: pass``.
        lines: a unified diff of its change, or the text of its output; empty if nothing changed.
        is_diff: True for a diff.
        left_out: number of omitted lines.
        candidates: outcome of the candidates of a group.
    """

    title: str
    lines: tuple[str, ...] = ()
    is_diff: bool = False
    left_out: int = 0
    candidates: tuple[Verdict, ...] = ()


class BuildTrace:
    """The steps of one build; an instance is the observer of its driver.

    Attributes:
        name: name of the graph, once it is read.
        steps: the steps, in order.
    """

    def __init__(self) -> None:
        self.name = ""
        self.steps: list[Step] = []
        self._last: tuple[object, list[str]] = (None, [])

    def __call__(self, stage: str, name: str, before: object, after: object) -> None:
        """Record the effect of a step."""
        if not self.name and isinstance(after, FusionGraph):
            self.name = printable(after.label)
        first = after[0] if isinstance(after, tuple) and after else after
        if not name and isinstance(first, HintGraph):
            return  # the passes of this stage are already recorded
        title = printable(f"{stage}: {name}" if name else stage)
        if isinstance(after, tuple) and after and isinstance(after[0], Verdict):
            shown = tuple(
                Verdict(printable(v.template), v.cycles, printable(v.reason)) for v in after
            )
            self.steps.append(Step(title, candidates=shown))
        elif before is after or before == after:
            self.steps.append(Step(title))
        elif name and type(before) is type(after):
            self._add(title, _difference(self._text(before), self._text(after)), is_diff=True)
        else:
            self._add(title, self._text(after))

    def failed(self, error: AutofuseError) -> None:
        """Record why the build failed."""
        self._add("failed", _lines(error))

    def _add(self, title: str, lines: list[str], *, is_diff: bool = False) -> None:
        kept = tuple(lines[:MOST_LINES])
        self.steps.append(Step(title, kept, is_diff, len(lines) - len(kept)))

    def _text(self, value: object) -> list[str]:
        # The output of one pass is the input of the next.
        if self._last[0] is not value:
            self._last = value, _lines(value)
        return self._last[1]


def _difference(before: list[str], after: list[str]) -> list[str]:
    if max(len(before), len(after)) > LONGEST:
        return [f"{counted(len(before), 'line')} became {len(after)}, too many to compare"]
    found = list(difflib.unified_diff(before, after, "before", "after", lineterm=""))
    return found or ["changed, but not in the printed text"]


def _lines(value: object) -> list[str]:
    return [printable(line) for text in _texts(value) for line in text.splitlines()]


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value passed between stages."""
    if isinstance(value, FusionGraph):
        yield fusion_text(value)
    elif isinstance(value, HintGraph | ImplGraph):
        yield print_graph(value)
    elif isinstance(value, KernelFn):
        yield kernel_text(value)
    elif isinstance(value, ScheduleResult):
        yield f"result {value.index}"
        yield from (print_graph(impl) for g in value.groups for impl in g.impls)
        yield from (f"{r.template} of group {r.group}: {r.whole_reason}" for r in value.rejected)
    elif isinstance(value, AutofuseError):
        for d in value.diagnostics:
            yield f"{d.code}: {d.message}"
            yield from (f"  {note}" for note in d.notes)
    elif isinstance(value, Split):
        yield f"{counted(len(value.parts), 'kernel')}; cut after {', '.join(value.cut_after) or 'no node'}"
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(item, str):
                yield f"{name}: {counted(item.count(chr(10)), 'line')}"
            else:
                yield from _texts(item)
    elif hasattr(value, "functions"):  # a backend's own state between its stages
        yield from _texts(value.functions)
    else:
        yield f"(a {type(value).__name__}, which has no text)"


def trace_text(trace: BuildTrace, target: str) -> str:
    """Return all steps as text: one line if nothing changed, else the first lines of the diff or text."""
    lines = [f"trace of {trace.name} for {target}; all cycles come from a model"]
    lines += [line for step in trace.steps for line in _step(step)]
    more = len(lines) - LINES
    if more > 0:
        lines[LINES:] = [f"... {counted(more, 'more line')}; AUTOFUSE_TRACE=html has them"]
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
        yield f"  ... {counted(more, 'more line')}; AUTOFUSE_TRACE=html has them"


def _candidate(v: Verdict) -> str:
    if not v.reason:
        return f"kept      {v.template}: {cost_text(v)}"
    return f"rejected  {v.template}: {cost_text(v)}; {v.reason}"


def cost_text(v: Verdict) -> str:
    """Return the cost of a candidate at typical sizes, as text."""
    if v.cycles is None:
        return "no cost; it cannot be generated"
    if math.isinf(v.cycles):
        return "not legal at the sample size"
    return f"{v.cycles:.0f} cycles (model)"
