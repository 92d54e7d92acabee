"""A wrong sign is never taken for a rounding error, however wide the bound is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import evaluate


def _of_ops(dtype_name: str, nodes: list[FusionNode], **inputs: np.ndarray) -> Any:
    kind = dtype(dtype_name)
    tensors = {k: Tensor(k, kind, (const(v.size),)) for k, v in inputs.items()}
    for n in nodes:
        given = [tensors[x] if isinstance(x, str) else x for x in n.inputs]
        made, shape = infer_node(lookup(n.op), given, n.attrs)
        tensors[n.outputs[0]] = Tensor(n.outputs[0], made, shape)
    last = nodes[-1].outputs[0]
    graph = FusionGraph("g", (), tuple(inputs), tuple(nodes), (GraphOutput("y", last),), tensors)
    return evaluate(graph, inputs, {})["y"]


def _accepts(reference: Any, *got: float) -> bool:
    return compare("y", np.array(got, reference.value.dtype), reference, dtype("float32")).ok


@pytest.mark.parametrize(
    ("nodes", "x", "wrong"),
    [
        # Below the smallest normal number the bound is wider than the result.
        ([("Div", ("x", Constant(3.0)))], 1e-38, -3e-39),
        ([("Exp", ("x",))], -95.0, -5e-42),
        ([("Mul", ("x", Constant(1e-20))), ("Neg", ("n0",)), ("Tanh", ("n1",))], 1e-20, 1e-40),
        # The exponent of the exponential is off by more than 1.
        ([("Mul", ("x", "x")), ("Sub", ("n0", Constant(1e8))), ("Exp", ("n1",))], 10000.0, -1.0),
        ([("Pow", ("x", Constant(0.5)))], 1e-40, -1e-20),
    ],
)
def test_a_wrong_sign_is_no_rounding(nodes: Any, x: float, wrong: float) -> None:
    made = [FusionNode(f"n{k}", op, xs, (f"n{k}",), {}) for k, (op, xs) in enumerate(nodes)]
    found = _of_ops("float32", made, x=np.array([x], np.float32))
    value = float(found.value[0])
    assert found.tolerance is not None
    assert np.sign(wrong) != np.sign(value)
    assert _accepts(found, value)
    assert _accepts(found, 0.0) or found.tolerance[0] < abs(value)
    assert not _accepts(found, wrong)


def test_a_sum_with_cancellation_has_either_sign() -> None:
    nodes = [
        FusionNode("a", "Mul", ("x", Constant(0.1)), ("a",), {}),
        FusionNode("b", "Sub", ("a", Constant(0.3)), ("b",), {}),
        FusionNode("y", "Mul", ("b", "b"), ("y",), {}),
        FusionNode("z", "Mul", ("b", "x"), ("z",), {}),
    ]
    found = _of_ops("float32", nodes, x=np.array([3.0], np.float32))
    assert _accepts(found, 1e-8)
    assert _accepts(found, -1e-8)


def test_a_power_whose_exponent_may_be_odd_or_even_has_no_sign() -> None:
    nodes = [
        FusionNode("k", "Mul", ("x", Constant(16777216.0)), ("k",), {}),
        FusionNode("k1", "Add", ("k", Constant(1.0)), ("k1",), {}),
        FusionNode("y", "Pow", (Constant(-1.0), "k1"), ("y",), {}),
    ]
    found = _of_ops("float32", nodes, x=np.array([1.0], np.float32))
    assert found.ill_conditioned == 1
