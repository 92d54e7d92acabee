"""Blocks of Triton kernels, measured on a card in a worker process, or predicted by the model of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.backend import entry_point
from autofuse.codegen.backends.triton.candidates import Planned, neighbours, planned
from autofuse.codegen.backends.triton.cost import modelled
from autofuse.codegen.backends.triton.text.wrapper import file_text
from autofuse.codegen.backends.triton.tuning import KernelTuning
from autofuse.gpu.loading import checked_device
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.targets import GpuTarget
from autofuse.tuning.contest import Candidate, Contest, Samples, Sizes
from autofuse.twin.run.worker import WorkerPool
from autofuse.twin.verify.verify import pack

__all__ = ["Blocks", "Card", "CardModel"]

_JOB, _FACTS = "autofuse.gpu.turns:turns_job", "autofuse.gpu.turns:facts_job"
#: Times that all kernels are gone through, at most: the best blocks of one depend on those of others only a little.
_TURNS = 3


class Card:
    """A card; its kernels are compiled, checked and timed in a worker, which a broken kernel may take along.

    Args:
        graph: what the kernels compute.
        device: ``cuda`` or ``cuda:N``.
        seed: of the data.

    Attributes:
        facts: name, driver, clocks and versions.

    Raises:
        AutofuseError: AF5001, PyTorch, Triton or the card are missing; AF5007, there is no such device.
    """

    measures = True

    def __init__(self, graph: FusionGraph, device: str, seed: int) -> None:
        self.device, self._seed = checked_device(device), seed
        self._entry, self._graph = entry_point(graph), pack(({}, graph, {}))
        with WorkerPool(_FACTS, workers=1, memory_mb=0) as pool:
            outcome = pool.run(self.device)
        if not outcome.ok:
            raise AutofuseError(outcome.diagnostics)
        self.facts: Mapping[str, str] = outcome.value
        # The driver of a card reserves more addresses than there is memory.
        self._pool = WorkerPool(_JOB, workers=1, memory_mb=0)

    def close(self) -> None:
        """End the worker."""
        self._pool.close()

    def run(self, candidates: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        """As :meth:`~autofuse.tuning.contest.Runner.run`; the payloads are plans."""
        job = {
            "graph": self._graph,
            "modules": [file_text(c.payload.program) for c in candidates],
            "entry": self._entry,
            "device": self.device,
            "sizes": dict(sizes),
            "seed": self._seed,
            "rounds": rounds,
            "check": True,
        }
        outcome = self._pool.run(job)
        if outcome.ok:
            return [Samples(tuple(f.get("us", ())), f.get("why", "")) for f in outcome.value]
        missing = any(d.code == "AF5001" for d in outcome.diagnostics)
        if missing or len(candidates) == 1:
            raise AutofuseError(outcome.diagnostics)
        if len(candidates) == 2:
            # Whether the first of them fails alone is found out by what comes next.
            alone = self.run(candidates[:1], sizes, rounds)
            return [*alone, Samples(why=outcome.diagnostics[0].message)]
        # One of them ended the worker; each beside the first says which.
        pairs = [self.run((candidates[0], c), sizes, rounds) for c in candidates[1:]]
        return _joined(pairs)


def _joined(pairs: Sequence[Sequence[Samples]]) -> list[Samples]:
    """Samples that were taken pair by pair, on the scale of the first pair."""
    first = pairs[0][0]
    found = [first]
    for base, one in pairs:
        scaled = [u * f / b for u, f, b in zip(one.us, first.us, base.us, strict=False)]
        found.append(Samples(tuple(scaled), one.why))
    return found


class CardModel:
    """The model of a card: it measures nothing, and runs nothing.

    Args:
        target: the card.
    """

    measures = False

    def __init__(self, target: GpuTarget) -> None:
        self._target = target
        self.facts: Mapping[str, str] = {"device": f"model of {target.name}"}

    def close(self) -> None:
        """Nothing."""

    def run(self, candidates: Sequence[Candidate], sizes: Sizes, rounds: int) -> list[Samples]:
        """As :meth:`~autofuse.tuning.contest.Runner.run`: one number, as often as it is asked for."""
        times = [modelled(c.payload.program, self._target, sizes) for c in candidates]
        return [Samples((sum(k.us for k in t),) * rounds) for t in times]


@dataclass(slots=True)
class Blocks:
    """The candidates of a graph: other blocks for each of its kernels.

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
            text = f"what runs of {self.graph.label} at these sizes chooses its blocks at the call"
            hint = "give the graph fixed sizes, at least for what is reduced"
            raise AutofuseError.of("AF5007", text, hint=hint)

    @property
    def default(self) -> Candidate:
        """The blocks that the rules choose."""
        return self._candidate(self._start)

    def tune(self, contest: Contest) -> None:
        """Measure blocks of one kernel after another, from the best of those before on, while that helps.

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
        """Kernels that run, and whose blocks a file may give."""
        us: dict[str, float] = {}
        for s in self.shapes:
            for k in modelled(self._start.program, self.target, s):
                us[k.name] = us.get(k.name, 0.0) + k.us
        names = [k.name for k in self._start.tuning.kernels if k.name in us]
        return sorted(names, key=lambda n: -us[n])

    def _proposed(self, start: Planned, kernel: str) -> Iterator[Candidate]:
        """Two thirds of them are the best by the model, the others what is nearest: the model is not always right."""
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
    """How many sizes differ."""
    before = {k.name: k.sizes for k in a.tuning.kernels}
    return sum(
        before.get(k.name, {}).get(key) != value
        for k in b.tuning.kernels
        for key, value in k.sizes.items()
    )


def _changes(before: Sequence[KernelTuning], after: Sequence[KernelTuning]) -> str:
    """The sizes that differ, in words."""
    known = {k.name: k.sizes for k in before}
    parts = []
    for k in after:
        own = known.get(k.name, {})
        found = [f"{key} {v}" for key, v in k.sizes.items() if own.get(key) != v]
        if found:
            parts.append(f"{k.name}: {', '.join(found)}")
    return "; ".join(parts)
