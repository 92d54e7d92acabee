"""Barriers of the vector pipe.

Two vector calls may overlap in time unless a ``PipeBarrier<PIPE_V>`` stands between them.  One is inserted before a
call that touches bytes which an earlier call, since the last barrier, wrote (or read, if this one writes them).  Where
the scalar unit has waited for the vector pipe (V_S), all earlier calls are over before it issues another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autofuse.codegen.intrinsics import phases
from autofuse.codegen.kernel_ir import (
    Alias,
    Alloc,
    Barrier,
    Call,
    For,
    GetBuf,
    KernelFn,
    Let,
    Stmt,
    Sync,
)
from autofuse.implgraph.expr import Expr, Func
from autofuse.implgraph.frozen import frozen, replace

__all__ = ["InsertBarriers"]


_BARRIER = Barrier("PIPE_V")
_BARRIERS = (_BARRIER, Barrier("PIPE_ALL"))
#: What the vector pipe has to do with; the same and loops.
_OF_PIPES = frozenset({Alloc, Barrier, Call, Sync})
_CONCERNED = _OF_PIPES | {For}
#: What says whose bytes a tensor has, and loops.
_PLACING = frozenset({Alias, For, GetBuf})


@dataclass(slots=True)
class _Pending:
    """What calls since the last barrier touched, by buffer."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    def copy(self) -> _Pending:
        return _Pending(set(self.reads), set(self.writes))

    def any(self) -> bool:
        return bool(self.reads or self.writes)

    def conflicts(self, reads: set[str], writes: set[str]) -> bool:
        apart = self.writes.isdisjoint(reads) and self.writes.isdisjoint(writes)
        return not (apart and self.reads.isdisjoint(writes))

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()


@frozen
class _Places:
    """What the pass knows of a function.

    Attributes:
        of: what holds the bytes of a tensor, where that is not itself.
        runs: numbers of iterations that are at least 1.
        phases: of the calls met so far, by their ids: what each phase reads and writes.
    """

    of: dict[str, str]
    runs: set[str]
    phases: dict[int, list[tuple[set[str], set[str]]]] = field(default_factory=dict)

    def phases_of(self, s: Call) -> list[tuple[set[str], set[str]]]:
        """What holds the bytes that a call touches; loops are gone through several times."""
        found = self.phases.get(id(s))
        if found is None:
            of = self.of
            found = self.phases[id(s)] = [
                ({of.get(x, x) for x in read}, {of.get(x, x) for x in written})
                for read, written in phases(s)
            ]
        return found


@dataclass(frozen=True)
class InsertBarriers:
    """Inserts the barriers, also between what stands before a loop, its iterations, and what follows it."""

    name: str = "insert-barriers"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """The function with barriers."""
        places = _places(fn.body)
        lets = {s.name: s.value for s in fn.body if isinstance(s, Let)}
        runs = {name for name, value in lets.items() if _is_positive(value)}
        for loop in fn.body:
            if isinstance(loop, For):
                lengths = [s for s in loop.body if isinstance(s, Let) and _is_length(s.value)]
                runs.update([s.name for s in lengths])
        return replace(fn, body=self._block(fn.body, _Pending(), _Places(places, runs)))

    def _block(self, body: tuple[Stmt, ...], pending: _Pending, bufs: _Places) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if type(s) not in _CONCERNED:
                pass
            elif isinstance(s, Call):
                if self._call(s, pending, bufs):
                    out.append(_BARRIER)
            elif isinstance(s, Alloc):
                # A fresh buffer: the queue's own event has seen off whatever used it before.
                pending.reads.discard(s.local)
                pending.writes.discard(s.local)
            elif (isinstance(s, Sync) and s.event == "V_S") or (
                isinstance(s, Barrier) and s in _BARRIERS
            ):
                pending.clear()
            elif isinstance(s, For) and _concerns(s):
                left, fresh = pending.copy(), _Pending()
                inside = self._loop(s.body, left, bufs)
                alone = self._loop(s.body, fresh, bufs) if pending.any() else inside
                if inside is not alone and _count(inside) > _count(alone):
                    # Before the loop, where it runs once.
                    out.append(_BARRIER)
                    inside, left = alone, fresh
                pending.reads, pending.writes = left.reads, left.writes
                s = replace(s, body=inside)
                if s.extent.symbols() <= bufs.runs:
                    # What is left is what its last iteration leaves; not what was before, as if it did not run.
                    self._block(s.body, pending, bufs)
            out.append(s)
        return tuple(out)

    def _call(self, s: Call, pending: _Pending, bufs: _Places) -> bool:
        """Whether a barrier has to stand before the call; ``pending`` is what it leaves."""
        needed = False
        for number, (reads, writes) in enumerate(bufs.phases_of(s)):
            if number:
                pending.clear()
            elif pending.conflicts(reads, writes):
                needed = True
                pending.clear()
            pending.reads.update(reads)
            pending.writes.update(writes)
        return needed

    def _loop(self, body: tuple[Stmt, ...], pending: _Pending, bufs: _Places) -> tuple[Stmt, ...]:
        """The body with barriers that hold in every iteration: its start expects all that its end may leave."""
        while True:
            start = pending.copy()
            out = self._block(body, pending, bufs)
            pending.reads |= start.reads
            pending.writes |= start.writes
            if pending == start:
                return out


def _places(body: tuple[Stmt, ...]) -> dict[str, str]:
    """What holds the bytes of a tensor, where that is not itself: its TBuf, or the tensor that it is an alias of."""
    out: dict[str, str] = {}
    if _PLACING.isdisjoint(map(type, body)):
        return out
    for s in body:
        if isinstance(s, For):
            out |= _places(s.body)
        elif isinstance(s, GetBuf):
            out[s.local] = s.buf
        elif isinstance(s, Alias):
            out[s.local] = s.of
    return out


def _concerns(loop: For) -> bool:
    """Whether there is anything but copies in a loop."""
    if not _OF_PIPES.isdisjoint(map(type, loop.body)):
        return True
    return any([_concerns(s) for s in loop.body if isinstance(s, For)])


def _is_positive(e: Expr) -> bool:
    """Whether a size is at least 1, seen by its form: a product of rounded-up quotients of constants."""
    if len(e.terms) != 1 or e.terms[0][1] < 1:
        return False
    return all(
        isinstance(a, Func) and a.name == "CeilDiv" and (a.args[0].as_int() or 0) > 0
        for a, _ in e.terms[0][0]
    )


def _is_length(e: Expr) -> bool:
    """Whether a value is the length of a tile of constant size, seen by its form: the size, or what is left of an axis.

    No such tile is empty, for its index is less than their number.
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


def _count(body: Iterable[Stmt]) -> int:
    found = 0
    for s in body:
        if type(s) in _CONCERNED:
            found += _count(s.body) if isinstance(s, For) else isinstance(s, Barrier)
    return found
