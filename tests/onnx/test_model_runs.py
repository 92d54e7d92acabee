"""Partitioned models on the twin, beside ``onnx.reference`` and NumPy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")

import onnx
from onnx import TensorProto, helper
from onnx_models import by_numpy, floats, model, node, run, states, value

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models
from autofuse.clients.onnx.models.calls import Called, kernel_calls
from autofuse.codegen.verification import verify_schedule

twin = pytest.mark.twin


# patterns on the twin -------------------------------------------------------------------------


def conv_bn_relu() -> Any:
    held = {
        "w": floats(5, 3, 3, 3),
        "scale": floats(5, seed=1),
        "bias": floats(5, seed=2),
        "mean": floats(5, seed=3),
        "var": np.abs(floats(5, seed=4)) + 0.5,
    }
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["b"]),
        node("Relu", ["b"], ["y"]),
    ]
    return model(nodes, [value("x", ["batch", 3, 7, 9])], ["y"], constants=held)


@twin
def test_convolution_with_its_epilogue_for_any_batch() -> None:
    built = models.build(conv_bn_relu())
    (region,), (kernel,) = built.regions, built.kernels.values()
    assert region.nodes == (1, 2)
    assert isinstance(kernel, api.BuildResult)
    assert verify_schedule(kernel.graph, kernel.schedule, kernel.target) == []
    report = api.verify(kernel, shapes=[{"batch": n} for n in (0, 1, 3)])
    assert report.ok, report.diagnostics
    calls = kernel_calls(built)
    for batch in (0, 1, 5):
        x = floats(batch, 3, 7, 9, seed=batch)
        done = models.run(built, {"x": x}, call=calls)
        assert done.ok
        assert states(done) == ["ok"]
        assert done.outputs["y"].shape == (batch, 5, 7, 9)
        (row,) = done.regions
        once = 4 * (2 * batch * 5 * 63)
        assert row["bytes_unfused"] == 2 * once + 4 * 20
        # The parameters may be read by several cores, a batch of none by none.
        assert once <= row["bytes_moved"] <= once + 4 * 20 * 48


@twin
def test_the_epilogue_of_a_matrix_product() -> None:
    """A transformer's block: what follows the product, and a residual, are one kernel."""
    width = 24
    held = {
        "w": floats(width, width),
        "bias": floats(width, seed=1),
        "scale": floats(width, seed=2),
        "shift": floats(width, seed=3),
    }
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Add", ["a", "bias"], ["b"]),
        node("Gelu", ["b"], ["g"]),
        node("Add", ["g", "x"], ["r"]),
        node("LayerNormalization", ["r", "scale", "shift"], ["y"], axis=-1),
    ]
    m = model(nodes, [value("x", ["n", width])], ["y"], constants=held, opset=20)
    built = models.build(m)
    assert [r.nodes for r in built.regions] == [(1, 2, 3, 4)]
    done = models.run(built, sizes={"n": 13})
    assert done.ok, done.diagnostics
    x = np.random.default_rng([0, 0]).standard_normal((13, width)).astype(np.float32)
    from math import erf

    a = x.astype(np.float64) @ held["w"] + held["bias"]
    r = a * 0.5 * (1 + np.vectorize(erf)(a / np.sqrt(2))) + x
    centred = r - r.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    want = want * held["scale"] + held["shift"]
    np.testing.assert_allclose(done.outputs["y"], want, rtol=1e-3, atol=1e-4)


# what a run does ------------------------------------------------------------------------------


def test_views_constants_and_several_outputs() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("MatMul", ["x", "x"], ["m"]),
        node("Reshape", ["m", "flat"], ["f"]),
        node("Exp", ["m"], ["e"]),
        node("Identity", ["x"], ["same"]),
        node("Expand", ["one", "s"], ["ones"]),
    ]
    held = {"flat": np.array([-1]), "one": np.ones((), np.float32)}
    m = model(nodes, [value("x", ["n", "n"])], ["s", "f", "e", "same", "ones"], constants=held)
    m.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    x = floats(3, 3)
    done = run(m, {"x": x})
    assert done.ok, done.diagnostics
    assert done.outputs["s"].tolist() == [3, 3]
    np.testing.assert_array_equal(done.outputs["f"], (x @ x).reshape(-1))
    np.testing.assert_allclose(done.outputs["e"], np.exp(x @ x), rtol=1e-5)
    np.testing.assert_array_equal(done.outputs["same"], x)
    np.testing.assert_array_equal(done.outputs["ones"], np.ones((3, 3)))


def test_a_branch_that_no_kernel_holds_runs_between_two_regions() -> None:
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("MatMul", ["a", "a"], ["b"]),
        node("Add", ["a", "b"], ["y"]),
    ]
    x = floats(4, 4)
    done = run(model(nodes, [value("x", [4, 4])], ["y"]), {"x": x})
    assert done.ok
    assert len(done.regions) == 2
    np.testing.assert_allclose(done.outputs["y"], np.exp(x) + np.exp(x) @ np.exp(x), rtol=1e-4)


def test_a_subgraph_reads_what_a_kernel_made() -> None:
    def graph(name: str, op: str) -> Any:
        out = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        return helper.make_graph([node(op, [name], ["r"])], name, [], [out])

    nodes = [
        node("Exp", ["x"], ["a"]),
        node("If", ["c"], ["z"], then_branch=graph("a", "Neg"), else_branch=graph("x", "Abs")),
        node("Relu", ["z"], ["y"]),
    ]
    given = [value("x", [5]), value("c", [], TensorProto.BOOL)]
    x = floats(5)
    for choice, want in ((True, np.zeros(5)), (False, np.abs(x))):
        done = run(model(nodes, given, ["y"]), {"x": x, "c": np.array(choice)})
        assert done.ok, done.diagnostics
        np.testing.assert_array_equal(done.outputs["y"], want)


def test_sizes_that_depend_on_data() -> None:
    nodes = [
        node("NonZero", ["x"], ["i"]),
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Sqrt", ["f"], ["y"]),
    ]
    m = model(nodes, [value("x", [6])], ["y"])
    for x in ([0, 2, 0, 1, 0, 3], [0] * 6, [0, 0, 0, 0, 0, 1]):
        given = np.array(x, np.float32)
        done = run(m, {"x": given})
        assert done.ok, done.diagnostics
        want = np.sqrt(np.array([np.flatnonzero(given)], np.float32))
        np.testing.assert_allclose(done.outputs["y"], want, rtol=1e-6)


def test_a_size_that_a_kernel_does_not_take_is_left_to_the_reference() -> None:
    """Rows but one: with no row at all it would be a negative size, so the kernel begins at 1."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Slice", ["a", "from", "to"], ["b"]),
        node("Exp", ["b"], ["y"]),
    ]
    held = {"w": np.eye(3, dtype=np.float32), "from": np.array([0]), "to": np.array([-1])}
    m = model(nodes, [value("x", ["n", 3])], ["y"], constants=held)
    built = models.build(m)
    low = min(s.min for k in built.kernels.values() for s in k.graph.symbols)
    for n in (0, 1, 4):
        done = models.run(built, {"x": floats(n, 3)}, call=by_numpy(built))
        assert done.ok, done.diagnostics
        assert set(states(done)) <= ({"ok"} if n >= low else {"by reference"})
        assert done.outputs["y"].shape == (max(n - 1, 0), 3)


# what is found --------------------------------------------------------------------------------


def chain() -> Any:
    nodes = [
        node("MatMul", ["x", "x"], ["a"]),
        node("Tanh", ["a"], ["b"]),
        node("MatMul", ["b", "x"], ["c"]),
        node("Relu", ["c"], ["y"]),
    ]
    return model(nodes, [value("x", [4, 4])], ["y"])


def test_a_wrong_element_is_found_where_it_is_made_and_in_the_output() -> None:
    built = models.build(chain())
    right = by_numpy(built)

    def call(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        done = right(name, arrays, sizes)
        if "tanh" in name:
            done.outputs["y0"][2, 1] += 0.25
        return done

    done = models.run(built, call=call)
    assert not done.ok
    assert states(done) == ["differs", "ok"]
    (found,) = done.regions[0]["outputs"]
    assert (found["wrong"], found["first"]) == (1, [2, 1])
    assert not done.compared[0]["ok"]
    assert [d.code for d in done.diagnostics] == ["AF6001", "AF6001"]


def test_a_kernel_that_fails_is_replaced_by_the_reference() -> None:
    built = models.build(chain())
    right = by_numpy(built)

    def call(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        if "tanh" in name:
            raise AutofuseError.of("AF5004", "a race")
        return right(name, arrays, sizes)

    done = models.run(built, call=call)
    assert not done.ok
    assert states(done) == ["failed", "ok"]
    assert done.compared[0]["ok"]
    assert [d.code for d in done.diagnostics] == ["AF5004"]


def test_a_softmax_of_what_rounding_decides_is_no_difference() -> None:
    """Sums of the same large numbers in another order; the softmax then depends on their last bits."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("ReduceSum", ["a", "last"], ["s"], keepdims=0),
        node("Softmax", ["s"], ["y"]),
    ]
    held = {"w": np.eye(997, dtype=np.float32), "last": np.array([1])}
    m = model(nodes, [value("x", [7, 997])], ["y"], constants=held)
    built = models.build(m)
    right = by_numpy(built)

    def call(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        nudged = {n: np.nextafter(a, np.float32(np.inf)) for n, a in arrays.items()}
        return right(name, nudged, sizes)

    row = np.abs(floats(997)) * 1e9
    done = models.run(built, {"x": np.stack([np.roll(row, k) for k in range(7)])}, call=call)
    assert done.ok, done.diagnostics
    # A difference that rounding does not explain is one all the same.
    small = models.run(built, {"x": floats(7, 997)}, call=lambda *a: _scaled(right(*a)))
    assert not small.ok


def _scaled(done: Called) -> Called:
    return Called({n: a * np.float32(1.5) for n, a in done.outputs.items()}, None, 0.0)


@pytest.mark.parametrize(
    ("inputs", "sizes", "text"),
    [
        ({"z": np.zeros(1)}, {}, "z is not an input"),
        ({"x": np.zeros((2, 3, 7, 9))}, {}, "is float64"),
        ({"x": np.ma.zeros((2, 3, 7, 9), np.float32)}, {}, "x is a masked array"),
        ({"x": np.zeros((2, 4, 7, 9), np.float32)}, {}, "has the shape"),
        ({"x": np.zeros((2, 3), np.float32)}, {}, "has the shape"),
        ({"x": np.zeros((2, 3, 7, 9), np.float32)}, {"batch": 3}, "has the shape"),
        ({}, {"rows": 3}, "rows is not a symbol"),
        ({}, {"batch": -1}, "negative"),
    ],
)
def test_inputs_that_do_not_fit(inputs: Any, sizes: Any, text: str) -> None:
    with pytest.raises(AutofuseError, match=text):
        run(conv_bn_relu(), inputs, sizes=sizes)


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        ({"inputs": [np.ones((4, 4), np.float32)]}, TypeError, "inputs are given by name"),
        ({"inputs": {"x": [[1.0] * 4] * 4}}, AutofuseError, "x must be a NumPy array, not list"),
        ({"inputs": {"x": None}}, AutofuseError, "AF5007"),
        ({"sizes": [3]}, TypeError, "sizes are given by name"),
        ({"sizes": {"n": "3"}}, TypeError, "the size of n must be an integer, not str"),
        ({"sizes": {"n": 2.0}}, TypeError, "the size of n must be an integer, not float"),
        ({"seed": -1}, ValueError, "seed must be from 0"),
        ({"seed": "a"}, TypeError, "seed must be an integer"),
        ({"rtol": -1.0}, ValueError, "tolerances must be at least 0"),
        ({"atol": float("nan")}, ValueError, "tolerances must be at least 0"),
        ({"check": "some"}, ValueError, "check is one of"),
    ],
)
def test_arguments_that_no_model_could_make_right(
    words: dict[str, Any], error: type[Exception], text: str
) -> None:
    m = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 4])], ["y"])
    with pytest.raises(error, match=text):
        models.run(m, **words)
    with pytest.raises(TypeError, match=r"a model is an onnx\.ModelProto, a path, or bytes"):
        models.build(None)


def test_a_constant_that_would_not_fit_into_memory_is_refused() -> None:
    nodes = [
        node("ConstantOfShape", ["s"], ["big"]),
        node("MatMul", ["big", "big"], ["a"]),
        node("Relu", ["a"], ["y"]),
    ]
    m = model(nodes, [], ["y"], constants={"s": np.array([1 << 20, 1 << 20])})
    with pytest.raises(AutofuseError, match="AF1109"):
        run(m)


# where onnx.reference is not the standard -----------------------------------------------------


def test_softmax_before_version_13_is_of_a_matrix() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])]
    held = {"w": np.eye(4, dtype=np.float32)}
    x = floats(2, 3, 4)
    done = run(model(nodes, [value("x", [2, 3, 4])], ["y"], constants=held, opset=9), {"x": x})
    assert done.ok, done.diagnostics
    e = np.exp(x.astype(np.float64)).reshape(2, 12)
    np.testing.assert_allclose(
        done.outputs["y"].reshape(2, 12), e / e.sum(1, keepdims=True), rtol=1e-5
    )


def test_batch_normalization_before_version_14_with_one_result_is_no_training() -> None:
    m = conv_bn_relu()
    m.opset_import[0].version = 9
    assert run(m, sizes={"batch": 2}).ok


def test_a_node_that_does_not_take_random_inputs_says_which_they_are() -> None:
    """A shape of zeros and ones is none for 24 elements."""
    nodes = [node("Exp", ["x"], ["e"]), node("Reshape", ["e", "to"], ["y"])]
    given = [value("x", [4, 6]), value("to", [2], TensorProto.INT64)]
    built = models.build(model(nodes, given, ["y"]))
    x = floats(4, 6)
    with pytest.raises(AutofuseError, match="random inputs: to; give valid elements") as e:
        models.run(built, {"x": x}, call=by_numpy(built))
    assert [d.code for d in e.value.diagnostics] == ["AF5003"]
    done = models.run(built, {"x": x, "to": np.array([3, 8])}, call=by_numpy(built))
    assert done.ok
    assert done.outputs["y"].shape == (3, 8)
    with pytest.raises(AutofuseError) as e:
        models.run(built, {"x": x, "to": np.array([3, 9])}, call=by_numpy(built))
    assert "random" not in str(e.value)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_an_output_in_float32_of_a_model_in_half_precision(kind: int) -> None:
    """What was rounded on the way is no finer behind a cast."""
    nodes = [
        node("Cast", ["x"], ["h"], to=kind),
        node("Tanh", ["h"], ["t"]),
        node("MatMul", ["t", "t"], ["m"]),
        node("Sub", ["m", "h"], ["d"]),
        node("Cast", ["d"], ["f"], to=TensorProto.FLOAT),
        node("MatMul", ["f", "f"], ["g"]),
        node("Exp", ["g"], ["y"]),
    ]
    m = model(nodes, [value("x", [8, 8])], ["y"])
    built = models.build(m)
    call = by_numpy(built)

    def coarse(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        """The last bit of float16 or bfloat16 is another one, as that of a chip may be."""
        done = call(name, arrays, sizes)
        for a in done.outputs.values():
            if a.dtype.itemsize == 2:
                a.reshape(-1)[::2] = np.nextafter(a, np.ones_like(a)).reshape(-1)[::2]
        return done

    x = floats(8, 8) / 4
    done = models.run(built, {"x": x}, call=coarse)
    assert done.ok, done.diagnostics
    assert done.outputs["y"].dtype == np.float32
    assert done.compared[0]["max_abs"] > 0

    def wrong(name: str, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Called:
        done = call(name, arrays, sizes)
        for a in done.outputs.values():
            a.reshape(-1)[3] += 1
        return done

    assert not models.run(built, {"x": x}, call=wrong).ok


@pytest.mark.parametrize("opset", [10, 13, 18, 19])
def test_quantised_operands_before_version_19(opset: int) -> None:
    nodes = [
        node("DequantizeLinear", ["x", "scale", "zero"], ["f"]),
        node("MatMul", ["f", "f"], ["m"]),
        node("QuantizeLinear", ["m", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    held = {"scale": np.float32(0.5), "zero": np.uint8(3)}
    m = model(nodes, [value("x", [3, 3], TensorProto.UINT8)], ["y"], constants=held, opset=opset)
    x = np.array([[3, 5, 0], [1, 2, 9], [4, 3, 7]], np.uint8)
    done = run(m, {"x": x})
    assert done.ok, done.diagnostics
    f = (x.astype(np.float64) - 3) / 2
    want = (np.clip(np.rint(f @ f * 2) + 3, 0, 255) - 3) / 2
    np.testing.assert_array_equal(done.outputs["y"], want.astype(np.float32))


def test_lrn_normalises_all_channels() -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("LRN", ["a"], ["y"], size=3, alpha=0.3)]
    held = {"w": np.eye(6, dtype=np.float32).reshape(6, 6, 1, 1)}
    x = floats(1, 6, 2, 2)
    done = run(model(nodes, [value("x", [1, 6, 2, 2])], ["y"], constants=held), {"x": x})
    assert done.ok, done.diagnostics
    want = np.empty(x.shape)
    for c in range(6):
        near = x[:, max(c - 1, 0) : c + 2].astype(np.float64)
        want[:, c] = x[:, c] / (1 + 0.1 * (near**2).sum(1)) ** 0.75
    np.testing.assert_allclose(done.outputs["y"], want, rtol=1e-5)


# a network that ships with onnx ---------------------------------------------------------------


@twin
@pytest.mark.slow
def test_squeezenet() -> None:
    from pathlib import Path

    path = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    built = models.build(path)
    counts = built.manifest["counts"]
    assert (counts["nodes"], counts["inKernels"], counts["fallbacks"]) == (105, 36, 29)
    assert counts["kernels"] < counts["regions"]
    for kernel in built.kernels.values():
        assert isinstance(kernel, api.BuildResult)
        assert verify_schedule(kernel.graph, kernel.schedule, kernel.target) == []
    done = models.run(built)
    assert done.ok, done.diagnostics
    assert set(states(done)) == {"ok"}
    moved = sum(r["bytes_moved"] for r in done.regions)
    assert moved < sum(r["bytes_unfused"] for r in done.regions)


def test_the_small_models_that_ship_with_onnx() -> None:
    from pathlib import Path

    folder = Path(onnx.__file__).parent / "backend/test/data"
    files = [
        p
        for k in ("pytorch-operator", "pytorch-converted", "simple")
        for p in folder.glob(f"{k}/*/model.onnx")
    ]
    assert len(files) > 100
    ran, refused = 0, {}
    for path in sorted(files):
        built = models.build(path)
        try:
            done = models.run(built, call=by_numpy(built))
        except AutofuseError as e:
            refused[path.parent.name] = e.diagnostics[0].code
            continue
        assert done.ok, (path, done.diagnostics)
        ran += 1
    # Gradients have no reference, and texts cannot be made at random.
    assert all("gradient" in name or "strnorm" in name for name in refused), refused
    assert ran == len(files) - len(refused)
