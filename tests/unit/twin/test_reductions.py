"""The bounds of reductions hold for what a machine may do, and are not much larger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import dtype, numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import SAFETY, evaluate
from autofuse.machines.twin.oracle.reductions import moved
from autofuse.machines.twin.oracle.rounding import Value
from autofuse.report.op_support import allowed

F32 = np.float32
UNIT = 2.0**-24


def run(x: np.ndarray, *ops: tuple[str, dict[str, Any]]) -> Any:
    """The reference of unary ops in a row."""
    t = Tensor("x", next(d for d in map(dtype, NAMES) if numpy_dtype(d) == x.dtype), dims(x))
    tensors, nodes = {"x": t}, []
    for i, (op, attrs) in enumerate(ops):
        kind, shape = infer_node(lookup(op), [t], attrs)
        nodes.append(FusionNode(f"n{i}", op, (t.name,), (f"t{i}",), attrs))
        t = tensors[f"t{i}"] = Tensor(f"t{i}", kind, shape)
    g = FusionGraph("g", (), ("x",), tuple(nodes), (GraphOutput("out", t.name),), tensors)
    return evaluate(g, {"x": x}, {})["out"]


NAMES = ("float32", "float16", "bfloat16", "int32", "bool", "int64")


def dims(x: np.ndarray) -> tuple[Any, ...]:
    return tuple(map(const, x.shape))


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(F32)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 5000])
@pytest.mark.parametrize("positive", [False, True])
def test_a_sum_may_be_made_in_any_order(n, positive):
    x = np.abs(numbers(16, n)) if positive else numbers(16, n)
    ref = run(x, ("ReduceSum", {"axes": (1,)}))
    running = np.cumsum(x, axis=1, dtype=F32)[:, -1]
    pairwise = x.sum(axis=1, dtype=F32)
    backwards = np.cumsum(x[:, ::-1], axis=1, dtype=F32)[:, -1]
    tolerance = np.zeros(16) if ref.tolerance is None else ref.tolerance
    for other in (running, pairwise, backwards):
        assert (np.abs(other - ref.value.astype(np.float64)) <= tolerance).all()
    assert (tolerance <= 12 * UNIT * (np.sqrt(n) + 1) * np.abs(x).sum(axis=1)).all()


def test_equal_addends_one_after_another_are_too_far_off():
    """All roundings of a sum of 4800 addends go one way."""
    x = np.full((1, 4800), 0.1, F32)
    ref = run(x, ("ReduceSum", {"axes": (1,)}))
    line = np.cumsum(x, axis=1, dtype=F32)[:, -1]
    assert abs(float(line[0]) - float(ref.value[0])) / np.spacing(ref.value[0]) > 300
    assert not compare("out", line, ref, dtype("float32")).ok
    assert compare("out", x.sum(axis=1, dtype=F32), ref, dtype("float32")).ok


@pytest.mark.parametrize(
    ("op", "of"), [("ReduceSum", np.sum), ("ReduceMean", np.mean), ("ReduceProd", np.prod)]
)
def test_the_bound_that_is_printed_is_the_one_that_holds(op, of):
    row = lookup(op)
    x = 1 + F32(0.01) * numbers(1, 300)
    ref = run(x, (op, {"axes": (1,)}))
    exact = float(of(x.astype(np.float64)))
    text = allowed(row)
    growing = text.split("for n operands ")[1].split(" times 2^-24 of ")[0]
    units = eval(
        growing.replace("log2(n)", repr(float(np.log2(300)))).replace(
            " sqrt(n)", f" * {float(np.sqrt(300))!r}"
        ),
        {"n": 300},
    )
    ulp = float(text.split(" units")[0]) * 2.0**-23
    least = SAFETY * units * UNIT * exact
    assert least <= ref.tolerance[0] <= least + SAFETY * ulp * exact * 1.001


def test_sums_of_small_integers_are_exact():
    x = np.arange(-50, 50, dtype=F32).reshape(4, 25) / 4
    assert run(x, ("ReduceSum", {"axes": (0,)})).tolerance is None


def test_half_precision_is_rounded_once():
    x = numbers(4, 300).astype(np.float16)
    ref = run(x, ("ReduceSum", {"axes": (1,)}))
    assert (np.abs(x.astype(F32).sum(axis=1) - ref.value) <= ref.tolerance).all()
    assert (ref.tolerance <= 4 * np.spacing(np.abs(ref.value)).astype(float) + 1e-3).all()


def test_the_order_of_huge_numbers_decides():
    x = np.array([[3e38, 3e38, -3e38], [1, 2, 3]], F32)
    ref = run(x, ("ReduceSum", {"axes": (1,)}))
    assert np.isinf(ref.tolerance[0])
    assert ref.tolerance[1] == 0


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"])
def test_nan_and_infinity_come_through(op):
    x = np.array([[1, np.nan, 3], [1, np.inf, 2], [1, -np.inf, np.inf]], F32)
    ref = run(x, (op, {"axes": (1,), "keepdims": True}))
    assert ref.value.shape == (3, 1)
    assert np.isnan(ref.value[0])


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_the_largest_inherits_the_errors_of_its_operands(op):
    x = numbers(8, 40)
    assert run(x, (op, {"axes": (1,)})).tolerance is None
    ref = run(x, ("Exp", {}), (op, {"axes": (1,)}))
    y = np.exp(x)
    other = y.max(axis=1) if op == "ReduceMax" else y.min(axis=1)
    assert (np.abs(other - ref.value) <= ref.tolerance).all()
    assert (ref.tolerance < 1e-4).all()


def test_products():
    x = 1 + numbers(8, 40) / 8
    ref = run(x, ("ReduceProd", {"axes": (1,)}))
    running = np.cumprod(x, axis=1, dtype=F32)[:, -1]
    assert (np.abs(running - ref.value.astype(np.float64)) <= ref.tolerance).all()
    assert (ref.tolerance < 1e-4).all()


def test_integers_wrap():
    x = np.full((2, 3), 1 << 30, np.int32)
    ref = run(x, ("ReduceSum", {"axes": (1,)}))
    assert ref.tolerance is None
    assert (ref.value == -(1 << 30)).all()


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("scale", [1, 30])
def test_softmax(op, scale):
    x = numbers(8, 200) * F32(scale)
    ref = run(x, (op, {"axis": 1}))
    shifted = x - x.max(axis=1, keepdims=True)
    e = np.exp(shifted)
    total = np.cumsum(e, axis=1, dtype=F32)[:, -1:]
    other = e / total if op == "Softmax" else shifted - np.log(total)
    assert (np.abs(other - ref.value.astype(np.float64)) <= ref.tolerance).all()
    assert (ref.tolerance < (1e-4 if op == "Softmax" else 1e-3)).all()


def test_an_index_is_exact_unless_two_elements_are_too_close():
    x = np.array([[1, 5, 2], [1, 1, 0]], F32)
    assert run(x, ("ArgMax", {"axis": 1})).tolerance is None
    ref = run(x, ("Exp", {}), ("ArgMax", {"axis": 1}))
    assert list(ref.value) == [1, 0]
    assert ref.tolerance[0] == 0
    assert np.isinf(ref.tolerance[1])


def test_truth_flips_where_an_element_may():
    x = np.array([[1, 2], [0, 0]], F32)
    ref = run(x, ("Cast", {"dtype": "bool"}), ("ReduceAny", {"axes": (1,)}))
    assert list(ref.value) == [True, False]
    assert ref.tolerance is None


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Transpose", {"perm": (1, 0)}),
        ("Slice", {"starts": dims(np.zeros((1, 2))), "shape": dims(np.zeros((2, 2)))}),
        ("Pad", {"low": dims(np.zeros((1, 2))), "high": dims(np.zeros((1, 1))), "value": 7.0}),
    ],
)
def test_moved_elements_keep_their_errors(op, attrs):
    x = numbers(4, 5)
    assert run(x, (op, attrs)).tolerance is None
    plain = run(x, ("Exp", {}))
    moved = run(x, ("Exp", {}), (op, attrs))
    assert moved.tolerance.shape == moved.value.shape
    known = dict(zip(plain.value.ravel().tolist(), plain.tolerance.ravel().tolist(), strict=True))
    for v, t in zip(moved.value.ravel().tolist(), moved.tolerance.ravel().tolist(), strict=True):
        assert t == known.get(v, 0)


def test_running_sums():
    x = numbers(3, 100)
    ref = run(x, ("CumSum", {"axis": 1, "reverse": True, "exclusive": True}))
    want = np.cumsum(x[:, ::-1].astype(float), axis=1)[:, ::-1] - x
    assert (np.abs(ref.value - want) <= ref.tolerance).all()


@pytest.mark.parametrize(
    ("op", "index", "unsure"),
    [
        ("Gather", [0, 2], [[False, False], [True, True]]),
        ("GatherElements", [[0, 2]], [[False, True]]),
    ],
)
def test_an_index_that_may_be_another_makes_its_elements_any(op, index, unsure):
    x = Value(np.arange(6.0).reshape(3, 2))
    i = Value(np.array(index), np.array(index, dtype=np.float64))  # the first one is sure
    out = moved(lookup(op), {"axis": 0}, [x, i], dtype("float32"))
    assert out.error is not None
    assert np.isinf(out.error).tolist() == unsure
    assert (out.error[~np.array(unsure)] == 0).all()


def test_a_running_sum_has_the_bound_of_what_is_added_up_so_far():
    x = np.array([0.1, 0.2, 0.3, 1e6, 0.7, np.nan, 0.1], F32)
    ref = run(x, ("CumSum", {"axis": 0}))
    assert ref.tolerance is not None
    assert (ref.tolerance[:3] < 1e-5).all()
    assert ref.tolerance[3] > 0.1
    assert (ref.tolerance[5:] == 0).all()
    assert np.isnan(ref.value[5:]).all()
