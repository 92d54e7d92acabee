"""Bools of other bytes than 0 and 1: every byte but 0 is true, and what a kernel writes is 0 or 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autofuse import api

pytestmark = pytest.mark.twin

TARGETS = [
    "ascend910b1",
    "ascend950pr",
    "ascend310p",
    "cpu",
    pytest.param("nvidia-h100", marks=pytest.mark.triton),
]
ROWS, COLS = 5, 64


def bytes_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.choice(np.array([0, 0, 0, 1, 2, 127, 128, 254, 255], np.uint8), (ROWS, COLS))


M, O = bytes_of(1), bytes_of(2)  # noqa: E741
#: As truths, by NumPy's comparison of numbers.
T, U = M != 0, O != 0
X = np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS)
DTYPES = {
    **{n: np.dtype(n) for n in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")},
    **{n: np.dtype(n) for n in ("uint64", "float16", "float32")},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}


def node(op: str, *inputs: Any, **attrs: Any) -> dict[str, Any]:
    return {"op": op, "inputs": list(inputs), "attrs": attrs}


def count(axis: int) -> list[dict[str, Any]]:
    return [
        node("Cast", "m", dtype="float32"),
        node("ReduceSum", None, axes=[axis], keepdims=True),
    ]


#: Steps, of which None is the result of the one before, and what NumPy makes of truths.
CASES: Mapping[str, tuple[list[dict[str, Any]], np.ndarray]] = {
    **{
        f"cast {name}": ([node("Cast", "m", dtype=name)], T.astype(d)) for name, d in DTYPES.items()
    },
    "equal": ([node("Equal", "m", "o")], T == U),
    "not equal": ([node("NotEqual", "m", "o")], T != U),
    "less": (
        [node("Cast", "m", dtype="int32"), node("Less", None, {"const": 1})],
        ~T,
    ),
    "equal true": ([node("Equal", "m", {"const": True})], T),
    "equal false": ([node("Equal", "m", {"const": False})], ~T),
    "not equal false": ([node("NotEqual", "m", {"const": False})], T),
    "not": ([node("LogicalNot", "m")], ~T),
    "not not": ([node("LogicalNot", "m"), node("LogicalNot", None)], T),
    "and": ([node("LogicalAnd", "m", "o")], T & U),
    "and true": ([node("LogicalAnd", "m", {"const": True})], T),
    "or": ([node("LogicalOr", "m", "o")], T | U),
    "xor": ([node("LogicalXor", "m", "o")], T ^ U),
    "condition": ([node("Select", "m", "x", {"const": -1.0})], np.where(T, X, np.float32(-1))),
    "selected": ([node("Select", "m", "o", {"const": True})], np.where(T, U, True)),
    "selected number": (
        [node("Select", "m", "o", {"const": False}), node("Cast", None, dtype="float32")],
        (T & U).astype(np.float32),
    ),
    "masked": ([node("MaskedFill", "x", "m", {"const": 2.0})], np.where(T, np.float32(2), X)),
    "product": ([node("Cast", "m", dtype="float32"), node("Mul", None, "x")], T * X),
    "rows counted": (count(1), T.sum(1, keepdims=True, dtype=np.float32)),
    "columns counted": (count(0), T.sum(0, keepdims=True, dtype=np.float32)),
    "integers counted": (
        [node("Cast", "m", dtype="int32"), node("ReduceSum", None, axes=[1], keepdims=True)],
        T.sum(1, keepdims=True, dtype=np.int32),
    ),
    "mean": (
        [node("Cast", "m", dtype="float32"), node("ReduceMean", None, axes=[1], keepdims=True)],
        T.mean(1, keepdims=True, dtype=np.float32),
    ),
    "largest": (
        [node("Cast", "m", dtype="float16"), node("ReduceMax", None, axes=[0], keepdims=True)],
        T.max(0, keepdims=True).astype(np.float16),
    ),
    "first": (
        [node("Cast", "m", dtype="int32"), node("ArgMax", None, axis=1, keepdims=True)],
        T.argmax(1).reshape(ROWS, 1),
    ),
    "any": ([node("ReduceAny", "m", axes=[1], keepdims=True)], T.any(1, keepdims=True)),
    "all": ([node("ReduceAll", "m", axes=[0], keepdims=True)], T.all(0, keepdims=True)),
    "running": (
        [node("Cast", "m", dtype="int32"), node("CumSum", None, axis=1)],
        T.cumsum(1, dtype=np.int32),
    ),
    "transposed": ([node("Transpose", "m", perm=[1, 0])], T.T),
    "transposed number": (
        [node("Transpose", "m", perm=[1, 0]), node("Cast", None, dtype="float32")],
        T.T.astype(np.float32),
    ),
    "concat": ([node("Concat", "m", "o", axis=0)], np.concatenate([T, U])),
    "slice": ([node("Slice", "m", starts=[1, 32], shape=[3, 32])], T[1:4, 32:]),
    "copied": ([node("Reshape", "m", shape=[ROWS * 2, COLS // 2])], T.reshape(ROWS * 2, -1)),
    "picked": ([node("Gather", "m", "i", axis=0)], T[[4, 0, 4]]),
    "row for all": ([node("BroadcastTo", "r", shape=[ROWS, COLS])], np.broadcast_to(T[:1], T.shape)),
    "bits": ([node("BitCast", "m", dtype="uint8")], T.astype(np.uint8)),
    "scalar": ([node("Select", "s", "x", {"const": 0.0})], X),
    "scalar number": ([node("Cast", "s", dtype="float32"), node("Mul", None, "x")], X),
}  # fmt: skip
INPUTS = {
    "m": ("bool", M.view(np.bool_)),
    "o": ("bool", O.view(np.bool_)),
    "x": ("float32", X),
    "i": ("int32", np.array([4, 0, 4], np.int32)),
    "r": ("bool", M[:1].view(np.bool_)),
    "s": ("bool", np.array(255, np.uint8).view(np.bool_)),
}
#: All that is asked of a chip that copies rows of 32 bytes only, and has few casts.
FEW = {
    "ascend310p": (
        *("cast float32", "cast float16", "equal", "not equal", "equal true", "equal false", "not"),
        *("and", "xor", "condition", "selected", "selected number", "masked", "product"),
        *("columns counted", "largest", "all", "concat", "slice", "copied"),
    )
}
#: Cases that are one graph.
PARTS = 4


def graph_of(cases: Mapping[str, Any]) -> dict[str, Any]:
    nodes = [
        {
            **s,
            "name": f"n{i}_{k}",
            "inputs": [f"t{i}_{k - 1}" if x is None else x for x in s["inputs"]],
            "outputs": [f"t{i}_{k}"],
        }
        for i, (steps, _) in enumerate(cases.values())
        for k, s in enumerate(steps)
    ]
    used = {x for n in nodes for x in n["inputs"] if isinstance(x, str)}
    return {
        "schema": "autofuse.graph/1",
        "name": "bools",
        "inputs": [
            {"name": n, "dtype": d, "shape": list(a.shape)}
            | ({"scalar": True} if not a.shape else {})
            for n, (d, a) in INPUTS.items()
            if n in used
        ],
        "nodes": nodes,
        "outputs": [f"t{i}_{len(steps) - 1}" for i, (steps, _) in enumerate(cases.values())],
    }


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", TARGETS)
def test_every_byte_but_zero_is_true(target, part):
    cases = {n: CASES[n] for n in FEW.get(target, tuple(CASES))[part::PARTS]}
    graph = graph_of(cases)
    kernel = api.load(api.build_split(graph, target=target))
    given = {i["name"]: INPUTS[i["name"]][1] for i in graph["inputs"]}
    kept = {n: a.tobytes() for n, a in given.items()}
    outputs = kernel.run(given).outputs
    wrong = []
    for output, (name, (_, want)) in zip(graph["outputs"], cases.items(), strict=True):
        got = outputs[output]
        assert (name, got.dtype, got.shape) == (name, want.dtype, want.shape)
        if got.tobytes() != np.ascontiguousarray(want).tobytes():
            wrong.append(name)
    assert not wrong
    assert {n: a.tobytes() for n, a in given.items()} == kept
