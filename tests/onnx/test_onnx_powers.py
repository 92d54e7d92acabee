"""ONNX Pow: the exponent has a type of its own, and is not rounded or cut to that of the base."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")


from autofuse.clients.onnx import models


def power(base: np.ndarray, exponent: np.ndarray, *, known: bool) -> Any:
    """Result of a model with one Pow; if ``known``, the exponent is an initialiser."""
    from onnx import helper, numpy_helper

    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in (base, exponent)]
    x = helper.make_tensor_value_info("x", kinds[0], [len(base)])
    y = helper.make_tensor_value_info("y", kinds[0], [len(base)])
    b = helper.make_tensor_value_info("b", kinds[1], [len(exponent)])
    # Something in front keeps the base from being the parameter itself.
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Pow", ["a", "b"], ["y"])]
    held = [numpy_helper.from_array(exponent, "b")] if known else []
    graph = helper.make_graph(nodes, "power", [x] if known else [x, b], [y], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with np.errstate(over="ignore"):
        given = {"x": -base} if known else {"x": -base, "b": exponent}
    done = models.run(models.build(model), given)
    assert done.ok
    return done.outputs["y"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("base", "exponents"),
    [
        (np.float32, [3, 16777215, 16777217, -16777217]),
        (np.float16, [3, 2047, 2049, -2049]),
    ],
)
def test_an_odd_exponent_keeps_the_sign(base: Any, exponents: list[int], known: bool) -> None:
    x = np.full(len(exponents), -1, base)
    np.testing.assert_array_equal(power(x, np.array(exponents, np.int64), known=known), x)


def test_a_longer_float_as_exponent() -> None:
    x = np.array([-1, -1, 2], np.float16)
    found = power(x, np.array([2049, 2050, 0.5], np.float32), known=False)
    np.testing.assert_array_equal(found, np.array([-1, 1, 2**0.5], np.float16))


def test_a_longer_integer_as_exponent() -> None:
    x = np.array([-1, 3, 2, 1], np.int32)
    found = power(x, np.array([2**32 + 1, 2**32, 2**32 + 1, 2**40], np.int64), known=False)
    np.testing.assert_array_equal(found, [-1, pow(3, 2**32, 2**32), 0, 1])
