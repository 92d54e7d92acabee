"""Graphs in the format of AKG's info files, for the tests of its flows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["FIXED", "SYMBOLIC", "exact", "first_sum", "info", "long_sum", "tensor"]

Desc = dict[str, Any]


def tensor(name: str, shape: Sequence[int | str], dtype: str = "float32") -> Desc:
    """A description; a size that is a text is a symbol."""
    sizes = [n if isinstance(n, int) else -1 for n in shape]
    found: Desc = {"tensor_name": name, "shape": sizes, "data_type": dtype}
    if any(isinstance(n, str) for n in shape):
        found["symbolic_shape"] = [str(n) for n in shape]
    return found


def op(name: str, inputs: Sequence[Desc], output: Desc, **attrs: Any) -> Desc:
    """One op."""
    listed = [{"name": k, "value": v} for k, v in attrs.items()]
    return {
        "name": name,
        "attr": listed,
        "input_desc": [[d] for d in inputs],
        "output_desc": [output],
    }


def info(
    name: str, inputs: Sequence[Desc], ops: Sequence[Desc], outputs: Sequence[Desc]
) -> dict[str, Any]:
    """The content of a file."""
    return {
        "op": name,
        "process": "cuda",
        "platform": "AKG",
        "composite": True,
        "input_desc": [[d] for d in inputs],
        "op_desc": list(ops),
        "output_desc": list(outputs),
    }


def _mul_tanh(rows: int | str, cols: int | str) -> dict[str, Any]:
    x, w = tensor("x", (rows, cols)), tensor("w", (cols,))
    m, t = tensor("m", (rows, cols)), tensor("t", (rows, cols))
    ops = [op("Mul", (w, x), m), op("Tanh", (m,), t)]
    return info("Fused_Mul_Tanh", (x, w), ops, (t,))


def _centred(rows: int | str, cols: int | str, dtype: str = "float32") -> dict[str, Any]:
    """Rows less their maxima, and the maxima, of which the later one is the first output."""
    x, y = tensor("x", (rows, cols), dtype), tensor("y", (rows, cols), dtype)
    m = tensor("m", (rows, 1), dtype)
    ops = [
        op("ReduceMax", (x,), m, axis=[1], keep_dims=True),
        op("Sub", (x, m), y),
    ]
    return info("Fused_ReduceMax_Sub", (x,), ops, (y, m))


def _swapped(rows: int | str, cols: int | str) -> dict[str, Any]:
    x, y = tensor("x", (rows, cols), "float16"), tensor("y", (cols, rows), "float16")
    return info("Fused_Transpose", (x,), [op("Transpose", (x,), y, perm=[1, 0])], (y,))


def _overwritten() -> dict[str, Any]:
    """An input that the output overwrites, and one that nothing reads."""
    p, g, unused = (tensor(n, (513,)) for n in ("p", "g", "unused"))
    step, token = tensor("step", (513,)), tensor("token", (1,))
    ops = [op("Sub", (p, g), step), op("Assign", (p, step), token)]
    return info("Fused_Sub_Assign", (unused, p, g), ops, (token,))


def exact() -> dict[str, Any]:
    """A quotient that is rounded down, whose formula does not bear fused products and sums."""
    x, y = tensor("x", (300,)), tensor("y", (300,))
    m, f, s = (tensor(n, (300,)) for n in "mfs")
    ops = [op("Mul", (x, y), m), op("FloorDiv", (m, y), f), op("Add", (m, f), s)]
    return info("Fused_exact", (x, y), ops, (s,))


def long_sum(rows: int, cols: int) -> dict[str, Any]:
    """A graph of the project's own format: few long columns, which several programs share."""
    return {
        "schema": "autofuse.graph/1",
        "name": "long_sum",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [cols * 64, rows]}],
        "nodes": [
            {
                "name": "sum_0",
                "op": "ReduceSum",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"axes": [0]},
            }
        ],
        "outputs": ["y"],
    }


#: Graphs of one launch with fixed sizes: one at a time, a prime, a tail, in place, hostile names.
FIXED: Mapping[str, Any] = {
    "mul_tanh": _mul_tanh(100, 70),
    "one element": _mul_tanh(1, 1),
    "prime": _mul_tanh(37, 131),
    "rows": _centred(5, 300, "float16"),
    "swapped": _swapped(33, 65),
    "in place": _overwritten(),
    "names": json.loads(
        json.dumps(_mul_tanh(3, 5))
        .replace('"x"', '"tl"')
        .replace('"w"', '"lambda"')
        .replace('"m"', '"x):\\n    import os"')
        .replace('"t"', '"Fused_Mul_Tanh_kernel"')
        .replace('"Fused_Mul_Tanh"', '"../Fused\\"Mul"')
    ),
}
SYMBOLIC: Mapping[str, Any] = {
    "mul_tanh": _mul_tanh("s0", "s1"),
    "rows": _centred("s0", 64),
    "columns": _centred(3, "s0"),
    "swapped": _swapped("s0", 64),
    "names": _mul_tanh("min", "lambda"),
}


def first_sum() -> dict[str, Any]:
    """The sum of so many first elements as a call says: a symbol that is in no shape of an input or an output."""
    return {
        "schema": "autofuse.graph/1",
        "name": "first_sum",
        "symbols": {"n": {"min": 1, "max": 100}},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [100]}],
        "nodes": [
            {
                "name": "slice_0",
                "op": "Slice",
                "inputs": ["x"],
                "outputs": ["part"],
                "attrs": {"starts": [0], "shape": ["n"]},
            },
            {
                "name": "sum_0",
                "op": "ReduceSum",
                "inputs": ["part"],
                "outputs": ["y"],
                "attrs": {"axes": [0]},
            },
        ],
        "outputs": ["y"],
    }
