"""Splitting axes: tile split of one axis, block split over the cores, and the views of tensors on the new axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autofuse.implgraph.expr import ONE, ZERO, CeilDiv, Expr, Ratio, product, sym
from autofuse.implgraph.fusion import Symbol
from autofuse.implgraph.graph import Axis, AxisType, Node, TensorView
from autofuse.targets import TargetSpec

__all__ = ["Choice", "GroupInput", "Split", "split_axes", "unmerge"]


@dataclass(frozen=True, slots=True)
class GroupInput:
    """One group to schedule.

    Attributes:
        axes: all axes of the graph; the new ones of a template follow them.
        order: ids of the iteration space, outermost first.
        nodes: legal nodes in execution order, with the Data and Output nodes they touch.
        inputs: number of inputs of the kernel; tensor ids of the outputs follow them.
    """

    graph: str
    result: int
    group: int
    symbols: tuple[Symbol, ...]
    axes: tuple[Axis, ...]
    order: tuple[int, ...]
    nodes: tuple[Node, ...]
    target: TargetSpec
    inputs: int

    def size(self, axis: int) -> Expr:
        """Size of the axis with this id."""
        return next(a.size for a in self.axes if a.id == axis)


@dataclass(frozen=True, slots=True)
class Choice:
    """One template to try.

    Attributes:
        position: index into ``GroupInput.order`` of the axis that is tiled; the axes inside it are whole in UB.
        padded: rows along the innermost axis start at 32-byte addresses in UB although their length is no multiple.
        buf_num: 2 for double buffering, 1 when UB is tight.
        y_axis: the axis id in the function's name; None: the tiled axis.
    """

    template: str
    suffix: str
    position: int
    padded: bool
    buf_num: int = 2
    y_axis: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The axes of a schedule; see ``architecture.md`` for the names."""

    axes: tuple[Axis, ...]
    outer: tuple[int, ...]
    tiled: int
    tile_out: int
    tile_in: int
    block_out: int
    block_in: int
    inner: tuple[int, ...]
    t: Expr
    b: Expr
    sizes: dict[int, Expr] = field(default_factory=dict)

    @property
    def vector(self) -> tuple[int, ...]:
        """Axes inside one API call."""
        return (self.tile_in, *self.inner)

    def view(self, y: TensorView) -> TensorView:
        """``y`` on the split axes."""
        repeat = dict(zip(y.axis, y.repeats, strict=True))
        stride = dict(zip(y.axis, y.strides, strict=True))
        s, varies = stride[self.tiled], repeat[self.tiled] != 1
        tile = [(self.tile_in, self.t if varies else ONE, s if varies else ZERO)]
        if self.outer:
            count = CeilDiv(self.sizes[self.tiled], self.t)
            head = [(a, repeat[a], stride[a]) for a in self.outer]
            head.append((self.tile_out, count if varies else ONE, s * self.t if varies else ZERO))
        else:
            both = self.b * self.t
            blocks = Ratio(self.sizes[self.tiled], both)
            head = [
                (self.block_out, blocks if varies else ONE, s * both if varies else ZERO),
                (self.block_in, self.b if varies else ONE, s * self.t if varies else ZERO),
            ]
        rows = [*head, *tile, *((a, repeat[a], stride[a]) for a in self.inner)]
        return replace(
            y,
            axis=tuple(r[0] for r in rows),
            repeats=tuple(r[1] for r in rows),
            strides=tuple(r[2] for r in rows),
        )


def split_axes(g: GroupInput, position: int) -> Split:
    """Tile-split the axis at ``position``; block-split the tiles, merged with all axes outside."""
    tiled = next(a for a in g.axes if a.id == g.order[position])
    outer, inner = g.order[:position], g.order[position + 1 :]
    named = {a.id: a for a in g.axes}
    fresh = len(g.axes)
    t = sym(f"{tiled.name}t_size")
    made: list[Axis] = []

    def add(name: str, size: Expr, kind: AxisType, origin: tuple[int, ...]) -> Axis:
        axis = Axis(fresh + len(made), name, size, kind, origin, align=1)
        made.append(axis)
        return axis

    tile_out = add(f"{tiled.name}T", CeilDiv(tiled.size, t), AxisType.TILE_OUT, (tiled.id,))
    tile_in = add(f"{tiled.name}t", t, AxisType.TILE_IN, (tiled.id,))
    loop = tile_out
    if outer:
        parts = [named[a] for a in outer] + [tile_out]
        name = "".join(p.name for p in parts)
        loop = add(
            name, product(p.size for p in parts), AxisType.MERGED, tuple(p.id for p in parts)
        )
    b = sym(f"{loop.name}b_size")
    block_out = add(f"{loop.name}B", CeilDiv(loop.size, b), AxisType.BLOCK_OUT, (loop.id,))
    block_in = add(f"{loop.name}b", b, AxisType.BLOCK_IN, (loop.id,))
    return Split(
        (*g.axes, *made),
        outer,
        tiled.id,
        tile_out.id,
        tile_in.id,
        block_out.id,
        block_in.id,
        inner,
        t,
        b,
        {a.id: a.size for a in (*g.axes, *made)},
    )


def unmerge(g: GroupInput) -> GroupInput | None:
    """The group with its one merged axis taken apart again; None if it has no parts of size over 1."""
    merged = next(a for a in g.axes if a.id == g.order[0])
    parts = _parts(merged, [a for a in g.axes if a.id < merged.id])
    if len(g.order) != 1 or len(parts) < 2:
        return None
    below = [product(p.size for p in parts[i + 1 :]) for i in range(len(parts))]

    def view(y: TensorView) -> TensorView:
        varies, stride = y.repeats[0] != 1, y.strides[0]
        return replace(
            y,
            axis=tuple(p.id for p in parts),
            repeats=tuple(p.size if varies else ONE for p in parts),
            strides=tuple(stride * b if varies else ZERO for b in below),
        )

    nodes = tuple(replace(n, y=view(n.y)) if n.y.axis == g.order else n for n in g.nodes)
    return replace(g, order=tuple(p.id for p in parts), nodes=nodes)


def _parts(merged: Axis, originals: Sequence[Axis]) -> list[Axis]:
    """The run of original axes whose names concatenate to that of the merged axis."""
    for i in range(len(originals)):
        text, j = "", i
        while len(text) < len(merged.name) and j < len(originals):
            text += originals[j].name
            j += 1
        if text == merged.name and j > i + 1:
            return list(originals[i:j])
    return []
