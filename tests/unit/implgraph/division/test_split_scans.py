"""Long running sums in parts, and the bounds of what a division leaves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowering_checks import graph

from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.division.split_reductions import split_reductions
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import FloorDiv, Mod, sym
from autofuse.implgraph.expr.remainders import tight_bounds
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, Symbol
from autofuse.implgraph.lowering.lowering import groups, lower_all
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
FLAGS = [{"exclusive": e, "reverse": r} for e, r in itertools.product((False, True), (False, True))]


def summed(shape, axis, dtype="float32", most=1 << 22, **flags) -> FusionGraph:
    nodes = [("y", "CumSum", ["x"], {"axis": axis, **flags})]
    made = graph({"x": tuple(shape)}, nodes, ["y"], dtype=dtype)
    symbols = tuple(Symbol(s, 0, most) for s in shape if isinstance(s, str))
    return replace(made, symbols=symbols)


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("size", [300_007, 300_001, 48 * 8192, "n"])
def test_every_step_is_what_inference_makes_of_its_operands(size, flags):
    g = split_reductions(decompose(summed((size,), 0, **flags)), CHIP, symbolic=True)
    assert sum(n.op == "CumSum" for n in g.nodes) >= 2
    assert sum(n.op == "ReduceSum" for n in g.nodes) >= 1
    for n in g.nodes:
        operands = [g.tensors[x] if isinstance(x, str) else x for x in n.inputs]
        y = g.tensors[n.outputs[0]]
        made, shape = infer_node(lookup(n.op), operands, dict(n.attrs))
        assert made == y.dtype
        # Together parts and rest are the whole, also where that takes a division to see.
        assert shape == y.shape, n.op


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        ((700,), 0, "float32"),
        ((4096, 1024), 1, "float32"),
        ((4096, 1024), 0, "float32"),
        ((0, 9), 1, "float32"),
    ],
)
def test_others_stay(shape, axis, dtype):
    """Short ones, and those of many rows or columns."""
    g = decompose(summed(shape, axis, dtype))
    assert sum(n.op == "CumSum" for n in split_reductions(g, CHIP).nodes) == sum(
        n.op == "CumSum" for n in g.nodes
    )


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"), [(("n",), 0), ((3, "n"), 1), (("n", 5), 0), ((2, "n", 3), 1)]
)
def test_sums_of_parts_are_those_of_rows(shape, axis, flags):
    g = summed(shape, axis, "int32", **flags)
    hint = canonicalise(lower_all(g, CHIP)[-1])
    assert verify(hint) == []
    assert len(groups(hint)) >= 4
    rng = np.random.default_rng(7)
    for n in (0, 1, 2, 47, 48, 49, 97, 1999):
        sizes = [s.evaluate({"n": n}) for s in g.tensors["x"].shape]
        x = rng.integers(-9, 9, sizes).astype(numpy_dtype(g.tensors["x"].dtype))
        (got,) = interpret(hint, [x.ravel()], {"n": n})
        y = np.flip(x, axis) if flags["reverse"] else x
        want = np.cumsum(y, axis) - (y if flags["exclusive"] else 0)
        want = np.flip(want, axis) if flags["reverse"] else want
        assert np.array_equal(got, want.astype(x.dtype).ravel()), n


# what a division leaves -----------------------------------------------------------------------


@given(
    st.integers(1, 99),
    st.integers(0, 500),
    st.integers(0, 500),
    st.integers(-3, 3),
    st.integers(-200, 200),
    st.integers(-40, 40),
)
def test_bounds_contain_every_value(k, low, more, factor, other, shift):
    """Of a polynomial in a number and its quotient; never wider than what plain intervals say."""
    n = sym("n")
    e = factor * n + other * FloorDiv(n + 7, k) + Mod(n, k) + shift
    ranges = {"n": (low, low + more)}
    least, most = tight_bounds(e, ranges)
    plain = bounds(e, ranges)
    assert plain[0] <= least
    assert most <= plain[1]
    for value in {low, low + more, low + more // 2, low + more // 3}:
        assert least <= e.evaluate({"n": value}) <= most


def test_what_is_left_is_less_than_the_divisor():
    n, ranges = sym("n"), {"n": (0, 1 << 30)}
    assert tight_bounds(n - 48 * FloorDiv(n, 48), ranges) == (0, 47)
    assert tight_bounds(n + 5 - 48 * FloorDiv(n + 5, 48), ranges) == (0, 47)
    assert bounds(n - 48 * FloorDiv(n, 48), ranges)[0] < 0
