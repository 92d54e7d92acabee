"""Kernels for Ascend 950 and their functions on vector registers, as passes leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from autofuse import api
from autofuse.codegen.ir.calls import Call
from autofuse.codegen.ir.calls import VectorFunction as Function
from autofuse.codegen.ir.kernel_ir import For, KernelFn, Stmt
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.codegen.verification.registers import functions_on_registers_are_whole
from autofuse.implgraph.ir.graph import ImplGraph

CHIP = "ascend950pr"

Made = tuple[KernelFn, ImplGraph, api.BuildResult]


def made(document: Any, target: str = CHIP, template: str = "") -> Made:
    """The first template of a graph, or the first one with a word in its name."""
    built = api.build(document, target=target)
    impls = [i for r in built.schedule for g in r.groups for i in g.impls if template in i.name]
    fn = run_passes(lower_kernel(impls[0], parameter_names(built.graph), built.target))
    return fn, impls[0], built


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from statements(s.body)


def functions(fn: KernelFn) -> list[Function]:
    return [s for s in statements(fn.body) if isinstance(s, Function)]


def calls(fn: KernelFn) -> list[Call]:
    return [s for s in statements(fn.body) if isinstance(s, Call)]


def findings(
    m: Made,
    change: Callable[[Function], Function],
    check: Callable[[Kernel], Iterator[Finding]] = functions_on_registers_are_whole,
) -> list[str]:
    """What a check says of a kernel whose functions were changed."""
    fn, impl, built = m

    def of(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Function):
                s = change(s)
            elif isinstance(s, For):
                s = replace(s, body=of(s.body))
            out.append(s)
        return tuple(out)

    kernel = Kernel(replace(fn, body=of(fn.body)), impl, built.graph, built.target)
    return [f.message for f in check(kernel)]
