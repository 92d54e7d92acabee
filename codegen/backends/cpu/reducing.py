"""The loops of reductions: row after row, and blocks of columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from autofuse.codegen.backends.cpu.halves import Halves, along
from autofuse.codegen.backends.cpu.loops import Threads
from autofuse.codegen.backends.cpu.ops.spelling import TYPES
from autofuse.codegen.backends.cpu.parts import Parts
from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.codegen.nests.levels import known_after
from autofuse.codegen.nests.nest import varies
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["Columns", "Rows"]

#: Most elements of a buffer on a function's stack.
_ON_STACK = 4096


class _Reducing:
    """Base of rows and columns: passes over the reduced elements, and the Stores of each pass."""

    def __init__(self, w: Writer) -> None:
        self.w, self.loops, self.nest = w, w.loops, w.nest
        self.cols = frozenset(self.nest.cols)
        scans = [n for n in self.nest.nodes if n.op == "Scan"]
        self.backwards = any(bool(n.attrs["reverse"]) for n in scans)
        order = scans[0].attrs["axes"] if scans else ()
        assert isinstance(order, tuple)
        self.order: list[int] = [*order, *(a for a in self.nest.cols if a not in order)]
        self.level = known_after(self.nest, self.loops.passes)
        read = {w.buffers[n.inputs[0]].name for n in self.nest.nodes if n.op == "Load"}
        last = len(self.loops.passes)
        #: Pass -> its Stores of wide values; a Store that overwrites an input comes last.
        self.wide: list[list[Node]] = [[] for _ in range(last + 1)]
        self.narrow: list[Node] = []
        for n in w.stores:
            if not self.is_wide(n):
                self.narrow.append(n)
            elif w.targets[n.name].name in read:
                self.wide[last].append(n)
            else:
                self.wide[self.level[n.name]].append(n)

    def is_wide(self, n: Node) -> bool:
        """Return True if a value varies along a reduced axis."""
        return bool(varies(n) & self.cols)

    def passes(self) -> list[tuple[Sequence[Node], Sequence[Node]]]:
        """Return the reductions and the Stores of wide values of each pass that has any."""
        levels = [*self.loops.passes, ()]
        return [p for p in zip(levels, self.wide, strict=True) if p[0] or p[1]]

    def step(self, n: Node, totals: dict[str, str]) -> None:
        """Write one node inside the loops of a pass."""
        if n.op == "Scan" and n.name not in self.w.values:
            self.w.scan(n, totals[n.name])
        else:
            self.w.emit([n])


class Rows(_Reducing):
    """Row after row; the lanes are the elements of a row."""

    def body(self) -> None:
        """Write the function."""
        w, rows = self.w, self.nest.rows
        count = self.nest.count(self.nest.cols)
        self.kept = {name: w.names.take(f"{name}_row") for name in self.loops.kept}
        on_stack = count.is_const and count.value * max(len(self.kept), 1) <= _ON_STACK
        own = bool(self.kept) and not on_stack
        threads = self.loops.threads is Threads.OUTER
        many = len(w.long(rows))
        region: AbstractContextManager[None] = nullcontext()
        if own and threads and w.share("parallel", 1 if many else 0):
            # Every thread has its own buffers.
            w.lines[-1] = w.lines[-1].replace(" schedule(static)", "")
            region = w.inside("")
        shared = not isinstance(region, nullcontext)
        with region:
            if own:
                self._buffers()
            if shared:
                text = f" collapse({many})" if many > 1 else ""
                w.say(f"#pragma omp for{text} schedule(static)")
            elif threads:
                w.share("parallel for", many)
            with w.nested(rows):
                if self.kept and on_stack:
                    for name, buffer in self.kept.items():
                        w.say(f"alignas(64) {self._type(name)} {buffer}[{w.size(count)}];")
                self._row()

    def _type(self, name: str) -> str:
        return TYPES[self.w.named[name].y.dtype.name]

    def _buffers(self) -> None:
        w, count = self.w, self.nest.count(self.nest.cols)
        w.include("memory")
        for name, buffer in self.kept.items():
            held = w.names.take(f"{buffer}_memory")
            w.say(
                f"const std::unique_ptr<{self._type(name)}[]> {held}(new {self._type(name)}[{w.size(count)}]);"
            )
            w.say(f"{self._type(name)}* const {buffer} = {held}.get();")

    def _row(self) -> None:
        w = self.w
        for reductions, stores in self.passes():
            self._pass(reductions, stores)
        w.emit(w.needed([s.name for s in self.narrow]))
        for n in self.narrow:
            w.store(n)

    def _pass(self, reductions: Sequence[Node], stores: Sequence[Node]) -> None:
        w = self.w
        targets = [*(r.inputs[0] for r in reductions), *(s.name for s in stores)]
        needed = w.needed(targets)
        w.emit(n for n in needed if not self.is_wide(n))
        inside = [n for n in needed if self.is_wide(n)]
        one_by_one = any(n.op == "Scan" for n in inside)
        wanted = [r.inputs[0] for r in reductions]
        halves = Halves(w, stores, wanted, able=not one_by_one, rows=self.kept)
        held = {r.name: w.names.take(r.name) for r in reductions}
        scans = [n for n in inside if n.op == "Scan"]
        totals = {n.name: w.names.take(f"{n.name}_total") for n in scans}
        for n in (*reductions, *scans):
            name = held.get(n.name) or totals[n.name]
            w.say(f"{w.accumulated(n)} {name} = {w.start(n)};")
        clauses = w.clauses({held[r.name]: r for r in reductions})
        parts = Parts(w, {held[r.name]: r for r in reductions if w.in_parts(r)})
        into = {**held, **parts.by_node}
        lanes = self.order[-1] if scans else self.loops.lanes
        around = [a for a in self.order if a != lanes]
        directive = "#pragma omp simd" + w.clauses({into[r.name]: r for r in reductions})
        together = self.loops.threads is Threads.REDUCED
        runs = bool(halves) or bool(parts)
        if together and not w.long(around):
            if w.share("parallel for" if runs else "parallel for simd", 1, clauses):
                directive = directive if runs else ""
        elif together:
            w.share("parallel for", len(w.long(around)), clauses)
        kept = {n.name for n in inside if n.name in self.kept}
        with w.nested(around, backwards=self.backwards):
            for n in inside:
                if lanes not in varies(n):
                    self.step(n, totals)
            directive = "" if scans else directive
            with along(w, halves, directive, backwards=self.backwards, parts=parts):
                for n in w.needed(halves.targets):
                    self.step(n, totals)
                    if n.name in kept:
                        w.say(
                            f"{self.kept[n.name]}[{w.index.get(lanes, '0')}] = {w.values[n.name]};"
                        )
                for r in reductions:
                    w.accumulate(r, into[r.name])
                for n in stores:
                    halves.store(n)
        for r in reductions:
            w.reduced(r, held[r.name])
        for name in kept:
            lane = w.variables[lanes] if w.long([lanes]) else "0"
            w.values[name] = f"{self.kept[name]}[{lane}]"


class Columns(_Reducing):
    """The lanes are adjacent results; a loop runs over the reduced elements."""

    def body(self) -> None:
        """Write the function."""
        w, lanes = self.w, self.loops.lanes
        w.include("algorithm")
        rows = [a for a in self.nest.rows if a != lanes]
        size = w.size(self.nest.sizes[lanes])
        if self.loops.threads is Threads.OUTER:
            w.share("parallel for", len(w.long(rows)) + 1)
        block = self.loops.block
        with w.nested(rows), w.inside(f"for (int64_t start = 0; start < {size}; start += {block})"):
            w.say(f"const int64_t lanes = std::min<int64_t>({block}, {size} - start);")
            self.block_begins()
            for reductions, stores in self.passes():
                self._pass(reductions, stores)
            self.block_ends()
            if self.narrow:
                halves = Halves(w, self.narrow)
                with self._over_lanes(halves):
                    w.emit(w.needed(halves.targets))
                    for n in self.narrow:
                        halves.store(n)

    def block_begins(self) -> None:
        """Write what comes before the passes over a block."""

    def block_ends(self) -> None:
        """Write what comes after the passes over a block."""

    def held_back(self, stores: Sequence[Node]) -> dict[str, tuple[str, str]]:
        """Return Store -> (value, element that keeps it), for Stores that :meth:`block_ends` completes."""
        return {}

    def _over_lanes(self, halves: Halves) -> AbstractContextManager[None]:
        """Write the innermost loop."""
        return halves.over("start", "lanes", "j", self.loops.block)

    def _is_lane(self, n: Node) -> bool:
        return self.loops.lanes in varies(n)

    def _pass(self, reductions: Sequence[Node], stores: Sequence[Node]) -> None:
        w = self.w
        later = self.held_back(stores)
        now = [n for n in stores if n.name not in later]
        others = [*(r.inputs[0] for r in reductions), *(value for value, _ in later.values())]
        targets = [*others, *(n.name for n in now)]
        self._arrays(w.needed(targets))
        needed = w.needed(targets)
        w.emit(n for n in needed if not self.is_wide(n) and not self._is_lane(n))
        able = not any(n.op == "Scan" for n in needed)
        inside = [n for n in needed if n.name not in w.values]
        scans = [n for n in inside if n.op == "Scan"]
        held: dict[str, str] = {}
        for n in (*reductions, *scans):
            name = held[n.name] = w.names.take(n.name if n.op in REDUCES else f"{n.name}_total")
            if self._is_lane(n):
                w.say(f"{w.accumulated(n)} {name}[{self.loops.block}];")
                w.say(f"std::fill_n({name}, {self.loops.block}, {w.start(n)});")
            else:
                w.say(f"{w.accumulated(n)} {name} = {w.start(n)};")
        parts = Parts(
            w,
            {held[r.name]: r for r in reductions if self._is_lane(r) and w.in_parts(r)},
            self.loops.block,
        )
        outer, inner = parts.split(self.order)
        if self.loops.threads is Threads.REDUCED:
            many = len(w.long(outer)) + bool(parts)
            w.share("parallel for", many, w.clauses({held[r.name]: r for r in reductions}))
        into = {**held, **parts.by_node}
        at = {
            n.name: f"{into[n.name]}[j]" if self._is_lane(n) else into[n.name]
            for n in (*reductions, *scans)
        }
        backwards = self.backwards
        with (
            w.nested(outer, backwards=backwards),
            parts.runs(),
            w.nested(inner, backwards=backwards),
        ):
            for n in inside:
                if not self._is_lane(n):
                    self.step(n, at)
            for r in reductions:
                if not self._is_lane(r):
                    w.accumulate(r, at[r.name])
            halves = Halves(w, now, others, able=able)
            with self._over_lanes(halves):
                for n in w.needed(halves.targets):
                    self.step(n, at)
                for r in reductions:
                    if self._is_lane(r):
                        w.accumulate(r, at[r.name])
                for value, element in later.values():
                    w.say(f"{element} = {w.values[value]};")
                for n in now:
                    halves.store(n)
        for r in reductions:
            w.reduced(r, f"{held[r.name]}[j]" if self._is_lane(r) else held[r.name])

    def _arrays(self, needed: Sequence[Node]) -> None:
        """Store values computed from reductions in arrays, one element per lane, for later loops."""
        w = self.w
        late = [
            n
            for n in needed
            if self._is_lane(n)
            and not self.is_wide(n)
            and self.level[n.name]
            and n.op != "Broadcast"
        ]
        if not late:
            return
        ours = {n.name for n in late}
        behind = {i for n in self.nest.nodes if n.name not in ours for i in n.inputs if i in ours}
        arrays = {n.name: w.names.take(n.name) for n in late if n.name in behind}
        for n in late:
            if n.name in arrays:
                # Compilers do not vectorise a choice between floats by an array of bools.
                kind = "int32_t" if n.y.dtype.kind == "b" else TYPES[n.y.dtype.name]
                w.say(f"{kind} {arrays[n.name]}[{self.loops.block}];")
        with self._over_lanes(Halves(w, ())):
            for n in w.needed([n.name for n in late]):
                w.emit([n])
                if n.name in arrays:
                    w.say(f"{arrays[n.name]}[j] = {w.values[n.name]};")
        for name, array in arrays.items():
            is_bool = w.named[name].y.dtype.kind == "b"
            w.values[name] = f"({array}[j] != 0)" if is_bool else f"{array}[j]"
