"""``TransposeRows``: ``[a, x, y] -> [a, y, x]`` in UB.

Element (o, r, c) goes from ``(o*rows + r)*src_pitch + c`` to ``(o*cols + c)*dst_pitch + r``.  So an axis of the tensor
counts rows if its source stride is ``src_pitch`` times that of the result, columns if its result stride is
``dst_pitch`` times that of the source, and matrices if both are the same multiple of a matrix.
"""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Call, Count
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up, const, divide_exact
from autofuse.implgraph.ops.rows.device import TRANSPOSE_BYTES
from autofuse.schedule.placement.transposition import transpose_counts

__all__ = ["FUNCTIONS"]


def _call(s: FunctionSite) -> Call:
    """Return a call of [outer, rows, cols] -> [outer, cols, rows], with the pitches of both."""
    return s.made(map(Count, transpose_counts(s.source.y, s.node.y, s.extent, s.arch)))


def _covers(p: Proof) -> Findings:
    """Check that every element of the tile moves from its position in the operand to its position in the result."""
    source = p.source
    src = dict(zip(source.y.vectorized_axis, source.y.vectorized_strides, strict=True))
    dst = dict(zip(p.n.y.vectorized_axis, p.n.y.vectorized_strides, strict=True))
    if len(p.counts) != 5 or src.keys() != dst.keys():
        yield p.wrong(f"{p.api} does not move all axes of {source.name}")
        return
    outer, rows, cols, src_pitch, dst_pitch = p.counts
    last = {"matrices": ONE, "rows": ONE, "columns": ONE}
    for a, mine in src.items():
        theirs = dst[a]
        kind, step = _kind(p, (mine, theirs))
        if not kind:
            name = p.kernel.axes[a].name
            text = f"{p.api} brings the elements along {name} from strides of {mine} to {theirs}"
            yield p.wrong(text, refuted=False)
            return
        last[kind] = last[kind] + (p.extent(a) - 1) * step
    for count, kind in ((outer, "matrices"), (rows, "rows"), (cols, "columns")):
        yield from p.at_least(count, last[kind], f"{kind} of {p.api}")
    yield from p.at_least(src_pitch, cols, f"elements of a row of {p.api}")
    yield from p.at_least(dst_pitch, rows, f"elements of a column of {p.api}")


def _kind(p: Proof, strides: tuple[Expr, Expr]) -> tuple[str, Expr]:
    """Return the unit that an axis counts (rows, columns or matrices), and the number of units per step."""
    _, rows, cols, src_pitch, dst_pitch = p.counts
    mine, theirs = strides
    same = p.kernel.prover.equal
    if same(mine, theirs * src_pitch):
        return "rows", theirs
    if same(theirs, mine * dst_pitch):
        return "columns", mine
    if same(mine * cols * dst_pitch, theirs * rows * src_pitch):
        step = divide_exact(mine, rows * src_pitch)
        if step is not None:
            return "matrices", step
    return "", ZERO


def _fits(p: Proof) -> Findings:
    """Check that operand, result and scratch space fit their buffers, with rows at 32-byte addresses."""
    if len(p.counts) != 5:
        return  # Reported separately.
    outer, rows, cols, src_pitch, dst_pitch = p.counts
    size = p.n.y.dtype.itemsize
    for pitch in (src_pitch, dst_pitch):
        yield from p.aligned(pitch * size, f"rows of {p.api}")
    # Rows are read in blocks of 32 bytes; results are whole rows.
    read = align_up(outer * rows * src_pitch * size, p.block)
    yield from p.fit((outer * cols * dst_pitch * size, read, const(TRANSPOSE_BYTES)))


FUNCTIONS = {"TransposeRows": DeviceFunction("reduce", _call, _covers, _fits)}
