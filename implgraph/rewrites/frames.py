"""Rewrites a constant frame along the innermost dimension to a mask over a tensor that reads beyond its rows.

A Concat with constants costs a group per piece, and the pieces of a frame are columns of few elements, each a separate
block in GM.  If the framed tensor is read from memory, the elements before and after a row are in memory too: they
belong to the neighbouring rows.  So whole rows are computed, in long runs, and a Select takes the constant inside the
frame.  Parts that would be out of bounds are cut off (:func:`cut_to_inside`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from autofuse.implgraph.expr.expression import ONE, Expr, const, product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Constant, FusionNode, Operand, Tensor
from autofuse.implgraph.ir.iteration_space import Axes, IterationSpace, Window, contiguous_strides
from autofuse.implgraph.ops.registry import lookup

__all__ = ["cut_to_inside", "framed", "reaches_out", "same_everywhere"]

#: Maximum positions in a row: float32 counts this far exactly, and still separates neighbours when doubled.
MAX_ROW = 1 << 22
#: Types whose Select takes one or two calls.
TYPES = frozenset({"float32", "float16", "bfloat16", "int32"})
#: With at most this many rows, the columns of the frame are cut off instead of rows.
FEW_ROWS = 128

#: Kinds of ops that can be recomputed in part.
_COMPUTED_AGAIN = frozenset({"elewise", "broadcast", "view", "transpose", "slice", "frame", "iota"})
#: Ops that only move the elements of their operand.
_MOVES = ("Broadcast", "Reshape", "Transpose", "Slice", "Identity")


class Makers(Protocol):
    """Object that maps each tensor to the node that produces it."""

    makers: dict[str, FusionNode]


class Builder(Makers, Protocol):
    """The rewriter interface used here; operands are tensor names."""

    tensors: dict[str, Tensor]
    #: Masks by the shape and the positions of the frame.
    masks: dict[tuple[Any, ...], str]

    def emit(self, op: str, inputs: Sequence[Operand], **attrs: Any) -> str:
        """Add a node with a new result, and return its name."""

    def last(self, op: str, inputs: Sequence[Operand], **attrs: Any) -> FusionNode:
        """Return the node that produces the result."""


def framed(
    r: Builder, pieces: Sequence[str], axis: int, *, masked: bool = False
) -> FusionNode | None:
    """Rewrite a Concat of one tensor and equal constants around it, and return the last node; None for other pieces.

    Args:
        r: receives the new nodes; none if this returns None.
        pieces: the joined tensors, none of them empty.
        axis: the dimension of the Concat.
        masked: loads are masked: any dimension and type is allowed, but everything must be computed element by element.
    """
    shapes = [r.tensors[p].shape for p in pieces]
    dtype = r.tensors[pieces[0]].dtype
    inner = product(shapes[0][axis + 1 :]) == ONE
    if not (masked or (inner and dtype.name in TYPES)) or not all(s[axis].is_const for s in shapes):
        return None
    constants = [same_everywhere(r, p) for p in pieces]
    inside = [k for k, c in enumerate(constants) if c is None]
    values = {repr(c.value): c for c in constants if c is not None}
    if len(inside) != 1 or len(values) != 1:
        return None
    (k,), (value,) = inside, values.values()
    sizes = [s[axis].value for s in shapes]
    low, size, row = sum(sizes[:k]), sizes[k], sum(sizes)
    if row > MAX_ROW or size < 2 or (masked and not _is_elementwise(r, pieces[k])):
        return None
    frame = r.emit("Frame", [pieces[k]], axis=axis, low=low, high=row - size - low)
    wide = tuple(const(row) if d == axis else ONE for d in range(len(shapes[0])))
    mask = _mask(r, wide, axis, low, size)
    return r.last("Select", [mask, frame, Constant(value.value, dtype)])


def _is_elementwise(r: Makers, x: str) -> bool:
    """Return True if only element-wise work and movement lead from inputs to a tensor, so that it can be recomputed."""
    seen, left = {x}, [x]
    while left:
        maker = r.makers.get(left.pop())
        if maker is None:
            continue
        if lookup(maker.op).compute_type not in _COMPUTED_AGAIN:
            return False
        fresh = {i for i in maker.inputs if isinstance(i, str)} - seen
        seen |= fresh
        left += fresh
    return True


def same_everywhere(r: Makers, x: Operand) -> Constant | None:
    """Return the number that all elements of an operand equal, if only movement produces it."""
    while isinstance(x, str):
        maker = r.makers.get(x)
        if maker is None or maker.op not in _MOVES:
            return None
        x = maker.inputs[0]
    return x if x.expr is None else None


def _mask(r: Builder, shape: tuple[Expr, ...], axis: int, low: int, size: int) -> str:
    """Return the mask of the ``size`` positions in a row from ``low`` on."""
    key = (shape, axis, low, size)
    if key not in r.masks:
        f32: DType = BY_NAME["float32"]

        def line(start: int, step: int) -> str:
            return r.emit(
                "Iota", [], shape=shape, axis=axis, dtype="float32", start=start, step=step
            )

        if low == 0:
            made = r.emit("Less", [line(0, 1), Constant(float(size), f32)])
        elif low + size == shape[axis].value:
            made = r.emit("GreaterEqual", [line(0, 1), Constant(float(low), f32)])
        else:  # twice the distance from the middle
            far = r.emit("Abs", [line(1 - 2 * low - size, 2)])
            made = r.emit("Less", [far, Constant(float(size), f32)])
        r.masks[key] = made
    return r.masks[key]


@frozen
class _Line:
    """Positions ``offset + step * i`` in a dimension of ``extent``; i counts over ``base``."""

    extent: int
    offset: int
    step: int
    count: int
    base: Axes

    @property
    def last(self) -> int:
        """The last position."""
        return self.offset + (self.count - 1) * self.step

    @property
    def is_over(self) -> bool:
        """True if a position is outside the dimension."""
        return min(self.offset, self.last) < 0 or max(self.offset, self.last) >= self.extent

    @property
    def span(self) -> int:
        """Number of positions from the first to the last."""
        return abs(self.last - self.offset) + 1

    def fitting(self) -> int:
        """Return where to cut so that one part is no longer than the dimension: then copies of rows do not overlap."""
        most = (self.extent - 1) // abs(self.step) + 1
        starts = self.offset < 0 if self.step > 0 else self.offset >= self.extent
        return self.count - most if starts else most

    def ends(self) -> int:
        """Return the numbers of positions after which they enter or leave the dimension."""
        up, end = (
            (self.step, self.offset)
            if self.step > 0
            else (-self.step, self.extent - 1 - self.offset)
        )
        return -(end // up) if end < 0 else -((end - self.extent) // up)


def cut_to_inside(
    space: IterationSpace, axes: Axes, *, dense: bool = True
) -> tuple[Axes, Expr] | None:
    """Return where to cut a piece so that no read is outside the tensor's memory.

    Args:
        space: the index space; of a graph without symbols if a window is larger than its dimension.
        axes: the axes and windows of the tensor's dimensions.
        dense: rows follow each other without gaps; otherwise the elements after a row are out of bounds.

    Returns:
        The axes to cut, and after how many of their elements; None if all reads are in-bounds.
    """
    if not reaches_out(space, axes):
        return None
    lines = [_line(space, a) for a in axes]
    wide = next((v for v in lines if v.span > v.extent), None)
    if wide is not None and dense:
        return wide.base, const(wide.fitting())
    reduced = {*space.reduced_axes(), *space.reduced_axes(parted=True)}
    rows = [v for v in lines if not v.is_over and v.count > 1 and not reduced & set(v.base)]
    if dense:
        strides = [s.value for s in contiguous_strides([const(v.extent) for v in lines])]
        pairs = list(zip(lines, strides, strict=True))
        before = sum(min(v.offset, v.last) * s for v, s in pairs) < 0
        end = sum(max(v.offset, v.last) * s for v, s in pairs)
        if not before and end < math.prod(v.extent for v in lines):
            return None
        if rows and math.prod(v.count for v in rows) > FEW_ROWS:
            # Only the first or the last row extends out of bounds.
            v = rows[-1]
            return v.base, const(1 if before == (v.step > 0) else v.count - 1)
    v = next(v for v in lines if v.is_over)
    return v.base, const(v.ends())


def reaches_out(space: IterationSpace, axes: Axes) -> bool:
    """Return True if a window extends beyond an end of its dimension."""
    windows = (w for a in axes if (w := space.window_of(a)) is not None)
    return any(_is_over(space, w) for w in windows)


def _is_over(space: IterationSpace, w: Window) -> bool:
    last = w.offset + (product(space.sizes[a] for a in w.base) - 1) * w.step
    return any(e.is_const and e.value < 0 for x in (w.offset, last) for e in (x, w.extent - 1 - x))


def _line(space: IterationSpace, a: int) -> _Line:
    w = space.window_of(a)
    if w is None:
        n = space.sizes[a].value
        return _Line(n, 0, 1, n, (a,))
    base = space.resolve(w.base)
    return _Line(
        w.extent.value, w.offset.value, w.step, math.prod(space.sizes[b].value for b in base), base
    )
