"""Columns that become short rows of one output, on the CPU twin in checked mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.schedule.placement.stacking import STACK
from autofuse.schedule.templates import narrow

pytestmark = pytest.mark.twin

F, H = "float32", "float16"
DTYPES = sorted(d for d in BY_NAME if d != "mask" and BY_NAME[d].bits < 64)


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def stacks(built: api.BuildResult) -> list[int]:
    """Operands of every Stack."""
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return [len(n.inputs) for i in impls for n in i.nodes if n.op == STACK]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(16, 1), (1000, 1), (333, 2)])
def test_elements_of_every_width(dtype, rows, width):
    shapes = {n: (dtype, [rows, width]) for n in "abc"}
    assert 3 in stacks(check(graph(shapes, [("y", "Concat", ["c", "a", "b"], {"axis": 1})])))


@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("rows", [16, 64, 129])
def test_columns_of_computed_and_loaded_tensors(batch, rows):
    shapes = {"x": (F, [batch, rows, 1]), "z": (F, [rows, 1]), "s": (F, [1])}
    nodes = [
        ("a", "Mul", ["x", "z"]),
        ("b", "Add", ["a", "s"]),
        ("y", "Concat", ["a", "x", "b", "x"], {"axis": 2}),
    ]
    assert 4 in stacks(check(graph(shapes, nodes, outputs=["y", "b"])))


@pytest.mark.parametrize("widths", [(4, 1), (1, 3, 2), (2, 6)])
def test_columns_of_different_widths(widths):
    shapes = {f"x{i}": (F, [700, w]) for i, w in enumerate(widths)} | {"q": (F, [700, 1])}
    nodes = [(f"t{i}", "Mul", [f"x{i}", "q"]) for i in range(len(widths))]
    nodes.append(("y", "Concat", [t for t, *_ in nodes], {"axis": 1}))
    assert stacks(check(graph(shapes, nodes)))


@pytest.mark.parametrize("dtype", [F, H])
def test_an_interleaved_rotary_embedding(dtype):
    """Pairs of a head are turned by the angles of their position."""
    half = (2, 3, 17, 32, 1)
    nodes = [
        ("x", "Reshape", ["q"], {"shape": (2, 3, 17, 32, 2)}),
        *(
            (n, "Slice", ["x"], {"starts": (0, 0, 0, 0, i), "shape": half})
            for i, n in enumerate("ab")
        ),
        ("ac", "Mul", ["a", "cos"]),
        ("bs", "Mul", ["b", "sin"]),
        ("r", "Sub", ["ac", "bs"]),
        ("as", "Mul", ["a", "sin"]),
        ("bc", "Mul", ["b", "cos"]),
        ("i", "Add", ["as", "bc"]),
        ("j", "Concat", ["r", "i"], {"axis": 4}),
        ("y", "Reshape", ["j"], {"shape": (2, 3, 17, 64)}),
    ]
    inputs = {"q": (dtype, [2, 3, 17, 64])} | {n: (dtype, [17, 32, 1]) for n in ("cos", "sin")}
    assert 2 in stacks(check(graph(inputs, nodes)))


@pytest.mark.parametrize("batch", [2, 70])
def test_pairs_that_change_places_beside_what_they_come_from(batch):
    """``x * cos + turned(x) * sin`` with one table of angles for all of a batch: its rows are a loop."""
    half = {"shape": (batch, 7, 16), "steps": (1, 1, 2)}
    nodes = [
        *((n, "Slice", ["x"], {"starts": (0, 0, i), **half}) for i, n in enumerate("ab")),
        ("n", "Neg", ["b"]),
        *((f"{n}1", "Reshape", [n], {"shape": (batch, 7, 16, 1)}) for n in "na"),
        ("j", "Concat", ["n1", "a1"], {"axis": 3}),
        ("t", "Reshape", ["j"], {"shape": (batch, 7, 32)}),
        ("xc", "Mul", ["x", "cos"]),
        ("ts", "Mul", ["t", "sin"]),
        ("y", "Add", ["xc", "ts"]),
    ]
    inputs = {"x": (F, [batch, 7, 32]), "cos": (F, [7, 32]), "sin": (F, [7, 32])}
    built = check(graph(inputs, nodes))
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    assert 2 in stacks(built)
    assert any(i.template == narrow.NAME and i.suffix.startswith("rows_") for i in impls)


def test_corners_of_boxes():
    """From centres and sizes to corners."""
    rows = 2000
    parts = [
        (n, "Slice", ["x"], {"starts": (0, i), "shape": (rows, 1)}) for i, n in enumerate("cdwh")
    ]
    nodes = [
        *parts,
        ("hw", "Mul", ["w", 0.5]),
        ("hh", "Mul", ["h", 0.5]),
        ("l", "Sub", ["c", "hw"]),
        ("t", "Sub", ["d", "hh"]),
        ("r", "Add", ["c", "hw"]),
        ("b", "Add", ["d", "hh"]),
        ("y", "Concat", ["l", "t", "r", "b"], {"axis": 1}),
    ]
    assert 4 in stacks(check(graph({"x": (F, [rows, 4])}, nodes)))


def test_two_stacks_of_one_group_and_one_behind_the_other():
    shapes = {n: (F, [500, 1]) for n in "abc"}
    nodes = [
        ("n", "Neg", ["b"]),
        ("y", "Concat", ["a", "n", "c"], {"axis": 1}),
        ("z", "Concat", ["c", "a", "n"], {"axis": 1}),
        ("w", "Concat", ["y", "z"], {"axis": 0}),
    ]
    assert 3 in stacks(check(graph(shapes, nodes, outputs=["y", "z", "w"])))


def test_a_stack_that_overwrites_an_input():
    shapes = {"x": (F, [900, 2]), "a": (F, [900, 1]), "b": (F, [900, 1])}
    nodes = [("n", "Exp", ["b"]), ("y", "Concat", ["a", "n"], {"axis": 1})]
    assert 2 in stacks(check(graph(shapes, nodes, outputs=[{"tensor": "y", "inout": "x"}])))


def test_lengths_that_are_known_at_run_time_only():
    shapes = {"x": (F, ["n", 1]), "z": (F, ["n", 1])}
    nodes = [("t", "Mul", ["x", "z"]), ("y", "Concat", ["t", "z"], {"axis": 1})]
    assert stacks(check(graph(shapes, nodes, n={"min": 1, "max": 1 << 20})))


@pytest.mark.parametrize("dtype", [F, H, "int8"])
@pytest.mark.parametrize("first", [[16, 1, 1, 3], [20, 3], [16, 1]], ids=str)
def test_columns_around_whole_rows_are_no_stack(first, dtype):
    """Pieces that lie one behind the other: the axis of their number is outside of a tile."""
    shape = [*first[:-1], 8]
    starts = [*(0 for _ in first[:-1]), 5]
    nodes = [
        ("t", "Slice", ["x"], {"starts": starts, "shape": first}),
        ("y", "Concat", ["t", "t"], {"axis": 0}),
    ]
    if first[-1] > 1:
        assert not stacks(check(graph({"x": (dtype, shape)}, nodes)))
    else:
        check(graph({"x": (dtype, shape)}, nodes))


@pytest.mark.parametrize("rows", [(10, 4), (64, 16), (1000, 1), (16, 1)], ids=str)
def test_lengths_of_vectors_beside_numbers(rows):
    """``cat([s, v.norm(dim=-1)], -1)``, as equivariant networks have it."""
    nodes = [
        ("q", "Mul", ["v", "v"]),
        ("t", "ReduceSum", ["q"], {"axes": [2]}),
        ("n", "Sqrt", ["t"]),
        ("y", "Concat", ["s", "n"], {"axis": 1}),
    ]
    check(graph({"s": (F, rows), "v": (F, [*rows, 3])}, nodes))


@pytest.mark.parametrize("rows", [40, 15_000])
def test_columns_that_are_reduced_to_one_row(rows):
    """The means of equal columns have no long rows to lie side by side."""
    nodes = [
        ("p", "Concat", ["x", "x"], {"axis": 2}),
        ("y", "ReduceMean", ["p"], {"axes": [1], "keepdims": True}),
        ("z", "Pad", ["p"], {"low": [0, 1, 5], "high": [0, 0, 0], "value": 1.0}),
    ]
    check(graph({"x": (F, [1, rows, 1])}, nodes, outputs=["y", "z"]))


@pytest.mark.parametrize("dtype", [F, H])
def test_means_and_maxima_of_channels_side_by_side(dtype):
    """The attention over places of CBAM: both are one tensor with two channels."""
    nodes = [
        ("m", "ReduceMean", ["x"], {"axes": [1], "keepdims": True}),
        ("t", "ReduceMax", ["x"], {"axes": [1], "keepdims": True}),
        ("y", "Concat", ["m", "t"], {"axis": 1}),
    ]
    check(graph({"x": (dtype, [2, 8, 16, 16])}, nodes))


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(1, 5),
    st.integers(2, 700),
    st.lists(st.integers(1, 3), min_size=2, max_size=5),
    st.sampled_from([F, H, "int32", "int8", "int64"]),
)
def test_random_columns(batch, rows, widths, dtype):
    shapes = {f"x{i}": (dtype, [batch, rows, w]) for i, w in enumerate(widths)}
    check(graph(shapes, [("y", "Concat", list(shapes), {"axis": 2})]))
