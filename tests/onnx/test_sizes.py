"""Sizes that are numbers, and shapes of what no kernel holds, in models that are partitioned."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")

import onnx
from onnx import TensorProto, helper
from onnx_models import by_numpy, floats, model, node, run, value

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models
from autofuse.frontends.onnx.naming import own_name
from autofuse.frontends.onnx.pieces import read_pieces
from autofuse.frontends.onnx.reader import convert

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
HELD = {
    "zero": np.int64(0),
    "one": np.int64(1),
    "two": np.int64(2),
    "half": np.float32(0.5),
    "f0": np.float32(0),
    "f1": np.float32(1),
    "less": np.int64(-1),
}
#: ``n`` is the size of x along axis 1.
SIZE = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"])]
FLOATS = {"to": TensorProto.FLOAT}


def sized(nodes: Sequence[Any]) -> Any:
    return model([*SIZE, *nodes], [value("x", ["b", "n"])], ["y"], constants=HELD)


def fallbacks(done: models.ModelRun) -> list[str]:
    return [f["op"] for f in done.fallbacks]


RANGES = {
    "from zero": (["zero", "n", "one"], [], lambda n: np.arange(n)),
    "from one": (["one", "n", "one"], [], lambda n: np.arange(1, n)),
    "by two": (["zero", "n", "two"], [], lambda n: np.arange(0, n, 2)),
    "past and present": (["n", "m", "one"], [], lambda n: np.arange(n, 2 * n)),
    "floats": (["f0", "fn", "f1"], [node("Cast", ["n"], ["fn"], **FLOATS)], lambda n: np.arange(n)),
    "32 bits": (
        ["i0", "in", "i1"],
        [node("Cast", [a], [b], to=TensorProto.INT32) for a, b in (("zero", "i0"), ("n", "in"), ("one", "i1"))],
        lambda n: np.arange(n),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("n", [1, 7])
def test_ranges_whose_ends_are_sizes(name: str, n: int) -> None:
    ends, before, want = RANGES[name]
    nodes = [*before, node("Add", ["n", "n"], ["m"]), node("Range", ends, ["r"])]
    nodes += [node("Cast", ["r"], ["f"], **FLOATS), node("Mul", ["f", "half"], ["y"])]
    m = sized(nodes)
    # One kernel holds all of it.
    assert "Iota" in {x.op for x in convert(m).graph.nodes}
    done = run(m, {"x": floats(2, n)})
    assert done.ok
    assert fallbacks(done) == []
    np.testing.assert_array_equal(done.outputs["y"], want(n).astype(np.float32) * np.float32(0.5))


def test_a_length_that_a_range_has_is_no_other_symbol() -> None:
    nodes = [node("Cast", ["n"], ["fn"], **FLOATS), node("Range", ["f0", "fn", "f1"], ["r"])]
    nodes += [node("Cos", ["r"], ["c"]), node("Mul", ["x", "c"], ["y"])]
    pieces = read_pieces(sized(nodes))
    assert set(pieces.symbols) == {"b", "n"}
    x = floats(3, 5)
    done = run(sized(nodes), {"x": x})
    assert fallbacks(done) == []
    np.testing.assert_allclose(done.outputs["y"], x * np.cos(np.arange(5)), rtol=1e-6)


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (["n", "zero", "less"], "from n by -1: it depends on a size that is not fixed"),
        (["zero", "one", "n"], "from 0 by n: it depends on a size that is not fixed"),
        (["zero", "n", "zero"], "the delta is 0"),
        (["f0", "f1", "f0"], "the delta is 0"),
    ],
)
def test_ranges_that_no_kernel_makes(ends: list[str], why: str) -> None:
    with pytest.raises(AutofuseError) as e:
        convert(sized([node("Range", ends, ["r"]), node("Cast", ["r"], ["y"], **FLOATS)]))
    assert e.value.diagnostics[0].code == "AF1205"
    assert why in e.value.diagnostics[0].message


BESIDE = {
    "in the type of the tensor": (
        [node("Cast", ["n"], ["fn"], **FLOATS), node("Mul", ["x", "fn"], ["y"])],
        lambda x: x * np.float32(x.shape[1]),
    ),
    "as an exponent": (
        [node("Abs", ["x"], ["a"]), node("Pow", ["a", "n"], ["y"])],
        lambda x: np.abs(x) ** x.shape[1],
    ),
    "as an index": (
        [node("Sub", ["n", "one"], ["l"]), node("Gather", ["x", "l"], ["g"], axis=1), node("Neg", ["g"], ["y"])],
        lambda x: -x[:, -1],
    ),
    "twice": (
        [
            node("Cast", ["n"], ["fn"], **FLOATS),
            node("Div", ["x", "fn"], ["d"]),
            node("MatMul", ["d", "x"], ["p"]),
            node("Sub", ["p", "fn"], ["y"]),
        ],
        lambda x: x / np.float32(x.shape[1]) @ x - np.float32(x.shape[1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_sizes_are_numbers_beside_tensors(name: str) -> None:
    nodes, want = BESIDE[name]
    built = models.build(sized(nodes))
    x = floats(3, 3)
    done = models.run(built, {"x": x}, call=by_numpy(built))
    assert done.ok, done.diagnostics
    assert set(fallbacks(done)) <= {"MatMul"}
    np.testing.assert_allclose(done.outputs["y"], want(x), rtol=1e-4, atol=1e-5)
    # The kernel's input has the model's name for it.
    inputs = [i["tensor"] for r in built.manifest["regions"] for i in r["inputs"]]
    assert {"fn", "n", "l"} & set(inputs)


def test_sizes_are_no_work_for_a_kernel() -> None:
    """Numbers of one element, made of numbers of one element."""
    nodes = [node("Mod", ["n", "two"], ["m"]), node("Max", ["m", "one"], ["k"])]
    nodes += [node("Cast", ["k"], ["f"], **FLOATS), node("Mul", ["x", "f"], ["y"])]
    done = run(sized(nodes), {"x": floats(2, 5)})
    assert done.ok
    assert fallbacks(done)[0] == "Mod"


ODD: Mapping[str, list[Any]] = {
    "Slice": [node("Unsqueeze", ["n", "a0"], ["u"]), node("Slice", ["x", "u", "u", "a0", "u"], ["y"])],
    "Pad": [node("Concat", ["s", "s"], ["p"], axis=0), node("Pad", ["x", "p"], ["y"])],
    "Trilu": [node("Trilu", ["x", "n"], ["y"])],
    "OneHot": [node("OneHot", ["s", "n", "p01"], ["y"])],
    "CenterCropPad": [node("CenterCropPad", ["x", "s"], ["y"])],
    "Split": [node("Split", ["x", "s"], ["y", "z"], axis=1)],
    "CumSum": [node("CumSum", ["x", "n"], ["y"])],
    "ReduceSum": [node("Unsqueeze", ["n", "a0"], ["u"]), node("ReduceSum", ["x", "u"], ["y"])],
    "Unsqueeze": [node("Unsqueeze", ["n", "a0"], ["u"]), node("Unsqueeze", ["x", "u"], ["y"])],
    "Tile": [node("Tile", ["x", "a0"], ["y"])],
    "Transpose": [node("Unsqueeze", ["n", "a0"], ["u"]), node("Transpose", ["x"], ["y"], perm=[0, 2])],
    "Resize": [node("Resize", ["x", "", "", "s"], ["y"])],
    "Expand": [node("Mod", ["s", "two"], ["p"]), node("Expand", ["x", "p"], ["y"])],
    "Range": [node("Range", ["s", "n", "one"], ["y"])],
    "GatherND": [node("GatherND", ["x", "n"], ["y"])],
    "Concat": [node("Concat", ["x", "n"], ["y"], axis=0)],
}  # fmt: skip


@pytest.mark.parametrize("op", ODD)
def test_no_reason_is_a_text_of_python(op: str) -> None:
    m = sized(ODD[op])
    for name, array in (("a0", np.array([0])), ("p01", np.float32([0, 1]))):
        m.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    reasons = [p.reason for p in read_pieces(m).pieces if p.op == op and p.code]
    for words in ("Error", "object", "NoneType", "Expr", "Traceback", "argument"):
        assert not any(words in r for r in reasons), reasons


def test_operands_that_do_not_fit_are_named_by_shape() -> None:
    m = model(
        [node("GatherND", ["x", "i"], ["y"])], [value("x", [2, 3]), value("i", [], INT64)], ["y"]
    )
    (reason,) = [p.reason for p in read_pieces(m).pieces]
    assert "[2, 3]" in reason
    assert "Error" not in reason


# empty tensors --------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [["batch", 2, 4, 4], ["batch", 2, "h", "w"]])
def test_an_operand_that_is_empty_for_all_sizes_is_no_fault_of_them(dims: list[Any]) -> None:
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Constant", [], ["roi"], value=onnx.numpy_helper.from_array(np.zeros(0, np.float32))),
        node("Resize", ["e", "roi", "scales"], ["y"], mode="nearest"),
    ]
    held = {"scales": np.array([1, 1, 2, 2], np.float32)}
    done = run(model(nodes, [value("x", dims)], ["y"], constants=held, opset=11))
    assert done.ok
    assert done.chosen["batch"] == 8


def test_sizes_that_leave_something_are_preferred() -> None:
    """Of 8 columns none is behind the first 8; a model that leaves nothing for any size runs all the same."""
    nodes = [node("MatMul", ["x", "x"], ["m"]), node("Slice", ["m", "from", "to", "axis"], ["c"])]
    nodes += [node("Exp", ["c"], ["y"])]
    for start, size in ((8, 32), (1 << 40, 8)):
        held = {"from": np.array([start]), "to": np.array([1 << 50]), "axis": np.array([1])}
        done = run(model(nodes, [value("x", ["n", "n"])], ["y"], constants=held))
        assert done.ok
        assert dict(done.chosen) == {"n": size}


# loops ----------------------------------------------------------------------------------------


def loop(inner: Sequence[Any], carried: Any, *extra: str) -> Any:
    """Nodes before, a loop of three steps, and nodes behind it."""
    results = ["d", "o", *extra]
    made = [value("d", [], BOOL), *(value(r, None) for r in results[1:])]
    steps = [value("i", [], INT64), value("c", [], BOOL), value("s", carried)]
    body = helper.make_graph([node("Identity", ["c"], ["d"]), *inner], "body", steps, made)
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Loop", ["k", "", "e"], ["l", *(f"{r}s" for r in extra)], body=body),
    ]
    nodes += [
        node("Abs", [f"{extra[0]}s" if extra else "l"], ["a"]),
        node("Mul", ["a", "a"], ["y"]),
    ]
    held = {"k": np.int64(3), "one": np.float32(1), "wide": np.array([2, 1, 1])}
    return model(nodes, [value("x", ["b", 3])], ["y"], constants=held)  # fmt: skip


@pytest.mark.parametrize("carried", [None, ["b", 3], ["p", "q"]])
def test_what_is_behind_a_loop_is_fused(carried: Any) -> None:
    m = loop([node("Add", ["s", "one"], ["o"])], carried)
    built = models.build(m)
    assert built.manifest["counts"]["fallbacks"] == 1
    assert set(built.pieces.symbols) == {"b"}
    x = floats(4, 3)
    done = models.run(built, {"x": x}, call=by_numpy(built))
    assert done.ok
    np.testing.assert_allclose(done.outputs["y"], (np.exp(x) + 3) ** 2, rtol=1e-5)


def test_an_axis_that_a_loop_makes_longer_is_open() -> None:
    m = loop([node("Concat", ["s", "s"], ["o"], axis=0)], None)
    built = models.build(m)
    assert built.manifest["counts"]["fallbacks"] == 1
    assert built.pieces.dims["l_0"] == "axis 0 of l"
    x = floats(2, 3)
    done = models.run(built, {"x": x}, call=by_numpy(built))
    assert done.ok
    np.testing.assert_allclose(done.outputs["y"], np.tile(np.exp(x), (8, 1)) ** 2, rtol=1e-5)


def test_results_of_the_steps_of_a_loop_are_stacked() -> None:
    m = loop([node("Add", ["s", "one"], ["o"]), node("Expand", ["o", "wide"], ["q"])], None, "q")
    built = models.build(m)
    assert built.manifest["counts"]["fallbacks"] == 1
    x = floats(2, 3)
    done = models.run(built, {"x": x}, call=by_numpy(built))
    assert done.ok
    want = np.stack([np.broadcast_to(np.exp(x) + k, (2, 2, 3)) for k in (1, 2, 3)]) ** 2
    np.testing.assert_allclose(done.outputs["y"], want, rtol=1e-5)


# names and old versions -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "file", "name"),
    [
        ("main_graph", "nets/resnet 18.onnx", "resnet 18"),
        ("main_graph", "", "main_graph"),
        ("", "net.onnx", "net"),
        ("", "", "onnx_graph"),
        ("encoder", "net.onnx", "encoder"),
    ],
)
def test_a_graph_without_a_name_of_its_own_has_that_of_its_file(
    graph: str, file: str, name: str, tmp_path: Path
) -> None:
    assert own_name(graph, file) == name
    if graph and file:
        m = model([node("Exp", ["x"], ["y"])], [value("x", [4])], ["y"])
        m.graph.name = graph
        path = tmp_path / Path(file).name
        onnx.save(m, path)
        assert models.build(path).pieces.label == name


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, (2,)), (1, (3,)), (2, (4,)), (-2, (3,)), (1, (3, 4))]
)
def test_before_version_7_a_second_operand_lies_along_an_axis(
    axis: int, shape: tuple[int, ...]
) -> None:
    x, w = floats(2, 3, 4), floats(*shape, seed=1)
    add = node("Add", ["x", "w"], ["y"], broadcast=1, axis=axis)
    done = run(model([add], [value("x", [2, 3, 4])], ["y"], constants={"w": w}, opset=6), {"x": x})
    assert done.ok, done.diagnostics
    along = w.reshape(*shape, *[1] * (3 - axis % 3 - len(shape)))
    np.testing.assert_allclose(done.outputs["y"], x + along, rtol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 3, 4, 3), (2, 3)])
def test_before_version_7_a_slope_belongs_to_a_channel(shape: tuple[int, ...]) -> None:
    slope = np.array([0.5, 2, -1], np.float32)
    m = model(
        [node("PRelu", ["x", "w"], ["y"])],
        [value("x", shape)],
        ["y"],
        constants={"w": slope},
        opset=6,
    )
    x = floats(*shape)
    done = run(m, {"x": x})
    assert done.ok, done.diagnostics
    along = slope.reshape(3, *[1] * (len(shape) - 2))
    np.testing.assert_allclose(done.outputs["y"], np.where(x < 0, x * along, x), rtol=1e-6)


TOLD: Mapping[str, tuple[list[Any], Any]] = {
    "TopK": (
        [node("Unsqueeze", ["n", "a0"], ["u"]), node("TopK", ["x", "u"], ["t", "i"])],
        lambda x: -np.sort(-x, axis=1),
    ),
    "OneHot": (
        [
            node("ArgMax", ["x"], ["i"], axis=1, keepdims=0),
            node("OneHot", ["i", "n", "p01"], ["t"], axis=0),
        ],
        lambda x: np.eye(x.shape[1], dtype=np.float32)[x.argmax(1)].T,
    ),
    "Resize": (
        [
            node("Concat", ["b1", "two1"], ["q"], axis=0),
            node("Mul", ["s", "q"], ["sizes"]),
            node("Resize", ["x", "", "", "sizes"], ["t"], mode="nearest", coordinate_transformation_mode="asymmetric"),
        ],
        lambda x: np.repeat(x, 2, axis=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("op", TOLD)
def test_sizes_that_an_operand_has_are_those_of_the_result(op: str) -> None:
    nodes, want = TOLD[op]
    m = sized([*nodes, node("Exp", ["t"], ["y"])])
    held = {
        "a0": np.array([0]),
        "p01": np.float32([0, 1]),
        "b1": np.array([1]),
        "two1": np.array([2]),
    }
    m.graph.initializer.extend(onnx.numpy_helper.from_array(a, k) for k, a in held.items())
    assert set(read_pieces(m).symbols) == {"b", "n"}
    x = floats(3, 4)
    done = run(m, {"x": x})
    assert done.ok, done.diagnostics
    assert fallbacks(done) == [op]
    np.testing.assert_allclose(done.outputs["y"], np.exp(want(x)), rtol=1e-5)
