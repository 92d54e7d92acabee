"""Removes sizes and indices that no statement uses; a compiler would warn about them."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any

from autofuse.codegen.kernel_ir import For, KernelFn, Let, ReturnIfEmpty, Stmt
from autofuse.implgraph.dtypes import DType
from autofuse.implgraph.expr import Expr
from autofuse.implgraph.frozen import replace
from autofuse.implgraph.graph import Position

__all__ = ["RemoveUnused"]


#: Types of members that hold no expressions, and how fields of statements are declared that have no others.
_LEAVES = frozenset({str, int, bool, float, DType, Position, type(None)})
_PLAIN = frozenset({"str", "int", "bool", "DType", "Position", "tuple[str, ...]"})


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
            _use(s, used)
        out.append(s)
    return tuple(reversed(out))


def _use(value: Any, used: set[str]) -> None:
    """Adds the symbols of all expressions in a statement or in a part of one."""
    kind: Any = type(value)
    if kind is Expr:
        used |= value.symbols()
        return
    members = value if kind is tuple else [getattr(value, name) for name in _members(kind)]
    for member in members:
        if type(member) not in _LEAVES:
            _use(member, used)


@lru_cache(maxsize=256)
def _members(kind: type) -> tuple[str, ...]:
    """The fields of a statement or of a part of one that may hold expressions; nothing for what is neither."""
    return tuple(f.name for f in fields(kind) if f.type not in _PLAIN) if is_dataclass(kind) else ()
