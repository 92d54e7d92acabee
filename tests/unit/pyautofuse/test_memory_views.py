"""What a Load finds of what a Store wrote, in terms of ops, against NumPy's strides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann.pyautofuse.reading.emission import Emission
from autofuse.clients.cann.pyautofuse.reading.views import (
    Place,
    Stored,
    apart,
    contiguous,
    memory_order,
    view_of,
)
from autofuse.frontends.builder import Shape
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput, Tensor
from autofuse.machines.twin.oracle.oracle import evaluate


def shape(*sizes: int) -> Shape:
    return tuple(const(n) for n in sizes)


def loaded(stored: tuple[int, ...], place: Place) -> np.ndarray:
    """What the ops give for a stored tensor that counts."""
    e = Emission("views")
    x = e.parameter("x", BY_NAME["float32"], shape(*stored))
    found = view_of(e, Stored(x, Place(x.shape, contiguous(x.shape))), place)
    if found is x:
        return np.arange(np.prod(stored), dtype=np.float32).reshape(stored)
    graph = FusionGraph(
        "views", (), ("x",), tuple(e.nodes), (GraphOutput("y", found.name),), e.tensors
    )
    data = np.arange(np.prod(stored), dtype=np.float32).reshape(stored)
    return run(graph, data)


def run(graph: FusionGraph, data: np.ndarray) -> np.ndarray:
    return np.asarray(evaluate(graph, {"x": data}, {})["y"].value, np.float32)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], Place]:
    """A stored shape, and a view of it: sliced, permuted, with dimensions of one element and widened ones."""
    dims = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    total = int(np.prod(dims))
    strides = [int(np.prod(dims[i + 1 :])) for i in range(len(dims))]
    sizes, offset = [], 0
    for n, s in zip(dims, strides, strict=True):
        start = draw(st.integers(0, n - 1))
        sizes.append(draw(st.integers(1, n - start)))
        offset += start * s
    order = draw(st.permutations(range(len(dims))))
    view = [(sizes[i], strides[i]) for i in order]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(view)))
        view.insert(at, draw(st.sampled_from([(1, 0), (3, 0)])))
    stored = draw(st.sampled_from([tuple(dims), (total,), (1, total)]))
    return stored, Place(shape(*(n for n, _ in view)), shape(*(s for _, s in view)), const(offset))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(layouts())
def test_views(case: tuple[tuple[int, ...], Place]) -> None:
    stored, place = case
    memory = np.arange(np.prod(stored), dtype=np.float32)
    sizes = [n.value for n in place.sizes]
    steps = [4 * s.value for s in place.strides]
    want = np.lib.stride_tricks.as_strided(memory[place.offset.value :], sizes, steps)
    np.testing.assert_array_equal(loaded(stored, place), want)


@pytest.mark.parametrize(
    "place",
    [
        Place(shape(3, 4), shape(2, 1)),  # windows that overlap
        Place(shape(2, 5), shape(5, 1), const(3)),  # runs over the end
        Place(shape(5, 2), shape(3, 1)),  # 12 elements are no rows of 3 with 5 of them
    ],
)
def test_views_that_are_no_ops(place: Place) -> None:
    with pytest.raises(AutofuseError, match="AF1301"):
        loaded((3, 4), place)


def test_symbolic_views() -> None:
    """Columns 1 and 2 of rows of 4, transposed."""
    e = Emission("views")
    n = sym("s0")
    x = e.parameter("x", BY_NAME["float32"], (n, const(4)))
    place = Place((const(2), n), (const(1), const(4)), const(1))
    found = view_of(e, Stored(x, Place(x.shape, contiguous(x.shape))), place)
    assert found.shape == (const(2), n)
    assert [k.op for k in e.nodes] == ["Slice", "Transpose"]


def test_order_and_overlap() -> None:
    n = sym("s0")
    place = Place((const(8), n, const(1)), (const(1), const(8), const(0)))
    assert memory_order(place) == [1, 0, 2]
    rows = Place((n, const(8)), (const(8), const(1)))
    assert rows.dense
    assert apart(rows)
    assert not apart(Place((n, const(8)), (const(7), const(1))))
    assert apart(Place((n, n), (2 * n, const(1))))
    assert Place(rows.sizes, rows.strides, const(3)).last == 8 * n + 2


def test_tensors_are_described() -> None:
    t = Emission("g").parameter("x", BY_NAME["int8"], shape(2), shape(3), const(1))
    assert isinstance(t, Tensor)
    assert (t.strides, t.offset) == (shape(3), const(1))
