"""Measures one kernel at one set of sizes: compares it with NumPy, then times it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import differing, part
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.timing import Plan, Samples, Timer
from autofuse.machines.twin.oracle.compare import Comparison, compare, unwritten
from autofuse.machines.twin.oracle.data import POISON, random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.measure.bench.results import Compared

__all__ = ["Found", "measure"]

#: Lower bound on the microseconds of a kernel.
_LEAST_US = 1e-3


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


def measure(runner: Timer, sizes: Mapping[str, int], plan: Plan) -> Found:
    """Compare every output with NumPy, then time the kernel; a wrong kernel has no time.

    Args:
        runner: the kernel.
        sizes: by symbol.
        plan: the timing plan.

    Raises:
        AutofuseError: AF6001, AF6002, an output is wrong; AF5003, the device gives no time; any error of the runner.
    """
    graph = runner.graph
    inputs = random_inputs(graph, sizes, plan.seed)
    references = evaluate(graph, inputs, sizes)
    runs = [runner.run(_fresh(graph, inputs), sizes, poison) for poison in POISON]
    compared = []
    for o in graph.outputs:
        first, second = (r.outputs[o.name] for r in runs)
        # An element that shows the patterns of both runs is unwritten.
        left = 0
        if o.inout is None:
            left = int((unwritten(first, POISON[0]) & unwritten(second, POISON[1])).sum())
        found = compare(o.name, first, references[o.name], graph.tensors[o.tensor].dtype)
        _refuse(graph, found, left)
        compared.append(found)
    samples = runner.time(_fresh(graph, inputs), sizes, plan)
    if not samples.us or min(samples.us) < _LEAST_US:
        text = f"the device reports no time for {graph.label}: nothing runs, or the kernel is too short"
        raise AutofuseError.of("AF5003", text, hint="use larger sizes")
    summary = Compared(
        outputs=len(compared),
        elements=sum(c.elements for c in compared),
        max_ulp=max((float(c.max_ulp) for c in compared), default=0.0),
        inconclusive=any(c.inconclusive for c in compared),
    )
    return Found(samples, summary, runs[0].key, runs[0].block_dim)


def _fresh(graph: FusionGraph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs, with copies of those that the kernel overwrites."""
    written = {o.inout for o in graph.outputs}
    return {n: a.copy() if n in written else a for n, a in inputs.items()}


def _refuse(graph: FusionGraph, c: Comparison, left: int) -> None:
    """Raise AF6001 or AF6002 for a wrong output."""
    hint = "a wrong kernel is not timed"
    if left:
        text = f"{part(left, c.elements, f'output {c.output} of {graph.label}', 'was', 'were')} not written"
        raise AutofuseError.of("AF6002", text, hint=hint)
    if not c.ok:
        text = differing(c.wrong, c.elements, f"output {c.output} of {graph.label}")
        notes = (f"first at {c.first}: {c.got}, expected {c.want}",)
        raise AutofuseError.of("AF6001", text, hint=hint, notes=notes)
