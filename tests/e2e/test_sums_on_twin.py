"""Running sums on the CPU twin in checked mode, each kernel proved first: axes, flags, dtypes, odd and long sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.targets import load_target
from autofuse.twin.compile import compile_kernel
from autofuse.twin.kernel import TwinKernel

pytestmark = pytest.mark.twin

CHIP = load_target("ascend910b1")
F, H = "float32", "float16"


@pytest.fixture(scope="module", autouse=True)
def _setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with every_template(tmp_path_factory):
        yield


def summed(dtype: str, shape: Sequence[Any], axis: int, **attrs: Any) -> dict[str, Any]:
    symbols = {k: attrs.pop(k) for k in list(attrs) if k not in ("exclusive", "reverse")}
    nodes = [("y", "CumSum", ["x"], {"axis": axis, **attrs})]
    return graph({"x": (dtype, shape)}, nodes, **symbols)


FLAGS = [{"exclusive": e, "reverse": r} for e, r in itertools.product((False, True), (False, True))]
CASES = [
    ((7,), 0),
    ((1, 5), 1),
    ((300,), 0),
    ((37, 253), 1),
    ((37, 253), 0),
    ((3, 40, 13), 1),
    ((2, 5, 16), 1),
    ((40, 1, 9), -1),
    ((5, 17, 3), 0),
]


@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_axes(shape, axis, flags):
    check(summed(F, shape, axis, **flags))


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"), [((70_000,), 0), ((3, 60_000), 1), ((50_000, 3), 0), ((700, 900), 0)]
)
def test_sums_longer_than_a_tile(shape, axis, flags):
    built = check(summed("int32", shape, axis, **flags))
    assert any(i.template == "scan" for i in built.schedule[0].groups[0].impls)


@pytest.mark.parametrize(
    "dtype",
    [
        *("float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
        *("int64", "uint64"),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_of_every_width(dtype, axis):
    check(summed(dtype, (33, 70), axis))
    check(summed(dtype, (5, 1900), axis, exclusive=True, reverse=True), 16000)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("flags", FLAGS[::3], ids=str)
def test_symbolic_sizes(axis, flags):
    sizes = {"a": {"min": 0, "max": 300}, "b": {"min": 0, "max": 3000}, "c": {"min": 1, "max": 70}}
    check(summed(F, ("a", "b", "c"), axis, **flags, **sizes))
    check(summed(H, ("a", 5, "c"), axis, **flags, **sizes))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_infinities_and_nan_go_on_from_where_they_are(axis, flags):
    check(summed(F, (37, 253), axis, **flags), special=True)


@pytest.mark.parametrize("ub", [10_000, 20_000])
@pytest.mark.parametrize(("shape", "axis"), [((300, 500), 0), ((300, 500), 1), ((9, 40, 70), 1)])
def test_little_ub(shape, axis, ub):
    check(summed(F, shape, axis), ub)


def test_what_is_computed_before_and_after():
    check(
        graph(
            {"x": (F, (40, 300)), "b": (F, (300,)), "c": (F, (40, 1))},
            [
                ("e", "Exp", ["x"]),
                ("m", "Mul", ["e", "b"]),
                ("s", "CumSum", ["m"], {"axis": 1}),
                ("y", "Add", ["s", "c"]),
            ],
        )
    )
    check(
        graph(
            {"x": (H, (40, "n")), "b": (H, ("n",)), "c": (H, (40, 1))},
            [
                ("m", "Mul", ["x", "b"]),
                ("s", "CumSum", ["m"], {"axis": 0, "reverse": True}),
                ("y", "Add", ["s", "c"]),
            ],
            n={"min": 1, "max": 9000, "hint": 100},
        )
    )


def test_several_sums_in_one_group():
    built = check(
        graph(
            {"x": (F, (40, 300)), "z": (F, (40, 300))},
            [
                ("a", "CumSum", ["x"], {"axis": 1}),
                ("b", "CumSum", ["z"], {"axis": 1, "exclusive": True}),
                ("m", "Mul", ["a", "b"]),
                ("y", "CumSum", ["m"], {"axis": 1}),
            ],
        )
    )
    assert len(built.schedule[0].groups) == 1


@pytest.mark.parametrize(
    "second", [{"axis": 0}, {"axis": 1, "reverse": True}], ids=["another axis", "another direction"]
)
def test_sums_of_sums(second):
    """A summed-area table, and sums from both ends: two groups."""
    built = check(
        graph(
            {"x": (F, (40, 300))},
            [("a", "CumSum", ["x"], {"axis": 1}), ("y", "CumSum", ["a"], second)],
        )
    )
    assert len(built.schedule[0].groups) == 2


def test_reductions_around_sums():
    check(
        graph(
            {"x": (F, (40, 300))},
            [("a", "Softmax", ["x"], {"axis": 1}), ("y", "CumSum", ["a"], {"axis": 1})],
        )
    )
    check(
        graph(
            {"x": (F, (40, 300))},
            [("a", "CumSum", ["x"], {"axis": 0}), ("y", "ReduceMax", ["a"], {"axes": [1]})],
        )
    )


def test_moves_around_sums():
    """Transpositions, slices and a reshape of what is summed, and of the sums."""
    cut = {"starts": [1, 0], "shape": [250, 40], "steps": [1, 1]}
    check(
        graph(
            {"x": (F, (40, 300))},
            [
                ("t", "Transpose", ["x"], {"perm": [1, 0]}),
                ("s", "Slice", ["t"], cut),
                ("a", "CumSum", ["s"], {"axis": 0}),
                ("y", "Transpose", ["a"], {"perm": [1, 0]}),
            ],
        )
    )
    check(
        graph(
            {"x": (F, (40, 300))},
            [
                ("r", "Reshape", ["x"], {"shape": [20, 600]}),
                ("a", "CumSum", ["r"], {"axis": 1}),
                ("b", "Reshape", ["a"], {"shape": [40, 300]}),
                ("y", "Add", ["b", "x"]),
            ],
        )
    )
    check(
        graph(
            {"x": (F, (40, 300))},
            [
                ("a", "CumSum", ["x"], {"axis": 1}),
                ("y", "Slice", ["a"], {"starts": [0, 299], "shape": [40, 1], "steps": [1, 1]}),
            ],
        )
    )


def test_an_operand_that_does_not_vary():
    check(
        graph(
            {"x": (F, (1, 300))},
            [("b", "Broadcast", ["x"], {"shape": [40, 300]}), ("y", "CumSum", ["b"], {"axis": 0})],
        )
    )
    check(
        graph(
            {"x": (F, (40, 1))},
            [("b", "Broadcast", ["x"], {"shape": [40, 300]}), ("y", "CumSum", ["b"], {"axis": 1})],
        )
    )
    check(
        graph(
            {"x": (F, (1,))},
            [("b", "Broadcast", ["x"], {"shape": [40, 300]}), ("y", "CumSum", ["b"], {"axis": 1})],
        )
    )


def test_in_place():
    check(
        graph(
            {"x": (F, (40, 3000))},
            [("a", "CumSum", ["x"], {"axis": 1}), ("y", "Mul", ["a", {"const": 0.5}])],
            [{"tensor": "y", "inout": "x"}],
        )
    )


def test_the_error_does_not_grow_with_the_length():
    """Of a million terms a running sum in float32 is off by thousands of units; here the steps are few."""
    built = api.build(summed(F, (1_000_000,), 0), target=CHIP)
    x = np.random.default_rng(5).random(1_000_000, dtype=np.float32)
    got = TwinKernel(compile_kernel(built.files, built.name), built.graph)(x)
    want = np.cumsum(x.astype(np.float64))
    plain = np.cumsum(x)
    off, naive = (np.max(np.abs(v - want) / want) for v in (got, plain))
    assert off < naive
    assert off < 40 * 2.0**-24
