"""Blocks of Triton kernels: candidates, their measurement on a card, and their modelled times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.backend import entry_point
from autofuse.codegen.backends.triton.candidates import Planned, neighbours, planned
from autofuse.codegen.backends.triton.cost import modelled
from autofuse.codegen.backends.triton.text.wrapper import file_text
from autofuse.codegen.backends.triton.tuning import KernelTuning
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.ir.serialise import to_json
from autofuse.measure.tuning.contest import Candidate, Contest, Samples, Sizes
from autofuse.measure.tuning.jobs import CARD_JOB
from autofuse.targets import GpuTarget

__all__ = ["Blocks", "CardModel", "CardWork"]

#: Most passes over all kernels: the best blocks of one depend only weakly on those of others.
_TURNS = 3


class CardWork:
    """Jobs for a worker with a card: modules of Triton kernels.

    Args:
        graph: the graph that the kernels compute.
        seed: seed of the data.
    """

    job = CARD_JOB

    def __init__(self, graph: FusionGraph, seed: int) -> None:
        self._seed, self._entry = seed, entry_point(graph)
        self._graph = json.dumps(to_json(graph))

    def item(
        self, device: str, candidates: Sequence[Candidate], sizes: Sizes, rounds: int
    ) -> dict[str, Any]:
        """Return the item, as :class:`~autofuse.measure.tuning.devices.Work`; the payloads are plans."""
        return {
            "graph": self._graph,
            "modules": [file_text(c.payload.program) for c in candidates],
            "entry": self._entry,
            "device": device,
            "sizes": dict(sizes),
            "seed": self._seed,
            "rounds": rounds,
            "check": True,
        }


class CardModel:
    """The model of a card; it runs and measures nothing.

    Args:
        target: the card.
    """

    measures = False

    def __init__(self, target: GpuTarget) -> None:
        self._target = target
        self.facts: Mapping[str, str] = {"device": f"model of {target.name}"}

    def close(self) -> None:
        """Do nothing."""

    def run(self, candidates: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        """Run as :meth:`~autofuse.measure.tuning.contest.Runner.run`: one modelled time, repeated for every round."""
        times = [modelled(c.payload.program, self._target, sizes) for c in candidates]
        return [Samples((sum(k.us for k in t),) * rounds) for t in times]


@dataclass(slots=True)
class Blocks:
    """Candidates of a graph: other blocks for each of its kernels.

    Attributes:
        graph: as it was read.
        target: the card.
        shapes: sizes of the symbols.
        top: candidates of each kernel in a turn.
    """

    graph: FusionGraph
    target: GpuTarget
    shapes: Sequence[Sizes]
    top: int
    _hint: HintGraph = field(init=False)
    _start: Planned = field(init=False)

    def __post_init__(self) -> None:
        self._hint = api.hint_of(self.graph, target=self.target)
        self._start = planned(self.graph, self._hint, self.target, self.shapes)
        if not self._slowest_first():
            text = f"the kernels of {self.graph.label} that run at these sizes choose their blocks at the call"
            hint = "fix the sizes of the graph, at least those of the reduced axes"
            raise AutofuseError.of("AF5007", text, hint=hint)

    @property
    def default(self) -> Candidate:
        """The blocks that the rules choose."""
        return self._candidate(self._start)

    def tune(self, contest: Contest) -> None:
        """Tune the blocks of one kernel after another, starting from the best so far, while that helps.

        Raises:
            AutofuseError: as :meth:`Contest.screen`.
        """
        for _ in range(_TURNS):
            before = contest.best
            for kernel in self._slowest_first():
                contest.screen(list(self._proposed(contest.best.payload, kernel)))
            if contest.best == before:
                return

    def _slowest_first(self) -> list[str]:
        """Return the kernels that run and have tunable blocks, slowest first."""
        us: dict[str, float] = {}
        for s in self.shapes:
            for k in modelled(self._start.program, self.target, s):
                us[k.name] = us.get(k.name, 0.0) + k.us
        names = [k.name for k in self._start.tuning.kernels if k.name in us]
        return sorted(names, key=lambda n: -us[n])

    def _proposed(self, start: Planned, kernel: str) -> Iterator[Candidate]:
        """Propose blocks: two thirds are the best by the model, the rest the nearest, as the model may be wrong."""
        found = neighbours(start, kernel, self._hint, self.target, self.shapes)
        best = found[: -(-2 * self.top // 3)]
        near = sorted(found, key=lambda p: _distance(start, p))
        chosen = {p.tuning.text(): p for p in (*best, *near)}
        for p in list(chosen.values())[: self.top]:
            yield self._candidate(p)

    def _candidate(self, p: Planned) -> Candidate:
        changed = _changes(self._start.tuning.kernels, p.tuning.kernels)
        plain = replace(p.tuning, times=())
        return Candidate(plain.text(), changed or "default", p, p.us)


def _distance(a: Planned, b: Planned) -> int:
    """Return the number of sizes that differ."""
    before = {k.name: k.sizes for k in a.tuning.kernels}
    return sum(
        before.get(k.name, {}).get(key) != value
        for k in b.tuning.kernels
        for key, value in k.sizes.items()
    )


def _changes(before: Sequence[KernelTuning], after: Sequence[KernelTuning]) -> str:
    """Return the sizes that differ, in words."""
    known = {k.name: k.sizes for k in before}
    parts = []
    for k in after:
        own = known.get(k.name, {})
        found = [f"{key} {v}" for key, v in k.sizes.items() if own.get(key) != v]
        if found:
            parts.append(f"{k.name}: {', '.join(found)}")
    return "; ".join(parts)
