"""Syncs for tensors that no queue hands over: those loaded or computed before the loop, and operands read as scalars.

A sync is inserted before the first statement that needs it, and before the loop where that is inside one, for a sync
in a loop takes an event id each time.  One sync serves all that was issued before it.  What the scalar unit has waited
for on the vector pipe (V_S) includes the loads for which the vector pipe has waited itself; and as the scalar unit
issues the instructions of all pipes, none of them has to wait again for what the scalar unit has seen done.
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


#: What loads or computes tensors or uses them, and loops.
_CONCERNED = frozenset({Call, CopyIn, DeQue, For, IndexRead, ScalarRead, Sync})
_MTE2_V, _MTE2_S = Sync("MTE2", "V"), Sync("MTE2", "S")
_V_S, _S_V = Sync("V", "S"), Sync("S", "V")
#: What the scalar unit reads.
_READS = frozenset({ScalarRead, IndexRead})


@dataclass(slots=True)
class _Pending:
    """Tensors in UB, by their buffer, whose bytes somebody has not waited for.

    Attributes:
        bufs: the buffer of a tensor that is in a TBuf.
        vector: loaded; the vector pipe has not waited for the copy.
        scalar: loaded; the scalar unit has not.
        made: computed; the scalar unit has not waited for the vector pipe.
        put: what the scalar unit has put into UB; the vector pipe has not waited for it.
        read: whether the scalar unit reads any tensor; else it waits for none, and the last two stay empty.
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
        """After a sync."""
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
        """After a statement."""
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
    """Inserts a flag set on one pipe and awaited on another wherever bytes pass between them without a queue."""

    name: str = "insert-syncs"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """The function with syncs."""
        found = _concerned(fn.body)
        reads = not _READS.isdisjoint(map(type, found))
        loaded = {s.local for s in found if isinstance(s, CopyIn)}
        if not reads and loaded <= {s.local for s in found if isinstance(s, DeQue)}:
            return fn  # queues hand over all that is loaded
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
        """The body with syncs that hold in every iteration: its start expects all that its end may leave."""
        while True:
            start = pending.copy()
            out = self._block(body, pending)
            pending.join(start)
            if pending == start:
                return out


def _before_loop(loop: For, pending: _Pending) -> Iterator[Sync]:
    """Syncs that a statement of the loop needs for what was loaded or computed before the loop."""
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
    """The statements that matter of a block and of the loops in it."""
    out: list[Stmt] = []
    for s in body:
        if type(s) in _CONCERNED:
            out.append(s)
            if isinstance(s, For):
                out += _concerned(s.body)
    return out
