"""Calls that take an element per row as it is, where a Broadcast would write it throughout the rows."""

from __future__ import annotations

import pytest

F = "float32"


def ops(made, template="reduce_all"):
    return [n.op for i in made if i.template == template for n in i.nodes if n.api is not None]


def test_a_softmax_writes_no_number_throughout_its_rows(impls):
    found = ops(impls({"x": (F, [400, 77])}, [("y", "Softmax", ["x"], {"axis": 1})], ["y"]))
    assert "Broadcast" not in found
    assert {"SubRow", "DivRow"} <= set(found)


@pytest.mark.parametrize(
    ("op", "first", "last"),
    [
        ("Add", "AddRow", "AddRow"),
        ("Sub", "RowSub", "SubRow"),
        ("Mul", "MulRow", "MulRow"),
        ("Div", "RowDiv", "DivRow"),
        ("Maximum", "MaxRow", "MaxRow"),
        ("Minimum", "MinRow", "MinRow"),
    ],
)
def test_each_op_and_either_operand(impls, op, first, last):
    shapes = {"x": (F, [400, 77]), "c": (F, [400, 1])}
    for operands, want in ((["c", "x"], first), (["x", "c"], last)):
        found = impls(shapes, [("y", op, operands)], ["y"])
        row = next(i for i in found if any(n.op == want for n in i.nodes))
        (call,) = [n for n in row.nodes if n.op == want]
        # The tensor comes first, and there is room for a block per row and one per repeat.
        x, each = (row.by_name()[i].y.vectorized_axis for i in call.inputs)
        assert x == call.y.vectorized_axis
        assert x[: len(each)] == each != x
        assert len(call.tmp_buffers) == 1


def test_three_that_read_a_number_share_a_broadcast(impls):
    shapes = {"x": (F, [400, 77])}
    nodes = [
        ("s", "ReduceSum", ["x"], {"axes": (1,), "keepdims": True}),
        ("a", "Sub", ["x", "s"]),
        ("b", "Mul", ["a", "s"]),
    ]
    two = ops(impls(shapes, nodes, ["b"]))
    assert "Broadcast" not in two
    assert {"SubRow", "MulRow"} <= set(two)
    three = ops(impls(shapes, [*nodes, ("d", "Maximum", ["b", "s"])], ["d"]))
    assert three.count("Broadcast") == 1
    assert {"SubRow", "MulRow", "MaxRow"}.isdisjoint(three)


def test_another_reader_keeps_the_broadcast(impls):
    shapes = {"x": (F, [400, 77])}
    nodes = [
        ("s", "ReduceSum", ["x"], {"axes": (1,), "keepdims": True}),
        ("a", "Sub", ["x", "s"]),
        ("m", "Greater", ["a", "s"]),
        ("y", "Select", ["m", "a", "x"]),
    ]
    found = ops(impls(shapes, nodes, ["y"]))
    assert "Broadcast" in found
    assert "SubRow" not in found


def test_what_is_one_number_for_many_tiles_is_written_once(impls):
    """A row in many tiles: the number of the row is spread before the loop over them."""
    found = impls({"x": (F, [4, 300_000])}, [("y", "Softmax", ["x"], {"axis": 1})], ["y"])
    spread = [(n, i) for i in found for n in i.nodes if n.op == "Broadcast"]
    assert len(spread) >= 2
    for n, i in spread:
        inside = [m for m in i.nodes if n.name in m.inputs]
        assert inside
        assert all((m.loop_axis, m.loop_pass) != (n.loop_axis, n.loop_pass) for m in inside)


def test_integers_of_64_bits_have_no_such_call(impls):
    shapes = {"x": ("int64", [400, 80]), "c": ("int64", [400, 1])}
    for i in impls(shapes, [("y", "Add", ["x", "c"])], ["y"]):
        assert not any(n.y.dtype.bits == 64 and n.op == "AddRow" for n in i.nodes)
