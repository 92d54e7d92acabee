"""Sums of C++ loops lose a few units in the last place at every length, along every dimension."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import autofuse

#: Equal addends, of which all roundings go one way, and the most that 16 additions and the joining of 16 lanes lose.
EQUAL = {0.1: 4.0, 1.7: 6.0}
LENGTHS = (1, 15, 16, 17, 255, 256, 257, 300, 1000, 4800, 8192, 9001)


def ulp(got: Any, exact: npt.NDArray[np.float64], dtype: Any = np.float32) -> float:
    """The largest error in units in the last place of the exact result."""
    place = np.spacing(np.abs(exact).astype(dtype)).astype(np.float64)
    return float(np.max(np.abs(np.asarray(got).astype(np.float64) - exact) / place))


def loops(
    shape: list[str | int],
    nodes: list[tuple[str, list[Any], str, dict[str, Any]]],
    dtype: str = "float32",
) -> Any:
    """The loops of a graph of one input ``x`` and of nodes ``(op, inputs, output, attributes)``."""
    symbols = {s: {"min": 0, "max": 1 << 15} for s in shape if isinstance(s, str)}
    if len(shape) == 1 or shape[1:] == [16]:
        symbols["n"]["max"] = 1 << 20
    graph = {
        "schema": "autofuse.graph/1",
        "name": "sums",
        "symbols": symbols,
        "inputs": [{"name": "x", "dtype": dtype, "shape": shape}],
        "nodes": [
            {"name": f"n{k}", "op": op, "inputs": inputs, "outputs": [out], "attrs": attrs}
            for k, (op, inputs, out, attrs) in enumerate(nodes)
        ],
        "outputs": [nodes[-1][2]],
    }
    return autofuse.load(autofuse.build(graph, target="cpu"))


def equal(shape: tuple[int, ...], value: float, dtype: Any = np.float32) -> Any:
    """A tensor of one value, all roundings of whose sum go one way."""
    return np.full(shape, value, dtype)


FORMS: dict[str, tuple[list[str | int], tuple[int, ...]]] = {
    "rows": (["m", "n"], (1,)),
    "columns": (["n", "m"], (0,)),
    "columns of rows": (["n", 3, "m"], (0, 1)),
    "a dimension in the middle": (["k", "n", "m"], (1,)),
    "rows of pairs": (["m", "n", 2], (1, 2)),
    "all": (["n", "m"], (0, 1)),
}


@pytest.fixture(params=["0", "3"])
def optimised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both without vector instructions and with them."""
    monkeypatch.setenv("AUTOFUSE_OPT", request.param)


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean"])
def test_a_sum_loses_a_few_units(form: str, op: str) -> None:
    shape, axes = FORMS[form]
    made = loops(shape, [(op, ["x"], "y", {"axes": list(axes)})])
    numpy = np.sum if op == "ReduceSum" else np.mean
    for n in LENGTHS:
        sizes = [{"n": n, "m": 37, "k": 2}.get(s, s) if isinstance(s, str) else s for s in shape]
        for value, most in EQUAL.items():
            x = equal(tuple(sizes), value)
            exact = np.asarray(numpy(x.astype(np.float64), axis=axes))
            assert ulp(made(x), exact) <= most, (n, value)


@pytest.mark.parametrize("shape", [[33, 4800], [4800, 33], [33, 200], [12, 33], [3, 700, 5]])
def test_known_sizes_do_as_well(shape: list[str | int]) -> None:
    axis = max(range(len(shape)), key=lambda d: int(shape[d]))
    made = loops(shape, [("ReduceSum", ["x"], "y", {"axes": [axis]})])
    x = equal(tuple(int(s) for s in shape), 0.1)
    assert ulp(made(x), x.astype(np.float64).sum(axis)) <= EQUAL[0.1]


def test_threads_that_share_what_is_summed_do_as_well() -> None:
    for shape, axis in ((["n"], 0), (["n", 16], 0)):
        made = loops(list(shape), [("ReduceSum", ["x"], "y", {"axes": [axis]})])
        x = equal((300_001, *shape[1:]), 0.1)  # type: ignore[arg-type]
        assert ulp(made(x), np.asarray(x.astype(np.float64).sum(axis))) <= EQUAL[0.1]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_of_short_floats_round_once(dtype: Any) -> None:
    made = loops(["n", "m"], [("ReduceSum", ["x"], "y", {"axes": [1]})], np.dtype(dtype).name)
    x = equal((3, 5000), 0.1, dtype)
    assert ulp(made(x), x.astype(np.float64).sum(1), dtype) <= 0.51


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_round_once(axis: int) -> None:
    made = loops(["n", "m"], [("CumSum", ["x"], "y", {"axis": axis})])
    x = equal((4800, 7) if axis == 0 else (7, 4800), 0.1)
    assert ulp(made(x), x.astype(np.float64).cumsum(axis)) <= 0.51


@pytest.mark.parametrize("axis", [0, 1])
def test_products_round_once(axis: int) -> None:
    made = loops(["n", "m"], [("ReduceProd", ["x"], "y", {"axes": [axis]})])
    x = equal((5000, 7) if axis == 0 else (7, 5000), 1.001)
    assert ulp(made(x), x.astype(np.float64).prod(axis)) <= 0.51


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_statistics_of_data_with_an_offset(axis: int, offset: float) -> None:
    """The mean is the nearest float or its neighbour, so a variance is off by the square of that at most."""
    made = loops(
        ["n", "m"],
        [
            ("ReduceMean", ["x"], "mean", {"axes": [axis], "keepdims": True}),
            ("Sub", ["x", "mean"], "centre", {}),
            ("Mul", ["centre", "centre"], "square", {}),
            ("ReduceMean", ["square"], "y", {"axes": [axis]}),
        ],
    )
    shape = (8000, 5) if axis == 0 else (5, 8000)
    x = (offset + np.random.default_rng(3).standard_normal(shape)).astype(np.float32)
    exact = x.astype(np.float64).var(axis)
    place = float(np.spacing(np.float32(offset)))
    assert np.all(np.abs(made(x) - exact) <= (0.6 * place) ** 2 + 1e-6 * exact)


def test_sums_of_exponentials_do_as_well() -> None:
    made = loops(
        ["n", "m"],
        [
            ("Exp", ["x"], "e", {}),
            ("ReduceSum", ["e"], "total", {"axes": [1]}),
            ("Ln", ["total"], "y", {}),
        ],
    )
    x = equal((3, 8000), 0.1)
    exact = np.log(np.exp(x.astype(np.float64)).sum(1))
    # The exponential has an error of its own, which the logarithm makes smaller.
    assert ulp(made(x), exact) <= 4
