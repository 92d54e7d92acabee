"""Rows beyond UB on the CPU twin: one pass for statistics of which one needs the other, and rows that share buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from autofuse import api
from autofuse.schedule import scheduler
from autofuse.targets import load_target
from autofuse.twin.verify import verify_kernel

pytestmark = pytest.mark.twin

CHIP = load_target("ascend910b1")
F = "float32"
ROWS = {"axes": [1], "keepdims": True}
#: Nodes: (result, op, operands, attributes).
MEAN: list[tuple[Any, ...]] = [
    ("m", "ReduceMean", ["x"], ROWS),
    ("d", "Sub", ["x", "m"]),
    ("q", "Mul", ["d", "d"]),
    ("v", "ReduceMean", ["q"], ROWS),
]
NORM = [*MEAN, ("a", "Add", ["v", 1e-5]), ("r", "Rsqrt", ["a"]), ("y", "Mul", ["d", "r"])]
POWERS: list[tuple[Any, ...]] = [
    ("m", "ReduceMax", ["x"], ROWS),
    ("d", "Sub", ["x", "m"]),
    ("e", "Exp", ["d"]),
    ("s", "ReduceSum", ["e"], ROWS),
]
LOG_SUM = [*POWERS, ("l", "Ln", ["s"]), ("y", "Add", ["l", "m"])]
SOFTMAX: list[tuple[Any, ...]] = [("y", "Softmax", ["x"], {"axis": 1})]
LOG_SOFTMAX: list[tuple[Any, ...]] = [("y", "LogSoftmax", ["x"], {"axis": 1})]


@pytest.fixture(scope="module", autouse=True)
def _setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as m:
        m.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        # Templates that the model of their cycles would drop have to be right as well.
        m.setattr(scheduler, "MAX_STATIC", 8)
        m.setattr(scheduler, "MAX_SYMBOLIC", 8)
        yield


def graph(
    nodes: Sequence[tuple[Any, ...]],
    shape: Sequence[Any],
    outputs: Sequence[str] = ("y",),
    dtype: str = F,
    **symbols: Any,
) -> dict[str, Any]:
    used = sorted({x for _, _, xs, *_ in nodes for x in xs if x in ("x", "z")})
    return {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": symbols,
        "inputs": [{"name": n, "dtype": dtype, "shape": list(shape)} for n in used],
        "nodes": [
            {
                "name": f"n{i}",
                "op": op,
                "inputs": [x if isinstance(x, str) else {"const": x} for x in xs],
                "outputs": [y],
                "attrs": attrs[0] if attrs else {},
            }
            for i, (y, op, xs, *attrs) in enumerate(nodes)
        ],
        "outputs": list(outputs),
    }


def passes(built: api.BuildResult) -> set[int]:
    """How often the loops go through what is reduced, by template."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    loops = [i for i in impls if i.r_axis is not None]
    return {1 + max(n.loop_pass for n in i.nodes) for i in loops}


def check(document: dict[str, Any], ub: int | None = None, **options: Any) -> api.BuildResult:
    target = CHIP if ub is None else CHIP.with_ub(ub)
    built = api.build(document, target=target, verify_ir=True)
    report = verify_kernel(built.files, built.graph, **options)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    return built


def run(document: dict[str, Any], x: np.ndarray, ub: int) -> np.ndarray:
    built = api.build(document, target=CHIP.with_ub(ub), verify_ir=True)
    (out,) = api.load(built, check="all", check_seed=1).run({"x": x}).outputs.values()
    return out


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize(
    ("nodes", "count"),
    [(SOFTMAX, 2), (LOG_SOFTMAX, 2), (LOG_SUM, 1), (NORM, 2), ([*MEAN, ("y", "Neg", ["v"])], 1)],
    ids=["softmax", "log softmax", "log sum", "norm", "variance"],
)
@pytest.mark.parametrize("shape", [(5, 700), (3, 2001), (1, 1500)], ids=str)
def test_rows_beyond_ub(shape, nodes, count, seed):
    assert passes(check(graph(nodes, shape), 6000, check_seed=seed)) == {count}


@pytest.mark.parametrize("axes", [[0], [0, 2], [1, 3], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize("nodes", [NORM, LOG_SUM], ids=["norm", "log sum"])
def test_other_axes(axes, nodes):
    """Also where the tiles are of an axis that is kept."""
    attrs = {"axes": axes, "keepdims": True}
    own = [(*n[:3], attrs) if n[1].startswith("Reduce") else n for n in nodes]
    check(graph(own, (9, 6, 17, 13)), 5000)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("nodes", [SOFTMAX, NORM, LOG_SUM], ids=["softmax", "norm", "log sum"])
def test_narrow_types(nodes, dtype):
    check(graph(nodes, (5, 999), dtype=dtype), 8000)


def test_products_about_two_means():
    nodes = [
        ("m", "ReduceMean", ["x"], ROWS),
        ("n", "ReduceMean", ["z"], ROWS),
        ("d", "Sub", ["x", "m"]),
        ("f", "Sub", ["z", "n"]),
        ("q", "Mul", ["d", "f"]),
        ("y", "ReduceMean", ["q"], ROWS),
    ]
    assert passes(check(graph(nodes, (5, 999)), 8000)) == {1}


def test_powers_with_other_factors():
    nodes = [
        *POWERS[:2],
        ("k", "Mul", ["d", 0.125]),
        ("e", "Exp", ["k"]),
        ("w", "Mul", ["e", "z"]),
        ("y", "ReduceSum", ["w"], ROWS),
    ]
    assert passes(check(graph(nodes, (5, 999)), 8000)) == {1}


@pytest.mark.parametrize("nodes", [SOFTMAX, LOG_SUM, NORM], ids=["softmax", "log sum", "norm"])
def test_sizes_that_are_known_at_run_time(nodes):
    ranges = {"s0": {"min": 0, "max": 4096}, "s1": {"min": 0, "max": 1 << 20}}
    document = graph(nodes, ("s0", "s1"), **ranges)
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


@pytest.mark.parametrize("columns", [12000, 12001, 20000, 22001])
@pytest.mark.parametrize("nodes", [SOFTMAX, NORM], ids=["softmax", "norm"])
def test_rows_that_share_buffers(columns, nodes):
    built = check(graph(nodes, (50, columns)), check_seed=2)
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    shared = [i for i in impls if any(n.attrs.get("over") for n in i.nodes)]
    assert {i.template for i in shared} == {"reduce_all"}


# values ---------------------------------------------------------------------------------------
def log_sum(x: np.ndarray) -> np.ndarray:
    top = x.max(1, keepdims=True)
    return np.log(np.exp(x - top).sum(1, keepdims=True)) + top


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def special_rows(n: int) -> np.ndarray:
    """Rows with infinities and NaN in every third of them, and with nothing else."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(14, n)).astype(np.float32)
    x[0] = -np.inf
    x[1, : n // 2] = -np.inf
    x[2, n // 2 :] = -np.inf
    x[3, 5], x[4, n // 2], x[5, -1] = np.inf, np.inf, np.inf
    x[6, 0], x[7, n // 2], x[8, -1] = np.nan, np.nan, np.nan
    x[9], x[9, 3] = -np.inf, np.inf
    x[10] = np.finfo(np.float32).min
    x[11, ::2] = -3e38
    x[12] = np.linspace(-1000, 1000, n)
    x[13] = np.linspace(1000, -1000, n)
    return x


@pytest.mark.parametrize(
    ("nodes", "reference"), [(SOFTMAX, softmax), (LOG_SUM, log_sum)], ids=["softmax", "log sum"]
)
def test_infinities_and_nan_as_in_numpy(
    nodes: Sequence[tuple[Any, ...]], reference: Callable[[np.ndarray], np.ndarray]
):
    x = special_rows(1200)
    out = run(graph(nodes, x.shape), x, 6000)
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
    np.testing.assert_allclose(out, want, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_the_error_of_a_variance_does_not_grow_with_the_row(shift):
    """Numbers that rise along the row are the worst that can happen to a running mean."""
    for n in (2000, 8000, 32000):
        steps = np.linspace(-1, 1, n, dtype=np.float64)
        x = (np.stack([steps, np.sin(9 * steps), np.sign(steps)]) + shift).astype(np.float32)
        out = run(graph(MEAN, x.shape, ["v"]), x, 6000)
        want = x.astype(np.float64).var(1, keepdims=True)
        # A mean that is rounded is off by 2**-24 of the shift, and so is the variance, of its square root.
        assert np.max(np.abs(out - want) / want) < 2.0**-20 + shift * 2.0**-22


def test_the_error_of_a_sum_of_powers_does_not_grow_with_the_row():
    """The maximum moves in every tile."""
    for n in (2000, 8000, 32000):
        x = np.stack([np.linspace(0, 3, n), np.linspace(0, 60, n)]).astype(np.float32)
        out = run(graph(POWERS, x.shape, ["s"]), x, 6000)
        wide = x.astype(np.float64)
        want = np.exp(wide - wide.max(1, keepdims=True)).sum(1, keepdims=True)
        assert np.max(np.abs(out - want) / want) < 2.0**-19
