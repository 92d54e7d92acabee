"""Edges of floats in Triton kernels: every number of 16 bits through ops of one operand, pairs through those of two."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from edge_graphs import calls, graph_of, operands_of, pairs
from edge_numbers import FLOATS, edges

from autofuse import api
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import verify_in_subprocess

pytestmark = pytest.mark.triton

#: Ops per module.
OPS = 24
#: Triton's interpreter, and a card where there is one.
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(
            shutil.which("nvidia-smi") is None, reason="there is no NVIDIA card"
        ),
    ),
]


@pytest.fixture(scope="module", params=DEVICES)
def where(request: pytest.FixtureRequest) -> Iterator[tuple[WorkerPool, str]]:
    """A process that runs the kernels, and the device."""
    if request.param == "cpu":
        yield request.getfixturevalue("interpreter"), "cpu"
        return
    with WorkerPool("autofuse.machines.machine:verify_job", workers=1, memory_mb=0) as pool:
        yield pool, request.param


def wrong(
    where: tuple[WorkerPool, str], arity: int, dtype: str, data: Sequence[np.ndarray]
) -> tuple[int, list[str]]:
    """Return the number of tried ops, and the results that differ from NumPy's."""
    every = list(calls(arity, dtype))
    if where[1] != "cpu":
        # A card's conversions of 16 bits to 32 drop the sign of a NaN.
        data = [np.where(np.isnan(x), x.dtype.type(np.nan), x) for x in data]
    given = {f"x{i}": x for i, x in enumerate(data)}
    found = []
    for start in range(0, len(every), OPS):
        some = every[start : start + OPS]
        built = api.build(
            graph_of(some, operands_of(arity, dtype, data[0].size)), target="nvidia-h100"
        )
        report = verify_in_subprocess(
            built.files, built.graph, pool=where[0], device=where[1], given=given
        )
        (case,) = report.cases
        assert [o.elements for o in case.outputs] == [data[0].size] * len(some)
        for k, out in enumerate(case.outputs):
            if not out.ok:
                at = [float(x[out.first]) for x in data]
                found.append(f"{some[k]}{at} is {out.want}, not {out.got}; {out.wrong} wrong")
        assert report.ok or found, report.diagnostics
    return len(every), found


@pytest.mark.parametrize("dtype", FLOATS)
def test_ops_of_one_operand(where: tuple[WorkerPool, str], dtype: str) -> None:
    tried, found = wrong(where, 1, dtype, [edges(dtype)])
    assert tried > 80
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", FLOATS)
def test_ops_of_two_operands(where: tuple[WorkerPool, str], dtype: str) -> None:
    tried, found = wrong(where, 2, dtype, pairs(dtype))
    assert tried > 20
    assert not found, "\n".join(found)
