"""Lowering of gathers: loads that another tensor directs."""

from __future__ import annotations

import numpy as np
import pytest
from lowering_checks import checked, graph

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, Tensor
from autofuse.implgraph.lowering.lowering import groups, lower, lower_written
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.movement import inside
from autofuse.implgraph.rewrites.decompose import EXACT, decompose
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise

I32 = BY_NAME["int32"]


def gather(shape, index, axis, kind="int32", op="Gather", **more):
    inputs = {"x": shape, "i": (index, kind)}
    return graph(inputs, [("y", op, ["x", "i"], {"axis": axis})], ["y"], **more)


def indexed(hint):
    return [n for n in hint.ops("Load") if len(n.inputs) == 2]


@pytest.mark.parametrize(
    ("shape", "index", "axis"),
    [
        ((7,), (3,), 0),
        ((7, 4), (), 0),
        ((3, 7, 4), (2, 5), 1),
        ((3, 7, 4), (2, 5), -1),
        ((1, 4), (3,), 0),
        ((7, 1), (1, 3), 0),
    ],
)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_means_what_the_reference_does(shape, index, axis, kind):
    hint = checked(gather(shape, index, axis, kind))
    assert len(indexed(hint)) == 1
    assert len(groups(hint)) == 1


@pytest.mark.parametrize(("size", "narrow"), [(5, True), (EXACT, True), (EXACT + 1, False)])
def test_places_are_clamped_in_float32_where_it_holds_them(size, narrow):
    g = gather((size,), (9,), 0, "int64", "GatherElements")
    made = decompose(g)
    clamps = [made.tensors[n.outputs[0]].dtype.name for n in made.nodes if n.op == "Maximum"]
    assert clamps == ["float32" if narrow else "int64"]
    ends = np.iinfo(np.int64)
    at = np.array([ends.min, -size - 1, -size, -1, 0, size - 1, size, EXACT + 3, ends.max])
    x = np.arange(size, dtype=np.float32)
    (got,) = interpret(canonicalise(lower(g)), [x, at], {})
    assert got.tolist() == [x[p] for p in inside(at, size)]


def test_strides_are_those_of_the_rows():
    hint = checked(gather((3, 7, 4), (2, 5), 1))
    (n,) = indexed(hint)
    assert [str(s) for s in n.y.strides] == ["28", "0", "1"]
    assert n.attrs == {"stride": const(4), "extent": const(7)}
    assert hint.node(n.inputs[1]).op == "Load"


def test_symbolic_sizes():
    hint = checked(gather(("a", "b"), ("n",), 0, symbols=("a", "b", "n")), {"a": 5, "b": 3, "n": 9})
    (n,) = indexed(hint)
    assert n.attrs == {"stride": sym("b"), "extent": sym("a")}


def test_what_is_computed_is_indexed_in_a_workspace():
    g = graph(
        {"x": (6, 5), "i": ((4,), "int32")},
        [("e", "Abs", ["x"]), ("y", "Gather", ["e", "i"], {"axis": 0})],
        ["y"],
    )
    hint = checked(g)
    assert [n.op for n in hint.ops("Workspace")] == ["Workspace"]
    assert indexed(hint)[0].inputs[0] == "Workspace_0"


def test_a_view_of_an_input_is_indexed_where_it_is():
    g = graph(
        {"x": (6, 5), "i": ((4,), "int32")},
        [
            ("r", "Reshape", ["x"], {"shape": (const(2), const(15))}),
            ("y", "Gather", ["r", "i"], {"axis": 1}),
        ],
        ["y"],
    )
    hint = checked(g)
    assert list(hint.ops("Workspace")) == []
    assert [str(s) for s in indexed(hint)[0].y.strides] == ["15", "0"]


def test_a_slice_of_the_result_takes_a_part_of_the_index():
    cut = {"starts": (const(3), const(1)), "shape": (const(2), const(3)), "steps": (-1, 1)}
    g = graph(
        {"x": (6, 5), "i": ((4,), "int32")},
        [("g", "Gather", ["x", "i"], {"axis": 0}), ("y", "Slice", ["g"], cut)],
        ["y"],
    )
    hint = checked(g)
    (n,) = indexed(hint)
    index = hint.node(n.inputs[1])
    assert ([str(s) for s in index.y.strides], str(index.y.offset)) == (["-1", "0"], "3")
    assert str(n.y.offset) == "1"


def test_a_number_as_the_index_is_a_slice():
    for number in (2, -4):
        g = graph(
            {"x": (6, 5)}, [("y", "Gather", ["x", Constant(number, I32)], {"axis": 0})], ["y"]
        )
        hint = checked(g)
        assert indexed(hint) == []
    g = graph({"x": (6, 5)}, [("y", "Gather", ["x", Constant(6, I32)], {"axis": 0})], ["y"])
    with pytest.raises(AutofuseError, match="the index 6 is outside of dimension 0"):
        lower(g)


@pytest.mark.parametrize(
    ("shape", "index", "axis"), [((10,), (9,), 0), ((4, 17), (3, 9), 1), ((4, 10, 3), (4, 2, 1), 1)]
)
def test_elements(shape, index, axis):
    checked(gather(shape, index, axis, op="GatherElements"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((7, 10), 1), ((4, 5, 6), 1), ((5, 3), 0), ((2, 1, 9), -1), ((1, 4), 1)]
)
def test_one_element_of_every_line_by_comparing_places(shape, axis, dtype):
    """Places from the end and such as do not exist are those of the reference; what is not taken may be anything."""
    index = tuple(1 if d == axis % len(shape) else n for d, n in enumerate(shape))
    nodes = [("y", "GatherElements", ["x", "i"], {"axis": axis})]
    if dtype != "int32":
        nodes = [("r", "Reciprocal", ["x"]), ("y", "GatherElements", ["r", "i"], {"axis": axis})]
    g = graph({"x": (shape, dtype), "i": (index, "int64")}, nodes, ["y"])
    written = decompose(g, compare_places=True)
    assert "Gather" not in {n.op for n in written.nodes}
    checked(g, lower=lambda g: lower_written(decompose(g, compare_places=True)))


def test_other_elements_are_gathered_at_their_places():
    for shape, index, axis in (((4, 17), (4, 9), 1), ((4, 17), (3, 1), 1), ((4, 1), (4, 1), 1)):
        g = gather(shape, index, axis, op="GatherElements")
        assert "Gather" in {n.op for n in decompose(g, compare_places=True).nodes}


def test_places_of_many_elements_are_counted_in_64_bits():
    shape = ("a", 1 << 14)
    few = gather((1 << 10, 1 << 14), (3, 5), 0, op="GatherElements")
    assert {n.y.dtype.name for n in lower(few).ops("Iota")} == {"int32"}
    many = gather(shape, (3, 5), 0, op="GatherElements", symbols=("a",))
    assert {n.y.dtype.name for n in lower(many).ops("Iota")} == {"int64"}


def test_an_input_that_is_overwritten_is_copied_first():
    inputs = {"x": (6, 5), "i": ((6,), "int32")}
    nodes = [("g", "Gather", ["x", "i"], {"axis": 0}), ("y", "Abs", ["g"])]
    hint = lower(graph(inputs, nodes, [("y", "x")]))
    assert indexed(hint)[0].inputs[0] == "Workspace_0"


def test_places():
    assert inside(np.array([-4, -3, -1, 0, 2, 3, 9]), 3).tolist() == [0, 0, 2, 0, 2, 2, 2]


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "kind", "words"),
    [
        ("Gather", [(), (3,)], {"axis": 0}, "int32", "at least one dimension"),
        ("Gather", [(4, 5), (3,)], {"axis": 2}, "int32", "no axis 2"),
        ("Gather", [(0, 5), (3,)], {"axis": 0}, "int32", "nothing can be gathered"),
        ("Gather", [(4, 5), (3,)], {"axis": 0}, "int16", "int32 or int64"),
        ("GatherElements", [(4, 5), (3,)], {"axis": 0}, "int32", "as many"),
        ("GatherElements", [(4, 5), (3, 6)], {"axis": 0}, "int32", "6 elements along dimension 1"),
    ],
)
def test_refused(op, shapes, attrs, kind, words):
    x, i = (tuple(map(const, s)) for s in shapes)
    tensors = [Tensor("x", BY_NAME["float32"], x), Tensor("i", BY_NAME[kind], i)]
    with pytest.raises(OpError, match=words):
        infer_node(lookup(op), tensors, attrs)


def test_nothing_from_nothing():
    x = Tensor("x", BY_NAME["float32"], (const(0), sym("n")))
    i = Tensor("i", I32, (const(0),))
    assert infer_node(lookup("Gather"), [x, i], {"axis": 0})[1] == (const(0), sym("n"))
