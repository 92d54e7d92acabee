"""Places, ends, borders and pieces of ONNX nodes: counted from the end, beyond the size, or nowhere."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")


from onnx_models import model, node, value

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.onnx.reader import convert
from autofuse.machines.twin.oracle.oracle import evaluate

X = np.arange(20, dtype=np.float32).reshape(5, 4)


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def made(op: str, operands: dict[str, Any], shape: Sequence[Any] = (5, 4), **attrs: Any) -> Any:
    """A node with constant operands after the first."""
    results = [f"y{i}" for i in range(attrs.pop("results", 1))]
    nodes = [node("Neg", ["x"], ["n"]), node(op, ["n", *operands], results, **attrs)]
    return convert(model(nodes, [value("x", shape)], results, constants=operands))


def computed(op: str, operands: dict[str, Any], **attrs: Any) -> list[np.ndarray]:
    found = made(op, operands, **attrs)
    assert found.graph is not None
    return [out.value for out in evaluate(found.graph, {"x": -X, **found.constants}, {}).values()]


def refused(op: str, operands: dict[str, Any], **attrs: Any) -> str:
    with pytest.raises(AutofuseError) as caught:
        made(op, operands, **attrs)
    (found,) = caught.value.diagnostics
    return f"{found.code} {found.message}"


@pytest.mark.parametrize(
    ("start", "end", "axis", "step"),
    [
        (-3, -1, -1, 1),
        (-100, 100, 0, 1),
        (100, -100, 0, -1),
        (-1, -6, -2, -2),
        (2, 2**63 - 1, -2, 2),
        (-1, -(2**63), 0, -1),
        (3, -100, 1, -3),
    ],
)
def test_slices(start: int, end: int, axis: int, step: int) -> None:
    given = {"s": i64(start), "e": i64(end), "a": i64(axis), "t": i64(step)}
    (have,) = computed("Slice", given)
    along = slice(start, end, step)
    np.testing.assert_array_equal(have, X[:, along] if axis in (-1, 1) else X[along])


@pytest.mark.parametrize("places", [(-1,), (0, -1, -4), (3, -4)], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_gathers(places: tuple[int, ...], axis: int) -> None:
    (have,) = computed("Gather", {"i": i64(*places)}, axis=axis)
    np.testing.assert_array_equal(have, np.take(X, places, axis))


@pytest.mark.parametrize("pads", [(1, -1, 0, 2), (-1, -1, -1, -1), (-3, 0, 2, 0)], ids=str)
def test_negative_borders_cut(pads: tuple[int, ...]) -> None:
    (have,) = computed("Pad", {"p": i64(*pads)})
    x = X[max(-pads[0], 0) : 5 + min(pads[2], 0), max(-pads[1], 0) : 4 + min(pads[3], 0)]
    width = [(max(pads[d], 0), max(pads[d + 2], 0)) for d in (0, 1)]
    np.testing.assert_array_equal(have, np.pad(x, width))


@pytest.mark.parametrize(("pieces", "axis"), [((2, 3), 0), ((1, 3), -1), ((5,), -2)])
def test_splits(pieces: tuple[int, ...], axis: int) -> None:
    have = computed("Split", {"s": i64(*pieces)}, axis=axis, results=len(pieces))
    want = np.split(X, np.cumsum(pieces)[:-1], axis)
    for a, b in zip(have, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "text"),
    [
        ("Gather", {"i": i64(0, 5)}, {}, "AF1204 Gather: the index 5 is out of range for a dimension of size 5"),
        ("Gather", {"i": i64(0, -6)}, {}, "the index -6 is out of range for a dimension of size 5"),
        ("Gather", {"i": i64(4, 0)}, {"axis": -1}, "the index 4 is out of range for a dimension of size 4"),
        ("Gather", {"i": i64(7)}, {}, "AF1204"),
        ("GatherElements", {"i": i64(0, 5, 0, 0).reshape(1, 4)}, {}, "the index 5 is out of range"),
        ("GatherND", {"i": i64(0, -5).reshape(1, 2)}, {}, "the index -5 is out of range"),
        ("Split", {"s": i64(2, 2)}, {"results": 2}, "AF1204 Split: the pieces have 4 elements together, axis 0"),
        ("Split", {"s": i64(4, 4)}, {"results": 2}, "AF1204"),
        ("Split", {"s": i64(-1, 6)}, {"results": 2}, "AF1109"),
        ("Pad", {"p": i64(-4, 0, -2, 0)}, {}, "AF1109"),
        ("Flatten", {}, {"axis": -3}, "AF1205 Flatten: there is no position -3 between 2 dimensions"),
        ("Flatten", {}, {"axis": 3}, "AF1205"),
        ("Concat", {"b": X}, {"axis": -3}, "AF1205"),
        ("Unsqueeze", {"a": i64(-5)}, {}, "AF1205"),
        ("Squeeze", {"a": i64(-4)}, {"shape": (1, 5, 1)}, "AF1205"),
    ],
)  # fmt: skip
def test_what_does_not_exist(op: str, operands: Any, attrs: Any, text: str) -> None:
    assert text in refused(op, operands, **attrs)


def test_pieces_of_a_dimension_that_is_not_fixed() -> None:
    """They say how long it is."""
    found = made("Split", {"s": i64(2, 3)}, ("n", 4), results=2)
    assert found.graph is not None
    (n,) = found.graph.symbols
    assert (n.min, n.max) == (5, 5)
