"""Gathers on the CPU twin in checked mode, each kernel proved first: axes, dtypes, odd sizes, what is fused around."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.lowering import lowering
from autofuse.machines.twin.oracle.data import indexing_inputs, random_inputs
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.targets import load_target

pytestmark = [pytest.mark.sampled(6), pytest.mark.twin]

CHIP = load_target("ascend910b1")
F, H, I32, I64 = "float32", "float16", "int32", "int64"


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def picked(
    dtype: str,
    shape: Sequence[Any],
    index: Sequence[Any],
    axis: int,
    kind: str = I32,
    after: str = "",
    **symbols: Any,
) -> dict[str, Any]:
    nodes: list[tuple[Any, ...]] = [("g", "Gather", ["x", "i"], {"axis": axis})]
    nodes += [("y", after, ["g"])] if after else []
    return graph({"x": (dtype, shape), "i": (kind, index)}, nodes, nodes[-1][:1], **symbols)


CASES = [
    ((7,), (5,), 0),
    ((7,), (), 0),
    ((1, 9), (3,), 0),
    ((30, 8), (17,), 0),
    ((30, 100), (3, 5), 0),
    ((3, 30, 13), (7,), 1),
    ((3, 30, 16), (), 1),
    ((5, 300), (4, 41), 1),
    ((5, 40, 70), (9,), 2),
    ((2, 3, 5, 7), (2, 2, 3), 2),
    ((10, 3000), (70,), 0),
    ((3000,), (2500,), 0),
]


@pytest.mark.parametrize(("shape", "index", "axis"), CASES)
@pytest.mark.parametrize(("kind", "after"), [(I32, ""), (I64, "Exp")])
def test_axes(shape, index, axis, kind, after):
    check(picked(F, shape, index, axis, kind, after))


WIDTHS = ["float16", "bfloat16", "int8", "uint8", "bool", "int16", "uint16", "int32", "uint32"]


@pytest.mark.parametrize("dtype", [*WIDTHS, "int64", "uint64"])
@pytest.mark.parametrize(("shape", "axis"), [((33, 17), 0), ((9, 33), 1), ((4, 21, 3), 1)])
def test_elements_of_every_width(dtype, shape, axis):
    check(picked(dtype, shape, (13,), axis))
    after = "LogicalNot" if dtype == "bool" else "Square"
    check(picked(dtype, shape, (13,), axis, after=after))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("after", ["", "Neg"])
def test_symbolic_sizes(axis, after):
    sizes = {"a": {"min": 1, "max": 300}, "b": {"min": 1, "max": 70}, "n": {"min": 0, "max": 400}}
    check(picked(H, ("a", "b", 5), ("n",), axis, I64, after, **sizes))


def test_a_row_that_does_not_fit_ub():
    check(picked(F, (3, 100_000), (5,), 0, after="Exp"))


@pytest.mark.parametrize("ub", [4096, 20000])
def test_little_ub(ub):
    check(picked(F, (40, 500), (70,), 0, after="Exp"), ub)


def test_embeddings():
    """Rows of a table, scaled, with the embedding of the position added."""
    tokens = {"min": 1, "max": 5000, "hint": 300}
    check(
        graph(
            {"table": (H, (1000, 96)), "ids": (I64, (4, "tokens")), "at": (H, ("tokens", 96))},
            [
                ("rows", "Gather", ["table", "ids"], {"axis": 0}),
                ("scaled", "Mul", ["rows", {"const": 9.8}]),
                ("y", "Add", ["scaled", "at"]),
            ],
            tokens=tokens,
        )
    )


def test_a_computed_table_goes_through_a_workspace():
    built = check(
        graph(
            {"x": (F, (37, 53)), "i": (I32, (3, 7))},
            [("e", "Exp", ["x"]), ("g", "Gather", ["e", "i"], {"axis": 1}), ("y", "Neg", ["g"])],
        )
    )
    assert len(built.schedule[0].groups) == 2


def test_a_computed_index():
    """The index is a vector result: the scalar unit waits for it."""
    check(
        graph(
            {"x": (F, (40, 50)), "s": (F, (40, 7))},
            [
                ("k", "ArgMax", ["s"], {"axis": 1, "dtype": "int32"}),
                ("g", "Gather", ["x", "k"], {"axis": 0}),
                ("y", "Exp", ["g"]),
            ],
        )
    )
    check(
        graph(
            {"x": (F, (40, 50)), "i": (I32, (30,))},
            [
                ("m", "Mod", ["i", {"const": 40}]),
                ("g", "Gather", ["x", "m"], {"axis": 0}),
                ("y", "Exp", ["g"]),
            ],
        )
    )


def whole(value: int, kind: str = I64) -> dict[str, Any]:
    return {"const": value, "dtype": kind}


ONE_NUMBER: dict[str, list[tuple[Any, ...]]] = {
    "a number": [("i", "Broadcast", [whole(3)], {"shape": [2, 7]})],
    "of 32 bits": [("i", "Broadcast", [whole(3, I32)], {"shape": [7]})],
    "from the end": [("i", "Broadcast", [whole(-1)], {"shape": [7]})],
    "a high number": [("i", "Broadcast", [whole(20)], {"shape": [7]})],
    "a sum": [("a", "Broadcast", [whole(3)], {"shape": [7]}), ("i", "Add", ["a", whole(2)])],
    "a cast": [
        ("a", "Broadcast", [3.0], {"shape": [7]}),
        ("i", "Cast", ["a"], {"dtype": I64}),
    ],
    "one place of a range": [
        ("i", "Iota", [], {"shape": [1], "axis": 0, "dtype": I64, "start": 5, "step": 2})
    ],
    "a range of one, spread": [
        ("a", "Iota", [], {"shape": [1], "axis": 0, "dtype": I64, "start": 5, "step": 2}),
        ("i", "Broadcast", ["a"], {"shape": [6]}),
    ],
}


@pytest.mark.parametrize("name", ONE_NUMBER)
@pytest.mark.parametrize("symbolic", [False, True])
def test_an_index_that_is_one_number_everywhere(name, symbolic):
    """Token types that are 0 throughout, the position of a single token."""
    least = 21 if name == "a high number" else 6
    sizes = {"s": {"min": least, "max": 100}} if symbolic else {}
    rows = "s" if symbolic else 31
    nodes = [*ONE_NUMBER[name], ("g", "Gather", ["x", "i"], {"axis": 0}), ("y", "Exp", ["g"])]
    check(graph({"x": (F, (rows, 16))}, nodes, **sizes))


def test_one_number_for_all_reads_one_row() -> None:
    nodes = [
        ("i", "Broadcast", [whole(0)], {"shape": [50, 7]}),
        ("g", "Gather", ["x", "i"], {"axis": 0}),
        ("y", "Add", ["g", "z"]),
    ]
    built = check(graph({"x": (F, (2, 16)), "z": (F, (50, 7, 16))}, nodes))
    kernel = next(text for name, text in built.files.items() if name.endswith("_kernel.cpp"))
    assert "IndexIn" not in kernel


def test_a_gather_of_a_gather():
    check(
        graph(
            {"x": (F, (40, 50)), "i": (I32, (30,)), "j": (I32, (20,))},
            [
                ("k", "Gather", ["i", "j"], {"axis": 0}),
                ("g", "Gather", ["x", "k"], {"axis": 0}),
                ("y", "Exp", ["g"]),
            ],
        )
    )


def test_two_gathers_by_one_index():
    check(
        graph(
            {"x": (F, (40, 20)), "z": (F, (50, 20)), "i": (I32, (30,))},
            [
                ("a", "Gather", ["x", "i"], {"axis": 0}),
                ("b", "Gather", ["z", "i"], {"axis": 0}),
                ("y", "Mul", ["a", "b"]),
            ],
        )
    )


def test_reductions_of_what_is_gathered():
    """Bags: the sum of the rows that an index names, and a norm over each row."""
    check(
        graph(
            {"x": (F, (40, 70)), "i": (I32, (9, 6))},
            [
                ("g", "Gather", ["x", "i"], {"axis": 0}),
                ("y", "ReduceSum", ["g"], {"axes": [1]}),
            ],
        )
    )
    check(
        graph(
            {"x": (F, (40, "n")), "i": (I32, (9,))},
            [("g", "Gather", ["x", "i"], {"axis": 0}), ("y", "Softmax", ["g"], {"axis": 1})],
            n={"min": 1, "max": 30000, "hint": 300},
        )
    )


def test_moves_around_a_gather():
    """Slices and transpositions of the result, and of the index."""
    cut = {"starts": [2, 1], "shape": [9, 40], "steps": [2, -1]}
    cut["starts"] = [2, 45]
    check(
        graph(
            {"x": (F, (40, 50)), "i": (I32, (3, 30))},
            [
                ("p", "Transpose", ["i"], {"perm": [1, 0]}),
                ("r", "Reshape", ["p"], {"shape": [90]}),
                ("g", "Gather", ["x", "r"], {"axis": 0}),
                ("s", "Slice", ["g"], cut),
                ("t", "Transpose", ["s"], {"perm": [1, 0]}),
                ("y", "Exp", ["t"]),
            ],
        )
    )


def test_the_index_is_an_output_as_well():
    check(
        graph(
            {"x": (F, (40, 50)), "i": (I32, (30,))},
            [
                ("m", "Abs", ["i"]),
                ("k", "Minimum", ["m", {"const": 39}]),
                ("g", "Gather", ["x", "k"], {"axis": 0}),
                ("y", "Exp", ["g"]),
            ],
            ["y", "k", "g"],
        )
    )


def test_an_overwritten_table():
    """The rows are read before the table is overwritten."""
    check(
        graph(
            {"x": (F, (40, 50)), "i": (I32, (40,))},
            [("g", "Gather", ["x", "i"], {"axis": 0}), ("y", "Mul", ["g", "x"])],
            [{"tensor": "y", "inout": "x"}],
        )
    )


def test_a_strided_table():
    document = picked(F, (20, 30), (11,), 0, after="Exp")
    document["inputs"][0] |= {"strides": [64, 1], "offset": 3}
    check(document)
    document = picked(F, (20, 30, 4), (11,), 1)
    document["inputs"][0] |= {"strides": [640, 16, 1]}
    check(document)


# indices --------------------------------------------------------------------------------------


def test_random_indices_reach_both_ends():
    built = api.build(picked(F, (11, 3), (400,), 0), target=CHIP)
    assert {k: str(e) for k, e in indexing_inputs(built.graph).items()} == {"i": "11"}
    found = random_inputs(built.graph, {}, 3)["i"]
    assert sorted(set(found.tolist())) == list(range(-11, 11))


@pytest.mark.parametrize("bad", [11, -12, 1 << 30, -(1 << 31)])
@pytest.mark.parametrize("at", [0, 399])
def test_an_index_outside_is_a_finding_and_reads_nothing_else(bad, at):
    built = api.build(picked(F, (11, 3), (400,), 0), target=CHIP)
    inputs = random_inputs(built.graph, {}, 3)
    inputs["i"][at] = bad
    safe = TwinKernel(compile_kernel(built.files, built.name), built.graph)
    want = inputs["x"][np.clip(np.where(inputs["i"] < 0, inputs["i"] + 11, inputs["i"]), 0, 10)]
    got = safe(**inputs)
    assert np.array_equal(got, want)
    library = compile_kernel(built.files, built.name, checked=True)
    with pytest.raises(AutofuseError, match=rf"i\[{at}\] is {bad}, and x has 11 places"):
        TwinKernel(library, built.graph, check="all")(**inputs)


# elements -------------------------------------------------------------------------------------


def elements(
    dtype: str, shape: Sequence[Any], index: Sequence[Any], axis: int, **symbols: Any
) -> dict[str, Any]:
    nodes = [("y", "GatherElements", ["x", "i"], {"axis": axis})]
    return graph({"x": (dtype, shape), "i": (I32, index)}, nodes, **symbols)


@pytest.mark.parametrize(
    ("shape", "index", "axis"),
    [
        ((9,), (20,), 0),
        ((9, 5), (3, 4), 0),
        ((9, 5), (9, 11), 1),
        ((3, 1, 6), (3, 7, 5), 1),
        ((4, 70, 33), (4, 70, 1), -1),
    ],
)
@pytest.mark.parametrize("dtype", [F, "uint8", I64])
def test_elements_along_an_axis(dtype, shape, index, axis):
    check(elements(dtype, shape, index, axis))


def test_elements_of_symbolic_sizes():
    sizes = {"a": {"min": 1, "max": 90}, "b": {"min": 1, "max": 70}, "n": {"min": 0, "max": 100}}
    check(elements(F, ("a", "b"), ("n", "b"), 0, **sizes))
    # More elements than 32 bits count: the place is computed in 64 bits.
    sizes["b"] = {"min": 1, "max": 1 << 28, "hint": 60}
    check(elements(F, ("a", "b"), ("a", "n"), 1, **sizes))


def test_an_element_outside_is_a_finding():
    built = api.build(elements(F, (9, 5), (9, 5), 1), target=CHIP)
    inputs = random_inputs(built.graph, {}, 3)
    inputs["i"][0, 0] = 5  # the first element of the next row, were it not looked at
    library = compile_kernel(built.files, built.name, checked=True)
    with pytest.raises(AutofuseError, match=r"i\[0\]\[0\] is 5, and . has 5 places"):
        TwinKernel(library, built.graph, check="all")(**inputs)


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 5, 7, 11), 1), ((40, 33), 1), ((6, 9), 0)], ids=str
)
def test_the_logarithm_of_one_class(shape, axis, seed, monkeypatch):
    """As a cross-entropy takes it: by comparing places, in the group of the reductions."""
    monkeypatch.setattr(
        lowering, "decompose", functools.partial(lowering.decompose, compare_places=True)
    )
    index = [1 if d == axis else n for d, n in enumerate(shape)]
    nodes = [
        ("l", "LogSoftmax", ["x"], {"axis": axis}),
        ("g", "GatherElements", ["l", "i"], {"axis": axis}),
        ("y", "Neg", ["g"]),
    ]
    built = check(graph({"x": (F, shape), "i": (I64, index)}, nodes), check_seed=seed)
    assert len(built.schedule[0].groups) == 1
