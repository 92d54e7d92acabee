"""Lowering of running sums: one direction and one set of axes for a group."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from lowering_checks import checked, graph

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.lowering.lowering import groups, lower
from autofuse.implgraph.ops.registry import lookup

FLAGS = [{"exclusive": e, "reverse": r} for e, r in itertools.product((False, True), repeat=2)]


def sums(hint):
    return list(hint.ops("Scan"))


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((4, 6), 0), ((4, 6), -1), ((2, 5, 3), 1)])
def test_means_what_the_reference_does(shape, axis, flags):
    nodes = [("a", "Abs", ["x"]), ("y", "CumSum", ["a"], {"axis": axis, **flags})]
    hint = checked(graph({"x": shape}, nodes, ["y"]))
    assert len(sums(hint)) == len(groups(hint)) == 1


def test_axes_of_a_sum_stay_apart_from_the_others():
    (n,) = sums(checked(graph({"x": (2, 5, 3, 4)}, [("y", "CumSum", ["x"], {"axis": 1})], ["y"])))
    assert len(n.axis) == 3
    assert n.attrs["axes"] == (n.axis[1],)


def test_a_dimension_that_is_split_by_a_view():
    shape = {"shape": (const(2), const(5), const(12))}
    nodes = [
        ("s", "CumSum", ["x"], {"axis": 0}),
        ("r", "Reshape", ["s"], shape),
        ("t", "Transpose", ["r"], {"perm": (1, 0, 2)}),
        ("b", "Reshape", ["t"], {"shape": (const(10), const(12))}),
        ("y", "Abs", ["b"]),
    ]
    (n,) = sums(checked(graph({"x": (10, 12)}, nodes, ["y"])))
    axes = n.attrs["axes"]
    assert len(axes) == 2
    # In the order of the sum, whatever the order of the group.
    assert sorted(n.axis.index(a) for a in axes) != [n.axis.index(a) for a in axes]


@pytest.mark.parametrize(
    ("second", "count"),
    [
        ({"axis": 1}, 1),
        ({"axis": 1, "exclusive": True}, 1),
        ({"axis": 1, "reverse": True}, 2),
        ({"axis": 0}, 2),
    ],
    ids=str,
)
def test_sums_of_one_kind_are_one_group(second, count):
    nodes = [("a", "CumSum", ["x"], {"axis": 1}), ("y", "CumSum", ["a"], second)]
    assert len(groups(checked(graph({"x": (4, 6)}, nodes, ["y"])))) == count


@pytest.mark.parametrize("first", ["ReduceSum", "CumSum"])
def test_reductions_are_groups_of_their_own(first):
    reduce = (
        "r",
        "ReduceMax",
        ["x" if first == "ReduceSum" else "s"],
        {"axes": (1,), "keepdims": True},
    )
    if first == "ReduceSum":
        nodes = [reduce, ("d", "Sub", ["x", "r"]), ("y", "CumSum", ["d"], {"axis": 1})]
    else:
        nodes = [("s", "CumSum", ["x"], {"axis": 1}), reduce, ("y", "Sub", ["s", "r"])]
    hint = checked(graph({"x": (4, 6)}, nodes, ["y"]))
    for g in groups(hint):
        ops = {n.op for n in g}
        assert not ("Scan" in ops and "ReduceMax" in ops)


def test_a_part_of_the_sums_comes_from_a_workspace():
    cut = {"starts": (const(0), const(5)), "shape": (const(4), const(1)), "steps": (1, 1)}
    nodes = [("s", "CumSum", ["x"], {"axis": 1}), ("y", "Slice", ["s"], cut)]
    hint = checked(graph({"x": (4, 6)}, nodes, ["y"]))
    assert len(list(hint.ops("Workspace"))) == 1


def test_one_element_needs_no_sum():
    for flags in FLAGS:
        nodes = [("s", "CumSum", ["x"], {"axis": 1, **flags}), ("y", "Abs", ["s"])]
        assert sums(checked(graph({"x": (4, 1)}, nodes, ["y"]))) == []


@pytest.mark.parametrize(
    ("dtype", "summed"),
    [
        ("float16", {"float32"}),
        ("bfloat16", {"float32"}),
        ("float32", {"float32"}),
        ("int8", {"int16"}),
        ("uint16", {"int16"}),
        ("uint32", {"int32"}),
        ("int64", {"int32"}),
    ],
)
def test_types_that_are_summed_in_others(dtype, summed):
    hint = checked(graph({"x": (4, 9)}, [("y", "CumSum", ["x"], {"axis": 1})], ["y"], dtype=dtype))
    assert {n.y.dtype.name for n in sums(hint)} == summed


def test_sums_of_infinities():
    """An exclusive sum is that of what comes before: nothing is subtracted."""
    x = np.array([[1.0, np.inf, 2.0, 3.0]])
    reference = lookup("CumSum").reference
    got = reference([x], {"axis": 1, "exclusive": True})
    assert got.tolist() == [[0.0, 1.0, np.inf, np.inf]]
    back = reference([x], {"axis": 1, "exclusive": True, "reverse": True})
    assert back.tolist() == [[np.inf, 5.0, 3.0, 0.0]]


def test_nothing_is_lowered_of_nothing():
    lower(graph({"x": (4, 0)}, [("y", "CumSum", ["x"], {"axis": 1})], ["y"]))


@pytest.mark.parametrize("size", [5, "n"])
@pytest.mark.parametrize("also", [False, True])
def test_what_is_put_together_along_the_axis_is_put_together_first(size, also):
    nodes = [("t", "Concat", ["x", "x"], {"axis": 0}), ("s", "CumSum", ["t"], {"axis": 0})]
    if also:
        nodes += [("y", "Add", ["t", "s"])]
    symbols = () if size == 5 else ("n",)
    g = graph({"x": (size, 3)}, nodes, ["y" if also else "s"], symbols=symbols)
    for n in (0, 1, 7):
        hint = checked(g, {"n": n})
        assert "Workspace" in [node.op for node in hint.nodes]
