"""Rows that are computed whole, with a mask where a frame of constants is, on the CPU twin."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.implgraph.lowering import lowering
from autofuse.implgraph.rewrites import frames

pytestmark = pytest.mark.twin

Nodes = list[tuple[Any, ...]]


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template(), pytest.MonkeyPatch.context() as m:
        # Also where columns of the frame as groups of their own would be faster.
        m.setattr(lowering, "decompose", functools.partial(lowering.decompose, frames=True))
        m.setattr(frames, "FEW_ROWS", 6)
        yield


def selects(built: api.BuildResult) -> int:
    """Groups with a mask."""
    impls = [g.impls[0] for g in built.schedule[0].groups]
    return sum(any(n.op.startswith(("Select", "Iota")) for n in i.nodes) for i in impls)


def pad(y: str, x: str, low: list[int], high: list[int], value: float = 0.0) -> tuple[Any, ...]:
    return (y, "Pad", [x], {"low": low, "high": high, "value": value})


def part(y: str, starts: list[int], shape: list[int]) -> tuple[Any, ...]:
    return (y, "Slice", ["x"], {"starts": starts, "shape": shape, "steps": [1] * len(shape)})


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 2)])
def test_pads(dtype, low, high):
    nodes = [("e", "Abs", ["x"]), pad("p", "e", [0, 1, low], [0, 0, high], 2.0)]
    nodes.append(("y", "Add", ["p", "p"]))
    assert selects(check(graph({"x": (dtype, (3, 9, 13))}, nodes)))


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("shape", [(2, 5, 9), (1, 7, 40), (33, 3, 3)], ids=str)
def test_gradient_of_differences(shape, seed):
    """Of the columns and rows of an image, as total variation has them."""
    n, h, w = shape
    nodes: Nodes = [
        part("a", [0, 0, 1], [n, h, w - 1]),
        part("b", [0, 0, 0], [n, h, w - 1]),
        ("c", "Sub", ["a", "b"]),
        ("d", "Sign", ["c"]),
        ("e", "Neg", ["d"]),
        pad("f", "d", [0, 0, 1], [0, 0, 0]),
        pad("g", "e", [0, 0, 0], [0, 0, 1]),
        ("h", "Add", ["f", "g"]),
        part("i", [0, 1, 0], [n, h - 1, w]),
        part("j", [0, 0, 0], [n, h - 1, w]),
        ("k", "Sub", ["i", "j"]),
        pad("l", "k", [0, 1, 0], [0, 0, 0]),
        pad("m", "k", [0, 0, 0], [0, 1, 0]),
        ("o", "Sub", ["l", "m"]),
        ("y", "Add", ["h", "o"]),
    ]
    check(graph({"x": ("float32", shape)}, nodes), check_seed=seed)


def test_a_frame_on_both_sides_of_the_rows():
    nodes: Nodes = [
        ("e", "Exp", ["x"]),
        pad("p", "e", [0, 1, 1], [0, 1, 1], 1.0),
        pad("q", "p", [0, 0, 2], [0, 0, 0], -1.0),
        ("y", "Neg", ["q"]),
    ]
    check(graph({"x": ("float32", (4, 6, 30))}, nodes))


def test_what_is_not_a_number_stays_outside():
    """A mask takes the constant whatever is in memory beside a row."""
    nodes: Nodes = [("e", "Ln", ["x"]), ("r", "Rsqrt", ["e"]), pad("y", "r", [0, 1], [0, 1])]
    check(graph({"x": ("float32", (40, 11))}, nodes))


def test_sums_of_framed_rows():
    nodes: Nodes = [pad("p", "x", [0, 0, 1], [0, 0, 0]), ("y", "ReduceSum", ["p"], {"axes": [1]})]
    check(graph({"x": ("float32", (3, 20, 17))}, nodes))
