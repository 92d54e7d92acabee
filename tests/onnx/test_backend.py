"""The backend class, and ONNX files on the command line."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto  # noqa: E402
from onnx_models import model, node, value  # noqa: E402

from autofuse.base.diagnostics import AutofuseError  # noqa: E402
from autofuse.onnx_backend import AutofuseBackend  # noqa: E402

pytestmark = pytest.mark.twin


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
    monkeypatch.setattr("autofuse.onnx_backend.backend.MAX_KERNELS", 2)
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
    monkeypatch.setattr("autofuse.onnx_backend.backend.MAX_KERNELS", 20)
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
