"""Instructions that the functions of ``device_templates/`` issue: how many, of what kind, over how many elements.

A reduction, broadcast, running sum, transposition or pick is one node and one call in the text of a kernel, but many
instructions.  Here is what the headers do, in closed form: :func:`issued` gives it for a node as a function of its
extents, for the cost model at one tile (``schedule.cost.workload``) and with the length of the tile left open
(``schedule.cost.cost_form``).  Timed mode prices what a run really issues; ``benchmarks/timed_vs_model.py`` compares.

With all extents known, the forms are exact but for single instructions.  Where the tile is left open, roundings along
it count on average; which of two numbers is the lesser one, and logarithms, are those of a typical tile, with as
many elements as the largest one has at typical sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    CeilDiv,
    Expr,
    FloorDiv,
    Func,
    Max,
    Min,
    align_up,
    const,
    divide_exact,
    product,
)
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import ImplGraph, Node, TilingSpec
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.ops.scratch import SCANNED_TOGETHER
from autofuse.schedule.cost.cost import Call, Conflict
from autofuse.schedule.placement.lacing import LACES, lace_counts
from autofuse.schedule.placement.picking import PICKS
from autofuse.schedule.placement.row_operands import ROWS, broadcast_run
from autofuse.schedule.placement.scan import SCAN, scan_run
from autofuse.schedule.placement.stacking import STACK, stack_counts
from autofuse.schedule.placement.transposition import transpose_counts
from autofuse.targets import Architecture

__all__ = ["Amount", "Issued", "Tile", "issued", "open_tile", "summed"]

#: As in the headers: parts that are folded one after the other, rows of a WholeReduce, rows of a
#: transposition and segments of a running sum, entries of a table of offsets; rows from which on two BlockReduce take
#: the place of a WholeReduce.
_PARTS, _WHOLE, _ROWS, _OFFSETS, _BLOCK_ROWS = 8, 240, 16, 1024, 4
#: Bytes of a float; how often an eighth of a tile is more than a repeat.
_FLOAT, _EIGHTHS = 4, 4

#: Functions of ``autofuse_words.h``, which are a node each.
_WORDS = frozenset({"autofuse::LowWords", "autofuse::HighWords", "autofuse::JoinWords"})


@frozen
class Amount:
    """A sum of products: each part is a weight times an expression."""

    parts: tuple[tuple[float, Expr], ...]

    @classmethod
    def of(cls, e: Expr | int, weight: float = 1.0) -> Amount:
        """``weight`` times ``e``."""
        return cls(((weight, const(e) if isinstance(e, int) else e),))

    def __add__(self, other: Amount) -> Amount:
        return Amount((*self.parts, *other.parts))

    def __mul__(self, other: Amount) -> Amount:
        return Amount(tuple((w * v, e * f) for w, e in self.parts for v, f in other.parts))

    def times(self, factor: Expr | int, weight: float = 1.0) -> Amount:
        """Every part times ``factor`` and ``weight``."""
        return Amount(tuple((w * weight, e * factor) for w, e in self.parts))

    def evaluate(self, env: Mapping[str, int]) -> float:
        """The number."""
        return sum(w * e.evaluate(env) for w, e in self.parts)


_NOTHING, _SINGLE = Amount(()), Amount.of(ONE)


@frozen
class Issued:
    """Instructions of one kind.

    Attributes:
        kind: row of the target's vector table.
        calls: instructions, each with its head.
        elements: that all of them go over, whole repeats where an instruction has repeats.
        waits: times that the vector unit waits for a result of the ones before.
        pairs: two operands are read, as far apart as the rows of one tensor are: in the same banks, as a rule.
        along: all of this happens 1 + log2(``along``) times, rounded up, ...
        times: ... and as often as this says.
    """

    kind: str
    calls: Amount
    elements: Amount
    waits: float = 0.0
    pairs: bool = False
    along: Expr = ONE
    times: Expr = ONE

    @property
    def conflict(self) -> Conflict:
        """How the operands lie in the banks of UB."""
        return Conflict.SOURCES if self.pairs else Conflict.NONE


@frozen
class Tile:
    """The length of a tile: its symbol, and typical values of all symbols, that one included.

    ``least``: what divides it, ``most``: what it does not exceed, where the template says so; None for no limit.
    """

    name: str
    typical: Mapping[str, int]
    least: int = 1
    most: int | None = None


def open_tile(spec: TilingSpec, typical: Mapping[str, int]) -> Tile:
    """The length of a template's tiles, left open.

    Args:
        spec: of the template.
        typical: values of the symbols of the graph, and of a tile; a shorter one than any legal one becomes the least.
    """
    # A tile is a multiple of the granule, unless the axis may be shorter than that.
    longer = [c.at_least or 1 for c in spec.conditions if c.value == spec.extent]
    least = spec.granule if max(longer, default=1) >= spec.granule else 1
    most = None if spec.tile_max is None else spec.tile_max.as_int()
    return Tile(
        spec.tile_size,
        {**typical, spec.tile_size: max(typical[spec.tile_size], least)},
        least,
        most,
    )


def issued(
    n: Node,
    impl: ImplGraph,
    named: Mapping[str, Node],
    size: Callable[[int], Expr],
    tile: Tile | Mapping[str, int],
    arch: Architecture,
) -> tuple[Issued, ...] | None:
    """What a vector node issues for a whole tile; None where it is one call of the chip.

    Args:
        n: the node.
        impl: its template.
        named: the nodes of that by name.
        size: axis -> its extent in a tile.
        tile: the length of a tile, which stays in the result; or values of all symbols.
        arch: says how long blocks and repeats are, and how many repeats an instruction has.
    """
    if not _is_many(n.op):
        return None
    source = named[n.inputs[0]] if n.inputs else n
    chip = _Chip(n.y.dtype, tile, arch)
    if n.op in REDUCES:
        return chip.reduce(n, source, size)
    if n.op == "Broadcast":
        return chip.broadcast(n, source, size)
    if n.op in ROWS:
        return chip.with_rows(n, named[n.inputs[1]], size)
    if n.op == SCAN:
        return chip.scan(n, scan_run(n, dict(enumerate(impl.axes))), size)
    if n.op == "UbTranspose":
        counts = transpose_counts(source.y, n.y, size, arch)
        return chip.transpose(*(chip.value(e) for e in counts[:3]))
    if n.op in PICKS:
        return chip.pick(n, size)
    if n.op in LACES:
        outer, rows, k, *_ = (chip.value(e) for e in lace_counts(n, source, size))
        return chip.lace(n, outer, rows, k)
    if n.op == STACK:
        outer, row, _ = (chip.value(e) for e in stack_counts(n, size, source))
        return chip.stack(len(n.inputs), outer, row)
    return chip.words(n, size)


@lru_cache(maxsize=1024)
def _is_many(op: str) -> bool:
    """Whether nodes of an op are a call of a function in ``device_templates/``."""
    if op in REDUCES or op in PICKS or op in LACES or op in ROWS:
        return True
    if op in ("Broadcast", SCAN, STACK, "UbTranspose"):
        return True
    call = lookup(op).call
    return call is not None and call.api in _WORDS


def summed(found: Iterable[Issued], bits: int) -> tuple[Call, ...]:
    """Instructions whose extents are all numbers, those of a kind together; ``bits`` of an element."""
    sums: dict[tuple[str, Conflict], tuple[float, float, float]] = {}
    for x in found:
        times = x.times.value * (1 + max(x.along.value - 1, 0).bit_length())
        count, calls, waits = sums.get((x.kind, x.conflict), (0.0, 0.0, 0.0))
        sums[x.kind, x.conflict] = (
            count + times * x.elements.evaluate({}),
            calls + times * x.calls.evaluate({}),
            waits + times * x.waits,
        )
    return tuple(
        Call(kind, max(count, 0.0), bits, conflict, max(calls, 0.0), max(waits, 0.0))
        for (kind, conflict), (count, calls, waits) in sums.items()
    )


class _Chip:
    """The functions of the headers on elements of one type; names of arguments are those of the headers."""

    def __init__(self, dtype: DType, tile: Tile | Mapping[str, int], arch: Architecture) -> None:
        self.size, self.tile, self.arch = dtype.itemsize, tile, arch
        self.float = dtype.kind == "f"
        self.lanes = max(arch.vector_bytes // self.size, 1)
        self.block = max(arch.block_bytes // self.size, 1)

    # numbers ----------------------------------------------------------------------------------
    def value(self, e: Expr) -> Expr:
        """An extent: a number where all symbols are known, else without roundings of the length of the tile.

        Tiles are multiples of a granule, so that a row of them starts at a 32-byte address.
        """
        if not isinstance(self.tile, Tile):
            return const(e.evaluate(self.tile))
        for a in e.atoms():
            if isinstance(a, Func) and a.name == "CeilDiv" and self._open(a.args[0]):
                rest = divide_exact(e, align_up(*a.args))
                return e if rest is None else self.value(rest * a.args[0])
        return e

    def _extents(self, axes: Iterable[int], size: Callable[[int], Expr]) -> Expr:
        """Elements along some axes."""
        return self.value(product(size(a) for a in axes))

    def _elements(self, n: Node, size: Callable[[int], Expr]) -> Expr:
        """Elements of the result, rows with their padding."""
        axes = n.y.vectorized_axis
        return self.value(size(axes[0]) * n.y.vectorized_strides[0]) if axes else ONE

    def _open(self, e: Expr) -> bool:
        """Whether the length of the tile is in it."""
        return isinstance(self.tile, Tile) and self.tile.name in e.symbols()

    def _pieces(self, x: Expr, k: int) -> Amount:
        """``x`` over ``k``, rounded up."""
        if k == 1 or not self._open(x):
            return Amount.of(CeilDiv(x, k))
        if self._multiple(x, k):
            return Amount.of(x, 1.0 / k)
        return Amount(((1.0 / k, x), (0.5 * (k - 1) / k, ONE)))

    def _multiple(self, x: Expr, k: int) -> bool:
        """Whether an open extent is a multiple of ``k``, since the length of the tile is one of its least."""
        tile = self.tile
        if not isinstance(tile, Tile) or tile.least == 1:
            return False
        none, one = (x.substitute({tile.name: const(t)}).as_int() for t in (0, tile.least))
        return none == 0 and one is not None and one % k == 0

    def _typical(self, x: Expr, beside: Expr) -> Expr:
        """An extent with ``beside`` other elements in the tile, or how long it typically is."""
        if not isinstance(self.tile, Tile) or not self._open(x):
            return x
        elements = (x * beside).evaluate(self.tile.typical)
        return Max(FloorDiv(max(elements, 1), Max(beside, 1)), 1)

    def _lesser(self, a: Expr, per_a: int, b: Expr, per_b: int) -> Amount:
        """The lesser of ``a / per_a`` and ``b / per_b``, both rounded up; one of them may be open."""
        one, other = CeilDiv(self._typical(a, b), per_a), CeilDiv(self._typical(b, a), per_b)
        if not self._open(a) and not self._open(b):
            return Amount.of(Min(one, other))
        first = _reaches(other, one)
        return self._pieces(a, per_a).times(first) + self._pieces(b, per_b).times(1 - first)

    def _fewer(self, rows: Expr, cols: Expr) -> Amount:
        """Instructions for rows: one for each of them, or one for every repeat of a row if these are fewer."""
        if rows == ONE:
            return _SINGLE
        return self._lesser(rows, 1, cols, self.lanes)

    def _repeats(self, rows: Expr, cols: Expr) -> Amount:
        """Elements of rows, each in whole repeats."""
        return self._pieces(cols, self.lanes).times(rows, self.lanes)

    # rows -------------------------------------------------------------------------------------
    def _combine(self, rows: Expr, cols: Expr, parts: int, waits: float) -> Issued:
        """``CombineRows``, ``parts`` times."""
        if rows == ONE:
            return Issued("binary", Amount.of(parts), Amount.of(cols * parts), waits, True)
        if cols == self.block:
            elements = Amount.of(rows * cols * parts)
            return Issued("binary", Amount.of(2 * parts), elements, waits, True)
        elements = self._repeats(rows, cols).times(parts)
        return Issued("binary", self._fewer(rows, cols).times(parts), elements, waits, True)

    def _copy(self, rows: Expr, row: Expr, times: Expr = ONE, waits: float = 0.0) -> Issued:
        """``CopyRows``, ``times`` times."""
        calls = self._fewer(rows, row)
        if rows == ONE and not self._open(row) and (row.as_int() or 1) % self.lanes:
            calls = Amount.of(1 if row.is_const and row.value < self.lanes else 2)
        elements = self._repeats(rows, row)
        return Issued("unary", calls.times(times), elements.times(times), waits)

    # autofuse_device.h ------------------------------------------------------------------------
    def broadcast(self, n: Node, source: Node, size: Callable[[int], Expr]) -> tuple[Issued, ...]:
        """``BroadcastInner`` or ``BroadcastOuter``."""
        y, run = n.y, broadcast_run(n, source)
        outer = self._extents(y.vectorized_axis[: run[0]], size)
        mid = self._extents((y.vectorized_axis[i] for i in run), size)
        if run[-1] + 1 < len(y.vectorized_axis):
            return (self._copy(mid, self.value(y.vectorized_strides[run[-1]]), outer),)
        cols = self.value(y.vectorized_strides[run[0] - 1]) if run[0] else mid
        return (self._spread(outer), self._copy(outer, cols, waits=1.0))

    def _spread(self, rows: Expr) -> Issued:
        """``SpreadRows``."""
        return Issued("broadcast", _SINGLE, self._pieces(rows, 8).times(8 * self.block), 1.0)

    # autofuse_rows.h --------------------------------------------------------------------------
    def with_rows(self, n: Node, source: Node, size: Callable[[int], Expr]) -> tuple[Issued, ...]:
        """``WithRows``: half of the repeats read the element of a row where they read the row."""
        y, first = n.y, broadcast_run(n, source)[0]
        rows = self._extents(y.vectorized_axis[:first], size)
        whole = self._extents(y.vectorized_axis[first:], size)
        cols = self.value(y.vectorized_strides[first - 1]) if first else whole
        kind, known = lookup(n.op).cost, cols.as_int()
        run = self._multiple(cols, self.lanes) if known is None else not known % self.lanes
        if run and rows != ONE and known != self.lanes:
            calls = self._pieces(rows * cols, self.lanes * self.arch.repeats_max)
            done = Issued(kind, calls, Amount.of(rows * cols), 1.0, True)
            blocks = self.value(CeilDiv(cols * self.block, self.lanes))
            copied = self._copy(rows, blocks, waits=1.0)
            return (self._spread(rows), copied, *self._in_part(done, 1.0, 2.0))
        calls = self._fewer(rows, cols)
        if rows == ONE and (known is None or (known > self.lanes and known % self.lanes)):
            calls = Amount.of(2)
        done = Issued(kind, calls, self._repeats(rows, cols), 1.0, True)
        return (self._spread(rows), *self._in_part(done, 1.0, 2.0))

    # autofuse_reduce.h ------------------------------------------------------------------------
    def reduce(self, n: Node, source: Node, size: Callable[[int], Expr]) -> tuple[Issued, ...]:
        """``ReduceInner`` or ``ReduceOuter``."""
        axes, left = source.y.vectorized_axis, set(n.y.vectorized_axis)
        run = [i for i, a in enumerate(axes) if a not in left]
        outer = self._extents(axes[: run[0]], size)
        count = self._extents((axes[i] for i in run), size)
        if run[-1] + 1 < len(axes):
            unit = self.value(source.y.vectorized_strides[run[-1]])
            return self._reduce_outer(outer, count, unit)
        return self._reduce_inner(outer, count, whole=self.float and n.op != "ReduceProd")

    def _reduce_inner(self, rows: Expr, cols: Expr, *, whole: bool) -> tuple[Issued, ...]:
        if whole and self.size == _FLOAT:
            return self._reduce_blocks(rows, cols)
        most = self.lanes if whole else self.block
        known = cols.as_int()
        out: list[Issued] = []
        if known is None or known > most:
            out += self._folded(rows, cols, most)
        if whole:
            calls = self._pieces(rows, _WHOLE)
            found = Issued("reduce", calls, Amount.of(rows * self.lanes), float(bool(out)))
            return (*out, found)
        # The last step: elements of all rows side by side.
        steps = self.block.bit_length() - 1
        planes = self._pieces(rows, _ROWS).times(_ROWS)
        sums = planes.times(self.block - 1)
        return (
            *out,
            Issued("transpose", _SINGLE, planes.times(self.block), 1.0),
            Issued("binary", Amount.of(steps), sums, float(steps), True),
        )

    def _reduce_blocks(self, rows: Expr, cols: Expr) -> tuple[Issued, ...]:
        """``ReduceBlocks``: eighths while a row has more than a repeat, then a repeat of every row."""
        out: list[Issued] = []
        length = self._typical(cols, rows)
        reach = 1  # elements of a row that are one now
        for _ in range(_EIGHTHS):
            # 1 where more than a repeat is left.
            again = Min(CeilDiv(length, self.lanes * reach) - 1, 1)
            if again == ZERO:
                break
            done = self._pieces(cols, self.lanes * reach).times(rows, self.lanes)
            calls = self._block_calls(rows, cols, reach)
            out.append(Issued("block_reduce", calls, done, 1.0, times=again))
            reach *= self.block
        # Few rows are reduced one by one.
        pairs = _reaches(self._typical(rows, cols), const(_BLOCK_ROWS))
        if pairs != ONE:
            calls, every = self._pieces(rows, _WHOLE), Amount.of(rows * self.lanes)
            out.append(Issued("reduce", calls, every, float(bool(out)), times=ONE - pairs))
        if pairs != ZERO:
            calls = self._pieces(rows, self.arch.repeats_max) + self._pieces(
                rows, self.arch.repeats_max * self.block
            )
            elements = Amount.of(rows * self.lanes) + self._pieces(rows, self.block).times(
                self.lanes
            )
            waits = float(bool(out)) + 1.0
            out.append(Issued("block_reduce", calls, elements, waits, times=pairs))
        return tuple(out)

    def _block_calls(self, rows: Expr, cols: Expr, reach: int) -> Amount:
        """Instructions of ``BlockRows`` over rows of ``cols / reach`` elements."""
        repeat = self.lanes * reach
        known = cols.as_int()
        if known is not None:
            whole = -(-known // reach) % self.lanes == 0
        else:
            whole = self._open(cols) and self._multiple(cols, repeat)
        if whole or rows == ONE:
            return self._pieces(cols * rows, repeat * self.arch.repeats_max)
        # A row by itself has a call more, for its rest.
        one, every = self._typical(rows, cols), CeilDiv(self._typical(cols, rows), repeat)
        across = _reaches(one, every)
        return self._pieces(cols, repeat).times(across) + Amount.of(rows * 2).times(ONE - across)

    def _folded(self, rows: Expr, cols: Expr, most: int) -> list[Issued]:
        """``FoldParts``, and ``FoldHalves`` down to ``most`` elements."""
        length = self._typical(cols, rows)
        parts = Min(Max(CeilDiv(length, self.lanes), 2), _PARTS)
        w = align_up(CeilDiv(length, parts), self.block)
        less = Amount.of(parts) + Amount.of(-1)
        if rows == ONE:
            # As many halves as the logarithm says, and one of the parts with them.
            fold = Amount.of(cols) + Amount.of(-most)
            first = Issued("binary", less + Amount.of(-1), fold, _PARTS - 2.0, True)
            return [first, Issued("binary", _SINGLE, _NOTHING, 1.0, True, CeilDiv(w, most))]
        row = self._repeats(rows, w)
        if self._open(cols):
            row = Amount(((1.0 / _PARTS, cols), (0.5 * self.lanes, ONE))).times(rows)
        calls = self._fewer(rows, w)
        halves = row + Amount.of(rows * -self.lanes)
        if most < self.lanes:  # parts of a repeat take one each
            halves += Amount.of(rows * self.lanes, (self.lanes // most).bit_length() - 2.0)
        parted = Issued("binary", calls * less, row * less, _PARTS - 2.0, True)
        halved = Issued("binary", calls, halves, 2.0, True)
        if self._open(cols) or not (w.is_const and parts.is_const):
            return [parted, halved]
        return [*self._in_part(parted, *self._colliding(w.value, parts.value)), halved]

    def _colliding(self, w: int, parts: int) -> tuple[float, float]:
        """Of the ``parts`` that are added one after the other: how many meet the sum so far in the banks, of how many.

        The first two lie in the source, ``w`` elements apart; then the sum is in scratch space, which lies in either
        half of the banks.
        """
        apart = w * self.size % self.arch.bank_period
        half = self.arch.bank_period // 2
        first = 0.0 if apart == half else 1.0
        others = 0.5 if apart % half == 0 else 1.0
        return first + others * (parts - 2), parts - 1.0

    @staticmethod
    def _in_part(x: Issued, some: float, all_: float) -> list[Issued]:
        """Instructions of which some have operands in the same banks, and the others have not."""
        share = some / all_
        apart = Issued(x.kind, _NOTHING, x.elements.times(1, 1.0 - share))
        return [replace(x, elements=x.elements.times(1, share)), apart]

    def _reduce_outer(self, rows: Expr, n: Expr, unit: Expr) -> tuple[Issued, ...]:
        known = n.as_int()
        if known is not None and known <= 1:
            return (self._copy(ONE, rows * unit),)
        if known is not None and known <= _PARTS:
            return (self._combine(rows, unit, known - 1, known - 2.0),)
        # Eight parts, the halves of one of them, and a last one.
        part = CeilDiv(self._typical(n, rows * unit), _PARTS)
        sums = Amount.of(rows * n * unit) + Amount.of(rows * unit, -1.0)
        if rows == ONE:
            first = Issued("binary", Amount.of(_PARTS - 2), sums, _PARTS - 2.0, True)
            return (first, Issued("binary", _SINGLE, _NOTHING, 1.0, True, part))
        calls = self._fewer(rows, part * unit)
        if not self._open(unit):
            sums = self._repeats(rows, unit) * (Amount.of(n) + Amount.of(-1))
        first = Issued("binary", calls.times(_PARTS - 1), sums, _PARTS - 2.0, True)
        return (first, Issued("binary", self._fewer(rows, unit), _NOTHING, 1.0, True, part))

    def transpose(self, outer: Expr, rows: Expr, cols: Expr) -> tuple[Issued, ...]:
        """``TransposeRows``: matrices in units of 16 rows and a block of columns."""
        calls = self._lesser(rows, _ROWS, cols, self.block)
        units = self._pieces(rows, _ROWS) * self._pieces(cols, self.block)
        elements = units.times(_ROWS * self.block)
        return (Issued("transpose", calls, elements, times=outer),)

    # autofuse_scan.h --------------------------------------------------------------------------
    def scan(self, n: Node, run: Sequence[int], size: Callable[[int], Expr]) -> tuple[Issued, ...]:
        """``ScanInner`` or ``ScanOuter``, with a carry where there is one."""
        axes, carry = n.y.vectorized_axis, len(n.inputs) > 1
        if not run:
            elements = self._elements(n, size)
            copied = self._copy(ONE, elements, waits=1.0)
            return (self._combine(ONE, elements, 1, 1.0), copied) if carry else (copied,)
        outer = self._extents(axes[: run[0]], size)
        count = self._extents((axes[i] for i in run), size)
        if run[-1] + 1 < len(axes):
            unit = self.value(n.y.vectorized_strides[run[-1]])
            steps = self._steps(outer, count, unit)
            if not carry:
                return steps
            return (*steps, self._carried(count, unit), self._copy(ONE, unit, waits=1.0))
        many = ONE if n.attrs.get("together", False) else self._has_many(outer, count)
        unit = align_up(outer, _ROWS)
        if self._open(outer):
            unit = outer if self._multiple(outer, _ROWS) else outer + _ROWS // 2
        turned, back = self.transpose(ONE, outer, count), self.transpose(ONE, count, outer)
        side_by_side = (*turned, *self._steps(ONE, count, unit), *back)
        return (
            *(replace(x, times=x.times * many) for x in side_by_side if many != ZERO),
            *(replace(x, times=outer * (1 - many)) for x in self._segments(count) if many != ONE),
        )

    def _has_many(self, rows: Expr, beside: Expr) -> Expr:
        """1 where rows are summed side by side, else 0: known where the template is for few of them."""
        tile = self.tile
        if isinstance(tile, Tile) and tile.most is not None and self._open(rows):
            most = rows.substitute({tile.name: const(tile.most)}).as_int()
            if most is not None and most < SCANNED_TOGETHER:
                return ZERO
        return _reaches(self._typical(rows, beside), const(SCANNED_TOGETHER))

    def _carried(self, rows: Expr, unit: Expr) -> Issued:
        """A carry added to rows; with one instruction for all rows, the piece of it is too short to collide."""
        added = self._combine(rows, unit, 1, 1.0)
        number, row = (self._typical(a, b).as_int() for a, b in ((rows, unit), (unit, rows)))
        by_row = number is not None and row is not None and number < -(-row // self.lanes)
        return added if by_row else replace(added, pairs=False)

    def _steps(self, outer: Expr, n: Expr, inner: Expr) -> tuple[Issued, ...]:
        """``ScanSteps``: every step adds all but the first rows, and copies these; n rows less one in all steps."""
        along = self._typical(n, outer * inner)
        calls, none = self._fewer(outer, n * inner), self._fewer(outer, n * inner).times(-1)
        matrices, row = n * inner * outer, inner * outer
        # Where rows do not fill all banks, they are half of them apart in one of the steps.
        free = (
            matrices
            if inner.as_int() is None or inner.value * self.size % self.arch.bank_period
            else ZERO
        )
        free = free * _reaches(along, const(8))
        # A logarithm counts a step more than there are.
        return (
            Issued("binary", calls, Amount.of(matrices), 1.0, True, along),
            Issued("binary", none, Amount.of(row - matrices * 2 - free), -1.0, True),
            Issued("binary", _NOTHING, Amount.of(free)),
            Issued("unary", calls, _NOTHING, along=along),
            Issued("unary", none, Amount.of(matrices - row)),
        )

    def _segments(self, n: Expr) -> tuple[Issued, ...]:
        """``ScanRow``: 16 segments side by side, and sums of their totals."""
        cols = align_up(CeilDiv(self._typical(n, ONE), _ROWS), self.block)
        size = Amount.of(n if self._open(n) else cols * _ROWS)
        wide = self.lanes // _ROWS  # a repeat for every 16 elements
        return (
            Issued("duplicate", Amount.of(2), size, 1.0),
            Issued("unary", Amount.of(4), size.times(2), 2.0),
            # To columns and back; totals, and what comes before the segments.
            Issued("transpose", Amount.of(5), size.times(2), 4.0),
            Issued("binary", _SINGLE, size, 1.0, True, cols),
            Issued("binary", Amount.of(-1), size.times(-3), 0.0, True),
            Issued("binary", _NOTHING, size),
            Issued("unary", _SINGLE, _NOTHING, along=cols),
            Issued("unary", _NOTHING, size),
            # Running sums of 17 totals: five steps.
            Issued("binary", Amount.of(5), Amount.of(5 * 256), 5.0, True),
            Issued("unary", Amount.of(7), Amount.of(7 * 64), 2.0),
            Issued("binary", _SINGLE, size.times(wide), 1.0),
        )

    # autofuse_pick.h, autofuse_words.h --------------------------------------------------------
    def pick(self, n: Node, size: Callable[[int], Expr]) -> tuple[Issued, ...]:
        """``PickByMask``, ``PickAhead`` or ``PickBack``."""
        axes, elements = n.y.vectorized_axis, self._elements(n, size)
        if n.op == "PickByMask":
            return (Issued("transpose", _SINGLE, Amount.of(elements * int(str(n.attrs["step"])))),)
        words = 2 if self.size == 8 else 1
        if n.op == "PickAhead":
            calls = self._pieces(elements, _OFFSETS // words)
            return (Issued("gather", calls, Amount.of(elements * words)),)
        row, rows = self._extents(axes[-1:], size), self._extents(axes[:-1], size)
        parts = self._pieces(row, _OFFSETS // words)
        return (
            Issued("unary", parts, Amount.of(row * words), 1.0),
            Issued("gather", parts.times(rows), Amount.of(rows * row * words), 1.0),
        )

    # autofuse_lace.h --------------------------------------------------------------------------
    def lace(self, n: Node, outer: Expr, rows: Expr, k: Expr) -> tuple[Issued, ...]:
        """``Lace``, ``Unlace`` or ``UnlaceByMask``."""
        if n.op == "UnlaceByMask":
            gone_through = rows * k * int(str(n.attrs["step"]))
            return (Issued("transpose", Amount.of(k), Amount.of(gone_through), times=outer),)
        if n.op == "Unlace":
            calls = self._pieces(rows, _OFFSETS).times(k)
        else:
            whole = k.value * self.block
            calls = self._pieces(rows * k, _OFFSETS // whole * whole)
        return (Issued("gather", calls, Amount.of(rows * k), times=outer),)

    def stack(self, k: int, outer: Expr, row: Expr) -> tuple[Issued, ...]:
        """``StackRows``."""
        return (Issued("unary", Amount.of(k), Amount.of(outer * row * k)),)

    def words(self, n: Node, size: Callable[[int], Expr]) -> tuple[Issued, ...]:
        """``LowWords`` and ``HighWords``, or ``JoinWords``."""
        both = Amount.of(self._elements(n, size) * 2)
        if n.y.dtype.bits < 64:
            return (Issued("transpose", _SINGLE, both),)
        return (
            Issued("unary", Amount.of(6), both.times(5), 2.0),
            Issued("binary", _SINGLE, both, 1.0, True),
            Issued("gather", _SINGLE, both, 1.0),
        )


def _reaches(a: Expr, b: Expr) -> Expr:
    """1 where ``a`` is at least ``b``, else 0; both are positive."""
    return Min(FloorDiv(a, Max(b, 1)), 1)
