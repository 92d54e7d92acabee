"""Limit on recomputation, which keeps it in proportion to the graph.

Groups recompute shared tensors.  In a long chain every group would recompute everything before it, and the kernel would
grow with the square of the chain's length: there a tensor half way is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from autofuse.implgraph.lowering.group import Group
from autofuse.implgraph.lowering.normalise import OP
from autofuse.implgraph.lowering.walk import Inst

__all__ = ["often_computed"]

#: Allowed instances of all groups together: in total, and per step of the graph.
_FEW, _PER_STEP = 600, 4
#: Minimum instances that a cut must save: it costs a barrier, and a load in each of the groups.
_LEAST = 64
#: Number of candidates whose savings are counted exactly; those of the others are estimated.
_COUNTED = 8


def often_computed(found: Sequence[Group], steps: int) -> int | None:
    """Return the tensor that saves most when read from a workspace; None where groups recompute little.

    Args:
        found: the groups of a graph.
        steps: number of steps of the graph.
    """
    if sum(len(g.insts) for g in found) <= max(_FEW, _PER_STEP * steps):
        return None
    times = Counter(t for g in found for t in {i.tensor for i in g.insts if i.kind == OP})
    largest = max(found, key=lambda g: len(g.insts))
    needs = _needs(largest.insts, largest.execution_order())
    again = {
        n: (times[inst.tensor] - 1) * needs[n].bit_count()
        for n, inst in enumerate(largest.insts)
        if inst.kind == OP and n in needs and not largest.space.has_windows(inst.axes)
    }
    best = sorted(again, key=lambda n: -again[n])[:_COUNTED]
    saved = {n: (times[largest.insts[n].tensor] - 1) * _less(largest, n) for n in best}
    most = max(best, key=lambda n: saved[n], default=None)
    return None if most is None or saved[most] < _LEAST else largest.insts[most].tensor


def _needs(insts: Sequence[Inst], order: Sequence[int]) -> dict[int, int]:
    """Return, for every instance, a bit mask of the instances it depends on, itself included."""
    out: dict[int, int] = {}
    for n in order:
        bits = 1 << n
        for x in insts[n].operands:
            bits |= out[x]
        out[n] = bits
    return out


def _less(group: Group, cut: int) -> int:
    """Return the number of instances a group saves if one of them is loaded."""
    seen: set[int] = set()
    todo = list(group.walk.stores)
    while todo:
        n = todo.pop()
        if n not in seen:
            seen.add(n)
            todo += () if n == cut else group.insts[n].operands
    return len(group.insts) - len(seen)
