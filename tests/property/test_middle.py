"""Graphs of ops of all families end in kernels or in a diagnostic; ``benchmarks/fuzzing/middle.py`` tries many more.

What a graph takes is not looked at here: other work on the machine counts as well.
"""

from __future__ import annotations

from random import Random

import mixed_graphs
import pytest
from extras import needs
from op_steps import OPS, add_op
from storm_maker import DTYPES, Maker

from autofuse.implgraph.ops.registry import all_ops

CASES = {"graph": 12, "onnx": 4, "torch": 2}
MARKS = {"graph": (), "onnx": needs("onnx"), "torch": needs("torch")}


@pytest.mark.parametrize(
    ("kind", "number"),
    [pytest.param(k, n, marks=MARKS[k]) for k, most in CASES.items() for n in range(most)],
)
def test_no_graph_ends_in_an_internal_error(kind: str, number: int) -> None:
    rng = Random(f"{kind} test {number}")
    case = mixed_graphs.tried(kind, rng, mixed_graphs.size_of(rng, 60))
    assert case.status != "failed", case.reason


#: What long runs have found: kind, seed and number of the case.
FOUND = [
    # AF9001: a tensor that was stored for nobody was computed for the group itself as well, which then loaded it.
    pytest.param("torch", 1, 7, marks=MARKS["torch"]),
]


@pytest.mark.parametrize(("kind", "seed", "number"), FOUND)
def test_what_was_found(kind: str, seed: int, number: int) -> None:
    rng = Random(f"{kind} {seed} {number}")
    case = mixed_graphs.tried(kind, rng, mixed_graphs.size_of(rng))
    assert case.status != "failed", case.reason


@pytest.mark.parametrize("op", OPS)
def test_every_op_is_drawn(op: str) -> None:
    """For some type and shape, with and without a dimension of 1."""

    def made(dtype: str, shape: tuple[int, ...]) -> str | None:
        m = Maker(Random(op))
        return add_op(m, op, m.input(dtype, shape))

    assert any(made(d, s) for d in DTYPES for s in ((4, 6), (1, 6)))


def test_ops_are_those_that_users_write() -> None:
    assert list(OPS) == [row.name for row in all_ops(user=True)]
