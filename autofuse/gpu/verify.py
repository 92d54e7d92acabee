"""Does a module of Triton kernels compute what its graph means?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autofuse.gpu.loading import (
    CPU,
    INTERPRETED_ELEMENTS,
    checked_device,
    load_here,
    memory_limit,
)
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.twin.oracle.sizes import shapes_for
from autofuse.twin.run.worker import WorkerPool
from autofuse.twin.verify.verify import VerifyReport, unpack, verify_in_subprocess, verify_made

__all__ = ["verify_here", "verify_job", "verify_triton"]

_JOB = "autofuse.gpu.verify:verify_job"


def verify_triton(
    files: Mapping[str, str], graph: FusionGraph, *, device: str = CPU, **options: Any
) -> VerifyReport:
    """Run the kernels on random data in a worker process, and compare every element with the reference.

    Args:
        files: what was generated: path inside the output folder -> text.
        graph: what it was generated from.
        device: ``cpu``, Triton's interpreter; ``cuda`` or ``cuda:N``, a card.
        **options: ``bindings``, ``count``, ``seed`` and ``special``, as for :func:`verify_here`.

    Returns:
        The report; a wrong kernel, and one that crashes or loops, is a finding in it.

    Raises:
        AutofuseError: AF5001, PyTorch, Triton or the card are missing; AF5002, the module cannot be imported; AF5007,
            there is no such device.
    """
    options["device"] = checked_device(device)
    with WorkerPool(_JOB, workers=1, memory_mb=memory_limit(device)) as pool:
        return verify_in_subprocess(files, graph, pool=pool, **options)


def verify_job(payload: str) -> dict[str, Any]:
    """:func:`verify_here` in a worker."""
    files, graph, options = unpack(payload)
    return verify_here(files, graph, **options).to_json()


def verify_here(
    files: Mapping[str, str],
    graph: FusionGraph,
    *,
    device: str = CPU,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 6,
    seed: int = 0,
    special: bool = False,
) -> VerifyReport:
    """The same in this process, which has to be a worker.

    Args:
        files: as for :func:`verify_triton`.
        graph: as there.
        device: as there.
        bindings: sizes to try; None: those of ``shapes_for``, small ones for the interpreter.
        count: number of sizes to try when none are given.
        seed: of sizes and data.
        special: mix infinities, NaN and subnormal numbers into the data.

    Raises:
        AutofuseError: as there.
    """
    if bindings is None and device == CPU:
        bindings = shapes_for(graph, count, seed, max_elements=INTERPRETED_ELEMENTS)
    return verify_made(
        lambda: load_here(files, graph, device),
        bindings=bindings,
        count=count,
        seed=seed,
        special=special,
        keys=(),
    )
