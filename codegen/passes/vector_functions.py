"""Fuse runs of vector calls over the same elements into functions on vector registers, on architectures with them.

A run extends over a block, past statements that move tensors: those that supply operands precede the function, those
that free them or take results away follow it.  The pass takes the longest run that can be one function:

- its calls cover the same elements, and functions on registers support each of them and its dtypes;
- values fit the registers, and tensors and scalars the parameters;
- no step stores over data that another one still loads;
- no tensor stays allocated after its last read, if others wait for its slot in the queue: loads would stall.

A tensor filled once, with a number, is no operand: the function fills a register with it, before its loop.  A tensor
with copies of a row is no operand of a function with rows: it loads the row, if that is still in UB.  The memory plan
may reuse the space of a copied row, but values in registers take no space.  If only functions read such tensors, they
are not written to UB.

No barrier is needed inside, as no address in UB is written and then read there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from autofuse.codegen.ir.calls import (
    Call,
    Count,
    LocalArg,
    RowLoop,
    Rows,
    RowStep,
    ScalarVar,
    SizeValue,
    VectorFunction,
)
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    Comment,
    CopyIn,
    CopyOut,
    DeQue,
    DmaLet,
    EnQue,
    For,
    Free,
    GetBuf,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    ScalarRead,
    Stmt,
)
from autofuse.codegen.passes.register_calls import (
    BITWISE,
    WHOLE,
    in_registers,
    registers_needed,
    stated_count,
)
from autofuse.codegen.passes.row_calls import (
    RowCalls,
    counts_of_rows,
    row_calls,
    row_in_registers,
)
from autofuse.codegen.passes.row_costs import calls_take, rows_take
from autofuse.codegen.passes.row_places import stored_too_early
from autofuse.codegen.passes.row_steps import kept_steps, steps_need, stored_between, streamed_steps
from autofuse.implgraph.expr.expression import Expr, divide_exact
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.targets import Architecture, TargetSpec

__all__ = ["MOST_CALLS", "MOST_PARAMETERS", "MOST_STEPS", "FormVectorFunctions"]

#: Most calls of one function; longer ones compile slowly, and exceed the instruction cache.
MOST_CALLS = 64
#: Most tensors and scalars besides the count: parameters after the 16th word are not passed in registers.
MOST_PARAMETERS = 15
#: Largest share of the calls' time for streamed rows: a function holds its operands, and delays its stores, until the
#: whole tile is done, whereas calls let the next copy begin.
STREAMED_IN = 0.9
#: Most steps of a row, since they are unrolled.
MOST_STEPS = 320
#: Statements allowed between the calls of a function, besides calls.
_MOVES = (Alias, Alloc, Comment, CopyIn, CopyOut, DeQue, DmaLet, EnQue, Free, Let)


@dataclass(frozen=True)
class FormVectorFunctions:
    """Fuse each run of two calls or more into one statement."""

    name: str = "form-vector-functions"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """Return the function with functions on registers, if its architecture has them."""
        if fn.arch is None or not fn.arch.vector_registers:
            return fn
        known = _Known(fn, fn.arch, fn.chip)
        # Forming functions shows which tensors are needed in UB; those no longer fill registers, and it runs again.
        while True:
            body = known.formed(fn.body)
            read = _read_in_ub(body)
            dead = {id(s) for x, s in known.fills.items() if x not in read}
            if dead:
                body = known.formed(_dropped(fn.body, dead))
            lost = known.lost(body, dead)
            if not lost:
                return replace(fn, body=body)
            known.fills = {x: s for x, s in known.fills.items() if x not in lost}


# forming --------------------------------------------------------------------------------------
class _Known:
    """Facts about a function: its tensors and their readers."""

    def __init__(self, fn: KernelFn, arch: Architecture, chip: TargetSpec | None) -> None:
        self.name, self.arch, self.chip = fn.name, arch, chip
        self.made = 0
        self.dtypes: dict[str, DType] = {}
        self.places: dict[str, str] = {}
        #: Readers of each tensor; and tensors handed on in a queue buffer, by its first tensor.
        self.readers: dict[str, set[int]] = {}
        self.handed: set[str] = set()
        self.buffers: dict[str, int] = {}
        self.queues: dict[str, str] = {}
        written: dict[str, list[Stmt]] = {}
        for s in _statements(fn.body):
            if isinstance(s, GetBuf | Alloc | Alias | ScalarRead):
                self.dtypes[s.name if isinstance(s, ScalarRead) else s.local] = s.dtype
            if isinstance(s, Alloc):
                self.queues[s.local] = s.queue
            if isinstance(s, GetBuf):
                self.places[s.local] = s.buf
            elif isinstance(s, Alias):
                self.places[s.local] = self.place(s.of)
            if isinstance(s, CopyOut) or (isinstance(s, EnQue) and s.link != "in"):
                self.handed.add(self.place(s.local))
            for local in _read(s):
                self.readers.setdefault(local, set()).add(id(s))
            for local in _written(s):
                written.setdefault(local, []).append(s)
            if isinstance(s, InitBuffer):
                self.buffers[s.name] = s.buf_num
        #: Calls whose result is one number, or copies of one row.
        self.fills: dict[str, Call] = {}
        once = {id(s) for s in fn.body}
        users = Counter([self.place(x) for x, of in written.items() for _ in of])
        for x, (s, *more) in written.items():
            if more or not isinstance(s, Call) or x != s.writes[0] or x not in self.places:
                continue
            if _fills(s):
                # If other tensors share its place, functions without it would be longer, and wait for more loads.
                if users[self.place(x)] == 1:
                    self.fills[x] = s
            elif id(s) in once and s.form == "Outer" and counts_of_rows(s) is not None:
                of = written.get(s.reads[0], [])
                if s.reads[0] in self.places and len(of) == 1 and id(of[0]) in once:
                    self.fills[x] = s

    def lost(self, body: tuple[Stmt, ...], dead: set[int]) -> set[str]:
        """Return the tensors that cannot fill registers: read in UB without their call, or with an overwritten row."""
        last = {self.place(x): x for s in _statements(body) for x in _written(s)}
        read = _read_in_ub(body)
        return {
            x
            for x, s in self.fills.items()
            if (id(s) in dead and x in read)
            or (s.reads and last.get(self.place(s.reads[0])) != s.reads[0])
        }

    def place(self, local: str) -> str:
        """Return the holder of the bytes of a tensor."""
        return self.places.get(local, local)

    def buffer(self, local: str) -> tuple[str, int]:
        """Return the buffer of a tensor, or its queue, and the number of buffers of that size."""
        place = self.place(local)
        queue = self.queues.get(place, place)
        return queue, max(self.buffers.get(queue, 1), 1)

    def formed(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return all statements of the function, with functions on registers."""
        self.made = 0
        return self.block(body)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        at = 0
        shared = self._shared(body)
        while at < len(body):
            s = body[at]
            found = self._found(body, at, shared)
            if found is not None:
                notes: list[str] = []
                while out and isinstance(last := out[-1], Comment):
                    notes.insert(0, last.text)
                    out.pop()
                run, at = found
                out += run.statements(f"{self.name}_vf{self.made}", tuple(notes))
                self.made += 1
                continue
            out.append(replace(s, body=self.block(s.body)) if isinstance(s, For) else s)
            at += 1
        return tuple(out)

    def _found(
        self, body: tuple[Stmt, ...], at: int, shared: frozenset[str]
    ) -> tuple[_Run, int] | None:
        """Return the longest function from a statement on, and the index after it; prefer rows if equally long."""
        kinds = [k for k in (_RowRun, _Run) if k.takes(body[at], self.dtypes, self.arch)]
        found = [f for k in kinds if (f := self._longest(body, at, shared, k)) is not None]
        return max(found, key=lambda f: f[1], default=None)

    def _shared(self, body: tuple[Stmt, ...]) -> frozenset[str]:
        """Return the queues with several allocations per iteration, and no buffer for the next one of each tensor."""
        taken = Counter([s.queue for s in body if isinstance(s, Alloc)])
        return frozenset(q for q, n in taken.items() if n > 1 and 2 * n > self.buffers.get(q, 1))

    def _longest(
        self, body: tuple[Stmt, ...], start: int, shared: frozenset[str], kind: type[_Run]
    ) -> tuple[_Run, int] | None:
        """Return the longest function that begins with a call, and the index after it."""
        ends = [start + 1] if kind.alone(body[start], self) else []
        for at in range(start + 1, len(body)):
            s = body[at]
            if kind.takes(s, self.dtypes, self.arch):
                ends.append(at + 1)
                if len(ends) == MOST_CALLS - 1:
                    break
            elif not isinstance(s, _MOVES) or (isinstance(s, Free) and s.queue in shared):
                break
        for end in reversed(ends):
            run = kind(self, body[start:end])
            if run.arrange() and run.resolve():
                return run, end
        return None


@dataclass
class _Run:
    """Statements that may become one function with statements before and after it."""

    known: _Known
    entries: tuple[Stmt, ...]
    calls: list[Call] = field(default_factory=list)
    notes: list[tuple[str, ...]] = field(default_factory=list)
    before: list[Stmt] = field(default_factory=list)
    behind: list[Stmt] = field(default_factory=list)
    count: Expr | None = None
    loads: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    #: Result of a call -> the tensors handed on before it, in textual order.
    late: dict[str, frozenset[str]] = field(default_factory=dict)
    #: Number of leading calls that fill registers with numbers.
    filled: int = 0
    rows: Rows | None = None
    #: Results of the function may share an address.  Off for elementwise runs: a function that is longer for it waits
    #: for more loads, and is slower in the model.
    in_place: ClassVar[bool] = False

    @staticmethod
    def takes(s: Stmt, dtypes: dict[str, DType], arch: Architecture) -> bool:
        """Return True if a statement is a call that such a function can contain."""
        return isinstance(s, Call) and in_registers(s, dtypes, arch)

    @staticmethod
    def alone(s: Stmt, known: _Known) -> bool:
        """Return True if one call may be such a function by itself."""
        return False

    def arrange(self) -> bool:
        """Place statements that move tensors before or after the function; return False if neither is correct."""
        comments: list[Comment] = []
        opened: list[Stmt] = []
        written: set[str] = set()
        touched: set[str] = set()
        late: set[str] = set()
        queues: set[str] = set()
        stored = False
        place = self.known.place
        for s in self.entries:
            if isinstance(s, Comment):
                comments.append(s)
                continue
            if isinstance(s, Call):
                self.calls.append(s)
                self.notes.append(tuple(c.text for c in comments))
                self.before += opened
                comments, opened = [], []
                if any([x in late and x not in touched for x in s.reads]) or s.writes[0] in late:
                    return False
                self.late[s.writes[0]] = frozenset(map(place, late))
                written.add(s.writes[0])
                touched |= {*s.reads, *s.writes}
                continue
            behind = False
            if isinstance(s, Free):
                behind = True
            elif isinstance(s, EnQue | DeQue | CopyOut):
                behind = s.local in late or place(s.local) in map(place, written)
                behind = behind or (isinstance(s, CopyOut) and stored)
                if not behind and isinstance(s, EnQue | DeQue) and s.queue in queues:
                    return False
            elif isinstance(s, Alloc):
                if s.queue in queues:
                    return False
            elif isinstance(s, CopyIn):
                if stored or s.local in late or place(s.local) in map(place, touched):
                    return False
            elif isinstance(s, Alias) and (s.of in late or s.local in late):
                return False
            if behind:
                assert isinstance(s, Free | EnQue | DeQue | CopyOut)
                late.add(s.local)
                stored = stored or isinstance(s, CopyOut)
                if not isinstance(s, CopyOut):
                    queues.add(s.queue)
            if isinstance(s, Alloc | Alias):
                opened.append(s)  # The comments describe the writer of the tensor.
                continue
            (self.behind if behind else self.before).extend([*comments, *opened, s])
            comments, opened = [], []
        return True

    def fill(self) -> None:
        """Prepend calls that fill registers with numbers or row copies, each as long as its first reader."""
        written = {s.writes[0] for s in self.calls}
        for s in tuple(self.calls):
            for x in s.reads:
                made = self.known.fills.get(x)
                instead = None if made is None or x in written else self.instead(made, s)
                if instead is not None:
                    self.calls.insert(0, instead)
                    self.notes.insert(0, ())
                    self.filled += 1
                    written.add(x)

    def instead(self, made: Call, reader: Call) -> Call | None:
        """Return a call that fills registers with the value of ``made``; None if the function has to load it."""
        if made.api != "Duplicate":
            return None
        return replace(made, args=(*made.args[:-1], reader.args[-1]))

    def resolve(self) -> bool:
        """Set loads and stores; return False if the calls cannot be one function."""
        self.fill()
        dtypes, arch = self.known.dtypes, self.known.arch
        plain = [s for s in self.calls if s.api not in WHOLE | BITWISE]
        if not plain:
            return False
        stated = plain[0].args[-1]
        assert isinstance(stated, Count)
        self.count = stated.value
        for s in self.calls:
            have = s.args[-1]
            assert isinstance(have, Count)
            if have.value != stated_count(s, self.count, dtypes, arch):
                return False
        needs = self._flow()
        if needs is None or not self._stores_in_place(needs):
            return False
        if any([dtypes[x].kind == "m" for x in (*self.loads, *self.stores)]):
            return False
        vectors, masks = registers_needed(self.calls, dtypes)
        if vectors > arch.vector_registers or masks > arch.mask_registers:
            return False
        return self._parameters() <= MOST_PARAMETERS

    def _parameters(self) -> int:
        scalars = {a for s in self.calls for a in s.args if isinstance(a, ScalarVar | SizeValue)}
        return len({*self.loads, *self.stores}) + len(scalars)

    def _flow(self) -> dict[str, frozenset[str]] | None:
        """Set loads and stores; return the loads that each value depends on, or None if a constant is also written."""
        needs: dict[str, frozenset[str]] = {}
        for s in self.calls:
            to = s.writes[0]
            for x in s.reads:
                if x not in needs:
                    needs[x] = frozenset({x})
                    self.loads.append(x)
            if s.api == "Duplicate" and (
                to in needs or len([c for c in self.calls if to in c.writes]) > 1
            ):
                return None
            needs[to] = frozenset().union(*[needs[x] for x in s.reads])
        mine = {id(s) for s in self.calls}
        last = {self.known.place(s.writes[0]): s.writes[0] for s in self.calls}
        for to in dict.fromkeys([s.writes[0] for s in self.calls[self.filled :]]):
            read = self.known.readers.get(to, set()) - mine
            place = self.known.place(to)
            handed = place in self.known.handed and (last[place] == to or not self.in_place)
            if read or to in self.loads or handed:
                self.stores.append(to)
        return needs

    def _stores_in_place(self, needs: dict[str, frozenset[str]]) -> bool:
        """Return True if stores do not overwrite loaded tensors, or tensors handed on."""
        known, dtypes = self.known, self.known.dtypes
        places = [known.place(x) for x in self.stores]
        if len(set(places)) < len(places):
            return False
        for x, place in zip(self.stores, places, strict=True):
            if place in self.late[x]:
                return False
            for y in self.loads:
                same = dtypes[x].itemsize == dtypes[y].itemsize and y in needs[x]
                if known.place(y) == place and not same:
                    return False
        return True

    def statements(self, name: str, notes: tuple[str, ...]) -> list[Stmt]:
        """Return the function with the statements before and after it."""
        assert self.count is not None
        named = [x for s in self.calls for x in (*s.writes, *s.reads)]
        named += [a.name for s in self.calls for a in s.args if isinstance(a, ScalarVar)]
        made = VectorFunction(
            name,
            self.count,
            tuple(self.calls),
            tuple(self.loads),
            tuple(self.stores),
            tuple((x, self.known.dtypes[x]) for x in dict.fromkeys(named)),
            (*self.notes[: self.filled], notes, *self.notes[self.filled + 1 :]),
            self.rows,
            self.filled,
        )
        return [*self.before, made, *self.behind]


class _RowRun(_Run):
    """Run whose calls may reduce rows, or have operands with one element per row."""

    in_place = True

    @staticmethod
    def takes(s: Stmt, dtypes: dict[str, DType], arch: Architecture) -> bool:
        """Return True if a statement is a call that such a function can contain."""
        return isinstance(s, Call) and (
            row_in_registers(s, dtypes, arch) or in_registers(s, dtypes, arch)
        )

    @staticmethod
    def alone(s: Stmt, known: _Known) -> bool:
        """Return True if one call may be such a function by itself, because it loads a row instead of copies of it."""
        made = [known.fills[x] for x in s.reads if x in known.fills] if isinstance(s, Call) else []
        return any([m.api == "Broadcast" for m in made])

    def resolve(self) -> bool:
        """Set loads, stores and the steps of a row; return False if the calls cannot be one function."""
        self.fill()
        dtypes, arch = self.known.dtypes, self.known.arch
        r = row_calls(self.calls, dtypes, arch)
        if r is None:
            return False
        touched = {*self.loads, *self.stores} if self._flow() is not None else None
        if touched is None or r.shared.intersection(self.stores):
            return False
        if any([dtypes[x].kind == "m" for x in touched]):
            return False
        named = [x for s in self.calls for x in (s.writes[0], *s.reads)]
        lanes = arch.vector_bytes // max(dtypes[x].itemsize for x in named if dtypes[x].kind != "m")
        if -(-r.length // lanes) != -(-r.pitch // lanes):
            return False
        steps = self._kept(r, lanes) or self._streamed(r, lanes)
        if not steps:
            return False
        self.count, self.rows = r.count * r.pitch, Rows(r.count, r.length, r.pitch, steps)
        chip = self.known.chip
        if chip is None:
            return True
        most = self._rows_at_most(r, chip)
        calls = calls_take(r, self.calls[self.filled :], self.stores, dtypes, most, chip)
        if any([isinstance(s, RowLoop) for s in steps]):
            calls *= STREAMED_IN
        return rows_take(steps, self.calls, most, chip) <= calls

    def instead(self, made: Call, reader: Call) -> Call | None:
        """Return a call that fills registers; copies of a row are made for the rows that the reader covers."""
        if made.api == "Duplicate":
            return super().instead(made, reader)
        have, (one, _, pitch) = reader.args[-1], made.args[2:]
        assert isinstance(pitch, Count)
        if not isinstance(have, Count) or counts_of_rows(reader) is not None:
            return None
        rows = divide_exact(have.value, pitch.value)
        return (
            None if rows is None else replace(made, args=(*made.args[:2], one, Count(rows), pitch))
        )

    def _rows_at_most(self, r: RowCalls, chip: TargetSpec) -> float:
        """Return the most rows that fit UB: each needs space in every buffer of the calls' tensors."""
        known, row = self.known, dict[str, int]()
        for s in self.calls:
            for x in (s.writes[0], *s.reads):
                if x in r.full and known.dtypes[x].kind != "m":
                    holder, number = known.buffer(x)
                    nbytes = r.pitch * known.dtypes[x].itemsize * number
                    row[holder] = max(row.get(holder, 0), nbytes)
        return chip.ub_usable / sum(row.values())

    def _kept(self, r: RowCalls, lanes: int) -> tuple[RowStep | RowLoop, ...]:
        """Return the steps of rows that stay in registers; empty if they do not fit."""
        over = self._over(r)
        if over is None or -(-r.pitch // lanes) > self.known.arch.vector_registers:
            return ()
        steps = kept_steps(r, self.calls, self.stores, lanes, over)
        return steps if self._fit(steps, over) else ()

    def _streamed(self, r: RowCalls, lanes: int) -> tuple[RowStep | RowLoop, ...]:
        """Return the steps of streamed rows; values passed between levels are stored in UB."""
        between = stored_between(r, self.calls)
        self.stores += sorted(between.difference(self.stores))
        over = self._over(r)
        if over is None or any([self.known.dtypes[x].kind == "m" for x in between]):
            return ()
        steps = streamed_steps(r, self.calls, self.stores, lanes, over)
        return steps if self._fit(steps, over) else ()

    def _over(self, r: RowCalls) -> dict[str, frozenset[str]] | None:
        """Return the other tensors at each result's address; None if it was handed on, or the layouts differ."""
        known, found = self.known, dict[str, frozenset[str]]()
        if self._parameters() > MOST_PARAMETERS:
            return None
        for x in self.stores:
            place = known.place(x)
            same = [y for y in (*self.loads, *self.stores) if y != x and known.place(y) == place]
            if place in self.late[x] or any([not self._alike(r, x, y) for y in same]):
                return None
            if same:
                found[x] = frozenset(same)
        return found

    def _alike(self, r: RowCalls, x: str, y: str) -> bool:
        """Return True if two tensors have the same layout: both whole rows, or one element of each."""
        dtypes = self.known.dtypes
        kinds = (r.full, r.single)
        return dtypes[x].itemsize == dtypes[y].itemsize and any([{x, y} <= k for k in kinds])

    def _fit(self, steps: tuple[RowStep | RowLoop, ...], over: dict[str, frozenset[str]]) -> bool:
        """Return True if registers suffice, the text is short enough, and nothing is stored too early."""
        vectors, masks = steps_need(steps, self.calls, self.known.dtypes)
        arch = self.known.arch
        written = sum(len(s.steps) if isinstance(s, RowLoop) else 1 for s in steps)
        return (
            vectors <= arch.vector_registers
            and masks <= arch.mask_registers
            and written <= MOST_STEPS
            and not (over and any(stored_too_early(steps, over)))
        )


def _statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from _statements(s.body)


def _read_in_ub(body: tuple[Stmt, ...]) -> set[str]:
    return {x for s in _statements(body) for x in _read(s)}


def _dropped(body: tuple[Stmt, ...], dead: set[int]) -> tuple[Stmt, ...]:
    """Return the statements without the dead ones, and without the comments above them."""
    out: list[Stmt] = []
    for s in body:
        if id(s) in dead:
            while out and isinstance(out[-1], Comment):
                out.pop()
        else:
            out.append(replace(s, body=_dropped(s.body, dead)) if isinstance(s, For) else s)
    return tuple(out)


def _fills(s: Call) -> bool:
    """Return True if a call fills its tensor with a constant."""
    scalars = (ScalarVar, SizeValue, LocalArg)
    return s.api == "Duplicate" and not any(isinstance(a, scalars) for a in s.args[1:-1])


def _written(s: Stmt) -> tuple[str, ...]:
    """Return the tensors in UB that a statement writes."""
    if isinstance(s, Call):
        return s.writes
    if isinstance(s, VectorFunction):
        return s.stored
    return (s.local,) if isinstance(s, CopyIn | DeQue) else ()


def _read(s: Stmt) -> tuple[str, ...]:
    """Return the tensors in UB that a statement reads."""
    if isinstance(s, Call):
        return s.reads
    if isinstance(s, VectorFunction):
        return s.loads
    if isinstance(s, ScalarRead) and s.gm:
        return ()
    return (s.local,) if isinstance(s, CopyOut | EnQue | ScalarRead | IndexRead) else ()
