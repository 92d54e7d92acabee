"""The driver: a graph in, files out.

======== ======================= ===================== ==============================================
stage    input                   output                module
======== ======================= ===================== ==============================================
read     text of a graph file    FusionGraph           autofuse.frontends
lower    FusionGraph             HintGraph, ...        autofuse.implgraph.lowering.lowering
simplify HintGraph, ...          HintGraph, ...        autofuse.implgraph.simplify.canonicalise
schedule HintGraph, ...          ScheduleResult, ...   autofuse.schedule.scheduler
======== ======================= ===================== ==============================================

From the schedule on, the target's backend defines the stages; those of Ascend C are

======== ======================= ===================== ==============================================
kernel   ScheduleResult, ...     KernelIR per template autofuse.codegen.lower
passes   KernelIR                KernelIR              autofuse.codegen.passes
check    KernelIR                the same, proved      autofuse.codegen.verification
emit     KernelIR                files: path -> text   autofuse.codegen.backends.ascendc
======== ======================= ===================== ==============================================

A backend that plans its own kernels gets one simplified HintGraph (:func:`lower_to_plan`) and no schedule.

The output of a stage is the input of the next one, so the emitted kernel is the one that was proved. :class:`Stages`
times every stage and shows its input and output to an observer. There is no global state: threads may build
concurrently.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.observing import Observer, Watch, inside
from autofuse.base.wording import Wording
from autofuse.codegen.backends.interface import Backend, Job, generate, load_backend
from autofuse.codegen.backends.interface import prepared as prepared_for
from autofuse.frontends import read
from autofuse.implgraph.check.verify import check
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.implgraph.lowering.lowering import lower_all, lower_undivided
from autofuse.implgraph.simplify.canonicalise import UNMERGED, canonicalise, canonicalise_all
from autofuse.results import BuildResult, graph_file
from autofuse.schedule.axes.rejection import UnmovedRow, UnmovedRowsError
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.scheduler import schedule_all
from autofuse.schedule.search.costs import Costs
from autofuse.targets import Target, TargetSpec, ascend_chip

__all__ = [
    "Stages",
    "check_gradient",
    "compile",
    "lower",
    "lower_to_plan",
    "prepare",
    "read",
    "schedule",
]

T = TypeVar("T")
U = TypeVar("U")


class Stages:
    """Runs the stages of one build.

    Attributes:
        observe: called as ``observe(stage, name, before, after)`` after every stage, with an empty name, and after
            every pass of a stage that names its passes; None: no observer.
        check_ir: check the graphs that a stage produces, and prove the IR that the backend is about to emit.
        seconds: stage -> wall-clock seconds, summed over repeated runs of a stage.
    """

    def __init__(self, observe: Observer | None = None, *, check_ir: bool = False) -> None:
        self.observe, self.check_ir, self.seconds = observe, check_ir, dict[str, float]()

    def __call__(self, name: str, stage: Callable[[T], U], value: T) -> U:
        """Run a stage on ``value`` and return its result."""
        start = time.perf_counter()
        made = stage(value)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        if self.observe is not None:
            self.observe(name, "", value, made)
        return made

    def watch(self, stage: str) -> Watch | None:
        """Return the observer of the passes of a stage, if any."""
        return inside(self.observe, stage)

    def check(self, graphs: Iterable[HintGraph | ImplGraph]) -> None:
        """Raise AF2001 for a graph that breaks an invariant, if checks are enabled."""
        if self.check_ir:
            for g in graphs:
                check(g)


def prepare(target: Target, entry: str, backend: Backend | None) -> tuple[Backend, Target]:
    """Return the backend, by default the target's, and the target as the backend schedules for it.

    Raises AF5007: there is no such backend, or it does not support the options.
    """
    backend = backend or load_backend(target.backend)
    return backend, prepared_for(backend, entry, target)


def compile(
    fusion: FusionGraph,
    target: Target,
    *,
    entry: str = "launch",
    backend: Backend | None = None,
    backward: FusionGraph | None = None,
    run: Stages | None = None,
) -> BuildResult:
    """Generate the files of a graph.

    Args:
        fusion: the graph, as returned by ``read``.
        target: the chip, the GPU or the CPU.
        entry: how the kernel gets its tiling data, one of the entries of the backend.
        backend: the writer of the kernel; None: the target's backend.
        backward: the graph of its gradient, for an entry that supports gradients.
        run: times and observes the stages.

    Raises as :func:`autofuse.build`.
    """
    run = run or Stages()
    backend, target = prepare(target, entry, backend)
    gradient: tuple[FusionGraph, Mapping[str, str]] | None = None
    if backward is not None:
        check_gradient(backend, entry)
        own = Stages(run.observe, check_ir=run.check_ir)
        gradient = backward, compile(backward, target, backend=backend, run=own).files
        for stage, seconds in own.seconds.items():
            run.seconds[stage] = run.seconds.get(stage, 0.0) + seconds
    results: tuple[ScheduleResult, ...] = ()
    if backend.capabilities.plans is not None:
        hint = lower_to_plan(fusion, run, masks=backend.capabilities.masks)
        job = Job(fusion, target, None, entry, run.check_ir, run.observe)
    else:
        chip = ascend_chip(target)
        costs = Costs(chip)
        results = schedule(fusion, chip, run, costs)
        hint = results[0].hint
        job = Job(fusion, chip, costs, entry, run.check_ir, run.observe, gradient)
    with _in_words_of(fusion):
        files = generate(backend, job, results or hint, run) | graph_file(fusion)
    return BuildResult(fusion, target, hint, results, files, run.seconds)


def check_gradient(backend: Backend, entry: str) -> None:
    """Raise AF5007 for an entry that does not support gradients."""
    if entry not in backend.capabilities.gradients:
        able = ", ".join(backend.capabilities.gradients)
        raise AutofuseError.of(
            "AF5007",
            f"the entry {entry!r} does not support gradients",
            hint=f"use --backward with --entry {able}"
            if able
            else "leave out the graph of the gradient",
        )


def schedule(
    fusion: FusionGraph, target: TargetSpec, run: Stages, costs: Costs | None = None
) -> tuple[ScheduleResult, ...]:
    """Run the stages up to the schedule; ``costs`` stores the costs of its templates."""
    hints = lower(fusion, target, run)
    watch = run.watch("schedule")
    try:
        with _in_words_of(fusion):
            results = run("schedule", lambda hs: schedule_all(hs, target, costs, watch), hints)
    except AutofuseError:
        # Short rows that do not fit together may fit one by one; with known sizes both are forms.
        apart = lower(fusion, target, run, columns=False) if fusion.symbols else hints
        if apart == hints:
            raise
        with _in_words_of(fusion):
            results = run("schedule", lambda hs: schedule_all(hs, target, costs, watch), apart)
    run.check(i for r in results for g in r.groups for i in g.impls)
    return results


def lower(
    fusion: FusionGraph, target: TargetSpec, run: Stages, *, columns: bool = True
) -> tuple[HintGraph, ...]:
    """Return the forms of a graph before scheduling; ``columns``: keep pieces of short rows together."""
    watch = run.watch("lower")
    with _in_words_of(fusion):
        hints = run("lower", lambda g: lower_all(g, target, columns=columns, watch=watch), fusion)
        run.check(hints)
        hints = run("simplify", lambda hs: canonicalise_all(hs, run.watch("simplify")), hints)
        run.check(hints)
    return hints


def lower_to_plan(fusion: FusionGraph, run: Stages, *, masks: bool = False) -> HintGraph:
    """Return the form of a graph for a backend that plans its kernels: no reduction divided, no axes merged.

    ``masks``: as ``Capabilities.masks``.
    """
    with _in_words_of(fusion):
        hint = run("lower", lambda g: lower_undivided(g, run.watch("lower"), masks=masks), fusion)
        run.check((hint,))
        hint = run("simplify", lambda h: canonicalise(h, run.watch("simplify"), UNMERGED), hint)
        run.check((hint,))
    return hint


def _unmoved(fusion: FusionGraph, row: UnmovedRow) -> str:
    """Describe a tensor in GM and its rows; a tensor passed between groups is named after its contents."""
    if row.end == "Data":
        name = fusion.inputs[row.index]
    elif row.end == "Output":
        name = fusion.outputs[row.index].name
    else:
        made = [n.outputs[0] for n in fusion.nodes if n.origin and n.origin == row.origin]
        name = made[0] if made else "a tensor in between"
    return f"{name} ({fusion.in_words(row.words)})"


@contextmanager
def _in_words_of(fusion: FusionGraph) -> Iterator[None]:
    """Make errors use the user's names of nodes, symbols and the graph."""
    try:
        yield
    except UnmovedRowsError as e:
        raise UnmovedRowsError(e.rows, e.target, partial(_unmoved, fusion)) from e
    except AutofuseError as e:
        called = [n for n in fusion.nodes if n.called]
        by_name = {n.name: n.called for n in called}
        by_place = {n.origin: n.called for n in called if n.origin}
        told = []
        for d in e.diagnostics:
            own = by_name.get(d.where.node) or (
                by_place.get(d.where.pointer) if d.where.node else ""
            )
            d = replace(
                d,
                message=_named(fusion, d.message),
                hint=_named(fusion, d.hint),
                notes=tuple(_named(fusion, n) for n in d.notes),
            )
            told.append(replace(d, where=replace(d.where, node=own)) if own else d)
        if told == list(e.diagnostics):
            raise
        raise AutofuseError(told) from e


def _named(fusion: FusionGraph, text: str) -> str:
    return fusion.in_words(text) if isinstance(text, Wording) else text
