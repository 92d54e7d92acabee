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
    """Inserts the barriers; a loop body is analysed with what the end of the body leaves pending."""

    name: str = "insert-barriers"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """The function with barriers."""
        bufs = {s.local: s.buf for s in fn.body if isinstance(s, GetBuf)}
        return replace(fn, body=self._block(fn.body, _Pending(), bufs))

    def _block(
        self, body: tuple[Stmt, ...], pending: _Pending, bufs: dict[str, str]
    ) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Alloc):
                # A fresh buffer: the queue's own event has seen off whatever used it before.
                pending.reads.discard(s.local)
                pending.writes.discard(s.local)
            if isinstance(s, For):
                self._block(s.body, pending, bufs)  # leaves what the last iteration leaves
                s = replace(s, body=self._block(s.body, pending, bufs))
            if isinstance(s, Call):
                reads = [bufs.get(x, x) for x in s.reads]
                writes = [bufs.get(x, x) for x in s.writes]
                if pending.conflicts(reads, writes):
                    out.append(Barrier("PIPE_V"))
                    pending.clear()
                pending.reads.update(reads)
                pending.writes.update(writes)
            out.append(s)
        return tuple(out)
