"""Small graphs of every kind of work that Triton kernels have a form for, of any number of rows and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["ALONG", "MOVES", "ONLINE", "REDUCTIONS", "SUMS", "WAITING", "Node", "graph"]

Node = tuple[str, Sequence[Any], Mapping[str, Any]]
F32, F16, BF16 = "float32", "float16", "bfloat16"
ALONG = {"axes": [1], "keepdims": True}
DOWN = {"axes": [0], "keepdims": False}


def graph(
    name: str,
    inputs: Sequence[tuple[str, Sequence[int | str]]],
    nodes: Sequence[Node],
    outputs: Sequence[str],
) -> dict[str, Any]:
    """A document: inputs are x0, x1, ..., the results of nodes t0, t1, ...; there may be no rows, but a column."""
    sizes = [d for _, shape in inputs for d in shape if isinstance(d, str)]
    symbols = dict.fromkeys(s for d in sizes for s in re.findall("[a-z]+", d))
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": {n: {"min": int(n != "rows"), "max": 1 << 16} for n in symbols},
        "inputs": [
            {"name": f"x{i}", "dtype": d, "shape": list(s)} for i, (d, s) in enumerate(inputs)
        ],
        "nodes": [
            {
                "name": f"n{i}",
                "op": op,
                "inputs": [x if isinstance(x, str) else {"const": x} for x in xs],
                "outputs": [f"t{i}"],
                "attrs": dict(attrs),
            }
            for i, (op, xs, attrs) in enumerate(nodes)
        ],
        "outputs": list(outputs),
    }


def _softmax(rows: Any, cols: Any) -> dict[str, Any]:
    return graph("soft", [(F32, [rows, cols])], [("Softmax", ["x0"], {"axis": 1})], ["t0"])


def _masked_softmax(rows: Any, cols: Any) -> dict[str, Any]:
    """With x1 0 for a whole row, that row is nothing but -inf."""
    nodes: list[Node] = [
        ("Relu", ["x1"], {}),
        ("Ln", ["t0"], {}),
        ("Add", ["x0", "t1"], {}),
        ("Softmax", ["t2"], {"axis": 1}),
    ]
    return graph("masked", [(F32, [rows, cols]), (F32, [rows, 1])], nodes, ["t3"])


def _log_softmax(rows: Any, cols: Any) -> dict[str, Any]:
    return graph("logs", [(F16, [rows, cols])], [("LogSoftmax", ["x0"], {"axis": 1})], ["t0"])


def _layer_norm(rows: Any, cols: Any) -> dict[str, Any]:
    nodes: list[Node] = [
        ("ReduceMean", ["x0"], ALONG),
        ("Sub", ["x0", "t0"], {}),
        ("Mul", ["t1", "t1"], {}),
        ("ReduceMean", ["t2"], ALONG),
        ("Add", ["t3", 1e-5], {}),
        ("Rsqrt", ["t4"], {}),
        ("Mul", ["t1", "t5"], {}),
        ("Mul", ["t6", "x1"], {}),
    ]
    return graph("layer", [(F32, [rows, cols]), (F32, [cols])], nodes, ["t7", "t0", "t5"])


def _rms_norm(rows: Any, cols: Any) -> dict[str, Any]:
    nodes: list[Node] = [
        ("Cast", ["x0"], {"dtype": F32}),
        ("Square", ["t0"], {}),
        ("ReduceMean", ["t1"], ALONG),
        ("Add", ["t2", 1e-5], {}),
        ("Rsqrt", ["t3"], {}),
        ("Mul", ["t0", "t4"], {}),
        ("Mul", ["t5", "x1"], {}),
        ("Cast", ["t6"], {"dtype": BF16}),
    ]
    return graph("rms", [(BF16, [rows, cols]), (F32, [cols])], nodes, ["t7"])


def _norm_backward(rows: Any, cols: Any) -> dict[str, Any]:
    """Of x0, the gradient, x1, the normed rows, and x2, the weights: the gradients of input, weights and bias."""
    nodes: list[Node] = [
        ("Mul", ["x0", "x2"], {}),
        ("ReduceMean", ["t0"], ALONG),
        ("Mul", ["t0", "x1"], {}),
        ("ReduceMean", ["t2"], ALONG),
        ("Mul", ["x1", "t3"], {}),
        ("Sub", ["t0", "t1"], {}),
        ("Sub", ["t5", "t4"], {}),
        ("Mul", ["x0", "x1"], {}),
        ("ReduceSum", ["t7"], DOWN),
        ("ReduceSum", ["x0"], DOWN),
    ]
    inputs = [(F32, [rows, cols]), (F32, [rows, cols]), (F32, [cols])]
    return graph("backward", inputs, nodes, ["t6", "t8", "t9"])


def _bias_backward(rows: Any, cols: Any) -> dict[str, Any]:
    """Sums over rows beside work on every element."""
    nodes: list[Node] = [
        ("Greater", ["x1", 0.0], {}),
        ("Select", ["t0", "x0", 0.0], {}),
        ("ReduceSum", ["t1"], DOWN),
    ]
    return graph("bias", [(F32, [rows, cols]), (F32, [rows, cols])], nodes, ["t1", "t2"])


def _cross_entropy(rows: Any, cols: Any) -> dict[str, Any]:
    nodes: list[Node] = [
        ("ReduceMax", ["x0"], ALONG),
        ("Sub", ["x0", "t0"], {}),
        ("Exp", ["t1"], {}),
        ("ReduceSum", ["t2"], ALONG),
        ("Ln", ["t3"], {}),
        ("Add", ["t4", "t0"], {}),
        ("GatherElements", ["x0", "x1"], {"axis": 1}),
        ("Sub", ["t5", "t6"], {}),
    ]
    return graph("entropy", [(F32, [rows, cols]), ("int64", [rows, 1])], nodes, ["t7"])


def _running(
    exclusive: bool, reverse: bool, dtype: str = F32
) -> Callable[[Any, Any], dict[str, Any]]:
    attrs = {"axis": 1, "exclusive": exclusive, "reverse": reverse}

    def made(rows: Any, cols: Any) -> dict[str, Any]:
        nodes: list[Node] = [("Mul", ["x0", 3], {}), ("CumSum", ["t0"], attrs)]
        return graph("running", [(dtype, [rows, cols])], nodes, ["t1"])

    return made


def _normed_running_sum(rows: Any, cols: Any) -> dict[str, Any]:
    attrs = {"axis": 1, "exclusive": False, "reverse": True}
    nodes: list[Node] = [("Softmax", ["x0"], {"axis": 1}), ("CumSum", ["t0"], attrs)]
    return graph("scanned", [(F32, [rows, cols])], nodes, ["t1"])


def _arg_max(rows: Any, cols: Any) -> dict[str, Any]:
    attrs = {"axis": 1, "keepdims": False, "dtype": "int32"}
    return graph("arg", [(F32, [rows, cols])], [("ArgMax", ["x0"], attrs)], ["t0"])


def _plain(op: str, dtype: str) -> Callable[[Any, Any], dict[str, Any]]:
    def made(rows: Any, cols: Any) -> dict[str, Any]:
        return graph("plain", [(dtype, [rows, cols])], [(op, ["x0"], ALONG)], ["t0"])

    return made


def _below(*nodes: Node, beside: Sequence[str] = ()) -> Callable[[Any, Any], dict[str, Any]]:
    """Elements over their sum, of what ``nodes`` make of the rows and their maxima, t0, and of ``beside``."""

    def made(rows: Any, cols: Any) -> dict[str, Any]:
        sizes = {"rows": [rows, 1], "cols": [cols], "all": [rows, cols]}
        last = f"t{len(nodes)}"
        behind: list[Node] = [
            ("ReduceSum", [last], ALONG),
            ("Div", [last, f"t{len(nodes) + 1}"], {}),
        ]
        inputs = [(F32, [rows, cols]), *((F32, sizes[b]) for b in beside)]
        all_nodes = [("ReduceMax", ["x0"], ALONG), *nodes, *behind]
        outputs = [f"t{len(nodes) + 1}", f"t{len(nodes) + 2}"]
        return graph("below", inputs, all_nodes, outputs)

    return made


def _normed_softmax(rows: Any, cols: Any) -> dict[str, Any]:
    """A softmax with a temperature of rows less their means: its maximum needs an earlier pass."""
    nodes: list[Node] = [
        ("ReduceMean", ["x0"], ALONG),
        ("Sub", ["x0", "t0"], {}),
        ("ReduceMax", ["t1"], ALONG),
        ("Sub", ["t1", "t2"], {}),
        ("Mul", ["t3", 0.5], {}),
        ("Exp", ["t4"], {}),
        ("ReduceSum", ["t5"], ALONG),
        ("Div", ["t5", "t6"], {}),
    ]
    return graph("normed", [(F32, [rows, cols])], nodes, ["t7"])


def _large_integers(dtype: str) -> Callable[[Any, Any], dict[str, Any]]:
    """Two reductions in one pass, of integers that no float holds, whose results all elements need."""

    def made(rows: Any, cols: Any) -> dict[str, Any]:
        nodes: list[Node] = [
            ("Add", ["x0", 1_000_000_007], {}),
            ("ReduceSum", ["t0"], ALONG),
            ("ReduceMax", ["t0"], ALONG),
            ("Sub", ["t0", "t1"], {}),
            ("Maximum", ["t3", "t2"], {}),
        ]
        return graph("integers", [(dtype, [rows, cols])], nodes, ["t4", "t1"])

    return made


def _columns(rows: Any, cols: Any) -> dict[str, Any]:
    """Softmax over the outer of two dimensions: neighbours in memory are of different rows."""
    return graph("down", [(F32, [cols, rows])], [("Softmax", ["x0"], {"axis": 0})], ["t0"])


def _gathered(rows: Any, cols: Any) -> dict[str, Any]:
    nodes: list[Node] = [("Gather", ["x0", "x1"], {"axis": 0}), ("Softmax", ["t0"], {"axis": 1})]
    return graph("gathered", [(F32, [11, cols]), ("int32", [rows])], nodes, ["t1"])


def _joined(rows: Any, cols: Any) -> dict[str, Any]:
    nodes: list[Node] = [
        ("Concat", ["x0", "x1"], {"axis": 1}),
        ("Pad", ["t0"], {"low": [0, 1], "high": [1, 2], "value": 3.0}),
        ("Relu", ["t1"], {}),
    ]
    return graph("joined", [(F32, [rows, cols]), (F32, [rows, 3])], nodes, ["t2"])


def _framed(rows: Any, cols: Any) -> dict[str, Any]:
    attrs = {"low": [1, 2, 1], "high": [0, 1, 1], "value": 3.0}
    nodes: list[Node] = [("Pad", ["x0"], attrs), ("Neg", ["t0"], {})]
    return graph("framed", [(F32, [rows, cols, 2])], nodes, ["t1"])


def _turned(rows: Any, cols: Any) -> dict[str, Any]:
    nodes: list[Node] = [
        ("Transpose", ["x0"], {"perm": [0, 2, 1]}),
        ("Add", ["t0", "x1"], {}),
    ]
    return graph("turned", [(F16, [3, rows, cols]), (F16, [3, cols, rows])], nodes, ["t1"])


_SUB: Node = ("Sub", ["x0", "t0"], {})
#: Sums of powers that one pass makes with the maximum.
ONLINE: Mapping[str, Callable[[Any, Any], dict[str, Any]]] = {
    "scaled softmax": _below(_SUB, ("Mul", ["t1", 0.125], {}), ("Exp", ["t2"], {})),
    "softmax, scale first": _below(_SUB, ("Mul", [2.5, "t1"], {}), ("Exp", ["t2"], {})),
    "softmax over a temperature": _below(_SUB, ("Div", ["t1", 3.0], {}), ("Exp", ["t2"], {})),
    "softmax by a sum": _below(("Neg", ["t0"], {}), ("Add", ["x0", "t1"], {}), ("Exp", ["t2"], {})),
    "softmax of base 2": _below(_SUB, ("Exp2", ["t1"], {})),
    "weighted softmax": _below(
        _SUB,
        ("Mul", ["t1", 0.5], {}),
        ("Exp", ["t2"], {}),
        ("Mul", ["x1", "t3"], {}),
        beside=["all"],
    ),
    "softmax weighted by columns": _below(
        _SUB, ("Exp", ["t1"], {}), ("Mul", ["t2", "x1"], {}), beside=["cols"]
    ),
    "softmax about a floor": _below(
        ("Maximum", ["t0", -2.0], {}),
        ("Sub", ["x0", "t1"], {}),
        ("Mul", ["t2", 0.25], {}),
        ("Exp", ["t3"], {}),
    ),
    "softmax of differences": _normed_softmax,
}
#: Sums of powers that wait for the maximum.
WAITING: Mapping[str, Callable[[Any, Any], dict[str, Any]]] = {
    "negative scale": _below(_SUB, ("Mul", ["t1", -0.125], {}), ("Exp", ["t2"], {})),
    "no scale": _below(_SUB, ("Mul", ["t1", 0.0], {}), ("Exp", ["t2"], {})),
    "scales of rows": _below(_SUB, ("Mul", ["t1", "x1"], {}), ("Exp", ["t2"], {}), beside=["rows"]),
    "scales of elements": _below(
        _SUB, ("Mul", ["t1", "x1"], {}), ("Exp", ["t2"], {}), beside=["all"]
    ),
}
#: What it is -> the graph of so many rows and columns: with reductions along these.
REDUCTIONS: Mapping[str, Callable[[Any, Any], dict[str, Any]]] = {
    "softmax": _softmax,
    "softmax of -inf": _masked_softmax,
    "log softmax": _log_softmax,
    "layer norm": _layer_norm,
    "rms norm": _rms_norm,
    "cross-entropy": _cross_entropy,
    "running sum": _running(False, False),
    "running sum, exclusive": _running(True, False),
    "running sum, reversed": _running(False, True),
    "running sum, exclusive and reversed": _running(True, True),
    "running sum of short integers": _running(False, True, "int8"),
    "running sum of softmax": _normed_running_sum,
    "arg max": _arg_max,
    "sum": _plain("ReduceSum", F16),
    "product": _plain("ReduceProd", F32),
    "least": _plain("ReduceMin", BF16),
    "integers": _large_integers("int32"),
    "long integers": _large_integers("int64"),
    "any": _plain("ReduceAny", "bool"),
    "softmax of columns": _columns,
    "softmax of gathered rows": _gathered,
    **ONLINE,
    **WAITING,
}
#: With sums over rows.
SUMS: Mapping[str, Callable[[Any, Any], dict[str, Any]]] = {
    "norm backward": _norm_backward,
    "bias backward": _bias_backward,
}
#: Element by element.
MOVES: Mapping[str, Callable[[Any, Any], dict[str, Any]]] = {
    "concatenation and frame": _joined,
    "frame": _framed,
    "transposition": _turned,
}
