"""Pieces of an output that load the same elements are computed together, on the CPU twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from twin_graphs import check, every_template, graph

from autofuse import api

pytestmark = pytest.mark.twin

F = "float32"
Nodes = list[tuple[Any, ...]]


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def groups(built: api.BuildResult) -> list[set[tuple[int, int]]]:
    """(loads, stores) of the templates of each group."""
    return [
        {tuple(sum(n.op == op for n in i.nodes) for op in ("Load", "Store")) for i in g.impls}
        for g in built.schedule[0].groups
    ]


def halves(rows: Any, half: Any, step: int = 1) -> Nodes:
    """The halves of the rows of ``x``; with a step the even and the odd elements."""
    part = {"shape": [rows, half], "steps": [1, step]}
    second = 1 if step == 2 else half
    return [
        ("a", "Slice", ["x"], {"starts": [0, 0], **part}),
        ("b", "Slice", ["x"], {"starts": [0, second], **part}),
    ]


#: A rotation of pairs (a, b) by the angle with these cosines and sines.
ROTATED: Nodes = [
    ("ac", "Mul", ["a", "c"]),
    ("bs", "Mul", ["b", "s"]),
    ("p", "Sub", ["ac", "bs"]),
    ("bc", "Mul", ["b", "c"]),
    ("as", "Mul", ["a", "s"]),
    ("q", "Add", ["bc", "as"]),
]


def rotation(rows: Any, half: int, *, dtype: str = F, **more: Any) -> dict[str, Any]:
    inputs = {
        "x": (dtype, (rows, 2 * half)),
        "c": (dtype, (rows, half)),
        "s": (dtype, (rows, half)),
    }
    nodes = [*halves(rows, half), *ROTATED, ("y", "Concat", ["p", "q"], {"axis": 1})]
    return graph(inputs, nodes, **more)


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("shape", [(100, 64), (1, 1)], ids=str)
def test_a_rotation_reads_everything_once(shape, seed):
    assert groups(check(rotation(*shape), check_seed=seed)) == [{(4, 2)}]


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("shape", [(33, 7), (5000, 3)], ids=str)
def test_a_rotation_of_short_rows(shape, seed):
    """The halves of a short row are one run, and one store."""
    assert groups(check(rotation(*shape), check_seed=seed)) == [{(4, 2), (3, 1)}]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_rotation_of_narrow_types(dtype):
    assert groups(check(rotation(77, 40, dtype=dtype))) == [{(4, 2)}]


def test_a_rotation_of_some_rows():
    built = check(
        rotation("n", 24, n={"min": 0, "max": 1 << 20}),
        bindings=[{"n": n} for n in (0, 1, 97, 4099)],
    )
    assert groups(built) == [{(4, 2)}]


def test_angles_that_rows_share():
    inputs = {"x": (F, (50, 46)), "c": (F, (1, 23)), "s": (F, (1, 23))}
    nodes = [*halves(50, 23), *ROTATED, ("y", "Concat", ["p", "q"], {"axis": 1})]
    assert len(groups(check(graph(inputs, nodes)))) == 1


def test_pairs_of_neighbours():
    """The run of both is loaded once; what is stored lies apart, or is one run as well."""
    inputs = {"x": (F, (40, 60)), "c": (F, (40, 30)), "s": (F, (40, 30))}
    apart = [
        ("u", "Reshape", ["p"], {"shape": [40, 30, 1]}),
        ("v", "Reshape", ["q"], {"shape": [40, 30, 1]}),
    ]
    nodes = [*halves(40, 30, 2), *ROTATED, *apart, ("y", "Concat", ["u", "v"], {"axis": 2})]
    assert groups(check(graph(inputs, nodes))) == [{(3, 2), (3, 1)}]


def test_what_overwrites_its_input():
    over = [{"tensor": "y", "name": "y", "inout": "x"}]
    built = check(
        graph(
            {"x": (F, (40, 60)), "c": (F, (40, 30)), "s": (F, (40, 30))},
            [*halves(40, 30), *ROTATED, ("y", "Concat", ["p", "q"], {"axis": 1})],
            over,
        )
    )
    assert groups(built)[-1] == {(4, 2)}


def concat(parts: Sequence[str], axis: int) -> Nodes:
    return [("y", "Concat", parts, {"axis": axis})]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("times", [2, 5, 30])
def test_a_tensor_several_times(times, axis):
    """Some copies are stored of each load."""
    built = check(graph({"x": (F, (13, 17))}, concat(["x"] * times, axis)))
    found = groups(built)
    assert len(found) == -(-times // 11)
    assert all(loads == 1 and stores <= 11 for templates in found for loads, stores in templates)


def test_different_tensors_are_not_put_together():
    built = check(graph({"x": (F, (13, 17)), "z": (F, (13, 17))}, concat(["x", "z"], 1)))
    assert groups(built) == [{(1, 1)}, {(1, 1)}]


def test_pieces_of_other_sizes():
    nodes = [
        ("a", "Slice", ["x"], {"starts": [0, 0], "shape": [9, 20], "steps": [1, 1]}),
        ("e", "Exp", ["x"]),
        ("n", "Neg", ["x"]),
        *concat(["a", "e", "n"], 1),
    ]
    assert sorted(map(sorted, groups(check(graph({"x": (F, (9, 50))}, nodes))))) == [
        [(1, 1)],
        [(1, 2)],
    ]


def test_pieces_with_reductions():
    """The maximum of each row behind the row itself less it, and more."""
    nodes = [
        ("m", "ReduceMax", ["x"], {"axes": [1], "keepdims": True}),
        ("d", "Sub", ["x", "m"]),
        ("t", "Add", ["x", "m"]),
        *concat(["d", "t"], 1),
    ]
    check(graph({"x": (F, (70, 90))}, nodes))
    check(graph({"x": (F, (5, 9000))}, nodes), 9000)
