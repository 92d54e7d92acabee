"""Steps of a function with rows for one row, one register at a time.

The calls of a level run on one register of the row after the other; then the calls on reduced values run, then the next
level.  Partial results of a reduction are joined in pairs, pairs of pairs and so on, as in the tree of the instruction
that reduces the lanes of a register at the end: the order of a sum depends only on the length of the row.

Rows that fit the registers are *kept* there from the first use of an element to the last one.  Longer ones are
*streamed*: each level is a loop, with a few independent partial results.  It reloads its operands, recomputes results
of calls with one operand, and reloads other results of earlier levels after waiting for their stores.

A result may be stored over another tensor if it depends on the loads there for the row, or if stores waited for those
loads.  A row shared by all rows is loaded for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autofuse.codegen.ir.calls import Call, RowLanes, RowLoop, RowRegister, RowStep
from autofuse.codegen.passes.register_calls import constants
from autofuse.codegen.passes.row_calls import RowCalls, reduction_of
from autofuse.implgraph.ir.dtypes import DType

__all__ = ["kept_steps", "steps_need", "stored_between", "streamed_steps"]

#: Independent partial results of a reducing loop, each a separate dependence chain.
_SIDE_BY_SIDE = 4


@dataclass
class _Maker:
    """Builder of the steps."""

    r: RowCalls
    calls: Sequence[Call]
    stores: frozenset[str]
    lanes: int
    #: Values stored by an earlier level; None if registers are kept.
    between: frozenset[str] | None = None
    #: Stored tensor -> the other tensors at its address.
    over: Mapping[str, frozenset[str]] = field(default_factory=dict)
    steps: list[RowStep | RowLoop] = field(default_factory=list)
    body: list[RowStep] = field(default_factory=list)
    #: Values held in registers.
    have: set[RowRegister] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    #: Reduction -> its unjoined registers, and the number of row registers that each covers.
    parts: dict[int, list[tuple[RowRegister, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        r = self.r
        self.registers = -(-r.pitch // self.lanes)
        row: RowLanes = "row" if r.pitch % self.lanes else "all"
        part: RowLanes = row if r.length == r.pitch else "part"
        self.last = row, part
        self.made = {s.writes[0]: k for k, s in enumerate(self.calls)}
        self.levels = _levels(r, self.calls)

    def all(self) -> tuple[RowStep | RowLoop, ...]:
        read = {x for s in self.calls for x in s.reads}
        for level in range(max(self.levels) + 1):
            here = [k for k, of in enumerate(self.levels) if of == level]
            for k in here:
                if self.calls[k].writes[0] in self.r.single and self.calls[k].api != "Reduce":
                    self._call(k, None)
            wide = [k for k in here if self._is_wide(k)]
            first = self._loop(wide, level) if self.between is not None and wide else 0
            for part in range(first, self.registers if wide else 0):
                self._part(wide, part)
            for k in wide:
                if self.calls[k].api == "Reduce":
                    self._reduce(k, self.calls[k].writes[0] in read)
        self._end()
        if self._goes_on():
            self.steps.insert(0, RowStep("stores_wait"))
        return tuple(self.steps)

    def _goes_on(self) -> bool:
        """Return True if the last register of a row also loads elements of the next row that are overwritten."""
        stored = self.stores.union(*self.over.values())
        last = {s.to for s in self.steps if isinstance(s, RowStep) and s.op == "load"}
        return self.r.pitch % self.lanes > 0 and any(
            [(x, self.registers - 1) in last for x in stored]
        )

    def _is_wide(self, k: int) -> bool:
        s = self.calls[k]
        return s.api == "Reduce" or s.writes[0] in self.r.full

    def _part(self, wide: Sequence[int], part: int) -> None:
        for k in wide:
            if self.calls[k].api == "Reduce":
                self._take(k, part)
            else:
                self._call(k, part)

    def _end(self) -> None:
        """Close the sequence of steps outside of loops."""
        self.steps += self.body
        self.body = []

    def _loop(self, wide: Sequence[int], level: int) -> int:
        """Add a loop over the whole registers of a level; return the first register after it."""
        assert self.between is not None
        read = [x for k in wide for x in self.calls[k].reads]
        earlier = [x for x in read if x in self.made and self.levels[self.made[x]] < level]
        if self.between.intersection(earlier):
            self.body.append(RowStep("loads_wait"))
        stored = {x for k in wide if (x := self.calls[k].writes[0]) in self.stores}
        if any([self.loaded & self.over.get(x, frozenset()) for x in stored]):
            self.body.append(RowStep("stores_wait"))
        if self.r.length // self.lanes < _SIDE_BY_SIDE:
            return 0
        reductions = [k for k in wide if self.calls[k].api == "Reduce"]
        width = _SIDE_BY_SIDE if reductions else 1
        times = self.r.length // self.lanes // width
        # Registers past the loop stay live, except values that will be overwritten: those are loaded first.
        again = {
            y for x, of in self.over.items() for y in of if self.made.get(y, -1) < self.made[x]
        }
        self.have = {
            x for x in self.have if x[1] is None or (x[1] >= times * width and x[0] not in again)
        }
        for k in reductions:
            to = self.calls[k].writes[0]
            self.body += [RowStep("start", k, (to, at)) for at in range(width)]
            self.parts[k] = [((to, at), times) for at in range(width)]
        # Elements of rows are loaded before the loop.
        for x in read:
            if self._register(x, 0)[1] is None:
                self._value(x, None)
        outside, self.body = self.body, []
        for part in range(width):
            for k in wide:
                s = self.calls[k]
                if s.api != "Reduce":
                    self._call(k, part, whole=True)
                    continue
                at = (s.writes[0], part)
                of = self._value(s.reads[0], part, whole=True)
                self.body.append(RowStep("join", k, at, (at, of)))
        inside, self.body = self.body, outside
        self._end()
        self.steps.append(RowLoop(times, width, tuple(inside)))
        self.have = {x for x in self.have if x[1] is None or x[1] >= times * width}
        return times * width

    def _register(self, x: str, part: int | None) -> RowRegister:
        """Return the register of a value."""
        x = self.r.copies.get(x, x)
        return x, None if x in self.r.single or x in self.r.constants else part

    def _value(self, x: str, part: int | None, *, whole: bool = False) -> RowRegister:
        """Return the register of a value; load or recompute it if no register holds it."""
        at = self._register(x, part)
        if at in self.have or at[0] in self.r.constants:
            return at
        if at[0] in self.made and at[0] not in (self.between or ()):
            self._call(self.made[at[0]], part, whole=whole, again=True)
        else:
            self.body.append(RowStep("load", to=at, of=(at,)))
            self.loaded.add(at[0])
        self.have.add(at)
        return at

    def _lanes(self, part: int | None, reduced: bool = False) -> RowLanes:
        return self.last[reduced] if part == self.registers - 1 else "all"

    def _call(self, k: int, part: int | None, *, whole: bool = False, again: bool = False) -> None:
        s = self.calls[k]
        to = s.writes[0]
        lanes: RowLanes = "all" if whole else self._lanes(part)
        if s.api == "Broadcast":
            self._value(to, part)
        elif s.api != "Duplicate":
            of = tuple(self._value(x, part, whole=whole) for x in s.reads)
            self.body.append(RowStep("call", k, (to, part), of, lanes))
        self.have.add(self._register(to, part))
        if not again:
            self._store(to, part, self._register(to, part), lanes)

    def _store(self, to: str, part: int | None, of: RowRegister, lanes: RowLanes) -> None:
        if to not in self.stores:
            return
        self.body.append(RowStep("store", -1, (to, part), (of,), lanes))

    def _take(self, k: int, part: int) -> None:
        """Feed a register of the row to a reduction."""
        s = self.calls[k]
        (x,), to = s.reads, s.writes[0]
        of = self._value(x, part)
        waiting = self.parts.setdefault(k, [])
        lanes = self._lanes(part, True)
        if lanes != "all" and self.registers > 1:
            at = (to, len(waiting))
            self.body.append(RowStep("fill", k, at, (of,), lanes))
            of = at
        waiting.append((of, 1))
        while len(waiting) > 1 and waiting[-1][1] == waiting[-2][1]:
            b, a = waiting.pop(), waiting.pop()
            waiting.append(self._joined(k, len(waiting), a, b))

    def _joined(
        self, k: int, place: int, a: tuple[RowRegister, int], b: tuple[RowRegister, int]
    ) -> tuple[RowRegister, int]:
        at = (self.calls[k].writes[0], place)
        self.body.append(RowStep("join", k, at, (a[0], b[0])))
        return at, a[1] + b[1]

    def _reduce(self, k: int, spread: bool) -> None:
        waiting, to = self.parts[k], self.calls[k].writes[0]
        while len(waiting) > 1:
            pairs = [waiting[i : i + 2] for i in range(0, len(waiting), 2)]
            waiting = [self._joined(k, i, *p) if len(p) > 1 else p[0] for i, p in enumerate(pairs)]
        ((of, _),) = waiting
        lanes = self._lanes(0, True) if self.registers == 1 else "all"
        at = (to, 1)
        self.body.append(RowStep("reduce", k, at, (of,), lanes))
        if spread:
            self.body.append(RowStep("spread", k, (to, None), (at,)))
            self.have.add((to, None))
        self._store(to, None, (to, None) if spread else at, "all")


def _levels(r: RowCalls, calls: Sequence[Call]) -> list[int]:
    return [r.level[s.writes[0]] - (s.api == "Reduce") for s in calls]


def kept_steps(
    r: RowCalls,
    calls: Sequence[Call],
    stores: Iterable[str],
    lanes: int,
    over: Mapping[str, frozenset[str]],
) -> tuple[RowStep | RowLoop, ...]:
    """Return the steps of a row that stays in registers.

    Args:
        r: how the calls relate to rows.
        calls: calls, in order.
        stores: tensors to store.
        lanes: lanes of a register.
        over: stored tensor -> the other tensors at its address.
    """
    return _Maker(r, calls, frozenset(stores), lanes, over=over).all()


def stored_between(r: RowCalls, calls: Sequence[Call]) -> frozenset[str]:
    """Return the values of one level that a later one loads, rather than recomputes from loaded data."""
    levels = _levels(r, calls)
    made = {s.writes[0]: k for k, s in enumerate(calls)}
    later = {
        x
        for k, s in enumerate(calls)
        for x in s.reads
        if x in made and x in r.full and levels[made[x]] < levels[k]
    }
    easy = {x for x in later if x in r.constants or x in r.copies}
    for x in later:
        s = calls[made[x]]
        if s.api == "Cast" and s.reads[0] not in made:
            easy.add(x)
    return frozenset(later - easy)


def streamed_steps(
    r: RowCalls,
    calls: Sequence[Call],
    stores: Iterable[str],
    lanes: int,
    over: Mapping[str, frozenset[str]],
) -> tuple[RowStep | RowLoop, ...]:
    """Return the steps of a row with one pass per level; ``stores`` includes ``stored_between``."""
    return _Maker(r, calls, frozenset(stores), lanes, stored_between(r, calls), over).all()


def steps_need(
    steps: Sequence[RowStep | RowLoop], calls: Sequence[Call], dtypes: dict[str, DType]
) -> tuple[int, int]:
    """Return how many vector and mask registers are live at once, with constants and masks of rows."""
    filled = {s.writes[0] for s in calls if s.api == "Duplicate"}
    live: set[RowRegister] = set()
    most = [0, 0]
    neutral, used = set[tuple[str, DType]](), {"all"}
    for s in reversed(steps):
        # Twice, as loop-carried values stay live through the whole iteration.
        here = (*s.steps, *s.steps) if isinstance(s, RowLoop) else (s,)
        for x in reversed(here):
            used.add(x.lanes)
            if x.op in ("stores_wait", "loads_wait"):
                continue
            if x.op == "fill":
                neutral.add((reduction_of(calls[x.call]), dtypes[x.to[0]]))
            to = {x.to} if x.op != "store" else set()
            of = {y for y in x.of if y[0] not in filled} if x.op != "load" else set()
            for now in (live | to, (live - to) | of):
                masks = len([y for y in now if dtypes[y[0]].kind == "m"])
                most = [max(most[0], len(now) - masks), max(most[1], masks)]
            live = (live - to) | of
    return most[0] + constants(calls) + len(neutral), most[1] + len(used)
