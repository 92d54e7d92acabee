"""Kernels of Ascend C on an Ascend chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.machine import Machine
from autofuse.machines.npu.device import PREFIX
from autofuse.targets import Target

__all__ = ["MACHINE"]


class _Npu(Machine):
    backend = "ascendc"

    def takes(self, device: str) -> bool:
        return device.partition(":")[0] == PREFIX

    def needs(self, device: str, target: Target | None = None) -> None:
        text = f"verify does not run kernels on {device}"
        hint = "autofuse bench and autofuse silicon compare a chip's results with NumPy"
        raise AutofuseError.of("AF5007", text, hint=hint)

    def load(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Any:
        from autofuse.machines.npu.kernel import NpuKernel

        return NpuKernel(files, graph, device)

    def timer(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, timeout_s: float
    ) -> Any:
        from autofuse.machines.npu.timer import NpuTimer

        return NpuTimer(files, graph, device, timeout_s)


MACHINE = _Npu()
