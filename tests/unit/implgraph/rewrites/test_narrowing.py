"""Integers in int32 and float32: what becomes narrow, what stays, and that the numbers are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lowering_checks import graph

from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, Symbol
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.rewrites.narrowing import narrowed
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
LONG = BY_NAME["int64"]
EDGE = 1 << 24


def number(value, dtype="int64"):
    return Constant(value, BY_NAME[dtype])


def line(size, dtype="int64", **attrs):
    shape = (sym(size) if isinstance(size, str) else const(size),)
    return {"shape": shape, "axis": 0, "dtype": dtype, **attrs}


def types(g):
    """Dtypes of the operands, or results, of all nodes."""
    return [(n.op, str(g.tensors[n.outputs[0]].dtype)) for n in g.nodes]


def consistent(g):
    """Every tensor is what inference makes of its node."""
    for n in g.nodes:
        operands = [g.tensors[x] if isinstance(x, str) else x for x in n.inputs]
        y = g.tensors[n.outputs[0]]
        assert infer_node(lookup(n.op), operands, dict(n.attrs)) == (y.dtype, y.shape), n
    assert len({n.name for n in g.nodes}) == len(g.nodes)
    return g


def narrow(g, target=CHIP):
    return consistent(narrowed(g, target))


def same(g, *arrays, env=None):
    """The narrow graph gives the same elements, to the sign of a zero; its results."""
    made = narrow(g)
    env = env or {}
    want = interpret(canonicalise(lower(g)), [a.ravel() for a in arrays], env)
    got = interpret(canonicalise(lower(made)), [a.ravel() for a in arrays], env)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
        if a.dtype.kind == "f":
            assert np.array_equal(np.signbit(a), np.signbit(b))
    return made


def offset(size, symbols=(), most=1 << 20):
    """The mask of a causal softmax."""
    n = sym(size) if isinstance(size, str) else const(size)
    nodes = [
        ("i", "Iota", [], line(size)),
        ("a", "Reshape", ["i"], {"shape": (const(1), n)}),
        ("b", "Reshape", ["i"], {"shape": (n, const(1))}),
        ("d", "Sub", ["a", "b"]),
        ("m", "LessEqual", ["d", number(0)]),
    ]
    made = graph({"x": (size,)}, nodes, ["m"], symbols=symbols)
    return replace(made, symbols=tuple(Symbol(s, 0, most) for s in symbols))


def test_small_indices_are_floats():
    made = same(offset(9), np.zeros(9, np.float32))
    assert types(made)[0] == ("Iota", "float32")
    assert ("Sub", "float32") not in types(made)  # a - b <= 0 is a <= b
    assert not any(d == "int64" for _, d in types(made))


def test_of_symbols_the_largest_size_counts():
    small = narrow(offset("n", ("n",)))
    assert {d for _, d in types(small)} == {"float32", "bool"}
    large = narrow(offset("n", ("n",), 1 << 31))
    assert {d for _, d in types(large)} == {"int32", "bool"}
    huge = narrow(offset("n", ("n",), 1 << 40))
    assert types(huge)[-1] == ("LessEqual", "bool")
    assert {d for _, d in types(huge)} == {"int64", "bool"}


AROUND = np.array(
    [
        *(s * (EDGE + d) for s in (-1, 1) for d in range(-3, 4)),
        *(0, 1, -1, -100, (1 << 31) - 1, -(1 << 31), (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)),
    ],
    np.int64,
)


@pytest.mark.parametrize(
    "op", ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]
)
@pytest.mark.parametrize("value", [0, -100, EDGE - 1, 1 - EDGE])
def test_any_number_compares_with_a_small_one(op, value):
    g = graph({"x": ((len(AROUND),), "int64")}, [("y", op, ["x", number(value)])], ["y"])
    made = same(g, AROUND)
    assert types(made)[0] == ("Cast", "float32")


@pytest.mark.parametrize("value", [EDGE, -EDGE, EDGE + 1])
def test_numbers_at_the_edge_do_not(value):
    """2^24 + 1 is rounded to 2^24."""
    g = graph({"x": ((4,), "int64")}, [("y", "Equal", ["x", number(value)])], ["y"])
    assert narrowed(g, CHIP) is g


def test_what_is_selected_compares_as_well():
    nodes = [
        ("m", "NotEqual", ["x", number(-100)]),
        ("s", "Select", ["m", "x", number(0)]),
        ("r", "Reshape", ["s"], {"shape": (const(len(AROUND)), const(1))}),
        ("i", "Iota", [], line(30)),
        ("y", "Equal", ["r", "i"]),
    ]
    made = same(graph({"x": ((len(AROUND),), "int64")}, nodes, ["y"]), AROUND)
    assert not any(d == "int64" for _, d in types(made))


def test_a_place_to_gather_from_keeps_its_type():
    nodes = [
        ("m", "NotEqual", ["x", number(-100)]),
        ("s", "Select", ["m", "x", number(0)]),
        ("g", "Gather", ["t", "s"], {"axis": 0}),
    ]
    made = narrow(graph({"t": (7,), "x": ((4,), "int64")}, nodes, ["g"]))
    gather = next(n for n in made.nodes if n.op == "Gather")
    assert made.tensors[gather.inputs[1]].dtype == LONG


def test_one_cast_at_the_end_of_what_leaves():
    nodes = [
        ("c", "Cast", ["x"], {"dtype": "int64"}),
        ("s", "CumSum", ["c"], {"axis": 0}),
        ("p", "Mul", ["s", "c"]),
        ("y", "Add", ["p", number(1)]),
    ]
    rng = np.random.default_rng(0)
    made = same(graph({"x": ((50,), "bool")}, nodes, ["y"]), rng.random(50) < 0.5)
    assert [d for _, d in types(made)].count("int64") == 1
    assert types(made)[-1] == ("Cast", "int64")


def test_no_zero_gets_a_sign():
    nodes = [
        ("i", "Iota", [], line(5)),
        ("n", "Neg", ["i"]),
        ("m", "Mul", ["i", number(-3)]),
        ("f", "Cast", ["n"], {"dtype": "float32"}),
        ("g", "Cast", ["m"], {"dtype": "float32"}),
        ("h", "Cast", ["m"], {"dtype": "float16"}),
    ]
    made = same(graph({"x": (5,)}, nodes, ["f", "g", "h"]), np.zeros(5, np.float32))
    assert not any(d == "int64" for _, d in types(made))


def test_divisions_are_of_32_bits():
    nodes = [
        ("i", "Iota", [], line(40, start=-20)),
        ("q", "FloorDiv", ["i", number(7)]),
        ("r", "Remainder", ["i", number(-7)]),
        ("y", "Equal", ["q", "r"]),
    ]
    made = same(graph({"x": (5,)}, nodes, ["y"]), np.zeros(5, np.float32))
    assert ("FloorDiv", "int32") in types(made)


def test_the_least_number_by_minus_one_stays():
    nodes = [
        ("c", "Cast", ["x"], {"dtype": "int64"}),
        ("y", "TruncDiv", ["c", number(-1)]),
    ]
    g = graph({"x": ((4,), "int32")}, nodes, ["y"])
    assert narrowed(g, CHIP) is g


@pytest.mark.parametrize(("count", "narrow_sum"), [(1 << 10, True), (1 << 17, False)])
def test_sums_are_floats_while_all_partial_sums_are_exact(count, narrow_sum):
    nodes = [
        ("c", "Cast", ["x"], {"dtype": "int64"}),
        ("s", "ReduceSum", ["c"], {"axes": (0,)}),
        ("y", "Cast", ["s"], {"dtype": "float32"}),
    ]
    made = narrow(graph({"x": ((count, 3), "uint8")}, nodes, ["y"]))
    assert (("ReduceSum", "float32") in types(made)) is narrow_sum
    assert ("ReduceSum", "int64") not in types(made)


def test_largest_of_no_elements_is_not_an_infinity():
    nodes = [
        ("m", "ReduceMax", ["x"], {"axes": (0,)}),
        ("y", "Less", ["m", number(5)]),
        ("z", "Cast", ["m"], {"dtype": "float32"}),
    ]
    made = narrow(graph({"x": (("n", 3), "int64")}, nodes, ["y", "z"], symbols=("n",)))
    assert ("ReduceMax", "float32") not in types(made)


@pytest.mark.parametrize(
    "nodes",
    [
        [("y", "Equal", ["w", number(3, "int32")])],
        [("y", "Add", ["w", number(3, "int32")])],
        [("y", "Add", ["x", number(3)])],
        [("y", "Iota", [], line(8))],
        [("y", "Equal", ["x", "x"])],
    ],
    ids=[
        "int32 equal",
        "int32 sum",
        "sum of what is not known",
        "indices as they are",
        "two of any size",
    ],
)
def test_what_gains_nothing_stays(nodes):
    g = graph({"w": ((8,), "int32"), "x": ((8,), "int64")}, nodes, ["y"])
    assert narrowed(g, CHIP) is g


def test_a_chip_without_casts_of_64_bits():
    """The 310P computes indices in floats all the same, but what is loaded stays in words."""
    chip = load_target("ascend310p")
    made = narrow(offset(9), chip)
    assert {d for _, d in types(made)} == {"float32", "bool"}
    g = graph({"x": ((4,), "int64")}, [("y", "Less", ["x", number(5)])], ["y"])
    assert narrowed(g, chip) is g


@pytest.mark.parametrize(
    "op", ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]
)
@pytest.mark.parametrize("first", [False, True])
def test_a_difference_compared_with_0(op, first):
    nodes = [
        ("c", "Cast", ["u"], {"dtype": "int32"}),
        ("d", "Sub", ["c", number(3, "int32")]),
        ("y", op, [number(0, "int32"), "d"] if first else ["d", number(0, "int32")]),
    ]
    made = same(graph({"u": ((8,), "uint8")}, nodes, ["y"]), np.arange(8, dtype=np.uint8))
    assert "Sub" not in dict(types(made))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32"])
def test_a_difference_that_may_wrap_is_made(dtype):
    """-2^31 - 1 is not below 0, nor is inf - inf 0."""
    nodes = [("d", "Sub", ["a", "b"]), ("y", "Less", ["d", number(0, dtype)])]
    made = narrow(graph({"a": ((4,), dtype), "b": ((4,), dtype)}, nodes, ["y"]))
    assert "Sub" in dict(types(made))


def test_a_difference_with_another_use_is_made_once():
    nodes = [
        ("c", "Cast", ["u"], {"dtype": "int32"}),
        ("d", "Sub", ["c", number(3, "int32")]),
        ("y", "Less", ["d", number(0, "int32")]),
    ]
    made = narrow(graph({"u": ((8,), "uint8")}, nodes, ["y", "d"]))
    assert [op for op, _ in types(made)].count("Sub") == 1
    less = next(n for n in made.nodes if n.op == "Less")
    assert any(isinstance(x, Constant) for x in less.inputs)
