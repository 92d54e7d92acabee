"""Rules of the chip for a KernelIR function, checked by walking it as it runs, loops twice.

Written without a look at how code generation follows them: what a queue tensor may be used for and when, which calls
need a barrier between them, and what a pipe must have waited for before it touches data of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autofuse.codegen.ir.calls import Call
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    Barrier,
    CopyIn,
    CopyOut,
    DeQue,
    EnQue,
    For,
    Free,
    GetBuf,
    IndexRead,
    InitBuffer,
    KernelFn,
    QueueDecl,
    ScalarRead,
    Stmt,
    Sync,
)
from autofuse.implgraph.ir.graph import Position


def unrolled(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The statements in order of execution, every loop run twice."""
    for s in body:
        if isinstance(s, For):
            yield from unrolled(s.body)
            yield from unrolled(s.body)
        else:
            yield s


@dataclass
class _Tensor:
    """One tensor between Alloc and Free, or one TBuf."""

    queue: str
    state: str  # allocated, enqueued, dequeued, buffer
    written_by: str = ""
    #: Pipes that have waited for what was last written.
    seen_by: set[str] = field(default_factory=set)


@dataclass
class _Machine:
    """Findings while the function runs."""

    found: list[str] = field(default_factory=list)
    queues: dict[str, QueueDecl] = field(default_factory=dict)
    depth: dict[str, int] = field(default_factory=dict)
    locals: dict[str, _Tensor] = field(default_factory=dict)
    #: TBuf -> the tensor object of its bytes; several names share one.
    bufs: dict[str, _Tensor] = field(default_factory=dict)
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.found.append(text)

    # statements -------------------------------------------------------------------------------
    def step(self, s: Stmt) -> None:
        if isinstance(s, QueueDecl):
            self.queues[s.name] = s
        elif isinstance(s, InitBuffer):
            self.depth[s.name] = s.buf_num
        elif isinstance(s, GetBuf):
            self.locals[s.local] = self.bufs.setdefault(s.buf, _Tensor("", "buffer"))
        elif isinstance(s, Alloc):
            self.alloc(s)
        elif isinstance(s, Alias):
            self.take_over(s)
        elif isinstance(s, (EnQue, DeQue, Free)):
            self.queue_call(s)
        elif isinstance(s, CopyIn):
            # A scalar is put there by the scalar unit.
            self.touch(s.local, "S" if s.scalar else "MTE2", write=True)
        elif isinstance(s, CopyOut):
            self.touch(s.local, "MTE3", write=False)
        elif isinstance(s, ScalarRead | IndexRead):
            if isinstance(s, IndexRead) or not s.gm:
                self.touch(s.local, "S", write=False)
        elif isinstance(s, Sync):
            first, then = s.source, s.target
            for t in (*self.locals.values(), *self.bufs.values()):
                if first in t.seen_by:
                    t.seen_by.add(then)
                    # The scalar unit issues: what it has seen done, no pipe has to wait for again.
                    t.seen_by |= {"V", "MTE2", "MTE3"} if then == "S" else set()
            if s.event == "V_S":
                self.reads.clear()
                self.writes.clear()
        elif isinstance(s, Barrier):
            if s.pipe == "PIPE_V":
                self.reads.clear()
                self.writes.clear()
        elif isinstance(s, Call):
            self.call(s)

    def alloc(self, s: Alloc) -> None:
        old = self.locals.get(s.local)
        if old is not None and old.state != "freed":
            self.say(f"{s.local} is allocated twice")
        alive = {
            id(t)
            for t in self.locals.values()
            if t.queue == s.queue and t.state not in ("freed", "buffer")
        }
        if len(alive) >= self.depth.get(s.queue, 0):
            self.say(f"{s.queue} has no buffer left for {s.local}")
        self.locals[s.local] = _Tensor(s.queue, "allocated")

    def take_over(self, s: Alias) -> None:
        """A result in the buffer of a load that is over: what is enqueued from then on goes to GM."""
        t = self.locals.get(s.of)
        if t is None or t.state not in ("dequeued", "allocated"):
            self.say(f"{s.local} takes over {s.of}, which is {t.state if t else 'never allocated'}")
            return
        t.state = "allocated"
        self.locals[s.local] = t

    def queue_call(self, s: EnQue | DeQue | Free) -> None:
        t = self.locals.get(s.local)
        if t is None or t.queue != s.queue:
            self.say(f"{type(s).__name__} of {s.local}, which is not of {s.queue}")
            return
        want, then = {
            EnQue: ("allocated", "enqueued"),
            DeQue: ("enqueued", "dequeued"),
            Free: ("dequeued", "freed"),
        }[type(s)]
        if t.state != want:
            self.say(f"{type(s).__name__} of {s.local}, which is {t.state}")
        t.state = then
        if isinstance(s, DeQue):
            decl = self.queues[s.queue]
            if decl.copy and not s.link:
                writer, reader = "MTE2", "MTE3"
            elif (s.link or decl.position) in ("out", Position.VECOUT):
                writer, reader = "V", "MTE3"
            else:
                writer, reader = "MTE2", "V"
            if writer in t.seen_by:
                t.seen_by.add(reader)

    def touch(self, name: str, pipe: str, *, write: bool) -> None:
        t = self.locals.get(name)
        if t is None:
            self.say(f"{name} is used but never allocated")
            return
        if t.state in ("enqueued", "freed"):
            self.say(f"{pipe} uses {name}, which is {t.state}")
        if write:
            if t.state == "dequeued":
                self.say(f"{pipe} writes {name} after it was enqueued")
            t.written_by, t.seen_by = pipe, {pipe}
            return
        if not t.written_by:
            self.say(f"{pipe} reads {name} before anything is written")
        elif pipe not in t.seen_by:
            self.say(f"{pipe} reads {name} without waiting for {t.written_by}")
        if pipe == "MTE3" and t.state == "allocated":
            self.say(f"{name} is stored without EnQue and DeQue")

    def call(self, s: Call) -> None:
        if (s.api, s.form) == ("Broadcast", "Inner"):
            # Source to scratch space, a barrier, scratch space to result.
            result, scratch = s.writes
            self.call(Call("Brcb", s.args, (scratch,), s.reads))
            self.reads.clear()
            self.writes.clear()
            self.call(Call("Copy", s.args, (result,), (scratch,)))
            return
        if s.api == "WithRows":
            # The elements of the rows to scratch space and there once more for each repeat of a row, a barrier after
            # either, then the rows with them.
            (x, each), (result, scratch) = s.reads, s.writes
            for name, read in (("Brcb", each), ("Copy", scratch)):
                self.call(Call(name, s.args, (scratch,), (read,)))
                self.reads.clear()
                self.writes.clear()
            self.call(Call(str(s.of[0]), s.args, (result,), (x, scratch)))
            return
        if (s.api, s.form) == ("Scan", "Inner"):
            # It begins with a barrier.
            self.reads.clear()
            self.writes.clear()
        reads = [id(self.locals[x]) for x in s.reads if x in self.locals]
        writes = [id(self.locals[x]) for x in s.writes if x in self.locals]
        if set(self.writes) & {*reads, *writes} or set(self.reads) & set(writes):
            self.say(f"{s.api} to {s.writes[0]} overlaps with an earlier call without a barrier")
        self.reads += reads
        self.writes += writes
        for x in s.reads:
            self.touch(x, "V", write=False)
        for x in s.writes:
            self.touch(x, "V", write=True)


def violations(fn: KernelFn) -> list[str]:
    """What a function does that the chip does not allow."""
    machine = _Machine()
    tensors: list[_Tensor] = []  # keeps objects alive, so that ids are unique
    for s in unrolled(fn.body):
        machine.step(s)
        tensors += machine.locals.values()
    for name, t in machine.locals.items():
        if t.state not in ("buffer", "freed"):
            machine.say(f"{name} is {t.state} when the function ends")
    return list(dict.fromkeys(machine.found))
