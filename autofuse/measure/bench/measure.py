"""One kernel at one set of sizes: compared with NumPy, then timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.wording import differing, part
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.compare import Comparison, compare, unwritten
from autofuse.machines.twin.oracle.data import POISON, random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.measure.bench.results import Compared, DeviceFacts
from autofuse.results import Run

__all__ = ["Found", "Plan", "Runner", "Samples", "measure"]

#: Microseconds that no kernel is below.
_LEAST_US = 1e-3


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan for timing a kernel.

    Attributes:
        warm_up: calls before the first timed one.
        repeats: samples.
        l2: ``warm``, as the call before left it, or ``clear``, cleared before each call.
        seed: of the data.
        counters: ask the profiler for counters of pipes, where there is one.
    """

    warm_up: int = 10
    repeats: int = 50
    l2: str = "warm"
    seed: int = 0
    counters: bool = True


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of a timer.

    Attributes:
        us: microseconds of one call, every sample.
        method: of timing, a word of :class:`~autofuse.measure.bench.results.Measurement`.
        counters: of the profiler, by name.
        notes: problems other than with the times.
    """

    us: Sequence[float]
    method: str
    counters: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Diagnostic, ...] = ()


class Runner(Protocol):
    """A kernel that is loaded on a device."""

    @property
    def graph(self) -> FusionGraph:
        """The graph that it computes."""

    def facts(self) -> DeviceFacts:
        """Return the facts of the device."""

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """Call it once; the memory that it writes is first filled with the byte ``poison``."""

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Time it on data that it was compared with."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a measurement.

    Attributes:
        samples: the times.
        compared: how the outputs compare with NumPy.
        key: tiling key that ran; -1 for kernels without keys.
        cores: number of cores that ran; 0 if unknown.
    """

    samples: Samples
    compared: Compared
    key: int
    cores: int


def measure(runner: Runner, sizes: Mapping[str, int], plan: Plan) -> Found:
    """Compare every output with NumPy, then time the kernel: one that is wrong has no time.

    Args:
        runner: the kernel.
        sizes: by symbol.
        plan: how it is timed.

    Raises:
        AutofuseError: AF6001, AF6002, an output is wrong; AF5003, the device gives no time; what the runner raises.
    """
    graph = runner.graph
    inputs = random_inputs(graph, sizes, plan.seed)
    references = evaluate(graph, inputs, sizes)
    runs = [runner.run(_fresh(graph, inputs), sizes, poison) for poison in POISON]
    compared = []
    for o in graph.outputs:
        first, second = (r.outputs[o.name] for r in runs)
        # An element that shows the pattern of both runs is one that nobody wrote.
        left = 0
        if o.inout is None:
            left = int((unwritten(first, POISON[0]) & unwritten(second, POISON[1])).sum())
        found = compare(o.name, first, references[o.name], graph.tensors[o.tensor].dtype)
        _refuse(graph, found, left)
        compared.append(found)
    samples = runner.time(_fresh(graph, inputs), sizes, plan)
    if not samples.us or min(samples.us) < _LEAST_US:
        text = f"the device gives no time of {graph.label}: nothing runs, or it is too short"
        raise AutofuseError.of("AF5003", text, hint="take larger sizes")
    summary = Compared(
        outputs=len(compared),
        elements=sum(c.elements for c in compared),
        max_ulp=max((float(c.max_ulp) for c in compared), default=0.0),
        inconclusive=any(c.inconclusive for c in compared),
    )
    return Found(samples, summary, runs[0].key, runs[0].block_dim)


def _fresh(graph: FusionGraph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs; what the kernel overwrites of them as copies."""
    written = {o.inout for o in graph.outputs}
    return {n: a.copy() if n in written else a for n, a in inputs.items()}


def _refuse(graph: FusionGraph, c: Comparison, left: int) -> None:
    """Raises AF6001 or AF6002 for an output that is wrong."""
    hint = "a wrong kernel has no time"
    if left:
        text = f"{part(left, c.elements, f'output {c.output} of {graph.label}', 'was', 'were')} not written"
        raise AutofuseError.of("AF6002", text, hint=hint)
    if not c.ok:
        text = differing(c.wrong, c.elements, f"output {c.output} of {graph.label}")
        notes = (f"first at {c.first}: {c.got}, expected {c.want}",)
        raise AutofuseError.of("AF6001", text, hint=hint, notes=notes)
