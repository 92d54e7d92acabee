"""Operands with one element per row: calls that read it from a separate block, instead of a Broadcast.

``x - max`` and ``x * scale`` of rows take a tensor and a number per row.  A Broadcast would first fill a whole row of
UB with the number, which takes a pass over the tile and a tensor of its size.  The chip can read the same 32 bytes for
every block of a repeat: the calls of ``autofuse_rows.h`` take the number from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from autofuse.implgraph.expr.expression import ZERO, Expr
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import find_call
from autofuse.implgraph.ops.rows.device import ROW_OPERANDS
from autofuse.targets import Architecture

__all__ = ["broadcast_run", "row_extents", "with_row_operands"]

#: Each call spreads the elements again: from this many on, one Broadcast for all is cheaper.
_USERS = 3


def broadcast_run(n: Node, source: Node) -> list[int]:
    """Return the positions of the vectorised axes of ``n`` that ``source`` lacks."""
    have = set(source.y.vectorized_axis)
    return [i for i, a in enumerate(n.y.vectorized_axis) if a not in have]


def with_row_operands(
    hoisted: Sequence[Node], looped: Sequence[Node], arch: Architecture
) -> tuple[Node, ...]:
    """Return the nodes of a loop, where users of a Broadcast along rows take its operand directly.

    Args:
        hoisted: nodes before the loop.
        looped: nodes of the loop, in order.
        arch: the architecture; determines the operands of calls.
    """
    named = {n.name: n for n in (*hoisted, *looped)}
    uses = Counter(i for n in (*hoisted, *looped) for i in n.inputs)
    along = {n.name: n for n in looped if n.op == "Broadcast" and _along_rows(n, named)}
    if not along:
        return tuple(looped)
    made: dict[str, Node] = {}
    taken: Counter[str] = Counter()
    for n in looped:
        found = _taking(n, along, named, arch)
        if found is not None:
            made[n.name], broadcast = found
            taken[broadcast] += 1
    gone = {name for name, times in taken.items() if times == uses[name] < _USERS}
    kept = {b for b in along if b not in gone}
    out: list[Node] = []
    for n in looped:
        if n.name in gone:
            continue
        out.append(made[n.name] if n.name in made and kept.isdisjoint(n.inputs) else n)
    return tuple(out)


def _along_rows(n: Node, named: Mapping[str, Node]) -> bool:
    """Return True if a Broadcast repeats elements along the innermost axes of the tile."""
    source = named.get(n.inputs[0])
    if source is None or n.y.offset != ZERO:
        return False
    run = broadcast_run(n, source)
    return bool(run) and run == list(range(run[0], len(n.y.vectorized_axis)))


def _taking(
    n: Node, along: Mapping[str, Node], named: Mapping[str, Node], arch: Architecture
) -> tuple[Node, str] | None:
    """Return the node with an operand per row, and the Broadcast that it replaces."""
    at = [i for i, x in enumerate(n.inputs) if x in along]
    if len(n.inputs) != 2 or len(at) != 1:
        return None
    op = ROW_OPERANDS.get((n.op, at[0]))
    broadcast, other = along[n.inputs[at[0]]], named.get(n.inputs[1 - at[0]])
    if op is None or other is None:
        return None
    call = find_call(op, arch)
    if call is None or n.y.dtype.name not in call.dtypes:
        return None
    # A Broadcast in an outer loop is executed once for many iterations of this one.
    if n.loop != broadcast.loop:
        return None
    shape = (n.y.vectorized_axis, n.y.vectorized_strides, n.y.dtype)
    for y in (broadcast.y, other.y):
        if (y.vectorized_axis, y.vectorized_strides, y.dtype) != shape:
            return None
    return replace(n, op=op, inputs=(other.name, broadcast.inputs[0])), broadcast.name


def row_extents(n: Node, source: Node, extents: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """Return the extents of the axes around the rows, and of those along them."""
    first = broadcast_run(n, source)[0]
    return list(extents[:first]), list(extents[first:])
