"""Loops that every core starts at a step of its own, on the CPU twin: every size, dtype and order of the pipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import draws
import numpy as np
import pytest
from row_statistics import NORM, along
from twin_graphs import CHIP, check, every_template, graph

from autofuse import api
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel

pytestmark = pytest.mark.twin


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def norm(
    shape: tuple[Any, ...], dtype: str = "float32", outputs: Any = ("y",), **symbols: Any
) -> dict[str, Any]:
    """A layer norm of the last axis, with a scale and a shift that all rows share."""
    row = (dtype, shape[-1:])
    nodes = [
        *along(NORM[:-1], [-1]),
        ("n", "Mul", ["d", "r"]),
        ("p", "Mul", ["n", "w"]),
        ("y", "Add", ["p", "b"]),
    ]
    return graph({"x": (dtype, shape), "w": row, "b": row}, nodes, outputs, **symbols)


def peaks(shape: tuple[Any, ...], dtype: str = "float32", **symbols: Any) -> dict[str, Any]:
    """How far below the maximum of its row an element is, weighted: exact, however the row is cut."""
    nodes = [
        ("m", "ReduceMax", ["x"], {"axes": [-1], "keepdims": True}),
        ("d", "Sub", ["x", "m"]),
        ("y", "Mul", ["d", "w"]),
    ]
    return graph({"x": (dtype, shape), "w": (dtype, shape[-1:])}, nodes, **symbols)


def staggered(built: api.BuildResult) -> list[str]:
    """Templates in which a loop is."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    return [i.template for i in impls if i.tiling.staggered]


@pytest.mark.parametrize("seed", [0, 1, 5])
@pytest.mark.parametrize("shape", [(2, 1021), (50, 997), (3, 17, 512), (97, 2003)], ids=str)
def test_norms(shape, seed):
    assert staggered(check(norm(shape), 9000, check_seed=seed))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
def test_dtypes(dtype):
    assert staggered(check(peaks((53, 1999), dtype), 6000, check_seed=3))


def test_in_place():
    """The step that overwrites a part of a row has read it, in whatever order the parts come."""
    document = norm((51, 1013), outputs=[{"tensor": "y", "inout": "x"}])
    assert staggered(check(document, 9000, check_seed=2))


def test_a_loop_over_an_outer_axis():
    """Reduced from outside: the loop goes over rows, and what all cores read varies along them alone."""
    nodes = [
        ("m", "ReduceMax", ["x"], {"axes": [0], "keepdims": True}),
        ("d", "Sub", ["x", "m"]),
        ("y", "Mul", ["d", "w"]),
    ]
    inputs = {"x": ("float32", (61, 640)), "w": ("float32", (61, 1))}
    assert staggered(check(graph(inputs, nodes), 9000, check_seed=1))


def test_sizes_that_are_known_at_run_time():
    ranges = {"s0": {"min": 0, "max": 4096}, "s1": {"min": 0, "max": 1 << 20}}
    sizes = [(3, 5), (0, 4), (2, 9000), (193, 13001), (7, 20011), (1, 60001), (5, 0), (1, 1)]
    built = check(
        norm(("s0", "s1"), **ranges), check_seed=4, bindings=[{"s0": a, "s1": b} for a, b in sizes]
    )
    assert staggered(built)


def test_results_do_not_depend_on_the_number_of_cores():
    target = CHIP.with_ub(6000)
    built = api.build(peaks((61, 2003)), target=target)
    assert staggered(built)
    kernel = TwinKernel(compile_kernel(built.files, built.graph.name), built.graph)
    random_ = draws.rng()
    x = random_.standard_normal((61, 2003)).astype(np.float32)
    w = random_.standard_normal(2003).astype(np.float32)
    want = (x - x.max(axis=1, keepdims=True)) * w
    for cores in (0, 1, 7, 48):
        run = kernel.run({"x": x, "w": w}, cores=cores)
        assert run.outputs["y"].tobytes() == want.tobytes()
