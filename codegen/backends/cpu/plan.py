"""Plan the loops of a HintGraph: the form of every nest, thread sharing, and values kept between passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.codegen.backends.cpu.cpp_text import CppNames, entry_point
from autofuse.codegen.backends.cpu.loops import Form, Loops, Program, Threads
from autofuse.codegen.backends.cpu.ops.spelling import CPP
from autofuse.codegen.nests.legalize import legalize, rounds_each_step
from autofuse.codegen.nests.levels import known_after, passes
from autofuse.codegen.nests.memory import Memories
from autofuse.codegen.nests.nest import Nest, nests, reduced, unit_axis, varies
from autofuse.implgraph.expr.expression import ONE, Expr
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets.cpu import CpuTarget

__all__ = ["plan"]

#: Assumed sizes of symbols without a typical size.
_TYPICAL = 1024
#: Rows per core from which threads share rows rather than the elements of each row.
_ROWS_PER_CORE = 4
#: Number of cores assumed for a target of "as many as there are".
_USUAL_CORES = 8
#: Side of a square tile read along one axis and written along another, as ``simd::turn`` transposes it.
_SQUARE = 32
#: Lanes of a block of columns.
_LANES = 256
#: Elements of the longest row of which a block is transposed, lanes of that block, and most tensors that are.
_SHORT_ROW, _TURNED_LANES, _TURNED_TENSORS = 64, 32, 8
#: Additions in ``float`` before the sum goes into a ``double``.
_ADDITIONS = 16
#: Most results that a thread keeps private while it reduces its share.
_KEPT = 2048


def plan(graph: FusionGraph, hint: HintGraph, target: CpuTarget) -> Program:
    """Return the loops of a graph.

    Args:
        graph: the original graph.
        hint: its loop-level form.
        target: CPU.

    Raises:
        AutofuseError: AF3001, an op has no C++ form.
    """
    hint = canonicalise(hint)
    exact = rounds_each_step(hint.nodes)
    hint = replace(hint, nodes=legalize(hint.nodes, CPP))
    names = CppNames()
    names.take(entry_point(graph))
    symbols = {s.name: names.take(s.name) for s in graph.symbols}
    memories = Memories.of(graph, hint, names)
    typical = {s.name: s.hint or min(max(_TYPICAL, s.min), s.max) for s in graph.symbols}
    planner = _Planner(target, typical)
    loops = tuple(
        planner.loops(nest, names.take(f"{graph.name}_{k}")) for k, nest in enumerate(nests(hint))
    )
    return Program(
        graph,
        symbols,
        tuple(memories.inputs),
        tuple(memories.outputs),
        loops,
        tuple(memories.scratch),
        memories.buffers,
        memories.targets,
        exact,
    )


@dataclass(frozen=True)
class _Planner:
    target: CpuTarget
    typical: Mapping[str, int]

    def value(self, e: Expr) -> int:
        """Return a size, with typical values for its symbols."""
        return e.evaluate(self.typical)

    def loops(self, nest: Nest, name: str) -> Loops:
        """Return the loops of a nest."""
        _check(nest)
        if not nest.cols:
            return self._elements(nest, name)
        lanes = self._lanes(nest)
        turned = self._turned(nest, name) if lanes in nest.cols else None
        if turned is not None:
            return turned
        if lanes in nest.cols:
            return self._rows(nest, name, lanes)
        return self._columns(nest, name, lanes)

    @property
    def _cores(self) -> int:
        return self.target.cores or _USUAL_CORES

    def _moved(self, nest: Nest) -> list[tuple[int, int]]:
        """Return, per Load and Store of adjacent elements, the axis they are contiguous along and their number."""
        found = []
        for n in nest.nodes:
            a = unit_axis(n) if n.op in ("Load", "Store") else None
            if a is not None:
                found.append((a, self.value(nest.count(sorted(varies(n))))))
        return found

    def _lanes(self, nest: Nest) -> int:
        """Return the axis along which most elements are contiguous; the innermost of equal ones."""
        weight = dict.fromkeys(nest.axes, 0)
        for a, elements in self._moved(nest):
            weight[a] += elements
        long = [a for a in nest.axes if self.value(nest.sizes[a]) > 1] or list(nest.axes)
        return max(long, key=lambda a: (weight[a], nest.axes.index(a)))

    def _elements(self, nest: Nest, name: str) -> Loops:
        lanes = self._lanes(nest)
        other = [
            a
            for a, _ in self._moved(nest)
            if a != lanes
            and min(self.value(nest.sizes[a]), self.value(nest.sizes[lanes])) >= _SQUARE // 2
            and any(
                unit_axis(n) == a and lanes in varies(n)
                for n in nest.nodes
                if n.op in ("Load", "Store")
            )
        ]
        form = Form.TILES if other else Form.ELEMENTS
        across = other[0] if other else None
        return Loops(name, nest, form, lanes, across, Threads.OUTER, _SQUARE, (), ())

    def _rows(self, nest: Nest, name: str, lanes: int) -> Loops:
        found = _reductions(nest)
        rows = self.value(nest.count(nest.rows))
        scans = any(n.op == "Scan" for n in nest.nodes)
        threads = Threads.OUTER
        if rows < _ROWS_PER_CORE * self._cores:
            threads = Threads.ONE if scans else Threads.REDUCED
            if self.value(nest.count(nest.cols)) < rows * self._cores:
                threads = Threads.OUTER
        fits = self.value(nest.count(nest.cols)) * 4 <= self.target.cache_bytes // 2
        kept = _kept(nest, found) if fits and not scans and len(nest.cols) == 1 else ()
        # A machine may have vectors of half the planned length, where each lane adds twice as many.
        run = _ADDITIONS // 2 * self.target.simd_bytes // 4
        return Loops(name, nest, Form.ROWS, lanes, None, threads, 0, found, kept, run)

    def _turned(self, nest: Nest, name: str) -> Loops | None:
        """Return the loops that compute short rows side by side.

        A row of few elements fills no vector, and joining its lanes takes longer than computing them.  Return None if
        the rows are long or few, or if no tensor would be transposed.
        """
        long = [a for a in nest.rows if nest.sizes[a] != ONE]
        if len(nest.cols) != 1 or not long:
            return None
        (col,), lanes = nest.cols, long[-1]
        count = nest.sizes[col]
        if not count.is_const or not 1 < count.value <= _SHORT_ROW:
            return None
        if self.value(nest.sizes[lanes]) < _TURNED_LANES:
            return None
        moved = [n for n in nest.nodes if n.op in ("Load", "Store") and col in varies(n)]
        turned = [n for n in moved if unit_axis(n) == col and lanes in varies(n)]
        if not turned or len(turned) > _TURNED_TENSORS or any("extent" in n.attrs for n in moved):
            return None
        shape = (Form.TURNED, lanes, col, Threads.OUTER, _TURNED_LANES)
        return Loops(name, nest, *shape, _reductions(nest), (), _ADDITIONS)

    def _columns(self, nest: Nest, name: str, lanes: int) -> Loops:
        found = _reductions(nest)
        rows, count = self.value(nest.count(nest.rows)), self.value(nest.sizes[lanes])
        scans = any(n.op == "Scan" for n in nest.nodes)
        threads, block = Threads.OUTER, _LANES
        if not scans and rows <= _KEPT and self.value(nest.count(nest.cols)) > 32 * self._cores:
            # Few results of many rows: every thread processes whole rows of its own.
            threads, block = Threads.REDUCED, min(_KEPT, 1 << max(count - 1, 15).bit_length())
        least = self.target.simd_bytes // 4
        # If there are too few blocks for all threads, shrink them, but keep vectors full.
        while threads is Threads.OUTER and block > 2 * least:
            if rows // count * -(-count // block) >= 2 * self._cores:
                break
            block //= 2
        return Loops(name, nest, Form.COLUMNS, lanes, None, threads, block, found, (), _ADDITIONS)


def _check(nest: Nest) -> None:
    """Raise AF3001 if reductions cover different axes, or one result has fewer axes than the others."""
    named, cols = nest.by_name(), frozenset(nest.cols)
    rows = {a for a in nest.rows if nest.sizes[a] != ONE}
    for n in nest.nodes:
        if n.op == "Store" and not rows <= varies(n):
            raise AutofuseError.of(
                "AF3001",
                "an output has fewer axes than the operators fused with it",
                where=Where(pointer=n.origin, node=n.name),
                hint="move it to a separate graph",
            )
        over = reduced(n, named) if n.op in REDUCES else cols
        if over and over != cols:
            raise AutofuseError.of(
                "AF3001",
                f"{n.op} reduces different axes from the operators fused with it",
                where=Where(pointer=n.origin, node=n.name),
                hint="move it to a separate graph",
            )


def _reductions(nest: Nest) -> tuple[tuple[Node, ...], ...]:
    return tuple(tuple(i.first for i in level) for level in passes(nest, join=False))


def _kept(nest: Nest, found: Sequence[Sequence[Node]]) -> tuple[str, ...]:
    """Return the wide values that later passes need and that are cheaper to keep than to read again."""
    named, cols = nest.by_name(), frozenset(nest.cols)
    level = known_after(nest, found)
    kept: set[str] = set()
    #: Computed in an earlier pass.
    known: set[str] = set()

    for k in range(len(found) + 1):
        costs: set[str] = set()
        for n in nest.nodes:
            widens = n.op == "Cast" and named[n.inputs[0]].y.dtype.name == "float16"
            dear = widens or lookup(n.op).special or not costs.isdisjoint(n.inputs)
            if dear and n.name not in kept and varies(n) & cols:
                costs.add(n.name)
        targets = [r.inputs[0] for r in found[k]] if k < len(found) else []
        targets += [n.name for n in nest.nodes if n.op == "Store" and level[n.name] == k]
        todo, seen = targets, set(targets)
        while todo:
            name = todo.pop()
            if name in kept or name not in named or not varies(named[name]) & cols:
                continue
            if name in known and name in costs:
                kept.add(name)
                continue
            fresh = set(named[name].inputs) - seen
            seen |= fresh
            todo.extend(sorted(fresh))
        known |= seen
    return tuple(n.name for n in nest.nodes if n.name in kept)
