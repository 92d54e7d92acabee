"""Functions that move elements: ``autofuse_pick.h``, ``_lace.h``, ``_take.h``, ``_words.h``, and ``TransposeRows``."""

from __future__ import annotations

from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ops.rows.device import PICK_BYTES
from autofuse.schedule.cost.device_calls import ROWS, SINGLE, Amount, Chip, Issued
from autofuse.schedule.functions.definition import Resources
from autofuse.schedule.placement.lacing import lace_counts
from autofuse.schedule.placement.stacking import stack_counts
from autofuse.schedule.placement.taking import take_counts
from autofuse.schedule.placement.transposition import transpose_counts

__all__ = ["FUNCTIONS", "transpose"]

#: Number of entries in a table of offsets.
_OFFSETS = 1024
#: Number of elements of a call of ``TakeRows``.
_TAKEN = 8192


def transpose(c: Chip, outer: Expr, rows: Expr, cols: Expr) -> tuple[Issued, ...]:
    """Return the instructions of ``TransposeRows``: matrices in units of 16 rows and a block of columns."""
    calls = c.lesser(rows, ROWS, cols, c.block)
    units = c.pieces(rows, ROWS) * c.pieces(cols, c.block)
    elements = units.times(ROWS * c.block)
    return (Issued("transpose", calls, elements, times=outer),)


def _transpose(c: Chip) -> tuple[Issued, ...]:
    outer, rows, cols, *_ = map(c.value, transpose_counts(c.operand(0).y, c.n.y, c.extent, c.arch))
    return transpose(c, outer, rows, cols)


def _pick(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``PickByMask``, ``PickAhead`` or ``PickBack``."""
    n = c.n
    axes, elements = n.y.vectorized_axis, c.elements()
    if n.op == "PickByMask":
        return (Issued("transpose", SINGLE, Amount.of(elements * n.number("step"))),)
    words = 2 if c.size == 8 else 1
    if n.op == "PickAhead":
        calls = c.pieces(elements, _OFFSETS // words)
        return (Issued("gather", calls, Amount.of(elements * words)),)
    row, rows = c.extents(axes[-1:]), c.extents(axes[:-1])
    parts = c.pieces(row, _OFFSETS // words)
    return (
        Issued("unary", parts, Amount.of(row * words), 1.0),
        Issued("gather", parts.times(rows), Amount.of(rows * row * words), 1.0),
    )


def _lace(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``Lace``, ``Unlace`` or ``UnlaceByMask``."""
    n = c.n
    outer, rows, k, *_ = map(c.value, lace_counts(n, c.operand(0), c.extent))
    if n.op == "UnlaceByMask":
        gone_through = rows * k * n.number("step")
        return (Issued("transpose", Amount.of(k), Amount.of(gone_through), times=outer),)
    if n.op == "Unlace":
        calls = c.pieces(rows, _OFFSETS).times(k)
    else:
        whole = k.value * c.block
        calls = c.pieces(rows * k, _OFFSETS // whole * whole)
    return (Issued("gather", calls, Amount.of(rows * k), times=outer),)


def _stack(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``StackRows``."""
    k = len(c.n.inputs)
    outer, row, _ = map(c.value, stack_counts(c.n, c.extent, c.operand(0)))
    return (Issued("unary", Amount.of(k), Amount.of(outer * row * k)),)


def _take(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``TakeRows``."""
    counts = take_counts(c.n, c.operand(0), c.operand(1), c.extent)
    outer, rows, cols, *_ = map(c.value, counts)
    return (
        Issued("gather", c.pieces(cols, _TAKEN).times(rows), Amount.of(rows * cols), times=outer),
    )


def _words(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``LowWords`` and ``HighWords``, or ``JoinWords``."""
    both = Amount.of(c.elements() * 2)
    if c.n.y.dtype.bits < 64:
        return (Issued("transpose", SINGLE, both),)
    return (
        Issued("unary", Amount.of(6), both.times(5), 2.0),
        Issued("binary", SINGLE, both, 1.0, True),
        Issued("gather", SINGLE, both, 1.0),
    )


def _table(c: Chip) -> tuple[Issued, ...]:
    """Return nothing: a table is built once per core, at negligible cost."""
    return ()


_TABLE = Resources(_table, result=const(PICK_BYTES))
FUNCTIONS = {
    "TransposeRows": Resources(_transpose),
    **dict.fromkeys(("PickByMask", "PickAhead", "PickBack"), Resources(_pick)),
    **dict.fromkeys(("Lace", "Unlace", "UnlaceByMask"), Resources(_lace)),
    **dict.fromkeys(("PickOffsets", "PairOffsets", "LaceOffsets"), _TABLE),
    "StackRows": Resources(_stack),
    "TakeRows": Resources(_take),
    **dict.fromkeys(("LowWords", "HighWords", "JoinWords"), Resources(_words)),
}
