"""Loops over rows of which the last tile has fewer: what is proved, and what is found where they go too far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_interpreter import run_kernel
from twin_graphs import CHIP, graph

from autofuse import api
from autofuse.codegen.ir.calls import Call
from autofuse.codegen.ir.kernel_ir import Barrier, For, KernelFn, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.graph import ImplGraph

ROWS, COLUMNS = 35, 1031


@pytest.fixture(scope="module")
def built() -> api.BuildResult:
    inputs = {"x": ("float32", (ROWS, COLUMNS)), "b": ("float32", (COLUMNS,))}
    return api.build(graph(inputs, [("y", "Add", ["x", "b"])]), target=CHIP.with_ub(8000))


@pytest.fixture(scope="module")
def impl(built: api.BuildResult) -> ImplGraph:
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return next(i for i in impls if i.suffix == "rows_18")


@pytest.fixture(scope="module")
def fn(built: api.BuildResult, impl: ImplGraph) -> KernelFn:
    return run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))


def with_loops(fn: KernelFn, change: Callable[[For], Expr]) -> KernelFn:
    def walk(body: tuple[Stmt, ...], depth: int) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, For):
                extent = change(s) if depth else s.extent
                s = replace(s, extent=extent, body=walk(s.body, depth + 1))
            out.append(s)
        return tuple(out)

    return replace(fn, body=walk(fn.body, 0))


def test_it_is_proved(built, impl, fn):
    assert verify_kernel(fn, impl, built.graph, built.target) == []


@pytest.mark.parametrize("extent", [const(18), const(17)], ids=str)
def test_a_loop_that_does_not_end_with_its_tile(built, impl, fn, extent):
    """18 rows are more than the last tile has, 17 fewer than the first."""
    found = verify_kernel(with_loops(fn, lambda _: extent), impl, built.graph, built.target)
    assert any(f"a reduce loop runs {extent} times" in d.message for d in found)


def test_a_row_in_common_is_loaded_once_for_the_rows_of_a_tile(impl, fn):
    """By the interpreter, with two tiles of rows: every element of the output once, of the bias once for each."""
    spec = impl.tiling
    tiles = 2 * -(-COLUMNS // spec.opened.granule)
    data = {spec.opened.symbol: spec.opened.granule, spec.block_size: 3}
    moved: dict[str, list[int]] = {}
    for t in run_kernel(fn, data, -(-tiles // 3)):
        moved.setdefault(t.param, []).extend(t.elements())
    bias, output = moved["b"], moved["y"]
    assert sorted(output) == list(range(ROWS * COLUMNS))
    assert sorted(bias) == sorted([*range(COLUMNS)] * 2)


def test_a_tile_is_not_empty_so_that_no_barrier_is_for_that():
    """A constant that the loop over rows reads shares a buffer: what its rows wait for is over before the next tile."""
    where = Path(__file__).resolve().parents[4] / "examples" / "where_mask.json"
    built = api.build(where, target=CHIP)
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    impl = next(i for i in impls if i.suffix == "rows_32")
    fn = run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))
    (tiles,) = (s for s in fn.body if isinstance(s, For))
    first = next(i for i, s in enumerate(tiles.body) if isinstance(s, Call))
    assert not any(isinstance(s, Barrier) for s in tiles.body[:first])
    assert verify_kernel(fn, impl, built.graph, built.target) == []
