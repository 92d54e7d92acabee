"""Kernels of all targets refuse the same arguments and overwrite the same memory."""

from __future__ import annotations

import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError

pytestmark = pytest.mark.twin

TARGETS = [
    "ascend910b1",
    "cpu",
    pytest.param("nvidia-h100", marks=pytest.mark.triton),
]

#: ``x += s`` and ``y -= s``.
GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "places",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": [5, 7]},
        {"name": "y", "dtype": "float32", "shape": [5, 7]},
        {"name": "s", "dtype": "float32", "shape": [], "scalar": True},
    ],
    "nodes": [
        {"name": "a", "op": "Add", "inputs": ["x", "s"], "outputs": ["p"]},
        {"name": "b", "op": "Sub", "inputs": ["y", "s"], "outputs": ["m"]},
    ],
    "outputs": [{"name": "p", "inout": "x"}, {"name": "m", "inout": "y"}],
}


#: ``r += 1`` beside ``z + z``, of which the rows have a gap between them.
GAP = {
    "schema": "autofuse.graph/1",
    "name": "gap",
    "inputs": [
        {"name": "r", "dtype": "float32", "shape": [7]},
        {"name": "z", "dtype": "float32", "shape": [2, 7], "strides": [14, 1]},
    ],
    "nodes": [
        {"name": "a", "op": "Add", "inputs": ["r", {"const": 1.0}], "outputs": ["p"]},
        {"name": "b", "op": "Add", "inputs": ["z", "z"], "outputs": ["t"]},
    ],
    "outputs": [{"name": "p", "inout": "r"}, "t"],
}


@pytest.fixture(scope="module", params=TARGETS)
def kernel(request):
    return api.load(api.build(GRAPH, target=request.param))


def halves(base, start):
    """The left half of the rows of a table, and as much of it from another element on."""
    return (base[k : k + 70].reshape(5, 14)[:, :7] for k in (0, start))


def test_columns_beside_each_other_are_apart(kernel):
    base = np.arange(84, dtype=np.float32)
    x, y = halves(base, 7)
    out = kernel.run({"x": x, "y": y, "s": 100}).outputs
    assert out["p"] is x
    assert out["m"] is y
    want = np.arange(84, dtype=np.float32).reshape(6, 14)
    want[:5, :7] += 100
    want[:5, 7:] -= 100
    assert np.array_equal(base, want.reshape(84))


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_in_the_gap_of_another_array_is_apart(target):
    base = np.arange(28, dtype=np.float32)
    out = api.load(api.build(GAP, target=target)).run(
        {"r": base[7:14], "z": base.reshape(2, 14)[:, :7]}
    )
    assert np.array_equal(out.outputs["t"], 2 * np.arange(28).reshape(2, 14)[:, :7])
    assert np.array_equal(base[7:14], np.arange(8, 15))


@pytest.mark.parametrize("start", [0, 6, 14, 62])
def test_memory_that_is_overwritten_twice_is_refused_and_left_alone(kernel, start):
    base = np.arange(140, dtype=np.float32)
    x, y = halves(base, start)
    with pytest.raises(AutofuseError, match=r"AF5007.*shares memory with that of y"):
        kernel.run({"x": x, "y": y, "s": 100})
    assert np.array_equal(base, np.arange(140))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"x": np.ma.array(np.ones((5, 7), np.float32), mask=True)}, id="mask"),
        pytest.param({"x": np.ones((5, 7), object)}, id="objects"),
        pytest.param({"x": 1.0}, id="number"),
        pytest.param({"x": np.broadcast_to(np.float32(1), (5, 7))}, id="read-only"),
        pytest.param({"s": 1j}, id="complex"),
        pytest.param({"s": np.complex64(1)}, id="complex64"),
        pytest.param({"s": 10**400}, id="huge"),
        pytest.param({"s": "2"}, id="text"),
        pytest.param({"s": None}, id="None"),
        pytest.param({"s": np.ones((), ">f4")}, id="big endian"),
    ],
)
def test_what_is_no_value_is_refused(kernel, given):
    other = {"x": np.ones((5, 7), np.float32), "y": np.ones((5, 7), np.float32), "s": 1}
    with pytest.raises(AutofuseError) as caught:
        kernel.run(other | given)
    assert {d.code for d in caught.value.diagnostics} == {"AF5007"}
    assert (other["y"] == 1).all()
