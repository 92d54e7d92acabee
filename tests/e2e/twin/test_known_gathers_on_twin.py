"""Rolls, borders, reversals and repetitions that are written as an index, on the CPU twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from twin_graphs import check, every_template, graph

pytestmark = pytest.mark.twin

Nodes = list[tuple[Any, ...]]


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def line(k: int, size: int, start: int = 0, step: int = 1) -> tuple[Any, ...]:
    attrs = {"shape": [size], "axis": 0, "dtype": "int64", "start": start, "step": step}
    return (f"i{k}", "Iota", [], attrs)


def roll(k: int, n: int) -> Nodes:
    return [line(k, n), (f"a{k}", "Add", [f"i{k}", n - 3]), (f"at{k}", "Fmod", [f"a{k}", n])]


def reflect(k: int, n: int) -> Nodes:
    return [
        line(k, n + 3, -1),
        (f"a{k}", "Abs", [f"i{k}"]),
        (f"b{k}", "Sub", [n - 1, f"a{k}"]),
        (f"c{k}", "Abs", [f"b{k}"]),
        (f"at{k}", "Sub", [n - 1, f"c{k}"]),
    ]


def replicate(k: int, n: int) -> Nodes:
    return [
        line(k, n + 4, -3),
        (f"a{k}", "Maximum", [f"i{k}", 0]),
        (f"at{k}", "Minimum", [f"a{k}", n - 1]),
    ]


def twice(k: int, n: int) -> Nodes:
    return [line(k, 2 * n), (f"at{k}", "FloorDiv", [f"i{k}", 2])]


def turn(k: int, n: int) -> Nodes:
    return [line(k, n, n - 1, -1), (f"at{k}", "Identity", [f"i{k}"])]


def moved(shape: Sequence[int], how: Sequence[tuple[int, Any]], dtype: str) -> dict[str, Any]:
    """Gathers along these axes, and two outputs of what they give."""
    nodes: Nodes = [("e", "Neg", ["x"])]
    last = "e"
    for k, (axis, index) in enumerate(how):
        nodes += index(k, shape[axis])
        nodes.append((f"g{k}", "Gather", [last, f"at{k}"], {"axis": axis}))
        last = f"g{k}"
    nodes += [("y", "Relu", [last]), ("z", "LessEqual", ["y", 0.0])]
    return graph({"x": (dtype, shape)}, nodes, ["y", "z"])


@pytest.mark.parametrize("index", [roll, reflect, replicate, twice, turn])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_and_columns(index, dtype):
    check(moved((3, 7, 9), [(1, index), (2, index)], dtype))


def test_rows_alone_and_more_of_them():
    check(moved((37, 130), [(0, reflect)], "float32"))
    check(moved((5, 6, 40), [(0, turn), (1, roll), (2, replicate)], "float32"))


def test_pieces_of_two_outputs_are_computed_together():
    built = check(moved((4, 7, 40), [(2, roll)], "float32"))
    stores = [
        {sum(n.op == "Store" for n in i.nodes) for i in g.impls} for g in built.schedule[0].groups
    ]
    assert stores == [{2}, {2}]


def test_rows_of_a_symbol():
    nodes = [*roll(0, 9), ("y", "Gather", ["x", "at0"], {"axis": 1})]
    check(graph({"x": ("float32", ("n", 9, 12))}, nodes, n={"min": 1, "max": 4096}))
