"""Functions of ``autofuse_scan.h``: running sums."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, Expr, align_up, const
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.cost.device_calls import (
    NOTHING,
    ROWS,
    SINGLE,
    Amount,
    Chip,
    Issued,
    Tile,
    reaches,
)
from autofuse.schedule.functions.definition import Resources
from autofuse.schedule.functions.moves import transpose
from autofuse.schedule.functions.scratch import scan_inner_bytes, scan_outer_bytes
from autofuse.schedule.placement.scan import SCANNED_TOGETHER, scan_extents, scan_run

__all__ = ["FUNCTIONS"]


def _scan(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``ScanInner`` or ``ScanOuter``, with the carry if there is one."""
    n, run = c.n, scan_run(c.n, c.impl.axes)
    axes, carry = n.y.vectorized_axis, len(n.inputs) > 1
    if not run:
        elements = c.elements()
        copied = c.copy(ONE, elements, waits=1.0)
        return (c.combine(ONE, elements, 1, 1.0), copied) if carry else (copied,)
    outer = c.extents(axes[: run[0]])
    count = c.extents(axes[i] for i in run)
    if run[-1] + 1 < len(axes):
        unit = c.value(n.y.vectorized_strides[run[-1]])
        steps = _steps(c, outer, count, unit)
        if not carry:
            return steps
        return (*steps, _carried(c, count, unit), c.copy(ONE, unit, waits=1.0))
    many = ONE if n.attrs.get("together", False) else _has_many(c, outer, count)
    unit = align_up(outer, ROWS)
    if c.is_open(outer):
        unit = outer if c.is_multiple(outer, ROWS) else outer + ROWS // 2
    turned, back = transpose(c, ONE, outer, count), transpose(c, ONE, count, outer)
    side_by_side = (*turned, *_steps(c, ONE, count, unit), *back)
    return (
        *(replace(x, times=x.times * many) for x in side_by_side if many != ZERO),
        *(replace(x, times=outer * (1 - many)) for x in _segments(c, count) if many != ONE),
    )


def _has_many(c: Chip, rows: Expr, beside: Expr) -> Expr:
    """Return 1 if rows are summed side by side, else 0: known if the template is for few rows."""
    tile = c.tile
    if isinstance(tile, Tile) and tile.most is not None and c.is_open(rows):
        most = rows.substitute({tile.name: const(tile.most)}).as_int()
        if most is not None and most < SCANNED_TOGETHER:
            return ZERO
    return reaches(c.typical(rows, beside), const(SCANNED_TOGETHER))


def _carried(c: Chip, rows: Expr, unit: Expr) -> Issued:
    """Return the addition of a carry to rows; with one instruction for all rows, its part is too short to collide."""
    added = c.combine(rows, unit, 1, 1.0)
    number, row = (c.typical(a, b).as_int() for a, b in ((rows, unit), (unit, rows)))
    by_row = number is not None and row is not None and number < -(-row // c.lanes)
    return added if by_row else replace(added, pairs=False)


def _steps(c: Chip, outer: Expr, n: Expr, inner: Expr) -> tuple[Issued, ...]:
    """Return the instructions of ``ScanSteps``: steps add all but their first rows and copy these, n - 1 in all."""
    along = c.typical(n, outer * inner)
    calls, none = c.fewer(outer, n * inner), c.fewer(outer, n * inner).times(-1)
    matrices, row = n * inner * outer, inner * outer
    # If rows do not fill all banks, they are half of the banks apart in one of the steps.
    free = matrices if inner.as_int() is None or inner.value * c.size % c.arch.bank_period else ZERO
    free = free * reaches(along, const(8))
    # The logarithm counts one step too many.
    return (
        Issued("binary", calls, Amount.of(matrices), 1.0, True, along),
        Issued("binary", none, Amount.of(row - matrices * 2 - free), -1.0, True),
        Issued("binary", NOTHING, Amount.of(free)),
        Issued("unary", calls, NOTHING, along=along),
        Issued("unary", none, Amount.of(matrices - row)),
    )


def _segments(c: Chip, n: Expr) -> tuple[Issued, ...]:
    """Return the instructions of ``ScanRow``: 16 segments side by side, and sums of their totals."""
    cols = align_up(CeilDiv(c.typical(n, ONE), ROWS), c.block)
    size = Amount.of(n if c.is_open(n) else cols * ROWS)
    wide = c.lanes // ROWS  # one repeat per 16 elements
    return (
        Issued("duplicate", Amount.of(2), size, 1.0),
        Issued("unary", Amount.of(4), size.times(2), 2.0),
        # Transposition to columns and back; totals, and offsets of the segments.
        Issued("transpose", Amount.of(5), size.times(2), 4.0),
        Issued("binary", SINGLE, size, 1.0, True, cols),
        Issued("binary", Amount.of(-1), size.times(-3), 0.0, True),
        Issued("binary", NOTHING, size),
        Issued("unary", SINGLE, NOTHING, along=cols),
        Issued("unary", NOTHING, size),
        # Running sums of 17 totals: five steps.
        Issued("binary", Amount.of(5), Amount.of(5 * 256), 5.0, True),
        Issued("unary", Amount.of(7), Amount.of(7 * 64), 2.0),
        Issued("binary", SINGLE, size.times(wide), 1.0),
    )


def _scratch(n: Node, nodes: Mapping[str, Node], layout: Layout) -> Expr:
    """Return the scratch bytes for a whole tile, with padding."""
    axes = layout.split.axes
    run = scan_run(n, axes)
    sizes = [layout.extent(a) for a in n.y.vectorized_axis]
    outer, count, inner = scan_extents(n, sizes, run)
    if run and run[-1] + 1 == len(sizes):
        most = None
        if layout.longest is not None:
            most = outer.substitute({str(layout.split.t): const(layout.longest)}).as_int()
        few = most is not None and most < SCANNED_TOGETHER
        together = bool(n.attrs.get("together", False))
        nbytes = scan_inner_bytes(n.y.dtype, outer, count, layout.arch, few=few, together=together)
        return align_up(nbytes, layout.arch.block_bytes)
    nbytes = scan_outer_bytes(n.y.dtype, outer, count, inner, layout.arch)
    return align_up(nbytes, layout.arch.block_bytes)


FUNCTIONS = {"Scan": Resources(_scan, _scratch)}
