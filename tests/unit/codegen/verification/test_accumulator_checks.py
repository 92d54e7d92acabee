"""Static checks of accumulators that are corrected, and of buffers that results take over from loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autofuse import api
from autofuse.codegen.ir.calls import Call, SizeValue
from autofuse.codegen.ir.kernel_ir import Alias, DeQue, EnQue, For, Free, KernelFn, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.ir.graph import ImplGraph

GRAPHS = Path(__file__).resolve().parents[3] / "snapshot" / "graphs"


def kernel(
    name: str, template: str, suffix: str = ""
) -> tuple[api.BuildResult, ImplGraph, KernelFn]:
    built = api.build(GRAPHS / f"{name}.json", verify_ir=True)
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    impl = next(i for i in impls if (i.template, i.suffix) == (template, suffix))
    fn = run_passes(lower_kernel(impl, parameter_names(built.graph), built.target))
    return built, impl, fn


@pytest.fixture(scope="module")
def norm() -> tuple[api.BuildResult, ImplGraph, KernelFn]:
    return kernel("norm_online", "reduce")


@pytest.fixture(scope="module")
def shared() -> tuple[api.BuildResult, ImplGraph, KernelFn]:
    return kernel("softmax_shared", "reduce_all", "tight")


def findings(of: tuple[api.BuildResult, ImplGraph, KernelFn], change: Callable[..., Stmt | None]):
    """What is said of the kernel with every statement changed."""
    built, impl, fn = of

    def walk(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out = []
        for s in body:
            made = change(s)
            if isinstance(made, For):
                made = replace(made, body=walk(made.body))
            out += [] if made is None else [made]
        return tuple(out)

    wrong = replace(fn, body=walk(fn.body))
    return [d.message for d in verify_kernel(wrong, impl, built.graph, built.target)]


def test_the_kernels_are_proved(norm, shared):
    assert findings(norm, lambda s: s) == []
    assert findings(shared, lambda s: s) == []


def later(fn: KernelFn, local: str) -> KernelFn:
    """The kernel with the call to a tensor of the first reduce loop at the end of that loop."""
    (tiles,) = [s for s in fn.body if isinstance(s, For)]
    body = list(tiles.body)
    at = next(i for i, s in enumerate(body) if isinstance(s, For))
    loop = body[at]
    assert isinstance(loop, For)
    moved = [s for s in loop.body if isinstance(s, Call) and s.writes[0] == local]
    rest = [s for s in loop.body if s not in moved]
    assert moved
    body[at] = replace(loop, body=(*rest, *moved))
    return replace(
        fn, body=tuple(replace(s, body=tuple(body)) if s is tiles else s for s in fn.body)
    )


def test_the_old_value_is_read_before_the_new_one_is_made(norm):
    built, impl, fn = norm
    wrong = later(fn, "mean_1_move_local")
    found = [d.message for d in verify_kernel(wrong, impl, built.graph, built.target)]
    assert any("after" in text and "has overwritten it" in text for text in found), found


def test_the_new_value_is_read_after_it_is_made(norm):
    built, impl, fn = norm
    wrong = later(fn, "mean_reducesum_acc_local")
    found = [d.message for d in verify_kernel(wrong, impl, built.graph, built.target)]
    assert any("before it is made" in text for text in found), found


@pytest.mark.parametrize("by", [-1, 1])
def test_elements_are_counted(norm, by):
    seen = []

    def change(s: Stmt) -> Stmt:
        if isinstance(s, Call) and any(isinstance(a, SizeValue) for a in s.args) and not seen:
            seen.append(s)
            args = (
                replace(a, value=a.value + by) if isinstance(a, SizeValue) else a for a in s.args
            )
            return replace(s, args=tuple(args))
        return s

    found = findings(norm, change)
    assert any("counts" in text for text in found), found


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda s: replace(s, link="") if isinstance(s, EnQue | DeQue) else s, "while it is"),
        (
            lambda s: replace(s, link="") if isinstance(s, DeQue) and s.link == "in" else s,
            "waits for another pipe",
        ),
        (
            lambda s: replace(s, link="in") if isinstance(s, EnQue | DeQue) and s.link else s,
            "which is",
        ),
        (lambda s: None if isinstance(s, EnQue | DeQue) and s.link == "out" else s, "allocated"),
        (lambda s: None if isinstance(s, Alias) else s, "while no queue holds it"),
        (lambda s: None if isinstance(s, Free) else s, "is not empty"),
        (
            lambda s: replace(s, of="softmax_exp_local") if isinstance(s, Alias) else s,
            "has the memory of",
        ),
    ],
    ids=["straight", "other pipe", "in again", "no way out", "no alias", "no free", "of another"],
)
def test_the_way_through_a_shared_buffer(shared, change, text):
    found = findings(shared, change)
    if text == "allocated":
        assert found
    else:
        assert any(text in message for message in found), found


def test_what_is_loaded_is_read_before_it_is_taken_over(shared):
    """The load is read after another tensor has its buffer."""
    built, impl, fn = shared
    (tiles,) = [s for s in fn.body if isinstance(s, For)]
    calls = [s for s in tiles.body if isinstance(s, Call)]
    largest = next(s for s in calls if (s.api, s.of) == ("Reduce", ("MaxOf",)))
    over = next(s for s in calls if s.of == ("SubRow",))
    rest = [s for s in tiles.body if s is not largest]
    at = rest.index(over) + 1
    body = (*rest[:at], largest, *rest[at:])
    wrong = replace(fn, body=tuple(replace(s, body=body) if s is tiles else s for s in fn.body))
    found = [d.message for d in verify_kernel(wrong, impl, built.graph, built.target)]
    assert any("x_local is read, but" in text for text in found), found
