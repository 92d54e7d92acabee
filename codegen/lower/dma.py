"""Descriptors of DMA commands that move one or two dimensions of a copy between GM and UB."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.codegen.ir.kernel_ir import DmaBlock
from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, FloorDiv
from autofuse.schedule.placement.copied import DmaDim

__all__ = ["dma_block"]


def dma_block(dims: Sequence[DmaDim], itemsize: int, block: int) -> DmaBlock:
    """Return the descriptor for at most two dimensions, the inner one contiguous; ``block``: bytes of a UB block."""
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
