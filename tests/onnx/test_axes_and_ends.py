"""ONNX axes in any order, fewer than dimensions or counted from behind, and extremes that tie, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = [required("onnx")]

from onnx import TensorProto
from onnx_models import floats, model, node, value

from autofuse.frontends.onnx.reader import convert
from autofuse.machines.twin.oracle.oracle import evaluate

KINDS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}


def result(made: Any, x: Any, opset: int = 18, **constants: Any) -> Any:
    """What the graph of a node with one operand and constants computes."""
    held = {n: np.asarray(v) for n, v in constants.items()}
    m = model(
        [made], [value("x", x.shape, KINDS[x.dtype.name])], ["y"], constants=held, opset=opset
    )
    graph = convert(m).graph
    assert graph is not None
    return evaluate(graph, {"x": x}, {})["y"].value


#: Axes, and what stands before and behind each of them.
PADS: list[tuple[list[int], list[int]]] = [
    ([2, 1], [1, 2, 0, 3]),
    ([1, 2], [1, 2, 4, 3]),
    ([0], [2, 1]),
    ([1], [0, 2]),
    ([2], [3, 0]),
    ([-1, 0], [1, 2, 3, 0]),
    ([-2], [1, 2]),
    ([0, 2], [0, 1, 2, 3]),
    ([2, 0, 1], [1, 0, 2, 3, 1, 0]),
    ([-3, -1, -2], [1, 2, 3, 4, 5, 6]),
    ([1, 0], [-1, 1, 2, -1]),
    ([2, 0], [-1, 2, -2, 1]),
]


def framed(x: Any, axes: list[int], pads: list[int], mode: str, fill: float) -> Any:
    """NumPy's pad, of which what is negative is cut off before."""
    widths = [[0, 0] for _ in x.shape]
    for k, a in enumerate(axes):
        widths[a] = [pads[k], pads[k + len(axes)]]
    cut = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True)
    )
    more = {"constant_values": fill} if mode == "constant" else {}
    return np.pad(x[cut], [[max(a, 0), max(b, 0)] for a, b in widths], mode, **more)


@pytest.mark.parametrize(("axes", "pads"), PADS)
def test_pads_belong_to_the_axes_that_are_named(axes: list[int], pads: list[int]) -> None:
    """The first half of the pads stands before, the other half behind, in the order of the axes."""
    x = floats(2, 5, 4)
    for mode, fill in (("constant", 0.0), ("constant", 2.5), ("edge", 0.0), ("wrap", 0.0)):
        if mode == "wrap" and min(pads) < 0:
            continue
        given = {"p": np.array(pads), "v": np.float32(fill), "a": np.array(axes)}
        if mode == "wrap" and any(p > x.shape[a] for a, p in zip(axes * 2, pads, strict=True)):
            continue
        pad = node("Pad", ["x", "p", "v" if mode == "constant" else "", "a"], ["y"], mode=mode)
        got = result(pad, x, opset=19, **given)
        np.testing.assert_array_equal(got, framed(x, axes, pads, mode, fill), err_msg=mode)


def test_pads_of_all_axes_need_no_names() -> None:
    """Without axes the pads are of all dimensions, before version 11 as an attribute; reflected ones as well."""
    x = floats(3, 5, 4)
    pads = [1, 2, 0, 0, 3, 2]
    want = framed(x, [0, 1, 2], pads, "constant", 0.0)
    np.testing.assert_array_equal(result(node("Pad", ["x", "p"], ["y"]), x, p=np.array(pads)), want)
    old = node("Pad", ["x"], ["y"], pads=pads, value=1.5)
    np.testing.assert_array_equal(
        result(old, x, opset=10),
        want + 1.5 * (framed(np.ones_like(x), [0, 1, 2], pads, "constant", 0) == 0),
    )
    mirror = node("Pad", ["x", "p", "", "a"], ["y"], mode="reflect")
    got = result(mirror, x, p=np.array([1, 3, 2, 0]), a=np.array([-1, 1]))
    np.testing.assert_array_equal(got, framed(x, [2, 1], [1, 3, 2, 0], "reflect", 0))


def test_slices_belong_to_the_axes_that_are_named() -> None:
    """Starts, ends and steps follow the order of the axes; ends that no dimension has are the nearest ones."""
    x = floats(4, 6, 5)
    cases = [
        ([2, 0], [1, 2], [4, 9], [1, 1], np.s_[2:, :, 1:4]),
        ([-1], [-1], [-9], [-2], np.s_[:, :, ::-2]),
        ([1, 2], [-2, 3], [-7, 0], [-1, -1], np.s_[:, 4::-1, 3:0:-1]),
        ([1], [1], [1 << 40], [2], np.s_[:, 1::2]),
        ([-2, -3], [5, 0], [1, 3], [-3, 2], np.s_[:3:2, 5:1:-3]),
    ]
    for axes, starts, ends, steps, at in cases:
        given = {"s": starts, "e": ends, "a": axes, "t": steps}
        got = result(
            node("Slice", ["x", "s", "e", "a", "t"], ["y"]),
            x,
            **{n: np.array(v, np.int64) for n, v in given.items()},
        )
        np.testing.assert_array_equal(got, x[at], err_msg=str(given))


def test_reductions_go_along_the_axes_that_are_named() -> None:
    """Axes come in any order and from behind, and the others stay."""
    x = np.round(floats(3, 4, 2, 5) * 8) / 8
    for axes in ([2, 0], [-1], [-2, 1], [3, 1, 0], [0, -1]):
        for keep in (0, 1):
            for op, how in (("ReduceSum", np.sum), ("ReduceMax", np.max), ("ReduceMin", np.min)):
                reduce = node(op, ["x", "a"], ["y"], keepdims=keep)
                want = how(x.astype(np.float64), tuple(axes), keepdims=bool(keep))
                got = result(reduce, x, a=np.array(axes, np.int64))
                np.testing.assert_array_equal(got, want, err_msg=f"{op} {axes} {keep}")


def test_dimensions_are_added_and_removed_where_the_axes_say() -> None:
    """Unsqueeze counts in the result, Squeeze in the operand; a cut or a frame about the middle follows its axes."""
    x = floats(3, 1, 4, 1)
    for axes, shape in (([-1], (3, 1, 4)), ([3, 1], (3, 4)), ([-3], (3, 4, 1))):
        got = result(node("Squeeze", ["x", "a"], ["y"]), x, a=np.array(axes, np.int64))
        np.testing.assert_array_equal(got, x.reshape(shape))
    for axes, shape in (
        ([0, -1], (1, 3, 1, 4, 1, 1)),
        ([2, 1], (3, 1, 1, 1, 4, 1)),
        ([-3], (3, 1, 1, 4, 1)),
    ):
        got = result(node("Unsqueeze", ["x", "a"], ["y"]), x, a=np.array(axes, np.int64))
        np.testing.assert_array_equal(got, x.reshape(shape))
    x = floats(5, 3, 8)
    crop = node("CenterCropPad", ["x", "s"], ["y"], axes=[-1, 0])
    want = np.pad(x[:, :, 2:5], ((1, 1), (0, 0), (0, 0)))
    np.testing.assert_array_equal(result(crop, x, s=np.array([3, 7], np.int64)), want)


@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_of_equal_extremes_the_first_or_the_last_is_found(op: str, kind: str) -> None:
    """All axes, with and without the dimension, of rows that tie everywhere, at both ends, and nowhere."""
    x = np.round(np.random.default_rng(3).standard_normal((5, 9, 4))).astype(kind)
    x[0] = 1
    x[1, 0] = x[1, -1] = {"ArgMax": 9, "ArgMin": -9}[op]
    x[2, -1] = {"ArgMax": 9, "ArgMin": -9}[op]
    pick = np.argmax if op == "ArgMax" else np.argmin
    wide = x.astype(np.float64)
    for axis in (0, 1, 2, -1):
        for last in (0, 1):
            for keep in (0, 1):
                arg = node(op, ["x"], ["y"], axis=axis, keepdims=keep, select_last_index=last)
                want = pick(wide, axis)
                if last:
                    want = x.shape[axis] - 1 - pick(np.flip(wide, axis), axis)
                want = np.expand_dims(want, axis) if keep else want
                got = result(arg, x)
                assert got.dtype == np.int64
                np.testing.assert_array_equal(got, want, err_msg=f"axis {axis}, last {last}")


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_of_a_row_of_one_element_the_place_is_0(op: str) -> None:
    """The first one is the last one."""
    for last in (0, 1):
        arg = node(op, ["x"], ["y"], axis=1, keepdims=0, select_last_index=last)
        assert result(arg, floats(3, 1)).tolist() == [0, 0, 0]
