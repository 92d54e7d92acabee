"""Graphs whose Triton kernels were once wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from triton_checks import assert_right
from triton_graphs import graph

from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.triton

F32 = "float32"
LAST, ALL = {"axes": [1], "keepdims": True}, {"axes": [0, 1], "keepdims": True}
IOTA = {"shape": [1, 15, 128], "axis": 0, "dtype": F32}
FORWARD = {"axis": 1, "exclusive": False, "reverse": False}


def strided(shape: Sequence[int | str], strides: Sequence[int], offset: int) -> dict[str, Any]:
    made = graph("strided", [(F32, shape)], [("Exp", ["x0"], {}), ("ReduceSum", ["t0"], LAST)], [])
    made["inputs"][0] |= {"strides": list(strides), "offset": offset}
    made["outputs"] = ["t0", "t1"]
    return made


FOUND: dict[str, dict[str, Any]] = {
    # The tensor that a function is given begins behind the offset, which was added again.
    "an input with an offset": strided(["rows", 33], [40, 1], 5),
    # The text was no Python: a result of one element over a cluster has no index.
    "one row over a cluster": graph(
        "one",
        [(F32, [15, 768])],
        [("Mul", ["x0", 2.0], {}), ("ReduceSum", ["t0"], ALL)],
        ["t0", "t1"],
    ),
    # A KeyError: what is loaded was looked for among the nodes.
    "much in parts, and stored as well": graph(
        "parts",
        [(F32, [1, 40_000])],
        [("Mul", ["x0", 2.0], {}), ("ReduceSum", ["t0"], ALL), ("Sub", ["t0", "t1"], {})],
        ["t2"],
    ),
    # The fourth of four parts has no columns, and counted as one element of 0.
    "variance in parts": graph(
        "moments",
        [(F32, [1, 20_480])],
        [
            ("Add", ["x0", 900.0], {}),
            ("ReduceMean", ["t0"], LAST),
            ("Sub", ["t0", "t1"], {}),
            ("Square", ["t2"], {}),
            ("ReduceMean", ["t3"], LAST),
        ],
        ["t4", "t1"],
    ),
    # Blocks of a cluster told each other integers as float32.
    "integers over a cluster": graph(
        "integers",
        [("int32", [2, 65_536])],
        [("ReduceMin", ["x0"], LAST), ("Sub", ["x0", "t0"], {})],
        ["t1"],
    ),
    # Numbers that stand for a block have no shape.
    "a running sum of a number": graph(
        "sums",
        [(F32, ["rows", 127])],
        [
            ("Broadcast", [2.0], {"shape": ["rows", 127]}),
            ("CumSum", ["t0"], FORWARD),
            ("Add", ["x0", "t1"], {}),
        ],
        ["t2"],
    ),
    "the least of equal numbers": graph(
        "arg", [], [("Iota", [], IOTA), ("ArgMin", ["t0"], {"axis": 2})], ["t1"]
    ),
    # A running sum of short integers is made of longer ones, and has to wrap before it is used.
    "a running sum of short integers": graph(
        "wraps",
        [("int8", ["rows", 115])],
        [("CumSum", ["x0"], FORWARD), ("Maximum", ["t0", 3], {})],
        ["t1"],
    ),
    "a sum of short integers in a loop": graph(
        "wraps",
        [("int16", ["cols"])],
        [
            ("Mul", ["x0", 1000], {}),
            ("ReduceSum", ["t0"], {"axes": [0]}),
            ("Maximum", ["t1", 3], {}),
        ],
        ["t2"],
    ),
    # One kernel had sums over rows beside work on the rows, and none what needs both.
    "sums beside rows, used on the rows": graph(
        "used",
        [(F32, [5, 63]), (F32, [5, 63])],
        [
            ("ReduceSum", ["x0"], LAST),
            ("Add", ["x0", "t0"], {}),
            ("ReduceSum", ["x0"], {"axes": [0]}),
            ("Sub", ["t2", "x1"], {}),
        ],
        ["t3", "t1"],
    ),
    # Triton takes -0.0 for 0.0.
    "minus zero": graph("minus", [(F32, [5, 11])], [("Div", ["x0", -0.0], {})], ["t0"]),
    # A size that is part of a dimension only is given by name.
    "a symbol in a product": graph(
        "product", [(F32, ["4*rows", 5])], [("Exp", ["x0"], {})], ["t0"]
    ),
    # The interpreter made floats of the results of comparisons.
    "a power": graph("power", [(F32, [7]), (F32, [])], [("Pow", ["x0", "x1"], {})], ["t0"]),
}


@pytest.mark.parametrize("what", list(FOUND))
def test_it_is_right(interpreter: WorkerPool, what: str) -> None:
    assert_right(interpreter, FOUND[what])
