"""Graphs as Triton kernels in Triton's interpreter, compared with NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import draws

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import verify_in_subprocess

__all__ = ["TARGET", "assert_right", "found_wrong", "small"]

TARGET = "nvidia-h100"
#: Elements of the largest tensor: a program of the interpreter takes a millisecond or more.
ELEMENTS = 1 << 12


def found_wrong(
    pool: WorkerPool,
    graph: api.GraphLike,
    *,
    bindings: Sequence[Mapping[str, int]] | None = None,
    count: int = 4,
    seed: int = 0,
    special: bool = False,
    tuning: Tuning | None = None,
    target: str = TARGET,
    **options: Any,
) -> str:
    """What is wrong with the kernels of a graph; empty if nothing is.

    Args:
        pool: workers that run ``autofuse.machines.machine:verify_job``.
        graph: what is built.
        bindings: sizes of the symbols; None: ``count`` of ``shapes_for``, of tensors of up to ``ELEMENTS`` elements.
        count: as above.
        seed: of sizes and data.
        special: with infinities, NaN and subnormal numbers.
        tuning: blocks in place of those that the rules choose.
        target: what they are built for.
        **options: of the job.
    """
    try:
        built = api.build(graph, target=target, tuning=tuning)
        if bindings is None:
            bindings = shapes_for(built.graph, count, seed, max_elements=ELEMENTS)
        report = verify_in_subprocess(
            built.files,
            built.graph,
            pool=pool,
            bindings=bindings,
            seed=seed,
            special=special,
            **options,
        )
    except AutofuseError as e:
        return str(e)
    return "" if report.ok else "\n".join(map(str, report.diagnostics)) or "nothing ran"


def assert_right(
    pool: WorkerPool,
    graph: api.GraphLike,
    bindings: Sequence[Mapping[str, int]] | None = None,
    *,
    special: bool = False,
) -> None:
    """The kernels of a graph compute what it says, with fresh data."""
    seed = draws.seed()
    wrong = found_wrong(pool, graph, bindings=bindings, seed=seed, special=special)
    assert not wrong, f"seed {seed}: {wrong}"


def small(graph: FusionGraph, most: int = ELEMENTS) -> FusionGraph:
    """A graph of known sizes whose tensors have no more than ``most`` elements; others as they are."""
    too_large = not graph.symbols and largest_tensor(graph, {}) > most
    return shrink(graph, most) if too_large else graph
