"""Random inputs and sizes to try."""

import ctypes
import pickle
import zlib
from dataclasses import replace

import numpy as np

from autofuse import api
from autofuse.implgraph.expr.expression import CeilDiv, const, sym
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import (
    Constant,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.machines.twin.oracle.data import divisors, positive_inputs, random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.oracle.sizes import largest_tensor, shapes_for


def graph(nodes, inputs, d="float32", n=5000):
    names = {*inputs, *(x for node in nodes for x in node.outputs)}
    tensors = {x: Tensor(x, dtype(d), (const(n),)) for x in names}
    return FusionGraph("g", (), inputs, nodes, (GraphOutput("o", nodes[-1].outputs[0]),), tensors)


def test_the_seed_decides():
    g = graph((FusionNode("n", "Add", ("x", "y"), ("z",)),), ("x", "y"))
    a, b, c = (random_inputs(g, {}, s) for s in (1, 1, 2))
    assert np.array_equal(a["x"], b["x"])
    assert not np.array_equal(a["x"], c["x"])
    assert not np.array_equal(a["x"], a["y"])


def test_floats_have_both_signs_zeros_and_ties():
    g = graph((FusionNode("n", "Add", ("x", "y"), ("z",)),), ("x", "y"), "float16")
    a = random_inputs(g, {}, 0)
    x, y = a["x"], a["y"]
    assert x.dtype == np.float16
    assert np.isfinite(x).all()
    assert (x > 0).any()
    assert (x < 0).any()
    assert (x == 0).any()
    assert (x == y).any()


def test_roots_and_logarithms_get_positive_numbers():
    nodes = (
        FusionNode("a", "Mul", ("x", "y"), ("p",)),
        FusionNode("b", "Add", ("p", Constant(1e-5)), ("q",)),
        FusionNode("c", "Rsqrt", ("q",), ("r",)),
        FusionNode("d", "Mul", ("r", "w"), ("s",)),
    )
    g = graph(nodes, ("x", "y", "w"))
    assert positive_inputs(g) == {"x", "y"}
    a = random_inputs(g, {}, 0)
    assert (a["x"] > 0).all()
    assert (a["w"] < 0).any()


def test_what_is_positive_anyway_is_left_alone():
    nodes = (FusionNode("a", "Exp", ("x",), ("p",)), FusionNode("b", "Ln", ("p",), ("q",)))
    assert positive_inputs(graph(nodes, ("x",))) == set()
    nodes = (FusionNode("a", "Pow", ("x", Constant(2.0)), ("p",)),)
    assert positive_inputs(graph(nodes, ("x",))) == set()
    nodes = (FusionNode("a", "Pow", ("x", Constant(0.3)), ("p",)),)
    assert positive_inputs(graph(nodes, ("x",))) == {"x"}


def test_what_a_selection_gives_to_a_logarithm_is_positive():
    nodes = (
        FusionNode("a", "Equal", ("x", Constant(0.0)), ("c",)),
        FusionNode("b", "Select", ("c", "y", "x"), ("p",)),
        FusionNode("d", "Ln", ("p",), ("q",)),
        FusionNode("e", "Add", ("q", "w"), ("r",)),
    )
    g = graph(nodes, ("x", "y", "w"))
    tensors = {**g.tensors, "c": replace(g.tensors["c"], dtype=dtype("bool"))}
    assert positive_inputs(replace(g, tensors=tensors)) == {"x", "y"}


def test_divisor_of_everything_is_not_zero():
    one, many = (const(1),), (const(9),)
    nodes = (
        FusionNode("a", "Neg", ("k",), ("m",)),
        FusionNode("b", "Div", ("x", "m"), ("p",)),
        FusionNode("c", "Div", ("y", "x"), ("q",)),
        FusionNode("d", "ReduceSum", ("q",), ("r",), {"axes": (0,), "keepdims": True}),
        FusionNode("e", "Div", ("p", "z"), ("s",)),
    )
    g = graph(nodes, ("k", "x", "y", "z"))
    sizes = dict.fromkeys(g.tensors, many) | dict.fromkeys(("k", "m", "r"), one)
    g = replace(g, tensors={n: replace(t, shape=sizes[n]) for n, t in g.tensors.items()})
    # Of z, one zero makes one result infinite: that stays.
    assert divisors(g) == {"k", "x"}
    for seed in range(200):
        a = random_inputs(g, {}, seed)
        assert a["k"].all()
        assert a["x"].all()
    assert any((random_inputs(g, {}, s)["z"] == 0).any() for s in range(200))


def test_integers_reach_their_limits():
    g = graph((FusionNode("n", "Add", ("x", "y"), ("z",)),), ("x", "y"), "int16")
    x = random_inputs(g, {}, 0)["x"]
    assert x.max() == 32767
    assert np.median(np.abs(x.astype(int))) <= 100


def test_strided_inputs_lie_in_poison():
    t = Tensor("x", dtype("float32"), (const(3), const(4)), (const(8), const(1)), const(2))
    y = Tensor("y", dtype("float32"), (const(3), const(4)))
    nodes = (FusionNode("n", "Abs", ("x",), ("y",)),)
    g = FusionGraph("g", (), ("x",), nodes, (GraphOutput("y", "y"),), {"x": t, "y": y})
    x = random_inputs(g, {}, 0)["x"]
    assert x.strides == (32, 4)
    before = (ctypes.c_float * 2).from_address(x.ctypes.data - 8)
    between = (ctypes.c_float * 4).from_address(x.ctypes.data + 16)
    assert np.isnan([*before, *between]).all()
    assert np.isfinite(x).all()


def test_special_numbers_are_mixed_in_on_request():
    g = graph((FusionNode("n", "Add", ("x", "y"), ("z",)),), ("x", "y"))
    x = random_inputs(g, {}, 0, special=True)["x"]
    assert np.isnan(x).any()
    assert np.isinf(x).any()


def two_symbols(low=1, high=1 << 20):
    shape = (sym("s0"), CeilDiv(sym("s1"), 2))
    t = {k: Tensor(k, dtype("float32"), shape) for k in "xy"}
    symbols = (Symbol("s0", low, high, 100), Symbol("s1", low, high))
    nodes = (FusionNode("n", "Abs", ("x",), ("y",)),)
    return FusionGraph("g", symbols, ("x",), nodes, (GraphOutput("y", "y"),), t)


def test_a_static_graph_has_one_binding():
    g = graph((FusionNode("n", "Abs", ("x",), ("z",)),), ("x",))
    assert shapes_for(g, 5, 0) == [{}]


def test_sizes_start_with_the_hint_and_reach_the_ends():
    g = two_symbols(0)
    found = shapes_for(g, 8, 3)
    assert len(found) == 8
    assert found[0] == {"s0": 100, "s1": 64}
    assert {"s0": 0, "s1": 0} in found
    assert {"s0": 1, "s1": 1} in found
    assert all(largest_tensor(g, b) <= 1 << 20 for b in found)
    assert max(largest_tensor(g, b) for b in found) > 1 << 17
    assert found == shapes_for(g, 8, 3)
    assert found != shapes_for(g, 8, 4)


def test_a_large_tensor_of_fixed_size_does_not_make_the_symbols_small():
    ids, table = (sym("n"),), (const(32_000), const(768))
    tensors = {
        "table": Tensor("table", dtype("float16"), table),
        "ids": Tensor("ids", dtype("int32"), ids),
        "rows": Tensor("rows", dtype("float16"), (sym("n"), const(768))),
    }
    take = FusionNode("take", "Gather", ("table", "ids"), ("rows",), {"axis": 0})
    outputs = (GraphOutput("o", "rows"),)
    symbols = (Symbol("n", 1, 1 << 17, 512),)
    g = FusionGraph("g", symbols, ("table", "ids"), (take,), outputs, tensors)
    found = shapes_for(g, 4, 0)
    assert found[0] == {"n": 512}
    assert len(found) == 4
    assert all(b["n"] * 768 <= 1 << 20 for b in found)


def test_sizes_stay_in_their_ranges():
    for b in shapes_for(two_symbols(7, 9), 20, 0):
        assert all(7 <= v <= 9 for v in b.values())


def test_data_are_the_same_on_every_machine():
    """Made by operations that IEEE 754 rounds exactly: no function of a C library, which differ by CPU."""
    found = {}
    for d in ("float32", "float16", "bfloat16", "int32", "bool"):
        op = "LogicalAnd" if d == "bool" else "Add"
        data = random_inputs(
            graph((FusionNode("n", op, ("x", "y"), ("z",)),), ("x", "y"), d), {}, 7
        )
        found[d] = [zlib.crc32(a.tobytes()) for a in data.values()]
        if d == "float32":
            sizes = np.abs(data["x"][data["x"] != 0])
            assert 0.125 <= sizes.min() < sizes.max() <= 8
    assert found == {
        "float32": [1989434939, 1756598194],
        "float16": [1915840598, 1056706894],
        "bfloat16": [1298691359, 1505043417],
        "int32": [3245839647, 2142531370],
        "bool": [357245164, 2585488780],
    }


def test_special_bools_have_other_bytes_and_the_reference_takes_them_for_truths():
    g = graph((FusionNode("n", "Equal", ("x", "y"), ("z",)),), ("x", "y"), "bool")
    plain, special = (random_inputs(g, {}, 7, special=s) for s in (False, True))
    assert set(plain["x"].view(np.uint8)) == {0, 1}
    assert {0, 1, 2, 255} <= set(special["x"].view(np.uint8))
    truths = {n: a.view(np.uint8) != 0 for n, a in special.items()}
    assert np.array_equal(truths["x"], plain["x"])
    found = evaluate(g, special, {})["o"].value
    assert found.tobytes() == (truths["x"] == truths["y"]).tobytes()


def test_a_graph_that_was_pickled_is_built_as_it_was():
    """Dtypes are compared by ``is``."""
    g = graph((FusionNode("n", "Mod", ("x", "y"), ("z",)),), ("x", "y"), "int32")
    again = pickle.loads(pickle.dumps(g))
    assert all(t.dtype is again.tensors[n].dtype for n, t in g.tensors.items())
    assert api.build(again).files == api.build(g).files
