"""Lowering of reductions: which groups there are, along which axes, and what goes through a workspace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lowering_checks import checked, graph

from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Symbol, Tensor
from autofuse.implgraph.lowering.lowering import group_order_hazards, groups, lower
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.machines.twin.oracle.oracle import evaluate

F32 = BY_NAME["float32"]


def kinds(hint):
    """Per reduction: the sizes of the axes of its group, reduced ones in brackets."""
    nodes = hint.by_name()
    out = []
    for n in hint.nodes:
        if n.op in REDUCES:
            x = nodes[n.inputs[0]].y
            out.append(
                [
                    f"[{hint.axes[a].size}]" if r == 1 and s != 1 else str(hint.axes[a].size)
                    for a, r, s in zip(n.y.axis, n.y.repeats, x.repeats, strict=True)
                ]
            )
    return out


@pytest.mark.parametrize(
    ("shape", "axes", "want"),
    [
        ((8, 16), (1,), ["8", "[16]"]),
        ((8, 16), (0,), ["[8]", "16"]),
        ((8, 16), (), ["[128]"]),
        ((3, 4, 5), (0, 2), ["[3]", "4", "[5]"]),
        ((3, 4, 5), (1,), ["3", "[4]", "5"]),
        ((2, 3, 4, 5), (1, 3), ["2", "[3]", "4", "[5]"]),
        ((2, 3, 4, 5), (-1, -2), ["6", "[20]"]),
        ((2, 1, 4), (0, 1), ["[2]", "4"]),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("op", sorted(REDUCES))
def test_patterns(shape, axes, want, keepdims, op):
    attrs = {"axes": axes, "keepdims": keepdims}
    hint = checked(graph({"x": shape}, [("y", op, ["x"], attrs)], ["y"]))
    assert kinds(hint) == [want]
    assert len(groups(hint)) == 1


def test_a_norm_is_one_group():
    row = {"axes": (1,), "keepdims": True}
    g = graph(
        {"x": (8, 32), "gamma": (32,), "beta": (32,)},
        [
            ("m", "ReduceMean", ["x"], row),
            ("d", "Sub", ["x", "m"]),
            ("q", "Mul", ["d", "d"]),
            ("v", "ReduceMean", ["q"], row),
            ("s", "Rsqrt", ["v"]),
            ("n", "Mul", ["d", "s"]),
            ("a", "Mul", ["n", "gamma"]),
            ("y", "Add", ["a", "beta"]),
        ],
        ["y", "m"],
    )
    hint = checked(g)
    assert kinds(hint) == [["8", "[32]"]] * 2
    assert len(groups(hint)) == 1
    assert not list(hint.ops("Workspace"))
    # Statistics are computed per row and brought back by a Broadcast.
    root = next(n for n in hint.ops("Sqrt", "Rsqrt"))
    assert [str(r) for r in root.y.repeats] == ["8", "1"]


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(op, dtype, axis):
    g = graph({"x": (5, 6, 7)}, [("y", op, ["x"], {"axis": axis})], ["y"], dtype=dtype)
    hint = checked(g)
    assert len(groups(hint)) == 1
    assert [n.op for n in hint.nodes if n.op in REDUCES] == ["ReduceMax", "ReduceSum"]
    assert all(n.y.dtype == F32 for n in hint.ops("ReduceMax", "ReduceSum"))


def test_one_element_of_a_reduction_is_broadcast():
    g = graph({"x": (64,)}, [("s", "ReduceSum", ["x"]), ("y", "Sub", ["x", "s"])], ["y"])
    hint = checked(g)
    (b,) = hint.ops("Broadcast")
    assert [str(r) for r in b.y.repeats] == ["64"]


def test_outputs_of_both_levels_share_their_loads():
    g = graph(
        {"x": (8, 16)},
        [("y", "Abs", ["x"]), ("s", "ReduceSum", ["x"], {"axes": (1,)}), ("r", "Neg", ["s"])],
        ["y", "r", "s"],
    )
    hint = checked(g)
    assert len(groups(hint)) == 1
    assert len(list(hint.ops("Load"))) == 1


def test_reductions_over_different_axes_are_groups():
    g = graph(
        {"x": (8, 16)},
        [
            ("a", "ReduceSum", ["x"], {"axes": (1,)}),
            ("b", "ReduceSum", ["x"], {"axes": (0,)}),
            ("y", "Abs", ["x"]),
        ],
        ["a", "b", "y"],
    )
    hint = checked(g)
    assert kinds(hint) == [["8", "[16]"], ["[8]", "16"]]
    assert len(groups(hint)) == 2
    assert not list(hint.ops("Workspace"))


def test_a_reduction_of_a_reduction_goes_through_a_workspace():
    g = graph(
        {"x": (8, 16)},
        [
            ("s", "ReduceSum", ["x"], {"axes": (1,)}),
            ("q", "Square", ["s"]),
            ("y", "ReduceMax", ["q"], {"axes": (0,)}),
        ],
        ["y"],
    )
    hint = checked(g)
    (space,) = hint.ops("Workspace")
    assert space.size("size") == 8
    assert group_order_hazards(hint) == [(0, 1)]


def test_a_reduction_that_two_groups_need_is_made_once():
    g = graph(
        {"x": (8, 16), "w": (3, 8, 5)},
        [
            ("s", "ReduceSum", ["x"], {"axes": (1,), "keepdims": True}),
            ("y", "Sub", ["x", "s"]),
            ("z", "Add", ["w", "s"]),
        ],
        ["y", "z"],
    )
    hint = checked(g)
    assert len([n for n in hint.nodes if n.op in REDUCES]) == 1
    assert len(list(hint.ops("Workspace"))) == 1


def test_chained_reductions_of_a_kind_are_one():
    g = graph(
        {"x": (4, 6, 8)},
        [
            ("a", "ReduceSum", ["x"], {"axes": (2,)}),
            ("b", "ReduceSum", ["a"], {"axes": (0,)}),
        ],
        ["b"],
    )
    assert [n.attrs["axes"] for n in decompose(g).nodes] == [(0, 2)]
    assert kinds(checked(g)) == [["[4]", "6", "[8]"]]


def test_in_place_with_a_reduction():
    g = graph(
        {"x": (8, 16), "w": (8,)},
        [("s", "ReduceSum", ["x"], {"axes": (1,)}), ("y", "Add", ["s", "w"])],
        [("y", "w")],
    )
    assert len(groups(checked_in_place(g))) == 1


def checked_in_place(g):
    hint = canonicalise(lower(g))
    assert verify(hint) == []
    return hint


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("op", sorted(REDUCES))
def test_symbolic_sizes(size, op):
    g = graph(
        {"x": ("n", "m")},
        [("s", op, ["x"], {"axes": (1,), "keepdims": True}), ("y", "Add", ["s", "s"])],
        ["y", "s"],
        symbols=("n", "m"),
    )
    assert kinds(checked(g, {"n": 3, "m": size})) == [["n", "[m]"]]
    checked(g, {"n": size, "m": 3})


def test_a_mean_over_a_symbolic_size_divides_by_an_expression():
    g = graph({"x": (4, "m")}, [("y", "ReduceMean", ["x"], {"axes": (1,)})], ["y"], symbols=("m",))
    hint = checked(g, {"m": 6})
    (scalar,) = hint.ops("Scalar")
    assert scalar.attrs == {"expr": sym("m")}


@pytest.mark.parametrize(
    ("op", "value"), [("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMean", None)]
)
def test_reductions_of_nothing(op, value):
    g = graph({"x": (4, 0)}, [("y", op, ["x"], {"axes": (1,)})], ["y"])
    hint = checked(g)
    assert not [n for n in hint.nodes if n.op in REDUCES]
    (out,) = interpret(hint, [np.zeros(0, np.float32)])
    assert (np.isnan(out) if value is None else out == value).all()


def test_the_largest_of_nothing_is_an_error():
    with pytest.raises(OpError, match="no maximum or minimum"):
        graph({"x": (4, 0)}, [("y", "ReduceMax", ["x"], {"axes": (1,)})], ["y"])


def test_an_empty_result_needs_no_operands():
    hint = checked(graph({"x": (0, 4)}, [("y", "ReduceSum", ["x"], {"axes": (1,)})], ["y"]))
    assert [n.op for n in hint.nodes if n.axis] == ["Scalar", "Broadcast", "Store"]


def test_a_dimension_of_one_is_not_reduced():
    hint = checked(graph({"x": (4, 1)}, [("y", "ReduceSum", ["x"], {"axes": (1,)})], ["y"]))
    assert [n.op for n in hint.nodes if n.axis] == ["Load", "Store"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd"])
def test_narrow_floats_are_summed_in_float32(dtype, op):
    hint = checked(graph({"x": (4, 9)}, [("y", op, ["x"], {"axes": (1,)})], ["y"], dtype=dtype))
    assert [n.op for n in hint.nodes if n.axis] == ["Load", "Cast", op, "Cast", "Store"]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bfloat16", "int16", "int32"])
def test_the_largest_of_narrow_types(dtype):
    g = graph({"x": (4, 9)}, [("y", "ReduceMax", ["x"], {"axes": (1,)})], ["y"], dtype=dtype)
    (node,) = checked(g).ops("ReduceMax")
    assert node.y.dtype.name in ("float16", "float32", "int16", "int32")


@pytest.mark.parametrize("op", ["ReduceAny", "ReduceAll"])
def test_truth(op):
    nodes = [
        ("b", "Less", ["x", "y"]),
        ("t", op, ["b"], {"axes": (1,)}),
        ("r", "Select", ["t", "z", "w"]),
    ]
    g = graph({"x": (6, 3), "y": (6, 3), "z": (6,), "w": (6,)}, nodes, ["r"])
    checked(g)


@pytest.mark.parametrize("op", ["ReduceAny", "ReduceAll"])
@pytest.mark.parametrize("dtype", ["bool", "float32", "int32"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 0), 1), ((0, 3), 1), ((0, 61, 0), 2)], ids=str)
def test_truth_of_nothing(op, dtype, shape, axis):
    for keepdims in (False, True):
        attrs = {"axes": (axis,), "keepdims": keepdims}
        checked(graph({"x": shape}, [("y", op, ["x"], attrs)], ["y"], dtype=dtype))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_first_of_the_largest(op, dtype, axis):
    attrs = {"axis": axis, "dtype": dtype, "keepdims": axis == 1}
    hint = checked(graph({"x": (3, 40, 2)}, [("y", op, ["x"], attrs)], ["y"]))
    assert len(groups(hint)) == 1


@pytest.mark.parametrize(
    ("size", "most", "kind"),
    [
        (1 << 24, 0, "float32"),
        ((1 << 24) + 1, 0, "int32"),
        ("n", 1 << 24, "float32"),
        ("n", 1 << 25, "int32"),
    ],
)
def test_places_are_float32_where_that_holds_all_of_them(size, most, kind):
    attrs = {"axis": 0, "dtype": "int64"}
    g = graph({"x": (size, 2)}, [("y", "ArgMax", ["x"], attrs)], ["y"])
    made = decompose(replace(g, symbols=(Symbol("n", 1, most),) if most else ()))
    (place,) = (n for n in made.nodes if n.op == "Iota")
    (least,) = (n for n in made.nodes if n.op == "ReduceMin")
    assert {made.tensors[n.outputs[0]].dtype.name for n in (place, least)} == {kind}


def test_nan_is_the_largest():
    g = graph({"x": (4,)}, [("y", "ArgMax", ["x"], {"axis": 0, "dtype": "int32"})], ["y"])
    x = np.array([1, np.nan, 5, np.nan], np.float32)
    assert interpret(lower(g), [x])[0] == 1
    assert evaluate(g, {"x": x}, {})["o0"].value == 1


@pytest.mark.parametrize(
    ("op", "attrs", "words"),
    [
        ("ReduceSum", {"axes": (2,)}, "no axis 2"),
        ("ReduceSum", {"axes": (0, -2)}, "name an axis twice"),
        ("ArgMax", {"axis": 5}, "no axis 5"),
        ("ArgMax", {"axis": 0, "dtype": "int8"}, "int32 or int64"),
    ],
)
def test_refused(op, attrs, words):
    t = Tensor("x", F32, (const(3), const(4)))
    with pytest.raises(OpError, match=words):
        infer_node(lookup(op), [t], attrs)
