"""Transpositions on the CPU twin in checked mode: every template, odd sizes, all widths of elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.targets import load_target

pytestmark = pytest.mark.twin

CHIP = load_target("ascend910b1")
F, H = "float32", "float16"


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def turned(dtype: str, shape: Sequence[Any], perm: Sequence[int], **symbols: Any) -> dict[str, Any]:
    nodes = [("y", "Transpose", ["x"], {"perm": list(perm)})]
    return graph({"x": (dtype, shape)}, nodes, **symbols)


CASES = [
    ((1, 15), (1, 0)),
    ((16, 1), (1, 0)),
    ((17, 33), (1, 0)),
    ((300, 1000), (1, 0)),
    ((1000, 37), (1, 0)),
    ((100, 3, 5), (0, 2, 1)),
    ((5, 17, 33), (2, 1, 0)),
    ((5, 17, 33), (1, 2, 0)),
    ((3, 5, 7, 33), (0, 3, 1, 2)),
    ((2, 16, 15, 17), (0, 2, 3, 1)),
    ((2, 31, 16, 64), (0, 2, 1, 3)),
    ((2, 3, 4, 130), (3, 2, 1, 0)),
]


@pytest.mark.parametrize(("shape", "perm"), CASES)
@pytest.mark.parametrize("dtype", [F, H])
def test_permutations(shape, perm, dtype):
    check(turned(dtype, shape, perm))


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "uint8", "bool", "int16", "int32", "uint32"])
@pytest.mark.parametrize(("shape", "perm"), [((33, 70), (1, 0)), ((2, 5, 3, 40), (0, 3, 1, 2))])
def test_elements_of_every_width(dtype, shape, perm):
    check(turned(dtype, shape, perm))


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 1, 0)])
def test_64_bits_are_copied_one_by_one(perm):
    check(turned("int64", (3, 40, 50), perm))
    check(turned("int64", ("s0", 7, "s1"), perm, s0={"min": 0, "max": 70}, s1={"max": 300}))


def test_both_axes_are_cut_where_neither_fits():
    built = api.build(turned(F, (4096, 4096), (1, 0)), target=CHIP, verify_ir=True)
    chosen = built.schedule[0].groups[0].impls
    assert {i.template for i in chosen} == {"transpose", "general"}
    assert all(i.cut_axes() for i in chosen if i.template == "transpose")


@pytest.mark.parametrize("ub", [20000, 40000])
def test_little_ub(ub):
    check(turned(F, (500, 700), (1, 0)), ub)


@pytest.mark.parametrize("perm", [(1, 0), (0, 2, 1), (0, 3, 1, 2), (3, 1, 0, 2)])
def test_symbolic_sizes(perm):
    names = [f"s{i}" for i in range(len(perm))]
    symbols = {n: {"min": 0, "max": 2000 if len(perm) == 2 else 90} for n in names}
    check(turned(H, names, perm, **symbols))


def test_the_sum_of_tensors_in_three_orders_and_a_bias():
    inputs = {"a": (F, (10, 40, 50)), "b": (F, (50, 10, 40)), "c": (F, (40, 50, 10))}
    nodes = [
        ("b1", "Transpose", ["b"], {"perm": [1, 2, 0]}),
        ("c1", "Transpose", ["c"], {"perm": [2, 0, 1]}),
        ("d", "Add", ["a", "b1"]),
        ("e", "Mul", ["d", "bias"]),
        ("y", "Add", ["e", "c1"]),
    ]
    check(graph({**inputs, "bias": (F, (40, 1))}, nodes))


def test_outputs_in_two_orders():
    nodes = [("e", "Exp", ["x"]), ("y", "Transpose", ["e"], {"perm": [1, 0]})]
    check(graph({"x": (F, (100, 37))}, nodes, ("e", "y")), check_seed=3)


@pytest.mark.parametrize("axes", [[0], [1]])
@pytest.mark.parametrize("shape", [(40, 50), (700, 900), ("s0", "s1")])
def test_a_reduction_of_what_is_stored_in_two_orders(shape, axes):
    inputs = {"x": (F, shape), "z": (F, tuple(reversed(shape)))}
    nodes = [
        ("t", "Transpose", ["x"], {"perm": [1, 0]}),
        ("u", "Add", ["t", "z"]),
        ("y", "ReduceSum", ["u"], {"axes": axes}),
    ]
    symbols = {n: {"min": 0, "max": 900} for n in shape if isinstance(n, str)}
    check(graph(inputs, nodes, **symbols))


@pytest.mark.parametrize("axis", [1, 2])
def test_softmax_of_a_transposed_tensor(axis):
    nodes = [
        ("t", "Transpose", ["x"], {"perm": [0, 2, 1]}),
        ("y", "Softmax", ["t"], {"axis": axis}),
    ]
    check(graph({"x": (H, (4, 40, 50))}, nodes))


@pytest.mark.parametrize("dtype", [F, H, "int8"])
@pytest.mark.parametrize(
    ("shape", "starts", "size", "steps"),
    [
        ((50, 77), (0, 3), (50, 30), (1, 2)),
        ((50, 77), (49, 76), (50, 77), (-1, -1)),
        ((777,), (1,), (250,), (3,)),
        ((777,), (776,), (777,), (-1,)),
        ((40, 6, 33), (39, 0, 32), (20, 6, 33), (-2, 1, -1)),
    ],
)
def test_steps_and_flips(dtype, shape, starts, size, steps):
    attrs = {"starts": list(starts), "shape": list(size), "steps": list(steps)}
    check(graph({"x": (dtype, shape)}, [("y", "Slice", ["x"], attrs)]))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    rank = draw(st.integers(2, 4))
    size = st.sampled_from([1, 2, 3, 7, 15, 16, 17, 33, 64, 129])
    shape = draw(
        st.lists(size, min_size=rank, max_size=rank).filter(lambda s: math.prod(s) <= 40000)
    )
    perm = draw(st.permutations(range(rank)))
    dtype = draw(st.sampled_from([F, H]))
    inputs = {"x": (dtype, shape), "z": (dtype, [shape[k] for k in perm])}
    nodes: list[tuple[Any, ...]] = [
        ("t", "Transpose", ["x"], {"perm": list(perm)}),
        ("u", "Add", ["t", "z"]),
    ]
    last = draw(st.sampled_from(["none", "reduce", "turn"]))
    if last == "reduce":
        nodes.append(("y", "ReduceMax", ["u"], {"axes": [draw(st.integers(0, rank - 1))]}))
    elif last == "turn":
        nodes.append(("y", "Transpose", ["u"], {"perm": list(draw(st.permutations(range(rank))))}))
    return graph(inputs, nodes, ("u",) if last == "none" else ("u", "y"))


@given(documents())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_some_of_everything(document):
    check(document)
