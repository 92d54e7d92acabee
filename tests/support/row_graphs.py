"""Graphs whose rows fit vector registers: reductions, and what uses their results with the same rows."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Graph = dict[str, Any]
Node = dict[str, Any]

MEAN = {"axes": [1], "keepdims": True}


def graph(
    shape: list[int],
    dtype: str,
    nodes: list[Node],
    outputs: tuple[str, ...],
    **others: tuple[str, list[int]],
) -> Graph:
    """Of one input ``x``, and of others with a dtype and a shape of their own."""
    inputs = {"x": (dtype, shape)} | others
    return {
        "schema": "autofuse.graph/1",
        "name": "r",
        "inputs": [{"name": k, "dtype": d, "shape": s} for k, (d, s) in inputs.items()],
        "nodes": [{"name": f"n{k}", **n} for k, n in enumerate(nodes)],
        "outputs": list(outputs),
    }


def node(result: str, op: str, *inputs: Any, **attrs: Any) -> Node:
    found: Node = {"outputs": [result], "op": op, "inputs": list(inputs)}
    return found | ({"attrs": attrs} if attrs else {})


def softmax(rows: int, cols: int, dtype: str = "float32") -> Graph:
    return graph([rows, cols], dtype, [node("y", "Softmax", "x", axis=-1)], ("y",))


def shifted_softmax(rows: int, cols: int, dtype: str = "float32") -> Graph:
    """Of the sum with one row: the exponentials are stored where the sum was."""
    nodes = [node("sum", "Add", "x", "shift"), node("y", "Softmax", "sum", axis=-1)]
    return graph([rows, cols], dtype, nodes, ("y",), shift=(dtype, [cols]))


def elements_of_rows(
    kind: str,
    dtype: str = "int8",
    rows: int = 127,
    cols: int = 40,
    *,
    as_dtype: str = "",
    **attrs: Any,
) -> Graph:
    """Reduces rows and columns of ``x + w``, where ``w`` has an element per row.

    Narrow integers are widened before they are copied to the elements of the row, and narrowed behind that: so the
    copies are made in front of the loop, where the accumulator is filled, too.

    Args:
        kind: the op that reduces.
        dtype: of both inputs.
        rows, cols: of ``x``, which has three of these.
        as_dtype: that of the sum, by its bits where these are as many, else by a cast.
        **attrs: of the reduction, besides its axes.
    """
    nodes = [node("sum", "Add", "x", "w")]
    if as_dtype:
        same = as_dtype in ("int8", "uint8") or (dtype == "int16" and as_dtype == "float16")
        nodes.append(node("as", "BitCast" if same else "Cast", "sum", dtype=as_dtype))
    nodes.append(node("y", kind, "as" if as_dtype else "sum", axes=[0, 2], **attrs))
    return graph([3, rows, cols], dtype, nodes, ("y",), w=(dtype, [rows, 1]))


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


def _weighed(wide: str, dtype: str, *steps: tuple[str, str]) -> list[Node]:
    """Calls with weights in float32, one after the other; the result is ``y``, of the dtype."""
    nodes = [node("wide", "Cast", "x", dtype="float32")]
    for k, (op, weight) in enumerate(steps):
        nodes.append(node(f"wide_{weight}", "Cast", weight, dtype="float32"))
        nodes.append(node(f"w{k}", op, f"w{k - 1}" if k else wide, f"wide_{weight}"))
    return [*nodes, node("y", "Cast", f"w{len(steps) - 1}", dtype=dtype)]


def weighed_layer_norm(
    rows: int, cols: int, dtype: str = "float32", batches: int | None = None
) -> Graph:
    """Each row times ``gamma`` plus ``beta``; with ``batches``, the rows of each have weights of their own."""
    along = {"axes": [-1], "keepdims": True}
    nodes = [
        node("mean", "ReduceMean", "wide", **along),
        node("centre", "Sub", "wide", "mean"),
        node("square", "Mul", "centre", "centre"),
        node("variance", "ReduceMean", "square", **along),
        node("shifted", "Add", "variance", {"const": 1e-5}),
        node("inverse", "Rsqrt", "shifted"),
        node("scaled", "Mul", "centre", "inverse"),
    ]
    first, *weights = _weighed("scaled", dtype, ("Mul", "gamma"), ("Add", "beta"))
    shape, weight = ([rows, cols], [cols])
    if batches:
        shape, weight = [batches, rows, cols], [batches, 1, cols]
    given = {"gamma": (dtype, weight), "beta": (dtype, weight)}
    return graph(shape, dtype, [first, *nodes, *weights], ("y",), **given)


def quantised_rms_norm(rows: int, cols: int, dtype: str = "float32") -> Graph:
    """With weights, and the result as int8, each row with its own scale."""
    nodes = [
        node("square", "Mul", "wide", "wide"),
        node("mean", "ReduceMean", "square", **MEAN),
        node("shifted", "Add", "mean", {"const": 1e-5}),
        node("inverse", "Rsqrt", "shifted"),
        node("scaled", "Mul", "wide", "inverse"),
    ]
    first, *weights, _ = _weighed("scaled", dtype, ("Mul", "gamma"))
    quantised = [
        node("size", "Abs", "w0"),
        node("most", "ReduceMax", "size", **MEAN),
        node("guarded", "Maximum", "most", {"const": 1e-10}),
        node("scale", "Div", "guarded", {"const": 127.0}),
        node("factor", "Div", {"const": 127.0}, "guarded"),
        node("stretched", "Mul", "w0", "factor"),
        node("y", "RoundToInt", "stretched", dtype="int8"),
    ]
    of = (dtype, [cols])
    return graph(
        [rows, cols], dtype, [first, *nodes, *weights, *quantised], ("y", "scale"), gamma=of
    )


def cross_entropy(rows: int, cols: int, dtype: str = "float32") -> Graph:
    """The loss of each row; ``label`` says which element is the right one."""
    nodes = [
        node("logs", "LogSoftmax", "x", axis=-1),
        node("class", "Iota", shape=[1, cols], axis=1, dtype="int32"),
        node("right", "Equal", "class", "label"),
        node("picked", "Select", "right", "logs", {"const": 0.0}),
        node("sum", "ReduceSum", "picked", axes=[1]),
        node("y", "Neg", "sum"),
    ]
    return graph([rows, cols], dtype, nodes, ("y",), label=("int32", [rows, 1]))


def gelu_chain(rows: int, cols: int, dtype: str = "float32") -> Graph:
    nodes = [
        node("biased", "Add", "x", "bias"),
        node("gelu", "Gelu", "biased"),
        node("y", "Mul", "gelu", "gate"),
    ]
    given = {"bias": (dtype, [cols]), "gate": (dtype, [rows, cols])}
    return graph([rows, cols], dtype, nodes, ("y",), **given)


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


#: What is one function for a tile; what a template does once, before its tiles, is not of them.
FAMILIES: dict[str, Callable[..., Graph]] = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": weighed_layer_norm,
    "rms_norm": quantised_rms_norm,
    "cross_entropy": cross_entropy,
    "gelu_chain": gelu_chain,
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
