"""The backend class, and ONNX files on the command line."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = [required("onnx"), pytest.mark.twin]

from onnx import TensorProto
from onnx_models import by_numpy, model, node, value

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx.backend import AutofuseBackend, backend


def test_a_model_runs_with_its_initialisers() -> None:
    w = np.array([1, 4, 9], np.float32)
    m = model(
        [node("Mul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])],
        [value("x", ["n", 3])],
        ["y"],
        constants={"w": w},
    )
    prepared = AutofuseBackend.prepare(m)
    for rows in (1, 5, 5):
        x = np.linspace(-3, 3, rows * 3, dtype=np.float32).reshape(rows, 3)
        (y,) = prepared.run([x])
        np.testing.assert_array_equal(y, np.maximum(x * w, 0))
    (y,) = AutofuseBackend.run_model(m, {"x": x})
    np.testing.assert_array_equal(y, np.maximum(x * w, 0))


def test_elements_of_shape_operands_are_those_of_the_run() -> None:
    inputs = [value("x", [2, 6]), value("s", [None], TensorProto.INT64)]
    m = model([node("Relu", ["x"], ["a"]), node("Reshape", ["a", "s"], ["y"])], inputs, ["y"])
    prepared = AutofuseBackend.prepare(m)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    for shape in ([3, 4], [12], [4, -1]):
        (y,) = prepared.run([x, np.array(shape)])
        np.testing.assert_array_equal(y, np.maximum(x, 0).reshape(shape))


def test_a_model_keeps_the_kernels_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autofuse.clients.onnx.backend.backend.MAX_KERNELS", 2)
    prepared = AutofuseBackend.prepare(
        model([node("Relu", ["x"], ["y"])], [value("x", [None, 3])], ["y"])
    )
    made = []
    for rows in (1, 2, 1, 3, 1, 2):
        x = np.linspace(-3, 3, rows * 3, dtype=np.float32).reshape(rows, 3)
        (y,) = prepared.run([x])
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        made.append(prepared.compiled({"x": x}))
        assert prepared.kernel_count == min(len(made), 2)
    # That of one row was used again in time, that of two rows was not.
    assert made[0] is made[2] is made[4]
    assert made[1] is not made[5]


def test_threads_may_run_a_model_with_new_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is needed for the shape of an input, so that much happens to the table in little time."""
    monkeypatch.setattr("autofuse.clients.onnx.backend.backend.MAX_KERNELS", 20)
    shape_of = model([node("Shape", ["x"], ["y"])], [value("x", [None, 3])], ["y"])
    prepared = AutofuseBackend.prepare(shape_of)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            rows = [n % 60 for n in range(400)]
            found = pool.map(lambda n: prepared.run([np.zeros((n, 3), np.float32)])[0], rows)
            assert [tuple(f) for f in found] == [(n, 3) for n in rows]
    finally:
        sys.setswitchinterval(before)
    assert len(prepared._kernels) == 20


def test_one_node() -> None:
    x, y = np.float32([1, 2]), np.float32([[3], [4]])
    (z,) = AutofuseBackend.run_node(node("Add", ["x", "y"], ["z"]), [x, y])
    np.testing.assert_array_equal(z, x + y)


def test_devices_and_arguments() -> None:
    assert AutofuseBackend.supports_device("CPU")
    assert not AutofuseBackend.supports_device("CUDA")
    m = model([node("Relu", ["x"], ["y"])], [value("x", [4])], ["y"])
    with pytest.raises(AutofuseError, match="AF5007"):
        AutofuseBackend.prepare(m).run([np.zeros(4, np.float32)] * 2)
    masked = np.ma.array(np.ones(4, np.float32), mask=[0, 1, 0, 0])
    for given in (masked, [masked], {"x": masked}):
        with pytest.raises(AutofuseError, match="AF5007: input x is a masked array"):
            AutofuseBackend.prepare(m).run(given)
    with pytest.raises(AutofuseError, match="AF5007: input x is a masked array"):
        AutofuseBackend.run_node(node("Relu", ["x"], ["y"]), [masked])
    for dtype in (">f4", "M8[s]", "f4,f4"):
        with pytest.raises(AutofuseError, match=r"AF5007: input x is .* which ONNX does not have"):
            AutofuseBackend.run_node(node("Relu", ["x"], ["y"]), [np.ones(4, dtype)])


def test_command_line(tmp_path: Path) -> None:
    m = model(
        [node("Sigmoid", ["x"], ["a"]), node("Mul", ["a", "x"], ["y"])],
        [value("x", ["n", 5])],
        ["y"],
    )
    (tmp_path / "m.onnx").write_bytes(m.SerializeToString())

    def autofuse(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "autofuse", *words, "--json"],
            cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["result"]

    assert autofuse("build", "m.onnx")["name"] == "small"
    np.save(tmp_path / "x.npy", np.ones((3, 5), np.float32))
    assert autofuse("run", "m.onnx", "--input", "x=x.npy")["symbols"] == {"n": 3}
    assert autofuse("verify", ".")["counts"]["passed"] == 1


# several kernels ------------------------------------------------------------------------------

WEIGHTS = np.linspace(-1, 1, 48, dtype=np.float32).reshape(6, 8)


def gated() -> Any:
    nodes = [
        node("Tanh", ["x"], ["a"]),
        node("MatMul", ["a", "w"], ["m"]),
        node("Sigmoid", ["m"], ["s"]),
        node("Mul", ["m", "s"], ["y"]),
    ]
    return model(nodes, [value("x", ["rows", 6])], ["y"], constants={"w": WEIGHTS})


def by_hand(x: Any) -> Any:
    m = np.tanh(x.astype(np.float64)) @ WEIGHTS
    return m / (1 + np.exp(-m))


@pytest.mark.parametrize("target", ["ascend910b1", "cpu"])
def test_a_model_that_is_more_than_one_kernel(target: str) -> None:
    prepared = AutofuseBackend.prepare(gated(), target=target)
    for rows in (1, 3):
        x = np.random.default_rng(rows).standard_normal((rows, 6)).astype(np.float32)
        (y,) = prepared.run([x])
        np.testing.assert_allclose(y, by_hand(x), rtol=1e-4, atol=1e-6)
    assert prepared.kernel_count == 2
    with pytest.raises(AutofuseError, match="input x is missing"):
        prepared.run([])


def test_one_kernel_can_be_asked_for() -> None:
    x = np.ones((2, 6), np.float32)
    with pytest.raises(AutofuseError, match="work of the cube unit"):
        AutofuseBackend.prepare(gated(), partition=False).run([x])
    one = model([node("Exp", ["x"], ["y"])], [value("x", [2, 6])], ["y"])
    (y,) = AutofuseBackend.prepare(one, partition=True).run([x])
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-5)
    only = model([node("MatMul", ["x", "x"], ["y"])], [value("x", [3, 3])], ["y"])
    with pytest.raises(AutofuseError, match="work of the cube unit"):
        AutofuseBackend.run_model(only, [np.ones((3, 3), np.float32)])


def test_a_kernel_that_is_wrong_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(built: Any, **_: Any) -> Any:
        right = by_numpy(built)

        def call(*given: Any) -> Any:
            done = right(*given)
            return replace(done, outputs={n: a + 1 for n, a in done.outputs.items()})

        return call

    monkeypatch.setattr(backend, "kernel_calls", wrong)
    with pytest.raises(AutofuseError, match="AF6001"):
        AutofuseBackend.run_model(gated(), [np.ones((2, 6), np.float32)])
