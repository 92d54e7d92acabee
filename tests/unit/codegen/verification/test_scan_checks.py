"""Checks of running sums and of loads by index: calls, loops and addresses that are not those of the template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from lowering_checks import graph

from autofuse.api import BuildResult, build
from autofuse.codegen.ir.calls import Call, Count, Number
from autofuse.codegen.ir.kernel_ir import CopyIn, For, IndexRead, KernelFn, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.expr.expression import ZERO
from autofuse.implgraph.ir.graph import ImplGraph

Edit = Callable[[Stmt], Stmt | None]


def messages(built: BuildResult, impl: ImplGraph, fn: KernelFn) -> list[str]:
    return [d.message for d in verify_kernel(fn, impl, built.graph, built.target)]


def functions(built: BuildResult, template: str) -> Iterator[tuple[ImplGraph, KernelFn]]:
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        if impl.template == template:
            tensors = parameter_names(built.graph)
            yield impl, run_passes(lower_kernel(impl, tensors, built.target))


def edited(body: tuple[Stmt, ...], edit: Edit) -> tuple[Stmt, ...]:
    """The statements after an edit of each; None deletes one."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            s = replace(s, body=edited(s.body, edit))
        made = edit(s)
        out += [] if made is None else [made]
    return tuple(out)


# sums -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[((300, 400), 0), ((5, 40000), 1)], ids=str)
def sums(request: pytest.FixtureRequest) -> BuildResult:
    shape, axis = request.param
    nodes = [("y", "CumSum", ["x"], {"axis": axis, "reverse": True})]
    return build(graph({"x": shape}, nodes, ["y"]), verify_ir=False)


def counts_by(n: int, step: int) -> Edit:
    def edit(s: Stmt) -> Stmt:
        if not isinstance(s, Call) or s.api != "Scan":
            return s
        places = [i for i, a in enumerate(s.args) if isinstance(a, Count)]
        if n >= len(places):
            return s
        i = places[n]
        old = s.args[i]
        assert isinstance(old, Count)
        return replace(s, args=(*s.args[:i], Count(old.value + step), *s.args[i + 1 :]))

    return edit


@pytest.mark.parametrize("step", [-8, -1, 1, 8])
def test_extents(sums, step):
    """Every number of elements in the calls of every template; a sum of one row has only its length."""
    tried = []
    for template in ("scan", "scan_all"):
        for impl, fn in functions(sums, template):
            assert messages(sums, impl, fn) == []
            bodies = [edited(fn.body, counts_by(n, step)) for n in range(3)]
            changed = [replace(fn, body=b) for b in bodies if b != fn.body]
            assert all(messages(sums, impl, c) for c in changed)
            tried.append(len(changed))
    assert tried in ([2, 2, 3], [1])


@pytest.mark.parametrize("of", [(False, False), (True, True)])
def test_another_kind_of_sum(sums, of):
    def edit(s: Stmt) -> Stmt:
        return replace(s, of=of) if isinstance(s, Call) and s.api == "Scan" else s

    (impl, fn), *_ = functions(sums, "scan")
    assert "is done by" in messages(sums, impl, replace(fn, body=edited(fn.body, edit)))[0]


def test_a_loop_in_the_other_direction(sums):
    (impl, fn), *_ = functions(sums, "scan")
    nodes = tuple(
        replace(n, attrs={**n.attrs, "reverse": False}) if n.op == "Scan" else n for n in impl.nodes
    )
    forward = replace(impl, nodes=nodes)
    lowered = run_passes(lower_kernel(forward, fn.params, sums.target))
    assert messages(sums, forward, lowered) == []
    # The kernel of the one is not that of the other.
    assert messages(sums, forward, fn)
    assert messages(sums, impl, lowered)


def test_a_sum_that_begins_with_something(sums):
    def edit(s: Stmt) -> Stmt:
        if not isinstance(s, Call) or s.api != "Duplicate":
            return s
        args = tuple(replace(a, value=1.0) if isinstance(a, Number) else a for a in s.args)
        return replace(s, args=args)

    (impl, fn), *_ = functions(sums, "scan")
    assert messages(sums, impl, replace(fn, body=edited(fn.body, edit)))
    nodes = tuple(
        replace(n, attrs={"value": 1.0}) if n.name.endswith("_nothing") else n for n in impl.nodes
    )
    other = replace(impl, nodes=nodes)
    lowered = run_passes(lower_kernel(other, fn.params, sums.target))
    assert messages(sums, other, lowered) == ["the sum does not begin with 0"]


def test_a_carry_that_is_left_out(sums):
    (impl, fn), *_ = functions(sums, "scan")
    nodes = tuple(replace(n, inputs=n.inputs[:1]) if n.op == "Scan" else n for n in impl.nodes)
    other = replace(impl, nodes=nodes)
    found = messages(sums, other, fn)
    assert "nothing is carried from tile to tile" in found


# indices --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> BuildResult:
    inputs = {"x": (50, 64), "i": ((300,), "int32"), "j": ((300,), "int32")}
    nodes = [
        ("a", "Gather", ["x", "i"], {"axis": 0}),
        ("b", "Gather", ["x", "j"], {"axis": 0}),
        ("y", "Add", ["a", "b"]),
    ]
    return build(graph(inputs, nodes, ["y"]), verify_ir=False)


def other_index(s: Stmt) -> Stmt:
    locals_ = {"i_local": "j_local", "j_local": "i_local"}
    return replace(s, local=locals_[s.local]) if isinstance(s, IndexRead) else s


def other_place(s: Stmt) -> Stmt:
    return replace(s, offset=ZERO) if isinstance(s, IndexRead) else s


def other_extent(s: Stmt) -> Stmt:
    return replace(s, extent=s.extent + 1) if isinstance(s, IndexRead) else s


def no_index(s: Stmt) -> Stmt | None:
    return None if isinstance(s, IndexRead) else s


def other_row(s: Stmt) -> Stmt:
    inside = isinstance(s, CopyIn) and any("_at" in name for name in s.gm_offset.symbols())
    return replace(s, gm_offset=s.gm_offset + 1) if inside else s  # type: ignore[call-arg, union-attr]


def no_place(s: Stmt) -> Stmt:
    inside = isinstance(s, CopyIn) and any("_at" in name for name in s.gm_offset.symbols())
    if not inside:
        return s
    assert isinstance(s, CopyIn)
    (at,) = (name for name in s.gm_offset.symbols() if name.endswith("_at"))
    return replace(s, gm_offset=s.gm_offset.substitute({at: ZERO}))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (other_index, "is read as the index"),
        (other_place, "UB offset of an index"),
        (other_extent, "extent of what is indexed"),
        (no_index, "no statement reads the index"),
        (other_row, "GM offset"),
        (no_place, "GM offset"),
    ],
    ids=lambda e: getattr(e, "__name__", None),
)
def test_another_address(rows, edit, words):
    found = list(functions(rows, "row"))
    assert found
    for impl, fn in found:
        assert messages(rows, impl, fn) == []
        changed = messages(rows, impl, replace(fn, body=edited(fn.body, edit)))
        assert any(words in text for text in changed), changed
