"""Copies of whole blocks: what a chip without DataCopyPad moves, and what it says of the rest."""

import json
from typing import Any

import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.graph.schema import starter
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = [pytest.mark.twin, pytest.mark.slow]

CHIP = "ascend310p"


def verified(document: dict[str, Any]) -> None:
    built = api.build(document, target=CHIP, verify_ir=True)
    report = verify_kernel(dict(built.files), built.graph, special=True)
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize(
    ("dtype", "shape", "first", "columns"),
    [
        ("float32", [64, 20], 0, 16),
        ("float32", [64, 24], 3, 16),
        ("float16", [3, 1_100_000], 5, 32),
        ("int8", [5, 100], 1, 64),
    ],
    ids=["gap-of-half-a-block", "between-blocks", "gap-beyond-16-bits", "bytes"],
)
def test_rows_of_blocks_with_other_gaps(
    dtype: str, shape: list[int], first: int, columns: int
) -> None:
    """The rows of a slice are whole blocks, what lies between them is not: every row is a command."""
    part = {"starts": [0, first], "shape": [shape[0], columns]}
    verified(graph({"x": (dtype, shape)}, [("s", "Slice", ["x"], part), ("y", "Neg", ["s"])]))


@pytest.mark.parametrize(
    ("size", "dtype"),
    [("n*16", "float16"), ("8*n", "float32"), ("n*m*32", "int8"), ("16*n + 32*m", "uint16")],
)
def test_rows_that_are_multiples_whatever_the_sizes(size: str, dtype: str) -> None:
    sizes = {"n": {"min": 1, "max": 4096, "hint": 100}, "m": {"min": 1, "max": 64, "hint": 3}}
    used = {k: v for k, v in sizes.items() if k in size}
    verified(graph({"x": (dtype, [size])}, [("y", "Abs", ["x"])], **used))


def refused(document: dict[str, Any]) -> str:
    with pytest.raises(AutofuseError) as e:
        api.build(document, target=CHIP)
    (found,) = e.value.diagnostics
    return f"{found.code}: {found.message} {found.hint}"


def test_all_tensors_with_other_rows_are_named_at_once() -> None:
    inputs = {"half": ("float16", ["n"]), "single": ("float32", ["n"]), "rows": ("int8", [64, 40])}
    nodes: list[Any] = [
        ("wide", "Cast", ["half"], {"dtype": "float32"}),
        ("difference", "Sub", ["wide", "single"]),
        ("negative", "Neg", ["rows"]),
    ]
    outputs = ["difference", "negative"]
    text = refused(graph(inputs, nodes, outputs, n={"min": 1, "max": 100, "hint": 7}))
    assert text.startswith("AF3002")
    for name, row in (
        ("half", "n float16"),
        ("single", "n float32"),
        ("difference", "n float32"),
    ):
        assert f"{name} (rows of {row})" in text
    assert "16*n for float16" in text
    assert "gather_" not in text
    assert "store" not in text


def test_one_message_says_that_there_is_no_bfloat16() -> None:
    inputs = {"x": ("bfloat16", [64, 64]), "y": ("float32", [64, 64]), "z": ("bfloat16", [64])}
    nodes: list[Any] = [
        ("a", "Cast", ["x"], {"dtype": "float32"}),
        ("b", "Mul", ["a", "y"]),
        ("c", "Cast", ["z"], {"dtype": "float32"}),
        ("d", "Add", ["b", "c"]),
        ("e", "Cast", ["d"], {"dtype": "bfloat16"}),
    ]
    text = refused(graph(inputs, nodes, ["b", "e"]))
    assert text.startswith("AF3001: ascend310p has no bfloat16, which x, z and e have")
    assert "float16 or float32" in text
    moved = refused(
        graph({"x": ("bfloat16", [64, 64])}, [("y", "Transpose", ["x"], {"perm": [1, 0]})])
    )
    assert "has no bfloat16, which x and y have" in moved


def test_all_that_the_chip_lacks_is_said_at_once() -> None:
    nodes: list[Any] = [
        ("a", "Cast", ["x"], {"dtype": "int64"}),
        ("b", "RShift", ["y", 3]),
        ("c", "LShift", ["y", 1]),
    ]
    document = graph({"x": ("float32", [64]), "y": ("int32", [64])}, nodes, ["a", "b", "c"])
    with pytest.raises(AutofuseError) as e:
        api.build(document, target=CHIP)
    assert [d.code for d in e.value.diagnostics] == ["AF3001"] * 3
    assert [d.where.node for d in e.value.diagnostics] == ["n0", "n1", "n2"]


ROWS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "sums": ("float32", ["8*n", 64], [("y", "ReduceSum", ["x"], {"axes": [1]})]),
    "maxima": ("float16", ["16*n", 48], [("y", "ReduceMax", ["x"], {"axes": [1]})]),
    "of-a-middle": ("float32", [6, 40, 64], [("y", "ReduceSum", ["x"], {"axes": [2]})]),
    "numbers-per-row": ("float32", ["8*n", 32], [("y", "Sub", ["x", "r"])]),
    "transposed": ("float32", [64, 32], [("y", "Transpose", ["x"], {"perm": [1, 0]})]),
}


@pytest.mark.parametrize("name", ROWS)
def test_elements_of_rows_side_by_side(name: str) -> None:
    """Of one element for each row, a tile has so many that they are whole blocks."""
    dtype, shape, nodes = ROWS[name]
    inputs: dict[str, Any] = {"x": (dtype, shape)}
    if any("r" in n[2] for n in nodes):
        inputs["r"] = (dtype, [shape[0], 1])
    used = {"n": {"min": 1, "max": 4096, "hint": 100}} if "n" in str(shape[0]) else {}
    verified(graph(inputs, nodes, **used))


def test_the_graph_to_start_from_is_built() -> None:
    verified(json.loads(starter("first")))


def test_rows_of_no_blocks_are_refused_with_their_sizes() -> None:
    text = refused(graph({"x": ("float32", [60, 32])}, ROWS["sums"][2]))
    assert "y (rows of 60 float32)" in text
    assert "x (" not in text


@pytest.mark.parametrize(("shape", "name"), [([64, 50], "x"), ([50, 64], "y")])
def test_the_rest_of_an_axis_that_is_cut_is_no_block(shape: list[int], name: str) -> None:
    """Tiles of a constant length leave a rest, which has to be whole blocks as well."""
    text = refused(graph({"x": ("float32", shape)}, ROWS["transposed"][2]))
    assert f"{name} (rows of 50 float32)" in text


def test_columns_that_are_no_rows_are_refused() -> None:
    part = {"starts": [0, 3], "shape": [64, 1]}
    nodes: list[Any] = [("s", "Slice", ["x"], part), ("y", "Sub", ["x", "s"])]
    assert "x (rows of 1 float32)" in refused(graph({"x": ("float32", [64, 32])}, nodes))


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize(
    "nodes",
    [
        [("m", "ReduceMax", ["a"], {"axes": [0], "keepdims": True}), ("y", "Sub", ["a", "m"])],
        [("m", "CumSum", ["a"], {"axis": 0}), ("y", "Add", ["m", "one"])],
    ],
    ids=["one-maximum", "running-sum"],
)
def test_one_element_beside_a_single_row(dtype: str, nodes: list[Any]) -> None:
    """Of one row nothing is computed before the loop: the scalar unit reads the element there all the same."""
    inputs = {"x": (dtype, [256]), "one": (dtype, [1])}
    verified(graph(inputs, [("a", "Add", ["x", "one"]), *nodes]))


def test_a_block_of_places_is_of_the_rows_that_they_need() -> None:
    """Tiles hold whole blocks of places, eight of int32, and no more rows for the sake of the narrower elements."""
    inputs: dict[str, Any] = {"x": ("int8", [4, 32, 32]), "i": ("int32", [40])}
    verified(graph(inputs, [("p", "Gather", ["x", "i"], {"axis": 0}), ("y", "Mul", ["p", 3])]))
