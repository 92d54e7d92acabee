"""Tensors with short rows, on the CPU twin in checked mode: as one run in GM, with long rows in UB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.schedule.templates import narrow

LACES = {"Lace", "Unlace", "UnlaceByMask"}

pytestmark = [pytest.mark.sampled(8), pytest.mark.twin]

F, H = "float32", "float16"
DTYPES = sorted(d for d in BY_NAME if d != "mask" and BY_NAME[d].bits < 64)


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def laces(built: api.BuildResult) -> set[str]:
    """The calls that turn rows, in the templates for short ones."""
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    nodes = [n for i in impls if i.template == narrow.NAME for n in i.nodes]
    return {n.op for n in nodes} & LACES


@pytest.mark.parametrize("k", [2, 3, 4, 5, 7, 16])
@pytest.mark.parametrize("rows", [16, 17, 1000, 5003])
def test_a_number_for_every_row_and_for_every_column(k, rows):
    inputs = {"x": (F, [rows, k]), "s": (F, [rows, 1]), "c": (F, [k])}
    built = check(graph(inputs, [("t", "Mul", ["x", "s"]), ("y", "Add", ["t", "c"])]))
    assert laces(built) == {"UnlaceByMask" if k in (2, 4) else "Unlace", "Lace"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [3, 4])
def test_elements_of_every_width(dtype, k):
    built = check(
        graph({"x": (dtype, [2, k, 801])}, [("y", "Transpose", ["x"], {"perm": (0, 2, 1)})])
    )
    assert laces(built) == {"Lace"}


@pytest.mark.parametrize("batch", [1, 3, 50])
@pytest.mark.parametrize(("k", "length"), [(3, 64), (9, 128), (2, 333), (4, 2000)])
def test_channels_last_and_first(batch, k, length):
    last = {"x": (H, [batch, k, length])}
    first = {"x": (H, [batch, length, k]), "s": (H, [batch, length, 1])}
    perm = {"perm": (0, 2, 1)}
    assert laces(check(graph(last, [("y", "Transpose", ["x"], perm)])))
    assert laces(check(graph(first, [("t", "Mul", ["x", "s"]), ("y", "Transpose", ["t"], perm)])))


@pytest.mark.parametrize("axes", [(1,), (0,)])
@pytest.mark.parametrize(("rows", "k"), [(999, 2), (5000, 3), (64, 4)])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax"])
def test_reductions(op, rows, k, axes):
    nodes: list[tuple[Any, ...]] = [("e", "Exp", ["x"]), ("y", op, ["e"], {"axes": axes})]
    built = check(graph({"x": (F, [rows, k])}, nodes, outputs=["y", "e"]))
    assert laces(built)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_norms_along_short_rows(k):
    inputs = {"x": (F, [4001, k])}
    assert laces(check(graph(inputs, [("y", "Softmax", ["x"], {"axis": -1})])))
    mean = [
        ("m", "ReduceMean", ["x"], {"axes": (1,), "keepdims": True}),
        ("d", "Sub", ["x", "m"]),
        ("q", "Mul", ["d", "d"]),
        ("y", "ReduceMean", ["q"], {"axes": (1,)}),
    ]
    assert laces(check(graph(inputs, mean, outputs=["y", "d"])))


def test_results_of_comparisons():
    inputs = {"x": (F, [3001, 2]), "s": (F, [3001, 1])}
    nodes = [("m", "Greater", ["x", "s"]), ("y", "Where", ["m", "x", "s"])]
    assert laces(check(graph(inputs, nodes, outputs=["y", "m"])))


def test_several_short_axes():
    inputs = {
        "x": (F, [6, 300, 3, 2]),
        "p": (F, [6, 300, 3, 1]),
        "q": (F, [1, 300, 1, 2]),
        "r": (F, [2]),
    }
    nodes = [("t", "Mul", ["x", "p"]), ("u", "Sub", ["t", "q"]), ("y", "Mul", ["u", "r"])]
    assert laces(check(graph(inputs, nodes)))


@pytest.mark.parametrize("axes", [(), (0,), (0, 2), (2,)])
def test_numbers_for_places_in_a_short_row(axes):
    inputs = {"x": (F, [500, 3, 2]), "s": (F, [3, 2]), "p": (F, [500, 1, 2]), "q": (F, [3, 1])}
    nodes: list[tuple[Any, ...]] = [
        ("r", "Mul", ["q", "q"]),
        ("t", "Mul", ["x", "s"]),
        ("u", "Add", ["t", "p"]),
        ("y", "Mul", ["u", "r"]),
    ]
    sums = [("z", "ReduceSum", ["y"], {"axes": axes})] if axes else []
    built = check(graph(inputs, [*nodes, *sums], outputs=["z" if axes else "y"]))
    assert laces(built) or axes in ((0, 2), (2,))


def columns(name: str, of: str, start: int, count: int, rows: int) -> tuple[Any, ...]:
    """Some columns of a matrix."""
    attrs = {"starts": (0, start), "shape": (rows, count), "steps": (1, 1)}
    return name, "Slice", [of], attrs


def has_several_runs(built: api.BuildResult) -> bool:
    """Whether there is the template whose tiles have several long rows."""
    return any(i.suffix == "outer" for r in built.schedule for g in r.groups for i in g.impls)


def loads(built: api.BuildResult) -> int:
    """Loads of the template for short rows."""
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return next(sum(n.op == "Load" for n in i.nodes) for i in impls if i.template == narrow.NAME)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [4, 5, 7])
def test_parts_of_short_rows_share_a_run(dtype, width):
    rows = 1501
    parts = [columns("a", "x", 0, 2, rows), columns("b", "x", width - 2, 2, rows)]
    then = "LogicalOr" if dtype == "bool" else "Maximum"
    built = check(graph({"x": (dtype, [rows, width])}, [*parts, ("y", then, ["a", "b"])]))
    assert laces(built) == {"UnlaceByMask" if width == 4 else "Unlace", "Lace"}
    assert loads(built) == 1


@pytest.mark.parametrize(
    ("first", "second"), [((0, 4), (2, 4)), ((1, 3), (5, 1)), ((4, 2), (0, 3))]
)
def test_parts_that_overlap_and_single_columns(first, second):
    rows = 2001
    parts = [columns("a", "x", *first, rows), columns("b", "x", *second, rows)]
    nodes = [*parts, ("t", "Mul", ["a", "s"]), ("u", "Mul", ["b", "s"])]
    inputs = {"x": (F, [rows, 6]), "s": (F, [rows, 1])}
    ends: list[tuple[Any, ...]] = [
        ("v", "ReduceMax", ["t"], {"axes": (1,)}),
        ("w", "ReduceMax", ["u"], {"axes": (1,)}),
        ("y", "Sub", ["v", "w"]),
    ]
    check(graph(inputs, [*nodes, *ends]))


def test_parts_of_rows_that_follow_each_other():
    """The last column of a row and the first ones of the next lie in one run, but not in one short row."""
    rows = 900
    attrs = [{"starts": s, "shape": (rows, 2), "steps": (1, 1)} for s in ((0, 2), (1, 0), (1, 1))]
    parts = [(n, "Slice", ["x"], a) for n, a in zip("abc", attrs, strict=True)]
    nodes: list[tuple[Any, ...]] = [*parts, ("t", "Sub", ["a", "b"]), ("y", "Sub", ["t", "c"])]
    built = check(graph({"x": (F, [rows + 1, 4])}, nodes))
    assert laces(built) == {"UnlaceByMask", "Lace"}


@pytest.mark.parametrize("columns", [16, 50, 64])
def test_pairs_of_each_row_with_pairs_of_each_column(columns):
    """Those of a row are dense in UB where a tile has several rows."""
    inputs = {"x": (F, [3, 200, 1, 2]), "z": (F, [3, 1, columns, 2])}
    nodes = [("h", "Mul", ["x", 0.5]), ("y", "Maximum", ["h", "z"])]
    assert laces(check(graph(inputs, nodes, outputs=["y"])))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("columns", "k"), [(50, 2), (17, 3)])
def test_runs_of_a_row_that_are_no_whole_blocks(columns, k, dtype):
    """In UB they have the padding of long rows; in GM they lie side by side."""
    op = "LogicalOr" if dtype == "bool" else "Maximum"
    inputs = {
        "x": (dtype, [3, 70, 1, k]),
        "z": (dtype, [3, 1, columns, k]),
        "w": (dtype, [3, 70, columns, k]),
    }
    nodes = [("t", op, ["x", "z"]), ("y", op, ["t", "w"])]
    built = check(graph(inputs, nodes, outputs=["y", "t"]))
    assert has_several_runs(built)
    assert laces(built) == {"UnlaceByMask" if k == 2 else "Unlace", "Lace"}


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize(("columns", "k"), [(50, 2), (33, 3), (27, 4)])
def test_reductions_of_runs_that_are_no_whole_blocks(columns, k, axis):
    inputs = {"x": (F, [2, 90, 1, k]), "w": (F, [2, 90, columns, k])}
    nodes = [("t", "Mul", ["x", "w"]), ("y", "ReduceSum", ["t"], {"axes": (axis,)})]
    assert laces(check(graph(inputs, nodes, outputs=["y", "t"])))


def test_runs_that_are_no_whole_blocks_lie_apart():
    """What is loaded is a part of its columns, and so is what is stored."""
    part = {"starts": (0, 3, 0), "shape": (200, 45, 2), "steps": (1, 1, 1)}
    inputs = {"w": (F, [200, 50, 2]), "x": (F, [200, 1, 2]), "v": (F, [200, 7, 2])}
    nodes = [
        ("p", "Slice", ["w"], part),
        ("t", "Mul", ["p", "x"]),
        ("y", "Concat", ["t", "v"], {"axis": 1}),
    ]
    assert has_several_runs(check(graph(inputs, nodes)))


def suffixes(built):
    return {i.suffix for r in built.schedule for g in r.groups for i in g.impls}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_few_long_rows_and_those_around_them(dtype):
    """Pixels twice along both axes: a tile has several rows of them, twice each."""
    inputs = {"x": (dtype, [3, 35, 1, 33, 1])}
    nodes = [("y", "Broadcast", ["x"], {"shape": (3, 35, 2, 33, 2)})]
    assert "outer_2" in suffixes(check(graph(inputs, nodes)))


@pytest.mark.parametrize("rows", [41, "p"])
def test_pixels_of_blocks_side_by_side(rows):
    inputs = {"x": (F, [2, 2, 3, rows, 21])}
    limits = {} if rows == 41 else {"p": {"min": 1, "max": 300}}
    nodes = [("y", "Transpose", ["x"], {"perm": (3, 0, 1, 4, 2)})]
    assert any(s.startswith("outer") for s in suffixes(check(graph(inputs, nodes, **limits))))


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceSum"])
@pytest.mark.parametrize(("down", "right"), [(2, 2), (3, 3), (2, 5)])
def test_reductions_of_blocks(op, down, right):
    inputs = {"x": (F, [2, 37, down, 29, right])}
    nodes = [("y", op, ["x"], {"axes": (2, 4)})]
    assert "outer" in suffixes(check(graph(inputs, nodes)))


@pytest.mark.parametrize("symbols", ["m", "p", "mp"])
def test_runs_whose_lengths_are_known_at_run_time_only(symbols):
    p, m = ("p" if "p" in symbols else 70), ("m" if "m" in symbols else 50)
    inputs = {"x": (F, [3, p, 1, 2]), "z": (F, [3, 1, m, 2])}
    limits = {s: {"min": 1, "max": 5000} for s in symbols}
    built = check(graph(inputs, [("y", "Maximum", ["x", "z"])], **limits))
    assert has_several_runs(built)


def test_lengths_that_are_known_at_run_time_only():
    inputs = {"x": (F, ["n", 3]), "s": (F, ["n", 1])}
    built = check(graph(inputs, [("y", "Mul", ["x", "s"])], n={"min": 1, "max": 1 << 20}))
    assert laces(built)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(1, 9),
    st.integers(2, 9),
    st.integers(16, 700),
    st.sampled_from([F, H, "int32", "int8"]),
    st.sampled_from([(0, 2, 1), (2, 0, 1), (1, 0, 2)]),
)
def test_transpositions_of_random_shapes(batch, k, length, dtype, perm):
    check(graph({"x": (dtype, [batch, k, length])}, [("y", "Transpose", ["x"], {"perm": perm})]))
    check(graph({"x": (dtype, [batch, length, k])}, [("y", "Transpose", ["x"], {"perm": perm})]))
