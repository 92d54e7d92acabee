"""Extents of ``autofuse::TransposeRows``: ``[a, x, y] -> [a, y, x]`` in UB.

Element (o, r, c) goes from ``(o*rows + r)*src_pitch + c`` to ``(o*cols + c)*dst_pitch + r``.  So an axis of the tensor
counts rows if its source stride is ``src_pitch`` times that of the result, columns if its result stride is
``dst_pitch`` times that of the source, and matrices if both are the same multiple of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autofuse.codegen.ir.kernel_ir import Call, LocalArg
from autofuse.codegen.verification.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up, divide_exact
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.scratch import TRANSPOSE_BYTES

__all__ = ["is_transposition", "transposition_covers", "transposition_fits"]


def is_transposition(s: Call) -> bool:
    """Whether the call is that function."""
    return s.api == "autofuse::TransposeRows"


def transposition_covers(
    kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Callable[[int], Expr]
) -> Iterator[Finding]:
    """Every element of the tile goes from its place in the operand to its place in the result."""
    source = kernel.nodes[n.inputs[0]]
    src = dict(zip(source.y.vectorized_axis, source.y.vectorized_strides, strict=True))
    dst = dict(zip(n.y.vectorized_axis, n.y.vectorized_strides, strict=True))
    if len(counts) != 5 or src.keys() != dst.keys():
        yield Finding(f"{s.api} does not move all axes of {source.name}", n.name)
        return
    outer, rows, cols, src_pitch, dst_pitch = counts
    last = {"matrices": ONE, "rows": ONE, "columns": ONE}
    for a, mine in src.items():
        theirs = dst[a]
        kind, step = _kind(kernel, (mine, theirs), counts)
        if not kind:
            name = kernel.axes[a].name
            yield Finding(
                f"{s.api} brings the elements along {name} from strides of {mine} to {theirs}",
                n.name,
                False,
            )
            return
        last[kind] = last[kind] + (extent(a) - 1) * step
    for count, kind in ((outer, "matrices"), (rows, "rows"), (cols, "columns")):
        yield from kernel.at_least(count, last[kind], f"{kind} of {s.api}", n.name)
    yield from kernel.at_least(src_pitch, cols, f"elements of a row of {s.api}", n.name)
    yield from kernel.at_least(dst_pitch, rows, f"elements of a column of {s.api}", n.name)


def _kind(kernel: Kernel, strides: tuple[Expr, Expr], counts: Sequence[Expr]) -> tuple[str, Expr]:
    """What an axis counts, and how many of them one step is."""
    _, rows, cols, src_pitch, dst_pitch = counts
    mine, theirs = strides
    same = kernel.prover.equal
    if same(mine, theirs * src_pitch):
        return "rows", theirs
    if same(theirs, mine * dst_pitch):
        return "columns", mine
    if same(mine * cols * dst_pitch, theirs * rows * src_pitch):
        step = divide_exact(mine, rows * src_pitch)
        if step is not None:
            return "matrices", step
    return "", ZERO


def transposition_fits(
    kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]
) -> Iterator[Finding]:
    """Operand, result and scratch space lie in their buffers, rows at 32-byte addresses."""
    if len(counts) != 5:
        return  # a finding of its own
    locals_ = [a.local for a in s.args if isinstance(a, LocalArg)]
    rooms = [kernel.nbytes.get(kernel.buffer_of(x), ZERO) for x in locals_]
    outer, rows, cols, src_pitch, dst_pitch = counts
    size = n.y.dtype.itemsize
    for pitch in (src_pitch, dst_pitch):
        yield from kernel.multiple(
            pitch * size, kernel.arch.block_bytes, f"rows of {s.api}", n.name
        )
    # Rows are read in blocks of 32 bytes, results are whole rows.
    used = (
        outer * cols * dst_pitch * size,
        align_up(outer * rows * src_pitch * size, kernel.arch.block_bytes),
    )
    for local, room, nbytes in zip(locals_, rooms, used, strict=False):
        yield from kernel.at_least(room, nbytes, f"bytes of {local} in {s.api}", n.name)
    yield from kernel.at_least(
        rooms[2], Expr.of(TRANSPOSE_BYTES), f"scratch space of {s.api}", n.name
    )
