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
