"""Syncs for tensors outside of queues: those loaded or computed before the loop, and operands read as scalars.

A sync is inserted before the first statement that needs it; if that is inside a loop, before the loop, since a sync in
a loop takes an event id in every iteration.  One sync covers everything issued before it.  Once the scalar unit has
waited for the vector pipe (V_S), this includes the loads that the vector pipe itself waited for; and as the scalar unit
issues the instructions of all pipes, none of them has to wait again for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from autofuse.codegen.ir.calls import Call
from autofuse.codegen.ir.kernel_ir import (
    CopyIn,
    DeQue,
    For,
    GetBuf,
    IndexRead,
    KernelFn,
    ScalarRead,
    Stmt,
    Sync,
)
from autofuse.implgraph.ir.frozen import replace

__all__ = ["InsertSyncs"]


#: Statements that load, compute or use tensors, and loops.
_CONCERNED = frozenset({Call, CopyIn, DeQue, For, IndexRead, ScalarRead, Sync})
_MTE2_V, _MTE2_S = Sync("MTE2", "V"), Sync("MTE2", "S")
_V_S, _S_V = Sync("V", "S"), Sync("S", "V")
#: Scalar reads.
_READS = frozenset({ScalarRead, IndexRead})


@dataclass(slots=True)
class _Pending:
    """Tensors in UB, by their buffer, with bytes that some pipe has not waited for.

    Attributes:
        bufs: TBuf of a tensor that is in one.
        vector: loaded; the vector pipe has not waited for the copy.
        scalar: loaded; the scalar unit has not.
        made: computed; the scalar unit has not waited for the vector pipe.
        put: written to UB by the scalar unit; the vector pipe has not waited for it.
        read: True if the scalar unit reads any tensor; otherwise it waits for none, and the last two stay empty.
    """

    bufs: Mapping[str, str]
    read: bool
    vector: set[str] = field(default_factory=set)
    scalar: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    put: set[str] = field(default_factory=set)

    def copy(self) -> _Pending:
        return self.without(frozenset())

    def without(self, places: Iterable[str]) -> _Pending:
        return _Pending(
            self.bufs,
            self.read,
            self.vector.difference(places),
            self.scalar.difference(places),
            self.made.difference(places),
            self.put.difference(places),
        )

    def join(self, other: _Pending) -> None:
        self.vector |= other.vector
        self.scalar |= other.scalar
        self.made |= other.made
        self.put |= other.put

    def places(self, *tensors: str) -> set[str]:
        return {self.bufs.get(x, x) for x in tensors}

    def need(self, s: Stmt) -> Sync | None:
        """Return the sync that the statement needs, if any."""
        if isinstance(s, Call):
            places = self.places(*s.reads, *s.writes) if self.vector or self.put else set[str]()
            return _MTE2_V if self.vector & places else _S_V if self.put & places else None
        if isinstance(s, IndexRead) or (isinstance(s, ScalarRead) and not s.gm):
            place = self.places(s.local)
            return _V_S if self.made & place else _MTE2_S if self.scalar & place else None
        return None

    def wait(self, sync: Sync) -> None:
        """Update the state for a sync."""
        if sync == _MTE2_V:
            self.vector.clear()
        elif sync == _MTE2_S:
            self.scalar.clear()
            self.vector.clear()
        elif sync == _V_S:
            self.made.clear()
            self.scalar &= self.vector
        elif sync == _S_V:
            self.put.clear()

    def step(self, s: Stmt) -> None:
        """Update the state for a statement."""
        if isinstance(s, Call):
            if self.read:
                places = self.places(*s.writes)
                self.made |= places
                self.scalar -= places
        elif isinstance(s, CopyIn) and s.scalar:
            self.put |= self.places(s.local)
        elif isinstance(s, CopyIn):
            places = self.places(s.local)
            self.vector |= places
            if self.read:
                self.scalar |= places
                self.made -= places
        elif isinstance(s, DeQue):
            self.vector -= self.places(s.local)
        elif isinstance(s, Sync):
            self.wait(s)


@dataclass(frozen=True)
class InsertSyncs:
    """Insert a flag set on one pipe and awaited on another for all bytes passed between them without a queue."""

    name: str = "insert-syncs"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """Return the function with syncs."""
        found = _concerned(fn.body)
        reads = not _READS.isdisjoint(map(type, found))
        loaded = {s.local for s in found if isinstance(s, CopyIn)}
        if not reads and loaded <= {s.local for s in found if isinstance(s, DeQue)}:
            return fn  # Queues synchronise all loads.
        bufs = {s.local: s.buf for s in fn.body if isinstance(s, GetBuf)}
        return replace(fn, body=self._block(fn.body, _Pending(bufs, reads)))

    def _block(self, body: tuple[Stmt, ...], pending: _Pending) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if type(s) not in _CONCERNED:
                out.append(s)
                continue
            if isinstance(s, For):
                for sync in _before_loop(s, pending):
                    out.append(sync)
                    pending.wait(sync)
                out.append(replace(s, body=self._loop(s.body, pending)))
                continue
            while (needed := pending.need(s)) is not None:
                out.append(needed)
                pending.wait(needed)
            pending.step(s)
            out.append(s)
        return tuple(out)

    def _loop(self, body: tuple[Stmt, ...], pending: _Pending) -> tuple[Stmt, ...]:
        """Return the body with syncs valid in every iteration: its start includes accesses that its end may leave."""
        while True:
            start = pending.copy()
            out = self._block(body, pending)
            pending.join(start)
            if pending == start:
                return out


def _before_loop(loop: For, pending: _Pending) -> Iterator[Sync]:
    """Yield the syncs of the loop's statements for tensors loaded or computed before the loop."""
    if not (pending.vector or pending.scalar or pending.made or pending.put):
        return
    inside = _concerned(loop.body)
    own = {x for s in inside for x in pending.places(*_written(s))}
    outside = pending.without(own)
    for s in inside:
        while (sync := outside.need(s)) is not None:
            yield sync
            outside.wait(sync)


def _written(s: Stmt) -> tuple[str, ...]:
    if isinstance(s, Call):
        return s.writes
    return (s.local,) if isinstance(s, CopyIn) else ()


def _concerned(body: Iterable[Stmt]) -> list[Stmt]:
    """Return the relevant statements of a block and of the loops in it."""
    out: list[Stmt] = []
    for s in body:
        if type(s) in _CONCERNED:
            out.append(s)
            if isinstance(s, For):
                out += _concerned(s.body)
    return out
