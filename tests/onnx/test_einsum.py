"""Einsum as vector work: moves, diagonals, products, and sums that compute no number more often than it is read."""

from typing import Any

import numpy as np
import pytest
from extras import required

pytestmark = required("onnx")


from onnx import TensorProto
from onnx_models import model, node, value

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.onnx.reader import convert
from autofuse.machines.twin.oracle.oracle import evaluate

SIZES = dict(zip("abcdijkABx", (2, 3, 4, 5, 3, 4, 5, 2, 3, 4), strict=True))


def einsum(equation: str, shapes: list[Any], dtype: int = TensorProto.FLOAT) -> Any:
    names = [f"p{k}" for k in range(len(shapes))]
    inputs = [value(n, s, dtype) for n, s in zip(names, shapes, strict=True)]
    return model([node("Einsum", names, ["y"], equation=equation)], inputs, ["y"])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij->ji", None),
        ("ij", None),
        ("ji", None),
        ("BA", None),
        ("ijk->ki j", None),
        ("ij->", None),
        ("ij->j", None),
        ("ij,ij->ij", None),
        ("i,j->ij", None),
        ("i,j", None),
        ("ij,i->ij", None),
        ("ij,j->i", None),
        ("bi,bi->b", None),
        ("i,i->", None),
        ("i,i", None),
        ("abc,ab,c->b", None),
        ("...i->...", [(2, 3, 4)]),
        ("...ij->...ji", [(2, 3, 4)]),
        ("i...->...", [(2, 3, 4)]),
        ("...,...->...", [(2, 1, 4), (3, 1)]),
        ("a...,...->...a", [(2, 3, 4), (4,)]),
        ("...i,...i", [(2, 3, 4), (3, 4)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("...ii->...i", [(3, 5, 5)]),
        ("iji,j->ij", [(4, 3, 4), (3,)]),
        ("ij,ij->ij", [(1, 4), (3, 4)]),
        (",ij->ji", [(), (3, 4)]),
        ("ij->ij", [(0, 4)]),
    ],
)
def test_the_numbers_are_those_of_numpy(equation: str, shapes: list[Any] | None) -> None:
    if shapes is None:
        terms = equation.split("->")[0].split(",")
        shapes = [tuple(SIZES[c] for c in t.strip()) for t in terms]
    rng = np.random.default_rng(sum(map(ord, equation)))
    arrays = {f"p{k}": rng.standard_normal(s).astype(np.float32) for k, s in enumerate(shapes)}
    found = convert(einsum(equation, shapes))
    want = np.einsum(equation.replace(" ", ""), *(a.astype(np.float64) for a in arrays.values()))
    assert found.graph is not None
    (got,) = evaluate(found.graph, {n: arrays[n] for n in found.graph.inputs}, {}).values()
    assert got.value.shape == want.shape
    np.testing.assert_allclose(got.value, want, rtol=1e-5, atol=1e-6)


def test_a_sum_of_nothing_is_known() -> None:
    found = convert(einsum("ij->i", [(3, 0)]))
    assert found.graph is None
    np.testing.assert_array_equal(found.outputs[0], np.zeros(3, np.float32))


def test_sizes_may_be_symbols_and_sums_of_16_bits_are_wide() -> None:
    graph = convert(einsum("ij,j->i", [["n", "m"], ["m"]], TensorProto.FLOAT16)).graph
    assert graph is not None
    rng = np.random.default_rng(1)
    x, y = (rng.random(s).astype(np.float16) for s in ((7, 600), 600))
    arrays = dict(zip(graph.inputs, (x, y), strict=True))
    (got,) = evaluate(graph, arrays, {"n": 7, "m": 600}).values()
    assert got.value.dtype == np.float16
    want = x.astype(np.float64) @ y.astype(np.float64)
    assert float(np.abs(got.value - want).max()) <= 0.07  # half a step of float16 at 150


@pytest.mark.parametrize(
    ("equation", "shapes", "code"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], "AF1201"),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], "AF1201"),
        ("ij,kj->ik", [(2, 3), (4, 3)], "AF1201"),
        ("ij,j", [(2, 3)], "AF1205"),
        ("ijk->i", [(2, 3)], "AF1205"),
        ("i->i", [(2, 3)], "AF1205"),
        ("ij->ik", [(2, 3)], "AF1205"),
        ("ij->ii", [(2, 3)], "AF1205"),
        ("i1->i", [(2, 3)], "AF1205"),
        ("i.j->i", [(2, 3)], "AF1205"),
        ("ii->i", [(2, 3)], "AF1204"),
        ("ii->i", [("n", "n")], "AF1204"),
        ("ij,ij->ij", [(2, 3), (2, 4)], "AF1204"),
    ],
)
def test_what_it_is_not(equation: str, shapes: list[Any], code: str) -> None:
    with pytest.raises(AutofuseError) as caught:
        convert(einsum(equation, shapes))
    assert [d.code for d in caught.value.diagnostics] == [code]
