"""Functions that broadcast elements of rows (``autofuse_device.h``) or read them row by row (``autofuse_rows.h``)."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.expr.expression import ONE, CeilDiv, Expr, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.cost.device_calls import SINGLE, Amount, Chip, Issued, in_part
from autofuse.schedule.functions.definition import Resources
from autofuse.schedule.functions.scratch import row_bytes
from autofuse.schedule.placement.row_operands import broadcast_run, row_extents

__all__ = ["FUNCTIONS"]


def _broadcast(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``BroadcastInner`` or ``BroadcastOuter``."""
    y, run = c.n.y, broadcast_run(c.n, c.operand(0))
    outer = c.extents(y.vectorized_axis[: run[0]])
    mid = c.extents(y.vectorized_axis[i] for i in run)
    if run[-1] + 1 < len(y.vectorized_axis):
        return (c.copy(mid, c.value(y.vectorized_strides[run[-1]]), outer),)
    cols = c.value(y.vectorized_strides[run[0] - 1]) if run[0] else mid
    return (_spread(c, outer), c.copy(outer, cols, waits=1.0))


def _with_rows(c: Chip) -> tuple[Issued, ...]:
    """Return the instructions of ``WithRows``: half of the repeats read a row's element in the banks of the row."""
    y, first = c.n.y, broadcast_run(c.n, c.operand(1))[0]
    rows = c.extents(y.vectorized_axis[:first])
    whole = c.extents(y.vectorized_axis[first:])
    cols = c.value(y.vectorized_strides[first - 1]) if first else whole
    kind, known = lookup(c.n.op).cost, cols.as_int()
    run = c.is_multiple(cols, c.lanes) if known is None else not known % c.lanes
    if run and rows != ONE and known != c.lanes:
        calls = c.pieces(rows * cols, c.lanes * c.arch.repeats_max)
        done = Issued(kind, calls, Amount.of(rows * cols), 1.0, True)
        blocks = c.value(CeilDiv(cols * c.block, c.lanes))
        copied = c.copy(rows, blocks, waits=1.0)
        return (_spread(c, rows), copied, *in_part(done, 1.0, 2.0))
    calls = c.fewer(rows, cols)
    if rows == ONE and (known is None or (known > c.lanes and known % c.lanes)):
        calls = Amount.of(2)
    done = Issued(kind, calls, c.repeats(rows, cols), 1.0, True)
    return (_spread(c, rows), *in_part(done, 1.0, 2.0))


def _spread(c: Chip, rows: Expr) -> Issued:
    """Return the instructions of ``SpreadRows``."""
    return Issued("broadcast", SINGLE, c.pieces(rows, 8).times(8 * c.block), 1.0)


def _spread_bytes(n: Node, nodes: Mapping[str, Node], layout: Layout) -> Expr | None:
    """Return the scratch bytes of an innermost broadcast: Brcb first spreads elements to 32-byte blocks, 8 at once."""
    source = nodes[n.inputs[0]]
    if source.y.vectorized_axis and n.y.vectorized_axis[-1] in source.y.vectorized_axis:
        return None
    return align_up(layout.elements(source.y), 8) * layout.arch.block_bytes


def _row_bytes(n: Node, nodes: Mapping[str, Node], layout: Layout) -> Expr:
    """Return the bytes over which a call spreads its one element per row."""
    extents = [layout.extent(a) for a in n.y.vectorized_axis]
    rows, along = row_extents(n, nodes[n.inputs[1]], extents)
    return row_bytes(n.y.dtype, product(rows), product(along), layout.arch)


FUNCTIONS = {
    "Broadcast": Resources(_broadcast, _spread_bytes),
    "WithRows": Resources(_with_rows, _row_bytes),
}
