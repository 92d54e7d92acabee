"""Graphs for a server's requests, generated from a number so that no two are equal.

Names, sizes, symbols, constants, dtypes and ops vary with the number; only the kinds of graphs are fixed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

__all__ = ["KINDS", "document", "text"]

_UNARY = ("Abs", "Exp", "Neg", "Relu", "Sigmoid", "Square", "Tanh")
_BINARY = ("Add", "Maximum", "Minimum", "Mul", "Sub")
_FLOATS = ("float32", "float16", "bfloat16")

Document = dict[str, Any]


def _tensor(name: str, dtype: str, *shape: int | str) -> Document:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def _node(op: str, output: str, *inputs: Any, **attrs: Any) -> Document:
    node = {"name": f"make_{output}", "op": op, "inputs": list(inputs), "outputs": [output]}
    return node | {"attrs": attrs} if attrs else node


def _size(rng: random.Random, symbols: Document, name: str, most: int) -> int | str:
    """Return a number, or in half of the cases a symbol."""
    n = rng.randint(1, most)
    if rng.random() < 0.5:
        return n
    symbol = f"{name}{rng.randrange(100)}"
    symbols[symbol] = {"min": rng.randint(0, 1), "max": 1 << rng.randint(12, 16), "hint": n}
    return symbol


def _chain(rng: random.Random, symbols: Document) -> Document:
    """Return element-wise ops on two tensors of one shape."""
    dtype = rng.choice(_FLOATS)
    shape = [_size(rng, symbols, "rows", 300), _size(rng, symbols, "columns", 900)]
    nodes, last = [], "x"
    for i in range(rng.randint(2, 9)):
        op = rng.choice(_UNARY + _BINARY)
        other: Any = rng.choice(["y", {"const": round(rng.uniform(0.1, 2.0), 6)}])
        nodes.append(_node(op, f"t{i}", last, *([other] if op in _BINARY else [])))
        last = f"t{i}"
    # Ensure that y is read, and so an input.
    nodes.append(_node("Add", "out", last, "y"))
    return {
        "inputs": [_tensor("x", dtype, *shape), _tensor("y", dtype, *shape)],
        "nodes": nodes,
        "outputs": ["out"],
    }


def _bias(rng: random.Random, symbols: Document) -> Document:
    """Return a graph with a broadcast row vector, a gate, and a second output."""
    dtype = rng.choice(_FLOATS)
    rows, columns = _size(rng, symbols, "tokens", 300), _size(rng, symbols, "width", 900)
    return {
        "inputs": [
            _tensor("x", dtype, rows, columns),
            _tensor("bias", dtype, columns),
            _tensor("residual", dtype, rows, columns),
        ],
        "nodes": [
            _node("Add", "biased", "x", "bias"),
            _node("Sigmoid", "gate", "biased"),
            _node("Mul", "gated", "biased", "gate"),
            _node("Mul", "scaled", "gated", {"const": round(rng.uniform(0.1, 2.0), 6)}),
            _node("Add", "out", "scaled", "residual"),
        ],
        "outputs": ["out", "gate"],
    }


def _softmax(rng: random.Random, symbols: Document) -> Document:
    """Return a scaled softmax of rows."""
    dtype = rng.choice(_FLOATS)
    shape = [_size(rng, symbols, "batch", 200), _size(rng, symbols, "keys", 1500)]
    return {
        "inputs": [_tensor("x", dtype, *shape)],
        "nodes": [
            _node("Mul", "scaled", "x", {"const": round(rng.uniform(0.05, 1.0), 6)}),
            _node("Softmax", "out", "scaled", axis=-1),
        ],
        "outputs": ["out"],
    }


def _norm(rng: random.Random, symbols: Document) -> Document:
    """Return a root-mean-square norm of rows with a scale."""
    rows, columns = _size(rng, symbols, "rows", 200), rng.randint(2, 1500)
    return {
        "inputs": [_tensor("x", "float32", rows, columns), _tensor("scale", "float32", columns)],
        "nodes": [
            _node("Mul", "square", "x", "x"),
            _node("ReduceMean", "mean", "square", axes=[-1], keepdims=True),
            _node("Add", "safe", "mean", {"const": round(rng.uniform(1e-5, 1e-3), 8)}),
            _node("Rsqrt", "factor", "safe"),
            _node("Mul", "normal", "x", "factor"),
            _node("Mul", "out", "normal", "scale"),
        ],
        "outputs": ["out"],
    }


def _columns(rng: random.Random, symbols: Document) -> Document:
    """Return sums of columns."""
    shape = [rng.randint(1, 500), _size(rng, symbols, "columns", 900)]
    op = rng.choice(("ReduceSum", "ReduceMax"))
    return {
        "inputs": [_tensor("x", "float32", *shape)],
        "nodes": [_node("Abs", "size", "x"), _node(op, "out", "size", axes=[0], keepdims=False)],
        "outputs": ["out"],
    }


def _transposed(rng: random.Random, symbols: Document) -> Document:
    """Return a transposition combined with another tensor."""
    dtype = rng.choice(("float32", "float16"))
    n, m = _size(rng, symbols, "rows", 200), _size(rng, symbols, "columns", 200)
    return {
        "inputs": [_tensor("x", dtype, n, m), _tensor("y", dtype, m, n)],
        "nodes": [
            _node("Transpose", "turned", "x", perm=[1, 0]),
            _node(rng.choice(_BINARY), "out", "turned", "y"),
        ],
        "outputs": ["out"],
    }


KINDS: tuple[Callable[[random.Random, Document], Document], ...] = (
    _chain,
    _bias,
    _softmax,
    _norm,
    _columns,
    _transposed,
)


def document(number: int) -> Document:
    """Return the graph of a number as a graph document."""
    rng = random.Random(number)
    symbols: Document = {}
    kind = KINDS[number % len(KINDS)]
    body = kind(rng, symbols)
    name = f"request{kind.__name__}_{number}"
    return {"schema": "autofuse.graph/1", "name": name, "symbols": symbols, **body}


def text(number: int) -> str:
    """Return the graph of a number as the text of a graph file."""
    return json.dumps(document(number))
