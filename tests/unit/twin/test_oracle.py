"""The oracle: values, and how far from them a correct kernel may be."""

import ml_dtypes
import numpy as np
import pytest

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import dtype, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.machines.twin.oracle.oracle import evaluate, round_to


def graph(inputs, *nodes, n=8):
    """A graph of vectors: inputs name -> dtype, nodes (result, dtype, op, operands, attrs)."""
    tensors = {k: Tensor(k, dtype(d), (const(n),)) for k, d in inputs.items()}
    made = []
    for i, (name, d, op, operands, *attrs) in enumerate(nodes):
        tensors[name] = Tensor(name, dtype(d), (const(n),))
        made.append(FusionNode(f"n{i}", op, operands, (name,), attrs[0] if attrs else {}))
    out = (GraphOutput("out", nodes[-1][0]),)
    return FusionGraph("g", (), tuple(inputs), tuple(made), out, tensors)


def run(g, **inputs):
    shape = g.tensors[g.inputs[0]].shape[0].value
    arrays = {
        k: np.resize(np.asarray(v, numpy_dtype(g.tensors[k].dtype)), shape)
        for k, v in inputs.items()
    }
    return evaluate(g, arrays, {})["out"]


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16"])
def test_every_op_rounds_to_its_dtype(d):
    g = graph(
        {"x": d}, ("a", d, "Add", ("x", Constant(1000.0))), ("b", d, "Sub", ("a", Constant(1000.0)))
    )
    x = np.linspace(0.001, 3, 8).astype(numpy_dtype(dtype(d)))
    got = run(g, x=x).value
    t = numpy_dtype(dtype(d)).type
    assert got.dtype == x.dtype
    assert np.array_equal(got, (x + t(1000)) - t(1000))
    assert not np.array_equal(got, x)


def test_bfloat16_rounds_ties_to_even():
    x = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8])
    assert np.array_equal(round_to(x, dtype("bfloat16")), [1.0, 1 + 2.0**-6])


def test_a_result_that_is_exact_by_chance_rounds_where_its_operand_does_not():
    """30.4999 units become 30 and 75 of them times 2.5; a kernel with 31 gets 77.5, which is rounded to 78."""
    unit = 2.0**-24  # of subnormal float16
    g = graph(
        {"x": "float32", "w": "float16"},
        ("third", "float32", "Div", ("x", Constant(3.0))),
        ("h", "float16", "Cast", ("third",), {"dtype": "float16"}),
        ("y", "float16", "Mul", ("h", "w")),
    )
    r = run(g, x=[3 * 30.4999 * unit], w=[2.5])
    assert r.value[0] == 75 * unit
    assert r.tolerance is not None
    assert 3 * unit <= r.tolerance[0] < 5 * unit


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "CumSum"])
def test_a_sum_that_is_exact_by_chance_rounds_where_its_addends_do_not(op):
    """Six addends may be a unit larger, the sum then 3/4 of its own unit, which is rounded to a whole one."""
    attrs = {"axis": 0} if op == "CumSum" else {"axes": (0,), "keepdims": True}
    g = graph(
        {"x": "float32"},
        ("third", "float32", "Div", ("x", Constant(3.0))),
        ("h", "float16", "Cast", ("third",), {"dtype": "float16"}),
        ("y", "float16", op, ("h",), attrs),
    )
    g.tensors["y"] = Tensor("y", dtype("float16"), (const(8 if op == "CumSum" else 1),))
    r = run(g, x=[3.0] * 2 + [3 * 1032.4999 * 2.0**-10] * 6)
    h = np.array([1.0] * 2 + [1033 * 2.0**-10] * 6)
    largest = h.mean() if op == "ReduceMean" else h.sum()
    assert r.tolerance is not None
    assert r.tolerance[-1] >= np.float16(largest) - r.value[-1] > 0


def test_exact_results_must_agree_exactly():
    g = graph(
        {"x": "float32"},
        ("a", "float32", "Mul", ("x", Constant(0.5))),
        ("b", "float32", "Abs", ("a",)),
    )
    r = run(g, x=[-3.0, 5.0])
    assert r.tolerance is None
    assert r.value[0] == 1.5


def test_rounding_allows_one_unit():
    g = graph({"x": "float32"}, ("a", "float32", "Div", ("x", Constant(3.0))))
    r = run(g, x=[1.0])
    assert 0.5 * 2.0**-24 < r.tolerance[0] < 4 * 2.0**-24


def test_cancellation_keeps_the_absolute_error():
    g = graph(
        {"x": "float32"},
        ("e", "float32", "Exp", ("x",)),
        ("d", "float32", "Sub", ("e", Constant(float(np.float32(np.e))))),
    )
    r = run(g, x=[1.0, 0.25])
    near, far = abs(r.value[0]), abs(r.value[1])
    assert r.tolerance[0] / max(near, 1e-30) > 1.0  # nothing is left of the digits
    assert r.tolerance[1] / far < 2e-6


def test_exp_of_a_large_number_amplifies():
    g = graph(
        {"x": "float32"},
        ("m", "float32", "Mul", ("x", Constant(0.1))),
        ("e", "float32", "Exp", ("m",)),
    )
    small, large = run(g, x=[1.0]), run(g, x=[800.0])
    assert large.tolerance[0] / large.value[0] > 10 * small.tolerance[0] / small.value[0]


def test_a_comparison_of_inexact_numbers_may_flip():
    g = graph(
        {"x": "float32", "y": "float32"},
        ("e", "float32", "Exp", ("x",)),
        ("c", "bool", "Less", ("e", "y")),
    )
    e = np.exp(np.float64(0.3)).astype(np.float32)
    r = run(g, x=[0.3, 0.3], y=[e, 2.0])
    assert np.isinf(r.tolerance[0])
    assert r.tolerance[1] == 0
    assert r.ill_conditioned == 4


def test_a_comparison_of_inputs_never_flips():
    g = graph({"x": "float32", "y": "float32"}, ("c", "bool", "Equal", ("x", "y")))
    assert run(g, x=[1.0, 2.0], y=[1.0]).tolerance is None


def test_a_flipped_condition_costs_the_difference_of_both_sides():
    g = graph(
        {"x": "float32", "y": "float32"},
        ("e", "float32", "Exp", ("x",)),
        ("c", "bool", "Less", ("e", "y")),
        ("s", "float32", "Select", ("c", "x", "y")),
    )
    e = np.exp(np.float64(0.3)).astype(np.float32)
    r = run(g, x=[0.3], y=[e])
    assert abs(r.value[0] - 0.3) < 1e-6 or r.value[0] == e
    assert r.tolerance[0] >= 0.99 * (e - 0.3)


def test_floor_of_an_inexact_integer_may_be_one_off():
    g = graph({"x": "float32"}, ("a", "float32", "Exp", ("x",)), ("f", "float32", "Floor", ("a",)))
    r = run(g, x=[0.0, 0.3])
    assert r.tolerance[0] >= 1
    assert r.tolerance[1] == 0


def test_a_denominator_that_may_vanish_is_ill_conditioned():
    g = graph(
        {"x": "float32"},
        ("e", "float32", "Exp", ("x",)),
        ("d", "float32", "Sub", ("e", Constant(1.0))),
        ("q", "float32", "Div", (Constant(1.0), "d")),
    )
    r = run(g, x=[0.0, 1.0])
    assert np.isinf(r.tolerance[0])
    assert r.tolerance[1] < 1e-5


def test_float_to_integer_saturates():
    g = graph({"x": "float32"}, ("i", "int32", "Cast", ("x",), {"dtype": "int32"}))
    got = run(g, x=[1.9, -1.9, np.nan, np.inf, -np.inf, 3e9, -3e9, 0.0]).value
    top, bottom = 2**31 - 1, -(2**31)
    assert got.tolist() == [1, -1, 0, top, bottom, top, bottom, 0]


def test_integers_wrap():
    g = graph({"x": "int16"}, ("a", "int16", "Mul", ("x", Constant(2))))
    assert run(g, x=[32767, -32768]).value[:2].tolist() == [-2, 0]


def test_a_sum_of_many_is_rounded_from_left_to_right():
    names = ("a", "b", "c")
    g = graph(dict.fromkeys(names, "float32"), ("s", "float32", "AddN", names))
    r = run(g, a=[1e8], b=[1.0], c=[-1e8])
    assert r.value[0] == 0.0
    assert r.tolerance[0] >= 1.0


def test_a_constant_may_keep_its_digits_in_a_wider_type():
    g = graph({"x": "bfloat16"}, ("m", "bfloat16", "Mul", ("x", Constant(0.1))))
    x = np.float64(3.0)
    r = run(g, x=[x])
    assert abs(float(r.value[0]) - float(ml_dtypes.bfloat16(x * 0.1))) <= r.tolerance[0]


def test_what_lies_between_two_reductions_is_rounded():
    """A mean of a part of the row, with which a kernel may begin, has more digits than that of the whole row."""
    rows = {"axes": (0,), "keepdims": True}

    def made(last):
        f = dtype("float32")
        shapes = {"x": (8,), "s": (1,), "m": (1,), "d": (8,), "q": (8,), "v": (1,)}
        tensors = {k: Tensor(k, f, tuple(map(const, v))) for k, v in shapes.items()}
        nodes = (
            FusionNode("n0", "ReduceSum", ("x",), ("s",), rows),
            FusionNode("n1", "Mul", ("s", Constant(0.125)), ("m",), {}),
            FusionNode("n2", "Sub", ("x", "m"), ("d",), {}),
            FusionNode("n3", "Mul", ("d", "d"), ("q",), {}),
            FusionNode("n4", "ReduceSum", ("q",), ("v",), rows),
        )
        kept = nodes[: [n.outputs[0] for n in nodes].index(last) + 1]
        tensors = {k: tensors[k] for k in ("x", *(n.outputs[0] for n in kept))}
        return FusionGraph("g", (), ("x",), kept, (GraphOutput("out", last),), tensors)

    x = [1, 1, 1, 1, 2, 2, 2, 2]
    variance, mean = run(made("v"), x=x), run(made("m"), x=x)
    assert variance.value == 2.0
    assert variance.tolerance is not None
    assert 2.0**-24 < variance.tolerance[0] < 2.0**-16
    # Alone, the mean is exact.
    assert mean.value == 1.5
    assert mean.tolerance is None


def test_zero_size_and_zero_rank():
    g = graph({"x": "float32"}, ("a", "float32", "Sqrt", ("x",)), n=0)
    assert evaluate(g, {"x": np.zeros(0, np.float32)}, {})["out"].value.shape == (0,)
    t = {k: Tensor(k, dtype("float32"), ()) for k in "xy"}
    nodes = (FusionNode("n", "Exp", ("x",), ("y",)),)
    scalar = FusionGraph("g", (), ("x",), nodes, (GraphOutput("out", "y"),), t)
    assert evaluate(scalar, {"x": np.array(1, np.float32)}, {})["out"].value.shape == ()


def nan_or_number(op, attrs, operands):
    """0 / (0 / 255) and a number without dimensions through an op: NaN where the 0 is exact."""
    t = {k: Tensor(k, dtype("float32"), ()) for k in "xdqy"}
    nodes = (
        FusionNode("n0", "Div", ("x", Constant(255.0)), ("d",)),
        FusionNode("n1", "Div", ("x", "d"), ("q",)),
        FusionNode("n2", op, tuple("q" if o is None else o for o in operands), ("y",), attrs),
    )
    return FusionGraph("g", (), ("x",), nodes, (GraphOutput("out", "y"),), t)


@pytest.mark.parametrize(
    ("op", "attrs", "operands"),
    [
        ("Maximum", {}, (None, Constant(0.0))),
        ("Add", {}, (None, None)),
        ("Exp", {}, (None,)),
        ("Sign", {}, (None,)),
        ("Relu", {}, (None,)),
        ("Cast", {"dtype": "float32"}, (None,)),
        ("Clip", {}, (None, Constant(0.0), Constant(1.0))),
        ("ReduceSum", {"axes": (), "keepdims": False}, (None,)),
        ("ReduceProd", {"axes": (), "keepdims": False}, (None,)),
        ("ReduceMean", {"axes": (), "keepdims": False}, (None,)),
        ("ReduceMax", {"axes": (), "keepdims": False}, (None,)),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_nan_without_dimensions(op, attrs, operands):
    """What may be NaN by a rounding has no bound; what is a number has the bound of vectors."""
    g = nan_or_number(op, attrs, operands)
    for x in (0.0, 1e-45, 3.0, np.inf, np.nan):
        got = evaluate(g, {"x": np.array(x, np.float32)}, {})["out"]
        line = {k: Tensor(k, dtype("float32"), (const(1),)) for k in g.tensors}
        if op.startswith("Reduce"):
            line["y"] = Tensor("y", dtype("float32"), ())
        vector = FusionGraph("g", (), g.inputs, g.nodes, g.outputs, line)
        want = evaluate(vector, {"x": np.array([x], np.float32)}, {})["out"]
        assert got.value.shape == ()
        np.testing.assert_array_equal(got.value, want.value.reshape(()))
        assert (got.tolerance is None) == (want.tolerance is None)
        if want.tolerance is not None:
            np.testing.assert_array_equal(got.tolerance, np.reshape(want.tolerance, ()))


def test_infinity_times_a_zero_that_was_rounded_is_unknown_also_behind_a_cast():
    """A kernel that computes x (1 + erf x) as one function has its limit, 0."""
    g = graph(
        {"x": "float32"},
        ("e", "float32", "Erf", ("x",)),
        ("f", "float32", "Add", ("e", Constant(1.0))),
        ("p", "float32", "Mul", ("x", "f")),
        ("y", "float16", "Cast", ("p",), {"dtype": "float16"}),
    )
    r = run(g, x=[-np.inf, np.nan, 1.0])
    assert np.isnan(r.value[:2]).all()
    assert np.isinf(r.tolerance[0])
    # A NaN from the data is one.
    assert np.isfinite(r.tolerance[1:3]).all()


@pytest.mark.parametrize("top", [np.inf, -np.inf])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_infinity_and_what_may_be_the_other_one_is_unknown(op, sign, top):
    """The order of a sum decides whether it overflows, to any of both: with an infinity it is that, or NaN."""
    g = graph(
        {"x": "float32", "w": "float32"},
        ("s", "float32", "CumSum", ("x",), {"axis": 0}),
        ("y", "float32", op, ("s", "w")),
    )
    r = run(g, x=[1.0, 3e38, sign * 1e35 - 3e38, 0.0], w=[top, top, top, 1.0])
    assert np.isinf(r.tolerance[2:]).all()
    # An infinity and what has a bound are that infinity.
    assert np.array_equal(r.value[:2], [top, top] if op == "Add" else [-top, -top])
    assert np.array_equal(r.tolerance[:2], [0, 0])


@pytest.mark.parametrize("d", ["float32", "bfloat16"])
def test_subnormal_operands_may_be_zeros_to_approximations(d):
    x = {"x": np.array([1e-40, -1e-39, 0.0, 1.0], numpy_dtype(dtype(d)))}
    root = graph({"x": d}, ("y", d, "Sqrt", ("x",)), n=4)
    plain, flushed = (evaluate(root, x, {}, flushes=f)["out"] for f in (False, True))
    # An approximation may give zero for a subnormal result, but not for that root.
    assert (
        flushed.tolerance[0]
        >= flushed.value[0]
        > (0 if plain.tolerance is None else plain.tolerance[0])
    )
    assert np.array_equal(plain.tolerance[2:], flushed.tolerance[2:])
    # Where a zero gives an infinity, nothing can be said.
    log = evaluate(graph({"x": d}, ("y", d, "Ln", ("x",)), n=4), x, {}, flushes=True)["out"]
    assert np.isinf(log.tolerance[:2]).all()
    # Sums keep subnormal numbers.
    total = evaluate(graph({"x": d}, ("y", d, "Add", ("x", "x")), n=4), x, {}, flushes=True)["out"]
    assert total.tolerance is None


def test_a_sum_of_powers_times_huge_numbers_may_overflow_on_the_way():
    """Powers relative to the largest element so far are at most 1; the last element here makes them small."""
    g = graph(
        {"x": "float32", "w": "float32"},
        ("m", "float32", "ReduceMax", ("x",), {"axes": (0,), "keepdims": True}),
        ("d", "float32", "Sub", ("x", "m")),
        ("e", "float32", "Exp", ("d",)),
        ("p", "float32", "Mul", ("e", "w")),
        ("y", "float32", "ReduceSum", ("p",), {"axes": (0,)}),
        n=3,
    )
    for w, unknown in ((3e38, True), (1e30, False)):
        r = run(g, x=[1.0, 1.0, 30.0], w=[w, w, 1.0])
        assert np.isfinite(r.value).all()
        assert np.isinf(r.tolerance).any() == unknown


def test_zero_over_what_may_be_zero_is_unknown():
    """The bound of a difference that cancels reaches across 0, where 0 / 0 is NaN; on each side it is 0."""
    g = graph(
        {"x": "float32", "w": "float32"},
        ("a", "float32", "Exp", ("w",)),
        ("b", "float32", "Sub", ("a", Constant(2.718282))),
        ("y", "float32", "Div", ("x", "b")),
        n=3,
    )
    r = run(g, x=[0.0, -0.0, 0.0], w=[1.0, 1.0, 2.0])
    assert np.array_equal(r.value, [0, 0, 0])
    assert np.array_equal(np.isinf(r.tolerance), [True, True, False])


def test_subnormal_float16_operands_are_none_of_float32():
    root = graph({"x": "float16"}, ("y", "float16", "Sqrt", ("x",)), n=2)
    x = {"x": np.array([3e-5, 6e-8], np.float16)}
    plain, flushed = (evaluate(root, x, {}, flushes=f)["out"] for f in (False, True))
    assert np.array_equal(plain.tolerance, flushed.tolerance)


def test_a_step_of_an_approximation_may_be_flushed():
    """Gelu of -13: its exponential over a polynomial is subnormal, the product with 13 is not."""
    x = {"x": np.array([-13.0, -1.0], ml_dtypes.bfloat16)}
    node = graph({"x": "bfloat16"}, ("y", "bfloat16", "Gelu", ("x",)), n=2)
    plain, flushed = (evaluate(node, x, {}, flushes=f)["out"] for f in (False, True))
    size = np.abs(plain.value.astype(np.float64))
    assert size[0] > 2.0**-126
    assert plain.tolerance[0] < size[0] <= flushed.tolerance[0]
    assert flushed.tolerance[1] == plain.tolerance[1]


@pytest.mark.parametrize("d", ["float16", "bfloat16"])
def test_sixteen_bits_that_overflow_between_ops_may_be_kept_in_float32(d):
    big = float(np.finfo(numpy_dtype(dtype(d))).max) if d == "float16" else 3e38
    whole = graph(
        {"x": d}, ("a", d, "Mul", ("x", Constant(2.0))), ("b", d, "Mul", ("a", Constant(0.25)))
    )
    r = run(whole, x=[big, 1.0, np.inf])
    assert np.array_equal(np.isinf(r.tolerance), [True, False, False] * 2 + [True, False])
    # A result is infinite, and so is what comes of an infinity.
    last = graph({"x": d}, ("a", d, "Mul", ("x", Constant(2.0))))
    r = run(last, x=[big, 1.0, np.inf])
    assert np.isinf(r.value[[0, 2]]).all()
    assert r.tolerance is None or not np.isinf(r.tolerance).any()


def test_an_index_that_is_not_sure_may_be_any():
    """Two sums of bfloat16 that differ by less than their rounding, and NaN beside what may be NaN."""
    x = np.array([[4.359375, 0.0, 4.3828125, 1.0]], ml_dtypes.bfloat16)
    tensors = {
        "x": Tensor("x", dtype("bfloat16"), (const(1), const(4))),
        "s": Tensor("s", dtype("bfloat16"), (const(1), const(4))),
        "k": Tensor("k", dtype("int32"), (const(1),)),
        "m": Tensor("m", dtype("int32"), (const(1),)),
    }
    nodes = (
        FusionNode("a", "Add", ("x", Constant(0.01)), ("s",)),
        FusionNode("b", "ArgMax", ("s",), ("k",), {"axis": 1, "keepdims": False, "dtype": "int32"}),
        FusionNode("c", "Maximum", ("k", Constant(1)), ("m",)),
    )
    g = FusionGraph("g", (), ("x",), nodes, (GraphOutput("out", "m"),), tensors)
    found = evaluate(g, {"x": x}, {})["out"]
    assert np.isinf(found.tolerance).all()
