"""Rows in vector registers: calls that reduce rows or have an operand per row, and each tensor's relation to rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autofuse.codegen.ir.calls import Call, Count
from autofuse.codegen.passes.register_calls import in_registers, stated_count
from autofuse.implgraph.expr.expression import Expr, const
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
    "shared_rows",
]

#: Reductions on registers, by the template argument of ``Reduce``, and the call that joins two partial results.
#: ``SumInOrder``, whose order is the same for every number of rows, stays a call: its order is part of its definition.
_REDUCTIONS = {"SumOf": "SUM", "MaxOf": "MAX", "MinOf": "MIN"}
JOINS = {"SUM": "Add", "MAX": "Max", "MIN": "Min"}


def reduction_of(s: Call) -> str:
    """Return the kind of a reduction along rows: ``SUM``, ``MAX``, ``MIN``; empty if registers have none."""
    return _REDUCTIONS.get(str(s.of[0]), "") if s.api == "Reduce" and s.form == "Inner" else ""


def neutral_element(kind: str, dtype: DType) -> float | int:
    """Return the value that a reduction assumes for lanes that are off."""
    if kind == "SUM":
        return 0
    if dtype.kind == "f":
        return -math.inf if kind == "MAX" else math.inf
    lowest = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
    return lowest if kind == "MAX" else lowest + (1 << dtype.bits) - 1


def row_operation(s: Call) -> tuple[str, bool]:
    """Return the register call for a call with one element per row, and whether that element is its first operand."""
    (name,) = map(str, s.of)
    return name.replace("Row", ""), name.startswith("Row")


def counts_of_rows(s: Call) -> tuple[Expr, Expr | None, Expr] | None:
    """Return the rows, the reduced elements of each, and the pitch; None for calls without rows."""
    counts = [a.value for a in s.args if isinstance(a, Count)]
    if reduction_of(s):
        return counts[0], counts[1], counts[2]
    if s.api == "WithRows" or (s.api == "Broadcast" and s.form == "Inner"):
        return counts[0], None, counts[1]
    if s.api == "Broadcast" and counts[0].as_int() == 1:
        return counts[1], None, counts[2]
    return None


def shared_rows(calls: Iterable[Call]) -> set[str]:
    """Return the tensors with one row for all rows: those copied to each row, and the inputs of their calls."""
    found = set[str]()
    for s in reversed([*calls]):
        if (s.api == "Broadcast" and s.form == "Outer") or s.writes[0] in found:
            found |= {*s.reads}
    return found


def row_in_registers(s: Call, dtypes: dict[str, DType], arch: Architecture) -> bool:
    """Return True if functions on registers support a call with rows."""
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
        count, length, pitch: as in ``Rows``.
        full: tensors with all elements of the rows.
        single: tensors with one element per row.
        shared: tensors with one row for all rows.
        constants: tensors of any kind filled by a Duplicate.
        copies: full tensors that copy an element, or one row -> the copied tensor.
        level: number of dependent reductions before a value; a value that needs none takes the level of its first use.
    """

    count: Expr
    length: int
    pitch: int
    full: set[str] = field(default_factory=set)
    single: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)
    copies: dict[str, str] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)


def row_calls(
    calls: Sequence[Call], dtypes: dict[str, DType], arch: Architecture
) -> RowCalls | None:
    """Return ``calls`` as calls over the same rows; None if they cannot be one function, or row lengths are unknown."""
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
    found = RowCalls(count, length.value, pitch.value, shared=shared_rows(calls))
    found.level.update(dict.fromkeys(found.shared, 0))
    before = set[str]()
    for s in calls:
        before |= {*s.reads}
        if s.writes[0] in before or not _add(found, s, dtypes, arch):
            return None
        before.add(s.writes[0])
    _late(found, calls)
    return found


def _late(r: RowCalls, calls: Sequence[Call]) -> None:
    """To free registers, sink calls without reductions to their first use, unless operands are read before."""
    read: dict[str, int] = {}
    for s in reversed(calls):
        to, level = s.writes[0], r.level[s.writes[0]] - (s.api == "Reduce")
        if level == 0 and s.api != "Reduce" and s.api != "Duplicate" and to in read:
            level = read[to]
            if any([x in read and read[x] < level for x in s.reads]):
                level = 0
            r.level[to] = level
        for x in s.reads:
            read[x] = min(read.get(x, level), level)


def _add(r: RowCalls, s: Call, dtypes: dict[str, DType], arch: Architecture) -> bool:
    """Add a call; return False if it covers other elements."""
    to = s.writes[0]
    if counts_of_rows(s) is None:
        if not in_registers(s, dtypes, arch):
            return False
        have = s.args[-1]
        assert isinstance(have, Count)
        if to in r.shared:
            # Elements past the end are never used.
            own = [stated_count(s, const(x), dtypes, arch) for x in (r.length, r.pitch)]
            if have.value not in own:
                return False
            reads, results = r.shared, r.shared
        elif have.value == stated_count(s, r.count * r.pitch, dtypes, arch):
            reads, results = r.full, r.full
        elif have.value == stated_count(s, r.count, dtypes, arch):
            reads, results = r.single, r.single
        else:
            return False
        if not all([_is(r, x, reads) for x in s.reads]):
            return False
    else:
        wide = {"Reduce": s.reads, "WithRows": s.reads[:1], "Broadcast": ()}[s.api]
        narrow = r.shared if s.form == "Outer" else r.single
        if to in r.shared or not all([_is(r, x, r.full if x in wide else narrow) for x in s.reads]):
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
    """Return True if a tensor is of a kind; an unknown tensor is an input, and becomes one."""
    if x not in r.full and x not in r.single and x not in r.shared:
        kind.add(x)
        r.level[x] = 0
    return x in kind
