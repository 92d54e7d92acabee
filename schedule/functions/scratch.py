"""Scratch space of the functions of ``autofuse_reduce.h``, ``_rows.h`` and ``_scan.h``, in bytes."""

from __future__ import annotations

from autofuse.implgraph.expr.expression import ONE, CeilDiv, Expr, Min, align_up, const
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ops.rows.device import TRANSPOSE_BYTES
from autofuse.schedule.placement.scan import SCANNED_TOGETHER
from autofuse.targets import Architecture

__all__ = [
    "reduce_inner_bytes",
    "reduce_outer_bytes",
    "row_bytes",
    "scan_inner_bytes",
    "scan_outer_bytes",
]


def reduce_inner_bytes(
    op: str, dtype: DType, outer: Expr, n: Expr, pitch: Expr, arch: Architecture
) -> Expr:
    """Return the scratch bytes of ``ReduceInner`` over ``outer`` rows that are ``pitch`` elements apart.

    For float, an eighth of every row and an eighth of that, each in whole blocks; otherwise every row folded to at most
    a repeat.  The last step of reductions that the chip cannot do along a row (products, integers) takes one more block
    per row.
    """
    block, vector = arch.block_bytes, arch.vector_bytes
    row = pitch * dtype.itemsize
    short = n.is_const and n.value * dtype.itemsize <= vector
    if op != "ReduceProd" and dtype.name == "float32":
        lanes = vector // dtype.itemsize
        blocks = ONE if short else CeilDiv(n, lanes) + CeilDiv(n, 8 * lanes)
        return outer * blocks * block
    if short and op != "ReduceProd" and dtype.kind == "f":
        return const(block)  # the chip reduces such a row in one call
    nbytes = outer * Min(row, CeilDiv(row, 8 * vector) * vector)
    if op == "ReduceProd" or dtype.kind != "f":
        nbytes = nbytes + align_up(outer, 16) * block
    return nbytes


def reduce_outer_bytes(dtype: DType, outer: Expr, n: Expr, inner: Expr, arch: Architecture) -> Expr:
    """Return the scratch bytes of ``ReduceOuter``: every eight rows of a column are folded to one."""
    if n.is_const and n.value <= 8:
        return const(arch.block_bytes)
    return outer * CeilDiv(n, 8) * inner * dtype.itemsize


def row_bytes(dtype: DType, rows: Expr, cols: Expr, arch: Architecture) -> Expr:
    """Return the scratch bytes of ``WithRows``: a block per row, in eights; for long rows one more per repeat."""
    block, lanes, known = arch.block_bytes, arch.vector_bytes // dtype.itemsize, cols.as_int()
    if rows == ONE or (known is not None and (known % lanes or known == lanes)):
        return align_up(rows, 8) * block
    return (align_up(rows, 8) + rows * CeilDiv(cols, lanes)) * block


def scan_outer_bytes(dtype: DType, outer: Expr, n: Expr, inner: Expr, arch: Architecture) -> Expr:
    """Return the scratch bytes of ``ScanOuter``: a second copy of the sums, since steps alternate between buffers."""
    return const(arch.block_bytes) if n == 1 else outer * n * inner * dtype.itemsize


def scan_inner_bytes(
    dtype: DType,
    outer: Expr,
    n: Expr,
    arch: Architecture,
    *,
    few: bool = False,
    together: bool = False,
) -> Expr:
    """Return the scratch bytes of ``ScanInner``: few rows one by one, in segments; 16 or more together, transposed.

    ``few``: there are known to be fewer than 16 rows; ``together``: the rows are transposed, however few they are.
    """
    size, block = dtype.itemsize, arch.block_bytes
    fixed = (2 * 17 * 16 + 16) * size + TRANSPOSE_BYTES
    # Twice 16 segments of whole blocks.
    one = 2 * 16 * block * CeilDiv(n * size, 16 * block) + fixed
    rows = outer.as_int()
    if few:
        return one
    if rows is None and together:
        return 2 * n * (outer + SCANNED_TOGETHER - 1) * size + TRANSPOSE_BYTES
    if rows is None:
        return one + 4 * n * outer * size
    return (
        one if rows < SCANNED_TOGETHER else 2 * n * (-(-rows // 16) * 16) * size + TRANSPOSE_BYTES
    )
