"""Reductions of much to little on the CPU twin: the cores share what is reduced, for sizes known and unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

from autofuse import api
from autofuse.codegen.verification import verify_schedule
from autofuse.targets import load_target, target_names

pytestmark = [pytest.mark.sampled(8), pytest.mark.twin]

F = "float32"


def graph(
    op: str, shape: Sequence[int | str], axes: Sequence[int], dtype: str = F, least: int = 0
) -> dict[str, Any]:
    names = sorted({s for s in shape if isinstance(s, str)})
    attrs: dict[str, Any] = {"axes": list(axes)}
    if op.startswith("Arg"):
        attrs = {"axis": axes[0], "dtype": "int32"}
    return {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": {n: {"min": least, "max": 1 << 22} for n in names},
        "inputs": [{"name": "x", "dtype": dtype, "shape": list(shape)}],
        "nodes": [{"name": "r", "op": op, "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }


def built_of(document: Mapping[str, Any]) -> api.BuildResult:
    """The kernel; all of it proved, and with a form in two phases."""
    built = api.build(document, verify_ir=True)
    assert verify_schedule(built.graph, built.schedule, built.target) == []
    last = built.schedule[-1]
    assert len(last.groups) >= 2
    assert any(g.sync_before for g in last.groups)
    # Of the forms of known sizes the scheduler takes one.
    assert (len(built.schedule) >= 2) == bool(built.graph.symbols)
    return built


def check(
    document: Mapping[str, Any], sizes: Sequence[dict[str, int]] = ({},), seed: int = 1
) -> api.BuildResult:
    """In checked mode, instructions in a hostile order: every key whose conditions hold, every size."""
    built = built_of(document)
    report = api.verify(built, shapes=sizes, check_seed=seed)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    first = len(_keys_of(built, 0)) if built.graph.symbols else 0
    assert any(c.key >= first and c.status == "passed" and c.block_dim > 1 for c in report.cases)
    return built


def _keys_of(built: api.BuildResult, result: int) -> set[int]:
    names = {i.name for g in built.schedule[result].groups for i in g.impls}
    return {k["key"] for k in built.metadata["tilingKeys"] if k["functions"][0] in names}


# lengths known: prime, with a rest, several axes
@pytest.mark.parametrize(
    ("op", "shape", "axes", "dtype"),
    [
        ("ReduceSum", (131_071,), [0], F),
        ("ReduceSum", (262_147,), [0], "float16"),
        ("ReduceMean", (4099, 129), [0], "bfloat16"),
        ("ReduceMax", (2, 500_009), [1], "float16"),
        ("ReduceMin", (9973, 5, 11), [0, 2], "int32"),
        ("ReduceProd", (1009, 331), [0, 1], F),
        ("ReduceAny", (524_287,), [0], "bool"),
        ("ReduceAll", (60_013, 9), [0], "bool"),
        ("ArgMax", (131_071,), [0], F),
        ("ArgMin", (10_007, 37), [0], "float16"),
    ],
)
def test_known_lengths(op: str, shape: Sequence[int], axes: Sequence[int], dtype: str) -> None:
    check(graph(op, shape, axes, dtype))


@pytest.mark.parametrize("dtype", [F, "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("ReduceSum", (9001, 7, 3, 3)),
        ("ReduceMax", (2051, 31, 7, 7)),
        ("ReduceMin", (620, 16, 13, 13)),
    ],
)
def test_outer_dimensions_are_reduced_first(op: str, shape: Sequence[int], dtype: str) -> None:
    """Those on both sides of what is kept, with rows that are no whole cache lines."""
    built = check(graph(op, shape, (0, 2, 3), dtype))
    assert "_outer" in built.files["device/k_kernel.cpp"]


@pytest.mark.parametrize("dtype", [F, "float16", "int32"])
@pytest.mark.parametrize(
    ("op", "shape", "axes", "sizes"),
    [
        ("ReduceSum", ["n", 7, 3, 3], (0, 2, 3), ({"n": 0}, {"n": 1}, {"n": 333})),
        ("ReduceMax", [64, "n", 49], (0, 2), ({"n": 0}, {"n": 1}, {"n": 97})),
        ("ReduceMin", ["n", 5, "m"], (0, 2), ({"n": 40, "m": 31}, {"n": 1, "m": 64})),
    ],
)
def test_outer_dimensions_are_reduced_first_for_sizes_unknown(
    op: str, shape: Sequence[int | str], axes: Sequence[int], sizes: Any, dtype: str
) -> None:
    least = 0 if op == "ReduceSum" else 1
    document = graph(op, shape, axes, dtype, least)
    built = check(document, [s for s in sizes if min(s.values()) >= least])
    kernel = built.files["device/k_kernel.cpp"]
    assert "_outer" in kernel
    assert "_inner" in kernel


#: Nothing, one element, as many as there are parts, one less and more, long.
LENGTHS = [{"n": n} for n in (0, 1, 47, 48, 49, 97, 70_001)]


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *(("ReduceSum", d) for d in (F, "float16", "bfloat16", "int32")),
        *(("ReduceMax", F), ("ReduceMin", "int16"), ("ReduceProd", F), ("ReduceMean", "float16")),
        *(("ReduceAny", "bool"), ("ReduceAll", "bool"), ("ArgMax", F), ("ArgMin", "int32")),
    ],
)
def test_any_length(op: str, dtype: str) -> None:
    some = op in ("ReduceMean", "ArgMax", "ArgMin")  # of nothing these have no value
    check(graph(op, ["n"], [0], dtype, least=int(some)), LENGTHS[some:])


@pytest.mark.parametrize(
    ("shape", "axes", "sizes"),
    [
        (["n", 5], [0], [{"n": 0}, {"n": 1}, {"n": 53}, {"n": 20_011}]),
        (["n", 300], [0], [{"n": 0}, {"n": 17}, {"n": 1021}]),
        (["n", "m"], [0], [{"n": 0, "m": 3}, {"n": 9, "m": 0}, {"n": 301, "m": 257}]),
        ([3, "n"], [1], [{"n": 0}, {"n": 1}, {"n": 30_013}]),
        (["n", 7, "m"], [0, 2], [{"n": 0, "m": 1}, {"n": 1, "m": 997}, {"n": 499, "m": 5}]),
        (["n", "m"], [0, 1], [{"n": 0, "m": 9}, {"n": 97, "m": 89}, {"n": 1, "m": 1}]),
    ],
)
def test_any_length_of_several_axes(
    shape: Sequence[int | str], axes: Sequence[int], sizes: Sequence[dict[str, int]]
) -> None:
    check(graph("ReduceSum", shape, axes), sizes, seed=2)


def test_what_is_around_the_reduction() -> None:
    """Computed before and after it; the data go through a reduction, and into an output of their own."""
    document = graph("ReduceSum", ["n", 3], [0])
    document["nodes"] = [
        {"name": "a", "op": "Exp", "inputs": ["x"], "outputs": ["e"], "attrs": {}},
        {"name": "s", "op": "ReduceSum", "inputs": ["e"], "outputs": ["t"], "attrs": {"axes": [0]}},
        {"name": "l", "op": "Ln", "inputs": ["t"], "outputs": ["y"], "attrs": {}},
        {"name": "d", "op": "Div", "inputs": ["e", "t"], "outputs": ["z"], "attrs": {}},
    ]
    document["outputs"] = ["y", "z"]
    document["symbols"]["n"]["min"] = 1
    check(document, [{"n": 1}, {"n": 61}, {"n": 10_007}])


# statistics of which one needs the other --------------------------------------------------------

STATISTICS = {
    "softmax": SOFTMAX,
    "log softmax": LOG_SOFTMAX,
    "log sum": LOG_SUM,
    "weighted": WEIGHTED,
    "norm": NORM,
    "variance": VARIANCE,
    "covariance": COVARIANCE,
}
#: Those whose results have the shape of the data, which are read once more for them.
STORED = ("softmax", "log softmax", "norm")


def phases(built: api.BuildResult) -> list[int]:
    """How often every template of the divided form goes through the first input, group by group, at most."""
    return [
        max(sum(n.op == "Load" and n.inputs[0] == "Data_0" for n in i.nodes) for i in g.impls)
        for g in built.schedule[-1].groups
    ]


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("dtype", [F, "float16", "bfloat16"])
def test_statistics_of_any_length(name: str, dtype: str) -> None:
    document = statistics(STATISTICS[name], (3, "n"), dtype=dtype, n={"min": 0, "max": 1 << 22})
    check(document, LENGTHS, seed=3)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("shape", [(1, 262_147), (2, 131_071), (5, 200_003), (3, 48 * 4096)])
def test_statistics_of_known_lengths(name: str, shape: Sequence[int]) -> None:
    """Parts and their rest, each read once; and once more where the results are as many as the data."""
    built = check(statistics(STATISTICS[name], shape), seed=4)
    rest = shape[1] % 48 != 0
    assert sum(phases(built)) == 1 + rest + (name in STORED)


@pytest.mark.parametrize(
    ("shape", "axes", "sizes"),
    [
        (("n", 5), [0], [{"n": 0}, {"n": 1}, {"n": 53}, {"n": 20_011}]),
        (("n", "m"), [0], [{"n": 0, "m": 3}, {"n": 9, "m": 0}, {"n": 301, "m": 257}]),
        (("n", 7, "m"), [0, 2], [{"n": 0, "m": 1}, {"n": 1, "m": 997}, {"n": 499, "m": 5}]),
        (("n", "m"), [0, 1], [{"n": 0, "m": 9}, {"n": 97, "m": 89}, {"n": 1, "m": 1}]),
        ((1009, 331), [0, 1], [{}]),
        ((9973, 5, 11), [0, 2], [{}]),
    ],
)
@pytest.mark.parametrize("name", ["log sum", "norm"])
def test_statistics_of_several_axes(
    name: str, shape: Sequence[int | str], axes: Sequence[int], sizes: Sequence[dict[str, int]]
) -> None:
    ranges = {s: {"min": 0, "max": 1 << 16} for s in shape if isinstance(s, str)}
    check(statistics(along(STATISTICS[name], axes), shape, **ranges), sizes, seed=5)


@pytest.mark.parametrize(("nodes", "reference"), POWERS_OF_ROWS.values(), ids=POWERS_OF_ROWS)
def test_infinities_and_nan_as_in_numpy(nodes: Sequence[tuple[Any, ...]], reference: Any) -> None:
    """A part that is nothing but -inf, and whole rows of it; what is not a number comes through."""
    x = special_rows(100_003)
    built = built_of(statistics(nodes, x[:2].shape))
    kernel = api.load(built, check="all", check_seed=1)
    for k in range(0, len(x), 2):
        (out,) = kernel.run({"x": x[k : k + 2].copy()}).outputs.values()
        with np.errstate(all="ignore"):
            want = reference(x[k : k + 2].astype(np.float64))
        np.testing.assert_allclose(out, want, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_the_error_of_statistics_does_not_grow_with_the_length(shift: float) -> None:
    """Numbers that rise along the row: every part has another mean, and another maximum."""
    for n in (1 << 17, (1 << 19) + 7):
        steps = np.linspace(-1, 1, n, dtype=np.float64)
        x = (np.stack([steps, np.sin(9 * steps)]) + shift).astype(np.float32)
        wide = x.astype(np.float64)
        got = api.load(built_of(statistics(MEAN, x.shape, ["v"]))).run({"x": x}).outputs["v"]
        want = wide.var(1, keepdims=True)
        assert np.max(np.abs(got - want) / want) < 2.0**-20 + shift * 2.0**-22
        got = api.load(built_of(statistics(POWERS, x.shape, ["s"]))).run({"x": x}).outputs["s"]
        want = np.exp(wide - wide.max(1, keepdims=True)).sum(1, keepdims=True)
        assert np.max(np.abs(got - want) / want) < 2.0**-20


def test_the_same_statistics_are_the_same_bits() -> None:
    built = built_of(statistics(SOFTMAX, (2, 131_071)))
    x = np.random.default_rng(8).normal(size=(2, 131_071)).astype(np.float32)
    want = api.load(built).run({"x": x}).outputs["y"].tobytes()
    for seed in (0, 1, 2):
        hostile = api.load(built, check="all", check_seed=seed)
        assert hostile.run({"x": x}).outputs["y"].tobytes() == want


# what the host takes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axes", "few", "many"),
    [
        (["n", 480, 14, 14], [0, 2, 3], (0, 1), (33,)),  # the outer dimension first
        (["n"], [0], (0, 1, 47, 1000), (200_000, 1_000_003)),
        (["n", 64], [0], (0, 1, 100), (8192, 20_001)),
        ([2, "n"], [1], (0, 3, 999), (300_007,)),
    ],
)
def test_the_host_divides_what_is_large(
    shape: Sequence[int | str], axes: Sequence[int], few: Sequence[int], many: Sequence[int]
) -> None:
    built = built_of(graph("ReduceSum", shape, axes))
    kernel = api.load(built)
    divided = _keys_of(built, 1)
    rng = np.random.default_rng(5)
    for n in (*few, *many):
        x = rng.uniform(0.5, 2, [n if s == "n" else s for s in shape]).astype(np.float32)
        ran = kernel.run({"x": x})
        assert (ran.key in divided) == (n in many), n
        want = x.sum(axis=tuple(axes), dtype=np.float64)
        assert np.allclose(ran.outputs["y"], want, rtol=1e-6)


def test_the_same_call_gives_the_same_bits() -> None:
    built = built_of(graph("ReduceSum", ["n"], [0]))
    x = np.random.default_rng(6).normal(size=131_071).astype(np.float32)
    kernel = api.load(built)
    want = kernel.run({"x": x}).outputs["y"].tobytes()
    assert kernel.run({"x": x}).outputs["y"].tobytes() == want
    for seed in (0, 1, 2, 3):
        hostile = api.load(built, check="all", check_seed=seed)
        assert hostile.run({"x": x}).outputs["y"].tobytes() == want


def test_the_error_does_not_grow_with_the_length() -> None:
    """A plain loop over 2^22 elements is off by some 1e-4."""
    kernel = api.load(built_of(graph("ReduceSum", ["n"], [0])))
    rng = np.random.default_rng(7)
    for n in (1 << 14, (1 << 18) + 3, 1 << 22):
        x = rng.uniform(0.5, 2, n).astype(np.float32)
        want = x.sum(dtype=np.float64)
        assert abs(float(kernel.run({"x": x}).outputs["y"]) / want - 1) < 3e-7


@pytest.mark.parametrize(
    "target", [t for t in target_names() if load_target(t).arch.has_datacopypad]
)
def test_every_chip_has_its_own_number_of_parts(target: str) -> None:
    document = graph("ReduceSum", [1 << 20], [0])
    built = api.build(document, target=target, verify_ir=True)
    assert api.build(document, target=target).files == built.files
    report = api.verify(built)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    cores = built.target.aiv_cores
    shared = built.schedule[0].groups[1]
    assert all(cores in {a.size.as_int() for a in i.axes} for i in shared.impls)
    # Each core has one part or two: some suffice to read as fast as GM gives.
    assert max(c.block_dim for c in report.cases) >= cores // 2
