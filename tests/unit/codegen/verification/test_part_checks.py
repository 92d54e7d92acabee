"""Findings of the static checks in wrong kernels that add up parts of rows; the last part is shorter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autofuse import api
from autofuse.codegen.ir.calls import Call, Count
from autofuse.codegen.ir.kernel_ir import CopyOut, For, KernelFn, Let, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.expr.expression import CeilDiv, Expr, Min, const, sym
from autofuse.implgraph.ir.graph import ImplGraph

GRAPH = Path(__file__).resolve().parents[3] / "snapshot" / "graphs" / "parts_of_rows.json"
PART, TILE, ROWS = const(171), sym("z0tt_size"), const(8191)


@pytest.fixture(scope="module")
def parts() -> tuple[api.BuildResult, ImplGraph, KernelFn]:
    built = api.build(GRAPH, verify_ir=True)
    (impl,) = built.schedule[0].groups[0].impls
    return built, impl, run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))


def findings(parts, change: Callable[[Stmt], Stmt]) -> list[str]:
    """Return the findings in the kernel after ``change`` has changed one statement."""
    built, impl, fn = parts
    changed: list[Stmt] = []

    def walk(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            made = change(s)
            changed.extend([s] if made != s else [])
            out.append(replace(made, body=walk(made.body)) if isinstance(made, For) else made)
        return tuple(out)

    wrong = replace(fn, body=walk(fn.body))
    assert len(changed) == 1
    return [d.message for d in verify_kernel(wrong, impl, built.graph, built.target)]


def test_the_kernel_is_proved(parts):
    built, impl, fn = parts
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def loop(extent: Expr) -> Callable[[Stmt], Stmt]:
    """The loop over a part runs so many times."""
    return lambda s: replace(s, extent=extent) if isinstance(s, For) and s.var == "z0tT" else s


def length(name: str, value: Expr) -> Callable[[Stmt], Stmt]:
    return lambda s: replace(s, value=value) if isinstance(s, Let) and s.name == name else s


def stored(offset: Expr) -> Callable[[Stmt], Stmt]:
    """The result of a part goes to another place of the workspace."""

    def change(s: Stmt) -> Stmt:
        is_part = isinstance(s, CopyOut) and s.gm.startswith("Workspace")
        return replace(s, gm_offset=offset) if is_part else s

    return change


def counted(api_name: str, count: Expr) -> Callable[[Stmt], Stmt]:
    """The call on the accumulator covers another number of elements."""

    def change(s: Stmt) -> Stmt:
        if not (isinstance(s, Call) and s.api == api_name and "parts" in s.writes[0]):
            return s
        return replace(s, args=tuple(Count(count) if isinstance(a, Count) else a for a in s.args))

    return change


@pytest.mark.parametrize(
    "change",
    [
        loop(CeilDiv(PART, TILE)),
        loop(CeilDiv(sym("z0t_actual_size"), TILE) - 1),
        length("z0t_actual_size", PART),
        length("z0t_actual_size", Min(PART, ROWS - PART * sym("z0T") - 1)),
        length("z0tt_actual_size", Min(PART - sym("z0tT") * TILE, TILE)),
        length("z0tt_actual_size", TILE),
        stored(const(0)),
        stored(sym("z0T") * 127),
        stored(sym("z0T") * 128 + 1),
        counted("Duplicate", 128 * (TILE - 1)),
        counted("Add", 128 * TILE),
        counted("Add", 128 * (sym("z0tt_actual_size") - 1)),
    ],
    ids=[
        "steps of a whole part",
        "a step less",
        "whole parts only",
        "a row less",
        "tiles of a whole part",
        "whole tiles only",
        "all parts at one place",
        "rows that overlap",
        "one element behind",
        "an accumulator without its last row",
        "more rows than were loaded",
        "fewer rows than were loaded",
    ],
)
def test_wrong_parts_are_found(parts, change):
    assert findings(parts, change)
