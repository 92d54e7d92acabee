"""Description of how a Load or Store traverses GM and UB, shared by lowering and the cost model.

Proofs (``codegen.proofs``) derive their own from the commands of the kernel, so as not to repeat a mistake of this
module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, Expr
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.placement.permutation import is_permuted
from autofuse.schedule.placement.picking import beyond, is_run
from autofuse.targets import Architecture

__all__ = ["Copied", "DmaDim", "copied", "in_whole_blocks", "run_dims"]


@frozen
class DmaDim:
    """One dimension of a copy: iterations, and strides in GM and UB in elements."""

    size: Expr
    gm: Expr
    ub: Expr


@frozen
class Copied:
    """Data that a Load or Store moves for a tile.

    Attributes:
        node: the Load or Store.
        directed: dimensions along which an index tensor selects the elements: a loop each.
        dims: the other dimensions, outermost first; those contiguous on both sides are merged.
        first: GM element at which a run begins, relative to that of index 0.
    """

    node: Node
    directed: tuple[DmaDim, ...]
    dims: tuple[DmaDim, ...]
    first: Expr = ZERO

    def in_command(self, arch: Architecture, ranges: Mapping[str, tuple[int, int]]) -> int:
        """Return how many of the last dimensions one command moves: all (a multi-dimensional DMA), a row, or rows.

        Each row is a command if the gap between rows may be negative or does not fit its descriptor field: 32 bits, or
        16 bits of whole blocks.

        Args:
            arch: the architecture.
            ranges: ranges of the symbols in the sizes.
        """
        if is_permuted(self.node) or len(self.dims) < 2:
            return len(self.dims)
        rows, row = self.dims[-2:]
        item = self.node.y.dtype.itemsize
        # Rows may overlap unless their lengths rule that out.
        apart = is_run(self.node) or bool(self.node.attrs.get("overlap"))
        if bounds(rows.gm - row.size if apart else rows.gm, ranges)[0] < 0:
            return 1
        gap, most = (rows.gm - row.size) * item, (1 << 32) - 1
        if not arch.has_datacopypad:
            most = arch.dma_blocks_max * arch.block_bytes
            # Rows are whole blocks there; the gap is too if the row distance is.
            pitch = rows.gm * item
            if CeilDiv(pitch, arch.block_bytes) * arch.block_bytes != pitch:
                return 1
        return 2 if bounds(gap, ranges)[1] <= most else 1


def copied(n: Node, size: Callable[[int], Expr]) -> Copied:
    """Return how a Load or Store moves its tile.

    Args:
        n: the Load or Store.
        size: extent of an axis in the tile.
    """
    y = n.y
    stride = dict(zip(y.axis, y.strides, strict=True))
    by_index = n.op == "Load" and len(n.inputs) > 1
    directed: list[DmaDim] = []
    dims: list[DmaDim] = []
    for a, pitch in zip(y.vectorized_axis, y.vectorized_strides, strict=True):
        to = directed if by_index and stride[a] == ZERO else dims
        to.append(DmaDim(size(a), stride[a], pitch))
    # A tail shortens only the outermost dimension, so dimensions may be merged by their full sizes.
    first = ZERO
    if is_run(n):
        dims, first = run_dims(dims, beyond(n))
    elif dims and not is_permuted(n) and (dims[-1].gm != 1 or dims[-1].ub != 1):
        # The innermost dimension is not contiguous: single elements, each in a separate block.
        dims = [*_joined(dims[:-1], [dims[-1]]), DmaDim(ONE, ONE, ONE)]
    else:
        dims = _joined(dims, [])
    if beyond(n) and not is_run(n):
        *outer, row = dims
        dims = _joined(outer, [DmaDim(row.size + beyond(n), row.gm, row.ub)])
    return Copied(n, tuple(directed), tuple(dims), first)


def in_whole_blocks(
    n: Node,
    size: Callable[[int], Expr],
    arch: Architecture,
    ranges: Mapping[str, tuple[int, int]],
) -> Node:
    """Return a Load of rows shorter than a block so that it takes whole blocks, if its tensor goes on behind the rows.

    Each row has a block of UB anyway, and a DMA takes longer for less than a block than for all of it.  Nothing uses
    the elements behind the row.  Other nodes are returned as they are.

    Args:
        n: a node of a template.
        size: extent of an axis in the tile.
        arch: the architecture.
        ranges: ranges of the symbols in the sizes.
    """
    behind = n.number("behind", 0)
    if not behind or is_run(n) or is_permuted(n) or not arch.has_datacopypad:
        return n
    moved, unit = copied(n, size), arch.block_bytes // n.y.dtype.itemsize
    if len(moved.dims) < 2 or moved.directed:
        return n
    rows, row = moved.dims[-2:]
    more = unit - (row.size.as_int() or unit)
    # Rows that lie closer together than blocks would take a command each.
    if not 0 < more <= behind or bounds(rows.gm, ranges)[0] < unit:
        return n
    return replace(n, attrs={**n.attrs, "beyond": more})


def run_dims(dims: Sequence[DmaDim], more: int = 0) -> tuple[list[DmaDim], Expr]:
    """Return the dimensions and start of a copy that includes the gaps between the elements of the last dimension.

    Args:
        dims: dimensions of the elements.
        more: further elements to take after the last one.
    """
    last, forwards = dims[-1], dims[-1].gm.value > 0
    out = _joined(dims[:-1], [last]) if forwards else [*_joined(dims[:-1], []), last]
    last = out[-1]
    out[-1] = DmaDim((last.size - 1) * abs(last.gm.value) + 1 + more, ONE, ONE)
    # If the index goes backwards, the run begins at its last element.
    return out, ZERO if forwards else last.gm * (last.size - 1)


def _joined(dims: Sequence[DmaDim], inner: Sequence[DmaDim]) -> list[DmaDim]:
    """Return dimensions around others, merging each into the outermost one so far if it continues it."""
    out = list(inner)
    for d in reversed(dims):
        if out and d.gm == out[0].gm * out[0].size and d.ub == out[0].ub * out[0].size:
            out[0] = DmaDim(d.size * out[0].size, out[0].gm, out[0].ub)
        else:
            out.insert(0, d)
    return out
