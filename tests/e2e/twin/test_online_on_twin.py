"""Rows beyond UB on the CPU twin: one pass for statistics of which one needs the other, and rows that share buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from row_statistics import (
    COVARIANCE,
    LOG_SOFTMAX,
    LOG_SUM,
    MEAN,
    NORM,
    POWERS,
    POWERS_OF_ROWS,
    SOFTMAX,
    VARIANCE,
    WEIGHTED,
    along,
    special_rows,
    statistics,
)
from twin_graphs import CHIP, check, every_template, graph

from autofuse import api
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def passes(built: api.BuildResult) -> set[int]:
    """How often the loops go through what is reduced, by template."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    loops = [i for i in impls if i.r_axis is not None]
    return {1 + max(n.loop_pass for n in i.nodes) for i in loops}


def run(document: dict[str, Any], x: np.ndarray, ub: int) -> np.ndarray:
    built = api.build(document, target=CHIP.with_ub(ub), verify_ir=True)
    (out,) = api.load(built, check="all", check_seed=1).run({"x": x}).outputs.values()
    return out


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize(
    ("nodes", "count"),
    [(SOFTMAX, 2), (LOG_SOFTMAX, 2), (LOG_SUM, 1), (NORM, 2), (VARIANCE, 1)],
    ids=["softmax", "log softmax", "log sum", "norm", "variance"],
)
@pytest.mark.parametrize("shape", [(5, 700), (3, 2001), (1, 1500)], ids=str)
def test_rows_beyond_ub(shape, nodes, count, seed):
    assert passes(check(statistics(nodes, shape), 6000, check_seed=seed)) == {count}


@pytest.mark.parametrize("axes", [[0], [0, 2], [1, 3], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("nodes", [NORM, LOG_SUM], ids=["norm", "log sum"])
def test_other_axes(axes, nodes):
    """Also where the tiles are of an axis that is kept."""
    check(statistics(along(nodes, axes), (9, 6, 17, 13)), 5000)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("nodes", [SOFTMAX, NORM, LOG_SUM], ids=["softmax", "norm", "log sum"])
def test_narrow_types(nodes, dtype):
    check(statistics(nodes, (5, 999), dtype=dtype), 8000)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_one_after_another_do_not_bias_a_variance(seed):
    """The product of the moves of the mean is small beside a sum of many squares, and not lost in it."""
    n = 1 << 15
    x = np.random.default_rng(seed).uniform(-8, 8, (n, 5)).astype(np.float32)
    built = api.build(statistics(along(VARIANCE, [0]), ("n", 5), n={"max": 1 << 16}))
    kernel = api.load(built)
    tried = 0
    for entry in built.metadata["tilingKeys"]:
        if "_reduce_0_" not in entry["functions"][0] or len(entry["functions"]) > 1:
            continue
        (out,) = kernel.run({"x": x}, key=entry["key"]).outputs.values()
        want = x.astype(np.float64).var(0)
        assert np.max(np.abs(np.abs(out.reshape(5)) / want - 1)) < 200 * 2.0**-24
        tried += 1
    assert tried


def test_products_about_two_means():
    assert passes(check(statistics(COVARIANCE, (5, 999)), 8000)) == {1}


def test_powers_with_other_factors():
    assert passes(check(statistics(WEIGHTED, (5, 999)), 8000)) == {1}


@pytest.mark.parametrize("least", [0.25, -1e30])
def test_a_maximum_that_is_at_least_a_number(least):
    """Rows of nothing but -inf have a sum of 0 then."""
    nodes = [POWERS[0], ("c", "Maximum", ["m", least]), ("d", "Sub", ["x", "c"]), *POWERS[2:]]
    x = special_rows(1200)
    document = statistics([*nodes, ("y", "Add", ["s", "c"])], x.shape)
    assert passes(check(document, 6000)) == {1}
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        top = np.maximum(wide.max(1, keepdims=True), np.float32(least))
        want = np.exp(wide - top).sum(1, keepdims=True) + top
    np.testing.assert_allclose(run(document, x, 6000), want, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("nodes", [SOFTMAX, LOG_SUM, NORM], ids=["softmax", "log sum", "norm"])
def test_sizes_that_are_known_at_run_time(nodes):
    ranges = {"s0": {"min": 0, "max": 4096}, "s1": {"min": 0, "max": 1 << 20}}
    document = statistics(nodes, ("s0", "s1"), **ranges)
    sizes = [(3, 5), (0, 4), (4, 0), (2, 9000), (2, 13001), (2, 20000), (1, 60001)]
    built = api.build(document, verify_ir=True)
    bindings = [{"s0": a, "s1": b} for a, b in sizes]
    report = verify_kernel(built.files, built.graph, bindings=bindings)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    keys = {k["key"]: k["functions"] for k in built.metadata["tilingKeys"]}
    ran = {f for c in report.cases if c.status == "passed" for f in keys[c.key]}
    first = built.schedule[0].groups[0].impls
    assert {i.name for i in first} <= ran
    assert {i.suffix for i in first if i.template == "reduce_all"} == {"", "tight"}


@pytest.mark.parametrize("columns", [12000, 12001, 20000, 21001])
@pytest.mark.parametrize("nodes", [SOFTMAX, NORM], ids=["softmax", "norm"])
def test_rows_that_share_buffers(columns, nodes):
    built = check(statistics(nodes, (50, columns)), check_seed=2)
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    shared = [i for i in impls if any(n.over is not None for n in i.nodes)]
    assert {i.template for i in shared} == {"reduce_all"}


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_a_mean_of_what_is_padded(value):
    """Constants beside differences from a maximum; an earlier version took the first piece for the maximum."""
    nodes = [
        ("m", "ReduceMax", ["x"], {"axes": [3], "keepdims": True}),
        ("d", "Sub", ["x", "m"]),
        ("i", "ArgMax", ["x"], {"axis": 1}),
        ("p", "Pad", ["d"], {"low": [0, 1, 1, 0], "high": [0, 2, 0, 0], "value": value}),
        ("y", "ReduceMean", ["p"], {"axes": [1], "keepdims": True}),
    ]
    check(graph({"x": ("float32", [64, 64, 1, 64])}, nodes, outputs=["y", "i"]))


@pytest.mark.parametrize("op", ["Exp", "Square"])
def test_sums_about_the_maxima_of_other_rows(op):
    nodes = [
        ("m", "ReduceMax", ["x"], {"axes": [2], "keepdims": True}),
        ("t", "Transpose", ["m"], {"perm": [1, 0, 2]}),
        ("d", "Sub", ["x", "t"]),
        ("e", op, ["d"]),
        ("y", "ReduceSum", ["e"], {"axes": [2], "keepdims": True}),
    ]
    check(graph({"x": ("float32", [2, 2, 200_000])}, nodes))


# values ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("nodes", "reference"), POWERS_OF_ROWS.values(), ids=POWERS_OF_ROWS)
def test_infinities_and_nan_as_in_numpy(
    nodes: Sequence[tuple[Any, ...]], reference: Callable[[np.ndarray], np.ndarray]
):
    x = special_rows(1200)
    out = run(statistics(nodes, x.shape), x, 6000)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    np.testing.assert_allclose(out, want, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_the_error_of_a_variance_does_not_grow_with_the_row(shift):
    """Numbers that rise along the row are the worst that can happen to a running mean."""
    for n in (2000, 8000, 32000):
        steps = np.linspace(-1, 1, n, dtype=np.float64)
        x = (np.stack([steps, np.sin(9 * steps), np.sign(steps)]) + shift).astype(np.float32)
        out = run(statistics(MEAN, x.shape, ["v"]), x, 6000)
        want = x.astype(np.float64).var(1, keepdims=True)
        # A mean that is rounded is off by 2**-24 of the shift, and so is the variance, of its square root.
        assert np.max(np.abs(out - want) / want) < 2.0**-20 + shift * 2.0**-22


def test_the_error_of_a_sum_of_powers_does_not_grow_with_the_row():
    """The maximum moves in every tile."""
    for n in (2000, 8000, 32000):
        x = np.stack([np.linspace(0, 3, n), np.linspace(0, 60, n)]).astype(np.float32)
        out = run(statistics(POWERS, x.shape, ["s"]), x, 6000)
        wide = x.astype(np.float64)
        want = np.exp(wide - wide.max(1, keepdims=True)).sum(1, keepdims=True)
        assert np.max(np.abs(out - want) / want) < 2.0**-19
