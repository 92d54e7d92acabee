"""Proposals of tensors that pass through GM: one group writes them, and others read them.

Groups recompute what they share with everything below it: each of two gradients of a norm loads all of its operands.
A write, and a read for each of the others, may be less.  A transposition of the innermost dimension makes a group load
rows in one order and store them in another; beside other work, as between the windows of an attention and its channels,
all tensors of the group pay for that.  The cost model decides between the forms with and without such cuts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autofuse.implgraph.expr.expression import ExprError, product
from autofuse.implgraph.lowering.group import Group
from autofuse.implgraph.lowering.normalise import INPUT, OP, TRANSPOSE, Program
from autofuse.implgraph.lowering.walk import RELOAD

__all__ = ["computed_in_several", "transposed_apart"]

#: Maximum tensors whose savings are counted, the largest ones.
_MOST = 32


def computed_in_several(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return the tensors whose cut saves loads: what several groups compute from more bytes than it has.

    Args:
        groups: the groups of a graph.
    """
    program = groups[0].program
    steps = program.steps
    at: dict[int, set[int]] = {}
    for k, g in enumerate(groups):
        for inst in g.insts:
            if inst.kind == OP:
                at.setdefault(inst.tensor, set()).add(k)
    users = _users(program, at)
    written = {program.index[o.tensor] for o in program.graph.outputs}
    # If the same groups compute a user as well, that is the better place, unless the tensor is written anyway.
    several = [
        t
        for t, some in at.items()
        if len(some) > 1 and (t in written or some not in (at[u] for u in users[t]))
    ]
    try:
        nbytes = _bytes(program)
    except ExprError:
        return ()  # a size is divided by one that is 0 at the hints
    saved: dict[str, int] = {}
    for t in sorted(several, key=lambda t: -nbytes[t] * len(at[t]))[:_MOST]:
        # The group that loads least without it writes it.
        less = sorted(_less(groups[k], t, nbytes) - nbytes[t] for k in at[t])
        saved[steps[t].tensor.name] = sum(less[1:]) - (0 if t in written else nbytes[t])
    return tuple(x for x, n in saved.items() if n > 0)


def _users(program: Program, computed: Collection[int]) -> dict[int, set[int]]:
    """Return the computed tensors that use each tensor, if only through views and copies."""
    users: dict[int, set[int]] = {t: set() for t in range(len(program.steps))}
    for t in reversed(range(len(program.steps))):
        for u in program.steps[t].uses:
            if u.constant is None:
                users[u.tensor] |= {t} if t in computed else users[t]
    return users


def _bytes(program: Program) -> list[int]:
    env = {s.name: s.typical for s in program.graph.symbols}
    return [product(s.tensor.shape).evaluate(env) * s.tensor.dtype.itemsize for s in program.steps]


def _less(group: Group, cut: int, nbytes: Sequence[int]) -> int:
    """Return the bytes that a group no longer loads if it reads a tensor instead of computing it."""
    insts, needed, todo = group.insts, set[int](), list(group.walk.stores)
    while todo:
        n = todo.pop()
        if n not in needed:
            needed.add(n)
            todo += [] if (insts[n].kind, insts[n].tensor) == (OP, cut) else insts[n].operands
    loaded = {i.tensor for i in insts if i.kind in (INPUT, RELOAD)}
    kept = {insts[n].tensor for n in needed if insts[n].kind in (INPUT, RELOAD)}
    return sum(nbytes[t] for t in loaded - kept)


def transposed_apart(program: Program) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the cuts behind and in front of transpositions of the innermost dimension: these get groups of their own.

    Args:
        program: a graph.
    """
    steps, written = program.steps, {program.index[o.tensor] for o in program.graph.outputs}
    moved = [
        t
        for t, s in enumerate(steps)
        if s.kind == TRANSPOSE and s.numbers[-1] != len(s.numbers) - 1
    ]
    front = dict.fromkeys(u.tensor for t in moved for u in steps[t].uses)
    return (
        tuple(steps[t].tensor.name for t in moved if t not in written),
        tuple(steps[t].tensor.name for t in front if t not in written and steps[t].kind != INPUT),
    )
