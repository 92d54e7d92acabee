"""Edges of floats by target: every number of 16 bits through the ops of one operand, pairs through those of two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from edge_graphs import calls, graph_of, operands_of, pairs
from edge_numbers import FLOATS, edges

from autofuse import api
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import evaluate

pytestmark = [pytest.mark.sampled(1), pytest.mark.twin]

#: Target -> ops per kernel.
TARGETS = {"cpu": 40, "ascend910b1": 8, "ascend950pr": 8}


def wrong(target: str, arity: int, dtype: str, data: Sequence[np.ndarray]) -> tuple[int, list[str]]:
    """Return the number of tried ops, and the results that differ from NumPy's."""
    every = list(calls(arity, dtype))
    found = []
    for start in range(0, len(every), TARGETS[target]):
        some = every[start : start + TARGETS[target]]
        graph = graph_of(some, operands_of(arity, dtype, data[0].size))
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
    tried, found = wrong(target, 2, dtype, pairs(dtype))
    assert tried > 20
    assert not found, "\n".join(found)
