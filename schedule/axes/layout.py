"""Layout of the tensors of a tile in UB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from autofuse.implgraph.expr.expression import ONE, CeilDiv, Expr
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import TensorView
from autofuse.schedule.axes.tiling_axes import Split
from autofuse.targets import Architecture

__all__ = ["Layout", "Views"]


@frozen
class Layout:
    """Extents of the vectorised axes in UB.

    Attributes:
        arch: gives the length of a UB block.
        pitches: extents of padded axes, whose rows start at blocks.
        longest: the template's own limit on the tile, if any.
        short: axes outside the innermost one that are short rows in GM; see :mod:`autofuse.schedule.placement.lacing`.
        permuting: if loads permute elements, the minimum elements of a tile; else 0.  See
            :mod:`autofuse.schedule.placement.permutation`.
    """

    split: Split
    arch: Architecture
    pitches: Mapping[int, Expr] = field(default_factory=dict)
    longest: int | None = None
    short: tuple[int, ...] = ()
    permuting: int = 0

    def extent(self, axis: int) -> Expr:
        """Return the number of elements reserved along the axis."""
        return self.pitches.get(axis, self.split.sizes[axis])

    def in_blocks(self, nbytes: Expr) -> bool:
        """Return True if a number of bytes is known to be a whole number of blocks."""
        block = self.arch.block_bytes
        return CeilDiv(nbytes, block) * block == nbytes

    def padded(self, axis: int) -> bool:
        """Return True if padding may follow the elements of the axis."""
        return self.extent(axis) != self.split.sizes[axis]

    def present(self, y: TensorView) -> tuple[int, ...]:
        """Return the vectorised axes along which the tensor varies."""
        repeat = dict(zip(y.axis, y.repeats, strict=True))
        return tuple([a for a in self.split.vector if repeat[a].number != 1])

    def place(self, y: TensorView) -> TensorView:
        """Return ``y`` on the split axes, with its vectorised axes and their UB strides."""
        return self.vectorize(self.split.view(y))

    def vectorize(self, y: TensorView) -> TensorView:
        """Return ``y`` with its vectorised axes and their UB strides: dense, innermost axis at the pitch."""
        axes = self.present(y)
        strides, pitch = [ONE] * len(axes), ONE
        for i in range(len(axes) - 1, 0, -1):
            pitch = strides[i - 1] = pitch * self.extent(axes[i])
        return replace(y, vectorized_axis=axes, vectorized_strides=tuple(strides))

    def elements(self, y: TensorView) -> Expr:
        """Return the number of elements that the tensor takes in UB for a whole tile."""
        axes = y.vectorized_axis
        return self.extent(axes[0]) * y.vectorized_strides[0] if axes else ONE


class Views:
    """Cache of :meth:`Layout.place` for one template: most tensors of a group share a few shapes.

    Args:
        layout: layout of the template.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._shapes: dict[tuple[tuple[object, ...], ...], TensorView] = {}

    def place(self, y: TensorView) -> TensorView:
        """Return ``y`` on the split axes."""
        key = (y.axis, y.repeats, y.strides)
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = self._layout.place(y)
            return found
        return replace(
            y,
            axis=found.axis,
            repeats=found.repeats,
            strides=found.strides,
            vectorized_axis=found.vectorized_axis,
            vectorized_strides=found.vectorized_strides,
        )
