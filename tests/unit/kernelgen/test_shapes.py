"""Test shapes: the lists of KernelGen and of the write-up of its flow, as far as the graph and the memory allow."""

from math import prod
from typing import Any

import draws
import numpy as np
import pytest

from autofuse import api
from autofuse.clients.kernelgen.defining import shapes
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.requirements import requirements

GIB = 1 << 30


def relu(shape: list[int | str], dtype: str = "float32", **ranges: Any) -> FusionGraph:
    """One op over a tensor; ``ranges``: of its symbols."""
    names = [s for s in shape if isinstance(s, str)]
    most = 1 << (46 - prod(s for s in shape if isinstance(s, int)).bit_length()) // max(
        len(names), 1
    )
    return api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "relu",
            "symbols": {n: {"max": min(most, 1 << 31)} | ranges.get(n, {}) for n in names},
            "inputs": [{"name": "x", "dtype": dtype, "shape": shape}],
            "nodes": [{"name": "relu", "op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
            "outputs": ["y"],
        }
    )


def as_arrays(graph: FusionGraph, sizes: dict[str, int]) -> int:
    """Bytes of NumPy's arrays for input and output."""
    shape = [e.evaluate(sizes) for e in graph.tensors["x"].shape]
    return 2 * np.empty(shape, graph.tensors["x"].dtype.name).nbytes


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (["n"], [(512,), (8192,), (16384,), (1024,), (1,)]),
        (["a", "b"], [(1, 512), (64, 128), (256, 64), (64, 16), (1, 1)]),
        (["a", "b", "c"], [(1, 1, 512), (1, 64, 128), (8, 32, 64), (8, 8, 16), (1, 1, 1)]),
        (
            ["a", "b", "c", "d"],
            [(1, 1, 1, 512), (1, 1, 64, 128), (1, 8, 32, 64), (2, 4, 8, 16), (1,) * 4],
        ),
    ],
)
def test_accuracy_has_the_elements_of_kernelgens_list(
    shape: list[str], wanted: list[tuple[int, ...]]
) -> None:
    assert [tuple(s.values()) for s in shapes.accuracy_sizes(relu([*shape]))] == wanted


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_performance_has_the_elements_of_the_cubes(rank: int) -> None:
    found = shapes.performance_sizes(relu(["a", "b", "c"][:rank], "float16"), 1 << 40)
    assert len(found) == 3
    for side, sizes in zip((512, 1024, 2048), found, strict=True):
        wanted = min(side**3, 1 << 31 if rank == 1 else side**3)  # no size has more than 31 bits
        assert 0.99 * wanted <= prod(sizes.values()) <= wanted
        assert rank < 3 or set(sizes.values()) == {side}


def test_what_memory_does_not_hold_is_made_smaller_and_told() -> None:
    graph = relu(["a", "b", "c"])
    for memory in (GIB // 64, GIB, 16 * GIB, 100 * GIB):
        for case in shapes.performance_shapes(graph, memory):
            assert 4 * case.bytes <= memory
            assert case.bytes == 2 * 4 * prod(case.sizes.values())
    small = shapes.performance_shapes(graph, GIB)
    assert len(small) == 1
    assert small[0].note.startswith("512^3 made smaller: a quarter of 1073741824 bytes")
    assert small[0].note.endswith("1024^3 too; 2048^3 too")
    whole, cut = shapes.performance_shapes(graph, 16 * GIB)
    assert (whole.note, set(whole.sizes.values())) == ("", {512})
    assert cut.note.startswith("1024^3 made smaller")
    assert cut.note.endswith("2048^3 too")


def test_a_graph_of_fixed_sizes_has_one_shape() -> None:
    graph = relu([7, 3])
    assert shapes.accuracy_sizes(graph) == shapes.performance_sizes(graph) == ({},)
    (case,) = shapes.performance_shapes(graph)
    assert (case.bytes, case.note) == (2 * 4 * 21, "the graph has only fixed sizes")


def test_the_range_of_a_symbol_counts() -> None:
    graph = relu(["a", "b"], a={"min": 3, "max": 5})
    for sizes in (*shapes.accuracy_sizes(graph), *shapes.performance_sizes(graph)):
        assert 3 <= sizes["a"] <= 5
    small = relu(["n"], n={"max": 100})
    (case,) = shapes.performance_shapes(small)
    assert case.sizes == {"n": 100}
    assert case.note.startswith("512^3 made smaller: the graph has at most 100 elements")
    large = relu(["n"], n={"min": 1 << 30, "max": 1 << 31})
    (case,) = shapes.performance_shapes(large, GIB)
    assert case.sizes == {"n": 1 << 30}
    assert "more than 512^3" in case.note


def test_sizes_that_the_graph_refuses_are_not_tried() -> None:
    """A part of b elements of a row of a: a is at least b."""
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "part",
            "symbols": {"a": {"max": 1 << 20}, "b": {"max": 1 << 20}},
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["a"]}],
            "nodes": [
                {
                    "name": "part",
                    "op": "Slice",
                    "inputs": ["x"],
                    "outputs": ["y"],
                    "attrs": {"starts": [0], "shape": ["b"]},
                }
            ],
            "outputs": ["y"],
        }
    )
    needed = requirements(graph)
    assert needed
    found = (*shapes.accuracy_sizes(graph), *shapes.performance_sizes(graph))
    assert len(found) > 3
    for sizes in found:
        assert all(r.holds(sizes) for r in needed)


def test_any_shape_any_memory() -> None:
    rng = draws.python_rng()
    seed = rng.randrange(1 << 30)
    rng.seed(seed)
    for _ in range(60):
        symbols = rng.sample("abcd", rng.randint(1, 4))
        shape = [s if rng.random() < 0.7 else rng.choice((0, 1, 3, 768)) for s in symbols]
        ranges: dict[str, Any] = {s: {"min": rng.choice((0, 1, 2))} for s in symbols}
        graph = relu(shape, rng.choice(("float32", "float16")), **ranges)
        memory = rng.choice((1 << 20, GIB, 80 * GIB))
        for case in shapes.performance_shapes(graph, memory):
            low = {s.name: s.min for s in graph.symbols}
            assert set(case.sizes) == set(low), seed
            assert all(low[n] <= v for n, v in case.sizes.items()), seed
            assert 4 * case.bytes <= memory or dict(case.sizes) == low or not graph.symbols, seed
        for case in shapes.accuracy_shapes(graph):
            assert case.bytes == as_arrays(graph, dict(case.sizes)), seed


def test_all_sizes_of_a_definition_are_those_of_both_lists() -> None:
    class Holder:
        graph = relu(["n"])

    found = shapes.test_shapes(Holder(), 16 * GIB)
    assert found[:5] == shapes.accuracy_sizes(Holder.graph)
    assert found[5:] == shapes.performance_sizes(Holder.graph, 16 * GIB)
