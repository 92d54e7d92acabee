"""Staggered loops: what is proved of them, what is found where they are wrong, and the order that they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kernel_interpreter import run_kernel
from row_statistics import NORM, along
from twin_graphs import CHIP, graph

from autofuse import api
from autofuse.codegen.ir.calls import VectorFunction
from autofuse.codegen.ir.kernel_ir import For, KernelFn, Let, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.expr.expression import Mod, sym
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.targets import load_target

ROWS, COLUMNS = 7, 1003


def norm(*then: str, **symbols: Any) -> dict[str, Any]:
    shape: tuple[Any, ...] = tuple(symbols) or (ROWS, COLUMNS)
    inputs = {"x": ("float32", shape), "w": ("float32", shape[1:])}
    nodes = [*along(NORM[:-1], [-1]), ("n", "Mul", ["d", "r"]), ("y", "Mul", ["n", "w"])]
    nodes += [("z", op, ["y"]) for op in then]
    return graph(inputs, nodes, (nodes[-1][0],), **symbols)


@pytest.fixture(scope="module")
def built() -> api.BuildResult:
    return api.build(norm(), target=CHIP.with_ub(8000))


@pytest.fixture(scope="module")
def impl(built: api.BuildResult) -> ImplGraph:
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    return next(i for i in impls if i.tiling.staggered)


def lowered(built: api.BuildResult, impl: ImplGraph) -> KernelFn:
    return run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))


def findings(built: api.BuildResult, impl: ImplGraph, fn: KernelFn) -> list[str]:
    return [d.message for d in verify_kernel(fn, impl, built.graph, built.target)]


def changed(fn: KernelFn, change: Callable[[Stmt], Stmt]) -> KernelFn:
    def walk(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out = [change(s) for s in body]
        return tuple(replace(s, body=walk(s.body)) if isinstance(s, For) else s for s in out)

    return replace(fn, body=walk(fn.body))


def functions(fn: KernelFn) -> list[VectorFunction]:
    """All functions on vector registers of a kernel."""
    found: list[VectorFunction] = []

    def add(s: Stmt) -> Stmt:
        if isinstance(s, VectorFunction):
            found.append(s)
        return s

    changed(fn, add)
    return found


def test_it_is_proved(built, impl):
    fn = lowered(built, impl)
    assert "Mod(" in str([s for s in fn.body if isinstance(s, For)])
    assert findings(built, impl, fn) == []


def test_it_is_proved_for_all_sizes():
    ranges = {"s0": {"min": 0, "max": 4096}, "s1": {"min": 0, "max": 1 << 20}}
    built = api.build(norm(**ranges), target=CHIP)
    impls = [i for r in built.schedule for g in r.groups for i in g.impls if i.tiling.staggered]
    assert impls
    for impl in impls:
        assert findings(built, impl, lowered(built, impl)) == []


@pytest.fixture(scope="module")
def filled() -> tuple[api.BuildResult, ImplGraph, KernelFn]:
    """A staggered loop whose function fills a register with the 2 of Tanh, which is made before the loop."""
    built = api.build(norm("Tanh"), target=load_target("ascend950pr").with_ub(12000))
    impls = [i for r in built.schedule for g in r.groups for i in g.impls if i.tiling.staggered]
    return built, impls[0], lowered(built, impls[0])


def test_a_register_that_is_filled_in_every_step_leaves_nothing(filled):
    built, impl, fn = filled
    assert any(f.fills and f.calls[0].writes[0] not in f.stores for f in functions(fn))
    assert findings(built, impl, fn) == []


def test_a_register_that_is_filled_and_stored_is_left(filled):
    built, impl, fn = filled

    def stored(s: Stmt) -> Stmt:
        if not isinstance(s, VectorFunction) or not s.fills:
            return s
        return replace(s, stores=(*s.stores, s.calls[0].writes[0]))

    found = findings(built, impl, changed(fn, stored))
    assert any("from step to step, and the loop is staggered" in f for f in found)


def test_a_loop_with_accumulators_must_not_be(built, impl):
    wrong = replace(impl, tiling=replace(impl.tiling, staggered=(0, 1)))
    found = findings(built, wrong, lowered(built, wrong))
    assert any("from step to step, and the loop is staggered" in f for f in found)
    assert any("counts steps of a staggered loop" in f for f in found)


def test_a_pass_that_there_is_not(built, impl):
    wrong = replace(impl, tiling=replace(impl.tiling, staggered=(1, 5)))
    found = findings(built, wrong, lowered(built, wrong))
    assert found == ["pass 5 is staggered, and there are 2"]


@pytest.mark.parametrize("factor", [0, 2])
def test_other_orders_are_not_taken_for_granted(built, impl, factor):
    """Without the remainder steps are beyond the end; with a multiple of the turn some would be left out."""

    def other(s: Stmt) -> Stmt:
        if not isinstance(s, Let) or not any(a.name == "Mod" for a in _functions(s.value)):
            return s
        if not s.name.endswith("T"):
            return s
        turn = sym(f"{s.name}_step")
        if factor == 0:
            return replace(s, value=turn + sym("z0B"))
        return replace(s, value=Mod(turn * 2, sym(f"{s.name}_loop_size")))

    fn = changed(lowered(built, impl), other)
    assert fn != lowered(built, impl)
    assert findings(built, impl, fn)


def _functions(e: Any) -> list[Any]:
    return [a for a in e.atoms() if hasattr(a, "args")]


def test_every_core_starts_elsewhere_and_does_every_step_once(built, impl):
    """The interpreter says which elements of the scale a core loads, and of the output it stores, in which order."""
    spec = impl.tiling
    tile = spec.opened.granule
    data = {spec.opened.symbol: tile, spec.block_size: 1, "block_dim": ROWS}
    scale: dict[int, list[int]] = {c: [] for c in range(ROWS)}
    stored: dict[int, list[int]] = {c: [] for c in range(ROWS)}
    for t in run_kernel(lowered(built, impl), data, ROWS):
        if t.param == "w":
            scale[t.core] += t.elements()
        elif t.store:
            stored[t.core] += t.elements()
    steps = -(-COLUMNS // tile)
    assert steps > 2
    for core in range(ROWS):
        first = core % steps * tile
        assert scale[core] == [*range(first, COLUMNS), *range(first)]
        row = range(core * COLUMNS, (core + 1) * COLUMNS)
        assert stored[core] == [*row[first:], *row[:first]]
