"""What a run makes up, and whom it asks: sizes, indices, a second reference."""

import importlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from extras import needs, required

pytestmark = required("onnx")


from onnx import TensorProto
from onnx_models import by_numpy, floats, model, node, run, states, value

from autofuse import failures
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models
from autofuse.clients.onnx.models.reference import Reference, Runtime
from autofuse.frontends.onnx.pieces import Piece

INT64 = TensorProto.INT64
# Its name is that of a function as well.
build_module = importlib.import_module("autofuse.clients.onnx.models.build")


# sizes ----------------------------------------------------------------------------------------


def test_eight_if_the_model_accepts_it() -> None:
    m = model([node("Relu", ["x"], ["y"])], [value("x", ["n", "m"])], ["y"])
    done = run(m, sizes={"m": 3})
    assert (done.symbols, done.chosen) == ({"m": 3, "n": 8}, {"n": 8})


def test_an_image_is_as_large_as_the_classifier_wants() -> None:
    """Two steps of pooling leave 56 x 56 of 224 x 224; 8 x 8 would end in a product that does not fit."""
    nodes = [
        node("AveragePool", ["x"], ["p"], kernel_shape=[4, 4], strides=[4, 4]),
        node("Flatten", ["p"], ["f"]),
        node("MatMul", ["f", "w"], ["c"]),
        node("Relu", ["c"], ["y"]),
    ]
    held = {"w": floats(3 * 16 * 16, 2)}
    m = model(nodes, [value("x", ["batch", 3, "height", "width"])], ["y"], constants=held)
    done = run(m)
    assert done.ok, done.diagnostics
    assert done.chosen == {"batch": 1, "height": 64, "width": 64}


def test_a_window_that_is_larger_than_eight() -> None:
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[11, 11]),
        node("Relu", ["p"], ["y"]),
    ]
    m = model(nodes, [value("x", ["batch", 3, "height", "width"])], ["y"])
    done = run(m)
    assert done.ok, done.diagnostics
    assert done.chosen["height"] == 32


def test_a_size_that_is_twice_another_one() -> None:
    """Past and present of a sequence, beside a mask of both."""
    nodes = [
        node("Concat", ["past", "x"], ["k"], axis=1),
        node("Add", ["k", "mask"], ["a"]),
        node("MatMul", ["a", "w"], ["c"]),
        node("Relu", ["c"], ["y"]),
    ]
    inputs = [value("past", [2, "p", 4]), value("x", [2, "s", 4]), value("mask", [2, "total", 4])]
    done = run(model(nodes, inputs, ["y"], constants={"w": floats(4, 4)}))
    assert done.ok, done.diagnostics
    assert done.chosen["total"] == done.chosen["p"] + done.chosen["s"]


def test_sizes_that_cannot_be_found() -> None:
    nodes = [
        node("Flatten", ["x"], ["f"]),
        node("MatMul", ["f", "w"], ["c"]),
        node("Relu", ["c"], ["y"]),
    ]
    m = model(nodes, [value("x", [1, "a", "b"])], ["y"], constants={"w": floats(7 * 11, 2)})
    with pytest.raises(AutofuseError) as caught:
        run(m)
    (d,) = caught.value.diagnostics
    assert d.code == "AF5007"
    assert "--shape a=N --shape b=N" in d.hint
    assert run(m, sizes={"a": 7, "b": 11}).ok


# integers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "axis", "between"),
    [(100, 0, ()), (1, 0, ()), (100, 1, ("Cast", "Unsqueeze")), (100, -1, ("Identity",))],
)
def test_indices_are_those_of_the_table(rows: int, axis: int, between: Sequence[str]) -> None:
    shape = [5, 5]
    shape[axis] = rows
    last, nodes = "ids", []
    for k, op in enumerate(between):
        words: dict[str, Any] = {"to": INT64} if op == "Cast" else {}
        extra = ["axes"] if op == "Unsqueeze" else []
        nodes.append(node(op, [last, *extra], [f"t{k}"], **words))
        last = f"t{k}"
    nodes += [
        node("Gather", ["table", last], ["g"], axis=axis),
        node("NonZero", ["ids"], ["where"]),
        node("Relu", ["g"], ["y"]),
    ]
    held = {"table": floats(*shape), "axes": np.array([0])}
    m = model(nodes, [value("ids", [400], INT64)], ["y", "where"], constants=held)
    done = run(m)
    assert done.ok, done.diagnostics
    # Of 400 numbers of 0 to 99 about four are 0.
    share = done.outputs["where"].size / 400
    assert share > 0.9 if rows > 1 else share == 0


# a second reference ---------------------------------------------------------------------------


def two_regions() -> Any:
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("MatMul", ["a", "w"], ["b"]),
        node("Tanh", ["b"], ["y"]),
    ]
    return model(nodes, [value("x", [4, 4])], ["y"], constants={"w": floats(4, 4)})


def wrong_of(op: str, what: str) -> Any:
    """A ``Reference.run`` that gets one op wrong: its numbers, its shape, or that it fails."""
    right = Reference.run

    def found(self: Reference, piece: Piece, operands: Mapping[str, Any]) -> dict[str, Any]:
        results = right(self, piece, operands)
        if piece.op != op or self.name != "onnx.reference":
            return results
        if what == "failure":
            raise AutofuseError.of("AF5003", f"{op}: onnx.reference cannot run it")
        change = (lambda a: a + 1) if what == "numbers" else (lambda a: a[:1])
        return {n: change(a) for n, a in results.items()}

    return found


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands for onnxruntime is as right as ``onnx.reference`` really is."""
    monkeypatch.setattr(Runtime, "is_there", lambda: True)
    monkeypatch.setattr(Runtime, "_results", Reference._results)


@pytest.mark.parametrize("what", ["numbers", "shape", "failure"])
def test_where_the_reference_is_wrong_onnxruntime_is_asked(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reference, "run", wrong_of("Exp", what))
    stand_in(monkeypatch)
    done = run(two_regions())
    assert done.ok, done.diagnostics
    assert [r["reference"] for r in done.regions] == ["onnxruntime", "onnx.reference"]
    assert all(c["compared"] for c in done.compared)


@pytest.mark.parametrize(
    ("what", "state"),
    [("numbers", "differs"), ("shape", "not compared"), ("failure", "not compared")],
)
def test_without_it_nothing_is_called_right(
    what: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reference, "run", wrong_of("Exp", what))
    monkeypatch.setattr(Runtime, "is_there", lambda: False)
    done = run(two_regions())
    assert states(done) == [state, "ok"]
    assert not done.ok
    (found,) = done.compared
    assert found["compared"] == (what == "numbers")


def test_a_wrong_kernel_differs_from_both(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    built = models.build(two_regions())
    call = by_numpy(built)

    def wrong(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> models.Called:
        done = call(name, arrays, sizes)
        for a in done.outputs.values():
            a.reshape(-1)[3] += 1
        return done

    done = models.run(built, call=wrong)
    assert states(done) == ["differs", "differs"]


@needs("onnxruntime")
def test_onnxruntime_itself() -> None:
    nodes = [node("MatMul", ["x", "x"], ["m"]), node("GlobalMaxPool", ["m"], ["y"])]
    built = models.build(model(nodes, [value("x", [2, 5, 5])], ["y"]))
    x = floats(2, 5, 5)
    pieces = built.pieces
    (found,) = Runtime(pieces).run(pieces.pieces[1], {"m": x}).values()
    np.testing.assert_array_equal(found, x.max(-1, keepdims=True))


@pytest.mark.parametrize("shape", [[2, 3, 7], [2, 3, 4, 5], [2, 3, 2, 3, 4]])
def test_global_max_pool_of_any_rank(shape: list[int]) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("GlobalMaxPool", ["a"], ["y"])]
    x = floats(*shape)
    done = run(model(nodes, [value("x", shape)], ["y"]), {"x": x})
    assert done.ok, done.diagnostics
    want = np.maximum(x, 0).max(axis=tuple(range(2, x.ndim)), keepdims=True)
    np.testing.assert_array_equal(done.outputs["y"], want)


# internal errors ------------------------------------------------------------------------------


def test_an_internal_error_is_cut_around_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("build", "build_split"):
        right = getattr(build_module.api, name)

        def failing(graph: Any, right: Any = right, **words: Any) -> Any:
            if any(n.op == "Tanh" for n in graph.nodes):
                raise failures.internal_error(AssertionError("no such thing"))
            return right(graph, **words)

        monkeypatch.setattr(build_module.api, name, failing)
    monkeypatch.setattr(failures, "_CUT_AROUND", itertools.count())
    with pytest.warns(
        RuntimeWarning, match="autofuse failed, and onnx.reference handles that part"
    ):
        done = run(two_regions())
    assert done.ok, done.diagnostics
    assert [f["op"] for f in done.fallbacks] == ["MatMul", "Tanh"]
    monkeypatch.setenv("AUTOFUSE_STRICT", "1")
    with pytest.raises(AutofuseError, match="AF9001"):
        run(two_regions())
