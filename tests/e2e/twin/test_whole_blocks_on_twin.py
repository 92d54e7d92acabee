"""Rows shorter than a block of UB that a Load takes with what follows them, on the CPU twin in checked mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twin_graphs import CHIP, check, every_template, graph

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.targets import load_target

pytestmark = [pytest.mark.sampled(8), pytest.mark.twin]

F, B = "float32", "bfloat16"
DTYPES = sorted(d for d in BY_NAME if d != "mask")
BLOCK = 32


def completed(built: api.BuildResult) -> set[int]:
    """Return the elements by which Loads complete short rows, over all templates."""
    nodes = [n for r in built.schedule for g in r.groups for i in g.impls for n in i.nodes]
    loads = [n for n in nodes if n.op == "Load" and not n.attrs.get("run")]
    return {n.number("beyond", 0) for n in loads} - {0}


def columns(
    dtype: str,
    rows: Any,
    width: int,
    first: int,
    count: int,
    then: str = "Identity",
    **symbols: Any,
) -> dict[str, Any]:
    """Return the graph of some columns of a tensor, with an op on them."""
    attrs = {"starts": [0, first], "shape": [rows, count], "steps": [1, 1]}
    nodes: list[tuple[Any, ...]] = [("a", "Slice", ["x"], attrs), ("y", then, ["a"])]
    return graph({"x": (dtype, [rows, width])}, nodes, **symbols)


def halves(dtype: str, shape: Sequence[Any], part: int, **symbols: Any) -> dict[str, Any]:
    """Return the graph of a rotation of the first ``2 * part`` columns: their halves, swapped and multiplied."""
    sliced = [
        (
            f"h{k}",
            "Slice",
            ["x"],
            {"starts": [0, k * part], "shape": [shape[0], part], "steps": [1, 1]},
        )
        for k in (0, 1)
    ]
    nodes = [*sliced, ("p", "Mul", ["h0", "h1"]), ("y", "Sub", ["p", "h0"])]
    return graph({"x": (dtype, shape)}, nodes, **symbols)


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 37, 4099])
def test_rows_of_every_width(dtype: str, rows: int) -> None:
    unit = BLOCK // BY_NAME[dtype].itemsize
    for count in {1, unit // 2, unit - 1}:
        built = check(columns(dtype, rows, 5 * unit + 3, 2, count))
        assert completed(built) <= {unit - count, unit - 1}
        if rows > 37:
            assert completed(built)


@pytest.mark.parametrize("left", range(9))
def test_a_block_ends_inside_the_tensor(left: int) -> None:
    """The last row is followed by ``left`` elements of the tensor; a block of six columns needs two."""
    built = check(columns(F, 100, 34 + left, 28, 6, "Exp"))
    assert completed(built) <= ({2} if left > 1 else set())
    assert (2 in completed(built)) == (left > 1)


@pytest.mark.parametrize("width", [7, 8, 9, 31])
def test_rows_closer_together_than_a_block(width: int) -> None:
    """A DMA command moves rows that lie apart: those of seven columns stay as they are."""
    built = check(columns(F, 200, width, 0, 5, "Exp"))
    if width == 7:
        assert not completed(built)


@pytest.mark.parametrize("dtype", [F, B, "int64", "int8"])
@pytest.mark.parametrize("rows", [1, 53, "s0"], ids=str)
def test_halves_of_short_rows(dtype: str, rows: Any) -> None:
    symbols = {"s0": {"min": 0, "max": 200}} if rows == "s0" else {}
    built = check(halves(dtype, [rows, 96], 3, **symbols))
    assert rows == 1 or completed(built) == {BLOCK // BY_NAME[dtype].itemsize - 3}


@pytest.mark.parametrize("width", ["s1", "2*s1 + 60"])
def test_symbolic_distances(width: str) -> None:
    """A block of the last row is inside the tensor for all sizes, or it is not taken."""
    symbols = {"s0": {"min": 0, "max": 60}, "s1": {"min": 6, "max": 500}}
    attrs = {"starts": [0, 0], "shape": ["s0", 6], "steps": [1, 1]}
    nodes = [("a", "Slice", ["x"], attrs), ("y", "Exp", ["a"])]
    built = check(graph({"x": (F, ["s0", width])}, nodes, **symbols))
    assert bool(completed(built)) == (width != "s1")


def test_single_elements_have_a_block_each() -> None:
    """Columns further apart than a run may be: every element begins a block in GM, as it does in UB."""
    attrs = {"starts": [0, 1, 2], "shape": [40, 70, 1], "steps": [1, 1, 1]}
    nodes = [("a", "Slice", ["x"], attrs), ("b", "Reshape", ["a"], {"shape": [40, 70]})]
    nodes += [("y", "Add", ["b", "z"])]
    built = check(graph({"x": (F, [40, 72, 27]), "z": (F, [40, 70])}, nodes))
    assert completed(built) == {7}


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]], ids=str)
def test_reductions(axes: list[int]) -> None:
    """Sums and maxima of rows leave out the elements that complete a block."""
    for op in ("ReduceSum", "ReduceMax"):
        attrs = {"starts": [3, 8], "shape": [301, 6], "steps": [1, 1]}
        nodes = [("a", "Slice", ["x"], attrs), ("y", op, ["a"], {"axes": axes})]
        built = check(graph({"x": (F, [310, 40])}, nodes))
        assert completed(built)


def test_rows_in_turn_and_backwards() -> None:
    part = {"shape": [30, 5], "steps": [-2, 1]}
    nodes = [("a", "Slice", ["x"], {"starts": [60, 4], **part}), ("y", "Exp", ["a"])]
    assert not completed(check(graph({"x": (F, [61, 33])}, nodes)))
    part = {"shape": [30, 5], "steps": [2, 1]}
    nodes = [("a", "Slice", ["x"], {"starts": [1, 4], **part}), ("y", "Exp", ["a"])]
    assert completed(check(graph({"x": (F, [61, 33])}, nodes))) == {3}


def test_a_result_with_the_layout_of_what_is_loaded() -> None:
    """A column that is stored with the strides of the one that is loaded: only the Load takes a block."""
    last = {"starts": [0, 1], "shape": [200, 40], "steps": [1, 1]}
    first = {"starts": [0, 0], "shape": [200, 1], "steps": [1, 1]}
    nodes = [
        ("a", "Slice", ["x"], first),
        ("b", "Exp", ["a"]),
        ("c", "Slice", ["x"], last),
        ("y", "Concat", ["b", "c"], {"axis": 1}),
    ]
    assert completed(check(graph({"x": (F, [200, 41])}, nodes))) == {7}


def test_inputs_with_gaps() -> None:
    """The memory of a tensor with strides ends with its last element."""
    for width, more in ((6, set()), (20, {2})):
        attrs = {"starts": [0, 0], "shape": [50, 6], "steps": [1, 1]}
        nodes = [("a", "Slice", ["x"], attrs), ("y", "Exp", ["a"])]
        assert completed(check(graph({"x": (F, [50, width], {"strides": [40, 1]})}, nodes))) == more


def test_an_input_that_an_output_overwrites() -> None:
    """Other cores may be writing behind a row, so no block is taken there."""
    part = {"shape": [200, 6], "steps": [1, 1]}
    nodes = [
        ("a", "Slice", ["x"], {"starts": [0, 0], **part}),
        ("b", "Exp", ["a"]),
        ("y", "Exp", ["x"]),
    ]
    over = {"name": "o", "tensor": "y", "inout": "x"}
    assert not completed(check(graph({"x": (F, [200, 40])}, nodes, ("b", over))))


def test_a_tensor_that_another_group_computed() -> None:
    """A workspace is whole behind the barrier, so its rows are completed as those of inputs are."""
    axes = {"axes": [0], "keepdims": True}
    nodes = [
        ("m", "ReduceSum", ["x"], axes),
        ("e", "Exp", ["m"]),
        ("r", "Reshape", ["e"], {"shape": [60, 40]}),
        ("a", "Slice", ["r"], {"starts": [0, 3], "shape": [60, 6], "steps": [1, 1]}),
        ("y", "Mul", ["a", "z"]),
    ]
    check(graph({"x": (F, [50, 2400]), "z": (F, [60, 6])}, nodes))


@pytest.mark.parametrize("target", ["ascend910b1", "ascend950pr"])
def test_targets(target: str) -> None:
    chip = load_target(target)
    built = api.build(halves("float16", [70, 96], 12), target=chip, verify_ir=True)
    report = verify_kernel(built.files, built.graph)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    assert completed(built) == {4}


@pytest.mark.parametrize("seed", range(4))
def test_orders_of_execution(seed: int) -> None:
    built = api.build(halves(B, [301, 50], 7), target=CHIP)
    for check_seed in (2 * seed + 1, 2 * seed + 2):
        report = verify_kernel(built.files, built.graph, seed=seed, check_seed=check_seed)
        assert report.ok, "\n".join(map(str, report.diagnostics))


@given(
    dtype=st.sampled_from(DTYPES),
    outer=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    width=st.integers(1, 70),
    data=st.data(),
)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_any_columns(dtype: str, outer: list[int], width: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, width - 1))
    count = data.draw(st.integers(1, min(width - first, 20)))
    starts, sizes, steps = [0] * len(outer), list(outer), [1] * len(outer)
    for i, size in enumerate(outer):
        starts[i] = data.draw(st.integers(0, size - 1))
        sizes[i] = size - starts[i]
    attrs = {"starts": [*starts, first], "shape": [*sizes, count], "steps": [*steps, 1]}
    nodes: list[tuple[Any, ...]] = [("a", "Slice", ["x"], attrs), ("y", "Identity", ["a"])]
    assert np.prod(sizes) > 0
    check(graph({"x": (dtype, [*outer, width])}, nodes))
