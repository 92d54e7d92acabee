"""Results that vector calls read while they are stored, on the CPU twin: their bytes are not written again yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.codegen.passes import barriers
from autofuse.codegen.verification import verify_schedule

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


@pytest.fixture
def in_turns() -> dict[str, Any]:
    """Two results of one group take turns in a queue."""
    shapes = {n: ("int32", ["n", 2]) for n in "xyz"}
    nodes = [
        ("a", "Neg", ["x"]),
        ("b", "Mul", ["y", "y"]),
        ("c", "Mul", ["b", "a"]),
        ("w", "Concat", ["x", "a", "y", "b", "c", "z"], {"axis": 1}),
    ]
    return graph(shapes, nodes, outputs=["w", "a"], n={"min": 1, "max": 1 << 20})


def test_results_that_take_turns_in_a_queue(in_turns):
    check(in_turns)


def test_a_barrier_that_is_missing_there_is_found(in_turns, monkeypatch):
    monkeypatch.setattr(barriers, "_turns", lambda body: {})
    built = api.build(in_turns)
    (found, *_) = verify_schedule(built.graph, built.schedule, built.target)
    assert "without waiting for the vector call" in found.message


@pytest.mark.parametrize("rows", [240, 241])
def test_a_result_in_the_buffer_of_its_load(rows):
    """Every core has several tiles: the next load waits for the sum of squares, too."""
    nodes = [
        ("y", "Mul", ["x", "s"]),
        ("q", "Mul", ["y", "y"]),
        ("r", "ReduceSum", ["q"], {"axes": (1,)}),
    ]
    inputs = {"x": ("float32", [rows, 12_288]), "s": ("float32", [1])}
    built = check(graph(inputs, nodes, outputs=["y", "r"]))
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    assert any(n.over is not None for i in impls for n in i.nodes)
