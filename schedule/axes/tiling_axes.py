"""Axis splitting: the tile split of one axis, the block split over the cores, and tensor views on the new axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, Expr, Ratio, product, sym
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import Axis, AxisSizes, AxisType, Condition, Node, TensorView
from autofuse.implgraph.ops.rows.reductions import PART
from autofuse.targets import TargetSpec

__all__ = [
    "Candidate",
    "GroupInput",
    "Kind",
    "Padding",
    "Split",
    "TileLengths",
    "in_parts",
    "plain",
    "reordered",
    "split_axes",
    "with_tiles",
    "with_unit_axis",
]


class Kind(Enum):
    """Kind of work of a group along some of its axes, which selects the template families."""

    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    SCAN = "scan"


@frozen
class GroupInput:
    """One group to schedule.

    Attributes:
        axes: all axes of the graph as seen by templates, by id; only axes merged by a template itself are MERGED.  A
            template appends its new axes.
        order: ids of the iteration space, outermost first.
        nodes: legalised nodes in execution order, with the Data and Output nodes they touch.
        inputs: number of kernel inputs; tensor ids of the outputs follow.
        reduced: ids of the axes that the group's reductions reduce or its running sums run along.
        outputs: number of kernel outputs; tensor ids of workspaces follow.
        within: ids of the axes that other reductions of the group reduce, which lie within one tile.
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
    reduced: tuple[int, ...] = ()
    outputs: int = 0
    within: tuple[int, ...] = ()

    @property
    def scans(self) -> bool:
        """True if the group has running sums."""
        return any(n.op == "Scan" for n in self.nodes)

    @property
    def kind(self) -> Kind:
        """Kind of work of the group: running sums, reductions, or neither."""
        if self.scans:
            return Kind.SCAN
        return Kind.REDUCTION if self.reduced else Kind.ELEMENTWISE

    def size(self, axis: int) -> Expr:
        """Return the size of the axis with this id."""
        return self.axes[axis].size


class Padding(Enum):
    """Rows padded to start at 32-byte addresses in UB."""

    NONE = "none"
    #: Rows along the innermost axis.
    INNERMOST = "innermost"
    #: Rows along the innermost axis of every tensor with several axes.
    EVERY_TENSOR = "every tensor"


@frozen
class TileLengths:
    """Limits of a template's tile in addition to those of UB and DMA commands.

    Attributes:
        shortest: tiles are multiples of this, and the axis is at least as long.
        longest: the maximum; None for no limit.
        fixed: the length of all tiles, except on a shorter axis and for the remainder; None: any length.
    """

    shortest: int = 1
    longest: int | None = None
    fixed: int | None = None

    @property
    def unit(self) -> int:
        """Divisor of all tile lengths."""
        return math.lcm(self.shortest, self.fixed or 1)

    @property
    def most(self) -> int | None:
        """The longest tile; None for no limit."""
        return self.fixed or self.longest


@frozen
class Candidate:
    """One template to try.

    Attributes:
        template: name of the template: that of its family, or of a variant with its own name.
        suffix: suffix of a variant's name; empty for none.
        position: index into ``GroupInput.order`` of the tiled axis; the axes inside it are whole in UB.
        padding: the rows that are padded in UB.
        all_load: reduced axes outside the tiled one also lie inside the tile, so there is no reduce loop.
        tight: for sizes at which the template does not fit UB with double buffering.
        rows: axes outside the tiled one, of constant size, that lie inside the tile.
        lengths: limits of a tile.
        short: axes inside the tile that are short rows in GM; see :mod:`autofuse.schedule.placement.lacing`.
        permuting: loads permute elements with a multi-dimensional DMA.
        conditions: the sizes for which alone it is meant.  Such a template never displaces one needed for other sizes.
    """

    template: str
    suffix: str
    position: int
    padding: Padding = Padding.NONE
    all_load: bool = False
    tight: bool = False
    rows: tuple[int, ...] = ()
    lengths: TileLengths = TileLengths()
    short: tuple[int, ...] = ()
    permuting: bool = False
    conditions: tuple[Condition, ...] = ()


@frozen
class Split:
    """The axes of a schedule; see ``architecture.md`` for the names.

    Attributes:
        outer: axes that the cores share, along with that of the tiles unless ``tile_reduced``.
        summed: reduced axes of the reduce loop, along with that of the tiles if ``tile_reduced``.
        above: axes outside the tiled one that lie inside the tile.
        inner: axes inside the tiled one.
        vector: axes inside one API call: ``above``, the axis inside a tile, ``inner``.
        reduce_loop: the axis of the reduce loop, or None.
        rows: axes of rows from which elements are taken, by size; they are in no loop of the tile.
    """

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
    vector: tuple[int, ...]
    sizes: Mapping[int, Expr] = field(default_factory=dict)
    above: tuple[int, ...] = ()
    summed: tuple[int, ...] = ()
    tile_reduced: bool = False
    reduce_loop: int | None = None
    rows: Mapping[Expr, int] = field(default_factory=dict)

    @property
    def blocked(self) -> frozenset[int]:
        """Axes of the group that are distributed over the cores."""
        return frozenset(self.outer if self.tile_reduced else (*self.outer, self.tiled))

    @property
    def looped(self) -> frozenset[int]:
        """Axes of the group that the reduce loop traverses."""
        return frozenset((*self.summed, self.tiled) if self.tile_reduced else self.summed)

    def view(self, y: TensorView) -> TensorView:
        """Return ``y`` on the split axes."""
        own = {a: (a, r, s) for a, r, s in zip(y.axis, y.repeats, y.strides, strict=True)}
        _, repeat, s = own[self.tiled]
        if repeat.number == 1:
            tile, tiles = (self.tile_in, ONE, ZERO), (self.tile_out, ONE, ZERO)
            blocks = [(self.block_out, ONE, ZERO), (self.block_in, ONE, ZERO)]
        else:
            step = s * self.t
            tile = (self.tile_in, self.t, s)
            tiles = (self.tile_out, self.sizes[self.tile_out], step)
            blocks = []
            if not self.outer:
                both = self.b * self.t
                number = Ratio(self.sizes[self.tiled], both)
                blocks = [(self.block_out, number, s * both), (self.block_in, self.b, step)]
        rows = [own[a] for a in self.outer]
        if not self.outer:
            rows += blocks
        elif not self.tile_reduced:
            rows.append(tiles)
        rows += [own[a] for a in self.summed]
        if self.tile_reduced:
            rows.append(tiles)
        rows += [own[a] for a in self.above]
        rows.append(tile)
        rows += [own[a] for a in self.inner]
        axis, repeats, strides = zip(*rows, strict=True)
        return replace(y, axis=axis, repeats=repeats, strides=strides)


def split_axes(
    g: GroupInput, position: int, *, all_load: bool = False, rows: Sequence[int] = ()
) -> Split:
    """Tile-split the axis at ``position``; block-split the tiles, merged with the kept axes outside.

    Reduced axes outside form the reduce loop, or lie inside the tile with ``all_load``; outer axes in ``rows`` lie
    inside the tile too.  If the tiled axis is reduced, its tiles belong to the reduce loop, and there must be a kept
    axis outside.
    """
    tiled = g.axes[g.order[position]]
    before, inner = g.order[:position], g.order[position + 1 :]
    outer = tuple(a for a in before if a not in g.reduced and a not in rows)
    reduced = tuple(a for a in before if a in g.reduced and a not in rows)
    above, summed = (reduced, ()) if all_load else ((), reduced)
    above += tuple(a for a in before if a in rows)
    tile_reduced = tiled.id in g.reduced
    fresh = len(g.axes)
    t = sym(f"{tiled.name}t_size")
    made: list[Axis] = []

    def add(name: str, size: Expr, kind: AxisType, origin: tuple[int, ...]) -> Axis:
        axis = Axis(fresh + len(made), name, size, kind, origin, align=1)
        made.append(axis)
        return axis

    tile_out = add(f"{tiled.name}T", CeilDiv(tiled.size, t), AxisType.TILE_OUT, (tiled.id,))
    tile_in = add(f"{tiled.name}t", t, AxisType.TILE_IN, (tiled.id,))

    def merged(parts: list[Axis]) -> Axis:
        if len(parts) == 1:
            return parts[0]
        name, size = "".join(p.name for p in parts), product(p.size for p in parts)
        return add(name, size, AxisType.MERGED, tuple(p.id for p in parts))

    tiles = [tile_out]
    loop = merged([g.axes[a] for a in outer] + ([] if tile_reduced else tiles))
    sums = [g.axes[a] for a in summed] + (tiles if tile_reduced else [])
    reduce_loop = merged(sums).id if sums else None
    b = sym(f"{loop.name}b_size")
    block_out = add(f"{loop.name}B", CeilDiv(loop.size, b), AxisType.BLOCK_OUT, (loop.id,))
    block_in = add(f"{loop.name}b", b, AxisType.BLOCK_IN, (loop.id,))
    taken = {
        size: add(f"row{i}", size, AxisType.ORIGINAL, ()).id
        for i, size in enumerate(dict.fromkeys(_row_sizes(g)))
    }
    axes = (*g.axes, *made)
    return Split(
        axes,
        outer,
        tiled.id,
        tile_out.id,
        tile_in.id,
        block_out.id,
        block_in.id,
        inner,
        t,
        b,
        (*above, tile_in.id, *inner),
        AxisSizes(axes),
        above,
        summed,
        tile_reduced,
        reduce_loop,
        taken,
    )


def _row_sizes(g: GroupInput) -> Iterator[Expr]:
    """Yield the sizes of the rows from which elements are taken."""
    yield from (n.size("row") for n in g.nodes if n.op == "Load" and "row" in n.attrs)


def with_unit_axis(g: GroupInput) -> GroupInput:
    """Return the group with an outermost axis of size 1, for the cores to share where everything else is reduced."""
    name = "unit"
    while any(a.name == name for a in g.axes):
        name += "_"
    unit = Axis(len(g.axes), name, ONE)

    def view(y: TensorView) -> TensorView:
        if y.axis != g.order:
            return y
        axis = (unit.id, *y.axis)
        return replace(y, axis=axis, repeats=(ONE, *y.repeats), strides=(ZERO, *y.strides))

    nodes = tuple(replace(n, y=view(n.y)) for n in g.nodes)
    return replace(g, axes=(*g.axes, unit), order=(unit.id, *g.order), nodes=nodes)


def reordered(g: GroupInput, order: Sequence[int]) -> GroupInput:
    """Return the group with its axes in another order."""
    place = [g.order.index(a) for a in order]

    def view(y: TensorView) -> TensorView:
        if y.axis != g.order:
            return y
        return replace(
            y,
            axis=tuple(order),
            repeats=tuple(y.repeats[p] for p in place),
            strides=tuple(y.strides[p] for p in place),
        )

    nodes = tuple(replace(n, y=view(n.y)) for n in g.nodes)
    return replace(g, order=tuple(order), nodes=nodes)


def with_tiles(g: GroupInput, axis: int, length: int) -> GroupInput:
    """Return the group with a kept axis split into tiles of constant length; the tile index is the outermost axis.

    The last tile holds the rest of the axis: loops and copies stop at the axis's end.
    """
    old = g.axes[axis]
    count = CeilDiv(old.size, length)
    tiles = Axis(len(g.axes), f"{old.name}T", count, AxisType.TILE_OUT, (axis,), align=1)
    inside = Axis(tiles.id + 1, f"{old.name}t", Expr.of(length), AxisType.TILE_IN, (axis,), align=1)
    place = g.order.index(axis)

    def split(values: tuple[Any, ...], outer: Any, inner: Any) -> tuple[Any, ...]:
        return (outer, *values[:place], inner, *values[place + 1 :])

    def view(y: TensorView) -> TensorView:
        if y.axis != g.order:
            return y
        varies, stride = y.repeats[place] != 1, y.strides[place]
        repeats = (count, inside.size) if varies else (ONE, ONE)
        return replace(
            y,
            axis=split(y.axis, tiles.id, inside.id),
            repeats=split(y.repeats, *repeats),
            strides=split(y.strides, stride * length, stride),
        )

    nodes = tuple(replace(n, y=view(n.y)) for n in g.nodes)
    order = split(g.order, tiles.id, inside.id)
    return replace(g, axes=(*g.axes, tiles, inside), order=order, nodes=nodes)


def in_parts(g: GroupInput) -> GroupInput:
    """Return the group with the axis that it reduces in parts cut into these; the group itself without such reductions.

    Raises:
        AutofuseError: AF3002, its tensors are not dense along the rows.
    """
    part = next((n.number(PART) for n in g.nodes if PART in n.attrs), 0)
    if not part:
        return g
    if len(g.reduced) != 1:
        raise AutofuseError.of(
            "AF3002", f"the rows of group {g.group} of {g.graph} do not form one axis"
        )
    cut = with_tiles(g, g.reduced[0], part)
    tiles = cut.order[0]
    inside = cut.order[1 + g.order.index(g.reduced[0])]
    made: set[str] = set()
    nodes: list[Node] = []
    for n in cut.nodes:
        if PART in n.attrs or (n.y.axis == cut.order and not made.isdisjoint(n.inputs)):
            # One result per part.
            made.add(n.name)
            number, row = cut.axes[tiles].size, product(n.y.repeats)
            view = replace(n.y, repeats=(number, *n.y.repeats[1:]), strides=(row, *n.y.strides[1:]))
            n = replace(n, y=view, attrs={k: v for k, v in n.attrs.items() if k != PART})
        nodes.append(n)
    return replace(cut, reduced=(inside,), nodes=tuple(nodes))


def plain(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Return the axes of a graph as seen by templates: a merged axis is one loop."""
    return tuple(
        replace(a, type=AxisType.ORIGINAL, origin=()) if a.type is AxisType.MERGED else a
        for a in axes
    )
