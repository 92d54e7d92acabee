"""Tensors with frames of constants as Triton kernels: one kernel reads what is inside with a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from triton_checks import TARGET, assert_right
from triton_graphs import graph

from autofuse import api
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.triton

F32 = "float32"
LAST = {"axes": [1], "keepdims": True}
Node = tuple[str, Sequence[Any], Mapping[str, Any]]


def pad(low: Sequence[int], high: Sequence[int], value: float = 0.0, x: str = "x0") -> Node:
    return ("Pad", [x], {"low": list(low), "high": list(high), "value": value})


def framed(
    shape: Sequence[int | str], *nodes: Node, more: Sequence[Any] = (), dtype: str = F32
) -> dict[str, Any]:
    return graph("framed", [(dtype, shape), *more], nodes, [f"t{len(nodes) - 1}"])


#: Graph, and how many kernels it has.
FRAMES: dict[str, tuple[dict[str, Any], int]] = {
    "two dimensions, and a sum": (
        framed(
            [2, 3, 7, 5],
            pad([0, 0, 1, 1], [0, 0, 1, 1]),
            ("Add", ["t0", "x1"], {}),
            more=[(F32, [2, 3, 9, 7])],
        ),
        1,
    ),
    "unequal sides": (framed([5, 37], pad([0, 3], [2, 1], -1.5), ("Exp", ["t0"], {})), 1),
    "one side": (framed([5, 37], pad([0, 0], [0, 9], 2.0), ("Neg", ["t0"], {})), 1),
    "the outer dimension": (framed([5, 37], pad([2, 0], [1, 0]), ("Neg", ["t0"], {})), 1),
    "a frame that is wider than the tensor": (
        framed([3, 4], pad([5, 11], [7, 2], 3.0), ("Exp", ["t0"], {})),
        1,
    ),
    "three dimensions of 64-bit integers": (
        framed([3, 4, 5], pad([1, 2, 1], [1, 0, 3], 7.0), ("Neg", ["t0"], {}), dtype="int64"),
        1,
    ),
    "bool": (framed([3, 40], pad([1, 2], [1, 0], 1.0), dtype="bool"), 1),
    "float16": (framed([3, 40], pad([1, 2], [1, 0], 1.0), ("Exp", ["t0"], {}), dtype="float16"), 1),
    "what is computed": (
        framed(
            [4, 19],
            ("Exp", ["x0"], {}),
            pad([1, 1], [1, 1], x="t0"),
            ("Mul", ["t1", "x1"], {}),
            more=[(F32, [6, 21])],
        ),
        1,
    ),
    "a sum over rows with frames": (
        framed([4, 19], pad([0, 2], [0, 2], 0.5), ("ReduceSum", ["t0"], LAST)),
        1,
    ),
    "a frame of a frame of another value": (
        framed(
            [4, 19], pad([1, 1], [1, 1], 1.0), pad([1, 0], [0, 2], 2.0, "t0"), ("Exp", ["t1"], {})
        ),
        1,
    ),
    "a transposed tensor": (
        framed([4, 19], ("Transpose", ["x0"], {"perm": [1, 0]}), pad([1, 2], [3, 0], x="t0")),
        1,
    ),
    "backwards": (
        framed(
            [4, 19],
            pad([1, 2], [3, 1], 4.0),
            ("Slice", ["t0"], {"starts": [7, 20], "shape": [8, 21], "steps": [-1, -1]}),
        ),
        0,
    ),
    "sizes that are not known": (
        framed(["rows", "cols", 6], pad([0, 0, 1], [0, 0, 1], 1.0), ("Exp", ["t0"], {})),
        1,
    ),
    "a constant beside a tensor": (
        framed(
            [3, 20],
            ("Broadcast", [1.0], {"shape": [3, 4]}),
            ("Concat", ["t0", "x0"], {"axis": 1}),
            ("Neg", ["t1"], {}),
        ),
        1,
    ),
}


def kernels(made: dict[str, Any]) -> int:
    return api.build(made, target=TARGET).files["framed_triton.py"].count("@Launcher")


@pytest.mark.parametrize("what", FRAMES)
def test_frames(interpreter: WorkerPool, what: str) -> None:
    made, count = FRAMES[what]
    assert_right(interpreter, made)
    assert not count or kernels(made) == count


@pytest.mark.parametrize(
    "nodes",
    [
        [("Softmax", ["x0"], {"axis": 1}), pad([0, 1], [0, 1], x="t0")],
        [
            ("CumSum", ["x0"], {"axis": 1, "exclusive": False, "reverse": False}),
            pad([0, 1], [0, 0], x="t0"),
        ],
    ],
    ids=["softmax", "running sum"],
)
def test_what_is_reduced_is_stored_where_it_belongs(
    interpreter: WorkerPool, nodes: list[Node]
) -> None:
    """Not computed, stored and read again."""
    made = framed([5, 37], *nodes)
    assert_right(interpreter, made)
    assert "scratch" not in api.build(made, target=TARGET).files["framed_triton.py"]


def test_an_input_with_gaps(interpreter: WorkerPool) -> None:
    """What is beside its rows belongs to somebody else."""
    made = framed([4, 19], pad([1, 2], [3, 1]), ("Exp", ["t0"], {}))
    made["inputs"][0] |= {"strides": [31, 1], "offset": 3}
    assert_right(interpreter, made)
