"""The backend for CPUs: its stages, from a HintGraph to one C++ file.

====== ============================================ ===================================================
stage  what                                         module
====== ============================================ ===================================================
plan   loops, thread sharing, scratch               autofuse.codegen.backends.cpu.plan
emit   the text of the file                         autofuse.codegen.backends.cpu.file_text
====== ============================================ ===================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofuse.codegen.backends.cpu.cpp_text import entry_point
from autofuse.codegen.backends.cpu.file_text import file_text
from autofuse.codegen.backends.cpu.plan import plan
from autofuse.codegen.backends.interface import Backend, Capabilities, Job, Stage
from autofuse.targets.cpu import CpuTarget

__all__ = ["BACKEND", "Cpu", "entry_point"]

_CAN = Capabilities(("launch",), queues=False, plans=CpuTarget)


@dataclass(frozen=True, slots=True)
class Cpu(Backend):
    """Emit C++ loops with OpenMP, in a function that takes pointers."""

    name: str = "cpu"
    capabilities: Capabilities = _CAN

    def stages(self, job: Job) -> Sequence[Stage]:
        """Return the stages of the table above."""
        target = job.aimed(CpuTarget)
        return (
            ("plan", lambda hint: plan(job.graph, hint, target)),
            ("emit", lambda program: {f"{job.graph.name}.cpp": file_text(program)}),
        )


BACKEND = Cpu()
