"""Functions of ``autofuse_reduce.h`` that reduce: [o, r] -> [o] and [o, r, i] -> [o, i]."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    CeilDiv,
    Expr,
    FloorDiv,
    Max,
    Min,
    align_up,
    const,
    product,
)
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.cost.device_calls import (
    NOTHING,
    ROWS,
    SINGLE,
    Amount,
    Chip,
    Issued,
    in_part,
    reaches,
)
from autofuse.schedule.functions.definition import Resources
from autofuse.schedule.functions.scratch import reduce_inner_bytes, reduce_outer_bytes

__all__ = ["FUNCTIONS"]

#: As in the header: parts folded sequentially, rows of a WholeReduce, and the minimum rows for two BlockReduce instead.
_PARTS, _WHOLE, _BLOCK_ROWS = 8, 240, 4
#: Bytes of a float; maximum number of times that an eighth of a tile exceeds a repeat.
_FLOAT, _EIGHTHS = 4, 4


def _reduce(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``ReduceInner`` or ``ReduceOuter``."""
    n, source = c.n, c.operand(0)
    axes, left = source.y.vectorized_axis, set(n.y.vectorized_axis)
    run = [i for i, a in enumerate(axes) if a not in left]
    outer = c.extents(axes[: run[0]])
    count = c.extents(axes[i] for i in run)
    if run[-1] + 1 < len(axes):
        unit = c.value(source.y.vectorized_strides[run[-1]])
        return _reduce_outer(c, outer, count, unit)
    return _reduce_inner(c, outer, count, whole=c.float and n.op != "ReduceProd")


def _reduce_inner(c: Chip, rows: Expr, cols: Expr, *, whole: bool) -> tuple[Issued, ...]:
    if whole and c.size == _FLOAT:
        return _reduce_blocks(c, rows, cols)
    most = c.lanes if whole else c.block
    known = cols.as_int()
    out: list[Issued] = []
    if known is None or known > most:
        out += _folded(c, rows, cols, most)
    if whole:
        calls = c.pieces(rows, _WHOLE)
        found = Issued("reduce", calls, Amount.of(rows * c.lanes), float(bool(out)))
        return (*out, found)
    # The last step: elements of all rows are contiguous.
    steps = c.block.bit_length() - 1
    planes = c.pieces(rows, ROWS).times(ROWS)
    sums = planes.times(c.block - 1)
    return (
        *out,
        Issued("transpose", SINGLE, planes.times(c.block), 1.0),
        Issued("binary", Amount.of(steps), sums, float(steps), True),
    )


def _reduce_blocks(c: Chip, rows: Expr, cols: Expr) -> tuple[Issued, ...]:
    """Return the instructions of ``ReduceBlocks``: eighths while a row exceeds a repeat, then a repeat of every row."""
    out: list[Issued] = []
    length = c.typical(cols, rows)
    reach = 1  # elements of a row reduced into one so far
    for _ in range(_EIGHTHS):
        # 1 if more than a repeat is left.
        again = Min(CeilDiv(length, c.lanes * reach) - 1, 1)
        if again == ZERO:
            break
        done = c.pieces(cols, c.lanes * reach).times(rows, c.lanes)
        calls = _block_calls(c, rows, cols, reach)
        out.append(Issued("block_reduce", calls, done, 1.0, times=again))
        reach *= c.block
    # Few rows are reduced one by one.
    pairs = reaches(c.typical(rows, cols), const(_BLOCK_ROWS))
    if pairs != ONE:
        calls, every = c.pieces(rows, _WHOLE), Amount.of(rows * c.lanes)
        out.append(Issued("reduce", calls, every, float(bool(out)), times=ONE - pairs))
    if pairs != ZERO:
        calls = c.pieces(rows, c.arch.repeats_max) + c.pieces(rows, c.arch.repeats_max * c.block)
        elements = Amount.of(rows * c.lanes) + c.pieces(rows, c.block).times(c.lanes)
        waits = float(bool(out)) + 1.0
        out.append(Issued("block_reduce", calls, elements, waits, times=pairs))
    return tuple(out)


def _block_calls(c: Chip, rows: Expr, cols: Expr, reach: int) -> Amount:
    """Return the instructions of ``BlockRows`` over rows of ``cols / reach`` elements."""
    repeat = c.lanes * reach
    if c.is_open(cols):
        whole = ONE if c.is_multiple(cols, repeat) else ZERO
    else:
        whole = _is_multiple(CeilDiv(cols, reach), c.lanes)
    if rows == ONE or whole == ONE:
        return c.pieces(cols * rows, repeat * c.arch.repeats_max)
    # A single row takes one more call, for its remainder.
    one, every = c.typical(rows, cols), CeilDiv(c.typical(cols, rows), repeat)
    across = reaches(one, every)
    apart = c.pieces(cols, repeat).times(across) + Amount.of(rows * 2).times(ONE - across)
    if whole == ZERO:
        return apart
    together = c.pieces(cols * rows, repeat * c.arch.repeats_max)
    return together.times(whole) + apart.times(ONE - whole)


def _is_multiple(x: Expr, k: int) -> Expr:
    """Return 1 if ``x``, which is nonnegative, is a multiple of ``k``, else 0."""
    return ONE - Min(x - FloorDiv(x, k) * k, 1)


def _folded(c: Chip, rows: Expr, cols: Expr, most: int) -> list[Issued]:
    """Return the instructions of ``FoldParts``, and of ``FoldHalves`` down to ``most`` elements."""
    length = c.typical(cols, rows)
    parts = Min(Max(CeilDiv(length, c.lanes), 2), _PARTS)
    w = align_up(CeilDiv(length, parts), c.block)
    less = Amount.of(parts) + Amount.of(-1)
    if rows == ONE:
        # Halves by the logarithm, and one of the parts with them.
        fold = Amount.of(cols) + Amount.of(-most)
        first = Issued("binary", less + Amount.of(-1), fold, _PARTS - 2.0, True)
        return [first, Issued("binary", SINGLE, NOTHING, 1.0, True, CeilDiv(w, most))]
    row = c.repeats(rows, w)
    if c.is_open(cols):
        row = Amount(((1.0 / _PARTS, cols), (0.5 * c.lanes, ONE))).times(rows)
    calls = c.fewer(rows, w)
    halves = row + Amount.of(rows * -c.lanes)
    if most < c.lanes:  # parts of a repeat take one each
        halves += Amount.of(rows * c.lanes, (c.lanes // most).bit_length() - 2.0)
    parted = Issued("binary", calls * less, row * less, _PARTS - 2.0, True)
    halved = Issued("binary", calls, halves, 2.0, True)
    if c.is_open(cols) or not (w.is_const and parts.is_const):
        return [parted, halved]
    return [*in_part(parted, *_colliding(c, w.value, parts.value)), halved]


def _colliding(c: Chip, w: int, parts: int) -> tuple[float, float]:
    """Return how many of the sequentially added ``parts`` collide with the sum in the banks, and their number.

    The first two are in the source, ``w`` elements apart; then the sum is in scratch space, in either half of the
    banks.
    """
    half = c.arch.bank_period // 2
    apart = w * c.size % c.arch.bank_period
    first = 0.0 if apart == half else 1.0
    others = 0.5 if apart % half == 0 else 1.0
    return first + others * (parts - 2), parts - 1.0


def _reduce_outer(c: Chip, rows: Expr, n: Expr, unit: Expr) -> tuple[Issued, ...]:
    known = n.as_int()
    if known is not None and known <= 1:
        return (c.copy(ONE, rows * unit),)
    if known is not None and known <= _PARTS:
        return (c.combine(rows, unit, known - 1, known - 2.0),)
    # Eight parts, the halves of one of them, and a last one.
    part = CeilDiv(c.typical(n, rows * unit), _PARTS)
    sums = Amount.of(rows * n * unit) + Amount.of(rows * unit, -1.0)
    if rows == ONE:
        first = Issued("binary", Amount.of(_PARTS - 2), sums, _PARTS - 2.0, True)
        return (first, Issued("binary", SINGLE, NOTHING, 1.0, True, part))
    calls = c.fewer(rows, part * unit)
    if not c.is_open(unit):
        sums = c.repeats(rows, unit) * (Amount.of(n) + Amount.of(-1))
    first = Issued("binary", calls.times(_PARTS - 1), sums, _PARTS - 2.0, True)
    return (first, Issued("binary", c.fewer(rows, unit), NOTHING, 1.0, True, part))


def _scratch(n: Node, nodes: Mapping[str, Node], layout: Layout) -> Expr:
    """Return the scratch bytes for a whole tile, with padding."""
    y, left = nodes[n.inputs[0]].y, set(n.y.vectorized_axis)
    run = [i for i, a in enumerate(y.vectorized_axis) if a not in left]
    sizes = [layout.extent(a) for a in y.vectorized_axis]
    outer, count = product(sizes[: run[0]]), product(sizes[run[0] : run[-1] + 1])
    arch, block = layout.arch, layout.arch.block_bytes
    if run[-1] + 1 < len(sizes):
        inner = product(sizes[run[-1] + 1 :])
        return align_up(reduce_outer_bytes(n.y.dtype, outer, count, inner, arch), block)
    pitch = align_up(count, block // n.y.dtype.itemsize)
    return align_up(reduce_inner_bytes(n.op, n.y.dtype, outer, count, pitch, arch), block)


FUNCTIONS = {"Reduce": Resources(_reduce, _scratch)}
