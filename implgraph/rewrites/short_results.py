"""Float32 results that need only 16-bit accuracy: those that reach only casts to 16 bits.

A ``short`` formula gives float32 with a relative error far below the rounding to 16 bits.  Products, quotients and
selections preserve a relative error; a sum may cancel, so it ends the path.  In a cast reached by two such results, or
by one along two paths, their errors would add up, so only the first uses the formula.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import find

__all__ = ["Step", "cast_ends", "short_results", "steps_of"]


@dataclass(frozen=True, slots=True)
class Step:
    """One node: name of the result, op, names of operands, element type; ``rounds``: has an explicit rounding mode."""

    name: str
    op: str
    inputs: Sequence[str]
    dtype: DType
    rounds: bool = False


def cast_ends(steps: Sequence[Step], kept: Collection[str] = ()) -> dict[str, frozenset[str]]:
    """Return, for float32 results that only reach casts to 16 bits, each by one path, the names of these casts.

    Args:
        steps: all nodes, in execution order.
        kept: results with other users.
    """
    users: dict[str, list[Step]] = {}
    for s in steps:
        for x in s.inputs:
            users.setdefault(x, []).append(s)
    ends: dict[str, frozenset[str]] = {}
    for s in reversed(steps):
        if s.dtype.name != "float32" or s.name in kept or s.name not in users:
            continue
        reached = [_reached(u, ends) for u in users[s.name]]
        union = frozenset().union(*(r for r in reached if r is not None))
        if None not in reached and len(union) == sum(len(r) for r in reached if r is not None):
            ends[s.name] = union
    return ends


def _reached(user: Step, ends: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    if user.op == "Cast" and user.dtype.kind == "f" and user.dtype.itemsize == 2:
        return None if user.rounds else frozenset((user.name,))
    row = find(user.op)
    return ends.get(user.name) if row is not None and row.errors == "relative" else None


def short_results(steps: Sequence[Step]) -> frozenset[str]:
    """Return the float32 results whose op may use its ``short`` formula."""
    able = [s for s in steps if s.dtype.name == "float32" and _has_short(s.op)]
    if not able:
        return frozenset()
    ends = cast_ends(steps)
    taken: set[str] = set()
    out: set[str] = set()
    for s in able:
        reached = ends.get(s.name)
        if reached is not None and taken.isdisjoint(reached):
            taken |= reached
            out.add(s.name)
    return frozenset(out)


def _has_short(op: str) -> bool:
    row = find(op)
    return row is not None and row.short is not None


def steps_of(nodes: Iterable[Node]) -> list[Step]:
    """Return the nodes of a HintGraph as steps."""
    return [Step(n.name, n.op, n.inputs, n.y.dtype, bool(n.attrs.get("round"))) for n in nodes]
