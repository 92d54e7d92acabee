"""The loops of each form: elements, square tiles, rows, and blocks of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from autofuse.codegen.backends.cpu.halves import Halves
from autofuse.codegen.backends.cpu.loops import Form, Threads
from autofuse.codegen.backends.cpu.ops.spelling import TYPES, stored
from autofuse.codegen.backends.cpu.parts import Parts
from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.codegen.nests.levels import known_after
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import unit_axis, varies
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["write"]

#: Most elements of a buffer on a function's stack.
_ON_STACK = 4096


def write(w: Writer) -> None:
    """Write the body of a function."""
    if w.loops.form is Form.ELEMENTS:
        _elements(w)
    elif w.loops.form is Form.TILES:
        _tiles(w)
    elif w.loops.form is Form.ROWS:
        _Rows(w).body()
    else:
        _Columns(w).body()


# elements -------------------------------------------------------------------------------------


def _elements(w: Writer) -> None:
    lanes = w.loops.lanes
    outer = [a for a in w.nest.axes if a != lanes]
    many = w.long(outer)
    if not many:
        halves = Halves(w, w.stores)
        if halves:
            w.share("parallel for", 1)
            with halves.runs("#pragma omp simd"):
                _all_stores(w, halves)
            return
        if not w.share("parallel for simd", len(w.long([lanes]))) and w.long([lanes]):
            w.say("#pragma omp simd")
        with w.loop(lanes):
            _all_stores(w, halves)
        return
    w.share("parallel for", len(many))
    with w.nested(outer):
        _lanes_of(w)


def _lanes_of(w: Writer) -> None:
    """Write the innermost loop; loop-invariant statements precede it."""
    lanes = w.loops.lanes
    w.emit(n for n in w.needed([s.name for s in w.stores]) if lanes not in varies(n))
    halves = Halves(w, w.stores)
    with _along(w, halves, "#pragma omp simd"):
        _all_stores(w, halves)


@contextmanager
def _along(
    w: Writer,
    halves: Halves,
    directive: str,
    *,
    backwards: bool = False,
    parts: Parts | None = None,
) -> Iterator[None]:
    """Write the innermost loop, in runs if it converts 16-bit floats or splits sums into parts."""
    parts = parts or Parts(w, {})
    size = w.nest.sizes[w.loops.lanes]
    if halves or (parts and not (size.is_const and size.value <= w.loops.run)):
        with halves.runs(directive, parts):
            yield
        return
    with parts.of_a_run():
        if directive and w.long([w.loops.lanes]):
            w.say(directive)
        with w.loop(w.loops.lanes, backwards=backwards):
            yield


def _all_stores(w: Writer, halves: Halves) -> None:
    w.emit(w.needed(halves.targets))
    for n in w.stores:
        halves.store(n)


def _tiles(w: Writer) -> None:
    """Write square tiles; tensors contiguous along the other side are copied to a tile buffer and transposed."""
    lanes, across, side = w.loops.lanes, w.loops.across, w.loops.block
    assert across is not None
    outer = [a for a in w.nest.axes if a not in (lanes, across)]
    square = _Square(w, lanes, across, side)
    w.include("algorithm")
    w.share("parallel for", len(w.long(outer)) + 2)
    with w.nested(outer), square.corners():
        w.index |= {a: w.variables[a] for a in (lanes, across)}
        turned = {n.name: square.loaded(n) for n in w.nest.nodes if square.is_turned(n, "Load")}
        ahead = [n for n in w.stores if square.is_turned(n, "Store")]
        tiles = {n.name: square.declared(w.targets[n.name]) for n in ahead}
        with w.inside(square.head[across]):
            inside = w.needed([s.name for s in w.stores])
            w.emit(n for n in inside if lanes not in varies(n) and n.name not in turned)
            w.say("#pragma omp simd")
            with w.inside(square.head[lanes]):
                for name, element in turned.items():
                    w.define(w.named[name], element)
                w.emit(w.needed([s.name for s in w.stores]))
                for n in w.stores:
                    if n.name in tiles:
                        value = w.values[n.inputs[0]]
                        w.say(f"{square.element(tiles[n.name][0], across, lanes)} = {value};")
                    else:
                        w.store(n)
        for n in ahead:
            square.stored(n, *tiles[n.name])


class _Square:
    """The square tile that one step of the loops processes."""

    def __init__(self, w: Writer, lanes: int, across: int, side: int) -> None:
        self.w, self.lanes, self.across, self.side = w, lanes, across, side
        self.corner: dict[int, str] = {}
        #: Axis -> the loop along it inside the tile.
        self.head: dict[int, str] = {}

    @contextmanager
    def corners(self) -> Iterator[None]:
        """Open the loops over all tiles."""
        w, sides = self.w, (self.across, self.lanes)
        with ExitStack() as stack:
            for a in sides:
                at = self.corner[a] = w.names.take(f"tile{w.nest.axes.index(a)}")
                size = w.size(w.nest.sizes[a])
                head = f"for (int64_t {at} = 0; {at} < {size}; {at} += {self.side})"
                stack.enter_context(w.inside(head))
            for a in sides:
                end, i = w.names.take(f"end{w.nest.axes.index(a)}"), w.variables[a]
                at, size = self.corner[a], w.size(w.nest.sizes[a])
                w.say(f"const int64_t {end} = std::min<int64_t>({at} + {self.side}, {size});")
                self.head[a] = f"for (int64_t {i} = {at}; {i} < {end}; ++{i})"
            yield

    def is_turned(self, n: Node, op: str) -> bool:
        """Return True if ``n`` is a Load or Store (``op``) that is contiguous along the other side of the tile."""
        along = unit_axis(n) if n.op == op and "extent" not in n.attrs else None
        return along == self.across and self.lanes in varies(n)

    def element(self, tile: str, row: int, col: int) -> str:
        """Return an element of a tile buffer with rows along one axis and columns along the other."""
        i, j = (f"({self.w.variables[a]} - {self.corner[a]})" for a in (row, col))
        return f"{tile}[{i} * {self.side} + {j}]"

    def declared(self, m: Memory) -> tuple[str, str]:
        """Declare two tile buffers: one for memory, one transposed."""
        w, count = self.w, self.side * self.side
        tile, turned = w.names.take(f"{m.name}_tile"), w.names.take(f"{m.name}_turned")
        w.say(f"{stored(m.dtype)} {tile}[{count}], {turned}[{count}];")
        return tile, turned

    def loaded(self, n: Node) -> str:
        """Write the copy of a Load's tile; return its element."""
        w, m = self.w, self.w.buffers[n.inputs[0]]
        tile, turned = self.declared(m)
        with w.inside(self.head[self.lanes]):
            w.say("#pragma omp simd")
            with w.inside(self.head[self.across]):
                w.say(f"{self.element(tile, self.lanes, self.across)} = {m.name}[{w.offset(n)}];")
        w.say(f"simd::turn({tile}, {turned});")
        return w.read(m, self.element(turned, self.across, self.lanes))

    def stored(self, n: Node, tile: str, turned: str) -> None:
        """Write the copy of a Store's tile."""
        w, m = self.w, self.w.targets[n.name]
        w.say(f"simd::turn({tile}, {turned});")
        with w.inside(self.head[self.lanes]):
            w.say("#pragma omp simd")
            with w.inside(self.head[self.across]):
                w.say(f"{m.name}[{w.offset(n)}] = {self.element(turned, self.lanes, self.across)};")


# reductions -----------------------------------------------------------------------------------


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


class _Rows(_Reducing):
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
            with _along(w, halves, directive, backwards=self.backwards, parts=parts):
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


class _Columns(_Reducing):
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
            for reductions, stores in self.passes():
                self._pass(reductions, stores)
            if self.narrow:
                halves = Halves(w, self.narrow)
                with self._over_lanes(halves):
                    w.emit(w.needed(halves.targets))
                    for n in self.narrow:
                        halves.store(n)

    def _over_lanes(self, halves: Halves) -> AbstractContextManager[None]:
        """Write the innermost loop."""
        return halves.over("start", "lanes", "j", self.loops.block)

    def _is_lane(self, n: Node) -> bool:
        return self.loops.lanes in varies(n)

    def _pass(self, reductions: Sequence[Node], stores: Sequence[Node]) -> None:
        w = self.w
        targets = [*(r.inputs[0] for r in reductions), *(s.name for s in stores)]
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
            halves = Halves(w, stores, [r.inputs[0] for r in reductions], able=able)
            with self._over_lanes(halves):
                for n in w.needed(halves.targets):
                    self.step(n, at)
                for r in reductions:
                    if self._is_lane(r):
                        w.accumulate(r, at[r.name])
                for n in stores:
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
                w.say(f"{TYPES[n.y.dtype.name]} {arrays[n.name]}[{self.loops.block}];")
        with self._over_lanes(Halves(w, ())):
            for n in w.needed([n.name for n in late]):
                w.emit([n])
                if n.name in arrays:
                    w.say(f"{arrays[n.name]}[j] = {w.values[n.name]};")
        for name, array in arrays.items():
            w.values[name] = f"{array}[j]"
