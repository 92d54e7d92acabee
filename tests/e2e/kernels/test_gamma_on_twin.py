"""The incomplete gamma functions where their arguments are as large as floats get."""

import numpy as np
import pytest

from autofuse import api
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import evaluate

pytestmark = pytest.mark.twin

ENDS = np.array(
    [0.0, 1e-45, 1e-30, 0.5, 1.0, 19.0, 21.0, 1e5, 1e20, 9e29, 1.1e30, 2e30, 1e35, 3e38, np.inf],
    np.float32,
)


@pytest.mark.parametrize("op", ["Igamma", "Igammac"])
def test_the_larger_argument_decides_where_both_are_huge(op):
    a, x = (side.ravel() for side in np.meshgrid(ENDS, ENDS))
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "gamma",
            "inputs": [{"name": n, "dtype": "float32", "shape": [a.size]} for n in "ax"],
            "nodes": [{"name": "n", "op": op, "inputs": ["a", "x"], "outputs": ["y"]}],
            "outputs": ["y"],
        }
    )
    want = evaluate(graph, {"a": a, "x": x}, {})["y"]
    got = api.load(api.build(graph))(a, x)
    found = compare("y", got, want, graph.tensors["y"].dtype)
    assert found.ok, f"f{(a[found.first], x[found.first])} = {found.want}, not {found.got}"
