"""Whole models for a CPU and for cards."""

from typing import Any

import numpy as np
import pytest
from extras import needs, required

pytestmark = required("onnx")


from onnx_models import floats, model, node, states, value

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.onnx import models

WEIGHTS = floats(6, 4, seed=9)


def network() -> Any:
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("Neg", ["a"], ["b"]),
        node("MatMul", ["b", "w"], ["m"]),
        node("Softmax", ["m"], ["s"], axis=-1),
        node("Mul", ["s", "m"], ["p"]),
        node("Flatten", ["p"], ["y"]),
    ]
    return model(nodes, [value("x", ["rows", 6])], ["y"], constants={"w": WEIGHTS})


def want(x: Any) -> Any:
    m = -np.exp(x.astype(np.float64)) @ WEIGHTS
    e = np.exp(m - m.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) * m


@pytest.mark.parametrize("target", ["cpu", "nvidia-h100", "triton-ascend910b1"])
def test_kernels_and_manifest(target: str) -> None:
    built = models.build(network(), target=target)
    assert built.manifest["target"] == target
    counts = built.manifest["counts"]
    assert (counts["inKernels"], counts["fallbacks"], counts["kernels"]) == (4, 1, 2)
    assert all(r["bytes"]["modelled"] is None for r in built.manifest["regions"] if r["kernel"])
    suffix = ".cpp" if target == "cpu" else "_triton.py"
    assert sum(f.endswith(suffix) for f in built.files) == 2


@pytest.mark.twin
@pytest.mark.parametrize(
    "target", ["cpu", pytest.param("nvidia-h100", marks=needs("torch", "triton"))]
)
def test_whole_models_run(target: str) -> None:
    x = floats(5, 6)
    done = models.run(network(), {"x": x}, target=target)
    assert done.ok, done.diagnostics
    assert set(states(done)) == {"ok"}
    np.testing.assert_allclose(done.outputs["y"], want(x), rtol=1e-4, atol=1e-5)


def test_bytes_of_ub_are_for_chips() -> None:
    with pytest.raises(AutofuseError, match="bytes of UB are for the kernels of Ascend C"):
        models.build(network(), target="cpu", ub_bytes=1 << 16)
