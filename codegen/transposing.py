"""The call of an ``UbTranspose`` node: ``[a, x, y] -> [a, y, x]`` from the layouts of its operand and its result."""

from __future__ import annotations

from collections.abc import Callable

from autofuse.implgraph.expr import ONE, Expr, align_up, divide_exact
from autofuse.implgraph.graph import TensorView
from autofuse.schedule.layout import BLOCK

__all__ = ["transpose_counts"]


def transpose_counts(
    src: TensorView, dst: TensorView, extent: Callable[[int], Expr]
) -> tuple[Expr, Expr, Expr, Expr, Expr]:
    """``outer, rows, cols, src_pitch, dst_pitch`` of ``autofuse::TransposeRows``, in elements.

    Args:
        src: the operand.
        dst: the result.
        extent: iterations of a vectorised axis in this tile.
    """
    unit = BLOCK // src.dtype.itemsize
    have, want = src.vectorized_axis, dst.vectorized_axis
    if have == want:
        # Single elements in 32 bytes each, on one of the two sides.
        if src.vectorized_strides[-1] != 1:
            rows = extent(want[0]) * dst.vectorized_strides[0]
            return ONE, rows, ONE, src.vectorized_strides[-1], align_up(rows, unit)
        cols = extent(have[0]) * src.vectorized_strides[0]
        return ONE, ONE, cols, align_up(cols, unit), dst.vectorized_strides[-1]
    same = next(i for i, (a, b) in enumerate(zip(have, want, strict=True)) if a != b)
    turn = have.index(want[same])
    back = want.index(have[same])
    src_pitch, dst_pitch = src.vectorized_strides[turn - 1], dst.vectorized_strides[back - 1]
    if not same:
        rows = _exact(extent(have[0]) * src.vectorized_strides[0], src_pitch)
        cols = _exact(extent(want[0]) * dst.vectorized_strides[0], dst_pitch)
        return ONE, rows, cols, src_pitch, dst_pitch
    rows = _exact(src.vectorized_strides[same - 1], src_pitch)
    cols = _exact(dst.vectorized_strides[same - 1], dst_pitch)
    outer = extent(have[0]) * _exact(src.vectorized_strides[0], src.vectorized_strides[same - 1])
    return outer, rows, cols, src_pitch, dst_pitch


def _exact(a: Expr, b: Expr) -> Expr:
    q = divide_exact(a, b)
    assert q is not None, f"UB strides {a} and {b} do not nest"
    return q
