"""Gradients of what is computed for each row, which are summed over the rows as well."""

from __future__ import annotations

from typing import Any

from row_graphs import Graph, graph, node

Size = int | str


def _graph(
    rows: Size, cols: Size, dtype: str, nodes: list[Any], outputs: list[str], **more: Any
) -> Graph:
    found = graph([rows, cols], dtype, nodes, tuple(outputs), **more)  # type: ignore[list-item]
    symbols = {s: {"min": 0, "max": 100_000} for s in (rows, cols) if isinstance(s, str)}
    return {**found, "name": "grad", "symbols": symbols} if symbols else {**found, "name": "grad"}


def layer_norm_gradient(rows: Size, cols: Size, dtype: str = "float32") -> Graph:
    """Return a graph of the gradients of operand, weights and bias: sums along the rows, and over them."""
    cast = [node(f"{x}w", "Cast", x, dtype="float32") for x in ("x", "dy", "w")]
    nodes = [
        *cast,
        node("centred", "Sub", "xw", "mean"),
        node("normal", "Mul", "centred", "rstd"),
        node("scaled", "Mul", "dyw", "ww"),
        node("first", "ReduceMean", "scaled", axes=[1], keepdims=True),
        node("both", "Mul", "scaled", "normal"),
        node("second", "ReduceMean", "both", axes=[1], keepdims=True),
        node("back", "Mul", "normal", "second"),
        node("less", "Sub", "scaled", "first"),
        node("moved", "Sub", "less", "back"),
        node("wide", "Mul", "moved", "rstd"),
        node("dx", "Cast", "wide", dtype=dtype),
        node("weighed", "Mul", "dyw", "normal"),
        node("dw", "ReduceSum", "weighed", axes=[0], keepdims=False),
        node("db", "ReduceSum", "dyw", axes=[0], keepdims=False),
    ]
    more = {
        "dy": (dtype, [rows, cols]),
        "w": (dtype, [cols]),
        "mean": ("float32", [rows, 1]),
        "rstd": ("float32", [rows, 1]),
    }
    return _graph(rows, cols, dtype, nodes, ["dx", "dw", "db"], **more)


def softmax_gradient(rows: Size, cols: Size, dtype: str = "float32") -> Graph:
    """Return a graph of the gradients of the operand and of a bias added to it, which is a sum over the rows."""
    nodes = [
        node("product", "Mul", "x", "dy"),
        node("total", "ReduceSum", "product", axes=[1], keepdims=True),
        node("share", "Mul", "x", "total"),
        node("dx", "Sub", "product", "share"),
        node("db", "ReduceSum", "dx", axes=[0], keepdims=False),
    ]
    return _graph(rows, cols, dtype, nodes, ["dx", "db"], dy=(dtype, [rows, cols]))


def bias_gradient(rows: Size, cols: Size, dtype: str = "float32") -> Graph:
    """Of an activation, and of the bias in front of it: nothing is reduced along the rows."""
    nodes = [
        node("slope", "Tanh", "x"),
        node("dx", "Mul", "slope", "dy"),
        node("db", "ReduceSum", "dx", axes=[0], keepdims=False),
    ]
    return _graph(rows, cols, dtype, nodes, ["dx", "db"], dy=(dtype, [rows, cols]))


def extremes(rows: Size, cols: Size, dtype: str = "float32") -> Graph:
    """Each element over the largest of its row, and the least of each column of these."""
    nodes = [
        node("most", "ReduceMax", "x", axes=[1], keepdims=True),
        node("y", "Sub", "x", "most"),
        node("least", "ReduceMin", "y", axes=[0], keepdims=False),
    ]
    return _graph(rows, cols, dtype, nodes, ["y", "least"])
