"""Graphs of every element-wise op side by side, and operands at the edges of a dtype: for every backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from edge_numbers import FLOATS, edges
from op_graphs import CONDITION, DTYPES, TAME, variants

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import all_ops, lookup

__all__ = ["calls", "graph_of", "operands_of", "pairs"]

#: AiryAi has digits up to 20 only.
PARTIAL = frozenset({"AiryAi"})


def calls(arity: int, dtype: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every element-wise op of so many operands that takes the dtype, with its variants; casts to every dtype."""
    left_out = {*TAME, *CONDITION, *PARTIAL, "BitCast"}
    for row in all_ops(user=True):
        if row.compute_type != "elewise" or row.arity[0] != arity or row.name in left_out:
            continue
        attrs: Sequence[Mapping[str, Any]] = [{}, *variants(row.name, dtype)]
        if row.name == "Cast":
            attrs = [{"dtype": d} for d in DTYPES if d != dtype]
        for given in attrs:
            try:
                infer_node(lookup(row.name), operands_of(arity, dtype, 1), given)
            except OpError:
                continue
            yield row.name, given


def operands_of(arity: int, dtype: str, elements: int) -> list[Tensor]:
    return [Tensor(f"x{i}", BY_NAME[dtype], (const(elements),)) for i in range(arity)]


def graph_of(
    some: Sequence[tuple[str, Mapping[str, Any]]], inputs: Sequence[Tensor]
) -> FusionGraph:
    """The ops side by side, each with an output."""
    tensors = {t.name: t for t in inputs}
    nodes, outputs = [], []
    for k, (op, attrs) in enumerate(some):
        kind, shape = infer_node(lookup(op), inputs, attrs)
        tensors[f"y{k}"] = Tensor(f"y{k}", kind, shape)
        names = tuple(t.name for t in inputs)
        nodes.append(FusionNode(f"n{k}", op, names, (f"y{k}",), attrs))
        outputs.append(GraphOutput(f"y{k}", f"y{k}"))
    given = tuple(t.name for t in inputs)
    return FusionGraph("edges", (), given, tuple(nodes), tuple(outputs), tensors)


def pairs(dtype: str) -> list[np.ndarray]:
    """Two operands that have every pair of edges, of a few numbers between, and of NaN."""
    _, least, top = FLOATS[dtype]
    numbers = [0.0, least, 3 * least, 2.0**-14, 0.5, 1.0, 1.5, 2.0, 3.0, 100.0, top, np.inf]
    row = np.array([*numbers, *(-x for x in numbers), np.nan]).astype(edges(dtype).dtype)
    return [a.reshape(-1) for a in np.meshgrid(row, row, indexing="ij")]
