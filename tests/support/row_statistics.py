"""Graphs of what is made of the statistics of rows, and rows with all that is special, for tests on the CPU twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from twin_graphs import graph

ROWS = {"axes": [1], "keepdims": True}
#: Nodes: (result, op, operands, attributes).
MEAN: list[tuple[Any, ...]] = [
    ("m", "ReduceMean", ["x"], ROWS),
    ("d", "Sub", ["x", "m"]),
    ("q", "Mul", ["d", "d"]),
    ("v", "ReduceMean", ["q"], ROWS),
]
VARIANCE = [*MEAN, ("y", "Neg", ["v"])]
NORM = [*MEAN, ("a", "Add", ["v", 1e-5]), ("r", "Rsqrt", ["a"]), ("y", "Mul", ["d", "r"])]
POWERS: list[tuple[Any, ...]] = [
    ("m", "ReduceMax", ["x"], ROWS),
    ("d", "Sub", ["x", "m"]),
    ("e", "Exp", ["d"]),
    ("s", "ReduceSum", ["e"], ROWS),
]
LOG_SUM = [*POWERS, ("l", "Ln", ["s"]), ("y", "Add", ["l", "m"])]
SOFTMAX: list[tuple[Any, ...]] = [("y", "Softmax", ["x"], {"axis": 1})]
LOG_SOFTMAX: list[tuple[Any, ...]] = [("y", "LogSoftmax", ["x"], {"axis": 1})]
COVARIANCE: list[tuple[Any, ...]] = [
    ("m", "ReduceMean", ["x"], ROWS),
    ("n", "ReduceMean", ["z"], ROWS),
    ("d", "Sub", ["x", "m"]),
    ("f", "Sub", ["z", "n"]),
    ("q", "Mul", ["d", "f"]),
    ("y", "ReduceMean", ["q"], ROWS),
]
#: Powers of a multiple, with factors of their own.
WEIGHTED: list[tuple[Any, ...]] = [
    *POWERS[:2],
    ("k", "Mul", ["d", 0.125]),
    ("e", "Exp", ["k"]),
    ("w", "Mul", ["e", "z"]),
    ("y", "ReduceSum", ["w"], ROWS),
]


def statistics(
    nodes: Sequence[tuple[Any, ...]],
    shape: Sequence[Any],
    outputs: Sequence[str] = ("y",),
    dtype: str = "float32",
    **symbols: Mapping[str, int],
) -> dict[str, Any]:
    """A graph of these nodes, over those of ``x`` and ``z`` that they use."""
    used = sorted({x for _, _, xs, *_ in nodes for x in xs if x in ("x", "z")})
    return graph({n: (dtype, shape) for n in used}, nodes, outputs, **symbols)


def along(nodes: Sequence[tuple[Any, ...]], axes: Sequence[int]) -> list[tuple[Any, ...]]:
    """The same nodes with reductions of other axes."""
    attrs = {"axes": list(axes), "keepdims": True}
    return [(*n[:3], attrs) if n[1].startswith("Reduce") else n for n in nodes]


def log_sum(x: np.ndarray) -> np.ndarray:
    """What LOG_SUM is."""
    top = x.max(1, keepdims=True)
    return np.log(np.exp(x - top).sum(1, keepdims=True)) + top


def softmax(x: np.ndarray) -> np.ndarray:
    """What SOFTMAX is."""
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


#: Nodes, and what they are in NumPy.
POWERS_OF_ROWS: dict[str, tuple[list[tuple[Any, ...]], Callable[[np.ndarray], np.ndarray]]] = {
    "softmax": (SOFTMAX, softmax),
    "log sum": (LOG_SUM, log_sum),
}


def special_rows(n: int) -> np.ndarray:
    """Rows with infinities and NaN at either end and within, and with nothing else."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(14, n)).astype(np.float32)
    x[0] = -np.inf
    x[1, : n // 2] = -np.inf
    x[2, n // 2 :] = -np.inf
    x[3, 5], x[4, n // 2], x[5, -1] = np.inf, np.inf, np.inf
    x[6, 0], x[7, n // 2], x[8, -1] = np.nan, np.nan, np.nan
    x[9], x[9, 3] = -np.inf, np.inf
    x[10] = np.finfo(np.float32).min
    x[11, ::2] = -3e38
    x[12] = np.linspace(-1000, 1000, n)
    x[13] = np.linspace(1000, -1000, n)
    return x
