"""Counts against NumPy's arrays and formulas by hand, times against figures of the target."""

import random
from math import prod
from typing import Any

import draws
import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.analysis import Analysis, analyse
from autofuse.clients.kernelgen.defining.ceilings import ceilings_of, steps
from autofuse.clients.kernelgen.english.lines import read_line
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.registry import all_ops
from autofuse.targets import TargetSpec, find_target, gpu_names, load_gpu, load_target, target_names
from autofuse.targets.figures import STATUSES

H100, CHIP = load_gpu("nvidia-h100"), load_target("ascend910b1")
TARGETS = (*target_names(), *gpu_names())


def of(line: str, target: Any = H100) -> Analysis:
    return analyse(read_line(line).graph, target)


def nbytes(graph: FusionGraph, names: list[str], sizes: dict[str, int]) -> int:
    """Bytes of NumPy's arrays."""
    tensors = [graph.tensors[n] for n in names]
    shapes = [[e.evaluate(sizes) for e in t.shape] for t in tensors]
    return sum(
        np.empty(s, numpy_dtype(t.dtype)).nbytes for s, t in zip(shapes, tensors, strict=True)
    )


@pytest.mark.parametrize(
    "line",
    [
        "softmax over the last axis of x float16 [b, 96], then multiply by mask",
        "add x float32 [n, 5] and y float32 [5]",
        "cast x int8 [n] to int64",
        "sum over all axes of x bf16 [n, 5]",
        "greater of x float32 [n] and y",
    ],
)
def test_bytes_are_those_of_the_arrays(line: str) -> None:
    graph = read_line(line).graph
    a = analyse(graph, H100)
    for size in (1, 7, 1000):
        sizes = {s.name: size for s in graph.symbols}
        assert a.read_bytes.evaluate(sizes) == nbytes(graph, [*graph.inputs], sizes)
        outputs = [o.tensor for o in graph.outputs]
        assert a.written_bytes.evaluate(sizes) == nbytes(graph, outputs, sizes)


def test_of_a_slice_only_its_part_is_read() -> None:
    a = of("slice x float32 [n, 100] with starts = [0, 3], shape = [n, 7]")
    assert str(a.read_bytes) == str(a.written_bytes) == "(28 * n)"
    assert a.flops == 0
    assert a.operations == ()


def test_what_is_not_used_is_not_read_and_strides_of_0_are_one_element() -> None:
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "g",
            "symbols": {"n": {"max": 1 << 20}},
            "inputs": [
                {"name": "x", "dtype": "float32", "shape": ["n", 8], "strides": [0, 1]},
                {"name": "unused", "dtype": "float32", "shape": ["n"]},
                {"name": "copied", "dtype": "float32", "shape": ["n"]},
            ],
            "nodes": [{"name": "r", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
            "outputs": ["y", {"tensor": "copied", "name": "copy"}],
        }
    )
    a = analyse(graph, H100)
    assert a.read_bytes.evaluate({"n": 10}) == 8 * 4 + 10 * 4
    assert a.written_bytes.evaluate({"n": 10}) == 80 * 4 + 10 * 4


@pytest.mark.parametrize(
    ("line", "by_kind", "flops"),
    [
        ("add x float32 [n] and y", {"arithmetic": 1}, 1),
        ("add x int32 [n] and y", {"arithmetic": 1}, 0),
        ("exp of x float32 [n]", {"functions": 1}, 1),
        ("divide x float32 [n] by 3", {"divisions": 1}, 1),
        ("greater of x float32 [n] and 0", {"comparisons and selections": 1}, 0),
        ("cast x float32 [n] to float16", {"conversions": 1}, 0),
        ("sum over all axes of x float32 [n]", {"reductions": 1}, 1),
        ("running sum along axis 0 of x float32 [n]", {"running sums": 1}, 1),
        ("relu of x float32 [n], then relu, then square", {"arithmetic": 3}, 3),
        # Largest, difference, power, sum, quotient.
        (
            "softmax over the last axis of x float32 [n]",
            {"reductions": 2, "arithmetic": 1, "functions": 1, "divisions": 1},
            5,
        ),
    ],
)
def test_operations_by_kind(line: str, by_kind: dict[str, int], flops: int) -> None:
    a = of(line)
    for n in (1, 1000):
        assert {o.kind: o.count.evaluate({"n": n}) for o in a.operations} == {
            k: v * n for k, v in by_kind.items()
        }
        assert a.flops.evaluate({"n": n}) == flops * n
    for o in a.operations:
        assert o.steps.evaluate({"n": 7}) >= o.count.evaluate({"n": 7})


def test_a_function_without_a_call_takes_several_steps() -> None:
    """An op that is written out by others: as many steps as it has of these, whatever they are."""
    gelu = of("gelu of x float32 [n]", CHIP)
    (only,) = gelu.operations
    assert only.count.evaluate({"n": 1}) == 1
    assert only.steps.evaluate({"n": 1}) > 10
    relu = of("relu of x float32 [n]", CHIP)
    assert gelu.points[-1].compute_us > 10 * relu.points[-1].compute_us
    assert gelu.points[-1].memory_us == relu.points[-1].memory_us


@pytest.mark.parametrize("name", TARGETS)
def test_times_are_bytes_and_steps_over_the_figures(name: str) -> None:
    target = find_target(name)
    figures = {f.name: f for f in target.figures()}
    a = of("add x float32 [n] and y", target)
    chip = isinstance(target, TargetSpec)
    bandwidth = float(figures["gm_bandwidth_gbs" if chip else "copy_gbs"].value)
    start = float(figures["kernel_head_us" if chip else "launch_us"].value)
    lanes = float(figures["vector.binary.rate32" if chip else "fp32_lanes"].value)
    cores = float(figures["aiv_cores" if chip else "multiprocessors"].value)
    per_us = cores * lanes * float(figures["clock_mhz"].value)
    for p in a.points:
        n = p.case.sizes["n"]
        assert p.moved_bytes == 12 * n
        assert p.flops == n
        assert p.intensity == pytest.approx(1 / 12)
        assert p.memory_us == pytest.approx(12 * n / bandwidth / 1e3)
        assert p.compute_us == pytest.approx(n / per_us)
        assert p.attainable_us == pytest.approx(max(p.memory_us, p.compute_us) + start)
        longest = max(p.memory_us, p.compute_us, start)
        assert {
            "memory bandwidth": p.memory_us,
            "vector lanes": p.compute_us,
            "start of the kernel": start,
        }[p.bottleneck] == longest
    assert a.bottleneck == a.points[-1].bottleneck == "memory bandwidth"
    assert a.ceilings.ridge == pytest.approx(per_us / 1e3 / bandwidth)


@pytest.mark.parametrize("name", TARGETS)
def test_every_ceiling_has_a_status_and_a_source(name: str) -> None:
    target = find_target(name)
    c = ceilings_of(target)
    for f in (c.bandwidth, c.peak, c.start):
        assert f.status in STATUSES
        assert f.source
        assert float(f.value) > 0
    # A product is no better known than the worst of its factors.
    parts = [s.partition("(")[2].rstrip(") ") for s in c.peak.source.split(" x ")]
    assert c.peak.status == max(parts, key=STATUSES.index)


def test_rows_and_columns() -> None:
    for line, rows, columns in (
        ("softmax over the last axis of x float32 [b, h, 96]", "b*h", "96"),
        ("sum over axis 0 of x float32 [b, 96]", "96", "b"),
        ("sum over all axes of x float32 [b, 96]", "1", "96*b"),
        ("relu of x float32 [b, h, 96]", "b*h", "96"),
        ("relu of x float32 [n]", "1", "n"),
    ):
        a = of(line)
        sizes = {"b": 3, "h": 5, "n": 11}
        assert a.rows.evaluate(sizes) == eval(rows, {}, sizes), line
        assert a.columns.evaluate(sizes) == eval(columns, {}, sizes), line
    assert of("relu of x float32 [n]").time_complexity == "O(D)"
    assert of("softmax over the last axis of x float32 [b, 96]").time_complexity == "O(P x D)"


def test_steps_of_the_data_are_the_nodes() -> None:
    graph = read_line("softmax over the last axis of x float16 [b, 96], then multiply by 2").graph
    found = analyse(graph, H100).steps
    assert [(s.op, s.writes, s.dtype) for s in found] == [
        (n.op, n.outputs[0], graph.tensors[n.outputs[0]].dtype.name) for n in graph.nodes
    ]
    assert found[1].reads == (graph.nodes[0].outputs[0], "2")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool"])
def test_every_op_takes_a_step_on_every_target(dtype: str) -> None:
    """None crashes, none is free that computes, and none is endless."""
    seen = 0
    for row in all_ops(user=True):
        if row.compute_type != "elewise":
            continue
        operands = " and ".join(f"{'xyz'[k]} {dtype} [n]" for k in range(min(row.arity[1], 3)))
        said = ", ".join(
            f"{a.name} = 3" for a in row.attrs if a.default is None and a.kind == "int"
        )
        try:
            graph = read_line(f"{row.name} of {operands}" + (f" with {said}" if said else "")).graph
        except AutofuseError:
            continue  # not of this dtype
        for name in ("nvidia-h100", "ascend910b1", "ascend310p"):
            a = analyse(graph, find_target(name))
            total = sum(o.steps.evaluate({"n": 1}) for o in a.operations)
            assert (total == 0) == (row.cost == "none"), row.name
            assert total < 5000, row.name
            seen += 1
    assert seen > 30


def test_sizes_of_0_take_no_time_but_the_start() -> None:
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "none",
            "inputs": [{"name": "x", "dtype": "float32", "shape": [0, 3]}],
            "nodes": [{"name": "r", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
            "outputs": ["y"],
        }
    )
    (p,) = analyse(graph, H100).points
    assert (p.moved_bytes, p.flops, p.intensity, p.memory_us, p.compute_us) == (0, 0, 0.0, 0.0, 0.0)
    assert p.attainable_us == H100.launch_us
    assert p.bottleneck == "start of the kernel"


def test_random_sizes_agree_with_counting() -> None:
    """Of a layer norm, written down by hand."""
    seed = draws.seed()
    rng = random.Random(seed)
    d = rng.randint(1, 3000)
    graph = read_line(
        f"layer norm over the last axis of x float32 [n, {d}] with gamma and beta"
    ).graph
    a = analyse(graph, H100)
    n = rng.randint(1, 3000)
    elements, rows = n * d, n
    # Two means (a sum each, and a division per row), centred, squared, scaled, weighed, shifted; eps and Rsqrt.
    want = 2 * elements + 2 * rows + 5 * elements + 2 * rows
    sizes = {"n": n}
    if d == 1:  # the mean of one element is that element
        want -= 2 * elements + 2 * rows
    assert a.flops.evaluate(sizes) == want, seed
    assert a.read_bytes.evaluate(sizes) == 4 * (prod((n, d)) + 2 * d)


def test_steps_of_a_call_are_one() -> None:
    float32 = read_line("relu of x float32 [n]").graph.tensors["x"].dtype
    rows = [row for row in all_ops(user=True) if row.name in ("Add", "Mul", "Maximum", "Exp")]
    assert len(rows) == 4
    for row in rows:
        assert sum(steps(row, [(float32, None)] * row.arity[0], {}, CHIP).values()) == 1
