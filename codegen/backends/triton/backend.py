"""The Triton backend: its stages, from a HintGraph to the file of its kernels.

====== ============================================ ===================================================
stage  what                                         module
====== ============================================ ===================================================
plan   kernels, their blocks, scratch between them  autofuse.codegen.backends.triton.plan
emit   the text of the file                         autofuse.codegen.backends.triton.text.wrapper
====== ============================================ ===================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autofuse.codegen.backends.interface import Backend, Capabilities, Job, Stage
from autofuse.codegen.backends.triton.call import Call
from autofuse.codegen.backends.triton.kernels import Program
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.signature import entry_point
from autofuse.codegen.backends.triton.text.wrapper import file_text
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.targets import GpuTarget

__all__ = ["BACKEND", "Triton", "entry_point"]

#: The entry ``plain`` lets Triton itself launch the kernels, as the operators of FlagGems do.
_CAN = Capabilities(("launch", "plain"), queues=False, plans=GpuTarget, masks=True, tuning=Tuning)


@dataclass(frozen=True, slots=True)
class Triton(Backend):
    """Emit kernels in Triton, and a function on PyTorch tensors.

    Attributes:
        tuning: block sizes of its kernels; None for the rules' choice.
        call: parameters of the function in a ``plain`` module; None for the inputs of the graph.
    """

    name: str = "triton"
    capabilities: Capabilities = _CAN
    tuning: Tuning | None = None
    call: Call | None = None

    def tuned(self, tuning: Tuning) -> Backend:
        """Return the backend with block sizes for its kernels."""
        return replace(self, tuning=tuning)

    def stages(self, job: Job) -> Sequence[Stage]:
        """Return the stages of the table above."""
        target = job.aimed(GpuTarget)
        return (
            ("plan", lambda hint: plan(job.graph, hint, target, self.tuning)),
            ("emit", lambda program: {f"{job.graph.name}_triton.py": self._text(job, program)}),
        )

    def _text(self, job: Job, program: Program) -> str:
        return file_text(program, plain=job.entry == "plain", call=self.call)


BACKEND = Triton()
