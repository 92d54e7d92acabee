"""Plan the kernels of a HintGraph: the form of every nest, and its block sizes.

A nest is one kernel if its reductions fit into registers, or into one pass over its columns.  Otherwise it is cut: sums
over rows, and reductions with too few results for all multiprocessors, leave partial results in scratch, and the next
kernel joins them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autofuse.codegen.backends.triton import blocks as rules
from autofuse.codegen.backends.triton.beside import Fits, beside
from autofuse.codegen.backends.triton.kernels import (
    Blocks,
    Form,
    Kernel,
    Partial,
    Program,
)
from autofuse.codegen.backends.triton.limits import Core, core_of
from autofuse.codegen.backends.triton.ops.spelling import TRITON
from autofuse.codegen.backends.triton.parts import behind, frontier, joining, rest
from autofuse.codegen.backends.triton.python_text import Names
from autofuse.codegen.backends.triton.signature import Signature
from autofuse.codegen.backends.triton.tuning import (
    Room,
    Tuning,
    check_kernels,
    check_tuning,
    tuned,
)
from autofuse.codegen.nests.legalize import legalize, rounds_each_step
from autofuse.codegen.nests.levels import Item, across_sums, passes
from autofuse.codegen.nests.memory import Memories, Memory
from autofuse.codegen.nests.nest import (
    Nest,
    nests,
    reduced,
    unit_axis,
    values_held,
    varies,
    walk,
)
from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, Expr
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets.gpu import GpuTarget

__all__ = ["plan"]

F32 = BY_NAME["float32"]
#: Nodes without arithmetic.
_MOVES = frozenset(("Load", "Store", "Scalar", "Broadcast", "Cast", "Iota"))
#: Minimum compute capability for clusters, times ten.
_CLUSTERS = 90
#: Contiguous rows of a block below which a loop over columns is faster.
_RUN = 32
#: Assumed sizes of symbols without a typical size.
_TYPICAL = 1024


def plan(
    graph: FusionGraph,
    hint: HintGraph,
    target: GpuTarget,
    tuning: Tuning | None = None,
    *,
    clusters: bool = True,
) -> Program:
    """Return the kernels of a graph.

    Args:
        graph: the original graph.
        hint: its loop-level form, with unmerged axes.
        target: card.
        tuning: block sizes in place of the rules' choice.
        clusters: the launcher can start clusters of blocks.

    Raises:
        AutofuseError: AF3001, AF3003, the target lacks an op or room; AF3007, the tuning does not fit.
    """
    core = core_of(target)
    if tuning is not None:
        check_tuning(tuning, graph, target)

    def fits(cols: Expr, sums: int) -> bool:
        if core is not None:
            return core.has_room_for_sums(cols, sums)
        return cols.is_const and rules.has_room_for_sums(cols.value, sums)

    hint = canonicalise(beside(hint, fits))
    exact = rounds_each_step(hint.nodes)
    hint = replace(hint, nodes=legalize(_from_first(graph, hint), TRITON))
    if core is not None:
        core.check(hint)
    planner = _Planner(graph, hint, target, core, fits, exact, tuning, clusters)
    for nest in nests(hint):
        planner.nest(nest)
    program = Program(
        planner.signature,
        tuple(planner.inputs),
        tuple(planner.outputs),
        tuple(planner.kernels),
        tuple(planner.scratch),
        core.cores if core is not None else 0,
    )
    if tuning is not None:
        check_kernels(tuning, program)
    return program


def _from_first(graph: FusionGraph, hint: HintGraph) -> tuple[Node, ...]:
    """Return the nodes with offsets relative to a tensor's first element, where a PyTorch tensor points."""

    def offset_of(index: int) -> Expr:
        offset = graph.tensors[graph.inputs[index]].offset
        return ZERO if offset is None else offset

    skipped: dict[str, Expr] = {}
    for n in hint.nodes:
        if n.op == "Data":
            skipped[n.name] = offset_of(n.number("index"))
        elif n.op == "Output" and "inout" in n.attrs:
            skipped.update(dict.fromkeys(n.inputs, offset_of(n.number("inout"))))

    def moved(n: Node) -> Node:
        place = n.name if n.op == "Store" else n.inputs[0] if n.op == "Load" else ""
        skip = skipped.get(place, ZERO)
        return n if skip == ZERO else replace(n, y=replace(n.y, offset=n.y.offset - skip))

    return tuple(moved(n) for n in hint.nodes)


@dataclass
class _Planner:
    graph: FusionGraph
    hint: HintGraph
    target: GpuTarget
    core: Core | None
    fits: Fits
    exact: bool
    tuning: Tuning | None
    clusters: bool
    kernels: list[Kernel] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph, hint = self.graph, self.hint
        self.names = Names()
        symbols = {s.name: self.names.take(s.name) for s in graph.symbols}
        held = Memories.of(graph, hint, self.names)
        inputs, outputs = (tuple(m.name for m in memory) for memory in (held.inputs, held.outputs))
        self.signature = Signature(graph, symbols, inputs, outputs)
        self.memory = held.allocate
        self.inputs, self.outputs, self.scratch = held.inputs, held.outputs, held.scratch
        self.buffers, self.targets = held.buffers, held.targets
        self.typical = {s.name: s.hint or min(max(_TYPICAL, s.min), s.max) for s in graph.symbols}

    def value(self, e: Expr) -> int:
        """Return a size, with typical values for its symbols."""
        return e.evaluate(self.typical)

    def fitted(self, b: Blocks, form: Form, nest: Nest, rows: Expr) -> Blocks:
        """Return blocks that fit the target."""
        return b if self.core is None else self.core.fitted(b, form, nest, self.value(rows))

    def named(
        self,
        form: Form,
        nest: Nest,
        rows: Expr,
        cols: Expr,
        b: Blocks,
        *,
        leaves: bool = False,
        held: int = 1,
        shares: bool = False,
    ) -> tuple[str, Blocks]:
        """Return the name of the next kernel, and its blocks: from the tuning if it gives them, else ``b``.

        Args:
            form: form of the kernel.
            nest: nest of the kernel.
            rows: elements along the rows of its blocks.
            cols: elements along their columns.
            b: blocks from the rules.
            leaves: it leaves partial results.
            held: values per element in registers at once.
            shares: the blocks of a cluster may share a row.
        """
        name = self.names.take(f"{self.graph.name}_{form.value}")
        if self.tuning is None:
            return name, b
        loads = (n for n in nest.nodes if n.op == "Load" and varies(n) & frozenset(nest.cols))
        room = Room(
            form,
            leaves,
            self.value(rows),
            self.value(cols),
            held,
            max(1, sum(n.y.dtype.itemsize for n in loads)),
            shares,
            self.target,
            0 if self.core is None else self.core.elements(nest),
        )
        return name, tuned(self.tuning, name, b, room)

    # nests ------------------------------------------------------------------------------------
    def nest(self, nest: Nest) -> None:
        """Append the kernels of a nest."""
        nest = _sums_across(nest, self.fits)
        if nest.across:
            self._with_sums(nest)
        elif nest.cols:
            self._reducing(nest)
        else:
            self._elementwise(nest)

    def _elementwise(self, nest: Nest) -> None:
        moved = [n for n in nest.nodes if n.op in ("Load", "Store")]
        store = next(n for n in moved if n.op == "Store")
        last = unit_axis(store)
        other = next(
            (
                a
                for n in moved
                for a in (unit_axis(n),)
                if a is not None
                and a != last
                and last in varies(n)
                and self.value(nest.sizes[a]) > 1
            ),
            None,
        )
        if last is None or other is None:
            width = max(n.y.dtype.itemsize for n in moved)
            computed = sum(n.op not in _MOVES for n in nest.nodes)
            loads = sum(n.op == "Load" and bool(varies(n)) for n in nest.nodes)
            b = rules.items(self.value(nest.count(nest.axes)), width, computed, loads)
            b = self.fitted(b, Form.ITEMS, nest, nest.count(nest.axes))
            name, b = self.named(Form.ITEMS, nest, nest.count(nest.axes), ONE, b)
            self._add(name, nest, Form.ITEMS, (), nest.axes, (), (), b)
            return
        grid = tuple(a for a in nest.axes if a not in (last, other))
        width = max(n.y.dtype.itemsize for n in moved)
        b = rules.tiles(self.value(nest.sizes[other]), self.value(nest.sizes[last]), width)
        b = self.fitted(b, Form.TILES, nest, nest.sizes[other])
        name, b = self.named(Form.TILES, nest, nest.sizes[other], nest.sizes[last], b)
        self._add(name, nest, Form.TILES, grid, (other,), (last,), (), b)

    def _reducing(self, nest: Nest, *, whole: bool = False) -> None:
        """Append the kernels of a nest with reductions; ``whole``: do not split the columns among programs."""
        found = passes(nest)
        scans = any(n.op == "Scan" for n in nest.nodes)
        cols = frozenset(nest.cols)
        wide = any(n.op == "Store" and varies(n) & cols for n in nest.nodes)
        outer = self._is_outer(nest)
        grid, rows = self._grid(nest, outer)
        least = 2 * self.target.multiprocessors
        if self.core is not None:
            # Chunks double while there are fewer programs, but never exceed the cores.
            least = self.core.cores // 2 + 1
        across = self.value(nest.count(grid))
        lines, count = self.value(nest.count(rows)), self.value(nest.count(nest.cols))
        share = max(1, least // max(across, 1))
        held = values_held(nest)
        fixed = nest.count(nest.cols).is_const
        wanted = share if self.clusters and self.core is None else 1
        in_registers = rules.rows_in_registers(lines, count, held, outer, wanted) if fixed else None
        shared = in_registers is not None and in_registers.parts > 1
        able = self.clusters and self.target.capability >= _CLUSTERS
        apart = scans or not _meets(found) or not able
        reads = _reads(nest)
        if (shared and apart) or not reads:
            in_registers = None
        loop = rules.looped(lines, count, outer, share)
        if self.core is not None:
            in_registers = self.core.whole_rows(in_registers, nest, lines)
            loop = self.core.fitted(loop, Form.LOOP, nest, lines)
        # Short contiguous runs waste memory bandwidth.
        narrow = outer and in_registers is not None and in_registers.rows < _RUN
        if not wide and len(found) == 1 and (in_registers is None or count > 4096 or narrow):
            if loop.chunks > 1 and fixed and not whole:
                self._chunked(nest, found[0], grid, rows, loop)
            else:
                self._loop(nest, found, grid, rows, loop)
        elif in_registers is not None:
            sides = nest.count(rows), nest.count(nest.cols)
            name, b = self.named(Form.ROWS, nest, *sides, in_registers, held=held, shares=not apart)
            joined = found if b.parts > 1 else passes(nest, join=False)
            self._add(name, nest, Form.ROWS, grid, rows, nest.cols, joined, b)
        elif fixed and not whole and not scans and loop.chunks > 1 and reads:
            self._chunked(nest, found[0], grid, rows, loop)
        else:
            if not fixed and not outer:
                most = rules.MOST_COLS // held if self.core is None else self.core.elements(nest)
                single = passes(nest, join=False)
                name = self.names.take(f"{self.graph.name}_{Form.ROWS.value}")
                self._add(
                    name, nest, Form.ROWS, grid, rows, nest.cols, single, None, most_cols=most
                )
            self._loop(nest, found, grid, rows, loop)

    def _loop(
        self,
        nest: Nest,
        items: Sequence[Sequence[Item]],
        grid: tuple[int, ...],
        rows: tuple[int, ...],
        b: Blocks,
    ) -> None:
        """Append a kernel whose programs loop over all columns of their rows."""
        sides = nest.count(rows), nest.count(nest.cols)
        name, b = self.named(Form.LOOP, nest, *sides, replace(b, chunks=1))
        self._add(name, nest, Form.LOOP, grid, rows, nest.cols, items, b)

    def _is_outer(self, nest: Nest) -> bool:
        """Return True if most of the moved elements are contiguous along axes of rows rather than columns."""
        moved = [
            (a in nest.cols, self.value(nest.count(tuple(varies(n)))))
            for n in nest.nodes
            if n.op in ("Load", "Store") and varies(n) & frozenset(nest.cols)
            for a in (unit_axis(n),)
            if a is not None
        ]
        inner = sum(count for along_cols, count in moved if along_cols)
        return inner * 2 < sum(count for _, count in moved)

    def _grid(self, nest: Nest, outer: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the axes with one index per program, and the axes along the rows of a block."""
        if not outer or not nest.rows:
            return (), nest.rows
        # Blocks of a short axis are filled in part, and small where columns are short, too.
        last, count = self.value(nest.sizes[nest.rows[-1]]), self.value(nest.count(nest.cols))
        if self.core is None and count <= 2 * _RUN and rules.wastes(last, _RUN):
            return (), nest.rows
        return nest.rows[:-1], nest.rows[-1:]

    # partial results --------------------------------------------------------------------------
    def _chunked(
        self,
        nest: Nest,
        items: Sequence[Item],
        grid: tuple[int, ...],
        rows: tuple[int, ...],
        b: Blocks,
    ) -> None:
        """Append a kernel that reduces parts of the columns, one that joins the parts, and the work that follows.

        ``items``: the first pass; later ones follow in kernels of their own.
        """
        sides = nest.count(rows), nest.count(nest.cols)
        name, b = self.named(Form.LOOP, nest, *sides, b, leaves=True)
        parts: list[Partial] = []
        kept = nest.count((*grid, *rows))
        for i in items:
            for r in i.results:
                m = self.memory(r.y.dtype, kept * b.chunks, "partial")
                parts.append(Partial(i, r, m))
        named = {n.name for n in walk(nest.nodes, [p.node.inputs[0] for p in parts], frozenset())}
        named |= {p.node.name for p in parts}
        first = replace(nest, nodes=tuple(n for n in nest.nodes if n.name in named))
        self._add(name, first, Form.LOOP, grid, rows, nest.cols, [items], b, parts)
        cols = frozenset(nest.cols)
        stores = [n for n in nest.nodes if n.op == "Store"]
        done = {p.node.name for p in parts}
        later = behind(nest, [n.name for n in nest.nodes if n.op in REDUCES and n.name not in done])
        after = [n.name for n in stores if varies(n) & cols or n.name in later]
        narrow = [n.name for n in stores if n.name not in after]
        left: dict[str, Memory] = {}
        if after:
            for n in frontier(nest, sorted(done), later):
                left[n.name] = self.memory(n.y.dtype, kept, n.name)
        steps = CeilDiv(CeilDiv(nest.count(nest.cols), b.chunks), b.cols)
        span = steps.value * b.cols
        self._join(joining(nest, nest.rows, parts, b.chunks, span, narrow, left), parts, left)
        if after:
            self.buffers.update({m.name: m for m in left.values()})
            following = rest(nest, left, after)
            (self._reducing if following.cols else self._elementwise)(following)

    def _with_sums(self, nest: Nest) -> None:
        """Append a kernel of rows with sums across them: a program sums its own rows, a second kernel the programs."""
        sums = across_sums(nest)
        late = behind(nest, [n.name for n in sums])
        inner = replace(nest, nodes=tuple(n for n in nest.nodes if n.name not in late))
        cols = nest.cols or tuple(a for a in nest.axes if a not in nest.across)
        count = nest.count(cols)
        rows = tuple(a for a in nest.axes if a not in cols)
        b = rules.beside_sums(
            self.value(nest.count(rows)),
            count.value,
            self.target.multiprocessors,
        )
        b = self.fitted(b, Form.ROWS, nest, nest.count(rows))
        inner = replace(inner, cols=cols, across=())
        name, b = self.named(Form.ROWS, inner, nest.count(rows), count, b, leaves=True)
        programs = b.programs
        parts = [Partial(None, n, self.memory(F32, count * programs, "partial")) for n in sums]
        self._add(name, inner, Form.ROWS, (), rows, cols, passes(inner, join=False), b, parts)
        stores = [n.name for n in nest.nodes if n.op == "Store" and n.name in late]
        whole = replace(nest, cols=cols)
        self._join(joining(whole, cols, parts, programs, 0, stores, {}), parts, {})

    def _join(self, nest: Nest, parts: Sequence[Partial], left: Mapping[str, Memory]) -> None:
        self.buffers.update({p.memory.name: p.memory for p in parts})
        self.targets.update({f"{name}_left": m for name, m in left.items()})
        self._reducing(nest, whole=True)

    def _add(
        self,
        name: str,
        nest: Nest,
        form: Form,
        grid: tuple[int, ...],
        rows: tuple[int, ...],
        cols: tuple[int, ...],
        items: Sequence[Sequence[Item]],
        b: Blocks | None,
        partials: Sequence[Partial] = (),
        most_cols: int = 0,
    ) -> None:
        self.kernels.append(
            Kernel(
                name,
                form,
                nest,
                grid,
                rows,
                cols,
                tuple(tuple(level) for level in items),
                b,
                tuple(partials),
                self.buffers,
                self.targets,
                self.exact,
                most_cols,
            )
        )


def _meets(found: Sequence[Sequence[Item]]) -> bool:
    """Return True if the blocks of a cluster can exchange all results, which pass through float32 memory."""
    results = (r for items in found for i in items for r in i.results)
    return all(r.y.dtype.kind == "f" for r in results)


def _reads(nest: Nest) -> bool:
    """Return True if reductions over the columns need Loads along them; otherwise a second pass reads no memory."""
    cols = frozenset(nest.cols)
    inputs = [n.inputs[0] for n in nest.nodes if n.op in (*REDUCES, "Scan")]
    return any(n.op == "Load" and varies(n) & cols for n in walk(nest.nodes, inputs, frozenset()))


def _sums_across(nest: Nest, has_room: Fits) -> Nest:
    """Return elementwise work with sums over its outer axes as rows with sums across them, if that fits."""
    named = nest.by_name()
    sums = [n for n in nest.nodes if n.op in REDUCES]
    outer = nest.axes[: len(nest.cols)]
    if nest.across or not sums or nest.cols != outer or len(nest.axes) == len(outer):
        return nest
    kept = nest.count(nest.rows)
    late = behind(nest, [n.name for n in sums])
    cols = frozenset(nest.cols)
    stores = [n for n in nest.nodes if n.op == "Store" and varies(n) & cols]
    units = [unit_axis(n) for n in nest.nodes if n.op in ("Load", "Store")]
    fits = (
        bool(stores)
        and has_room(kept, len(sums))
        and all(n.op == "ReduceSum" and reduced(n, named) == cols for n in sums)
        and not any(n.op == "Scan" for n in nest.nodes)
        and not any(n.name in late and varies(n) & cols for n in nest.nodes)
        and all(a in nest.rows for a in units if a is not None)
    )
    return replace(nest, cols=(), across=nest.cols) if fits else nest
