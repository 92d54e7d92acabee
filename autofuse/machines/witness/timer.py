"""Times of Ascend C kernels on a card in place of a chip; they say nothing about a chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.timing import Facts, Plan, Samples
from autofuse.machines.witness.kernel import CudaKernel
from autofuse.results import Run

__all__ = ["WitnessTimer"]


class WitnessTimer:
    """An Ascend C kernel on a card, as :class:`~autofuse.machines.timing.Timer`."""

    def __init__(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> None:
        self.graph = graph
        self._kernel = CudaKernel(files, graph, device, timeout=timeout_s)

    def facts(self) -> Facts:
        """Return what the driver reports of the card."""
        card = self._kernel.card
        return Facts(kind="cuda", name=str(card.name or ""), driver=str(card.driver or ""))

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """Launch it once."""
        return self._kernel.run(inputs, symbols=sizes, poison=poison)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Time launches by events."""
        us = self._kernel.time(
            inputs,
            warm_up=plan.warm_up,
            repeats=plan.repeats,
            clear=plan.l2 == "clear",
            symbols=sizes,
        )
        return Samples(us, "events")
