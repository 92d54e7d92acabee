"""Nodes that no kernel holds: who runs them, what onnx.reference is not taken for, what onnxruntime says."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from extras import needs, required

pytestmark = required("onnx")


from onnx import TensorProto, helper
from onnx_models import floats, model, node, run, value

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx.models.gaps import known_gap
from autofuse.clients.onnx.models.reference import Runtime, differences

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime is not installed."""
    monkeypatch.setattr(Runtime, "is_there", staticmethod(lambda: False))


def body(nodes: Sequence[Any], made: Sequence[str]) -> Any:
    """A step of a loop that carries ``s``; results ``d`` (going on), ``o`` (carried) and others."""
    steps = [value("i", [], INT64), value("c", [], BOOL), value("s", None)]
    results = [value("d", [], BOOL), *(value(o, None) for o in made)]
    return helper.make_graph(list(nodes), "body", steps, results)


PLUS = [node("Add", ["s", "one"], ["o"]), node("Identity", ["c"], ["d"])]
BELOW = [
    node("Add", ["s", "one"], ["o"]),
    node("ReduceMax", ["o"], ["m"], keepdims=0),
    node("Less", ["m", "two"], ["d"]),
]
HELD = {"one": np.float32(1), "two": np.float32(2), "k": np.int64(3), "t": np.array(True)}
ROWS = np.arange(1, 4, dtype=np.float32)


def looped(operands: Sequence[str], nodes: Sequence[Any], *extra: str) -> Any:
    """The results of a loop over two zeros."""
    outputs = ["l", *(f"{e}s" for e in extra)]
    loop = node("Loop", operands, outputs, body=body(nodes, ["o", *extra]))
    m = model([loop], [value("x", [2])], outputs, constants={**HELD, "wide": np.array([4, 2])})
    return run(m, {"x": np.zeros(2, np.float32)})


LOOPS = {
    "trips": (["k", "t", "x"], PLUS, (), {"l": np.full(2, 3)}),
    "no condition": (["k", "", "x"], PLUS, (), {"l": np.full(2, 3)}),
    "no trips": (["", "t", "x"], BELOW, (), {"l": np.full(2, 2)}),
    "no condition, the body ends it": (["k", "", "x"], BELOW, (), {"l": np.full(2, 2)}),
    "rows": (
        ["k", "", "x"],
        [*PLUS, node("Identity", ["o"], ["q"])],
        ("q",),
        {"qs": np.stack([ROWS, ROWS], 1)},
    ),
    "numbers": (
        ["k", "t", "x"],
        [*PLUS, node("ReduceMax", ["o"], ["q"], keepdims=0)],
        ("q",),
        {"qs": ROWS},
    ),
    "images": (
        ["k", "t", "x"],
        [*PLUS, node("Expand", ["o", "wide"], ["q"])],
        ("q",),
        {"l": np.full(2, 3), "qs": np.broadcast_to(ROWS[:, None, None], (3, 4, 2))},
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(alone: None, name: str) -> None:
    operands, nodes, extra, want = LOOPS[name]
    done = looped(operands, nodes, *extra)
    assert done.ok
    for o, array in want.items():
        np.testing.assert_array_equal(done.outputs[o], array.astype(np.float32))


def test_a_loop_inside_of_a_loop(alone: None) -> None:
    own = {"i": "i2", "c": "c2", "s": "s2", "d": "d2", "o": "o2"}
    inner = body(PLUS, ["o"])
    for v in (*inner.input, *inner.output):
        v.name = own[v.name]
    for n in inner.node:
        n.input[:] = [own.get(x, x) for x in n.input]
        n.output[:] = [own[x] for x in n.output]
    nodes = [node("Loop", ["k", "", "s"], ["o"], body=inner), node("Identity", ["c"], ["d"])]
    done = looped(["k", "", "x"], nodes)
    np.testing.assert_array_equal(done.outputs["l"], np.full(2, 9, np.float32))


def lstm(op: str, **attrs: Any) -> Any:
    return node(op, ["x", "w", "r"], ["y"], hidden_size=4, **attrs)


RESIZED = {"s": np.array([1, 1, 0.6, 1.7], np.float32)}
IMAGE = [1, 1, 5, 6]

#: Operator set, node, shape of x, other operands; what onnx.reference is not taken for.
GAPS = {
    "rows that end early": (
        14,
        node("GRU", ["x", "w", "r", "", "ends"], ["y"], hidden_size=4),
        [3, 2, 5],
        {"w": floats(1, 12, 5), "r": floats(1, 12, 4), "ends": np.array([2, 3], np.int32)},
    ),
    "clip": (14, lstm("RNN", clip=0.1), [3, 2, 5], {"w": floats(1, 4, 5), "r": floats(1, 4, 4)}),
    "activations": (
        14,
        lstm("LSTM", activations=["Sigmoid", "Relu", "Tanh"]),
        [3, 2, 5],
        {"w": floats(1, 16, 5), "r": floats(1, 16, 4)},
    ),
    "input_forget": (
        14,
        lstm("LSTM", input_forget=1),
        [3, 2, 5],
        {"w": floats(1, 16, 5), "r": floats(1, 16, 4)},
    ),
    "same lower": (
        12,
        node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER"),
        [1, 2, 7, 8],
        {},
    ),
    "places by columns": (
        12,
        node(
            "MaxPool",
            ["x"],
            ["v", "y"],
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            storage_order=1,
        ),
        [1, 2, 5, 5],
        {},
    ),
    "boxes": (
        11,
        node("RoiAlign", ["x", "b", "n"], ["y"], output_height=3, output_width=2),
        [1, 2, 8, 8],
        {"b": np.array([[0, 0, 4, 4.5]], np.float32), "n": np.array([0])},
    ),
    **{
        f"corners by scales, version {v}": (
            v,
            node(
                "Resize",
                ["x", *([""] if v > 11 else ["none"]), "s"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="align_corners",
            ),
            IMAGE,
            RESIZED if v > 11 else {**RESIZED, "none": np.zeros(0, np.float32)},
        )
        for v in (11, 18)
    },
    "bent at the border": (
        20,
        node("GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="border"),
        IMAGE,
        {"g": floats(1, 4, 3, 2)},
    ),
    "norm of magnitudes": (13, node("LpNormalization", ["x"], ["y"], p=1), [2, 3], {}),
    "softmax of a branch": (
        11,
        node(
            "If",
            ["c"],
            ["y"],
            then_branch=helper.make_graph(
                [node("Softmax", ["x"], ["a"])], "then", [], [value("a", None)]
            ),
            else_branch=helper.make_graph(
                [node("Neg", ["x"], ["b"])], "else", [], [value("b", None)]
            ),
        ),
        [2, 3, 4],
        {"c": np.array(True)},
    ),
}


@pytest.mark.parametrize("name", GAPS)
def test_known_gaps_are_refused_by_name(alone: None, name: str) -> None:
    opset, n, shape, held = GAPS[name]
    operands = {"x": floats(*shape), **held}
    assert known_gap(n, opset, operands)
    if n.op_type == "LpNormalization":
        return  # a kernel holds it
    m = model(
        [node("Neg", ["x0"], ["x"]), n], [value("x0", shape)], ["y"], constants=held, opset=opset
    )
    with pytest.raises(AutofuseError) as e:
        run(m, {"x0": operands["x"]})
    (d,) = e.value.diagnostics
    assert d.code == "AF5003"
    assert d.message.startswith("Softmax: " if n.op_type == "If" else f"{n.op_type}: ")
    assert "in onnx.reference 1." in d.message
    assert "pip install onnxruntime" in d.hint


@needs("onnxruntime")
@pytest.mark.parametrize("name", GAPS)
def test_known_gaps_are_run_by_onnxruntime(name: str) -> None:
    opset, n, shape, held = GAPS[name]
    m = model(
        [node("Neg", ["x0"], ["x"]), n], [value("x0", shape)], ["y"], constants=held, opset=opset
    )
    done = run(m, {"x0": floats(*shape)})
    assert done.ok, done.diagnostics
    if n.op_type != "LpNormalization":
        assert {f["reference"] for f in done.fallbacks} == {"onnxruntime"}
    # The gap is one: onnx.reference computes something else, or fails.
    from onnx.reference import ReferenceEvaluator

    m.ir_version = 10
    try:
        (got,) = ReferenceEvaluator(m).run(["y"], {"x0": floats(*shape)})
    except (RuntimeError, ValueError, IndexError):
        return
    assert not differences(got, done.outputs["y"], rtol=1e-3, atol=1e-5)["ok"]


def test_what_is_beside_the_gaps_is_run(alone: None) -> None:
    beside = [
        (18, node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode="align_corners"),
         {"x": floats(1, 1, 5, 6), "s": np.array([1, 1, 2, 0.5], np.float32)}),
        (18, node("Resize", ["x", "", "s"], ["y"], mode="cubic"), {"x": floats(*IMAGE), **RESIZED}),
        (14, lstm("LSTM", activations=["Sigmoid", "Tanh", "Tanh"]), {}),
        (14, lstm("RNN"), {}),
        (13, node("LpNormalization", ["x"], ["y"]), {}),
        (12, node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], auto_pad="SAME_LOWER"), {}),
        (16, node("RoiAlign", ["x", "b", "n"], ["y"]), {}),
        (12, node("MaxPool", ["x"], ["v", "y"], kernel_shape=[3, 3]), {}),
        (18, node("ReduceSumSquare", ["x"], ["y"]), {"x": floats(2, 3)}),
        (11, node("Softmax", ["x"], ["y"]), {}),
    ]  # fmt: skip
    assert [known_gap(n, opset, operands) for opset, n, operands in beside] == [""] * len(beside)


# a second opinion -----------------------------------------------------------------------------


def product() -> Any:
    nodes = [node("MatMul", ["x", "x"], ["m"]), node("RandomNormalLike", ["m"], ["r"])]
    return model(nodes, [value("x", [4, 4])], ["m", "r"])


def test_what_runs_is_compared_with_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def results(self: Any, piece: Any, operands: Any) -> Any:
        asked.append(piece.op)
        return [operands["x"] @ operands["x"] + shift]

    monkeypatch.setattr(Runtime, "is_there", staticmethod(lambda: True))
    monkeypatch.setattr(Runtime, "_results", results)
    x = floats(4, 4)
    shift = 0.0
    done = run(product(), {"x": x})
    assert done.ok
    assert [(f["reference"], f["state"]) for f in done.fallbacks] == [
        ("onnx.reference", "ok"),
        ("onnx.reference", "not compared"),
    ]
    # Random numbers of two runs say nothing of each other.
    assert asked == ["MatMul"]
    shift = 0.1
    done = run(product(), {"x": x})
    assert not done.ok
    assert done.fallbacks[0]["state"] == "differs"
    (d,) = done.diagnostics
    assert d.code == "AF6001"
    assert "output m of MatMul m, run by onnx.reference, differ from onnxruntime" in d.message


def test_nothing_is_compared_without_onnxruntime(alone: None) -> None:
    done = run(product(), {"x": floats(4, 4)})
    assert done.ok
    assert {f["state"] for f in done.fallbacks} == {"not compared"}


def test_texts_are_equal_whatever_holds_them() -> None:
    a = np.array(["a", "b"])
    assert differences(a, a.astype(object), rtol=0, atol=0)["ok"]
    assert not differences(a, np.array(["a", "c"], object), rtol=0, atol=0)["ok"]


def test_the_element_type_is_compared() -> None:
    assert not differences(np.zeros(2, np.float32), np.zeros(2), rtol=1, atol=1)["ok"]
