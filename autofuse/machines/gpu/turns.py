"""Compares several modules of one graph on a card: each is checked against NumPy, then timed in turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import differing
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.machines.gpu.loading import function_here
from autofuse.machines.gpu.module import TritonModule
from autofuse.machines.gpu.timing import busy, card_at, card_facts, spans, timing_inputs
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import POISON, random_inputs
from autofuse.machines.twin.oracle.oracle import Reference, evaluate

__all__ = ["facts_job", "in_turns", "measured", "turns_job"]

#: List of calls -> microseconds of each call, round by round.
Timer: TypeAlias = Callable[[Sequence[Callable[[], object]]], Sequence[Sequence[float]]]

#: Warm-up calls of each.
_WARM_UPS = 5
#: Least microseconds of a sample, reached by repeating the call, and most calls of a sample.
_SAMPLE_US, _MOST_CALLS = 400.0, 50


def facts_job(device: str) -> dict[str, str]:
    """Return the facts of a worker's card, see :func:`~autofuse.machines.gpu.timing.card_facts`."""
    return card_facts(card_at(device))


def turns_job(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Check and time modules, in a worker.

    Args:
        job: ``graph`` as JSON; ``modules``: their texts; ``entry``: the name of their function;
            ``device``; ``sizes`` by symbol; ``seed`` of the data; ``rounds``: samples of each; ``check``: compare with
            NumPy.

    Returns:
        For each module ``us``, its samples in microseconds, round by round, or ``why`` it has none.
    """
    device = card_at(job["device"])

    def timer(calls: Sequence[Callable[[], object]]) -> Sequence[Sequence[float]]:
        return in_turns(calls, device, job["rounds"])

    return measured(job, timer)


def measured(job: Mapping[str, Any], timer: Timer) -> list[dict[str, Any]]:
    """Check and time modules, as :func:`turns_job`, with a given timer.

    Wrong or failing modules are not timed.

    Raises:
        AutofuseError: AF5001, there is no such card; AF5003, its memory is too small for the data.
    """
    graph = _graph(job["graph"])
    found: list[dict[str, Any]] = []
    ready: list[tuple[int, TritonModule]] = []
    for k, text in enumerate(job["modules"]):
        try:
            module = function_here(text, graph, job["entry"], job["device"])
            why = _wrong_in(module, job) if job["check"] else ""
        except AutofuseError as e:
            if e.diagnostics[0].code == "AF5001":
                raise
            why = e.diagnostics[0].message
        found.append({"why": why} if why else {"us": []})
        if not why:
            ready.append((k, module))
    if ready:
        place = torch.device(job["device"])
        inputs = timing_inputs(graph, job["sizes"], place, job["seed"])
        keywords = ready[0][1].keywords(job["sizes"])
        calls = [_call(m.function, inputs, keywords) for _, m in ready]
        for (k, _), us in zip(ready, timer(calls), strict=True):
            found[k]["us"] = list(us)
    return found


def _call(
    function: Callable[..., object], inputs: Sequence[Any], keywords: Mapping[str, int]
) -> Callable[[], object]:
    return lambda: function(*inputs, **keywords)


def _wrong_in(module: TritonModule, job: Mapping[str, Any]) -> str:
    """Return the first wrong output of a module for random data, in words; empty if all are right."""
    inputs, references = _data(job["graph"], tuple(sorted(job["sizes"].items())), job["seed"])
    given = {n: a.copy() for n, a in inputs.items()}
    # Unwritten elements keep a pattern that is NaN as a float.
    run = module.run(given, symbols=job["sizes"], poison=POISON[0])
    for o in module.graph.outputs:
        dtype = module.graph.tensors[o.tensor].dtype
        c = compare(o.name, run.outputs[o.name], references[o.name], dtype)
        if not c.ok:
            return differing(c.wrong, c.elements, f"output {o.name}")
    return ""


@lru_cache(maxsize=1)
def _graph(text: str) -> FusionGraph:
    return from_json_as(FusionGraph, json.loads(text))


@lru_cache(maxsize=1)
def _data(
    text: str, sizes: tuple[tuple[str, int], ...], seed: int
) -> tuple[Mapping[str, Any], Mapping[str, Reference]]:
    """Return random inputs with NumPy's results, shared by all modules of a graph."""
    graph, symbols = _graph(text), dict(sizes)
    inputs = random_inputs(graph, symbols, seed)
    return inputs, evaluate(graph, inputs, symbols)


def in_turns(
    calls: Sequence[Callable[[], object]], device: torch.device, rounds: int
) -> list[list[float]]:
    """Time calls without host time, in microseconds: a sample of each call in every round.

    The order changes from round to round, so that drift (clocks, heat) affects all of them equally. L2 is as the
    previous call left it.

    Args:
        calls: each starts work on the current stream; calls of one graph use the same tensors.
        device: a card.
        rounds: samples of each.
    """
    samples: list[list[float]] = [[] for _ in calls]
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            repeated = [_repeated(call, stream) for call in calls]
            for r in range(rounds):
                for k in range(len(calls)):
                    i = (k + r) % len(calls)
                    run, times = repeated[i]
                    # Keep the card busy while the host queues the timed calls.
                    run()
                    samples[i].append(spans(run, 1)[0] / times)
        torch.cuda.synchronize()
    return samples


def _repeated(
    call: Callable[[], object], stream: torch.cuda.Stream
) -> tuple[Callable[[], object], int]:
    """Return a function that repeats the call, as a captured graph if possible, and the number of repetitions."""

    def several(times: int) -> None:
        for _ in range(times):
            call()

    several(_WARM_UPS)
    torch.cuda.synchronize()
    busy(3)
    estimate = spans(lambda: several(3), 1)[0] / 3
    times = max(1, min(_MOST_CALLS, round(_SAMPLE_US / max(estimate, 1.0))))
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            several(times)
    except RuntimeError:
        torch.cuda.synchronize()
        return lambda: several(times), times
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay, times
