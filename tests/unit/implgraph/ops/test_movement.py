"""Lowering of transposes, slices, concatenations, pads and index tensors: they cost nothing but strides."""

from __future__ import annotations

import numpy as np
import pytest
from lowering_checks import checked, graph

from autofuse.implgraph.expr.expression import ONE, ZERO, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Tensor
from autofuse.implgraph.lowering.lowering import groups, lower
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.interpret import interpret


def sizes(*values):
    return tuple(sym(v) if isinstance(v, str) else const(v) for v in values)


def memory(hint, op="Load"):
    """(strides, offset) of every Load or Store."""
    return [([str(s) for s in n.y.strides], str(n.y.offset)) for n in hint.ops(op)]


def cut(starts, shape, steps=()):
    return {"starts": sizes(*starts), "shape": sizes(*shape), "steps": tuple(steps)}


# transposes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (-1, 0, 1)])
def test_a_transpose_is_a_matter_of_the_load(perm):
    g = graph(
        {"x": (3, 4, 5), "b": (1,)},
        [("t", "Transpose", ["x"], {"perm": perm}), ("y", "Mul", ["t", "b"])],
        ["y"],
    )
    hint = checked(g)
    assert [n.op for n in hint.nodes if n.axis] == ["Load", "Load", "Mul", "Store"]
    assert len(groups(hint)) == 1


def test_strides_of_a_transposed_load():
    g = graph({"x": (3, 4)}, [("y", "Transpose", ["x"], {"perm": (1, 0)})], ["y"])
    hint = checked(g)
    assert memory(hint) == [(["1", "4"], "0")]
    assert memory(hint, "Store") == [(["3", "1"], "0")]


def test_a_transpose_there_and_back_is_nothing():
    g = graph(
        {"x": (3, 4, 5)},
        [
            ("a", "Transpose", ["x"], {"perm": (2, 0, 1)}),
            ("b", "Abs", ["a"]),
            ("y", "Transpose", ["b"], {"perm": (1, 2, 0)}),
        ],
        ["y"],
    )
    hint = checked(g)
    assert memory(hint) == [(["1"], "0")]


def test_a_transpose_before_a_reshape_splits_axes():
    g = graph(
        {"x": (2, 6, 12)},
        [
            ("r", "Reshape", ["x"], {"shape": sizes(2, 6, 3, 4)}),
            ("t", "Transpose", ["r"], {"perm": (0, 2, 1, 3)}),
            ("y", "Neg", ["t"]),
        ],
        ["y"],
    )
    assert memory(checked(g)) == [(["72", "4", "12", "1"], "0")]


def test_a_transpose_that_moves_only_ones_is_a_view():
    g = graph({"x": (3, 1, 4)}, [("y", "Transpose", ["x"], {"perm": (1, 0, 2)})], ["y"])
    assert memory(checked(g)) == [(["1"], "0")]


def test_a_transposed_operand_of_a_reduction():
    g = graph(
        {"x": (3, 4, 5), "z": (4, 3)},
        [
            ("t", "Transpose", ["x"], {"perm": (1, 0, 2)}),
            ("s", "ReduceSum", ["t"], {"axes": (2,)}),
            ("y", "Add", ["s", "z"]),
        ],
        ["y"],
    )
    assert len(groups(checked(g))) == 1


def test_a_reduction_and_its_transpose():
    g = graph(
        {"x": (3, 4, 5)},
        [
            ("s", "ReduceSum", ["x"], {"axes": (1,)}),
            ("y", "Transpose", ["s"], {"perm": (1, 0)}),
        ],
        ["s", "y"],
    )
    hint = checked(g)
    assert len(groups(hint)) == 1


# slices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "shape", "steps"),
    [
        ((1, 2), (3, 4), ()),
        ((0, 7), (4, 8), (1, -1)),
        ((3, 0), (2, 3), (-2, 3)),
        ((2, 5), (1, 1), ()),
        ((0, 0), (4, 8), ()),
        ((0, 1), (4, 0), ()),
    ],
)
def test_slices(starts, shape, steps):
    g = graph(
        {"x": (4, 8), "b": (8,)},
        [
            ("a", "Add", ["x", "b"]),
            ("s", "Slice", ["a"], cut(starts, shape, steps)),
            ("y", "Abs", ["s"]),
        ],
        ["y"],
    )
    hint = checked(g)
    assert len(groups(hint)) == 1
    assert not list(hint.ops("Workspace"))


def test_a_flip_has_negative_strides():
    g = graph({"x": (8,)}, [("y", "Slice", ["x"], cut((7,), (8,), (-1,)))], ["y"])
    assert memory(checked(g)) == [(["-1"], "7")]


def test_a_slice_of_a_slice():
    g = graph(
        {"x": (40,)},
        [
            ("a", "Slice", ["x"], cut((2,), (12,), (3,))),
            ("y", "Slice", ["a"], cut((11,), (6,), (-2,))),
        ],
        ["y"],
    )
    assert memory(checked(g)) == [(["-6"], "35")]


def test_the_two_pieces_of_a_rotation_are_computed_together():
    """The second half, negated, before the first: as in rotary embeddings."""
    g = graph(
        {"x": (4, 8), "c": (8,), "s": (8,)},
        [
            ("a", "Slice", ["x"], cut((0, 0), (4, 4))),
            ("b", "Slice", ["x"], cut((0, 4), (4, 4))),
            ("n", "Neg", ["b"]),
            ("r", "Concat", ["n", "a"], {"axis": 1}),
            ("p", "Mul", ["r", "s"]),
            ("q", "Mul", ["x", "c"]),
            ("y", "Add", ["p", "q"]),
        ],
        ["y"],
    )
    hint = checked(g)
    assert len(groups(hint)) == 1
    assert not list(hint.ops("Workspace"))
    assert [n.attrs["index"] for n in hint.ops("Output")] == [0, 0]
    # Both halves of x, c and s are loaded once.
    assert len(list(hint.ops("Load"))) == 6
    assert len(list(hint.ops("Store"))) == 2


def test_a_sliced_operand_of_a_reduction():
    g = graph(
        {"x": (4, 8)},
        [
            ("a", "Slice", ["x"], cut((1, 2), (3, 5))),
            ("y", "ReduceSum", ["a"], {"axes": (1,)}),
        ],
        ["y"],
    )
    hint = checked(g)
    assert len(groups(hint)) == 1
    assert memory(hint) == [(["8", "1"], "10")]


def test_what_takes_the_same_part_of_linked_tensors_is_computed_together():
    """Of a tensor and of its squares: one load serves both; another part of it is another group."""
    part, other = cut((1, 2), (3, 5)), cut((0, 2), (3, 5))
    nodes = [
        ("a", "Slice", ["x"], part),
        ("y", "ReduceSum", ["a"], {"axes": (1,)}),
        ("q", "Mul", ["x", "x"]),
        ("b", "Slice", ["q"], part),
        ("z", "ReduceMax", ["b"], {"axes": (1,)}),
        ("c", "Slice", ["q"], other),
        ("w", "ReduceMax", ["c"], {"axes": (1,)}),
    ]
    hint = checked(graph({"x": (4, 8)}, nodes[:5], ["y", "z"]))
    assert len(groups(hint)) == 1
    assert memory(hint) == [(["8", "1"], "10")]
    assert len(groups(checked(graph({"x": (4, 8)}, nodes, ["y", "z", "w"])))) == 2


def test_the_same_part_of_what_waits_for_a_reduction_is_a_group_of_its_own():
    """Else the sum of the one part would wait for the sum of all."""
    part, rows = cut((0, 2), (4, 5)), {"axes": (1,), "keepdims": True}
    nodes = [
        ("a", "Slice", ["x"], part),
        ("y", "ReduceSum", ["a"], rows),
        ("m", "ReduceSum", ["x"], rows),
        ("d", "Sub", ["x", "m"]),
        ("b", "Slice", ["d"], part),
        ("z", "ReduceSum", ["b"], rows),
    ]
    assert len(groups(checked(graph({"x": (4, 8)}, nodes, ["y", "z"])))) == 3


def test_a_reshape_over_a_slice_goes_through_a_workspace():
    g = graph(
        {"x": (4, 8), "b": (10,)},
        [
            ("a", "Abs", ["x"]),
            ("s", "Slice", ["a"], cut((0, 1), (4, 5))),
            ("r", "Reshape", ["s"], {"shape": sizes(2, 10)}),
            ("m", "ReduceMax", ["r"], {"axes": (0,)}),
            ("y", "Add", ["m", "b"]),
        ],
        ["y"],
    )
    checked(g)


def test_symbolic_slices():
    g = graph(
        {"x": ("n", 8)},
        [("a", "Abs", ["x"]), ("y", "Slice", ["a"], cut((0, 2), ("n", 4), (1, 1)))],
        ["y"],
        symbols=("n",),
    )
    for n in (0, 1, 5):
        checked(g, {"n": n})


# concatenation --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
def test_three_pieces(axis):
    shapes = {}
    for i, n in enumerate((2, 3, 1)):
        shape = [4, 5, 6]
        shape[axis] = n
        shapes[f"x{i}"] = tuple(shape)
    nodes = [(f"a{i}", "Abs", [f"x{i}"]) for i in range(3)]
    nodes += [("c", "Concat", ["a0", "a1", "a2"], {"axis": axis}), ("y", "Neg", ["c"])]
    hint = checked(graph(shapes, nodes, ["y"]))
    assert len(groups(hint)) == 3
    assert len(list(hint.ops("Output"))) == 3


def side_by_side(widths, rows=(4, 5)):
    shapes = {f"x{i}": (*rows, w) for i, w in enumerate(widths)}
    nodes = [(f"a{i}", "Abs", [x]) for i, x in enumerate(shapes)]
    made = [a for a, *_ in nodes]
    return graph(shapes, [*nodes, ("y", "Concat", made, {"axis": -1})], ["y"])


@pytest.mark.parametrize(
    ("widths", "columns"), [((1, 1), 2), ((2, 2, 2), 3), ((2, 3, 1), 6), ((2, 4, 2), 4)]
)
def test_pieces_of_short_rows_are_columns_of_one_group(widths, columns):
    hint = checked(side_by_side(widths))
    assert len(groups(hint)) == 1
    assert len(list(hint.ops("Output"))) == columns


@pytest.mark.parametrize("widths", [(9, 9), (1, 16), (3, 12, 2)])
def test_pieces_of_longer_rows_are_groups_of_their_own(widths):
    assert len(groups(checked(side_by_side(widths)))) == len(widths)


def test_pieces_of_different_widths_in_few_rows_are_not_cut():
    assert len(groups(checked(side_by_side((2, 1), (3, 5))))) == 2


def test_columns_inside_of_a_dimension():
    """Neighbours that change places, beside what they come from: no workspace."""
    pairs = [(f"p{i}", "Slice", ["x"], cut((0, i), (6, 4), (1, 2))) for i in (0, 1)]
    ones = [(f"r{i}", "Reshape", [f"p{i}"], {"shape": sizes(6, 4, 1)}) for i in (0, 1)]
    nodes = [
        *pairs,
        *ones,
        ("c", "Concat", ["r1", "r0"], {"axis": 2}),
        ("t", "Reshape", ["c"], {"shape": sizes(6, 8)}),
        ("m", "Mul", ["t", "s"]),
        ("y", "Add", ["x", "m"]),
    ]
    hint = checked(graph({"x": (6, 8), "s": (8,)}, nodes, ["y"]))
    assert len(groups(hint)) == 1
    assert not list(hint.ops("Workspace"))


def test_operands_of_a_concatenation_are_sliced():
    g = graph(
        {"x": (4, 3), "z": (4, 5), "b": (8,)},
        [("c", "Concat", ["x", "z"], {"axis": 1}), ("y", "Add", ["c", "b"])],
        ["y"],
    )
    hint = checked(g)
    assert memory(hint, "Store") == [(["8", "1"], "0"), (["8", "1"], "3")]


def test_a_concatenation_of_concatenations():
    g = graph(
        {"x": (2, 3), "z": (4, 3), "w": (6, 2)},
        [
            ("c", "Concat", ["x", "z"], {"axis": 0}),
            ("y", "Concat", ["c", "w"], {"axis": 1}),
        ],
        ["y"],
    )
    assert len(groups(checked(g))) == 3


def test_a_transposed_concatenation():
    g = graph(
        {"x": (2, 3), "z": (4, 3)},
        [
            ("c", "Concat", ["x", "z"], {"axis": 0}),
            ("y", "Transpose", ["c"], {"perm": (1, 0)}),
        ],
        ["y"],
    )
    assert len(groups(checked(g))) == 2


def test_a_reduction_across_pieces_reads_a_workspace():
    g = graph(
        {"x": (4, 3), "z": (4, 5)},
        [
            ("c", "Concat", ["x", "z"], {"axis": 1}),
            ("y", "ReduceSum", ["c"], {"axes": (1,)}),
        ],
        ["y"],
    )
    hint = checked(g)
    (space,) = hint.ops("Workspace")
    assert len(space.inputs) == 2


def test_a_reduction_beside_pieces_is_cut_with_them():
    g = graph(
        {"x": (4, 3), "z": (5, 3)},
        [
            ("c", "Concat", ["x", "z"], {"axis": 0}),
            ("y", "ReduceSum", ["c"], {"axes": (1,)}),
        ],
        ["y"],
    )
    hint = checked(g)
    assert len(groups(hint)) == 2
    assert not list(hint.ops("Workspace"))


def test_every_third_element_of_pieces():
    g = graph(
        {"x": (7,), "z": (9,)},
        [
            ("c", "Concat", ["x", "z"], {"axis": 0}),
            ("y", "Slice", ["c"], cut((15,), (5,), (-3,))),
        ],
        ["y"],
    )
    assert len(groups(checked(g))) == 2


def test_symbolic_pieces():
    g = graph(
        {"x": ("n", 3), "z": ("m", 3)},
        [("c", "Concat", ["x", "z"], {"axis": 0}), ("y", "Abs", ["c"])],
        ["y"],
        symbols=("n", "m"),
    )
    for n, m in ((0, 4), (4, 0), (1, 1), (5, 7)):
        checked(g, {"n": n, "m": m})


@pytest.mark.parametrize("value", [0.0, -1.5])
def test_pad(value):
    attrs = {"low": sizes(1, 0), "high": sizes(0, 3), "value": value}
    g = graph({"x": (4, 5)}, [("a", "Abs", ["x"]), ("y", "Pad", ["a"], attrs)], ["y"])
    hint = checked(g)
    assert len(groups(hint)) == 3


def test_a_pad_of_nothing_is_a_copy():
    attrs = {"low": sizes(0), "high": sizes(0)}
    hint = checked(graph({"x": (4,)}, [("y", "Pad", ["x"], attrs)], ["y"]))
    assert [n.op for n in hint.nodes if n.axis] == ["Load", "Store"]


# index tensors --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_iota(axis, dtype):
    g = graph(
        {"x": ((4, 6), dtype)},
        [
            ("i", "Iota", [], {"shape": sizes(4, 6), "axis": axis, "dtype": dtype, "step": 2}),
            ("y", "Add", ["x", "i"]),
        ],
        ["y"],
    )
    (line,) = checked(g).ops("Iota")
    assert len(line.y.varies()) == 1
    assert line.attrs == {"start": 0, "step": 2}


def test_a_split_iota_is_a_sum_of_lines():
    g = graph(
        {"x": (4, 6), "b": (6,)},
        [
            ("i", "Iota", [], {"shape": sizes(24), "axis": 0, "dtype": "float32"}),
            ("r", "Reshape", ["i"], {"shape": sizes(4, 6)}),
            ("s", "Add", ["r", "b"]),
            ("y", "Add", ["x", "s"]),
        ],
        ["y"],
    )
    assert [n.attrs["step"] for n in checked(g).ops("Iota")] == [6, 1]


def test_a_sliced_iota():
    g = graph(
        {},
        [
            ("i", "Iota", [], {"shape": sizes(24), "axis": 0, "dtype": "float32", "start": 5}),
            ("y", "Slice", ["i"], cut((20,), (5,), (-3,))),
            ("z", "Slice", ["i"], cut((7,), (1,))),
        ],
        ["y", "z"],
    )
    hint = lower(g)
    a, b = interpret(hint, [])
    np.testing.assert_array_equal(a, 25 - 3 * np.arange(5))
    np.testing.assert_array_equal(b, [12])


# refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "attrs", "words"),
    [
        ("Transpose", {"perm": (0, 0)}, "not a permutation"),
        ("Transpose", {"perm": (0,)}, "has 1 entry; the tensor has 2 dimensions"),
        ("Slice", cut((0, 0), (4, 5)), "elements 0 to 4"),
        ("Slice", cut((0, 0), (2, 2), (1, 0)), "is 0"),
        ("Concat", {"axis": 7}, "no axis 7"),
        ("Pad", {"low": (ZERO,), "high": (ONE, ONE)}, "has 1 entry; the tensor has 2 dimensions"),
        ("Pad", {"low": (const(-1), ZERO), "high": (ONE, ONE)}, "Slice"),
    ],
)
def test_refused(op, attrs, words):
    t = Tensor("x", BY_NAME["float32"], sizes(4, 4))
    with pytest.raises(OpError) as e:
        infer_node(lookup(op), [t], attrs)
    assert words in f"{e.value} {e.value.hint}"
