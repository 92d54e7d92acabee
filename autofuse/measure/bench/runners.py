"""Kernels loaded on a device for measurements, and facts about the device as files of results have them."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import from_json_as
from autofuse.machines.machine import machine_of
from autofuse.machines.timing import Facts, Timer
from autofuse.measure.bench.results import DeviceFacts

__all__ = ["device_facts", "runner_of", "version_text"]

#: Kernels that a worker keeps loaded.
_KERNELS = 8


@lru_cache(maxsize=_KERNELS)
def runner_of(kernel: str, device: str, timeout_s: float) -> Timer:
    """Return the kernel on a device; the same text gives the same object.

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
    return machine_of(files, graph, device).timer(files, graph, device, timeout_s)


def version_text(text: object) -> str | None:
    """Return a driver's text in the alphabet of files of results; other characters are replaced, empty gives None."""
    word = re.sub(r"[^A-Za-z0-9 ._+()-]", "_", str(text or "")).strip(" ._+-")[:80]
    return word if re.match("[A-Za-z0-9]", word) else None


def device_facts(found: Facts) -> DeviceFacts:
    """Return facts about a device as files of results have them."""
    versions = {k: version_text(v) for k, v in found.versions.items()}
    return DeviceFacts.model_validate(
        {
            "kind": found.kind,
            "chip": version_text(found.name) or "unknown",
            "fake": found.fake,
            "driver": version_text(found.driver),
            "cann": version_text(found.cann),
            "clocks_mhz": dict(found.clocks_mhz),
            "versions": {k: v for k, v in versions.items() if v is not None},
        }
    )
