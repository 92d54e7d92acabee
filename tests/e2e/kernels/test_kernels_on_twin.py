"""Kernels on the CPU twin: shapes, operands and limits that scheduling and code generation treat specially."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.machines.twin.verify.verify import VerifyReport, verify_kernel
from autofuse.targets import TargetSpec, load_target

pytestmark = pytest.mark.twin

CHIP = load_target("ascend910b1")


def check(document: dict[str, Any], target: TargetSpec = CHIP, **options: Any) -> VerifyReport:
    built = api.build(document, target=target, verify_ir=True)
    report = verify_kernel(built.files, built.graph, **options)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    return report


F = "float32"


@pytest.mark.parametrize("d", ["float32", "float16", "int32"])
@pytest.mark.parametrize("c", [3, 8, 17, 64, 129])
def test_broadcast_of_every_axis(d, c):
    shapes = [(1, 5, c), (4, 1, c), (4, 5, 1), (1, 1, c), (1, 5, 1), (4, 1, 1), (c,), (5, 1)]
    inputs = {f"b{i}": (d, s) for i, s in enumerate(shapes)}
    nodes, last = [], "x"
    for i in range(len(shapes)):
        nodes.append((f"t{i}", "Add" if i % 2 else "Maximum", [last, f"b{i}"]))
        last = f"t{i}"
    check(graph({"x": (d, (4, 5, c)), **inputs}, nodes, [last]))


@pytest.mark.parametrize("ub", [3_000, 20_000, CHIP.ub_usable])
def test_rows_of_three_elements_of_mixed_types(ub):
    inputs = {
        "x": ("float32", (500, 3)),
        "h": ("float16", (500, 3)),
        "m": ("bool", (500, 3)),
        "b": ("float16", (3,)),
        "n": ("bool", (500, 1)),
    }
    nodes = [
        ("hb", "Add", ["h", "b"]),
        ("f", "Cast", ["hb"], {"dtype": F}),
        ("s", "Select", ["m", "x", "f"]),
        ("both", "LogicalAnd", ["m", "n"]),
        ("y", "Select", ["both", "s", 0.5]),
        ("less", "Less", ["x", "f"]),
        ("z", "LogicalOr", ["less", "n"]),
    ]
    check(graph(inputs, nodes, ["y", "z"]), CHIP.with_ub(ub))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Maximum", "Minimum"])
@pytest.mark.parametrize("scalar_first", [False, True])
def test_run_time_scalar_on_either_side(op, scalar_first):
    operands = ["s", "x"] if scalar_first else ["x", "s"]
    inputs = {"x": (F, (3, 700)), "s": (F, (), {"scalar": True})}
    check(graph(inputs, [("y", op, operands)]))


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16", "int32", "int16"])
def test_run_time_scalars_in_comparisons_and_selections(d):
    inputs = {"x": (d, (3, 700)), "s": (d, (1,)), "c": ("bool", (1,))}
    nodes = [
        ("a", "Less", ["x", "s"]),
        ("b", "Less", ["s", "x"]),
        ("p", "Select", ["a", "x", "s"]),
        ("q", "Select", ["b", "s", "x"]),
        ("r", "Select", ["c", "p", "q"]),
        ("u", "Select", ["a", "s", "s"]),
    ]
    check(graph(inputs, nodes, ["r", "u", "b"]))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 3.4028234663852886e38, -0.0])
def test_constants_at_the_edge(value):
    nodes = [
        ("a", "Add", ["x", value]),
        ("b", "Maximum", [value, "x"]),
        ("c", "Less", ["x", value]),
        ("d", "Equal", [value, "x"]),
        ("e", "Select", ["c", "x", value]),
        ("f", "Select", ["d", value, "x"]),
    ]
    document = graph({"x": (F, (1000,))}, nodes, ["a", "b", "c", "d", "e", "f"])
    text = {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan" if value != value else value)
    for n in document["nodes"]:
        n["inputs"] = [{"const": text} if isinstance(x, dict) else x for x in n["inputs"]]
    check(document, special=True)


def test_operations_on_values_that_are_not_finite():
    inputs = {"x": (F, (33, 65)), "y": (F, (33, 65))}
    ops = ["Add", "Mul", "Maximum", "Minimum", "Less", "GreaterEqual", "Equal", "NotEqual"]
    nodes = [(f"r{i}", op, ["x", "y"]) for i, op in enumerate(ops)]
    nodes.append(("s", "Select", ["r4", "r0", "r1"]))
    check(graph(inputs, nodes, [n[0] for n in nodes]), special=True)


@pytest.mark.parametrize("count", [5, 9, 14])
def test_many_inputs_alive_at_once(count):
    inputs = {f"x{i}": (F, (300, 70)) for i in range(count)}
    nodes, last = [], "x0"
    for op in ("Add", "Maximum"):
        for i in range(1, count):
            nodes.append((f"{op}{i}", op, [last, f"x{i}"]))
            last = f"{op}{i}"
    check(graph(inputs, nodes, [last]))


def test_many_outputs():
    nodes = [("t0", "Abs", ["x"])]
    nodes += [(f"t{i}", "Add", [f"t{i - 1}", float(i)]) for i in range(1, 10)]
    check(graph({"x": (F, (50, 129))}, nodes, [n[0] for n in nodes]))


def test_many_constants_that_must_be_filled():
    nodes = [(f"t{i}", "Div", [float(3 + 2 * i), "x"]) for i in range(6)]
    nodes += [("a", "AddN", [f"t{i}" for i in range(6)])]
    check(graph({"x": (F, (9000,))}, nodes, ["a"]), CHIP.with_ub(9_000))


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16", "int32", "int8", "bool"])
def test_inputs_results_and_uniform_values_as_outputs(d):
    inputs = {"x": (d, (40, 33)), "s": (d, (1,)), "r": (d, (33,))}
    nodes = [
        ("spread", "Broadcast", ["s"], {"shape": [40, 33]}),
        ("rows", "Broadcast", ["r"], {"shape": [40, 33]}),
        ("same", "Identity", ["x"]),
        ("flat", "Reshape", ["x"], {"shape": [1320]}),
    ]
    check(graph(inputs, nodes, ["spread", "rows", "same", "flat", "s", "r"]))


def test_output_that_is_used_further_and_one_that_is_written_twice():
    nodes = [("a", "Exp", ["x"]), ("b", "Neg", ["a"]), ("c", "Add", ["a", "b"])]
    outputs = ["a", "b", {"name": "again", "tensor": "a"}, "c"]
    check(graph({"x": (F, (7, 65))}, nodes, outputs))


def test_groups_of_different_shapes():
    inputs = {"x": (F, (40, 33)), "b": (F, (33,)), "s": ("float16", (1,))}
    nodes = [("y", "Add", ["x", "b"]), ("c", "Exp", ["b"]), ("t", "Abs", ["s"])]
    check(graph(inputs, nodes, ["y", "c", "t"]))


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_input_that_is_overwritten(op):
    inputs = {"x": (F, (40, 33)), "b": (F, (33,))}
    outputs = [{"name": "y", "tensor": "y", "inout": "x"}]
    check(graph(inputs, [("y", op, ["x", "b"])], outputs))


def test_group_that_overwrites_what_another_group_reads():
    inputs = {"x": (F, (40, 33)), "b": (F, (33,))}
    nodes = [("y", "Add", ["x", "b"]), ("c", "Exp", ["b"])]
    outputs = ["y", {"name": "c", "tensor": "c", "inout": "b"}]
    check(graph(inputs, nodes, outputs))


@pytest.mark.parametrize(("strides", "shape"), [([40, 1], (9, 33)), ([200, 40, 1], (3, 5, 33))])
@pytest.mark.parametrize("d", ["float32", "float16"])
def test_strided_input(d, strides, shape):
    inputs = {
        "x": (d, shape, {"strides": strides, "offset": 7}),
        "y": (d, shape),
        "b": (d, (33,)),
    }
    nodes = [("a", "Add", ["x", "y"]), ("z", "Mul", ["a", "b"])]
    check(graph(inputs, nodes, ["z"]))


def test_strided_column_beside_rows():
    inputs = {
        "x": (F, (64, 1), {"strides": [7, 1], "offset": 2}),
        "y": (F, (64, 100)),
    }
    check(graph(inputs, [("z", "Sub", ["y", "x"])], ["z"]))


@pytest.mark.parametrize("sizes", [{"m": 0, "n": 5}, {"m": 5, "n": 0}, {"m": 0, "n": 0}])
def test_nothing_to_compute_with_rows_in_ub(sizes):
    symbols = {k: {"min": 0, "max": 1000, "hint": 8} for k in "mn"}
    inputs = {"x": (F, (3, "m", "n")), "b": (F, ("n",)), "c": (F, ("m", 1))}
    nodes = [("a", "Add", ["x", "b"]), ("y", "Mul", ["a", "c"])]
    check(graph(inputs, nodes, **symbols), bindings=[sizes, {"m": 9, "n": 13}])


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "int32", "int64", "bool"])
def test_float_to_integer_truncates_on_every_route(to):
    built = api.build(graph({"x": (F, (4, 64))}, [("y", "Cast", ["x"], {"dtype": to})]))
    kernel = api.load(built)
    base = np.linspace(0, 120, 256, dtype=np.float32).reshape(4, 64)
    below = np.nextafter(np.rint(base), np.float32(-1), dtype=np.float32)
    x = np.where(base < 60, base, below)
    if to != "uint8":
        x = np.where(np.arange(256).reshape(4, 64) % 2 == 0, x, -x)
    np.testing.assert_array_equal(kernel(x), x.astype(to))


@pytest.mark.parametrize("op", ["Sigmoid", "Rsqrt", "Reciprocal", "Square", "Pow", "Neg"])
def test_composite_ops_in_bfloat16(op):
    operands = ["x", 3.0] if op == "Pow" else ["x"]
    check(graph({"x": ("bfloat16", (17, 33))}, [("y", op, operands)]))


def test_every_tile_size_gives_the_same_bytes():
    inputs = {"x": (F, (60, 37)), "b": (F, (37,)), "c": (F, (60, 1))}
    nodes = [("a", "Add", ["x", "b"]), ("t", "Tanh", ["a"]), ("y", "Div", ["t", "c"])]
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(1, 2, s).astype(np.float32) for s in ((60, 37), (37,), (60, 1))]
    results = set()
    for ub in (2_500, 4_000, 10_000, CHIP.ub_usable):
        built = api.build(graph(inputs, nodes), target=CHIP.with_ub(ub))
        kernel = api.load(built)
        for key in range(kernel.key_count):
            given = dict(zip(inputs, arrays, strict=True))
            for cores in (1, 3, 0):
                run = kernel.run(given, key=key, cores=cores)
                results.add(run.outputs["y"].tobytes())
    assert len(results) == 1
