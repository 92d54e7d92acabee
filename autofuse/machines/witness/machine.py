"""Ascend C kernels on an NVIDIA card: a second witness of their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.machine import Machine
from autofuse.machines.words import card_index
from autofuse.targets import Target, ascend_chip

__all__ = ["MACHINE"]


class _Witness(Machine):
    backend = "ascendc"
    options = frozenset({"key"})

    def takes(self, device: str) -> bool:
        return card_index(device) is not None

    def needs(self, device: str, target: Target | None = None) -> None:
        from autofuse.machines.witness.kernel import check_chip
        from autofuse.machines.witness.nvcc import find_nvcc

        if target is not None:
            check_chip(ascend_chip(target))
        find_nvcc()

    def load(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Any:
        from autofuse.machines.witness.kernel import CudaKernel

        return CudaKernel(files, graph, device)

    def timer(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> Any:
        from autofuse.machines.witness.timer import WitnessTimer

        return WitnessTimer(files, graph, device, timeout_s)


MACHINE = _Witness()
