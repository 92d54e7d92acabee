"""Rows beyond a tile that share what is loaded, as a bias: a loop over rows in a piece of the columns, on the twin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twin_graphs import check, every_template, graph

from autofuse import api

pytestmark = pytest.mark.twin

F32 = "float32"


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def of_rows(built: api.BuildResult) -> list[str]:
    """The templates with a loop over rows."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    return [i.suffix for i in impls if i.template == "general" and i.suffix.startswith("rows_")]


def biased(shape: tuple[Any, ...], dtype: str = F32, **symbols: Any) -> dict[str, Any]:
    """Scaled and shifted rows."""
    inputs = {"x": (dtype, shape), "w": (dtype, shape[-1:]), "b": (dtype, shape[-1:])}
    return graph(inputs, [("p", "Mul", ["x", "w"]), ("y", "Add", ["p", "b"])], **symbols)


@pytest.mark.parametrize("seed", [0, 1, 6])
@pytest.mark.parametrize("shape", [(2, 1031), (67, 1024), (33, 2039), (5, 7, 1100)], ids=str)
def test_biases(shape, seed):
    assert of_rows(check(biased(shape), 7000, check_seed=seed))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int8", "int64"])
def test_dtypes(dtype):
    assert of_rows(check(biased((37, 1301), dtype), 9000, check_seed=2))


def test_what_rows_share_is_cast_and_computed_once():
    inputs = {"x": (F32, (41, 1999)), "w": ("float16", (1999,)), "b": ("int32", (1, 1999))}
    nodes = [
        ("c", "Cast", ["w"], {"dtype": F32}),
        ("e", "Exp", ["c"]),
        ("f", "Cast", ["b"], {"dtype": F32}),
        ("s", "Mul", ["e", "f"]),
        ("p", "Mul", ["x", "s"]),
        ("y", "Abs", ["p"]),
    ]
    built = check(graph(inputs, nodes), 16000, check_seed=1)
    assert of_rows(built)
    impl = next(i for r in built.schedule for g in r.groups for i in g.impls if "rows_" in i.suffix)
    inside = {n.op for n in impl.nodes if n.loop_axis == impl.r_axis and n.api is not None}
    assert inside == {"Load", "Mul", "Abs", "Store"}


def test_one_bias_for_each_of_some():
    """A row for every index of the outermost axis: the rows of the middle one share it."""
    inputs = {"x": (F32, (3, 45, 1201)), "b": (F32, (3, 1, 1201))}
    assert of_rows(check(graph(inputs, [("y", "Add", ["x", "b"])]), 6000, check_seed=3))


def test_rows_of_the_outer_axis_share_a_matrix():
    inputs = {"x": (F32, (9, 5, 1201)), "b": (F32, (5, 1201)), "c": (F32, (9, 1, 1))}
    nodes = [("p", "Add", ["x", "b"]), ("y", "Mul", ["p", "c"])]
    assert of_rows(check(graph(inputs, nodes), 9000, check_seed=1))


def test_columns_and_masks():
    """A number for each row beside what rows share; a condition; two outputs."""
    inputs = {"x": (F32, (35, 1409)), "c": (F32, (35, 1)), "b": (F32, (1409,))}
    nodes = [
        ("p", "Mul", ["x", "c"]),
        ("g", "Greater", ["p", "b"]),
        ("y", "Where", ["g", "p", "b"]),
        ("z", "Sub", ["y", "b"]),
    ]
    assert of_rows(check(graph(inputs, nodes, ["y", "z"]), 16000, check_seed=2))


def test_in_place():
    document = biased((39, 1511))
    document["outputs"] = [{"tensor": "y", "inout": "x"}]
    assert of_rows(check(document, 8000, check_seed=2))


def test_what_rows_share_is_stored():
    """An output that has no rows belongs to another group."""
    document = graph(
        {"x": (F32, (34, 1201)), "b": (F32, (1201,))},
        [("e", "Exp", ["b"]), ("y", "Add", ["x", "e"])],
        ["y", "e"],
    )
    assert of_rows(check(document, 8000))


def test_short_rows_have_no_loop():
    assert of_rows(check(biased((64, 1000)), 6000)) == []


def test_sizes_that_are_known_at_run_time():
    ranges = {"s0": {"min": 0, "max": 4096}, "s1": {"min": 0, "max": 1 << 20}}
    sizes = [(3, 5), (0, 4), (32, 1024), (33, 9001), (193, 13001), (31, 2000), (1, 60001), (64, 0)]
    built = check(
        biased(("s0", "s1"), **ranges),
        check_seed=4,
        bindings=[{"s0": a, "s1": b} for a, b in sizes],
    )
    assert of_rows(built) == ["rows_32"]
