"""Removes sizes and indices that no statement uses; a compiler would warn about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

from autofuse.codegen.kernel_ir import For, KernelFn, Let, ReturnIfEmpty, Stmt
from autofuse.implgraph.expr import Expr

__all__ = ["RemoveUnused"]


@dataclass(frozen=True)
class RemoveUnused:
    """Drops every ``Let`` whose name does not occur later; chains of them go too."""

    name: str = "remove-unused"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """The function without unused definitions."""
        return replace(fn, body=_sweep(fn.body, set()))


def _sweep(body: tuple[Stmt, ...], used: set[str]) -> tuple[Stmt, ...]:
    """Walks backwards, so that a use is seen before its definition."""
    out: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, Let) and s.name not in used:
            continue
        if isinstance(s, For):
            s = replace(s, body=_sweep(s.body, used))
            used |= s.extent.symbols()
        elif isinstance(s, ReturnIfEmpty):
            used.add(s.value)
        else:
            for e in _expressions(s):
                used |= e.symbols()
        out.append(s)
    return tuple(reversed(out))


def _expressions(value: object) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _expressions(v)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from _expressions(getattr(value, f.name))
