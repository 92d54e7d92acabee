"""Checks of elements that the scalar unit reads from GM: another element, another tensor, no wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autofuse import api
from autofuse.codegen.ir.kernel_ir import CopyIn, KernelFn, ScalarRead, Stmt, Sync
from autofuse.codegen.lower.kernel import lower_templates
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.expr.expression import ONE
from tests.unit.schedule.conftest import make_graph

Change = Callable[[Stmt], Stmt | None]


def findings(change: Change) -> list[str]:
    """Findings for a kernel with two scalars, one of them converted, after an edit of its statements."""
    inputs = {"x": ("float32", [4096]), "s": ("int32", [1]), "k": ("float32", [1])}
    nodes = [
        ("f", "Cast", ["s"], {"dtype": "float32"}),
        ("m", "Mul", ["x", "f"]),
        ("y", "Add", ["m", "k"]),
    ]
    built = api.build(make_graph(inputs, nodes, ["y"]), target="ascend910b1")
    impl = built.schedule[0].groups[0].impls[0]
    fn = run_passes(lower_templates(built.graph, built.schedule, built.target)[impl.name])
    body = tuple(new for s in fn.body if (new := change(s)) is not None)
    made: KernelFn = replace(fn, body=body)
    return [d.message for d in verify_kernel(made, impl, built.graph, built.target)]


def reads(s: Stmt, gm: str) -> bool:
    return isinstance(s, ScalarRead) and s.gm == gm


def beyond(s: Stmt) -> Stmt:
    assert isinstance(s, ScalarRead)
    return replace(s, offset=ONE)


CHANGES: dict[str, tuple[Change, str]] = {
    "behind the tensor": (lambda s: beyond(s) if reads(s, "k_gm") else s, "GM offset"),
    "of another tensor": (
        lambda s: replace(s, gm="x_gm") if reads(s, "k_gm") else s,
        "is no element of",
    ),
    "not read": (lambda s: None if reads(s, "k_gm") else s, "is used before it is read"),
    "not read for UB": (lambda s: None if reads(s, "s_gm") else s, "is used before it is read"),
    "another element in UB": (
        lambda s: replace(s, scalar="k_scalar") if isinstance(s, CopyIn) and s.scalar else s,
        "gets another element than s_scalar",
    ),
    "not put into UB": (
        lambda s: None if isinstance(s, CopyIn) and s.scalar else s,
        "holds nothing yet",
    ),
    "not awaited": (
        lambda s: None if s == Sync("S", "V") else s,
        "without waiting for the scalar unit",
    ),
}


def test_as_it_is_nothing_is_found() -> None:
    assert findings(lambda s: s) == []


@pytest.mark.parametrize("name", CHANGES)
def test_faults_are_found(name: str) -> None:
    change, text = CHANGES[name]
    assert any(text in m for m in findings(change)), findings(change)
