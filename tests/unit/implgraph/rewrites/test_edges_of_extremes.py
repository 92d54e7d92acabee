"""Places and values of extremes at the ends of every dtype, in the rewritten graph and in the oracle, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from edge_numbers import FLOATS, INTEGERS, edges, place_of, rows_with_edges
from lowering_checks import graph

from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.machines.twin.oracle.oracle import evaluate

COLUMNS = 21


def results(g: Any, x: Any) -> dict[str, list[Any]]:
    """The outputs of a graph of one input, by the passes' IR and by the oracle, each in the shape of the output."""
    want = [r.value for r in evaluate(g, {"x": x}, {}).values()]
    made = interpret(canonicalise(lower(g)), [x.ravel()])
    return {
        "lowered": [m.reshape(w.shape) for m, w in zip(made, want, strict=True)],
        "oracle": want,
    }


def rows_of(name: str) -> Any:
    if name in FLOATS:
        return rows_with_edges(name, COLUMNS)
    values = edges(name) if name in ("int32", "uint32", "int64", "uint64") else edges(name)[::97]
    low, high = np.iinfo(name).min, np.iinfo(name).max
    x = np.random.default_rng(1).choice(values, (12, COLUMNS))
    x[:6] = 0
    x[0, 5] = x[1, -1] = x[2, 0] = x[2, 7] = low
    x[3, 5] = x[4, -1] = x[5, 0] = x[5, 7] = high
    return x


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_the_first_of_the_extremes_or_the_first_nan_is_found(name: str) -> None:
    """ArgMax and ArgMin along either axis, with places of either dtype, find what a search in float64 finds."""
    x = rows_of(name)
    cases = [(op, axis) for op in ("ArgMax", "ArgMin") for axis in (0, 1)]
    nodes = [
        (f"t{k}", op, ["x"], {"axis": axis, "dtype": ("int32", "int64")[k % 2]})
        for k, (op, axis) in enumerate(cases)
    ]
    g = graph({"x": (x.shape, name)}, nodes, [n[0] for n in nodes])
    for how, found in results(g, x).items():
        for (op, axis), got in zip(cases, found, strict=True):
            want = exact_place(op, x, axis) if name in INTEGERS else place_of(op, x, axis)
            np.testing.assert_array_equal(got, want, err_msg=f"{how} {op} along {axis}")


def exact_place(op: str, x: Any, axis: int) -> Any:
    """Places among integers, of which float64 holds not all: Python compares them."""
    lines = np.moveaxis(x, axis, -1).tolist()
    pick = max if op == "ArgMax" else min
    return np.array([line.index(pick(line)) for line in lines])


@pytest.mark.parametrize("name", FLOATS)
def test_nan_and_infinities_are_extremes(name: str) -> None:
    """ReduceMax and ReduceMin give NaN where there is one, and else what NumPy gives in float64."""
    x = rows_of(name)
    cases = [(op, axis) for op in ("ReduceMax", "ReduceMin") for axis in (0, 1)]
    nodes = [(f"t{k}", op, ["x"], {"axes": (axis,)}) for k, (op, axis) in enumerate(cases)]
    g = graph({"x": (x.shape, name)}, nodes, [n[0] for n in nodes])
    for how, found in results(g, x).items():
        for (op, axis), got in zip(cases, found, strict=True):
            pick = np.max if op == "ReduceMax" else np.min
            want = pick(x.astype(np.float64), axis)
            np.testing.assert_array_equal(
                got.astype(np.float64), want, err_msg=f"{how} {op} along {axis}"
            )
