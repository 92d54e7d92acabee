"""Extents of the tensors of a tile: symbols of the surrounding loops, lengths of tails, pitches in UB."""

from __future__ import annotations

from autofuse.implgraph.expr.expression import ONE, Expr, Min, divide_exact, quotient, sym
from autofuse.implgraph.ir.graph import Axis, AxisType, ImplGraph, TensorView
from autofuse.schedule.placement.transposition import is_relaid

__all__ = ["Extents", "actual_size"]


class Extents:
    """Lengths of the axes of a tile.

    Attributes:
        axes: all axes, by id.
        tile_in, tile_out, block_in, block_out: axes of the tiles, and of the cores.
        tails: extents of constant-length tiles that do not divide their axis, by the id of their inner axis.
    """

    def __init__(self, impl: ImplGraph) -> None:
        self.impl = impl
        self.axes = impl.axes
        self.tile_in = impl.tile(AxisType.TILE_IN)
        self.tile_out = impl.tile(AxisType.TILE_OUT)
        self.block_out, self.block_in = map(self._block, (AxisType.BLOCK_OUT, AxisType.BLOCK_IN))
        self.tails = {
            inside.id: Min(inside.size, self._whole_size(inside) - sym(tiles.name) * inside.size)
            for tiles, inside in impl.cut_axes()
            if divide_exact(self._whole_size(inside), inside.size) is None
        }

    def _block(self, kind: AxisType) -> Axis:
        return next(a for a in reversed(self.axes) if a.type is kind)

    def _whole_size(self, inside: Axis) -> Expr:
        return self.axes[inside.origin[0]].size

    def actual_name(self) -> str:
        """Return the variable for the length of this tile."""
        return actual_size(self.tile_in)

    def of(self, axis: int, whole: bool) -> Expr:
        """Return the elements of a tile along an axis; ``whole``: of a full tile rather than a tail."""
        if axis == self.tile_in.id:
            return sym(self.impl.tiling.opened.symbol) if whole else sym(self.actual_name())
        return sym(actual_size(self.axes[axis])) if axis in self.tails else self.axes[axis].size

    @property
    def tiled(self) -> Expr:
        """The elements of the tiled axis: fewer in the last tile of a constant length, if it is cut into such."""
        opened = self.impl.tiling.opened
        short = opened.axis in self.tails
        return sym(actual_size(self.axes[opened.axis])) if short else opened.extent

    def index(self, axis: int) -> Expr:
        """Return the variable of the loop over an axis."""
        return sym(self.axes[axis].name)

    def elements(self, y: TensorView, whole: bool) -> Expr:
        """Return the elements of a call on the whole tensor: the outermost extent times its UB stride."""
        if not y.vectorized_axis:
            return ONE
        axis, stride = y.vectorized_axis[0], y.vectorized_strides[0]
        if axis == self.tile_in.id or axis in self.tails:
            return self.of(axis, whole) * stride
        return self._span(y)

    def _span(self, y: TensorView) -> Expr:
        return self.axes[y.vectorized_axis[0]].size * y.vectorized_strides[0]

    def in_ub(self, y: TensorView, i: int, whole: bool) -> Expr:
        """Return the extent along vectorised axis ``i`` in UB: the quotient of adjacent strides, padding included."""
        axis = y.vectorized_axis[i]
        if i == 0:
            if axis == self.tile_in.id or axis in self.tails:
                return self.of(axis, whole)
            return (
                self._innermost_pitch(axis) if len(y.vectorized_axis) == 1 else self.axes[axis].size
            )
        above, own = y.vectorized_strides[i - 1], y.vectorized_strides[i]
        return quotient(above, own)

    def _innermost_pitch(self, axis: int) -> Expr:
        """Return the extent of a tensor that varies along one axis only; the pitch, if others have one.

        Transposed copies, and nodes between them and the vector calls, have their own layout: the memory plan gives no
        other tensor the space for their pitch.
        """
        for n in self.impl.nodes:
            y = n.y
            ends_here = len(y.vectorized_axis) > 1 and y.vectorized_axis[-1] == axis
            if ends_here and not is_relaid(n, y.axis):
                return y.vectorized_strides[-2]
        return self.axes[axis].size


def actual_size(inside: Axis) -> str:
    """Return the variable for the length of this tile of an axis."""
    return f"{inside.name}_actual_size"
