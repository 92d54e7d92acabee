"""Worker processes of ``tune``: JSON in, JSON out.

A worker may be on another host, so it gets the graph and the text of files, but no paths.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

from autofuse.base import cache
from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import differing
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.machines.npu.codes import AclError
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import POISON, random_inputs
from autofuse.machines.twin.oracle.oracle import Reference, evaluate
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.timed.timed import timed_run
from autofuse.measure.bench.devices import alone
from autofuse.results import Run
from autofuse.targets import TargetSpec, ascend_chip, find_target
from autofuse.targets.own import read_target

__all__ = ["CARD_JOB", "CHIP_JOB", "TWIN_JOB", "card_job", "chip_job", "twin_job"]

CARD_JOB, CHIP_JOB, TWIN_JOB = (
    f"autofuse.measure.tuning.jobs:{n}_job" for n in ("card", "chip", "twin")
)
Answer: TypeAlias = dict[str, Any]

#: Kernels that a worker keeps loaded.
_KERNELS = 4
#: Launches per sample, which is their median.
_LAUNCHES = 3
#: Codes of errors of one candidate, not of the device or the installation.
_OWN = ("AF5003", "AF5004", "AF5007")


def card_job(job: Mapping[str, Any]) -> Answer:
    """Check and time modules of Triton kernels; see :func:`autofuse.machines.gpu.turns.turns_job`."""
    from autofuse.machines.gpu.turns import facts_job, turns_job

    with alone(job["device"]):
        facts = facts_job(job["device"])
        return {"facts": facts, "found": turns_job(job) if job["modules"] else []}


def chip_job(job: Mapping[str, Any]) -> Answer:
    """Check and time tilings of an Ascend C kernel in turns.

    Args:
        job: ``graph`` as JSON; ``texts``: the files of its kernels, as JSON; ``items``: the index of a text and a
            tiling key, or None for the host function's choice; ``device``, such as ``npu:0``; ``sizes`` by symbol;
            ``seed`` of the data; ``rounds``.

    Returns:
        ``facts`` of the chip; ``found``: for each item ``us``, a number per round, or ``why`` there is none.

    Raises:
        AutofuseError: AF5011, AF5013 a tool is missing, or a kernel does not compile; AF5012 the chip fails.
    """
    with alone(job["device"]):
        kernels = [_on_chip(text, job["graph"], job["device"]) for text in job["texts"]]
        found = [_checked(kernels[index], key, job) for index, key in job["items"]]
        inputs = _data(job["graph"], _frozen(job["sizes"]), job["seed"])[0]
        ready = [i for i, f in enumerate(found) if not f.get("why")]
        for r in range(job["rounds"]):
            for n in range(len(ready)):
                # The order changes from round to round, so that drift affects all candidates equally.
                i = ready[(n + r) % len(ready)]
                index, key = job["items"][i]
                us = kernels[index].time(inputs, 1, _LAUNCHES, symbols=job["sizes"], key=key)
                found[i]["us"].append(statistics.median(us))
    return {"facts": _chip_facts(kernels[0]), "found": found}


def twin_job(job: Mapping[str, Any]) -> Answer:
    """Check tilings on the CPU twin, with modelled times of a chip.

    Args:
        job: as for :func:`chip_job`; ``target``: the chip with the figures; ``figures``: the text of a target file that
            replaces it, or nothing.

    Returns:
        As there; times are modelled, and equal in every round.
    """
    chip = _chip(job["target"], job["figures"])
    found: list[Answer] = []
    for index, key in job["items"]:
        kernel = _on_twin(job["texts"][index], job["graph"])
        times: list[float] = []
        why = _compared(partial(_timed, kernel, key, job["sizes"], chip, times), job)
        found.append({"why": why} if why else {"us": times * job["rounds"]})
    facts = {
        "device": f"model of {chip.name}, in the twin's timed mode",
        "fake": "true" if any("a fake CANN" in f.source for f in chip.figures()) else "false",
        # Chips of one name may have different figures, so the store separates their times by figures.
        "figures": digest(json.dumps([(f.name, f.value) for f in chip.figures()])),
    }
    return {"facts": facts, "found": found}


def _timed(
    kernel: TwinKernel,
    key: int | None,
    sizes: Mapping[str, int],
    chip: TargetSpec,
    times: list[float],
    inputs: Mapping[str, Any],
) -> Run:
    """Run in timed mode and append the microseconds to ``times``."""
    run, report = timed_run(kernel, inputs, chip, symbols=sizes, key=key)
    times.append(float(report["total_us"]))
    return run


def _checked(kernel: NpuKernel, key: int | None, job: Mapping[str, Any]) -> Answer:
    run = partial(kernel.run, symbols=job["sizes"], key=key, poison=POISON[0])
    why = _compared(run, job)
    return {"why": why} if why else {"us": []}


def _compared(run: Callable[[Mapping[str, Any]], Run], job: Mapping[str, Any]) -> str:
    """Return the failure of a run on random data, or its first wrong output, in words; empty if all is right."""
    graph = _graph(job["graph"])
    inputs, references = _data(job["graph"], _frozen(job["sizes"]), job["seed"])
    try:
        done = run({n: a.copy() for n, a in inputs.items()})
    except AclError:
        raise
    except AutofuseError as e:
        if e.diagnostics[0].code not in _OWN:
            raise
        return e.diagnostics[0].message
    for o in graph.outputs:
        dtype = graph.tensors[o.tensor].dtype
        c = compare(o.name, done.outputs[o.name], references[o.name], dtype)
        if not c.ok:
            return differing(c.wrong, c.elements, f"output {o.name}")
    return ""


def _frozen(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(sizes.items()))


@lru_cache(maxsize=_KERNELS)
def _chip(target: str, figures: str) -> TargetSpec:
    if not figures:
        return ascend_chip(find_target(target))
    with cache.scratch() as folder:
        path = folder / "figures.toml"
        path.write_text(figures, encoding="utf-8")
        return read_target(path)


@lru_cache(maxsize=_KERNELS)
def _graph(text: str) -> FusionGraph:
    return from_json_as(FusionGraph, json.loads(text))


@lru_cache(maxsize=_KERNELS)
def _on_chip(files: str, graph: str, device: str) -> NpuKernel:
    return NpuKernel(json.loads(files), _graph(graph), device)


@lru_cache(maxsize=_KERNELS)
def _on_twin(files: str, graph: str) -> TwinKernel:
    found = _graph(graph)
    return TwinKernel(compile_kernel(json.loads(files), found.name, checked=True), found)


@lru_cache(maxsize=_KERNELS)
def _data(
    graph: str, sizes: tuple[tuple[str, int], ...], seed: int
) -> tuple[Mapping[str, Any], Mapping[str, Reference]]:
    """Return random inputs with NumPy's results, shared by all kernels of a graph."""
    found, symbols = _graph(graph), dict(sizes)
    inputs = random_inputs(found, symbols, seed)
    return inputs, evaluate(found, inputs, symbols)


def _chip_facts(kernel: NpuKernel) -> dict[str, str]:
    chip = kernel.chip
    return {
        "device": chip.soc,
        "cann": chip.cann,
        "driver": chip.driver,
        "fake": "true" if chip.is_fake else "false",
        "clock_mhz": "" if chip.clock_mhz is None else str(chip.clock_mhz),
    }
