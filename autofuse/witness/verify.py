"""Does a kernel of Ascend C compute on a card what its graph means?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.twin.run.worker import WorkerPool
from autofuse.twin.verify.verify import VerifyReport, unpack, verify_in_subprocess, verify_made
from autofuse.witness.kernel import CudaKernel, runs_on_cards
from autofuse.witness.nvcc import find_nvcc

__all__ = ["verify_ascend", "verify_here", "verify_job"]

_JOB = "autofuse.witness.verify:verify_job"


def verify_ascend(
    files: Mapping[str, str], graph: FusionGraph, *, device: str, **options: Any
) -> VerifyReport:
    """Run every tiling key on random data in a worker process, and compare every element with the reference.

    Args:
        files: what was generated: path inside the output folder -> text.
        graph: what it was generated from.
        device: ``cuda`` or ``cuda:N``.
        **options: ``bindings``, ``count``, ``seed`` and ``special``, as for :func:`verify_here`.

    Returns:
        The report; a wrong kernel, and one that fails or does not end, is a finding in it.

    Raises:
        AutofuseError: AF5001, nvcc, the driver or the card are missing; AF5002, the kernel does not compile; AF5007, it
            is none that a card runs.
    """
    runs_on_cards(files, graph)
    find_nvcc()
    # The driver of a card reserves more addresses than there is memory.
    with WorkerPool(_JOB, workers=1, memory_mb=0) as pool:
        return verify_in_subprocess(files, graph, pool=pool, device=device, **options)


def verify_job(payload: str) -> dict[str, Any]:
    """:func:`verify_here` in a worker."""
    files, graph, options = unpack(payload)
    return verify_here(files, graph, **options).to_json()


def verify_here(
    files: Mapping[str, str],
    graph: FusionGraph,
    *,
    device: str,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 6,
    seed: int = 0,
    special: bool = False,
) -> VerifyReport:
    """The same in this process, which has to be a worker: a kernel that fails takes the card from it.

    Args:
        files: as for :func:`verify_ascend`.
        graph: as there.
        device: as there.
        bindings: sizes to try; None: those of ``shapes_for``.
        count: number of sizes to try when none are given.
        seed: of sizes and data.
        special: mix infinities, NaN and subnormal numbers into the data.

    Raises:
        AutofuseError: as there.
    """
    return verify_made(
        lambda: CudaKernel(files, graph, device),
        bindings=bindings,
        count=count,
        seed=seed,
        special=special,
    )
