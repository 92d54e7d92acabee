"""Kernels that are loaded on a device, for measurements, and what the device is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.machines.gpu.loading import module_file
from autofuse.machines.words import card_index
from autofuse.measure.bench.measure import Plan, Runner, Samples
from autofuse.measure.bench.results import DeviceFacts
from autofuse.results import Run

if TYPE_CHECKING:
    from autofuse.machines.npu.device import Chip

__all__ = [
    "CudaRunner",
    "NpuRunner",
    "WitnessRunner",
    "chip_facts",
    "cuda_facts",
    "runner_of",
    "version_text",
]

#: Kernels that a worker keeps loaded.
_KERNELS = 8


@lru_cache(maxsize=_KERNELS)
def runner_of(kernel: str, device: str, timeout_s: float) -> Runner:
    """The kernel on a device; of the same text it is the same one.

    Args:
        kernel: JSON with ``files`` (path inside the output folder -> text) and ``graph``.
        device: as ``npu:0``.
        timeout_s: seconds that one launch on a chip may take.

    Raises:
        AutofuseError: AF5001, AF5011 something is missing; AF5002, AF5013 it does not compile; AF5007 it does not run
            there.
    """
    found = json.loads(kernel)
    files: dict[str, str] = found["files"]
    graph = from_json_as(FusionGraph, found["graph"])
    if card_index(device) is None:
        return NpuRunner(files, graph, device, timeout_s)
    if module_file(graph) in files:
        return CudaRunner(files, graph, device)
    return WitnessRunner(files, graph, device, timeout_s)


def version_text(text: object) -> str | None:
    """A text of a driver as files of results take it: other characters are replaced, of nothing there is None."""
    word = re.sub(r"[^A-Za-z0-9 ._+()-]", "_", str(text or "")).strip(" ._+-")[:80]
    return word if re.match("[A-Za-z0-9]", word) else None


class NpuRunner:
    """A kernel of Ascend C on a chip."""

    def __init__(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> None:
        from autofuse.machines.npu.kernel import NpuKernel

        self.graph = graph
        self._kernel = NpuKernel(files, graph, device, timeout=timeout_s)

    def facts(self) -> DeviceFacts:
        """As :class:`~autofuse.measure.bench.measure.Runner`, like what follows."""
        return chip_facts(self._kernel.chip)

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """One launch."""
        return self._kernel.run(inputs, symbols=sizes, poison=poison)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Times of launches by events of the stream."""
        us = self._kernel.time(inputs, plan.warm_up, plan.repeats, plan.l2, symbols=sizes)
        if not plan.counters:
            return Samples(us, "events")
        from autofuse.machines.npu.counters import PIPES, counters

        try:
            found = counters(self._kernel, inputs, symbols=sizes)
        except AutofuseError as e:
            # The times are there, and do not depend on the profiler.
            d = e.diagnostics[0]
            note = Diagnostic(d.code, d.message, d.where, d.hint, d.notes, severity="warning")
            return Samples(us, "events", notes=(note,))
        if found is None:
            return Samples(us, "events")
        # The names that the profiler has for them, as import-msprof takes them.
        named = {f"aiv_{c}_time(us)": found.pipes_us[p] for p, c in PIPES.items()}
        return Samples(us, "events", {"task_time(us)": found.us, **named})


def chip_facts(chip: Chip) -> DeviceFacts:
    """Return the facts that runtime and driver report of a chip."""
    clock = chip.clock_mhz
    return DeviceFacts(
        kind="npu",
        chip=version_text(chip.soc) or "unknown",
        fake=chip.is_fake,
        driver=version_text(chip.driver),
        cann=version_text(chip.cann),
        clocks_mhz={} if clock is None else {"aicore": float(clock)},
    )


class CudaRunner:
    """A module of Triton kernels on a card."""

    def __init__(self, files: Mapping[str, str], graph: FusionGraph, device: str) -> None:
        from autofuse.machines.gpu.loading import load_here

        self.graph = graph
        self._module = load_here(files, graph, device)

    def facts(self) -> DeviceFacts:
        """As :class:`~autofuse.measure.bench.measure.Runner`, like what follows."""
        from autofuse.machines.gpu.timing import card_facts

        return cuda_facts(card_facts(self._module.device))

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """One call."""
        return self._module.run(inputs, symbols=sizes, poison=poison)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Times by events, without those of the host."""
        from autofuse.machines.gpu.timing import sampled

        us, method = sampled(
            self._module.prepared(inputs, sizes),
            self._module.device,
            warm_up=plan.warm_up,
            repeats=plan.repeats,
            clear=plan.l2 == "clear",
        )
        return Samples(us, method)


class WitnessRunner:
    """A kernel of Ascend C on a card, which stands in for a chip: what it takes there says nothing of a chip."""

    def __init__(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> None:
        from autofuse.machines.witness.kernel import CudaKernel

        self.graph = graph
        self._kernel = CudaKernel(files, graph, device, timeout=timeout_s)

    def facts(self) -> DeviceFacts:
        """As :class:`~autofuse.measure.bench.measure.Runner`, like what follows."""
        card = self._kernel.card
        chip = version_text(card.name) or "unknown"
        return DeviceFacts(kind="cuda", chip=chip, fake=False, driver=version_text(card.driver))

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """One launch."""
        return self._kernel.run(inputs, symbols=sizes, poison=poison)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Times of launches by events."""
        us = self._kernel.time(
            inputs,
            warm_up=plan.warm_up,
            repeats=plan.repeats,
            clear=plan.l2 == "clear",
            symbols=sizes,
        )
        return Samples(us, "events")


def cuda_facts(facts: Mapping[str, str]) -> DeviceFacts:
    """Return the facts of a card from those of :func:`~autofuse.machines.gpu.timing.card_facts`."""
    clocks = {}
    for key in ("clocks.sm", "clocks.mem", "clocks.max.sm"):
        text = facts.get(key, "")
        if text.isascii() and text.isdigit() and int(text):
            clocks[key.removeprefix("clocks.")] = float(text)
    versions = {k: version_text(facts.get(k)) for k in ("torch", "triton", "cuda", "python")}
    return DeviceFacts(
        kind="cuda",
        chip=version_text(facts.get("device")) or "unknown",
        fake=False,
        driver=version_text(facts.get("driver_version")),
        clocks_mhz=clocks,
        versions={k: v for k, v in versions.items() if v is not None},
    )
