"""Edges of floats by target: every number of 16 bits through the ops of one operand, pairs through those of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from edge_numbers import FLOATS, edges
from op_graphs import CONDITION, DTYPES, TAME, VARIANTS

from autofuse import api
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import all_ops, lookup
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import evaluate

pytestmark = pytest.mark.twin

#: Target -> ops per kernel.
TARGETS = {"cpu": 40, "ascend910b1": 8, "ascend950pr": 8}
#: AiryAi has digits up to 20 only; in Axpy alpha times the largest bfloat16 is beyond float32, in eager too.
PARTIAL = frozenset({"AiryAi", "Axpy"})


def calls(arity: int, dtype: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every element-wise op of so many operands that takes the dtype, with its variants; casts to every dtype."""
    left_out = {*TAME, *CONDITION, *PARTIAL, "BitCast"}
    for row in all_ops(user=True):
        if row.compute_type != "elewise" or row.arity[0] != arity or row.name in left_out:
            continue
        attrs: Sequence[Mapping[str, Any]] = [{}, *VARIANTS.get(row.name, ())]
        if row.name == "Cast":
            attrs = [{"dtype": d} for d in DTYPES if d != dtype]
        for given in attrs:
            try:
                infer_node(lookup(row.name), operands(arity, dtype, 1), given)
            except OpError:
                continue
            yield row.name, given


def operands(arity: int, dtype: str, elements: int) -> list[Tensor]:
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


def wrong(target: str, arity: int, dtype: str, data: Sequence[np.ndarray]) -> tuple[int, list[str]]:
    """How many ops were tried, and the results that differ from NumPy's."""
    every = list(calls(arity, dtype))
    found = []
    for start in range(0, len(every), TARGETS[target]):
        some = every[start : start + TARGETS[target]]
        graph = graph_of(some, operands(arity, dtype, data[0].size))
        inputs = {f"x{i}": x for i, x in enumerate(data)}
        kernel = api.load(api.build(graph, target=target))
        got = kernel.run(inputs).outputs
        for name, reference in evaluate(graph, inputs, {}, flushes=kernel.flushes).items():
            compared = compare(name, got[name], reference, graph.tensors[name].dtype)
            if not compared.ok:
                op, attrs = some[int(name[1:])]
                at = [float(x[compared.first]) for x in data]
                found.append(
                    f"{op}{attrs}{at} is {compared.want}, not {compared.got}; {compared.wrong} wrong"
                )
    return len(every), found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_ops_of_one_operand(dtype: str, target: str) -> None:
    tried, found = wrong(target, 1, dtype, [edges(dtype)])
    assert tried > 80
    assert not found, "\n".join(found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_ops_of_two_operands(dtype: str, target: str) -> None:
    _, least, top = FLOATS[dtype]
    numbers = [0.0, least, 3 * least, 2.0**-14, 0.5, 1.0, 1.5, 2.0, 3.0, 100.0, top, np.inf]
    row = np.array([*numbers, *(-x for x in numbers), np.nan]).astype(edges(dtype).dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(row, row, indexing="ij"))
    tried, found = wrong(target, 2, dtype, [x, y])
    assert tried > 20
    assert not found, "\n".join(found)
