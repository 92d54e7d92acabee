"""Mutants that change the initial value of an accumulator or the shift of its centre, without effect on results.

Terms are those of ``schedule/placement/reduction.py``: a sum is corrected when its centre moves, by a factor or by a
square.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mutation_change import Mutation, calls_of, change_of, count_change, statements

from autofuse.codegen.ir.calls import Call, LocalArg, Number, SizeValue
from autofuse.codegen.ir.kernel_ir import Barrier, For, Stmt
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ZERO, const

__all__ = ["counts_for_nothing", "sign_of_a_move", "start_is_overwritten", "start_times_zero"]

#: Calls that turn a move into a factor.
_THROUGH = frozenset({"Exp", "Muls", "Cast"})


def start_is_overwritten(m: Mutation) -> bool:
    """Return True for the initial value of an accumulator that every loop iteration overwrites before reading.

    The loop runs at least once, for all sizes.  Inside the loop, the initial value is harmless if a barrier follows it.
    A count of elements may only decrease.
    """
    _, count, other = count_change(m)
    if m.kind == "call-count" and other != count - 1:
        return False
    local = _started(m)
    loop = _loop_of(m, local)
    if not local or loop is None or not _runs(m):
        return False
    first = next(i for i, s in enumerate(loop.body) if local in _touched(s))
    call = loop.body[first]
    assert isinstance(call, Call)
    behind = m.kind != "late-start" or Barrier("PIPE_V") in loop.body[:first]
    return behind and local in call.writes and local not in call.reads


def start_times_zero(m: Mutation) -> bool:
    """Return True for another finite initial value of a sum that is scaled by a power of the maximum's move.

    The loop runs at least once, for all sizes.  The maximum starts from -inf, so the first factor is 0.
    """
    local = _started(m)
    loop = _loop_of(m, local)
    if not local or loop is None or not _runs(m) or not _finite(m, local):
        return False
    uses = [c for c in calls_of(loop.body) if local in c.reads]
    if len(uses) != 1 or uses[0].api != "Mul":
        return False
    (factor,) = (x for x in uses[0].reads if x != local)
    maker = _maker(loop, factor, uses[0])
    while maker is not None and maker.api in _THROUGH:
        maker = _maker(loop, maker.reads[0], maker)
    if maker is None or maker.api != "Sub":
        return False
    return _starts(m.fn.body, _operands(maker)[1]) == [-math.inf]


def counts_for_nothing(m: Mutation) -> bool:
    """Return True for another finite initial mean: the first move, and its square, count for 0 elements."""
    local = _started(m)
    loop = _loop_of(m, local)
    if not local or loop is None or not _finite(m, local):
        return False
    moves = [c for c in calls_of(loop.body) if local in c.reads]
    if len(moves) != 1 or moves[0].api != "Sub" or _operands(moves[0])[1] != local:
        return False
    weighted = _weighted(loop, moves[0])
    if weighted is None:
        return False
    count = next(a for a in weighted.args if isinstance(a, SizeValue))
    return count.value.substitute({loop.var: const(0)}) == ZERO


def sign_of_a_move(m: Mutation) -> bool:
    """Return True for swapped operands of a difference of which only the square is used."""
    old, new = change_of(m)
    if not isinstance(old, Call) or not isinstance(new, Call) or old.api != "Sub":
        return False
    loop = next((f for f in _loops(m) if old in f.body), None)
    return loop is not None and _weighted(loop, old) is not None


def _weighted(loop: For, move: Call) -> Call | None:
    """Return the call that weights a move by a number of elements, if only it and the product use the move."""
    at, name = loop.body.index(move), move.writes[0]
    found: Call | None = None
    for s in calls_of(loop.body[at + 1 :]):
        if name not in s.reads:
            if name in s.writes:
                return found
            continue
        if found is None and s.api == "Muls" and any(isinstance(a, SizeValue) for a in s.args):
            found = s
        elif found is None or s.api != "Mul" or set(s.reads) != {name, found.writes[0]}:
            return None
    return found


# statements -----------------------------------------------------------------------------------
def _loops(m: Mutation) -> Iterator[For]:
    """Yield the reduce loops."""
    for s in m.fn.body:
        if isinstance(s, For):
            yield from (f for f in s.body if isinstance(f, For) and calls_of(f.body))


def _loop_of(m: Mutation, local: str) -> For | None:
    """Return the reduce loop that writes an accumulator."""
    return next((f for f in _loops(m) if any(local in c.writes for c in calls_of(f.body))), None)


def _runs(m: Mutation) -> bool:
    spec, ranges = m.impl.tiling, {s.name: (s.min, s.max) for s in m.impl.symbols}
    return all(bounds(e, ranges)[0] > 0 for e in (spec.opened.extent, spec.reduce_outer))


def _started(m: Mutation) -> str:
    """Return the accumulator whose initial value alone was changed, moved or removed; empty if more has changed."""
    inside = {x for f in _loops(m) for c in calls_of(f.body) for x in c.writes[:1]}
    for x in sorted(inside):
        if _starts(m.fn.body, x) and _plain(m.fn.body, x) == _plain(m.mutant.body, x):
            return x
    return ""


def _plain(body: tuple[Stmt, ...], local: str) -> list[Stmt | tuple[object, ...]]:
    """Return the statements without the initial value of a tensor, with loops replaced by their contents."""
    out: list[Stmt | tuple[object, ...]] = []
    for s in body:
        if isinstance(s, For):
            out.append((s.var, s.extent, tuple(_plain(s.body, local))))
        elif not (isinstance(s, Call) and s.api == "Duplicate" and s.writes == (local,)):
            out.append(s)
    return out


def _starts(body: tuple[Stmt, ...], local: str) -> list[float]:
    """Return the constants that fill the tensor."""
    fills = [
        s
        for s in statements(body)
        if isinstance(s, Call) and s.api == "Duplicate" and s.writes == (local,)
    ]
    return [float(a.value) for s in fills for a in s.args if isinstance(a, Number)]


def _finite(m: Mutation, local: str) -> bool:
    values = [*_starts(m.fn.body, local), *_starts(m.mutant.body, local)]
    return len(values) == 2 and all(map(math.isfinite, values))


def _maker(loop: For, local: str, user: Call) -> Call | None:
    """Return the last call before ``user`` that writes a tensor."""
    calls = calls_of(loop.body)
    before = calls[: calls.index(user)]
    return next((c for c in reversed(before) if local in c.writes), None)


def _operands(s: Call) -> list[str]:
    return [a.local for a in s.args if isinstance(a, LocalArg)]


def _touched(s: Stmt) -> tuple[str, ...]:
    return (*s.writes, *s.reads) if isinstance(s, Call) else ()
