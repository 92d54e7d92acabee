"""Functions on vector registers, for architectures that have them: runs of calls over the same elements become one.

A run goes through a block, past what moves tensors: what brings operands comes before the function, what frees them or
takes results away behind it.  The longest run is taken that is one function:

- its calls go through the same elements, and there are functions on registers for each of them and its dtypes;
- values fit into the registers, and tensors and scalars into the parameters;
- no step stores over what another one still loads;
- no tensor stays longer than it is read, where others wait for its place in the queue: loads would stand still.

No barrier is needed inside, for no address in UB is written and then read there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    Call,
    Comment,
    CopyIn,
    CopyOut,
    Count,
    DeQue,
    DmaLet,
    EnQue,
    EnumArg,
    For,
    Free,
    GetBuf,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    LocalArg,
    ScalarRead,
    ScalarVar,
    SizeValue,
    Stmt,
    VectorFunction,
)
from autofuse.implgraph.expr.expression import CeilDiv, Expr, align_up
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.targets import Architecture

__all__ = ["FormVectorFunctions", "cast_mode", "in_registers", "registers_needed", "stated_count"]

#: Calls of one function; longer ones take long to compile, and leave the instruction cache.
MOST_CALLS = 64
#: Tensors and scalars that a function takes besides its count: those behind the 16th word are not passed in registers.
MOST_PARAMETERS = 15
#: Bit operations: on data they count 16 bits at a time, on masks that many elements.
_BITWISE = frozenset({"And", "Or", "Not"})
#: Calls whose count is rounded up to whole repeats.
_WHOLE = frozenset({"Compare", "CompareScalar", "Select"})
#: What may stand between the calls of a function, besides calls.
_MOVES = (Alias, Alloc, Comment, CopyIn, CopyOut, DeQue, DmaLet, EnQue, Free, Let)


@dataclass(frozen=True)
class FormVectorFunctions:
    """Makes one statement of each run of two calls or more."""

    name: str = "form-vector-functions"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """The function with functions on registers, where its architecture has them."""
        if fn.arch is None or not fn.arch.vector_registers:
            return fn
        known = _Known(fn, fn.arch)
        return replace(fn, body=known.block(fn.body))


# what registers have --------------------------------------------------------------------------
def in_registers(s: Call, dtypes: dict[str, DType], arch: Architecture) -> bool:
    """Whether there is a function on registers for a call with tensors of these dtypes."""
    if not s.args or not isinstance(s.args[-1], Count) or len(s.writes) != 1:
        return False
    of = [dtypes.get(a.local) for a in s.args if isinstance(a, LocalArg)]
    known = [d for d in of if d is not None]
    if len(known) < len(of) or any([d.itemsize > 4 for d in known]):
        return False
    if s.api == "Cast":
        return _has_cast(known[1], known[0], cast_mode(s), arch)
    data = [d for d in known if d.kind != "m"]
    if not data:
        return s.api in _BITWISE
    if any([d is not data[0] for d in data]):
        return False
    return arch.takes_in_registers(s.api, data[0].name)


def _has_cast(source: DType, result: DType, mode: str, arch: Architecture) -> bool:
    if source is result:
        return mode != "NONE" and arch.takes_in_registers("Truncate", source.name)
    return (source.name, result.name, mode) in arch.register_casts


def cast_mode(s: Call) -> str:
    """The round mode of a cast."""
    (mode,) = [a.text for a in s.args if isinstance(a, EnumArg)]
    return mode.rpartition("_")[2]


def _constants(calls: Sequence[Call]) -> int:
    """Registers that are filled before the loop: constants, and scalars where a register is needed."""
    other = [s for s in calls if s.api == "Select" and not isinstance(s.args[3], LocalArg)]
    return len(other) + len([s for s in calls if s.api == "Duplicate"])


def registers_needed(calls: Sequence[Call], dtypes: dict[str, DType]) -> tuple[int, int]:
    """How many vector registers and mask registers hold a value at a time, the mask of the loop among them."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    whole: set[str] = set()
    for k, s in enumerate(calls):
        for x in (*s.reads, *s.writes):
            first.setdefault(x, k)
            last[x] = k
        if s.api == "Duplicate":
            whole |= {*s.writes}
    most = [0, 0]
    for k in range(len(calls)):
        live = [x for x in first if first[x] <= k <= last[x] and x not in whole]
        masks = len([x for x in live if dtypes[x].kind == "m"])
        most = [max(most[0], len(live) - masks), max(most[1], masks)]
    return most[0] + _constants(calls), most[1] + 1


def stated_count(s: Call, count: Expr, dtypes: dict[str, DType], arch: Architecture) -> Expr:
    """The count that a call states if it goes through ``count`` elements."""
    of = [dtypes[a.local] for a in s.args if isinstance(a, LocalArg)]
    data = [d for d in of if d.kind != "m"]
    if not data:
        bits = 8 * arch.block_bytes
        return CeilDiv(count, bits) * (bits // 16)
    if s.api in _BITWISE:
        return count * (data[0].itemsize // 2)
    return align_up(count, arch.vector_bytes // data[0].itemsize) if s.api in _WHOLE else count


# forming --------------------------------------------------------------------------------------
class _Known:
    """What the pass knows of a function: its tensors, and who reads them."""

    def __init__(self, fn: KernelFn, arch: Architecture) -> None:
        self.name, self.arch = fn.name, arch
        self.made = 0
        self.dtypes: dict[str, DType] = {}
        self.places: dict[str, str] = {}
        #: The statements that read a tensor; those that hand on what a buffer of a queue holds, by its first tensor.
        self.readers: dict[str, set[int]] = {}
        self.handed: set[str] = set()
        self.buffers: dict[str, int] = {}
        for s in _statements(fn.body):
            if isinstance(s, GetBuf | Alloc | Alias | ScalarRead):
                self.dtypes[s.name if isinstance(s, ScalarRead) else s.local] = s.dtype
            if isinstance(s, GetBuf):
                self.places[s.local] = s.buf
            elif isinstance(s, Alias):
                self.places[s.local] = self.place(s.of)
            if isinstance(s, CopyOut) or (isinstance(s, EnQue) and s.link != "in"):
                self.handed.add(self.place(s.local))
            for local in _read(s):
                self.readers.setdefault(local, set()).add(id(s))
            if isinstance(s, InitBuffer):
                self.buffers[s.name] = s.buf_num

    def place(self, local: str) -> str:
        """What holds the bytes of a tensor."""
        return self.places.get(local, local)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        at = 0
        shared = self._shared(body)
        while at < len(body):
            s = body[at]
            found = self._longest(body, at, shared) if self._fits(s) else None
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

    def _fits(self, s: Stmt) -> bool:
        return isinstance(s, Call) and in_registers(s, self.dtypes, self.arch)

    def _shared(self, body: tuple[Stmt, ...]) -> frozenset[str]:
        """Queues of which an iteration takes several buffers, and that have none for the next one of each tensor."""
        taken = Counter([s.queue for s in body if isinstance(s, Alloc)])
        return frozenset(q for q, n in taken.items() if n > 1 and 2 * n > self.buffers.get(q, 1))

    def _longest(
        self, body: tuple[Stmt, ...], start: int, shared: frozenset[str]
    ) -> tuple[_Run, int] | None:
        """The longest function that begins with a call, and the place behind it."""
        ends: list[int] = []
        for at in range(start + 1, len(body)):
            s = body[at]
            if self._fits(s):
                ends.append(at + 1)
                if len(ends) == MOST_CALLS - 1:
                    break
            elif not isinstance(s, _MOVES) or (isinstance(s, Free) and s.queue in shared):
                break
        for end in reversed(ends):
            run = _Run(self, body[start:end])
            if run.arrange() and run.resolve():
                return run, end
        return None


@dataclass
class _Run:
    """Statements that may become one function with what comes before and behind it."""

    known: _Known
    entries: tuple[Stmt, ...]
    calls: list[Call] = field(default_factory=list)
    notes: list[tuple[str, ...]] = field(default_factory=list)
    before: list[Stmt] = field(default_factory=list)
    behind: list[Stmt] = field(default_factory=list)
    count: Expr | None = None
    loads: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    #: By tensor that a call writes: what was handed on before, in the order of the text.
    late: dict[str, frozenset[str]] = field(default_factory=dict)

    def arrange(self) -> bool:
        """Puts what moves tensors before or behind the function; False where neither is right."""
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
                opened.append(s)  # the comments are of what writes the tensor
                continue
            (self.behind if behind else self.before).extend([*comments, *opened, s])
            comments, opened = [], []
        return True

    def resolve(self) -> bool:
        """Finds what is loaded and stored; False where that is not one function."""
        dtypes, arch = self.known.dtypes, self.known.arch
        plain = [s for s in self.calls if s.api not in _WHOLE | _BITWISE]
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
        scalars = {a for s in self.calls for a in s.args if isinstance(a, ScalarVar | SizeValue)}
        return len({*self.loads, *self.stores}) + len(scalars) <= MOST_PARAMETERS

    def _flow(self) -> dict[str, frozenset[str]] | None:
        """What every value is computed from, of what is loaded; None where a constant is not one."""
        needs: dict[str, frozenset[str]] = {}
        for s in self.calls:
            (to,) = s.writes
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
        for to in dict.fromkeys([s.writes[0] for s in self.calls]):
            read = self.known.readers.get(to, set()) - mine
            if read or to in self.loads or self.known.place(to) in self.known.handed:
                self.stores.append(to)
        return needs

    def _stores_in_place(self, needs: dict[str, frozenset[str]]) -> bool:
        """Whether what is stored leaves alone what is loaded, and what was handed on."""
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
        """The function with what comes before and behind it."""
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
            (notes, *self.notes[1:]),
        )
        return [*self.before, made, *self.behind]


def _statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from _statements(s.body)


def _read(s: Stmt) -> tuple[str, ...]:
    """The tensors in UB whose bytes a statement needs."""
    if isinstance(s, Call):
        return s.reads
    return (s.local,) if isinstance(s, CopyOut | EnQue | ScalarRead | IndexRead) else ()
