"""Barriers of the vector pipe.

Two vector calls may overlap in time unless a ``PipeBarrier<PIPE_V>`` stands between them.  One is inserted before a
call that touches bytes which an earlier call, since the last barrier, wrote (or read, if this one writes them).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from autofuse.codegen.kernel_ir import Alloc, Barrier, Call, For, GetBuf, KernelFn, Stmt

__all__ = ["InsertBarriers"]


@dataclass(slots=True)
class _Pending:
    """What calls since the last barrier touched, by buffer."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    def conflicts(self, reads: Iterable[str], writes: Iterable[str]) -> bool:
        return bool(self.writes & set(reads)) or bool((self.writes | self.reads) & set(writes))

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()


@dataclass(frozen=True)
class InsertBarriers:
    """Inserts the barriers, also between what stands before a loop, its iterations, and what follows it."""

    name: str = "insert-barriers"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """The function with barriers."""
        bufs = {s.local: s.buf for s in fn.body if isinstance(s, GetBuf)}
        return replace(fn, body=self._block(fn.body, _Pending(), bufs))

    def _block(
        self,
        body: tuple[Stmt, ...],
        pending: _Pending,
        bufs: dict[str, str],
        *,
        insert: bool = True,
    ) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Alloc) and insert:
                # A fresh buffer: the queue's own event has seen off whatever used it before.
                pending.reads.discard(s.local)
                pending.writes.discard(s.local)
            if isinstance(s, For) and not insert:
                self._block(s.body, pending, bufs, insert=False)
            elif isinstance(s, For):
                every = _Pending()
                self._block(s.body, every, bufs, insert=False)
                if pending.conflicts(every.reads, every.writes):
                    # Before the loop, where it runs once.
                    out.append(Barrier("PIPE_V"))
                    pending.clear()
                s = replace(s, body=self._loop(s.body, pending, bufs))
            if isinstance(s, Call):
                reads = [bufs.get(x, x) for x in s.reads]
                writes = [bufs.get(x, x) for x in s.writes]
                if insert and pending.conflicts(reads, writes):
                    out.append(Barrier("PIPE_V"))
                    pending.clear()
                pending.reads.update(reads)
                pending.writes.update(writes)
            out.append(s)
        return tuple(out)

    def _loop(
        self, body: tuple[Stmt, ...], pending: _Pending, bufs: dict[str, str]
    ) -> tuple[Stmt, ...]:
        """The body with barriers that hold in every iteration: its start expects all that its end may leave."""
        while True:
            start = _Pending(set(pending.reads), set(pending.writes))
            out = self._block(body, pending, bufs)
            if pending.reads <= start.reads and pending.writes <= start.writes:
                return out
            pending.reads |= start.reads
            pending.writes |= start.writes
