"""Dimensions of a copy between GM and UB, and the DMA command that moves two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofuse.codegen.kernel_ir import DmaBlock
from autofuse.implgraph.expr import ONE, ZERO, CeilDiv, Expr, FloorDiv
from autofuse.schedule.layout import BLOCK

__all__ = ["Dim", "dma_block", "join_dims"]


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of a DMA: iterations, GM and UB strides in elements."""

    size: Expr
    gm: Expr
    ub: Expr


def dma_block(dims: Sequence[Dim], itemsize: int) -> DmaBlock:
    """The descriptor that moves at most two dimensions, the inner one of which is contiguous."""
    if len(dims) == 2:
        rows, row = dims
        length = row.size * itemsize
        return DmaBlock(
            rows.size,
            length,
            (rows.gm - row.size) * itemsize,
            FloorDiv(rows.ub * itemsize, BLOCK) - CeilDiv(length, BLOCK),
        )
    count = dims[0].size if dims else ONE
    return DmaBlock(ONE, count * itemsize, ZERO, ZERO)


def join_dims(dims: Sequence[Dim]) -> list[Dim]:
    """The dimensions with neighbours joined that lie side by side in GM and in UB."""
    out: list[Dim] = []
    for d in reversed(dims):
        if out:
            below = out[0]
            if d.gm == below.gm * below.size and d.ub == below.ub * below.size:
                out[0] = Dim(d.size * below.size, below.gm, below.ub)
                continue
        elif d.gm != 1 or d.ub != 1:
            # The innermost dimension is not contiguous: single elements, each in a 32-byte slot of its own.
            out.insert(0, Dim(ONE, ONE, ONE))
        out.insert(0, d)
    return out
