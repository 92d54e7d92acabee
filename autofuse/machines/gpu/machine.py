"""Triton kernels, in Triton's interpreter or on an NVIDIA card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu.loading import (
    INTERPRETED_ELEMENTS,
    checked_device,
    flushes,
    load_here,
    module_file,
)
from autofuse.machines.machine import Machine
from autofuse.machines.twin.verify.verify import VerifyReport
from autofuse.machines.words import CPU
from autofuse.targets import Target

__all__ = ["MACHINE"]


class _Gpu(Machine):
    backend = "triton"
    keys = ()

    def wrote(self, files: Mapping[str, str], graph: FusionGraph) -> bool:
        return module_file(graph) in files

    def needs(self, device: str, target: Target | None = None) -> None:
        checked_device(device)

    def most_elements(self, device: str) -> int | None:
        return INTERPRETED_ELEMENTS if device == CPU else None

    def load(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Any:
        from autofuse.machines.gpu.kernel import TritonKernel

        return TritonKernel(files, graph, device)

    def open(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Any:
        return load_here(files, graph, device)

    def verify_here(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> VerifyReport:
        return super().verify_here(files, graph, device, flushes=flushes(device), **options)

    def timer(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> Any:
        from autofuse.machines.gpu.timer import CardTimer

        return CardTimer(files, graph, device)

    def label(self, device: str) -> str:
        return "Triton's interpreter" if device == CPU else device


MACHINE = _Gpu()
