"""Checks of runs whose elements are picked in UB: a call or a copy with any other extent than its own is a finding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autofuse.api import build
from autofuse.codegen.ir.calls import Call, Count, LocalArg, SizeValue
from autofuse.codegen.ir.kernel_ir import CopyIn, For, KernelFn, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, const, sym
from autofuse.schedule.placement.copied import DmaDim, run_dims

#: Slices of float32 [40, 300], or of int64: the call that picks their elements.
SLICES = {
    "PickByMask": ("float32", 2, 1),
    "PickAhead": ("float32", 3, 0),
    "PickBack": ("float32", -2, 299),
    "pairs": ("int64", -3, 299),
}


@pytest.fixture(scope="module", params=SLICES)
def built(request):
    dtype, step, start = SLICES[request.param]
    attrs = {"starts": [0, start], "shape": [40, 90], "steps": [1, step]}
    return build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "inputs": [
                {"name": "x", "dtype": dtype, "shape": [40, 300]},
                {"name": "r", "dtype": dtype, "shape": [1, 90]},
            ],
            "nodes": [
                {"name": "n", "op": "Slice", "inputs": ["x"], "outputs": ["a"], "attrs": attrs},
                {"name": "m", "op": "Add", "inputs": ["a", "r"], "outputs": ["y"]},
            ],
            "outputs": ["y"],
        },
        verify_ir=False,
    )


def changed(body: tuple[Stmt, ...], change) -> tuple[Stmt, ...]:
    out = []
    for s in body:
        s = replace(s, body=changed(s.body, change)) if isinstance(s, For) else s
        out.append(change(s))
    return tuple(out)


def findings(built, change) -> tuple[int, bool]:
    """How many statements of all templates a change altered, and whether each function of them has a finding."""
    tensors, altered, missed = parameter_names(built.graph), 0, []
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        fn = run_passes(lower_kernel(impl, tensors, built.target))
        body = changed(fn.body, change)
        if body != fn.body:
            altered += 1
            mutant = KernelFn(fn.name, fn.params, body, fn.title)
            if not verify_kernel(mutant, impl, built.graph, built.target):
                missed.append(mutant)
    return altered, not missed


def is_pick(s: Stmt) -> bool:
    return isinstance(s, Call) and s.api.startswith("Pick") and bool(s.reads)


def test_kernels_are_proved(built):
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        fn = run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))
        assert verify_kernel(fn, impl, built.graph, built.target) == []


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("by", [-1, 1, 4096])
def test_extents_of_calls(built, place, by):
    def change(s):
        counts = [i for i, a in enumerate(s.args) if isinstance(a, Count)] if is_pick(s) else []
        if place >= len(counts):
            return s
        args = list(s.args)
        args[counts[place]] = Count(args[counts[place]].value + by)
        return replace(s, args=tuple(args))

    altered, found = findings(built, change)
    assert found
    assert altered or place > 1


def test_another_function(built):
    others = {"PickByMask": "PickAhead", "PickAhead": "PickByMask", "PickBack": "PickAhead"}

    def change(s):
        if not is_pick(s):
            return s
        return replace(s, api=others[s.api])

    assert findings(built, change) >= (1, True)


@pytest.mark.parametrize("by", [-4, 4])
def test_a_table_of_another_step(built, by):
    def change(s):
        if not (isinstance(s, Call) and s.api.endswith("Offsets")):
            return s
        *rest, step = s.args
        assert isinstance(step, SizeValue)
        return replace(s, args=(*rest, replace(step, value=step.value + by)))

    assert findings(built, change)[1]


def test_tables_are_operands_of_their_call(built):
    def change(s):
        locals_ = [a for a in s.args if isinstance(a, LocalArg)] if is_pick(s) else []
        if len(locals_) < 3:
            return s
        first = s.args[2]
        return replace(s, args=(s.args[0], first, first, *s.args[3:]))

    assert findings(built, change)[1]


@pytest.mark.parametrize("field", ["count", "length", "gm_gap", "ub_gap"])
@pytest.mark.parametrize("by", [-4, 4])
def test_runs(built, field, by):
    def change(s):
        if not (isinstance(s, CopyIn) and "_run" in s.local):
            return s
        block = replace(s.block, **{field: getattr(s.block, field) + by})
        return replace(s, block=block, block_name="")

    assert findings(built, change) >= (1, True)


@pytest.mark.parametrize("by", [-1, 1])
def test_where_runs_begin(built, by):
    def change(s):
        if not (isinstance(s, CopyIn) and "_run" in s.local):
            return s
        return replace(s, gm_offset=s.gm_offset + by)

    assert findings(built, change) >= (1, True)


def test_dimensions_of_a_run():
    n, m = sym("n"), sym("m")
    assert run_dims([DmaDim(n, const(3), const(3))]) == ([DmaDim(3 * n - 2, ONE, ONE)], ZERO)
    # Rows that go on where those before them end are one run.
    rows = [DmaDim(m, 3 * n, 3 * n), DmaDim(n, const(3), const(3))]
    assert run_dims(rows) == ([DmaDim(3 * m * n - 2, ONE, ONE)], ZERO)
    apart = [DmaDim(m, 3 * n + 1, 3 * n), DmaDim(n, const(3), const(3))]
    assert run_dims(apart) == ([apart[0], DmaDim(3 * n - 2, ONE, ONE)], ZERO)
    # From their end, they are runs of their own, which begin at the last element.
    back = [DmaDim(m, -2 * n, 2 * n), DmaDim(n, const(-2), const(2))]
    assert run_dims(back) == ([back[0], DmaDim(2 * n - 1, ONE, ONE)], 2 - 2 * n)
