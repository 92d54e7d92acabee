"""Reductions on the CPU twin in checked mode: every template, sizes that leave tails, rows larger than UB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from twin_graphs import every_template, graph

from autofuse import api
from autofuse.machines.twin.verify.verify import VerifyReport, verify_kernel
from autofuse.targets import load_target

pytestmark = pytest.mark.twin

CHIP = load_target("ascend910b1")
F = "float32"


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def check(document: dict[str, Any], ub: int | None = None, **options: Any) -> VerifyReport:
    target = CHIP if ub is None else CHIP.with_ub(ub)
    built = api.build(document, target=target, verify_ir=True)
    report = verify_kernel(built.files, built.graph, **options)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    return report


SHAPES = [
    ((100, 50), [1]),
    ((50, 100), [0]),
    ((6, 50, 13), [1]),
    ((6, 50, 13), [0, 2]),
    ((5, 6, 7, 9), [1, 3]),
    ((5, 6, 7, 9), [0, 2]),
    ((1009,), [0]),
    ((3, 1, 17), [1, 2]),
]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize(
    ("op", "d"), [("Sum", F), ("Max", "float16"), ("Min", "int32"), ("Sum", "float16")]
)
def test_one_reduction(shape, axes, op, d):
    nodes = [
        ("e", "Add", ["x", 2]),
        ("s", f"Reduce{op}", ["e"], {"axes": axes}),
        ("y", "Add", ["s", 1]),
    ]
    check(graph({"x": (d, shape)}, nodes))


@pytest.mark.parametrize("rows", [48, 3])
def test_padding_behind_a_column_is_not_summed(rows):
    """A column that is broadcast has its rows at 32 bytes, and so has what is computed with it."""
    nodes = [("m", "Mul", ["x", "c"]), ("y", "ReduceSum", ["m"], {"axes": [1, 2]})]
    check(graph({"x": (F, (rows, 338, 16)), "c": (F, (rows, 338, 1))}, nodes), check_seed=2)


@pytest.mark.parametrize("ub", [None, 6000])
@pytest.mark.parametrize(("shape", "axis"), [((40, 77), 1), ((40, 77), 0), ((5, 40, 33), 1)])
def test_softmax(shape, axis, ub):
    check(graph({"x": (F, shape)}, [("y", "Softmax", ["x"], {"axis": axis})]), ub, check_seed=3)


def test_layer_norm_with_weights():
    axes = {"axes": [1], "keepdims": True}
    nodes = [
        ("c", "Cast", ["x"], {"dtype": F}),
        ("m", "ReduceMean", ["c"], axes),
        ("d", "Sub", ["c", "m"]),
        ("q", "Mul", ["d", "d"]),
        ("v", "ReduceMean", ["q"], axes),
        ("a", "Add", ["v", 1e-5]),
        ("r", "Rsqrt", ["a"]),
        ("n", "Mul", ["d", "r"]),
        ("g", "Mul", ["n", "w"]),
        ("o", "Add", ["g", "b"]),
        ("y", "Cast", ["o"], {"dtype": "float16"}),
    ]
    inputs = {"x": ("float16", (37, 65)), "w": (F, (65,)), "b": (F, (65,))}
    check(graph(inputs, nodes, ["y", "v"]))


def test_sizes_that_are_known_at_run_time():
    document = graph(
        {"x": (F, ("s0", "s1", "s2"))},
        [("s", "ReduceSum", ["x"], {"axes": [1]}), ("y", "Exp", ["s"])],
        **{f"s{i}": {"min": 0, "max": 4096} for i in range(3)},
    )
    sizes = [(3, 5, 7), (1, 1, 1), (4, 0, 9), (2, 40, 129), (0, 3, 3), (1, 700, 64), (17, 2, 33)]
    report = check(document, bindings=[{f"s{i}": v for i, v in enumerate(s)} for s in sizes])
    assert {c.key for c in report.cases if c.status == "passed"} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("op", ["Sum", "Prod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_nothing_to_reduce_gives_the_neutral_value(op, axis):
    document = graph(
        {"x": (F, ("s0", "s1"))},
        [("y", f"Reduce{op}", ["x"], {"axes": [axis]})],
        s0={"min": 0, "max": 99},
        s1={"min": 0, "max": 99},
    )
    check(document, bindings=[{"s0": 0, "s1": 7}, {"s0": 7, "s1": 0}, {"s0": 3, "s1": 4}])


def test_mean_over_a_size_that_is_known_at_run_time():
    document = graph(
        {"x": (F, ("s0", "s1"))},
        [("m", "ReduceMean", ["x"], {"axes": [1], "keepdims": True}), ("y", "Sub", ["x", "m"])],
        s0={"max": 99},
        s1={"max": 99},
    )
    check(document, bindings=[{"s0": 3, "s1": 4}, {"s0": 1, "s1": 99}])


@pytest.mark.parametrize("shape", [(3, 70000), (9000, 40)])
def test_rows_and_columns_that_do_not_fit(shape):
    axis = int(shape[0] < shape[1])
    check(graph({"x": (F, shape)}, [("y", "Softmax", ["x"], {"axis": axis})]))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_index_of_the_largest(op, axis):
    check(graph({"x": (F, (40, 33))}, [("y", op, ["x"], {"axis": axis, "dtype": "int32"})]))


@pytest.mark.parametrize("d", [F, "int32", "int16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_along_an_axis(d, axis):
    iota = {"shape": [40, 33], "axis": axis, "dtype": d, "start": 5, "step": -2}
    nodes = [("i", "Iota", [], iota), ("y", "Maximum", ["x", "i"])]
    check(graph({"x": (d, (40, 33))}, nodes))


def test_softmax_in_place():
    outputs = [{"name": "y", "tensor": "s", "inout": "x"}]
    nodes = [("s", "Softmax", ["x"], {"axis": 1})]
    check(graph({"x": (F, (40, 133))}, nodes, outputs), check_seed=5)


def test_reductions_of_one_tensor_along_different_axes():
    nodes = [
        ("a", "ReduceSum", ["x"], {"axes": [1]}),
        ("b", "ReduceMax", ["x"], {"axes": [0]}),
        ("c", "Exp", ["x"]),
    ]
    check(graph({"x": (F, (40, 33))}, nodes, ["a", "b", "c"]))


def test_a_reduction_of_a_reduction_goes_through_a_workspace():
    nodes = [
        ("a", "ReduceSum", ["x"], {"axes": [1]}),
        ("m", "ReduceMax", ["a"], {"axes": [0]}),
        ("y", "Sub", ["a", "m"]),
    ]
    document = graph({"x": (F, ("s0", "s1"))}, nodes, ["y", "m"], s0={"max": 999}, s1={"max": 999})
    built = api.build(document, verify_ir=True)
    assert built.metadata["workspace"]["bytes"] != 0
    report = verify_kernel(built.files, built.graph, bindings=[{"s0": 300, "s1": 7}])
    assert report.ok, "\n".join(map(str, report.diagnostics))


def test_many_cores_take_part_in_a_large_reduction_to_one_element():
    """All have a part, or two each where half of them read as fast as GM gives."""
    document = graph({"x": (F, (700, 1024))}, [("y", "ReduceSum", ["x"], {"axes": [0, 1]})])
    built = api.build(document, verify_ir=True)
    report = verify_kernel(built.files, built.graph)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    assert max(c.block_dim for c in report.cases) >= CHIP.aiv_cores // 2


def test_pieces_of_an_output():
    inputs = {"x": (F, ("s0", 33)), "z": (F, ("s0", 7))}
    nodes = [("e", "Exp", ["x"]), ("y", "Concat", ["e", "z"], {"axis": 1})]
    check(graph(inputs, nodes, s0={"max": 99}))


def test_sums_of_equal_numbers_that_cores_share():
    """What is summed is made once, for a whole tile; the last tile is shorter."""
    nodes = [
        ("t", "CumSum", ["x"], {"axis": 0, "exclusive": True}),
        ("y", "CumSum", ["t"], {"axis": 1, "exclusive": True, "reverse": True}),
    ]
    document = graph({"x": ("float16", (1, "s0", 16))}, nodes, s0={"min": 0, "max": 1 << 22})
    check(document, bindings=[{"s0": s} for s in (6007, 65, 17)])
