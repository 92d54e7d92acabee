"""A tuning file for a graph: what is tried, where, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from autofuse import __version__
from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.codegen.backends.tuning_file import MEASURED, MODELLED, Times, graph_digest
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import GpuTarget
from autofuse.tuning.contest import Clock, Contest, Runner, Sizes, Tell, Verdict
from autofuse.tuning.store import Store

__all__ = ["CPU", "Found", "Options", "tune_card"]

#: What a card says of itself that changes while nothing else does.
_PASSING = ("when", "clocks.sm", "clocks.mem")
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Options:
    """How to tune.

    Attributes:
        devices: where to measure; ``cpu``: nowhere, times are those of a model.
        budget: seconds; None: no limit.
        top: candidates of each template, or of each kernel in a turn.
        rounds: samples of each candidate.
        seed: of the data.
        store: where what is measured is kept for the next run.
        tell: who is told of progress.
    """

    devices: Sequence[str] = (CPU,)
    budget: float | None = None
    top: int = 12
    rounds: int = 15
    seed: int = 0
    store: Store = field(default_factory=lambda: Store(None))
    tell: Tell = lambda _: None


@dataclass(frozen=True, slots=True)
class Found:
    """What tuning found.

    Attributes:
        text: of the tuning file.
        rows: for each contest what came of it, ready for JSON.
        facts: of the devices.
        status: ``measured`` or ``modelled``.
    """

    text: str
    rows: Sequence[Mapping[str, Any]]
    facts: Sequence[Mapping[str, str]]
    status: str

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
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
    """Blocks for the Triton kernels of a graph; one choice for all shapes.

    Args:
        graph: as it was read.
        target: a card of the dialect ``cuda``.
        shapes: sizes of the symbols; the geometric mean over them decides.
        options: how.
        runners: in place of those of the devices.

    Raises:
        AutofuseError: AF5007, no kernel has blocks that a file may give, or there is no such device; AF5001, a package
            or the card is missing; AF5003, what the compiler chooses is wrong or fails.
    """
    from autofuse.tuning.cards import Blocks, Card, CardModel

    if target.dialect != "cuda":
        text = f"there are no blocks to choose for {target.name}"
        raise AutofuseError.of("AF5007", text, hint="cards of NVIDIA and Ascend chips are tuned")
    blocks = Blocks(graph, target, shapes, options.top)
    with ExitStack() as stack:
        if runners is None:
            made: list[Card | CardModel] = []
            for d in options.devices:
                made.append(CardModel(target) if d == CPU else Card(graph, d, options.seed))
                stack.callback(made[-1].close)
            runners = made
        same_kind(runners)
        contest = Contest(
            runners,
            blocks.default,
            shapes,
            clock=Clock(options.budget),
            store=options.store,
            context=context_of(graph, target.name, runners[0], options),
            rounds=options.rounds,
            tell=options.tell,
        )
        blocks.tune(contest)
        verdict = contest.judge()
    times = times_of(graph, shapes, verdict, runners[0])
    default: Tuning = blocks.default.payload.tuning
    kept = () if verdict.winner is None else verdict.winner.payload.tuning.kernels
    tuning = replace(default, kernels=kept, times=times)
    row = row_of(graph, shapes, verdict)
    return Found(tuning.text(), (row,), [r.facts for r in runners], status_of(runners[0]))


def same_kind(runners: Sequence[Runner]) -> None:
    """Raises AF5007 for devices that differ: a ratio on one says nothing of another."""
    kinds = {r.facts.get("device", "") for r in runners}
    if len(kinds) > 1:
        text = f"the devices are of different kinds: {', '.join(sorted(kinds))}"
        raise AutofuseError.of("AF5007", text, hint="tune on each kind by itself")


def context_of(graph: FusionGraph, target: str, runner: Runner, options: Options) -> str:
    """What tells records of the store apart: graph, target, device, version and seed."""
    facts = {k: v for k, v in runner.facts.items() if k not in _PASSING}
    parts = [graph_digest(graph), target, facts, __version__, options.seed]
    return digest(json.dumps(parts, sort_keys=True))


def status_of(runner: Runner) -> str:
    """Whether times are measured or modelled."""
    return MEASURED if runner.measures else MODELLED


def is_fake(runner: Runner) -> bool:
    """Whether the device is a stand-in for tests."""
    return runner.facts.get("fake", "") == "true"


def times_of(
    graph: FusionGraph, shapes: Sequence[Sizes], verdict: Verdict, runner: Runner
) -> tuple[Times, ...]:
    """What a tuning file says of the winner."""
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
    """What came of a contest, ready for JSON."""
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
