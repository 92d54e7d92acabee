"""Timing of kernels on a device: the plan, the samples, facts about the device, and the protocol of a timer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from autofuse.base.diagnostics import Diagnostic
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.results import Run

__all__ = ["Facts", "Plan", "Samples", "Timer"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan for timing a kernel.

    Attributes:
        warm_up: calls before the first timed one.
        repeats: samples.
        l2: ``warm``, as the call before left it, or ``clear``, cleared before each call.
        seed: of the data.
        counters: collect counters of pipes, if there is a profiler.
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
        method: timing method, as in :class:`~autofuse.measure.bench.results.Measurement`.
        counters: the profiler's counters, by name.
        notes: problems that do not affect the times.
    """

    us: Sequence[float]
    method: str
    counters: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Device that runs a kernel, in its driver's own words.

    Attributes:
        kind: ``npu`` or ``cuda``.
        name: of the chip or card; empty if the driver does not say.
        fake: the device only stands in for a chip.
        driver: version of the driver; empty if unknown.
        cann: release of CANN; empty without it.
        clocks_mhz: clocks by name, in MHz.
        versions: versions of other software, by name.
    """

    kind: str
    name: str
    fake: bool = False
    driver: str = ""
    cann: str = ""
    clocks_mhz: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


class Timer(Protocol):
    """A kernel loaded on a device that can time it."""

    @property
    def graph(self) -> FusionGraph:
        """Its graph."""

    def facts(self) -> Facts:
        """Return facts about the device."""

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """Call it once, after filling the memory that it writes with the byte ``poison``."""

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Time it on data that it was checked on."""
