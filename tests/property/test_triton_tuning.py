"""Blocks of a tuning file, drawn at random, give right results, and are what is launched."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import draws
import pytest
from triton_checks import found_wrong
from triton_graphs import MOVES, REDUCTIONS, SUMS
from triton_tunings import random_tuning

from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.triton

#: Rows and columns: primes, tails, one.
SIZES = ((5, 37), (1, 64), (19, 3), (3, 1))
#: Rows that are cut into chunks, of graphs that have no more than a reduction of them.
LONG = {"sum": (2, 9001), "least": (1, 4099)}


@pytest.mark.parametrize("what", [*REDUCTIONS, *SUMS, *MOVES])
def test_random_blocks(interpreter: WorkerPool, what: str) -> None:
    seed = draws.seed()
    rng = Random(seed)
    made: Callable[..., dict[str, Any]] = {**REDUCTIONS, **SUMS, **MOVES}[what]
    for size in (*rng.sample(SIZES, 2), *([LONG[what]] if what in LONG else [])):
        graph = made(*size)
        tuning, program = random_tuning(rng, graph)
        assert tuning.kernels
        for k in tuning.kernels:
            blocks = next(p.blocks for p in program.kernels if p.name == k.name)
            assert {key: getattr(blocks, key) for key in k.sizes} == dict(k.sizes)
        wrong = found_wrong(interpreter, graph, seed=seed, tuning=tuning)
        assert not wrong, f"seed {seed}: {tuning.text()}{wrong}"
