"""Graphs for evaluating the choice: element-wise, with broadcasts, reductions, norms, moves, short rows."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["GRAPHS", "LONGEST", "graph_of", "kind_of", "random_sizes"]

F32, F16, BF16 = "float32", "float16", "bfloat16"
KEEP = {"axes": [1], "keepdims": True}
#: Number of symbols -> largest size of a symbol.
LONGEST = {1: 1 << 24, 2: 1 << 14}


def graph_of(
    name: str,
    inputs: Mapping[str, tuple[str, list[Any]]],
    nodes: Sequence[tuple[str, str, list[str], dict[str, Any]]],
    outputs: list[str],
) -> dict[str, Any]:
    """Return a graph document.

    Args:
        name: name of the graph.
        inputs: name -> dtype and shape, in which a string is a symbol.
        nodes: result, op, operands and attributes of each.
        outputs: names of results.
    """
    names = sorted({d for _, shape in inputs.values() for d in shape if isinstance(d, str)})
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": {s: {"min": 1, "max": LONGEST[len(names)]} for s in names},
        "inputs": [{"name": n, "dtype": d, "shape": s} for n, (d, s) in inputs.items()],
        "nodes": [
            {"name": f"node_{y}", "op": op, "inputs": i, "outputs": [y], "attrs": attrs}
            for y, op, i, attrs in nodes
        ],
        "outputs": outputs,
    }


def _chain(name: str, dtype: str, *ops: str) -> dict[str, Any]:
    steps = [(f"t{i}", op, [f"t{i - 1}" if i else "x"], {}) for i, op in enumerate(ops)]
    return graph_of(name, {"x": (dtype, ["n"])}, steps, [steps[-1][0]])


def _of_rows(name: str, dtype: str, *nodes: tuple[str, str, list[str], dict[str, Any]]) -> Any:
    return graph_of(name, {"x": (dtype, ["m", "n"])}, nodes, [nodes[-1][0]])


def _binary(name: str, dtype: str, op: str, x: list[Any], z: list[Any]) -> dict[str, Any]:
    return graph_of(name, {"x": (dtype, x), "z": (dtype, z)}, [("y", op, ["x", "z"], {})], ["y"])


def _rms_norm() -> dict[str, Any]:
    nodes = [
        ("q", "Mul", ["x", "x"], {}),
        ("s", "ReduceMean", ["q"], KEEP),
        ("r", "Rsqrt", ["s"], {}),
        ("a", "Mul", ["x", "r"], {}),
        ("y", "Mul", ["a", "w"], {}),
    ]
    return graph_of("rms_norm", {"x": (F32, ["m", "n"]), "w": (F32, ["n"])}, nodes, ["y"])


def _layer_norm() -> dict[str, Any]:
    nodes = [
        ("mu", "ReduceMean", ["x"], KEEP),
        ("d", "Sub", ["x", "mu"], {}),
        ("q", "Mul", ["d", "d"], {}),
        ("v", "ReduceMean", ["q"], KEEP),
        ("r", "Rsqrt", ["v"], {}),
        ("e", "Mul", ["d", "r"], {}),
        ("a", "Mul", ["e", "w"], {}),
        ("y", "Add", ["a", "b"], {}),
    ]
    inputs = {"x": (F32, ["m", "n"]), "w": (F32, ["n"]), "b": (F32, ["n"])}
    return graph_of("layer_norm", inputs, nodes, ["y"])


def _two_outputs() -> dict[str, Any]:
    nodes = [("a", "Add", ["x", "z"], {}), ("y", "Mul", ["a", "w"], {})]
    inputs = {n: (F16, ["n"]) for n in "xzw"}
    return graph_of("two_outputs", inputs, nodes, ["y", "a"])


def _gelu_row() -> dict[str, Any]:
    """Return a graph limited by the vector unit: the longest tiles are the best."""
    nodes = [("a", "Add", ["x", "z"], {}), ("y", "Gelu", ["a"], {})]
    return graph_of("gelu_row", {"x": (F32, ["m", "n"]), "z": (F32, ["n"])}, nodes, ["y"])


def _transposition() -> dict[str, Any]:
    nodes = [("t", "Transpose", ["x"], {"perm": [1, 0]}), ("y", "Abs", ["t"], {})]
    return _of_rows("transposition", F32, *nodes)


def _channels_last() -> dict[str, Any]:
    to_last = ("y", "Transpose", ["x"], {"perm": [0, 2, 1]})
    return graph_of("channels_last", {"x": (F16, ["m", 3, "n"])}, [to_last], ["y"])


#: Kind -> name -> graph.
GRAPHS: Mapping[str, Mapping[str, dict[str, Any]]] = {
    kind: {g["name"]: g for g in graphs}
    for kind, graphs in {
        "element-wise": (
            _chain("abs", F32, "Abs"),
            _chain("abs_half", F16, "Abs"),
            _chain("abs_byte", "int8", "Abs"),
            _chain("exp_bfloat", BF16, "Exp"),
            _chain("gelu", F32, "Gelu"),
            _chain("chain", F32, "Abs", "Exp", "Sqrt", "Neg"),
            _binary("add", F32, "Add", ["n"], ["n"]),
            _two_outputs(),
        ),
        "broadcast": (
            _binary("add_row", F32, "Add", ["m", "n"], ["n"]),
            _binary("add_row_half", F16, "Add", ["m", "n"], ["n"]),
            _binary("mul_column", F32, "Mul", ["m", "n"], ["m", 1]),
            _binary("mul_middle", F32, "Mul", ["m", 7, "n"], ["m", 1, "n"]),
            _gelu_row(),
        ),
        "reduction": (
            _of_rows("sum_rows", F32, ("y", "ReduceSum", ["x"], KEEP)),
            _of_rows("max_rows_half", F16, ("y", "ReduceMax", ["x"], KEEP)),
            _of_rows("sum_columns", F32, ("y", "ReduceSum", ["x"], {**KEEP, "axes": [0]})),
        ),
        "norm": (
            _of_rows("softmax", F32, ("y", "Softmax", ["x"], {"axis": 1})),
            _of_rows("softmax_half", F16, ("y", "Softmax", ["x"], {"axis": 1})),
            _rms_norm(),
            _layer_norm(),
        ),
        "move": (
            _transposition(),
            _of_rows("running_sum", F32, ("y", "CumSum", ["x"], {"axis": 1})),
        ),
        "short rows": (
            _binary("mul_pairs", F32, "Mul", ["n", 2], ["n", 1]),
            _channels_last(),
        ),
    }.items()
}


def kind_of(name: str) -> str:
    """Return the kind of a graph."""
    return next(kind for kind, graphs in GRAPHS.items() if name in graphs)


def random_sizes(names: Sequence[str], random_: random.Random) -> dict[str, int]:
    """Return a size for every symbol, log-uniform; four in ten are powers of two."""
    most = LONGEST[len(names)].bit_length() - 1
    return {
        n: 1 << random_.randint(0, most)
        if random_.random() < 0.4
        else int(2.0 ** random_.uniform(0, most))
        for n in names
    }
