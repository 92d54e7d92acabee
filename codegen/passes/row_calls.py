"""Rows in vector registers: the calls that reduce them or have an element per row, and what each tensor is to a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from autofuse.codegen.ir.kernel_ir import Call, Count
from autofuse.codegen.passes.register_calls import in_registers, stated_count
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.targets import Architecture

__all__ = [
    "JOINS",
    "RowCalls",
    "counts_of_rows",
    "neutral_element",
    "reduction_of",
    "row_calls",
    "row_in_registers",
    "row_operation",
]

#: Reductions that registers have, by the template argument of ``Reduce``, and the call that joins two partial results.
#: The sum whose order is the same for every number of rows, ``SumInOrder``, stays a call: its order is stated.
_REDUCTIONS = {"SumOf": "SUM", "MaxOf": "MAX", "MinOf": "MIN"}
JOINS = {"SUM": "Add", "MAX": "Max", "MIN": "Min"}


def reduction_of(s: Call) -> str:
    """The kind of a reduction along rows: ``SUM``, ``MAX``, ``MIN``; empty where registers have none."""
    return _REDUCTIONS.get(str(s.of[0]), "") if s.api == "Reduce" and s.form == "Inner" else ""


def neutral_element(kind: str, dtype: DType) -> float | int:
    """What a reduction takes for lanes that are off."""
    if kind == "SUM":
        return 0
    if dtype.kind == "f":
        return -math.inf if kind == "MAX" else math.inf
    lowest = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
    return lowest if kind == "MAX" else lowest + (1 << dtype.bits) - 1


def row_operation(s: Call) -> tuple[str, bool]:
    """The call on registers of one with an element per row, and whether that element is its first operand."""
    (name,) = map(str, s.of)
    return name.replace("Row", ""), name.startswith("Row")


def counts_of_rows(s: Call) -> tuple[Expr, Expr | None, Expr] | None:
    """Rows, elements of each that are reduced, and elements from one to the next; None for calls without rows."""
    counts = [a.value for a in s.args if isinstance(a, Count)]
    if reduction_of(s):
        return counts[0], counts[1], counts[2]
    if s.api == "WithRows" or (s.api == "Broadcast" and s.form == "Inner"):
        return counts[0], None, counts[1]
    return None


def row_in_registers(s: Call, dtypes: dict[str, DType], arch: Architecture) -> bool:
    """Whether a call with rows can be made of functions on registers."""
    if counts_of_rows(s) is None:
        return False
    of = {dtypes.get(x) for x in (s.writes[0], *s.reads)}
    (d,) = of if len(of) == 1 else (None,)
    if d is None or d.kind == "m" or d.itemsize > 4:
        return False
    if s.api == "Broadcast":
        return True
    name = row_operation(s)[0] if s.api == "WithRows" else f"Reduce{reduction_of(s).title()}"
    return arch.takes_in_registers(name, d.name)


@dataclass
class RowCalls:
    """Calls over the same rows.

    Attributes:
        count, length, pitch: as of ``Rows``.
        full: tensors with all elements of the rows.
        single: those with an element per row.
        constants: those of either kind that a Duplicate fills.
        copies: full tensors that are copies of elements, and the tensors of these.
        level: of a value: how many reductions, one needing the other, are before it.
    """

    count: Expr
    length: int
    pitch: int
    full: set[str] = field(default_factory=set)
    single: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)
    copies: dict[str, str] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)


def row_calls(
    calls: Sequence[Call], dtypes: dict[str, DType], arch: Architecture
) -> RowCalls | None:
    """What calls do to rows; None where that is not one function, or the rows have no known length."""
    known = [c for c in map(counts_of_rows, calls) if c is not None]
    if not known:
        return None
    count, _, pitch = known[0]
    lengths = {length for _, length, _ in known if length is not None} or {pitch}
    if any([(r, p) != (count, pitch) for r, _, p in known]) or len(lengths) > 1:
        return None
    (length,) = lengths
    if length.as_int() is None or pitch.as_int() is None:
        return None
    found = RowCalls(count, length.value, pitch.value)
    for s in calls:
        if not _add(found, s, dtypes, arch):
            return None
    return found


def _add(r: RowCalls, s: Call, dtypes: dict[str, DType], arch: Architecture) -> bool:
    """Adds a call; False where it goes through other elements, or writes what was there before."""
    to = s.writes[0]
    if to in r.full or to in r.single:
        return False
    if counts_of_rows(s) is None:
        if not in_registers(s, dtypes, arch):
            return False
        have = s.args[-1]
        assert isinstance(have, Count)
        if have.value == stated_count(s, r.count * r.pitch, dtypes, arch):
            reads, results = r.full, r.full
        elif have.value == stated_count(s, r.count, dtypes, arch):
            reads, results = r.single, r.single
        else:
            return False
        if to in s.reads or not all([_is(r, x, reads) for x in s.reads]):
            return False
    else:
        wide = {"Reduce": s.reads, "WithRows": s.reads[:1], "Broadcast": ()}[s.api]
        if not all([_is(r, x, r.full if x in wide else r.single) for x in s.reads]):
            return False
        results = r.single if s.api == "Reduce" else r.full
    if s.api == "Duplicate":
        r.constants.add(to)
    if s.api == "Broadcast":
        r.copies[to] = s.reads[0]
    results.add(to)
    r.level[to] = max([r.level[x] for x in s.reads], default=0) + (s.api == "Reduce")
    return True


def _is(r: RowCalls, x: str, kind: set[str]) -> bool:
    """Whether a tensor is of a kind; one that nothing is known of is read, and becomes one."""
    if x not in r.full and x not in r.single:
        kind.add(x)
        r.level[x] = 0
    return x in kind
