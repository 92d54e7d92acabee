"""Kernels that are loaded on a device, for measurements, and what the device is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.bench.measure import Plan, Runner, Samples
from autofuse.frontends.results import DeviceFacts
from autofuse.gpu.loading import module_file
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.twin.run.kernel import Run

__all__ = ["CudaRunner", "cuda_facts", "runner_of", "version_text"]

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
    if device.startswith("cuda"):
        if module_file(graph) not in files:
            text = f"{graph.label} is not written in Triton, which {device} runs"
            raise AutofuseError.of("AF5007", text, hint="-t nvidia-h100 writes kernels for a card")
        return CudaRunner(files, graph, device)
    raise AutofuseError.of("AF5007", f"no kernel runs on {device}")


def version_text(text: object) -> str | None:
    """A text of a driver as files of results take it: other characters are replaced, of nothing there is None."""
    word = re.sub(r"[^A-Za-z0-9 ._+()-]", "_", str(text or "")).strip(" ._+-")[:80]
    return word if re.match("[A-Za-z0-9]", word) else None


class CudaRunner:
    """A module of Triton kernels on a card."""

    def __init__(self, files: Mapping[str, str], graph: FusionGraph, device: str) -> None:
        from autofuse.gpu.loading import load_here

        self.graph = graph
        self._module = load_here(files, graph, device)

    def facts(self) -> DeviceFacts:
        """As :class:`~autofuse.bench.measure.Runner`, like what follows."""
        from autofuse.gpu.timing import card_facts

        return cuda_facts(card_facts(self._module.device))

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """One call."""
        return self._module.run(inputs, symbols=sizes, poison=poison)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Times by events, without those of the host."""
        from autofuse.gpu.timing import sampled

        us, method = sampled(
            self._module.prepared(inputs, sizes),
            self._module.device,
            warm_up=plan.warm_up,
            repeats=plan.repeats,
            clear=plan.l2 == "clear",
        )
        return Samples(us, method)


def cuda_facts(facts: Mapping[str, str]) -> DeviceFacts:
    """What :func:`~autofuse.gpu.timing.card_facts` says of a card."""
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
