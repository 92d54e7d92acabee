"""Integers that the chip has no calls for, on the CPU twin: whole ranges, reductions, transpositions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from twin_graphs import graph

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = [pytest.mark.sampled(6), pytest.mark.twin]

LONGS = ("int64", "uint64")
N = 1000


def check(document: dict[str, Any], **options: Any) -> None:
    built = api.build(document, verify_ir=True)
    report = verify_kernel(built.files, built.graph, **options)
    assert report.ok, "\n".join(map(str, report.diagnostics))


def any_bits(dtype: str, seed: int) -> np.ndarray:
    """Numbers of every length in bits, and the ends of the range."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 64, N, dtype=np.uint64, endpoint=False)
    bits >>= rng.integers(0, 64, N).astype(np.uint64)
    x = bits.view(dtype)
    if dtype == "int64":
        x = np.where(rng.random(N) < 0.5, x, -x)
    ends = np.iinfo(dtype)
    x[:8] = [0, 1, 2, ends.max, ends.max - 1, ends.min, ends.min + 1, 1 << 32]
    return rng.permutation(x)


def run(document: dict[str, Any], **arrays: np.ndarray) -> dict[str, np.ndarray]:
    built = api.build(document, verify_ir=True)
    path = compile_kernel(built.files, "k", checked=True)
    return TwinKernel(path, built.graph, check="all").run(arrays).outputs


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


#: Exact results, of Python's integers; a divisor of 0 gives 0.
DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "FloorDiv": lambda a, b: a // b if b else 0,
    "Remainder": lambda a, b: a % b if b else 0,
    "TruncDiv": lambda a, b: truncated(a, b) if b else 0,
    "Fmod": lambda a, b: a - truncated(a, b) * b if b else 0,
}


@pytest.mark.parametrize("dtype", LONGS)
def test_quotients_over_the_whole_range(dtype: str) -> None:
    shape = {"a": (dtype, [N]), "b": (dtype, [N])}
    document = graph(
        shape, [(f"y_{op}", op, "ab", {}) for op in DIVISIONS], [f"y_{op}" for op in DIVISIONS]
    )
    a, b = any_bits(dtype, 1), any_bits(dtype, 2)
    # Quotients of numbers that are as long as each other, and of such with no remainder.
    b[-300:] = np.where(a[-300:] == 0, b[-300:], a[-300:] // np.arange(1, 301).astype(dtype))
    got = run(document, a=a, b=b)
    for op, exact in DIVISIONS.items():
        want = [exact(int(x), int(y)) % (1 << 64) for x, y in zip(a, b, strict=True)]
        np.testing.assert_array_equal(got[f"y_{op}"].view(np.uint64), np.array(want, np.uint64))


DIVISORS = {
    "int64": [
        0,
        1,
        -1,
        2,
        -8,
        3,
        -86400,
        1000003,
        2**30,
        -(2**30) - 1,
        2**31 - 1,
        2**32,
        2**62,
        6**20,
        -(10**18),
        2**63 - 1,
    ],
    "uint64": [0, 1, 2, 3, 2**32 - 1, 2**32 + 1, 10**19, 2**63, 2**64 - 1],
}


@pytest.mark.parametrize("dtype", LONGS)
def test_quotients_by_a_number_over_the_whole_range(dtype: str) -> None:
    """7, the largest by size, and two others at each run."""
    largest = 2**64 - 1 if dtype == "uint64" else -(2**63)
    divisors = [7, largest, *random.sample(DIVISORS[dtype], 2)]
    print(divisors)  # noqa: T201 - for a failure
    a = any_bits(dtype, 11)
    for b in divisors:
        constant = {"const": b, "dtype": dtype}
        nodes = [(f"y_{op}", op, ["a", constant], {}) for op in DIVISIONS]
        got = run(graph({"a": (dtype, [N])}, nodes, [f"y_{op}" for op in DIVISIONS]), a=a)
        for op, exact in DIVISIONS.items():
            want = np.array([exact(int(x), b) % (1 << 64) for x in a], np.uint64)
            np.testing.assert_array_equal(got[f"y_{op}"].view(np.uint64), want, err_msg=str(b))


@pytest.mark.parametrize("dtype", LONGS)
def test_shifts_and_powers_wrap(dtype: str) -> None:
    powers = (0, 1, 2, 3, 10, 63) if dtype == "uint64" else (0, 2, 7, 64, -1, -2)
    steps = (0, 1, 31, 32, 33, 63, 64, 70)
    nodes: list[tuple[Any, ...]] = [
        ("left", "LShift", "an", {}),
        ("right", "RShift", "an", {}),
    ]
    nodes += [(f"p{i}", "Pow", ["a", {"const": e}], {}) for i, e in enumerate(powers)]
    nodes += [(f"l{n}", "LShift", ["a", {"const": n}], {}) for n in steps]
    nodes += [(f"r{n}", "RShift", ["a", {"const": n}], {}) for n in steps]
    document = graph({"a": (dtype, [N]), "n": (dtype, [N])}, nodes, [n[0] for n in nodes])
    a = any_bits(dtype, 3)
    a[:3] = np.array([1, -1, 0]).astype(dtype)
    n = np.random.default_rng(4).integers(0, 80, N).astype(dtype)
    got = run(document, a=a, n=n)
    exact = {
        "left": [int(x) << int(k) for x, k in zip(a, n, strict=True)],
        "right": [int(x) >> int(k) for x, k in zip(a, n, strict=True)],
    }
    for i, e in enumerate(powers):
        exact[f"p{i}"] = [
            int(x) ** e if e >= 0 else {1: 1, -1: 1 - 2 * (e % 2)}.get(int(x), 0) for x in a
        ]
    for k in steps:
        exact[f"l{k}"] = [int(x) << k for x in a]
        exact[f"r{k}"] = [int(x) >> k for x in a]
    for name, want in exact.items():
        wrapped = np.array([w % (1 << 64) for w in want], np.uint64)
        np.testing.assert_array_equal(got[name].view(np.uint64), wrapped, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", LONGS)
def test_powers_whose_exponents_are_data_wrap(dtype: str) -> None:
    document = graph({"a": (dtype, [N]), "n": (dtype, [N])}, [("y", "Pow", "an", {})], ["y"])
    a, n = any_bits(dtype, 8), any_bits(dtype, 9)
    n[:400] = np.random.default_rng(10).integers(0, 200, 400)
    a[:6] = a[400:406] = np.array([1, -1, 0, 2, 3, -3]).astype(dtype)
    want = [
        pow(int(x), int(e), 1 << 64) if e >= 0 else {1: 1, -1: 1 - 2 * (int(e) % 2)}.get(int(x), 0)
        for x, e in zip(a, n, strict=True)
    ]
    got = run(document, a=a, n=n)["y"].view(np.uint64)
    np.testing.assert_array_equal(got, np.array([w % (1 << 64) for w in want], np.uint64))


def test_conversions_of_uint64_round_once() -> None:
    document = graph(
        {"a": ("uint64", [N]), "f": ("float32", [N])},
        [
            ("to", "Cast", ["a"], {"dtype": "float32"}),
            ("back", "Cast", ["f"], {"dtype": "uint64"}),
            ("half", "TrueDiv", ["a", "a"], {}),
        ],
        ["to", "back", "half"],
    )
    a = any_bits("uint64", 5)
    ties = (np.uint64(1) << np.arange(24, 64, dtype=np.uint64)) + np.uint64(1)
    a[: len(ties)] = ties + (np.uint64(1) << np.arange(0, 40, dtype=np.uint64))
    f = np.abs(any_bits("int64", 6).astype(np.float32))
    f[:3] = [1.8446743e19, 9.223372e18, 9.223373e18]
    got = run(document, a=a, f=f)
    np.testing.assert_array_equal(got["to"], a.astype(np.float32))
    np.testing.assert_array_equal(got["back"], f.astype(np.uint64))


PAIRS_OF_A_WIDTH = (
    *(("float32", "int32"), ("int32", "float32"), ("uint32", "int32"), ("bfloat16", "uint16")),
    *(("uint16", "float16"), ("float16", "bfloat16"), ("int8", "uint8"), ("int64", "uint64")),
)


def test_bits_are_read_as_another_type() -> None:
    inputs = {f"x{i}": (a, [N]) for i, (a, _) in enumerate(PAIRS_OF_A_WIDTH)}
    nodes = [
        (f"y{i}", "BitCast", [f"x{i}"], {"dtype": b}) for i, (_, b) in enumerate(PAIRS_OF_A_WIDTH)
    ]
    nodes.append(("truth", "BitCast", ["c"], {"dtype": "uint8"}))
    inputs["c"] = ("bool", [N])
    check(graph(inputs, nodes, [n[0] for n in nodes]), special=True)


@pytest.mark.parametrize(("have", "to"), [("float32", "int16"), ("uint8", "bool")])
def test_bits_of_another_width_are_refused(have: str, to: str) -> None:
    nodes = [("y", "BitCast", ["x"], {"dtype": to})]
    with pytest.raises(AutofuseError, match="AF1203"):
        api.build(graph({"x": (have, [N])}, nodes, ["y"]))


# reductions -----------------------------------------------------------------------------------
REDUCED = ("int8", "uint8", "uint16", "uint32", "int64", "uint64")


@pytest.mark.parametrize("dtype", REDUCED)
@pytest.mark.parametrize(
    ("shape", "axes"), [((20, 70), (1,)), ((37, 19), (0,)), ((3, 5, 33), (0, 2))]
)
def test_reductions_of_every_integer(dtype, shape, axes) -> None:
    ops = ("ReduceSum", "ReduceMax", "ReduceMin")
    nodes = [(op, op, ["x"], {"axes": list(axes), "keepdims": True}) for op in ops]
    check(graph({"x": (dtype, shape)}, nodes, ops), special=True)


@pytest.mark.parametrize("dtype", REDUCED)
def test_products_wrap(dtype: str) -> None:
    check(graph({"x": (dtype, (4, 9, 33))}, [("y", "ReduceProd", ["x"], {"axes": [1]})], ["y"]))


@pytest.mark.parametrize("dtype", ["int64", "uint32"])
def test_reductions_of_run_time_sizes(dtype: str) -> None:
    nodes = [(op, op, ["x"], {"axes": [0]}) for op in ("ReduceSum", "ReduceMin")]
    nodes.append(("index", "ArgMax", ["x"], {"axis": 1}))
    symbols = {"s0": {"min": 0, "max": 300}, "s1": {"min": 1, "max": 100}}
    outputs = [n[0] for n in nodes]
    check(graph({"x": (dtype, ("s0", "s1"))}, nodes, outputs, **symbols), special=True)


def test_place_of_the_largest_of_nothing_is_refused() -> None:
    nodes = [("y", "ArgMax", ["x"], {"axis": 0, "dtype": "int32"})]
    document = graph({"x": ("float32", ("s-3", 5))}, nodes, ["y"], s={"min": 3, "max": 90})
    with pytest.raises(AutofuseError, match=r"dimension of .*, which must not be 0"):
        run(document, x=np.zeros((0, 5), np.float32))
    x = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    np.testing.assert_array_equal(run(document, x=x)["y"], np.argmax(x, 0))
    check(document)


def test_sums_of_words_carry_and_are_computed_with() -> None:
    n = 70000  # more than 2^16, so the digits are shorter than 16 bits
    nodes = [
        ("total", "ReduceSum", ["x"], {"axes": [0]}),
        ("less", "Sub", ["total", {"const": 5}], {}),
    ]
    x = np.full(n, (1 << 64) - 1, np.uint64)
    x[::3] = 0xFFFFFFFF
    got = run(graph({"x": ("uint64", [n])}, nodes, ["total", "less"]), x=x)
    want = sum(map(int, x)) % (1 << 64)
    assert int(got["total"]) == want
    assert int(got["less"]) == (want - 5) % (1 << 64)


def test_sums_too_long_and_products_too_many_are_refused() -> None:
    x = {"x": ("int64", ("n",))}
    with pytest.raises(AutofuseError, match="smaller max"):
        api.build(graph(x, [("y", "ReduceSum", ["x"], {})], ["y"], n={"max": 1 << 30}))
    for size in ("n", 65):
        document = graph(
            {"x": ("int64", (size,))}, [("y", "ReduceProd", ["x"], {})], ["y"], n={"max": 9}
        )
        with pytest.raises(AutofuseError, match="at most 64"):
            api.build(document)


# transpositions -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "perm"), [((33, 70), (1, 0)), ((5, 17, 40), (0, 2, 1)), ((2, 31, 3, 9), (3, 1, 0, 2))]
)
@pytest.mark.parametrize("dtype", LONGS)
def test_64_bits_are_transposed_with_what_is_computed(dtype, shape, perm) -> None:
    turned = [shape[p] for p in perm]
    inputs = {"x": (dtype, shape), "z": (dtype, turned)}
    nodes = [
        ("t", "Transpose", ["x"], {"perm": list(perm)}),
        ("y", "Add", ["t", "z"], {}),
        ("c", "Greater", ["t", "z"], {}),
    ]
    check(graph(inputs, nodes, ["y", "c", "t"]))


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),  # a kernel per example: shrinking takes minutes
)
@given(st.data())
def test_64_bits_of_run_time_sizes_are_transposed(data: st.DataObject) -> None:
    rank = data.draw(st.integers(2, 4))
    shape = [data.draw(st.sampled_from(["s0", "s1", 1, 3, 8, 17])) for _ in range(rank)]
    perm = data.draw(st.permutations(range(rank)))
    nodes = [
        ("t", "Transpose", ["x"], {"perm": list(perm)}),
        ("m", "Mul", ["t", {"const": 3}], {}),
        ("y", "ReduceMax", ["m"], {"axes": [data.draw(st.integers(0, rank - 1))]}),
    ]
    used = {s: {"min": 1, "max": 60} for s in shape if isinstance(s, str)}
    check(graph({"x": ("int64", shape)}, nodes, ["m", "y"], **used), count=3)


@pytest.mark.parametrize("step", [2, 5, -1])
def test_slices_with_steps_of_64_bits(step: int) -> None:
    start = 0 if step > 0 else 39
    attrs = {
        "starts": [0, start],
        "shape": [7, (40 + abs(step) - 1) // abs(step)],
        "steps": [1, step],
    }
    nodes = [("s", "Slice", ["x"], attrs), ("y", "Neg", ["s"], {})]
    check(graph({"x": ("int64", (7, 40))}, nodes, ["y"]))
