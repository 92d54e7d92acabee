"""Kernels with reduce loops: what they look like, and what the static checks say of wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.emit_cpp import emit_block
from autofuse.codegen.ir.calls import Call, Count, LocalArg, SizeValue
from autofuse.codegen.ir.kernel_ir import Alloc, For, Free, GlobalDecl, KernelFn, Let, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import check_schedule, verify_kernel, verify_schedule
from autofuse.implgraph.expr.expression import FloorDiv, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import ImplGraph


def build(shape: list[Any], nodes: list[dict[str, Any]], inputs: str = "x") -> api.BuildResult:
    document = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": {s: {"max": 999} for s in shape if isinstance(s, str)},
        "inputs": [{"name": x, "dtype": "float32", "shape": shape} for x in inputs],
        "nodes": nodes,
        "outputs": ["y"],
    }
    return api.build(json.loads(json.dumps(document)), verify_ir=True)


@pytest.fixture(scope="module")
def softmax() -> tuple[api.BuildResult, ImplGraph, KernelFn]:
    node = {"name": "n", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": 1}}
    built = build(["s0", "s1"], [node])
    impl = next(i for g in built.schedule[0].groups for i in g.impls if i.template == "reduce")
    fn = run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))
    return built, impl, fn


def findings(softmax, change: Callable[[Stmt], list[Stmt]]) -> list[str]:
    """What is said of the kernel with every statement changed."""
    built, impl, fn = softmax

    def walk(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            out += [
                replace(made, body=walk(made.body)) if isinstance(made, For) else made
                for made in change(s)
            ]
        return tuple(out)

    wrong = replace(fn, body=walk(fn.body))
    return [d.message for d in verify_kernel(wrong, impl, built.graph, built.target)]


def test_two_loops_in_the_loop_over_tiles(softmax):
    fn = softmax[2]
    (tiles,) = [s for s in fn.body if isinstance(s, For)]
    loops = [s for s in tiles.body if isinstance(s, For)]
    assert [s.var for s in loops] == ["z1T"] * 2
    assert all(any(isinstance(s, Free) for s in loop.body) for loop in loops)


def test_the_kernel_is_proved(softmax):
    assert findings(softmax, lambda s: [s]) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda s: (
                [replace(s, extent=s.extent + 1)] if isinstance(s, For) and s.var == "z1T" else [s]
            ),
            "a reduce loop runs",
        ),
        (
            lambda s: [*s.body] if isinstance(s, For) and s.var == "z1T" else [s],
            "in other loops than",
        ),
        (
            lambda s: (
                [replace(s, value=sym("z1t_size"))]
                if isinstance(s, Let) and s.name == "z1t_actual_size"
                else [s]
            ),
            "",
        ),
        (
            lambda s: [] if isinstance(s, Call) and s.api == "Duplicate" else [s],
            "no call makes",
        ),
    ],
    ids=["one iteration more", "no loop", "no tail", "no initial value"],
)
def test_wrong_loops_are_found(softmax, change, text):
    found = findings(softmax, change)
    assert any(text in message for message in found), found


def test_a_divisor_is_at_least_one_where_it_divides(softmax):
    length = sym("s1") - 1  # 0 for rows of one element
    divided = Let("part", FloorDiv(sym("s0") + 7, length))
    around = For("w", length * 2, (divided,))
    outside = [For("w", length * 2, ()), divided]
    for there, obligations in (
        ([around], 0),
        (outside, 1),
        ([For("w", length + 1, (divided,))], 1),
    ):
        found = findings(
            softmax, lambda s, there=there: [*there, s] if isinstance(s, Alloc) else [s]
        )
        assert [m.startswith("divisor:") for m in found] == [True] * obligations, found


@pytest.mark.parametrize("least", [0, 1])
def test_a_part_of_a_product_is_within_its_limit(least):
    symbols = {s: {"min": least, "max": 999} for s in "abcd"}
    sizes = list(symbols)
    inputs = {
        "x": ("float32", sizes),
        "v": ("float32", [1, "b", "c", 1]),
        "w": ("float32", ["a", "b", "c", 1]),
    }
    nodes = [("p", "Mul", ["x", "v"]), ("q", "Mul", ["p", "w"])]
    nodes += [("y", "ReduceSum", ["q"], {"axes": [0, 1, 2, 3]})]
    built = api.build(graph(inputs, nodes, **symbols))
    limits = [i.tiling.conditions for r in built.schedule for g in r.groups for i in g.impls]
    assert any(c.at_most is not None for conditions in limits for c in conditions)
    assert verify_schedule(built.graph, built.schedule, built.target) == []


@pytest.mark.parametrize("by", [0, -1, 1])
def test_pieces_of_an_output(by):
    attrs = {"axis": 1}
    node = {"name": "n", "op": "Concat", "inputs": ["x", "z"], "outputs": ["y"], "attrs": attrs}
    built = build([40, 7], [node], "xz")
    (result,) = built.schedule
    moved = tuple(
        replace(n, y=replace(n.y, offset=n.y.offset + by)) if n.name == "store_1" else n
        for n in result.hint.nodes
    )
    results = (replace(result, hint=replace(result.hint, nodes=moved)),)
    if by == 0:
        check_schedule(built.graph, results, built.target)
        return
    with pytest.raises(AutofuseError, match="every element of output y once"):
        check_schedule(built.graph, results, built.target)


def test_text_of_what_is_known_at_run_time():
    half, single = BY_NAME["float16"], BY_NAME["float32"]
    line = Call(
        "Arange",
        (
            LocalArg("i"),
            SizeValue(sym("a") * 8, half),
            SizeValue(const(1), single),
            Count(sym("n")),
        ),
        ("i",),
        (),
    )
    assert emit_block([line]) == [
        "Arange(i[0], static_cast<half>(static_cast<float>(8 * a)), static_cast<float>(1), n);"
    ]
    part = GlobalDecl("g", single, "workspace", sym("s0") * 4)
    assert emit_block([part])[1] == "g.SetGlobalBuffer((__gm__ float*)(workspace + (4 * s0)));"
