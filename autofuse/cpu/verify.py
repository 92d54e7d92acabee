"""Do C++ loops compute what their graph means?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autofuse.cpu.kernel import CpuKernel
from autofuse.cpu.library import compile_library
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.twin.run.worker import WorkerPool
from autofuse.twin.verify.verify import VerifyReport, unpack, verify_in_subprocess, verify_made

__all__ = ["verify_cpu", "verify_here", "verify_job"]

_JOB = "autofuse.cpu.verify:verify_job"


def verify_cpu(files: Mapping[str, str], graph: FusionGraph, **options: Any) -> VerifyReport:
    """Compile the loops, run them on random data in a worker process, compare every element with the reference.

    Args:
        files: what was generated: path inside the output folder -> text.
        graph: what it was generated from.
        **options: ``bindings``, ``count``, ``seed``, ``special`` and ``opt``, as for :func:`verify_here`.

    Returns:
        The report; wrong loops, and ones that crash or do not end, are findings in it.

    Raises:
        AutofuseError: AF5001 no compiler, AF5002 the code does not compile.
    """
    with WorkerPool(_JOB, workers=1) as pool:
        return verify_in_subprocess(files, graph, pool=pool, **options)


def verify_job(payload: str) -> dict[str, Any]:
    """:func:`verify_here` in a worker."""
    files, graph, options = unpack(payload)
    return verify_here(files, graph, **options).to_json()


def verify_here(
    files: Mapping[str, str],
    graph: FusionGraph,
    *,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 6,
    seed: int = 0,
    special: bool = False,
    opt: str | None = None,
) -> VerifyReport:
    """The same in this process.

    Args:
        files: as for :func:`verify_cpu`.
        graph: as there.
        bindings: sizes to try; None: those of ``shapes_for``.
        count: number of sizes to try when none are given.
        seed: of sizes and data.
        special: mix infinities, NaN and subnormal numbers into the data.
        opt: as for ``compile_library``.

    Raises:
        AutofuseError: as there.
    """
    return verify_made(
        lambda: CpuKernel(compile_library(files, graph, opt=opt), graph),
        bindings=bindings,
        count=count,
        seed=seed,
        special=special,
        keys=(),
    )
