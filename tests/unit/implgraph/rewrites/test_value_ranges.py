"""Intervals of integers hold everything that NumPy computes, and wrap where it does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowering_checks import graph

from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, Symbol
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.value_ranges import Ranges, limits

INT64 = BY_NAME["int64"]


def line(size, dtype="int64", **attrs):
    shape = (sym(size) if isinstance(size, str) else const(size),)
    return {"shape": shape, "axis": 0, "dtype": dtype, **attrs}


def of(nodes, inputs=None, most=1 << 20):
    made = graph(inputs or {}, nodes, [nodes[-1][0]], symbols=("n",))
    made = replace(made, symbols=(Symbol("n", 0, most),))
    return Ranges(made).tensor(nodes[-1][0])


@pytest.mark.parametrize(
    ("attrs", "want"),
    [
        (line(10), (0, 9)),
        (line(0), (0, 0)),
        (line(1, start=7), (7, 7)),
        (line(10, start=5, step=-2), (-13, 5)),
        (line("n"), (0, (1 << 20) - 1)),
    ],
)
def test_iota(attrs, want):
    assert of([("y", "Iota", [], attrs)]) == want


def test_inputs_and_casts_have_the_range_of_their_dtype():
    assert of([("y", "Cast", ["x"], {"dtype": "int64"})], {"x": ((4,), "uint8")}) == (0, 255)
    assert of([("y", "Cast", ["x"], {"dtype": "int64"})], {"x": ((4,), "bool")}) == (0, 1)
    whole = limits(BY_NAME["int32"])
    assert of([("y", "Cast", ["x"], {"dtype": "int32"})], {"x": ((4,), "int64")}) == whole
    assert of([("y", "Cast", ["x"], {"dtype": "int32"})], {"x": ((4,), "float32")}) == whole


def test_what_wraps_may_be_anything():
    nodes = [("i", "Iota", [], line(200, "int8")), ("y", "Add", ["i", "i"])]
    assert of(nodes) == (-128, 127)


def test_sums_grow_with_the_largest_size():
    shape = {"x": (("n", 3), "bool")}
    cast = ("c", "Cast", ["x"], {"dtype": "int64"})
    assert of([cast, ("y", "ReduceSum", ["c"], {"axes": (0,)})], shape) == (0, 1 << 20)
    assert of([cast, ("y", "CumSum", ["c"], {"axis": 1})], shape) == (0, 3)
    # Of no elements the largest is the end of the dtype.
    assert of([cast, ("y", "ReduceMax", ["c"], {"axes": (0,)})], shape) == limits(INT64)
    assert of([cast, ("y", "ReduceMax", ["c"], {"axes": (1,)})], shape) == (0, 1)


_BINARY = (
    "Add",
    "Sub",
    "Mul",
    "Maximum",
    "Minimum",
    "FloorDiv",
    "TruncDiv",
    "Remainder",
    "Fmod",
    "Mod",
)
_UNARY = ("Neg", "Abs", "Square", "Sign", "Relu")


@given(
    st.sampled_from(_BINARY + _UNARY),
    *[st.tuples(st.integers(-9, 9), st.integers(-3, 3), st.integers(1, 7))] * 2,
)
def test_every_result_is_inside(op, a, b):
    lines = {x: line(n, start=s, step=d) for x, (s, d, n) in {"a": a, "b": b}.items()}
    nodes = [(x, "Iota", [], attrs) for x, attrs in lines.items()]
    nodes += [("c", "Reshape", ["b"], {"shape": (const(b[2]), const(1))})]
    xs = ["a", "c"] if op in _BINARY else ["a"]
    low, high = of([*nodes, ("y", op, xs)])
    values = [s + d * np.arange(n, dtype=np.int64) for s, d, n in (a, b)]
    with np.errstate(divide="ignore"):
        got = lookup(op).reference([values[0], values[1][:, None]][: len(xs)], {})
    assert low <= got.min()
    assert got.max() <= high


def test_constants():
    x = {"x": ((4,), "bool")}
    assert of([("y", "Select", ["x", Constant(3, INT64), Constant(-7, INT64)])], x) == (-7, 3)
    # A size that only a call knows.
    size = Constant(0, INT64, sym("n"))
    assert of([("y", "Select", ["x", size, Constant(-7, INT64)])], x) == (-7, 1 << 20)


_REDUCTIONS = {
    "ReduceSum": lambda x: x.sum(1),
    "ReduceMax": lambda x: x.max(1),
    "ReduceMin": lambda x: x.min(1),
    "CumSum": lambda x: x.cumsum(1),
    "CumSum, exclusive": lambda x: x.cumsum(1) - x,
    "CumSum, reversed": lambda x: x[:, ::-1].cumsum(1),
    "ArgMax": lambda x: x.argmax(1),
    "ArgMin": lambda x: x.argmin(1),
}


@pytest.mark.parametrize("way", _REDUCTIONS)
@pytest.mark.parametrize("ends", [(3, 9), (-9, -3), (-4, 7), (0, 5), (-5, 0), (6, 6), (0, 0)])
@pytest.mark.parametrize("sizes", [(1, 40), (7, 40), (0, 40), (40, 40)])
def test_reductions_hold_the_results_of_every_size(way, ends, sizes):
    """Rows of the least, of the largest and of both numbers, as short and as long as they may be, are inside."""
    op, _, how = way.partition(", ")
    low, high = ends
    attrs = {"axis": 1} if op in ("CumSum", "ArgMax", "ArgMin") else {"axes": (1,)}
    attrs |= {"exclusive": {"exclusive": True}, "reversed": {"reverse": True}}.get(how, {})
    attrs |= {"dtype": "int64"} if op.startswith("Arg") else {}
    limited = ("c", "ClipByValue", ["x", Constant(low, INT64), Constant(high, INT64)])
    made = graph({"x": ((2, "n"), "int64")}, [limited, ("y", op, ["c"], attrs)], ["y"])
    found = Ranges(replace(made, symbols=(Symbol("n", *sizes),)))
    assert found.tensor("c") == ends
    at_least, at_most = found.tensor("y")
    for size in sorted({*sizes, (sizes[0] + sizes[1]) // 2}):
        rows = np.full((4, size), low, np.int64)
        rows[1], rows[2, ::2], rows[3, 1::2] = high, high, high
        if size or op == "ReduceSum":
            got = _REDUCTIONS[way](rows)
            assert at_least <= got.min()
            assert got.max() <= at_most
    if op in ("ReduceSum", "CumSum"):
        # No number is held that more elements than there may be would give.
        assert at_least >= min(low * sizes[1], 0)
        assert at_most <= max(high * sizes[1], 0)
