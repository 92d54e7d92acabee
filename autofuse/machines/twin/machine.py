"""Kernels of Ascend C on the CPU twin.

The other machines inherit from ``Machine``, which uses this package to compare kernels; so this one does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.compile import compile_kernel, twin_files
from autofuse.machines.twin.run.compiler import toolchain
from autofuse.machines.twin.run.kernel import TwinKernel, chip_of, needs_launcher
from autofuse.machines.twin.verify.split import load_split, read_parts, verify_split
from autofuse.machines.twin.verify.verify import VerifyReport, verify_kernel
from autofuse.machines.words import CPU
from autofuse.targets import Target

__all__ = ["MACHINE"]


class _Twin:
    backend = "ascendc"
    options = frozenset({"check", "check_seed", "html", "key", "opt", "trace"})
    keys = None

    def wrote(self, files: Mapping[str, str], graph: FusionGraph) -> bool:
        return True

    def takes(self, device: str) -> bool:
        return True

    def needs(self, device: str, target: Target | None = None) -> None:
        _only_here(device)
        toolchain()
        twin_files()

    def most_elements(self, device: str) -> int | None:
        return None

    def load(
        self,
        files: Mapping[str, str],
        graph: FusionGraph,
        device: str,
        *,
        check: str = "fast",
        check_seed: int = 0,
        **options: Any,
    ) -> TwinKernel:
        _only_here(device)
        parts = read_parts(files, graph.name)
        needs_launcher(graph, files)
        if parts:
            return load_split(files, graph, parts, check=check, check_seed=check_seed)
        library = compile_kernel(files, graph.name, checked=check == "all")
        chip = chip_of(files, graph.name)
        return TwinKernel(library, graph, check=check, check_seed=check_seed, chip=chip)

    def open(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> Any:
        return self.load(files, graph, device, **options)

    def verify_here(
        self, files: Mapping[str, str], graph: FusionGraph, device: str, **options: Any
    ) -> VerifyReport:
        _only_here(device)
        needs_launcher(graph, files)
        parts = read_parts(files, graph.name)
        if parts:
            return verify_split(files, graph, parts, **options)
        return verify_kernel(files, graph, **options)

    def label(self, device: str) -> str:
        return "the CPU twin"


def _only_here(device: str) -> None:
    if device != CPU:
        text = f"Ascend C kernels run on the CPU twin, not on {device}"
        raise AutofuseError.of("AF5007", text, hint="-t nvidia-h100 writes kernels for a card")


MACHINE = _Twin()
