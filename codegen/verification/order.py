"""Checks of order: the lifetime of queue tensors, the contents of TBufs, and the waits between pipes.

The statements are walked in execution order, the loop over tiles twice, so that the second iteration sees the state
after the first one.  Time is a vector clock: every pipe (MTE2, V, MTE3, and the scalar unit S, which issues to the
others) counts its instructions, and knows which instructions of every pipe complete before its next one starts, because
it or the scalar unit has waited for them.  A queue passes knowledge from the writing pipe to the reading one at
EnQue/DeQue and back at FreeTensor/AllocTensor; a Sync passes it immediately; the vector pipe may overlap its own calls
unless a barrier separates them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from autofuse.codegen.functions import phases
from autofuse.codegen.ir.calls import Call, ScalarVar, VectorFunction
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    Barrier,
    BufDecl,
    CopyIn,
    CopyOut,
    DeQue,
    EnQue,
    Free,
    GetBuf,
    GlobalDecl,
    IndexRead,
    InitBuffer,
    QueueDecl,
    ScalarRead,
    Stmt,
    Sync,
)
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE
from autofuse.implgraph.ir.graph import BufferKind, Position
from autofuse.implgraph.ops.registry import find_call

__all__ = [
    "barriers_and_events",
    "buffers_hold_their_tensors",
    "event_ids_suffice",
    "queue_protocol",
    "queues_are_within_limits",
]

_PIPES = ("S", "MTE2", "V", "MTE3")


@dataclass(slots=True)
class _Life:
    """A queue tensor, with its aliases, from Alloc to Free.

    ``state``: allocated, enqueued, dequeued or, after a DeQue from a load to vector calls, between.
    """

    queue: str
    state: str = "allocated"
    written: bool = False
    link: str = ""


def queue_protocol(kernel: Kernel) -> Iterator[Finding]:
    """AllocTensor, write, EnQue, DeQue, read, FreeTensor: in this order, once, and all queues are empty at the end."""
    walk = _Protocol(kernel)
    items = kernel.items
    for item in items:
        if not item.inside:
            walk.step(item.stmt)
    for repeats in (2, 2, 0):
        for item in kernel.turn(repeats):
            walk.step(item.stmt)
        walk.finish("an iteration")
    yield from walk.found.values()


class _Protocol:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.queues: dict[str, QueueDecl] = {}
        self.number: dict[str, int] = {}
        self.alive: dict[str, _Life] = {}
        self.waiting: dict[str, list[str]] = {}
        self.bufs: set[str] = set()
        self.found: dict[str, Finding] = {}

    def say(self, text: str, local: str) -> None:
        self.found.setdefault(text, Finding(text, self.kernel.node_of(local)))

    def step(self, s: Stmt) -> None:
        if isinstance(s, QueueDecl):
            self.queues[s.name] = s
            self.waiting[s.name] = []
        elif isinstance(s, InitBuffer):
            self.number[s.name] = s.buf_num
        elif isinstance(s, GetBuf):
            self.bufs.add(s.local)
        elif isinstance(s, Alloc):
            self._alloc(s)
        elif isinstance(s, EnQue | DeQue | Free):
            life = self.alive.get(s.local)
            if life is None or life.queue != s.queue:
                self.say(f"{type(s).__name__} of {s.local}, which {s.queue} does not hold", s.local)
            elif isinstance(s, EnQue):
                self._enque(s, life)
            elif isinstance(s, DeQue):
                self._deque(s, life)
            else:
                if life.state != "dequeued":
                    self.say(f"FreeTensor of {s.local}, which is {life.state}", s.local)
                self.alive = {k: v for k, v in self.alive.items() if v is not life}
        elif isinstance(s, Alias):
            life = self.alive.get(s.of)
            if life is None or life.state != "between":
                state = "not alive" if life is None else life.state
                self.say(f"{s.local} takes over {s.of}, which is {state}", s.local)
            if life is not None:
                self.alive[s.local] = life
        elif isinstance(s, CopyIn):
            self._write(s.local, "S" if s.scalar else "MTE2")
        elif isinstance(s, CopyOut):
            self._read(s.local, "MTE3")
        elif isinstance(s, ScalarRead) and s.gm:
            pass
        elif isinstance(s, ScalarRead | IndexRead):
            self._read(s.local, "S")
        elif isinstance(s, Call):
            for x in s.reads:
                self._read(x, "V")
            for x in s.writes:
                self._write(x, "V")

    def _alloc(self, s: Alloc) -> None:
        if s.local in self.alive:
            self.say(f"{s.local} is allocated again before it is freed", s.local)
        if s.queue not in self.queues:
            self.say(f"{s.queue} is not declared", s.local)
            return
        lives = {id(x): x for x in self.alive.values()}
        alive = sum(x.queue == s.queue for x in lives.values())
        if alive >= self.number.get(s.queue, 0):
            number = self.number.get(s.queue, 0)
            self.say(f"{s.queue} has {number} buffers, none of them is free for {s.local}", s.local)
        self.alive[s.local] = _Life(s.queue)

    def _enque(self, s: EnQue, life: _Life) -> None:
        if life.state != ("between" if s.link == "out" else "allocated"):
            self.say(f"EnQue of {s.local}, which is {life.state}", s.local)
        if not life.written:
            self.say(f"EnQue of {s.local}, to which nothing was written", s.local)
        waiting = self.waiting[s.queue]
        waiting.append(s.local)
        if len(waiting) > self.queues[s.queue].depth:
            self.say(
                f"{len(waiting)} tensors wait in {s.queue} of depth {self.queues[s.queue].depth}",
                s.local,
            )
        life.state, life.link = "enqueued", s.link

    def _deque(self, s: DeQue, life: _Life) -> None:
        if life.state != "enqueued":
            self.say(f"DeQue of {s.local}, which is {life.state}", s.local)
            return
        if self.waiting[s.queue].pop(0) != s.local:
            self.say(f"DeQue of {s.queue} gives another tensor than {s.local}", s.local)
        if life.link != s.link:
            self.say(f"DeQue of {s.local} waits for another pipe than EnQue tells", s.local)
        life.state = "between" if s.link == "in" else "dequeued"

    def _write(self, local: str, pipe: str) -> None:
        if local in self.bufs:
            return
        life = self.alive.get(local)
        if life is None:
            self.say(f"{local} is written while no queue holds it", local)
            return
        decl = self.queues[life.queue]
        between = life.state == "between"
        if life.state != "allocated" and not between:
            self.say(f"{local} is written while it is {life.state}", local)
        loads = decl.copy or decl.position is Position.VECIN
        writer = "MTE2" if loads and not between else "V"
        if pipe != writer:
            self.say(f"{pipe} writes {local} of {life.queue}, which {writer} fills", local)
        life.written = True

    def _read(self, local: str, pipe: str) -> None:
        if local in self.bufs:
            return
        life = self.alive.get(local)
        if life is None:
            self.say(f"{local} is read while no queue holds it", local)
            return
        decl = self.queues[life.queue]
        out = decl.copy or decl.position is Position.VECOUT
        # Before EnQue the pipe that computes a result may read it again, and so may the scalar unit once it is
        # computed; other pipes have to wait for DeQue.
        own = life.state == "allocated" and pipe in ("V", "S")
        early = own and out and not decl.copy and life.written
        early = early or (life.state == "between" and pipe in ("V", "S"))
        if life.state != "dequeued" and not early:
            self.say(f"{local} is read while it is {life.state}", local)

    def finish(self, what: str) -> None:
        for local, life in self.alive.items():
            self.say(
                f"{local} is {life.state} at the end of {what}: {life.queue} is not empty", local
            )


# TBufs ----------------------------------------------------------------------------------------
def buffers_hold_their_tensors(kernel: Kernel) -> Iterator[Finding]:
    """Check that reads of a TBuf get its last write, and that operands of a call share bytes only where they may."""
    buf_of: dict[str, str] = {}
    declared: set[str] = set()
    queues: set[str] = set()
    owner: dict[str, str] = {}
    scalars: set[str] = set()
    found: dict[str, Finding] = {}

    def say(text: str, local: str) -> None:
        found.setdefault(text, Finding(text, kernel.node_of(local)))

    def read(local: str) -> None:
        buf = buf_of.get(local)
        if buf is None:
            if local not in buf_of and kernel.buffer_of(local) not in queues:
                say(f"{local} is read, but has no buffer", local)
        elif owner.get(buf) != local:
            say(f"{local} is read, but {buf} holds {owner.get(buf, 'nothing yet')}", local)

    def step(item: Item) -> None:
        s = item.stmt
        if isinstance(s, BufDecl):
            declared.add(s.name)
        elif isinstance(s, QueueDecl):
            queues.add(s.name)
        elif isinstance(s, GetBuf):
            buf_of[s.local] = s.buf
            if s.buf not in declared:
                say(f"{s.buf} is not declared", s.local)
        elif isinstance(s, Alias):
            # Tensors that alternate in one queue buffer.
            buf_of[s.of] = buf_of[s.local] = buf_of.get(s.of, s.of)
            owner.setdefault(buf_of[s.of], s.of)
        elif isinstance(s, ScalarRead):
            scalars.add(s.name)
        elif isinstance(s, CopyIn) and s.scalar and s.scalar not in scalars:
            say(f"{s.scalar} is used before it is read", s.local)
        elif isinstance(s, Call):
            for arg in s.args:
                if isinstance(arg, ScalarVar) and arg.name not in scalars:
                    say(f"{arg.name} is used before it is read", s.writes[0])
            for text in _shared(kernel, s, buf_of):
                say(text, s.writes[0])
        for x in item.reads_in_ub:
            read(x)
        for x in item.writes_in_ub:
            if x in buf_of:
                owner[buf_of[x]] = x

    for item in kernel.items:
        if not item.inside:
            step(item)
    for repeats in (2, 2, 0):
        for item in kernel.turn(repeats):
            step(item)
    yield from found.values()


def _shared(kernel: Kernel, s: Call, buf_of: dict[str, str]) -> Iterator[str]:
    """Yield illegal overlaps of a call's operands: a result may overwrite an operand only if the call allows it."""
    place = {x: buf_of.get(x, x) for x in (*s.reads, *s.writes)}
    node = kernel.locals.get(s.writes[0])
    join = any(kernel.local_of(x) == s.writes[0] and s.writes[0] in s.reads for x in kernel.joins)
    row = find_call(node.op, kernel.arch) if node is not None else None
    carries = set(s.reads) & set(s.writes[1:])
    for x in s.reads:
        if place[x] == place[s.writes[0]] and not join and not (row is not None and row.inplace):
            yield f"{s.api} writes {s.writes[0]} over its operand {x}"
        for tmp in s.writes[1:]:
            if tmp == x and x in carries:
                continue
            if place[tmp] == place[x]:
                yield f"the scratch space {tmp} of {s.api} is where its operand {x} is"
    for tmp in s.writes[1:]:
        if place[tmp] == place[s.writes[0]]:
            yield f"the scratch space {tmp} of {s.api} is where its result is"


# waiting --------------------------------------------------------------------------------------
_Clock = dict[str, int]


@dataclass(slots=True)
class _Bytes:
    """Accesses to one buffer: the last write and the reads since then, as (pipe, instruction)."""

    write: tuple[str, int] | None = None
    reads: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Time:
    """Clocks of all pipes."""

    count: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_PIPES, 0))
    known: dict[str, _Clock] = field(
        default_factory=lambda: {p: dict.fromkeys(_PIPES, 0) for p in _PIPES}
    )
    #: Later vector instructions start after those up to here are complete.
    barrier: int = 0

    def issue(self, pipe: str) -> int:
        # The scalar unit issues, so everything it has waited for is complete.
        self.learn(pipe, self.known["S"])
        self.count[pipe] += 1
        return self.count[pipe]

    def mark(self, pipe: str) -> _Clock:
        """Return the clock after a wait for all instructions issued to ``pipe`` so far."""
        return {**self.known[pipe], pipe: self.count[pipe]}

    def learn(self, pipe: str, clock: _Clock) -> None:
        mine = self.known[pipe]
        for p, n in clock.items():
            if n > mine[p]:
                mine[p] = n

    def over(self, pipe: str, other: tuple[str, int]) -> bool:
        """Return True if an instruction issued to ``pipe`` now starts after ``other`` is complete."""
        p, n = other
        if p == "S":
            return True  # A scalar read completes before anything else is issued.
        if p == pipe and (p != "V" or n <= self.barrier):
            return True
        return n <= self.known[pipe][p]

    def seen(self, pipe: str, write: tuple[str, int]) -> bool:
        """Return True if a pipe sees a write; other pipes must wait for the scalar unit's writes to UB."""
        p, n = write
        if p == "S" and pipe != "S":
            return n <= self.known[pipe]["S"]
        return self.over(pipe, write)


def barriers_and_events(kernel: Kernel) -> Iterator[Finding]:
    """An instruction starts after earlier writes of bytes it reads or overwrites, and reads of those it overwrites."""
    walk = _Waits(kernel)
    for item in kernel.items:
        if not item.inside and item.within is None:
            walk.step(item.stmt)
    # Reduce loops may run no iteration.
    spec, ranges = kernel.spec, {s.name: (s.min, s.max) for s in kernel.impl.symbols}
    sizes = (spec.reduce_outer, spec.opened.extent if spec.reduce_tiles else ONE)
    empty = any(bounds(size, ranges)[0] < 1 for size in sizes) and not kernel.empty
    # With two buffers, the third iteration reuses the bytes of the first one.
    for repeats in (2, 2, 2, 0, 0) if empty else (2, 2, 2):
        walk.loads.clear()
        walk.stores.clear()
        for item in kernel.turn(repeats):
            walk.enter(item)
            if item.within is None:
                walk.step(item.stmt)
    yield from walk.found.values()


class _Waits:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.time = _Time()
        self.place: dict[str, str] = {}
        self.bytes: dict[str, _Bytes] = {}
        self.queues: dict[str, QueueDecl] = {}
        self.enqueued: dict[str, list[_Clock]] = {}
        #: Free buffers of each queue, in allocation order, and the clock of each.
        self.freed: dict[str, list[tuple[str, _Clock]]] = {}
        self.loads: dict[str, int] = {}
        self.stores: set[str] = set()
        #: Subset stored by the current iteration of a reduce loop.
        self.own: set[str] = set()
        self.number: int | None = None
        firsts: dict[int | None, Item] = {}
        for item in kernel.items:
            firsts.setdefault(item.number, item)
        self.firsts = {number: item for number, item in firsts.items() if number is not None}
        self.found: dict[str, Finding] = {}
        self.params: dict[str, str] = {}
        self.overwrites = _in_place(kernel)

    def say(self, text: str, local: str) -> None:
        self.found.setdefault(text, Finding(text, self.kernel.node_of(local)))

    def enter(self, item: Item) -> None:
        """Enter the next statement; every iteration of a reduce loop has its own tile."""
        if item.number != self.number:
            self.own.clear()
        elif item.number is not None and self.firsts[item.number] is item:
            self.stores -= self.own
            self.own.clear()
        self.number = item.number

    def step(self, s: Stmt) -> None:
        time = self.time
        if isinstance(s, Call):
            for number, (reads, writes) in enumerate(phases(s)):
                if number:
                    time.barrier = time.count["V"]
                self._access("V", reads, writes, s.api)
        elif isinstance(s, VectorFunction):
            self._access("V", s.loads, s.stores, "the function on registers")
        elif isinstance(s, CopyIn) and s.scalar:
            self._access("S", (), (s.local,), "SetValue")
        elif isinstance(s, CopyIn):
            self._access("MTE2", (), (s.local,), "the load")
            param = self.params.get(s.gm, s.gm)
            self.loads[param] = time.count["MTE2"]
            if param in self.stores:
                self.say(f"{s.gm} is loaded after the tile was overwritten", s.local)
        elif isinstance(s, CopyOut):
            self._access("MTE3", (s.local,), (), "the store")
            self._in_place_store(s)
        elif isinstance(s, ScalarRead) and s.gm:
            pass
        elif isinstance(s, ScalarRead | IndexRead):
            self._access("S", (s.local,), (), "GetValue")
        elif isinstance(s, Sync):
            time.learn(s.target, time.mark(s.source))
        elif isinstance(s, Barrier):
            if s.pipe in ("PIPE_V", "PIPE_ALL"):
                time.barrier = time.count["V"]
        elif isinstance(s, QueueDecl):
            self.queues[s.name] = s
            self.enqueued[s.name], self.freed[s.name] = [], []
        elif isinstance(s, InitBuffer) and s.name in self.queues:
            # Unused buffers come first: taking the second of two does not wait for the first.
            self.freed[s.name] = [(f"{s.name}#{k}", {}) for k in range(s.buf_num)]
        elif isinstance(s, GetBuf):
            self.place[s.local] = s.buf
        elif isinstance(s, Alias):
            self.place[s.local] = self.place.get(s.of, s.of)
        elif isinstance(s, GlobalDecl):
            self.params[s.name] = s.param
        elif isinstance(s, Alloc | EnQue | DeQue | Free) and s.queue in self.queues:
            self._queue(s)

    def _queue(self, s: Alloc | EnQue | DeQue | Free) -> None:
        decl, time = self.queues[s.queue], self.time
        loads = decl.copy or decl.position is Position.VECIN
        stores = decl.copy or decl.position is Position.VECOUT
        link = s.link if isinstance(s, EnQue | DeQue) else ""
        writer = "MTE2" if loads and link != "out" else "V"
        reader = "MTE3" if stores and link != "in" else "V"
        if isinstance(s, Alloc):
            # The bytes of the buffer's previous tensor.  The event of FreeTensor has been awaited, which does not cover
            # vector calls that read a tensor after it was enqueued for its store.
            if self.freed[s.queue]:
                self.place[s.local], over = self.freed[s.queue].pop(0)
                time.learn(writer, over)
        elif isinstance(s, EnQue):
            self.enqueued[s.queue].append(time.mark(writer))
        elif isinstance(s, DeQue):
            if self.enqueued[s.queue]:
                time.learn(reader, self.enqueued[s.queue].pop(0))
        else:
            self.freed[s.queue].append((self.place.get(s.local, s.local), time.mark(reader)))

    def _access(
        self, pipe: str, reads: tuple[str, ...], writes: tuple[str, ...], what: str
    ) -> None:
        time = self.time
        time.learn(pipe, time.known["S"])
        for x in reads:
            have = self.bytes.get(self.place.get(x, x))
            if have is not None and have.write is not None and not time.seen(pipe, have.write):
                self.say(f"{what} reads {x} without waiting for {_who(have.write)}", x)
        for x in writes:
            have = self.bytes.get(self.place.get(x, x))
            if have is None:
                continue
            late = next((e for e in have.reads if not time.over(pipe, e)), None)
            if late is None and have.write is not None and not time.seen(pipe, have.write):
                late = have.write
            if late is not None:
                self.say(f"{what} writes {x} without waiting for {_who(late)}", x)
        n = time.issue(pipe)
        for x in reads:
            self.bytes.setdefault(self.place.get(x, x), _Bytes()).reads.append((pipe, n))
        for x in writes:
            self.bytes[self.place.get(x, x)] = _Bytes((pipe, n))

    def _in_place_store(self, s: CopyOut) -> None:
        mine = self.params.get(s.gm, s.gm)
        for data in self.overwrites.get(mine, ()):
            if data not in self.stores:
                self.own.add(data)
            self.stores.add(data)
            load = self.loads.get(data)
            if load is not None and not self.time.over("MTE3", ("MTE2", load)):
                self.say(f"{s.gm} overwrites what a load of this tile may still read", s.local)


def _who(access: tuple[str, int]) -> str:
    return {
        "MTE2": "the load",
        "MTE3": "the store",
        "V": "the vector call",
        "S": "the scalar unit",
    }[access[0]]


def _in_place(kernel: Kernel) -> dict[str, list[str]]:
    """Map each output parameter to the input parameters whose memory it overwrites."""
    out: dict[str, list[str]] = {}
    params = kernel.fn.params
    for n in kernel.impl.nodes:
        index = n.number("inout", -1)
        if n.op == "Output" and index >= 0:
            out.setdefault(params.outputs[n.number("index")], []).append(params.inputs[index])
    return out


# events ---------------------------------------------------------------------------------------
def event_ids_suffice(kernel: Kernel) -> Iterator[Finding]:
    """Queues and persistent syncs use at most 8 ids of every event, and no loop takes another id per iteration."""
    ids: Counter[str] = Counter()
    number: dict[str, int] = {}
    queues: dict[str, QueueDecl] = {}
    through: set[str] = set()
    for item in kernel.items:
        s = item.stmt
        if isinstance(s, QueueDecl):
            queues[s.name] = s
        elif isinstance(s, InitBuffer):
            number[s.name] = s.buf_num
        elif isinstance(s, EnQue) and s.link:
            through.add(s.queue)
        elif isinstance(s, Sync) and s.target != "S":
            ids[s.event] += 1
            if item.inside:
                yield Finding(
                    f"the sync {s.event} in the loop takes an event id in every iteration"
                )
    for name, decl in queues.items():
        event = "MTE2_V" if decl.position is Position.VECIN else "V_MTE3"
        event = "MTE2_MTE3" if decl.copy else event
        for e in ("MTE2_V", "V_MTE3") if name in through else (event,):
            ids[e] += number.get(name, 0)
    most = kernel.arch.event_ids
    for event, count in ids.items():
        if count > most:
            yield Finding(f"{count} ids of {event} are taken; there are {most}")


def queues_are_within_limits(kernel: Kernel) -> Iterator[Finding]:
    """No TPosition has more queue buffers, and the TPipe no more buffers, than the architecture allows."""
    found: Counter[str] = Counter()
    for b in kernel.impl.buffers:
        if b.kind is BufferKind.QUEUE:
            found[b.position.value] += b.buf_num
    limit, most = kernel.arch.queue_buffers_per_position, kernel.arch.buffers_total
    for position, count in found.items():
        if count > limit:
            yield Finding(f"{count} queue buffers at {position}; the limit is {limit}")
    count = sum(b.buf_num for b in kernel.impl.buffers)
    if count > most:
        yield Finding(f"{count} buffers; the limit is {most}")
