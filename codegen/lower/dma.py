"""Dimensions of a copy between GM and UB, and the DMA command that moves two of them."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.codegen.ir.kernel_ir import DmaBlock, DmaDim, DmaDims
from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, Expr, FloorDiv

__all__ = ["dma_block", "dma_dims", "join_dims", "run_dims"]


def dma_block(dims: Sequence[DmaDim], itemsize: int, block: int) -> DmaBlock:
    """The descriptor that moves at most two dimensions, the inner one contiguous; ``block``: bytes of a block of UB."""
    if len(dims) == 2:
        rows, row = dims
        length = row.size * itemsize
        return DmaBlock(
            rows.size,
            length,
            (rows.gm - row.size) * itemsize,
            FloorDiv(rows.ub * itemsize, block) - CeilDiv(length, block),
        )
    count = dims[0].size if dims else ONE
    return DmaBlock(ONE, count * itemsize, ZERO, ZERO)


def dma_dims(dims: Sequence[DmaDim]) -> DmaDims:
    """The descriptor of a load of several dimensions, those joined that go on behind each other on both sides."""
    out: list[DmaDim] = []
    for d in reversed(dims):
        _join(out, d)
    return DmaDims(tuple(out))


def join_dims(dims: Sequence[DmaDim]) -> list[DmaDim]:
    """The dimensions with neighbours joined that lie side by side in GM and in UB."""
    out: list[DmaDim] = []
    for d in reversed(dims):
        if not out and (d.gm != 1 or d.ub != 1):
            # The innermost dimension is not contiguous: single elements, each in a block of its own.
            out = [d, DmaDim(ONE, ONE, ONE)]
            continue
        _join(out, d)
    return out


def run_dims(dims: Sequence[DmaDim], beyond: int = 0) -> tuple[list[DmaDim], Expr]:
    """The dimensions of a copy that takes what lies between the elements of the last one as well.

    Args:
        dims: of its elements.
        beyond: elements that it takes behind the last one.

    Returns:
        the dimensions, and where the first element of such a run is, from that of the index 0 on: before it where the
        index goes backwards.
    """
    out = [dims[-1]]
    forwards = dims[-1].gm.value > 0
    for d in reversed(dims[:-1]):
        if forwards or len(out) > 1:
            _join(out, d)
        else:
            out.insert(0, d)
    last = out[-1]
    out[-1] = DmaDim((last.size - 1) * abs(last.gm.value) + 1 + beyond, ONE, ONE)
    return out, ZERO if forwards else last.gm * (last.size - 1)


def _join(out: list[DmaDim], d: DmaDim) -> None:
    """Puts a dimension around others, into the outermost one where it goes on behind that."""
    if out and d.gm == out[0].gm * out[0].size and d.ub == out[0].ub * out[0].size:
        out[0] = DmaDim(d.size * out[0].size, out[0].gm, out[0].ub)
    else:
        out.insert(0, d)
