"""Times of Ascend C kernels on a chip, by events of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.npu.counters import PIPES, counters
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.machines.timing import Facts, Plan, Samples
from autofuse.results import Run

__all__ = ["NpuTimer"]


class NpuTimer:
    """An Ascend C kernel on a chip, as :class:`~autofuse.machines.timing.Timer`."""

    def __init__(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> None:
        self.graph = graph
        self._kernel = NpuKernel(files, graph, device, timeout=timeout_s)

    def facts(self) -> Facts:
        """Return what runtime and driver report of the chip."""
        chip = self._kernel.chip
        clock = chip.clock_mhz
        return Facts(
            kind="npu",
            name=str(chip.soc or ""),
            fake=chip.is_fake,
            driver=str(chip.driver or ""),
            cann=str(chip.cann or ""),
            clocks_mhz={} if clock is None else {"aicore": float(clock)},
        )

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """Launch it once."""
        return self._kernel.run(inputs, symbols=sizes, poison=poison)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Time launches by events of the stream."""
        us = self._kernel.time(inputs, plan.warm_up, plan.repeats, plan.l2, symbols=sizes)
        if not plan.counters:
            return Samples(us, "events")
        try:
            found = counters(self._kernel, inputs, symbols=sizes)
        except AutofuseError as e:
            # The times do not depend on the profiler.
            d = e.diagnostics[0]
            note = Diagnostic(d.code, d.message, d.where, d.hint, d.notes, severity="warning")
            return Samples(us, "events", notes=(note,))
        if found is None:
            return Samples(us, "events")
        # The profiler's names, as in import-msprof.
        named = {f"aiv_{c}_time(us)": found.pipes_us[p] for p, c in PIPES.items()}
        return Samples(us, "events", {"task_time(us)": found.us, **named})
