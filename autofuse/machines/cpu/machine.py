"""C++ loops on the processor of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.cpu.library import compile_library, source_file
from autofuse.machines.machine import Machine
from autofuse.machines.twin.run.compiler import toolchain
from autofuse.machines.words import CPU
from autofuse.targets import Target

__all__ = ["MACHINE"]


class _Cpu(Machine):
    backend = "cpu"
    options = frozenset({"opt"})
    keys = ()

    def wrote(self, files: Mapping[str, str], graph: FusionGraph) -> bool:
        return source_file(graph) in files

    def needs(self, device: str, target: Target | None = None) -> None:
        if device != CPU:
            text = f"C++ loops run on this machine's CPU, not on {device}"
            hint = "-t nvidia-h100 writes kernels for a card"
            raise AutofuseError.of("AF5007", text, hint=hint)
        toolchain()

    def load(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Any:
        from autofuse.machines.cpu.kernel import CpuKernel

        self.needs(device)
        return CpuKernel(compile_library(files, graph, opt=options.get("opt")), graph)

    def label(self, device: str) -> str:
        return "the CPU"


MACHINE = _Cpu()
