"""Running sums on the CPU twin in checked mode, each kernel proved first: axes, flags, dtypes, odd and long sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from twin_graphs import check, every_template, graph

from autofuse import api
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.targets import load_target

pytestmark = [pytest.mark.sampled(8), pytest.mark.twin]

CHIP = load_target("ascend910b1")
F, H = "float32", "float16"


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
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
    ("shape", "axis"), [((70_000,), 0), ((3, 60_000), 1), ((12_000, 3), 0), ((700, 900), 0)]
)
def test_sums_longer_than_a_tile(shape, axis, flags):
    built = check(summed("int32", shape, axis, **flags))
    assert any(i.template == "scan" for g in built.schedule[0].groups for i in g.impls)


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


# parts of a row on several cores ---------------------------------------------------------------


def divided(built: api.BuildResult) -> list[int]:
    """How often each group of the divided form reads the input."""
    last = built.schedule[-1]
    assert len(last.groups) > 1
    assert sum(g.sync_before for g in last.groups) == 2
    return [
        max(sum(n.op == "Load" and n.inputs[0] == "Data_0" for n in i.nodes) for i in g.impls)
        for g in last.groups
    ]


@pytest.mark.parametrize("flags", FLAGS[1:3], ids=str)
@pytest.mark.parametrize(
    ("dtype", "shape", "axis"),
    [
        (F, (262_147,), 0),
        (H, (3, 100_003), 1),
        ("int32", (30_011, 5), 0),
        (F, (2, 60_013, 3), 1),
        (F, (48 * 4096,), 0),
    ],
)
def test_cores_share_a_long_row(dtype, shape, axis, flags):
    """Its parts are read twice; what is left behind them is read once, or twice where it comes first."""
    built = check(summed(dtype, shape, axis, **flags), check_seed=1)
    rest = shape[axis] % built.target.aiv_cores != 0
    assert sum(divided(built)) == 2 + rest * (1 + flags["reverse"])


#: Nothing, one element, as many as there are parts, one less and more, long.
LENGTHS = [{"n": n} for n in (0, 1, 2, 47, 48, 49, 97, 4999, 70_001)]


@pytest.mark.parametrize("flags", FLAGS[::3], ids=str)
@pytest.mark.parametrize(
    ("dtype", "shape", "axis"),
    [(F, ("n",), 0), ("bfloat16", (2, "n"), 1), ("int32", ("n", 5), 0)],
)
def test_rows_of_any_length(dtype, shape, axis, flags):
    ranges = {"n": {"min": 0, "max": 1 << 22}}
    built = check(summed(dtype, shape, axis, **flags, **ranges), bindings=LENGTHS, check_seed=2)
    assert len(built.schedule) == 2
    divided(built)


def test_the_host_divides_long_rows():
    built = api.build(summed(F, ("n",), 0, n={"min": 0, "max": 1 << 22}), target=CHIP)
    names = {i.name for g in built.schedule[1].groups for i in g.impls}
    keys = {k["key"] for k in built.metadata["tilingKeys"] if k["functions"][0] in names}
    kernel = api.load(built)
    rng = np.random.default_rng(9)
    for n, many in ((1, False), (1000, False), (300_001, True), (1 << 20, True)):
        x = rng.integers(-9, 9, n).astype(np.float32)
        ran = kernel.run({"x": x})
        assert (ran.key in keys) == many, n
        assert np.array_equal(ran.outputs["y"], np.cumsum(x))


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_infinities_and_nan_go_on_into_later_parts(flags):
    check(summed(F, (2, 150_001), 1, **flags), special=True)


def test_what_is_around_a_long_row():
    built = check(
        graph(
            {"x": (F, (200_003,)), "z": (F, (200_003,))},
            [
                ("e", "Abs", ["x"]),
                ("s", "CumSum", ["e"], {"axis": 0}),
                ("y", "Mul", ["s", "z"]),
                ("t", "ReduceMax", ["y"], {"axes": [0]}),
            ],
            ["y", "t"],
        )
    )
    assert len(built.schedule[-1].groups) > 3


@pytest.mark.parametrize(("size", "shared"), [(200_003, False), (48 * 4096, True)])
def test_a_long_row_in_place(size, shared):
    """One group overwrites all of it: cores share it where nothing is left behind the parts."""
    built = check(
        graph(
            {"x": (F, (size,))},
            [("a", "CumSum", ["x"], {"axis": 0}), ("y", "Mul", ["a", 0.5])],
            [{"tensor": "y", "inout": "x"}],
        )
    )
    assert (len(built.schedule[-1].groups) > 1) == shared


def test_the_same_call_gives_the_same_bits():
    built = api.build(summed(F, (262_147,), 0), target=CHIP)
    x = np.random.default_rng(6).normal(size=262_147).astype(np.float32)
    want = api.load(built).run({"x": x}).outputs["y"].tobytes()
    for seed in (0, 1, 2):
        hostile = api.load(built, check="all", check_seed=seed)
        assert hostile.run({"x": x}).outputs["y"].tobytes() == want


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


def whole_rows(built: api.BuildResult) -> set[str]:
    """The templates that hold whole sums in a tile."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    return {i.suffix for i in impls if i.template == "scan_all"}


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("dtype", [F, H, "int32"])
def test_many_rows_in_a_tile_and_few(dtype, flags):
    """Each for itself, with last tiles of fewer rows, and with fewer rows than either wants."""
    ranges = {s: {"min": 0, "max": 4096} for s in ("s0", "s1")}
    rows = (0, 1, 15, 16, 17, 31, 33, 100)
    sizes = [
        {"s0": m, "s1": n} for m, n in zip(rows, (5, 700, 3, 1, 16, 101, 2000, 0), strict=True)
    ]
    built = check(summed(dtype, ("s0", "s1"), 1, **flags, **ranges), bindings=sizes, check_seed=2)
    assert whole_rows(built) == {"", "few"}


def test_several_rows_in_a_step_of_the_tile():
    """Five rows for every index of the tiled axis: three steps are few, four are many."""
    inputs = {"x": (F, (23, 5, 130)), "b": (F, (5, 1))}
    nodes = [("p", "Mul", ["x", "b"]), ("y", "CumSum", ["p"], {"axis": 2})]
    assert whole_rows(check(graph(inputs, nodes), check_seed=1)) == {"", "few"}
