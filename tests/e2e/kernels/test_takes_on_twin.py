"""Single elements gathered from rows in UB, on the CPU twin in checked mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import draws
import numpy as np
import pytest
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.implgraph.ops.rows.device import MOVED
from autofuse.schedule.legal.takes import TAKE

pytestmark = pytest.mark.twin

F, H, INT, LONG = "float32", "float16", "int32", "int64"


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def taken(built: api.BuildResult) -> int:
    """Calls that take elements, over all templates."""
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return sum(n.op == TAKE for i in impls for n in i.nodes)


def gather(
    shape: list[Any],
    index: list[Any],
    *more: tuple[Any, ...],
    op: str = "Gather",
    dtype: str = F,
    places: str = INT,
    outputs: tuple[str, ...] = ("y",),
    beside: dict[str, tuple[Any, ...]] | None = None,
    **symbols: Any,
) -> dict[str, Any]:
    """Elements along the last dimension, t if there are ``more`` nodes, else y."""
    first = ("t" if more else "y", op, ["x", "i"], {"axis": len(shape) - 1})
    inputs = {"x": (dtype, shape), "i": (places, index), **(beside or {})}
    return graph(inputs, [first, *more], outputs, **symbols)


@pytest.mark.parametrize("dtype", sorted(MOVED))
@pytest.mark.parametrize("places", [INT, LONG])
def test_columns_in_another_order(dtype: str, places: str) -> None:
    assert taken(check(gather([70, 45], [33], dtype=dtype, places=places), seed=draws.seed()))


@pytest.mark.parametrize("dtype", [F, H])
@pytest.mark.parametrize(
    ("shape", "index"),
    [([16], [5, 100]), ([256], [3000]), ([3], [2, 3, 5]), ([1001], [1, 7]), ([2], [40, 9])],
)
def test_a_table(dtype: str, shape: list[int], index: list[int]) -> None:
    assert taken(check(gather(shape, index, dtype=dtype), seed=draws.seed()))


@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ([70, 45], [70, 45]),
        ([70, 45], [70, 9]),
        ([70, 45], [3, 33]),
        ([4, 7, 30], [4, 7, 17]),
        ([4, 7, 30], [2, 5, 64]),
        ([1, 20], [1, 700]),
    ],
)
@pytest.mark.parametrize("dtype", [F, H])
def test_elements_of_the_same_row(shape: list[int], index: list[int], dtype: str) -> None:
    built = check(gather(shape, index, op="GatherElements", dtype=dtype), seed=draws.seed())
    assert taken(built)


@pytest.mark.parametrize("index", [[3, 5], [2, 3, 17], [64, 2]])
@pytest.mark.parametrize("shape", [[90, 33], [3, 40, 16]])
def test_places_along_several_dimensions(shape: list[int], index: list[int]) -> None:
    assert taken(check(gather(shape, index), seed=draws.seed()))


N = {"n": {"min": 0, "max": 5000, "hint": 100}}
W = {"w": {"min": 0, "max": 1 << 20, "hint": 64}}


@pytest.mark.parametrize("op", ["Gather", "GatherElements"])
def test_sizes_that_calls_give(op: str) -> None:
    index = ["n", 20] if op == "GatherElements" else [20]
    built = check(gather(["n", 45], index, op=op, dtype=H, **N), seed=draws.seed())
    assert taken(built)


def test_rows_of_any_length_have_both_forms() -> None:
    """Those that do not fit UB are read element by element."""
    document = gather(["n", "w"], [37], **N, **W)
    bindings = [{"n": 2, "w": 100_003}, {"n": 30, "w": 31}, {"n": 1, "w": 1}]
    built = check(document, bindings=bindings, seed=draws.seed())
    assert taken(built)
    with_index = [n for r in built.schedule for g in r.groups for i in g.impls for n in i.nodes]
    assert any(n.op == "Load" and len(n.inputs) > 1 for n in with_index)


def test_places_outside_are_the_nearest_ones() -> None:
    document = gather([3, 20], [8], dtype=H)
    index = np.array([-1, -20, -21, -(1 << 31), 19, 20, (1 << 31) - 1, 0], np.int32)
    built = api.build(document)
    assert taken(built)
    x = draws.rng().standard_normal((3, 20)).astype(np.float16)
    y = api.load(built)(x, index)
    at = np.clip(np.where(index < 0, index.astype(np.int64) + 20, index), 0, 19)
    assert np.array_equal(y, x[:, at])


@pytest.mark.parametrize(
    "more",
    [
        [("y", "Softmax", ["t"], {"axis": -1})],
        [("y", "ReduceSum", ["t"], {"axes": [0]})],
        [("y", "ReduceMax", ["t"], {"axes": [1]})],
        [("y", "CumSum", ["t"], {"axis": 1})],
        [("y", "CumSum", ["t"], {"axis": 0})],
        [("y", "Transpose", ["t"], {"perm": [1, 0]})],
        [("u", "Mul", ["t", 2.0]), ("y", "Concat", ["u", "x"], {"axis": 1})],
        [("u", "Neg", ["x"]), ("y", "Gather", ["u", "i"], {"axis": 1})],
        [("u", "Gather", ["x", "j"], {"axis": 1}), ("y", "Sub", ["u", "t"])],
    ],
    ids=lambda more: " ".join(op for _, op, *_ in more),
)
def test_beside_other_work(more: list[tuple[Any, ...]]) -> None:
    beside = {"j": (INT, [29])} if any("j" in xs for _, _, xs, *_ in more) else None
    check(gather([60, 70], [29], *more, beside=beside), seed=draws.seed())


def test_two_gathers_of_a_row_load_it_once() -> None:
    """As in an interpolation."""
    more = [("u", "Gather", ["x", "j"], {"axis": 1}), ("y", "Sub", ["u", "t"])]
    built = check(gather([60, 70], [29], *more, beside={"j": (INT, [29])}))
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        takes = [n for n in impl.nodes if n.op == TAKE]
        if takes:
            assert len(takes) == 2
            assert len({n.inputs[0] for n in takes}) == 1


@pytest.mark.parametrize("target", ["ascend310p", "ascend950pr"])
def test_on_other_chips(target: str) -> None:
    document = gather([50, 64], [32], dtype=H)
    built = api.build(document, target=target)
    assert taken(built)
    report = api.verify(built, seed=draws.seed())
    assert report.ok, report.diagnostics
