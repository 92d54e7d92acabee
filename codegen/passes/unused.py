"""Remove sizes and indices that no statement uses; a compiler would warn about them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_args

from autofuse.codegen.ir.calls import Arg, Rows
from autofuse.codegen.ir.kernel_ir import (
    DmaBlock,
    DmaDims,
    For,
    KernelFn,
    Let,
    ReturnIfEmpty,
    Stmt,
    TilingField,
)
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import replace
from autofuse.schedule.placement.copied import DmaDim

__all__ = ["RemoveUnused"]


#: Annotations of fields that hold no expressions.
_PLAIN = frozenset(
    {"str", "str | None", "int", "bool", "float | int", "tuple[str, ...]", "tuple[str | bool, ...]"}
    | {"DType", "DType | None", "Form", "Loop", "Position", "Role"}
    | {
        "tuple[tuple[str, DType], ...]",
        "tuple[tuple[str, ...], ...]",
        "tuple[RowStep | RowLoop, ...]",
    }
)
#: The other fields of a statement, or of a part of one.
_MEMBERS: dict[type, tuple[str, ...]] = {
    kind: tuple(f.name for f in fields(kind) if f.type not in _PLAIN)
    for kind in (*get_args(Stmt), *get_args(Arg), DmaBlock, DmaDim, DmaDims, Rows)
}
#: Statements that may use a size or an index.
_USING = frozenset(
    {kind for kind, names in _MEMBERS.items() if names} | {Expr, ReturnIfEmpty, TilingField}
)


@dataclass(frozen=True)
class RemoveUnused:
    """Drop every ``Let`` and ``TilingField`` whose name does not occur later, and chains of them."""

    name: str = "remove-unused"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """Return the function without unused definitions."""
        return replace(fn, body=_sweep(fn.body, set()))


def _sweep(body: tuple[Stmt, ...], used: set[str]) -> tuple[Stmt, ...]:
    """Walk backwards, so that uses precede their definition."""
    out: list[Stmt] = []
    for s in reversed(body):
        kind = type(s)
        if kind not in _USING:
            pass
        elif isinstance(s, TilingField):
            if s.name not in used:
                continue
        elif isinstance(s, Let):
            if s.name not in used:
                continue
            used |= s.value.symbols()
        elif isinstance(s, For):
            s = replace(s, body=_sweep(s.body, used))
            used |= s.extent.symbols()
        elif isinstance(s, ReturnIfEmpty):
            used.add(s.value)
        else:
            for member in _MEMBERS[kind]:
                _use(getattr(s, member), used)
        out.append(s)
    return tuple(reversed(out))


def _use(value: Any, used: set[str]) -> None:
    """Add the symbols of all expressions in a member of a statement."""
    kind = type(value)
    if kind is Expr:
        if not value.is_const:
            used |= value.symbols()
    elif kind is tuple:
        for part in value:
            if type(part) in _USING:
                _use(part, used)
    elif value is not None:
        for member in _MEMBERS[kind]:
            _use(getattr(value, member), used)
