"""Partition of a graph's outputs into groups with one iteration space each, and the order of the groups.

An output starts a group with its own dimensions.  Outputs that the group's axes reach join it.  Where a group's tensors
do not fit its axes, or its reductions run over different axes, the graph is cut: another group writes the tensor at
that point to a workspace, and the group reads it back.  An output that concatenates tensors becomes one group per
piece; pieces of equal size are computed together if they load the same elements, as the halves of a rotation do, or lie
side by side in short rows, as the columns of a stack do.  Groups recompute shared tensors, except reductions, as long
as the cost stays in proportion to the graph.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import Wording
from autofuse.implgraph.expr.expression import ZERO, Expr, const, product
from autofuse.implgraph.ir.iteration_space import Axes, IterationSpace
from autofuse.implgraph.lowering.group import Group, Result, grown, settle
from autofuse.implgraph.lowering.merging import merged
from autofuse.implgraph.lowering.normalise import BROADCAST, INPUT, OP, REDUCE, Program
from autofuse.implgraph.lowering.recomputing import often_computed
from autofuse.implgraph.lowering.remembered import Cuts, Remembered
from autofuse.implgraph.lowering.walk import (
    MAX_INSTANCES,
    RELOAD,
    SCALAR,
    STORE,
    BlockedError,
    CrowdedError,
    Start,
    StraddleError,
    sizes_of,
)

__all__ = ["partition"]

#: Maximum cut tensors per kernel: each costs all cores a barrier and restarts planning.
MAX_CUTS = 128
#: Maximum pieces of one output.
MAX_PIECES = 64
#: Maximum loads and stores of pieces that are computed together: each has buffers in UB.
MAX_COPIES = 12
#: Maximum bytes of a short row whose pieces are computed together, and their maximum number and loads.
SHORT_ROW = 64
MAX_COLUMNS = 16
#: Minimum number of rows for cutting pieces into columns.
MIN_ROWS = 16


class _FinerError(Exception):
    """A concatenation along a part of a dimension, which can be cut with ``shape`` as the initial axes."""

    def __init__(self, shape: tuple[Expr, ...]) -> None:
        super().__init__("a concatenation inside of a dimension")
        self.shape = shape


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements ``offset`` to ``offset + count`` of a dimension of ``size``."""

    size: Expr
    offset: Expr
    count: Expr


def partition(program: Program, *, columns: bool = True, cuts: Sequence[int] = ()) -> list[Group]:
    """Return the groups of a graph in execution order.

    Args:
        program: the graph.
        columns: compute pieces of short rows together even if they share no loads.
        cuts: tensors that pass through a workspace in any case; results of reductions in parts always do.

    Raises:
        AutofuseError: AF2101, the shapes have no common iteration space and cutting does not help; AF2102, an output
            does not fit the input that it overwrites; AF2104, too many tensors would be cut.
    """
    parts = (t for t, step in enumerate(program.steps) if step.part)
    cuts = list(dict.fromkeys((*cuts, *parts)))
    known = Remembered()
    for _ in range(4 * len(program.steps) + 4):
        plan = _Plan(program, cuts, columns, known)
        cut = plan.make()
        if cut is None:
            return plan.ordered
        if len(cuts) == MAX_CUTS:
            step = program.steps[cut]
            raise AutofuseError.of(
                "AF2104",
                f"more than {MAX_CUTS} tensors of {program.graph.label} would have to pass through a workspace",
                where=Where(pointer=step.origin),
                hint="split it into several graphs, or use autofuse build --split",
            )
        cuts.append(cut)
        known.forget(cut)
    raise RuntimeError(f"cutting {program.graph.name} does not terminate")


def _too_much(program: Program, tensor: int) -> AutofuseError:
    step = program.steps[tensor]
    return AutofuseError.of(
        "AF2104",
        f"the fused operators need more than {MAX_INSTANCES} calls",
        where=Where(pointer=step.origin),
        hint="split it into several graphs, or use autofuse build --split",
    )


def _results(program: Program, cuts: Sequence[int]) -> list[Result]:
    graph = program.graph
    out: list[Result] = []
    for k, o in enumerate(graph.outputs):
        memory, inout = None, -1
        if o.inout is not None:
            inout = graph.inputs.index(o.inout)
            t = graph.tensors[o.inout]
            count = program.count(t.shape)
            if count != program.count(graph.tensors[o.tensor].shape):
                raise AutofuseError.of(
                    "AF2102",
                    f"output {o.name} overwrites {o.inout}, which has a different number of elements",
                    where=Where(pointer=f"/outputs/{k}"),
                    hint="write to a new tensor",
                )
            memory = t if count != 0 else None
        shape = graph.tensors[o.tensor].shape
        where = f"/outputs/{k}"
        out.append(Result(program.index[o.tensor], shape, k, -1, memory, inout, where))
    for w, cut in enumerate(cuts):
        step = program.steps[cut]
        out.append(Result(cut, step.shape, workspace=w, origin=step.origin))
    return out


class _Plan:
    """One attempt at a partition, with some tensors cut."""

    def __init__(
        self, program: Program, cuts: Sequence[int], columns: bool, known: Remembered
    ) -> None:
        self.program = program
        self.columns = columns
        self.cuts = Cuts(cuts)
        self.known = known
        self.results = _results(program, cuts)
        self.levels = self._levels()
        self.ordered: list[Group] = []

    def _levels(self) -> list[int]:
        """Return, for every result, the longest chain of workspaces that it depends on."""
        steps = self.program.steps
        make = [0] * len(steps)
        use = [0] * len(steps)
        for t, step in enumerate(steps):
            make[t] = max((use[u.tensor] for u in step.uses if u.constant is None), default=0)
            use[t] = make[t] + (t in self.cuts)
        return [make[r.tensor] for r in self.results]

    def make(self) -> int | None:
        """Form all groups and return None, or return a tensor that must be cut first."""
        classes: dict[tuple[int, int], list[int]] = {}
        for r, result in enumerate(self.results):
            key = (self.program.find(result.tensor), self.levels[r])
            classes.setdefault(key, []).append(r)
        found: list[Group] = []
        try:
            for members in classes.values():
                found += self._class_groups(members)
        except CrowdedError as e:
            raise _too_much(self.program, e.tensor) from None
        except BlockedError as e:
            if e.tensor in self.cuts:
                raise self._no_space(e) from None
            return e.tensor
        cut = self._shared_reduction(found)
        if cut is None:
            found = merged(found)
            cut = self._unsafe_write(found)
        if cut is None:
            cut = often_computed(found, len(self.program.steps))
        return cut if cut is not None else self._order(found)

    def _no_space(self, e: BlockedError) -> AutofuseError:
        step = self.program.steps[e.tensor]
        if e.reason is None:
            text = f"the pieces of {step.tensor.name} cannot be distinguished for all values of the symbols"
        else:
            text = Wording(
                "dimensions {} do not line up with {}",
                _text(e.reason.want),
                _text(e.reason.have),
            )
        return AutofuseError.of("AF2101", text, where=Where(pointer=step.origin))

    # groups -----------------------------------------------------------------------------------

    def _class_groups(self, members: Sequence[int]) -> Iterator[Group]:
        """Form the groups of results that are linked and on the same workspace level."""
        left = [self.results[r] for r in members]
        while left:
            made = self.known.groups(left.pop(0), self.cuts, self._first)
            if len(made) == 1 and not made[0].part:
                whole, left = grown(made[0], left)
                made = [whole]
            elif left:
                made, left = self._cut_alike(made, left)
            yield from made

    def _first(self, result: Result) -> list[Group]:
        """Return the group of one result; several if it has pieces."""
        own = self.program.steps[result.tensor].shape
        count = self.program.count(result.shape)
        shapes = [(count,)] if count == 0 else [result.shape, own, (count,)]
        failures: list[BlockedError] = []
        try:
            for shape in dict.fromkeys(tuple(sizes_of(s)) for s in shapes):
                made = self._pieces(result, shape, failures)
                if made:
                    return made
            raise failures[0]
        finally:
            # The error refers to this frame and those of all callers: storing it in the list would create a reference
            # cycle.
            failures.clear()

    def _cut_alike(
        self, made: list[Group], more: Sequence[Result]
    ) -> tuple[list[Group], list[Result]]:
        """Return the groups of a result's pieces, with results of ``more`` that are cut alike, and those left over."""
        left: list[Result] = []
        for other in more:
            both = [self._beside(g, other) for g in made]
            if all(both):
                made = [g for g in both if g is not None]
            else:
                left.append(other)
        return made, left

    def _beside(self, group: Group, other: Result) -> Group | None:
        """Return a group of pieces with the same pieces of another result, if it loads less than two groups would."""
        first = group.results[0]
        tensors = self.program.steps
        alike = [tensors[r.tensor].tensor.shape for r in (first, other)]
        if group.columns or first.shape != other.shape or alike[0] != alike[1]:
            return None
        runs = tuple(size for size, _ in other.runs)
        # Results that joined before repeat the same pieces.
        pieces = [s for s, r in zip(group.starts, group.results, strict=True) if r is first]
        starts = [
            Start(len(group.starts) + k, other.tensor, s.axes, other.origin, runs)
            for k, s in enumerate(pieces)
        ]
        try:
            alone = self._group_of([other] * len(pieces), group.space.copy(), starts)
            both = self._group_of(
                [*group.results, *alone.results], group.space.copy(), [*group.starts, *starts]
            )
        except (BlockedError, StraddleError):
            return None
        loads = [_full_loads(g) for g in (group, alone, both)]
        less = loads[2] < loads[0] + loads[1] or loads[1] == 0
        return both if less and _copies(both) <= MAX_COPIES else None

    def _group_of(self, results: list[Result], space: IterationSpace, starts: list[Start]) -> Group:
        """Return a group of pieces."""
        walk = settle(self.program, space, starts, self.cuts)
        return Group(self.program, results, space, starts, walk, self.cuts, True)

    def _pieces(
        self, result: Result, shape: Sequence[Expr], failures: list[BlockedError]
    ) -> list[Group]:
        """Return the groups with ``shape`` as initial axes; none, with an entry in ``failures``, if it does not fit."""
        try:
            return self._split(result, shape)
        except BlockedError as e:
            failures.append(e)
        except _FinerError as inside:
            # A concatenation inside a dimension, as of columns that a Reshape merged into it.
            return self._pieces(result, inside.shape, failures)
        return []

    def _split(self, result: Result, shape: Sequence[Expr]) -> list[Group]:
        whole = [_Piece(s, ZERO, s) for s in shape]
        groups, pieces = self._cut(result, [whole])
        step = self.program.steps[result.tensor]
        if step.part and len(pieces) > 1:
            # Its parts lie one behind the other for all columns: what the pieces make is read from a workspace.
            raise BlockedError(step.uses[0].tensor)
        wanted = self.columns and len(groups) > 1
        columns = _columns(pieces, self._row_elements(result)) if wanted else []
        if columns and all(_has_columns(g) for g in groups):
            with suppress(BlockedError, _FinerError):
                finer, _ = self._cut(result, columns)
                if len(finer) == 1:
                    finer[0].columns, groups = True, finer
        if len(groups) == 1 and len(groups[0].starts) == 1:
            groups[0].part = False
        return groups

    def _cut(
        self, result: Result, todo: list[list[_Piece]]
    ) -> tuple[list[Group], list[list[_Piece]]]:
        """Return the groups of a result's pieces, last first, each cut further if necessary, and the final pieces."""
        done: list[tuple[Group, list[_Piece], list[Axes]]] = []
        found: list[list[_Piece]] = []
        while todo:
            pieces = todo.pop()
            space = IterationSpace([p.count for p in pieces if p.count != 1])
            roots = iter(space.roots)
            bases: list[Axes] = [() if p.count == 1 else (next(roots),) for p in pieces]
            start = _start(0, result, space, pieces, bases)
            try:
                walk = settle(self.program, space, [start], self.cuts)
            except StraddleError as e:
                todo += self._cut_piece(e, space, pieces, bases)
                if len(todo) + len(done) > MAX_PIECES:
                    raise BlockedError(e.tensor) from None
                continue
            found.append(pieces)
            group = Group(self.program, [result], space, [start], walk, self.cuts, True)
            for k, (other, first, where) in enumerate(done):
                if [p.count for p in first] == [p.count for p in pieces]:
                    beside = self._are_columns(result, first, pieces)
                    both = self._together(other, group, pieces, where, beside)
                    if both is not None:
                        done[k] = (both, first, where)
                        break
            else:
                done.append((group, pieces, bases))
        return [group for group, _, _ in done], found

    def _together(
        self,
        group: Group,
        piece: Group,
        pieces: Sequence[_Piece],
        bases: Sequence[Axes],
        beside: bool,
    ) -> Group | None:
        """Return a group of pieces with one more, if it shares a load along all axes with them or lies ``beside`` them.

        Args:
            group: pieces with the axes of ``piece``.
            piece: the group of the additional piece alone.
            pieces: location of the additional piece.
            bases: the axes of ``group`` along each dimension.
            beside: True if short rows hold all of them.
        """
        copies = _copies(group) + len(piece.starts)
        if not beside and (copies > MAX_COPIES or not (_full_loads(group) and _full_loads(piece))):
            return None  # too many copies, or no load to share
        space = group.space.copy()
        start = _start(len(group.starts), piece.results[0], space, pieces, bases)
        starts = [*group.starts, start]
        try:
            walk = settle(self.program, space, starts, self.cuts)
        except (BlockedError, StraddleError):
            return None
        results = [*group.results, *piece.results]
        both = Group(self.program, results, space, starts, walk, self.cuts, True)
        both.columns = group.columns
        less = _full_loads(both) < _full_loads(group) + _full_loads(piece)
        if less and _copies(both) <= MAX_COPIES:
            return both
        # Columns share one store.
        both.columns = True
        fits = _copies(both) - len(both.starts) <= MAX_COLUMNS
        return both if beside and fits else None

    def _are_columns(
        self, result: Result, first: Sequence[_Piece], other: Sequence[_Piece]
    ) -> bool:
        """Return True if two pieces of a result are computed together because one short row holds both."""
        return (
            self.columns and _side_by_side([first, other], self._row_elements(result)) is not None
        )

    def _row_elements(self, result: Result) -> int:
        """Return the number of elements in a short row of a result."""
        return SHORT_ROW * 8 // self.program.steps[result.tensor].tensor.dtype.bits

    def _cut_piece(
        self, e: StraddleError, space: IterationSpace, pieces: list[_Piece], bases: list[Axes]
    ) -> list[list[_Piece]]:
        """Return the two parts of a piece, the second one first."""
        for d, (p, base) in enumerate(zip(pieces, bases, strict=True)):
            if base and space.resolve(base) == space.resolve(e.base):
                parts = (
                    _Piece(p.size, p.offset + e.at, p.count - e.at),
                    _Piece(p.size, p.offset, e.at),
                )
                return [[*pieces[:d], q, *pieces[d + 1 :]] for q in parts if q.count != 0]
        parts_of = [space.resolve(base) for base in bases]
        inside = any(set(e.base) < set(axes) for axes in parts_of)
        if inside and all(p.count == p.size for p in pieces):
            raise _FinerError(tuple(space.sizes[a] for axes in parts_of for a in axes))
        raise BlockedError(e.tensor)

    # cuts -------------------------------------------------------------------------------------

    def _shared_reduction(self, found: Sequence[Group]) -> int | None:
        """Return a reduction that two groups would compute."""
        seen: dict[int, int] = {}
        for n, g in enumerate(found):
            for inst in g.insts:
                whole = inst.kind == REDUCE and not g.space.has_windows(inst.axes)
                if whole and seen.setdefault(inst.tensor, n) != n and inst.tensor not in self.cuts:
                    return inst.tensor
        return None

    def _unsafe_write(self, found: Sequence[Group]) -> int | None:
        """Return an input that a group overwrites but does not read element by element where it writes."""
        for g in found:
            for result, start in zip(g.results, g.starts, strict=True):
                for index, tensor, axes in g.walk.loads() if result.inout >= 0 else ():
                    if index == result.inout and axes != g.space.resolve(start.axes):
                        return tensor
        return None

    def _order(self, found: Sequence[Group]) -> int | None:
        """Order the groups and return None, or return an input that must be copied to make an order possible."""
        writers: dict[int, list[int]] = {}
        makers: dict[int, list[int]] = {}
        for n, g in enumerate(found):
            for r in g.results:
                if r.inout >= 0:
                    writers.setdefault(r.inout, []).append(n)
                if r.workspace >= 0:
                    makers.setdefault(r.tensor, []).append(n)
        # before[n]: groups that must run before group n, each with the input that requires it.
        before: list[dict[int, int]] = [{} for _ in found]
        for n, g in enumerate(found):
            for t in g.walk.reloads():
                before[n].update(dict.fromkeys(makers[t], -1))
            for index, tensor, _ in g.walk.loads():
                for w in writers.get(index, ()):
                    if w != n:
                        before[w][n] = tensor
        behind: list[list[int]] = [[] for _ in found]
        for n, some in enumerate(before):
            for m in some:
                behind[m].append(n)
        waits = [len(some) for some in before]
        ready = [n for n, k in enumerate(waits) if not k]  # sorted, so it is a heap
        order: list[int] = []
        while ready:
            order.append(heapq.heappop(ready))
            for n in behind[order[-1]]:
                waits[n] -= 1
                if not waits[n]:
                    heapq.heappush(ready, n)
        if len(order) < len(found):
            left = set(range(len(found))).difference(order)
            return next(
                t for n in sorted(left) for m, t in before[n].items() if m in left and t >= 0
            )
        self.ordered = [found[n] for n in order]
        return None


def _side_by_side(pieces: Sequence[Sequence[_Piece]], most: int) -> int | None:
    """Return the one dimension along which the pieces differ, if its rows have at most ``most`` elements."""
    first = pieces[0]
    apart = {d for other in pieces for d, p in enumerate(other) if p != first[d]}
    if len(apart) != 1 or apart == {0}:
        return None
    (d,) = apart
    row = product(p.size for p in first[d:]).as_int()
    return d if row is not None and row <= most else None


def _columns(pieces: Sequence[Sequence[_Piece]], most: int) -> list[list[_Piece]]:
    """Return pieces of different widths, side by side in short rows, as pieces of equal width; otherwise none."""
    d = _side_by_side(pieces, most)
    if d is None:
        return []
    rows = product(p.count for p in pieces[0][:d]).as_int()
    if rows is not None and rows < MIN_ROWS:
        return []
    widths = {p[d].count.value for p in pieces}
    width = math.gcd(*widths)
    size = pieces[0][d].size.value
    if len(widths) == 1 or size > width * MAX_COLUMNS:
        return []
    starts = reversed(range(0, size, width))
    cut = (_Piece(const(size), const(at), const(width)) for at in starts)
    return [[*pieces[0][:d], c, *pieces[0][d + 1 :]] for c in cut]


def _has_columns(group: Group) -> bool:
    """Return True if the group's tensors can also be moved and computed column by column."""
    known = (INPUT, RELOAD, OP, BROADCAST, SCALAR, STORE)
    steps = group.program.steps
    return all(
        i.kind in known and (i.kind == SCALAR or steps[i.tensor].tensor.dtype.bits < 64)
        for i in group.insts
    )


def _start(
    number: int,
    result: Result,
    space: IterationSpace,
    pieces: Sequence[_Piece],
    bases: Sequence[Axes],
) -> Start:
    """Return the store of the elements of ``result`` in these pieces of its dimensions."""
    axes: Axes = ()
    for p, base in zip(pieces, bases, strict=True):
        axes += space.window(p.size, p.offset, 1, base)
    runs = tuple(size for size, _ in result.runs)
    return Start(number, result.tensor, axes, result.origin, runs)


def _full_loads(group: Group) -> int:
    """Return the number of loads that cover all axes of the group."""
    whole = set(group.space.axes())
    return sum(
        i.kind in (INPUT, RELOAD) and set(group.space.flatten(i.axes)) == whole for i in group.insts
    )


def _copies(group: Group) -> int:
    """Return the number of loads and stores."""
    return len(group.starts) + sum(i.kind in (INPUT, RELOAD) for i in group.insts)


def _text(shape: Sequence[Expr]) -> Wording:
    return Wording(f"[{', '.join('{}' for _ in shape)}]", *shape)
