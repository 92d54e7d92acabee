"""Functions on registers that loop over rows: their steps compute their calls, for all lanes of a row.

The check tracks the contents of each register through the steps: a call's result for a part of the row, or a reduction
of some parts.  It is independent of how the steps were built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from autofuse.codegen.ir.calls import (
    Call,
    Count,
    RowLoop,
    RowRegister,
    Rows,
    RowStep,
    VectorFunction,
)
from autofuse.codegen.passes.register_calls import in_registers, stated_count
from autofuse.codegen.passes.row_calls import (
    counts_of_rows,
    reduction_of,
    row_in_registers,
    shared_rows,
)
from autofuse.codegen.passes.row_places import stored_too_early
from autofuse.codegen.passes.row_steps import steps_need
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import DType

__all__ = ["row_findings"]


@dataclass(frozen=True)
class _Value:
    """Contents of a register: a part of the row of ``of`` (None: the row's element, in all lanes).

    ``parts``: parts in an unfinished reduction.  ``clean``: lanes past the row hold its neutral element. ``lowest``:
    only the lowest lane holds it.
    """

    of: str
    part: int | None
    parts: frozenset[int] | None = None
    clean: bool = False
    lowest: bool = False


def row_findings(kernel: Kernel, f: VectorFunction) -> Iterator[Finding]:
    """Check a function with rows."""
    assert f.rows is not None
    dtypes = dict(f.dtypes)
    yield from _counts(kernel, f, f.rows, dtypes)
    steps = _Steps(kernel, f, f.rows, dtypes)
    yield from steps.findings()
    vectors, masks = steps_need(f.rows.steps, f.calls, dtypes)
    most = kernel.arch.vector_registers, kernel.arch.mask_registers
    if vectors > most[0] or masks > most[1]:
        text = f"{f.name} needs {vectors} registers and {masks} of masks; there are {most[0]} and {most[1]}"
        yield Finding(text)


def _counts(
    kernel: Kernel, f: VectorFunction, rows: Rows, dtypes: dict[str, DType]
) -> Iterator[Finding]:
    """Check that every call exists on registers, and covers the rows of the function, or an element of each."""
    arch, pitch = kernel.arch, const(rows.pitch)

    def same(a: Expr, b: Expr, what: str, node: str) -> Iterator[Finding]:
        yield from kernel.same(kernel.value(a), kernel.value(b), what, node)

    yield from same(f.count, rows.count * pitch, f"elements of {f.name}", "")
    if not 0 < rows.length <= rows.pitch:
        yield Finding(f"rows of {f.name} have {rows.length} elements of {rows.pitch}")
    single, shared = _single(kernel, f, rows, dtypes), shared_rows(f.calls)
    for s in f.calls:
        node = kernel.node_of(s.writes[0])
        counts = counts_of_rows(s)
        if counts is not None and row_in_registers(s, dtypes, arch):
            count, length, own = counts
            yield from same(count, rows.count, f"{s.api} goes through the rows of {f.name}", node)
            yield from same(own, pitch, f"{s.api} has rows as long as those of {f.name}", node)
            if length is not None:
                what = f"{s.api} takes what {f.name} reduces"
                yield from same(length, const(rows.length), what, node)
        elif counts is None and in_registers(s, dtypes, arch):
            have = s.args[-1]
            assert isinstance(have, Count)
            own = rows.count if s.writes[0] in single else rows.count * pitch
            if s.writes[0] in shared:
                whole = kernel.value(stated_count(s, pitch, dtypes, arch))
                own = pitch if kernel.value(have.value) == whole else const(rows.length)
            want = stated_count(s, own, dtypes, arch)
            yield from same(
                have.value, want, f"{s.api} goes through the elements of {f.name}", node
            )
        else:
            yield Finding(f"registers of architecture {arch.name} have no {s.api}", node)


def _single(kernel: Kernel, f: VectorFunction, rows: Rows, dtypes: dict[str, DType]) -> set[str]:
    """Return the tensors with one element per row: by calls with rows, and by calls on one element of each row.

    Counts are rounded up, so the count of one element per row may equal that of all; such a call covers all.
    """
    single: set[str] = set()
    for s in f.calls:
        if s.api == "Reduce":
            single.add(s.writes[0])
        elif s.api in ("WithRows", "Broadcast"):
            single |= {*s.reads[-1:]} if s.form != "Outer" else set()
        else:
            have = s.args[-1]
            if not isinstance(have, Count) or not in_registers(s, dtypes, kernel.arch):
                continue
            one, every = (
                kernel.value(stated_count(s, n, dtypes, kernel.arch))
                for n in (rows.count, rows.count * rows.pitch)
            )
            if kernel.value(have.value) == one != every:
                single |= {s.writes[0], *s.reads}
    return single


@dataclass
class _Steps:
    kernel: Kernel
    f: VectorFunction
    rows: Rows
    dtypes: dict[str, DType]
    held: dict[RowRegister, _Value] = field(default_factory=dict)
    stored: set[RowRegister] = field(default_factory=set)
    #: Call -> the part of its operand taken last, if all parts are alike.
    alike: dict[int, int] = field(default_factory=dict)
    #: Stores that later loads wait for; and whether stores wait for the previous row's loads.
    settled: set[RowRegister] = field(default_factory=set)
    waited: bool = False
    #: Stored tensor -> the tensors at its address; and parts that were overwritten.
    over: dict[str, list[str]] = field(default_factory=dict)
    gone: set[RowRegister] = field(default_factory=set)
    #: First part of the row in an iteration.
    first: int = 0

    def __post_init__(self) -> None:
        f = self.f
        self.lanes = self.kernel.arch.vector_bytes // f.lane
        self.registers = self.rows.registers(self.lanes)
        self.single = _single(self.kernel, f, self.rows, self.dtypes)
        self.shared = shared_rows(f.calls)
        self.made = {s.writes[0]: k for k, s in enumerate(f.calls)}
        #: Tensors loaded together with the first elements of the next row.
        self.goes_on = {*self._go_on()} if self.rows.pitch % self.lanes else set()
        for s in f.calls:
            if s.api == "Duplicate":
                self.held[s.writes[0], None] = _Value(s.writes[0], None)

    def _go_on(self) -> Iterator[str]:
        for s in self.rows.steps:
            loop = s if isinstance(s, RowLoop) else RowLoop(1, 0, (s,))
            last = self.registers - 1 - (loop.times - 1) * loop.width
            yield from (x.to[0] for x in loop.steps if x.op == "load" and x.to[1] == last)

    def say(self, text: str, local: str = "") -> Finding:
        return Finding(f"{self.f.name} {text}", self.kernel.node_of(local) if local else "")

    def findings(self) -> Iterator[Finding]:
        yield from self._once()
        for s in self.rows.steps:
            loop = s if isinstance(s, RowLoop) else RowLoop(1, 0, (s,))
            for i in range(loop.times):
                self.first = i * loop.width
                for step in loop.steps:
                    yield from getattr(self, f"_{step.op}")(step)
            self.first = 0
        parts = range(self.registers)
        for x in self.f.stores:
            every = {(x, None)} if x in self.single else {(x, p) for p in parts}
            if not every <= self.stored:
                yield self.say(f"does not store all of {x}", x)

    def _once(self) -> Iterator[Finding]:
        """Check that every tensor has one value, and that loads and stores access tensors in UB."""
        if len(self.made) < len(self.f.calls):
            yield self.say("computes a tensor twice")
        last = self.registers - 1
        if self.rows.length <= last * self.lanes:
            yield self.say("has registers of which nothing is reduced")
        for x in (*self.f.loads, *self.f.stores):
            if self.dtypes[x].kind == "m":
                yield self.say(f"has the bits of {x} in UB", x)
        for x in {*self.f.loads} & {*self.made}:
            yield self.say(f"loads {x}, which it computes", x)
        yield from self._kinds()
        for x in self.f.stores:
            if x not in self.made:
                yield self.say(f"stores {x}, which it does not compute", x)
            same = [y for y in (*self.f.loads, *self.f.stores) if y != x]
            self.over[x] = [y for y in same if self.kernel.shares(x, y)]
            for y in self.over[x]:
                alike = (x in self.single) == (y in self.single) and y not in self.shared
                if not alike or self.dtypes[x].itemsize != self.dtypes[y].itemsize:
                    yield self.say(f"stores {x} over other elements of {y}", x)
        over = {x: frozenset(same) for x, same in self.over.items() if same}
        early = stored_too_early(self.rows.steps, over) if over else ()
        for x, y in dict.fromkeys(early):
            yield self.say(f"stores {x} over {y}, which may be loaded later", x)

    def _kinds(self) -> Iterator[Finding]:
        """Check that a row shared by all rows is read only by calls that compute such a row or copy it."""
        for s in self.f.calls:
            if s.writes[0] in self.shared or s.form == "Outer":
                wrong = self.single.intersection(s.reads)
            else:
                wrong = self.shared.intersection(s.reads)
            for x in wrong:
                yield self.say(f"has one row of {x}, and others", x)
        for x in self.shared.intersection(self.f.stores):
            yield self.say(f"stores {x} for each row", x)

    def _expected(self, x: str, part: int | None) -> _Value:
        """Return the value of a tensor for a part of the row."""
        k = self.made.get(x)
        if k is not None and self.f.calls[k].api == "Broadcast":
            return self._expected(
                self.f.calls[k].reads[0], part if self.f.calls[k].form == "Outer" else None
            )
        if x in self.single or (k is not None and self.f.calls[k].api == "Duplicate"):
            part = None
        return _Value(x, part)

    def _masked(self, step: RowStep, part: int | None, reduced: bool = False) -> bool:
        """Return True if the lanes of a step are those of its part of the row."""
        length = self.rows.length if reduced else self.rows.pitch
        left = self.lanes if part is None else min(self.lanes, length - part * self.lanes)
        size = {"all": self.lanes, "row": self.rows.pitch, "part": self.rows.length}[step.lanes]
        return left == (size % self.lanes or self.lanes)

    def _part(self, of: RowRegister) -> int | None:
        """Return the part of the row that a step refers to."""
        return None if of[1] is None else self.first + of[1]

    def _load(self, step: RowStep) -> Iterator[Finding]:
        x, part = step.to[0], self._part(step.to)
        if step.of != (step.to,) or (part is None) != (x in self.single):
            yield self.say(f"loads {x} as it is not in UB", x)
        if x in self.made:
            if (x, part) not in self.settled:
                yield self.say(f"loads {x}, for whose store it does not wait", x)
        elif x not in self.f.loads:
            yield self.say(f"loads {x} as it is not in UB", x)
        if (x, part) in self.gone:
            yield self.say(f"loads {x}, over which it stored another value", x)
        self.held[step.to] = _Value(x, part)

    def _call(self, step: RowStep) -> Iterator[Finding]:
        s = self.f.calls[step.call]
        to, part = step.to[0], self._part(step.to)
        if to != s.writes[0] or (part is None) != (to in self.single) or s.api == "Reduce":
            yield self.say(f"computes {to} by another call", to)
        yield from self._operands(s, step, part)
        if not self._masked(step, part):
            yield self.say(f"computes {to} for other lanes than the row has", to)
        self.held[step.to] = _Value(to, part)

    def _operands(self, s: Call, step: RowStep, part: int | None) -> Iterator[Finding]:
        have = [self.held.get(x) for x in step.of]
        want = [self._expected(x, part) for x in s.reads]
        if have != want:
            names = ", ".join(s.reads)
            yield self.say(f"has other values than {names} for {s.api}", s.writes[0])

    def _leaf(self, step: RowStep, at: RowRegister) -> _Value | None:
        """Return a register as a part of a reduction's operand."""
        have = self.held.get(at)
        if have is None:
            return None
        if have.parts is not None:
            return have if have.of == self.f.calls[step.call].writes[0] else None
        source = self.f.calls[step.call].reads[0]
        parts = [p for p in range(self.registers) if have == self._expected(source, p)]
        if not parts:
            return None
        part = parts[0]
        if len(parts) > 1:
            # All parts of a constant, or of copies of an element, are alike: use the next one, or the last one.
            part = self.registers - 1 if step.op == "fill" else self._next(step.call)
        whole = self._whole(part)
        return _Value(self.f.calls[step.call].writes[0], None, frozenset({part}), clean=whole)

    def _whole(self, part: int) -> bool:
        return (part + 1) * self.lanes <= self.rows.length

    def _next(self, call: int) -> int:
        self.alike[call] = self.alike.get(call, -1) + 1
        return self.alike[call]

    def _start(self, step: RowStep) -> Iterator[Finding]:
        to = self.f.calls[step.call].writes[0]
        if step.to[0] != to or not reduction_of(self.f.calls[step.call]) or step.lanes != "all":
            yield self.say(f"starts another reduction than {to}", to)
        self.held[step.to] = _Value(to, None, frozenset(), clean=True)

    def _fill(self, step: RowStep) -> Iterator[Finding]:
        value = self._leaf(step, step.of[0])
        s = self.f.calls[step.call]
        if (
            value is None
            or value.parts is None
            or len(value.parts) != 1
            or step.to[0] != s.writes[0]
        ):
            yield self.say(f"fills up what {s.writes[0]} does not reduce", s.writes[0])
            return
        (part,) = value.parts
        if not self._masked(step, part, True):
            yield self.say(f"leaves lanes in {s.writes[0]} that are not of the row", s.writes[0])
        self.held[step.to] = _Value(value.of, None, value.parts, clean=True)

    def _join(self, step: RowStep) -> Iterator[Finding]:
        s = self.f.calls[step.call]
        values = [self._leaf(step, at) for at in step.of]
        found = [v for v in values if v is not None]
        parts = [v.parts or frozenset() for v in found]
        if len(found) != 2 or parts[0] & parts[1] or step.to[0] != s.writes[0]:
            yield self.say(f"joins what are not two parts of {s.writes[0]}", s.writes[0])
            return
        if not all(v.clean for v in found) or step.lanes != "all":
            yield self.say(f"joins lanes in {s.writes[0]} that are not of the row", s.writes[0])
        self.held[step.to] = _Value(s.writes[0], None, parts[0] | parts[1], True)

    def _reduce(self, step: RowStep) -> Iterator[Finding]:
        s = self.f.calls[step.call]
        value = self._leaf(step, step.of[0])
        if value is None or not reduction_of(s) or step.to[0] != s.writes[0]:
            yield self.say(f"reduces another value to {s.writes[0]}", s.writes[0])
            return
        if value.parts != frozenset(range(self.registers)):
            yield self.say(f"reduces only a part of the row to {s.writes[0]}", s.writes[0])
        if not (
            step.lanes == "all" if value.clean else self._masked(step, self.registers - 1, True)
        ):
            yield self.say(f"reduces lanes to {s.writes[0]} that are not of the row", s.writes[0])
        self.held[step.to] = _Value(s.writes[0], None, lowest=True)

    def _spread(self, step: RowStep) -> Iterator[Finding]:
        value = self.held.get(step.of[0])
        x = step.to[0]
        if value is None or value != _Value(x, None, lowest=True) or step.to[1] is not None:
            yield self.say(f"spreads another value than {x}", x)
        if step.lanes != "all":
            yield self.say(f"spreads {x} to some lanes", x)
        self.held[step.to] = _Value(x, None)

    def _store(self, step: RowStep) -> Iterator[Finding]:
        x, part = step.to[0], self._part(step.to)
        value, want = self.held.get(step.of[0]), self._expected(x, part)
        lowest = part is None and value == _Value(want.of, None, lowest=True)
        if x not in self.f.stores or not (value == want or lowest):
            yield self.say(f"stores another value in {x}", x)
        if (part is None) != (x in self.single):
            yield self.say(f"stores {x} as it is not in UB", x)
        if not self._masked(step, part):
            yield self.say(f"stores other lanes of {x} than the row has", x)
        if (x, part) in self.stored:
            yield self.say(f"stores {x} twice", x)
        over = any(x == y or self.kernel.shares(x, y) for y in self.goes_on)
        if part is not None and not self.waited and over:
            yield self.say(f"stores {x} before the row before is loaded", x)
        self.stored.add((x, part))
        self.gone.discard((x, part))
        self.gone.update([(y, part) for y in self.over.get(x, ())])

    def _stores_wait(self, step: RowStep) -> Iterator[Finding]:
        self.waited = True
        yield from ()

    def _loads_wait(self, step: RowStep) -> Iterator[Finding]:
        self.settled |= self.stored
        yield from ()
