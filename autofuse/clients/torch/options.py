"""Options of ``torch.compile(..., backend="autofuse", options={...})``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.targets import find_target

__all__ = ["FALLBACKS", "Options"]

FALLBACKS = ("eager", "error")
CHOICES = ("model", "measure", "all")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the backend.

    Attributes:
        target: the chip or GPU to build kernels for, see ``autofuse targets``; empty: the tensors' own card on
            ``cuda``, C++ loops on ``cpu``, ``ascend910b1`` otherwise.
        fallback: ``eager``: PyTorch runs what the library refuses, with the reason in the report; ``error``: raise
            AutofuseError.  An op that is not in the table of ops always stays with PyTorch.
        min_ops: minimum compute ops in a kernel; smaller regions stay with PyTorch.
        max_ops: maximum compute or copy ops in a kernel; larger regions are cut where the least data crosses.
        opt: optimisation level of kernels for the CPU twin, ``-O0`` to ``-O3``; empty: AUTOFUSE_OPT.
        threads: number of threads over which the twin distributes the cores of a kernel; 0: AUTOFUSE_THREADS.
        report: print the report of every graph after compilation, as AUTOFUSE_REPORT=1 does.
        choose: inside Inductor, ``model``: regions for which measured ratios promise a gain; ``all``: every region;
            ``measure``: regions that were faster when both ways were timed on the device, once, with the ops around
            them; by ``model`` where that is not possible.
        inductor: Inductor calls Ascend C kernels too, as operators: that of torch_npu for tensors on ``npu``, and
            PyTorch's for tensors on ``cpu``, where the twin runs them.  It always calls C++ loops and Triton kernels.
    """

    target: str = ""
    fallback: str = "eager"
    min_ops: int = 2
    max_ops: int = 64
    opt: str = ""
    threads: int = 0
    report: bool = False
    choose: str = "model"
    inductor: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Return the options of a call.

        Raises:
            AutofuseError: AF5007 an option is unknown or has a wrong value, AF5006 the target is unknown.
        """
        known = {f.name: f for f in fields(cls)}
        for name, value in (given or {}).items():
            if name not in known:
                raise AutofuseError.of(
                    "AF5007",
                    f"the autofuse backend has no option {name!r}",
                    hint=f"its options are: {', '.join(known)}",
                )
            wanted = type(known[name].default)
            if type(value) is not wanted:
                text = f"the option {name!r} is {value!r}; it must be of type {wanted.__name__}"
                raise AutofuseError.of("AF5007", text)
        found = cls(**dict(given or {}))
        found._check()
        return found

    def _check(self) -> None:
        if self.target:
            find_target(self.target)
        for name, known in (("fallback", FALLBACKS), ("choose", CHOICES)):
            if (given := getattr(self, name)) not in known:
                text = f"the option {name!r} is {given!r}"
                raise AutofuseError.of("AF5007", text, hint=f"write one of: {', '.join(known)}")
        if self.opt not in ("", "-O0", "-O1", "-O2", "-O3"):
            raise AutofuseError.of(
                "AF5007", f"the option 'opt' is {self.opt!r}", hint="write -O0, -O1, -O2 or -O3"
            )
        for name, least in (("min_ops", 1), ("max_ops", 1), ("threads", 0)):
            if getattr(self, name) < least:
                raise AutofuseError.of(
                    "AF5007", f"the option {name!r} is {getattr(self, name)}; at least {least}"
                )
