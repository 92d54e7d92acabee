"""Rows beyond UB that share what is loaded, as the scale of a layer norm: tiles of several rows, on the CPU twin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from row_statistics import NORM, SOFTMAX, along, statistics
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.schedule.templates.reduce import MANY, SOME, rows_in_tile

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def layer_norm(shape: tuple[Any, ...], dtype: str = "float32", **symbols: Any) -> dict[str, Any]:
    """Of the last axis, with a scale and a shift that all rows share."""
    inputs = {
        "x": (dtype, shape),
        "scale": (dtype, shape[-1:]),
        "shift": (dtype, shape[-1:]),
    }
    nodes = [
        *along(NORM[:-1], [-1]),
        ("n", "Mul", ["d", "r"]),
        ("p", "Mul", ["n", "scale"]),
        ("y", "Add", ["p", "shift"]),
    ]
    return graph(inputs, nodes, **symbols)


def of_rows(built: api.BuildResult) -> list[str]:
    """The templates with tiles of several rows."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    return [i.suffix for i in impls if i.suffix.startswith("rows_")]


@pytest.mark.parametrize(
    ("rows", "count"),
    [(None, SOME), (0, 1), (1, 1), (48, 1), (49, 2), (96, 2), (97, 2), (1000, MANY)],
)
def test_every_core_has_rows(rows, count):
    assert rows_in_tile(rows, 48) == count


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("shape", [(97, 700), (129, 512), (3, 40, 333)], ids=str)
def test_layer_norm(shape, seed):
    assert of_rows(check(layer_norm(shape), 9000, check_seed=seed))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(dtype):
    assert of_rows(check(layer_norm((101, 999), dtype), 12000))


def test_a_row_that_is_added_before_a_softmax():
    nodes = [("x", "Add", ["a", "b"]), *SOFTMAX]
    inputs = {"a": ("float32", (97, 1001)), "b": ("float32", (1001,))}
    assert of_rows(check(graph(inputs, nodes), 8000))


def test_weighted_sums_of_rows():
    """One pass, whose weights all rows share."""
    nodes = [
        ("p", "Mul", ["x", "w"]),
        ("y", "ReduceSum", ["p"], {"axes": [1], "keepdims": False}),
    ]
    inputs = {"x": ("float32", (130, 2001)), "w": ("float32", (2001,))}
    assert of_rows(check(graph(inputs, nodes), 5000))


def test_rows_that_share_nothing():
    assert not of_rows(check(statistics(SOFTMAX, (97, 1001)), 6000))


def test_sizes_that_are_known_at_run_time():
    ranges = {"s0": {"min": 0, "max": 4096}, "s1": {"min": 0, "max": 1 << 20}}
    document = layer_norm(("s0", "s1"), **ranges)
    sizes = [(3, 5), (0, 4), (2, 9000), (193, 13001), (7, 20011), (1, 60001)]
    built = check(document, bindings=[{"s0": a, "s1": b} for a, b in sizes])
    assert of_rows(built) == [f"rows_{SOME}"]
