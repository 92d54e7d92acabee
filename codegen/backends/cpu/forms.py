"""The loops of each form, and those of elements and square tiles; ``reducing`` and ``turned`` have the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from autofuse.codegen.backends.cpu.halves import Halves, along
from autofuse.codegen.backends.cpu.loops import Form
from autofuse.codegen.backends.cpu.ops.spelling import stored
from autofuse.codegen.backends.cpu.reducing import Columns, Rows
from autofuse.codegen.backends.cpu.turned import Turned
from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import unit_axis, varies
from autofuse.implgraph.ir.graph import Node

__all__ = ["write"]


def write(w: Writer) -> None:
    """Write the body of a function."""
    if w.loops.form is Form.ELEMENTS:
        _elements(w)
    elif w.loops.form is Form.TILES:
        _tiles(w)
    elif w.loops.form is Form.ROWS:
        Rows(w).body()
    elif w.loops.form is Form.COLUMNS:
        Columns(w).body()
    else:
        Turned(w).body()


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
    with along(w, halves, "#pragma omp simd"):
        _all_stores(w, halves)


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
        w.say(f"simd::turn<{self.side}>({tile}, {turned});")
        return w.read(m, self.element(turned, self.across, self.lanes))

    def stored(self, n: Node, tile: str, turned: str) -> None:
        """Write the copy of a Store's tile."""
        w, m = self.w, self.w.targets[n.name]
        w.say(f"simd::turn<{self.side}>({tile}, {turned});")
        with w.inside(self.head[self.lanes]):
            w.say("#pragma omp simd")
            with w.inside(self.head[self.across]):
                w.say(f"{m.name}[{w.offset(n)}] = {self.element(turned, self.lanes, self.across)};")
