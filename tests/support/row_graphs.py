"""Graphs whose rows fit vector registers: reductions, and what uses their results with the same rows."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Graph = dict[str, Any]
Node = dict[str, Any]

MEAN = {"axes": [1], "keepdims": True}


def graph(shape: list[int], dtype: str, nodes: list[Node], outputs: tuple[str, ...]) -> Graph:
    return {
        "schema": "autofuse.graph/1",
        "name": "r",
        "inputs": [{"name": "x", "dtype": dtype, "shape": shape}],
        "nodes": [{"name": f"n{k}", **n} for k, n in enumerate(nodes)],
        "outputs": list(outputs),
    }


def node(result: str, op: str, *inputs: Any, **attrs: Any) -> Node:
    found: Node = {"outputs": [result], "op": op, "inputs": list(inputs)}
    return found | ({"attrs": attrs} if attrs else {})


def softmax(rows: int, cols: int, dtype: str = "float32") -> Graph:
    return graph([rows, cols], dtype, [node("y", "Softmax", "x", axis=-1)], ("y",))


def log_softmax(rows: int, cols: int, dtype: str = "float32") -> Graph:
    return graph([rows, cols], dtype, [node("y", "LogSoftmax", "x", axis=-1)], ("y",))


def layer_norm(rows: int, cols: int, dtype: str = "float32") -> Graph:
    nodes = [
        node("mean", "ReduceMean", "x", **MEAN),
        node("centre", "Sub", "x", "mean"),
        node("square", "Mul", "centre", "centre"),
        node("variance", "ReduceMean", "square", **MEAN),
        node("shifted", "Add", "variance", {"const": 1e-5}),
        node("root", "Sqrt", "shifted"),
        node("y", "Div", "centre", "root"),
    ]
    return graph([rows, cols], dtype, nodes, ("y",))


def rms_norm(rows: int, cols: int, dtype: str = "float32") -> Graph:
    nodes = [
        node("square", "Mul", "x", "x"),
        node("mean", "ReduceMean", "square", **MEAN),
        node("shifted", "Add", "mean", {"const": 1e-5}),
        node("root", "Sqrt", "shifted"),
        node("y", "Div", "x", "root"),
    ]
    return graph([rows, cols], dtype, nodes, ("y",))


def log_sum_exp(rows: int, cols: int, dtype: str = "float32") -> Graph:
    nodes = [
        node("most", "ReduceMax", "x", **MEAN),
        node("shift", "Sub", "x", "most"),
        node("e", "Exp", "shift"),
        node("sum", "ReduceSum", "e", **MEAN),
        node("log", "Log", "sum"),
        node("y", "Add", "log", "most"),
    ]
    return graph([rows, cols], dtype, nodes, ("y",))


def reduced(op: str, rows: int, cols: int, dtype: str = "float32") -> Graph:
    """One reduction behind a call."""
    nodes = [node("twice", "Add", "x", "x"), node("y", op, "twice", axes=[1])]
    return graph([rows, cols], dtype, nodes, ("y",))


NORMS: dict[str, Callable[..., Graph]] = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "log_sum_exp": log_sum_exp,
}


def random_rows(rng: Random, rows: int, cols: int, dtype: str = "float32") -> Graph:
    """Reductions, calls on their results, and calls on rows and both, in any order; what nothing uses is an output."""
    wide, single, unused = ["x"], list[str](), list[str]()
    nodes: list[Node] = []
    for k in range(rng.randint(5, 12)):
        to = f"v{k}"
        kind = rng.choice(
            ["reduce", "wide", "rows", "rows", "single"] if single else ["reduce", "wide"]
        )
        op = rng.choice(["Add", "Sub", "Maximum", "Minimum"])
        if kind == "reduce":
            of, attrs = [rng.choice(wide)], {"axes": [1], "keepdims": True}
            op = rng.choice(["ReduceSum", "ReduceMax", "ReduceMin"])
        else:
            first = single if kind == "single" else wide
            second = single if kind in ("rows", "single") else wide
            of, attrs = [rng.choice(first), rng.choice(second)], {}
        nodes.append(node(to, op, *of, **attrs))
        unused = [x for x in unused if x not in of] + [to]
        (single if kind in ("reduce", "single") else wide).append(to)
    return graph([rows, cols], dtype, nodes, tuple(unused))
