"""Barriers of the vector pipe.

Two vector calls may overlap in time unless a ``PipeBarrier<PIPE_V>`` separates them.  The pass inserts one before a
call that accesses bytes which an earlier call since the last barrier wrote (or read, if this one writes them).  Once
the scalar unit has waited for the vector pipe (V_S), all earlier calls are complete before it issues another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from autofuse.codegen.functions import phases
from autofuse.codegen.ir.calls import Call, VectorFunction
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    Barrier,
    For,
    GetBuf,
    InitBuffer,
    KernelFn,
    Let,
    QueueDecl,
    Stmt,
    Sync,
)
from autofuse.implgraph.expr.expression import Expr, Func
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import Position

__all__ = ["InsertBarriers"]


_BARRIER, _V_S = Barrier("PIPE_V"), Sync("V", "S")
_BARRIERS = (_BARRIER, Barrier("PIPE_ALL"))
#: Statements that concern the vector pipe; these and loops.
_OF_PIPES = frozenset({Alloc, Barrier, Call, Sync, VectorFunction})
_CONCERNED = _OF_PIPES | {For}
#: Statements that assign bytes to a tensor, and loops.
_PLACING = frozenset({Alias, For, GetBuf})


@frozen
class _Marks:
    """Barriers to insert in a block: before which statements, and inside which loops."""

    before: list[int] = field(default_factory=list)
    inside: dict[int, _Marks] = field(default_factory=dict)

    def count(self) -> int:
        return len(self.before) + sum([m.count() for m in self.inside.values()])


#: Accesses of a call: bit sets of the holders that it reads and that it writes.
_Touched: TypeAlias = "tuple[int, int]"
_NOTHING: _Touched = (0, 0)
#: Index of a statement, the statement and, for a call, the accesses of each of its phases.
_Concerned: TypeAlias = "tuple[int, Stmt, list[_Touched]]"


@frozen
class _Known:
    """Facts about a function.

    Attributes:
        of: holder of a tensor's bytes, if not the tensor itself.
        body: statements of the function.
        bits: bit of each holder seen so far.
        blocks: relevant statements of each block seen so far, by its id.
        turns: for a queue tensor, the tensors that may have used its buffer in the previous iteration.
    """

    of: dict[str, str]
    body: tuple[Stmt, ...]
    turns: dict[str, list[str]]
    bits: dict[str, int] = field(default_factory=dict)
    blocks: dict[int, list[_Concerned]] = field(default_factory=dict)

    def concerned(self, body: tuple[Stmt, ...]) -> list[_Concerned]:
        """Return the statements of a block that concern the vector pipe; cached, as loops are visited repeatedly."""
        found = self.blocks.get(id(body))
        if found is None:
            found = self.blocks[id(body)] = [
                (i, s, self._touched(s))
                for i, s in enumerate(body)
                if type(s) in _CONCERNED and (not isinstance(s, For) or _concerns(s))
            ]
        return found

    def _touched(self, s: Stmt) -> list[_Touched]:
        if isinstance(s, VectorFunction):
            return [(self.holders(s.loads), self.holders(s.stores))]
        if not isinstance(s, Call):
            return []
        return [(self.holders(read), self.holders(written)) for read, written in phases(s)]

    def holders(self, tensors: Iterable[str]) -> int:
        """Return the holders of the tensors' bytes as a bit set."""
        found = 0
        for x in tensors:
            found |= self.bits.setdefault(self.of.get(x, x), 1 << len(self.bits))
        return found

    def runs(self, loop: For) -> bool:
        """Return True if a loop has at least one iteration for all sizes."""
        return all([self._is_positive(name) for name in loop.extent.symbols()])

    def _is_positive(self, name: str) -> bool:
        for s in self.body:
            if isinstance(s, For):
                if any([_is_length(x.value) for x in s.body if type(x) is Let and x.name == name]):
                    return True
            elif isinstance(s, Let) and s.name == name:
                return _is_positive(s.value)
        return False


@dataclass(frozen=True)
class InsertBarriers:
    """Insert the barriers, including those between the statements before a loop, its iterations, and those after it."""

    name: str = "insert-barriers"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """Return the function with barriers."""
        known = _Known(_places(fn.body), fn.body, _turns(fn.body))
        marks, _ = _block(fn.body, _NOTHING, known)
        return replace(fn, body=_inserted(fn.body, marks))


def _block(body: tuple[Stmt, ...], pending: _Touched, known: _Known) -> tuple[_Marks, _Touched]:
    """Return the barriers that a block needs, and the accesses since the last barrier, which remain pending."""
    marks = _Marks()
    reads, writes = pending
    for i, s, touched in known.concerned(body):
        if touched:
            read, written = touched[0]
            if writes & (read | written) or reads & written:
                marks.before.append(i)
                reads = writes = 0
            reads |= read
            writes |= written
            if len(touched) > 1:
                reads, writes = touched[-1]
        elif isinstance(s, Alloc):
            # A fresh buffer: the queue's event covers earlier uses, except vector calls that read a tensor after it was
            # enqueued for its store.
            fresh = known.holders((s.local,))
            late = reads & known.holders(known.turns.get(s.local, ()))
            reads = reads | fresh if late else reads & ~fresh
            writes &= ~fresh
        elif isinstance(s, For):
            found, every, last = _loop(s.body, (reads, writes), known)
            if (reads or writes) and found.count():
                alone = _loop(s.body, _NOTHING, known)
                if found.count() > alone[0].count():
                    # Hoist it out of the loop, where it runs once.
                    marks.before.append(i)
                    found, every, last = alone
            if found.count():
                marks.inside[i] = found
            # Pending are the accesses of its last iteration; those before it as well, if the loop may not run.
            reads, writes = last if known.runs(s) else every
        elif (isinstance(s, Sync) and s == _V_S) or s in _BARRIERS:
            reads = writes = 0
    return marks, (reads, writes)


def _loop(
    body: tuple[Stmt, ...], before: _Touched, known: _Known
) -> tuple[_Marks, _Touched, _Touched]:
    """Return barriers valid in every iteration, accesses pending at the start of any, and those after the last one.

    The start of an iteration includes all accesses that the end of one may leave pending.
    """
    start = before
    while True:
        marks, end = _block(body, start, known)
        both = (start[0] | end[0], start[1] | end[1])
        if both == start:
            return marks, start, end
        start = both


def _inserted(body: tuple[Stmt, ...], marks: _Marks) -> tuple[Stmt, ...]:
    """Return the block with the barriers."""
    out: list[Stmt] = []
    before = set(marks.before)
    at = 0
    for i in sorted({*before, *marks.inside}):
        out += body[at:i]
        at, s = i + 1, body[i]
        if i in before:
            out.append(_BARRIER)
        if isinstance(s, For) and i in marks.inside:
            s = replace(s, body=_inserted(s.body, marks.inside[i]))
        out.append(s)
    return (*out, *body[at:])


def _places(body: tuple[Stmt, ...]) -> dict[str, str]:
    """Return the holder of each tensor's bytes, if not itself: its TBuf, or the tensor that it aliases."""
    out: dict[str, str] = {}
    if _PLACING.isdisjoint(map(type, body)):
        return out
    for s in body:
        if type(s) not in _PLACING:
            continue
        if isinstance(s, For):
            out |= _places(s.body)
        elif isinstance(s, GetBuf):
            out[s.local] = s.buf
        elif isinstance(s, Alias):
            out[s.local] = s.of
    return out


def _turns(body: tuple[Stmt, ...]) -> dict[str, list[str]]:
    """Return the tensors of each result queue whose buffers may be written twice within an iteration, by tensor.

    A queue of two buffers with one tensor reuses the bytes two iterations later, and every call that reads the tensor
    follows a barrier.
    """
    buffers: dict[str, int] = {}
    tensors: dict[str, list[str]] = {}
    for s in _statements(body):
        if isinstance(s, QueueDecl) and s.position is Position.VECOUT:
            tensors[s.name] = []
        elif isinstance(s, InitBuffer) and s.name in tensors:
            buffers[s.name] = s.buf_num
        elif isinstance(s, Alloc) and s.queue in tensors:
            tensors[s.queue].append(s.local)
    return {
        x: found for q, found in tensors.items() if len(found) >= buffers.get(q, 1) for x in found
    }


def _statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for s in body:
        if isinstance(s, For):
            yield from _statements(s.body)
        else:
            yield s


def _concerns(loop: For) -> bool:
    """Return True if a loop has a statement that concerns the vector pipe."""
    if not _OF_PIPES.isdisjoint(map(type, loop.body)):
        return True
    return any([_concerns(s) for s in loop.body if isinstance(s, For)])


def _is_positive(e: Expr) -> bool:
    """Return True if a size is syntactically at least 1: a product of rounded-up quotients of positive constants."""
    if len(e.terms) != 1 or e.terms[0][1] < 1:
        return False
    return all(
        isinstance(a, Func) and a.name == "CeilDiv" and (a.args[0].as_int() or 0) > 0
        for a, _ in e.terms[0][0]
    )


def _is_length(e: Expr) -> bool:
    """Return True if a value is syntactically the length of a constant-size tile: the size, or the rest of an axis.

    No such tile is empty, since its index is less than the number of tiles.
    """
    if len(e.terms) != 1 or e.terms[0][1] != 1 or len(e.terms[0][0]) != 1:
        return False
    (a, power) = e.terms[0][0][0]
    if power != 1 or not isinstance(a, Func) or a.name != "Min" or len(a.args) != 2:
        return False
    sizes = [x.value for x in a.args if x.is_const]
    rest = [x for x in a.args if not x.is_const]
    if len(sizes) != 1 or sizes[0] < 1 or len(rest) != 1:
        return False
    return any(c == -sizes[0] and len(m) == 1 and m[0][1] == 1 for m, c in rest[0].terms)
