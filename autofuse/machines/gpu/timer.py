"""Times of modules of Triton kernels on a card, by events, without host time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu.loading import load_here
from autofuse.machines.timing import Facts, Plan, Samples
from autofuse.results import Run

__all__ = ["CardTimer", "facts_of"]


class CardTimer:
    """A module of Triton kernels on a card, as :class:`~autofuse.machines.timing.Timer`."""

    def __init__(self, files: Mapping[str, str], graph: FusionGraph, device: str) -> None:
        self.graph = graph
        self._module = load_here(files, graph, device)

    def facts(self) -> Facts:
        """Return what PyTorch and the driver report of the card."""
        from autofuse.machines.gpu.timing import card_facts

        return facts_of(card_facts(self._module.device))

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], poison: int) -> Run:
        """Call it once."""
        return self._module.run(inputs, symbols=sizes, poison=poison)

    def time(self, inputs: Mapping[str, Any], sizes: Mapping[str, int], plan: Plan) -> Samples:
        """Time calls by events, without host time."""
        from autofuse.machines.gpu.timing import sampled

        us, method = sampled(
            self._module.prepared(inputs, sizes),
            self._module.device,
            warm_up=plan.warm_up,
            repeats=plan.repeats,
            clear=plan.l2 == "clear",
        )
        return Samples(us, method)


def facts_of(found: Mapping[str, str]) -> Facts:
    """Return the facts of a card from those of :func:`~autofuse.machines.gpu.timing.card_facts`."""
    clocks = {}
    for key in ("clocks.sm", "clocks.mem", "clocks.max.sm"):
        text = found.get(key, "")
        if text.isascii() and text.isdigit() and int(text):
            clocks[key.removeprefix("clocks.")] = float(text)
    return Facts(
        kind="cuda",
        name=found.get("device", ""),
        driver=found.get("driver_version", ""),
        clocks_mhz=clocks,
        versions={k: found[k] for k in ("torch", "triton", "cuda", "python") if k in found},
    )
