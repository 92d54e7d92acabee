"""Tensors with an element per row, on the CPU twin in checked mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twin_graphs import CHIP, check, every_template, graph

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ops.rows.device import ROW_OPERANDS

pytestmark = pytest.mark.twin

#: Rows and columns: rows of whole repeats, with a rest, of less than one; a single row; more than 255 repeats.
SHAPES = [(37, 512), (50, 77), (300, 24), (1, 1000), (5, 8192), (61, 64), (3, 100), (700, 1)]


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def taken(built: api.BuildResult) -> set[str]:
    """The calls with an element per row in any template."""
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return {n.op for i in impls for n in i.nodes if n.op in ROW_OPERANDS.values()}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int16"])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_arithmetic_with_a_number_per_row(dtype, rows, columns):
    shapes = {"x": (dtype, [rows, columns]), **{c: (dtype, [rows, 1]) for c in "abcde"}}
    nodes = [
        ("p", "Add", ["x", "a"]),
        ("q", "Sub", ["b", "p"]),
        ("r", "Maximum", ["q", "c"]),
        ("s", "Minimum", ["d", "r"]),
        ("y", "Sub", ["s", "e"]),
    ]
    found = taken(check(graph(shapes, nodes)))
    if rows > 1 and columns > 1:
        assert {"AddRow", "RowSub", "MaxRow", "MinRow", "SubRow"} <= found


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), SHAPES[:4])
def test_norms_with_a_number_per_row(dtype, rows, columns):
    shapes = {"x": (dtype, [rows, columns]), "c": (dtype, [rows, 1])}
    keep = {"axes": [1], "keepdims": True}
    nodes = [
        ("q", "Mul", ["x", "x"]),
        ("v", "ReduceMean", ["q"], keep),
        ("w", "Add", ["v", 1.0]),
        ("r", "Sqrt", ["w"]),
        ("n", "Div", ["x", "r"]),
        ("y", "Mul", ["c", "n"]),
    ]
    check(graph(shapes, nodes))


def test_rows_of_unknown_length():
    symbols = {"m": {"min": 1, "max": 300}, "n": {"min": 1, "max": 3000}}
    shapes = {"x": ("float32", ["m", "n"]), "c": ("float32", ["m", 1])}
    nodes = [("p", "Mul", ["x", "c"]), ("y", "Softmax", ["p"], {"axis": 1})]
    assert {"MulRow", "SubRow", "DivRow"} <= taken(check(graph(shapes, nodes, **symbols)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "columns"), [(60, 1024), (200, 1000), (130, 77), ("m", 520)])
def test_rows_that_tiles_share_are_converted_in_every_tile(dtype, rows, columns):
    """In UB of which such a row of float32 would be too much."""
    wide = {"dtype": "float32"}
    keep = {"axes": [1], "keepdims": True}
    shapes = {"x": (dtype, [rows, columns]), "w": (dtype, [columns]), "b": (dtype, [columns])}
    nodes = [
        ("xf", "Cast", ["x"], wide),
        ("m", "ReduceMean", ["xf"], keep),
        ("d", "Sub", ["xf", "m"]),
        ("wf", "Cast", ["w"], wide),
        ("s", "Mul", ["d", "wf"]),
        ("bf", "Cast", ["b"], wide),
        ("z", "Add", ["s", "bf"]),
        ("y", "Cast", ["z"], {"dtype": dtype}),
    ]
    symbols = {"m": {"min": 1, "max": 200}} if rows == "m" else {}
    document = graph(shapes, nodes, **symbols)
    rooms = range(11 * columns, 24 * columns, columns // 6)
    assert converted_late(check(document, next(u for u in rooms if late_with(document, u))))


def late_with(document, ub):
    try:
        return converted_late(api.build(document, target=CHIP.with_ub(ub)))
    except AutofuseError:
        return False  # not even a row fits


def converted_late(built):
    """Whether a template converts in the loop what it spreads before it."""
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        spread = {n.name for n in impl.nodes if n.op == "Broadcast" and n.loop_axis is None}
        if any(n.op == "Cast" and n.inputs[0] in spread for n in impl.nodes):
            return True
    return False
