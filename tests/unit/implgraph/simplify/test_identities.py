"""Ops on truths that give one of their operands."""

import numpy as np
import pytest
from lowering_checks import graph

from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise

BOOL = BY_NAME["bool"]


def result(nodes, a, b, outputs=("y",)):
    """The ops that are left, of a graph that means the same."""
    g = graph({"a": ((7,), "bool"), "b": ((7,), "bool"), "f": (7,)}, nodes, list(outputs))
    plain = lower(g)
    short = canonicalise(plain)
    assert verify(short) == []
    floats = np.linspace(-1, 2, 7, dtype=np.float32)
    want, got = (interpret(h, [a, b, floats], {}) for h in (plain, short))
    for x, y in zip(got, want, strict=True):
        assert np.array_equal(x, y)
    return [n.op for n in short.nodes if n.op not in ("Data", "Load", "Store", "Output", "Scalar")]


A, B = np.arange(7) % 2 == 0, np.arange(7) % 3 == 0
TRUE, FALSE = Constant(True, BOOL), Constant(False, BOOL)


@pytest.mark.parametrize(
    ("op", "operands", "left"),
    [
        ("LogicalAnd", ["m", TRUE], ["Less"]),
        ("LogicalAnd", [TRUE, "m"], ["Less"]),
        ("LogicalOr", ["m", FALSE], ["Less"]),
        ("LogicalXor", [FALSE, "m"], ["Less"]),
        ("LogicalAnd", ["m", FALSE], ["Less", "LogicalAnd"]),
        ("LogicalXor", ["m", TRUE], ["Less", "LogicalXor"]),
        ("Select", [TRUE, "m", "a"], ["Less"]),
        ("Select", [FALSE, "a", "m"], ["Less"]),
        ("Select", ["m", "a", TRUE], ["Less", "Select"]),
    ],
    ids=str,
)
def test_constants(op, operands, left):
    nodes = [("m", "Less", ["f", Constant(0.5, BY_NAME["float32"])]), ("y", op, operands)]
    assert result(nodes, A, B) == left


def test_of_a_number_it_makes_a_truth():
    one = Constant(1.0, BY_NAME["float32"])
    assert result([("y", "LogicalAnd", ["f", one])], A, B) == ["LogicalAnd"]


def test_not_not():
    nodes = [
        ("m", "LogicalAnd", ["a", "b"]),
        ("n", "LogicalNot", ["m"]),
        ("y", "LogicalNot", ["n"]),
    ]
    assert result(nodes, A, B) == ["LogicalAnd"]


def test_a_constant_is_not_stored_without_a_broadcast():
    nodes = [("y", "Select", [TRUE, Constant(2.0, BY_NAME["float32"]), "f"])]
    assert result(nodes, A, B) in (["Select"], ["Broadcast"])
