"""Tunes a graph: tries candidates on devices or a model, and writes a tuning file of the winners."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from autofuse import __version__, api
from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.tuning import Tiling, Tilings
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.codegen.backends.tuning_file import MEASURED, MODELLED, Times, graph_digest
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu.loading import checked_device
from autofuse.measure.tuning.chips import Range
from autofuse.measure.tuning.contest import Candidate, Clock, Contest, Runner, Sizes, Tell, Verdict
from autofuse.measure.tuning.devices import DeviceRunner, Work, here, on_scheduler
from autofuse.measure.tuning.jobs import CHIP_JOB, TWIN_JOB
from autofuse.measure.tuning.store import Store
from autofuse.targets import GpuTarget, TargetSpec

__all__ = ["CPU", "Found", "Options", "tune_card", "tune_chip"]

#: Facts of a card that vary between otherwise equal runs.
_PASSING = ("when", "clocks.sm", "clocks.mem")
CPU = "cpu"
#: Concurrent jobs per device of a scheduler, which limits the number of hosts.
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Options:
    """Options of tuning.

    Attributes:
        devices: devices to measure on; ``cpu``: none, times are modelled.
        clock: when to stop.
        top: candidates of each template, or of each kernel in a turn.
        rounds: samples of each candidate.
        seed: seed of the data.
        store: keeps measurements for the next run.
        scheduler: address of a Dask scheduler, whose workers have the devices; None: this host.
        timeout_s: seconds for a job, with compiling and NumPy.
        tell: called with messages of progress.
    """

    devices: tuple[str, ...] = (CPU,)
    clock: Clock = field(default_factory=lambda: Clock(None))
    top: int = 12
    rounds: int = 15
    seed: int = 0
    store: Store = field(default_factory=lambda: Store(None))
    scheduler: str | None = None
    timeout_s: float = 600.0
    tell: Tell = lambda _: None


@dataclass(frozen=True, slots=True)
class Found:
    """Result of tuning.

    Attributes:
        text: text of the tuning file.
        rows: the result of each contest, ready for JSON.
        facts: of the devices.
        status: ``measured`` or ``modelled``.
    """

    text: str
    rows: Sequence[Mapping[str, Any]]
    facts: Sequence[Mapping[str, str]]
    status: str

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return {
            "status": self.status,
            "devices": [dict(f) for f in self.facts],
            "contests": [dict(r) for r in self.rows],
        }


def tune_card(
    graph: FusionGraph,
    target: GpuTarget,
    shapes: Sequence[Sizes],
    options: Options,
    runners: Sequence[Runner] | None = None,
) -> Found:
    """Tune the blocks of a graph's Triton kernels; one choice for all shapes.

    Args:
        graph: as it was read.
        target: a card of the dialect ``cuda``.
        shapes: sizes of the symbols; the geometric mean over them decides.
        options: the options.
        runners: replace the runners of the devices.

    Raises:
        AutofuseError: AF5007, no kernel has tunable blocks, or there is no such device; AF5001, a package or the card
            is missing; AF5003, the compiler's choice is wrong or fails.
    """
    from autofuse.measure.tuning.cards import Blocks, CardModel, CardWork

    if target.dialect != "cuda":
        text = f"{target.name} cannot be tuned"
        raise AutofuseError.of("AF5007", text, hint="tuning supports NVIDIA cards and Ascend chips")
    blocks = Blocks(graph, target, shapes, options.top)
    default = blocks.default
    with ExitStack() as stack:
        if runners is None and options.devices == (CPU,):
            runners = [CardModel(target)]
        elif runners is None:
            for d in options.devices if options.scheduler is None else ():
                checked_device(d)
            work = CardWork(graph, options.seed)
            runners = _met(work, options, default, shapes[0], stack)
        contest = _contest(runners, default, shapes, graph, target.name, options)
        blocks.tune(contest)
        verdict = contest.judge()
    times = times_of(graph, shapes, verdict, runners[0])
    start: Tuning = default.payload.tuning
    kept = () if verdict.winner is None else verdict.winner.payload.tuning.kernels
    tuning = replace(start, kernels=kept, times=times)
    row = row_of(graph, shapes, verdict)
    return Found(tuning.text(), (row,), [r.facts for r in runners], status_of(runners[0]))


def tune_chip(
    graph: FusionGraph,
    target: TargetSpec,
    ranges: Sequence[Range],
    options: Options,
    *,
    priced: str | None = None,
    figures: str = "",
    runners: Sequence[Runner] | None = None,
) -> Found:
    """Tune the tilings of a graph's kernel: a table row for each shape, or range of shapes, with a winner.

    Args:
        graph: as it was read.
        target: the chip.
        ranges: shapes, each with a contest of its own.
        options: the options.
        priced: name or file of the target whose model predicts times if nothing is measured; None: ``target``.
        figures: text of a target file in place of that one; empty: none.
        runners: replace the runners of the devices.

    Raises:
        AutofuseError: as :func:`autofuse.build`; AF5007, no template is legal, or there is no such device; AF5011,
            AF5012, AF5013 of a chip; AF5003, the compiler's choice is wrong or fails.
    """
    from autofuse.measure.tuning.chips import ChipWork, TilingCandidates

    built = api.build(graph, target=target)
    rows: list[Tiling] = []
    times: list[Times] = []
    found: list[dict[str, Any]] = []
    with ExitStack() as stack:
        for r in ranges:
            tilings = TilingCandidates(built, target, r, options.top)
            default = tilings.default
            if runners is None:
                on_twin = options.devices == (CPU,)
                job = TWIN_JOB if on_twin else CHIP_JOB
                named = priced or target.name
                work = ChipWork(job, graph, options.seed, target=named, figures=figures)
                runners = _met(work, options, default, r.points[0], stack)
            contest = _contest(runners, default, r.points, graph, target.name, options)
            tilings.tune(contest)
            verdict = contest.judge()
            found.append(row_of(graph, r.points, verdict))
            if verdict.winner is not None:
                rows.append(tilings.row(verdict.winner))
                times += times_of(graph, r.points, verdict, runners[0])
    assert runners is not None
    text = Tilings.of(graph, target.name, rows, times).text()
    return Found(text, found, [r.facts for r in runners], status_of(runners[0]))


def _met(
    work: Work, options: Options, default: Candidate, sizes: Sizes, stack: ExitStack
) -> Sequence[DeviceRunner]:
    """Return the devices after each has run the default."""
    if options.scheduler is not None:
        made = [
            on_scheduler(work, d, options.scheduler, options.timeout_s)
            for d in options.devices * _AT_ONCE
        ]
    elif options.devices == (CPU,):
        seconds = options.timeout_s
        made = [here(work, CPU, timeout_s=seconds, measures=False, memory_mb=None)]
    else:
        made = [here(work, d, timeout_s=options.timeout_s) for d in options.devices]
    for r in made:
        stack.callback(r.close)
    options.tell("the compiler's choice")
    if options.scheduler is None:
        for r in made:
            r.meet(default, sizes)
    else:
        # Any worker of a scheduler answers for all of them.
        made[0].meet(default, sizes)
        for r in made[1:]:
            r.facts = made[0].facts
    return made


def _contest(
    runners: Sequence[Runner],
    default: Candidate,
    shapes: Sequence[Sizes],
    graph: FusionGraph,
    target: str,
    options: Options,
) -> Contest:
    same_kind(runners)
    return Contest(
        runners,
        default,
        shapes,
        clock=options.clock,
        store=options.store,
        context=context_of(graph, target, runners[0], options),
        # A model gives equal times in every round.
        rounds=options.rounds if runners[0].measures else 1,
        tell=options.tell,
    )


def same_kind(runners: Sequence[Runner]) -> None:
    """Raise AF5007 for devices that differ: a ratio on one says nothing about another."""
    kinds = {r.facts.get("device", "") for r in runners}
    if len(kinds) > 1:
        text = f"the devices are of different kinds: {', '.join(sorted(kinds))}"
        raise AutofuseError.of("AF5007", text, hint="tune each kind separately")


def context_of(graph: FusionGraph, target: str, runner: Runner, options: Options) -> str:
    """Return the digest that separates records of the store: graph, target, device, version and seed."""
    facts = {k: v for k, v in runner.facts.items() if k not in _PASSING}
    parts = [graph_digest(graph), target, facts, __version__, options.seed]
    return digest(json.dumps(parts, sort_keys=True))


def status_of(runner: Runner) -> str:
    """Return the status of times: measured or modelled."""
    return MEASURED if runner.measures else MODELLED


def is_fake(runner: Runner) -> bool:
    """Return True if the device is a stand-in for tests."""
    return runner.facts.get("fake", "") == "true"


def times_of(
    graph: FusionGraph, shapes: Sequence[Sizes], verdict: Verdict, runner: Runner
) -> tuple[Times, ...]:
    """Return the winner's times for a tuning file."""
    if verdict.winner is None:
        return ()
    labels = graph.symbol_labels()
    return tuple(
        Times(
            {labels[n]: size for n, size in sizes.items()},
            round(us, 4),
            round(default_us, 4),
            round(verdict.noise, 4),
            status_of(runner),
            runner.facts.get("device", ""),
            is_fake(runner),
        )
        for sizes, us, default_us in zip(shapes, verdict.us, verdict.default_us, strict=False)
    )


def row_of(graph: FusionGraph, shapes: Sequence[Sizes], verdict: Verdict) -> dict[str, Any]:
    """Return the result of a contest, ready for JSON."""
    labels = graph.symbol_labels()
    return {
        "shapes": [{labels[n]: size for n, size in s.items()} for s in shapes],
        "winner": None if verdict.winner is None else verdict.winner.label,
        "best": None if verdict.best is None else verdict.best.label,
        "us": list(verdict.us),
        "default_us": list(verdict.default_us),
        "gain": verdict.gain,
        "noise": verdict.noise,
        "measured": verdict.measured,
        "failed": dict(verdict.failed),
        "complete": verdict.complete,
    }
