"""Where the sign of a zero shows in the result."""

from __future__ import annotations

import json

import numpy as np
import pytest

from autofuse.api import build, load


@pytest.mark.twin
def test_relu_of_a_negative_zero_is_a_positive_zero() -> None:
    graph = {
        "schema": "autofuse.graph/1",
        "name": "relu_zero",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
        "nodes": [
            {"name": "r", "op": "Relu", "inputs": ["x"], "outputs": ["t"]},
            {"name": "d", "op": "Reciprocal", "inputs": ["t"], "outputs": ["y"]},
        ],
        "outputs": ["y"],
    }
    y = load(build(json.dumps(graph)))(np.array([-0.0, 0.0, -3.0, 2.0], np.float32))
    assert y.tolist() == [np.inf, np.inf, np.inf, 0.5]


@pytest.mark.twin
def test_log1p_at_the_ends() -> None:
    graph = {
        "schema": "autofuse.graph/1",
        "name": "log1p_ends",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [10]}],
        "nodes": [{"name": "l", "op": "Log1p", "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    x = [-0.0, 0.0, -1.0, np.inf, -np.inf, np.nan, -1.5, tiny, -(2.0**-30), 3e38]
    y = load(build(json.dumps(graph)))(np.array(x, np.float32))
    want = np.array([-0.0, 0.0, -np.inf, np.inf, *[np.nan] * 3, tiny, -(2.0**-30), np.log1p(3e38)])
    np.testing.assert_allclose(y, want, rtol=2e-7)
    assert np.signbit(y[:2]).tolist() == [True, False]
