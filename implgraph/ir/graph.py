"""HintGraph and ImplGraph: loop-level graphs, before and after scheduling.

Both are immutable.  A node has one result, called ``y``; its inputs name the nodes that produce them.  Nodes are stored
in execution order.  ``docs/architecture.md`` explains every field; ``printer.py`` defines the text form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from autofuse.base.wording import Wording
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, Expr, align_up, sym
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Symbol

__all__ = [
    "SIZE_ATTRS",
    "AllocType",
    "Api",
    "Axis",
    "AxisSizes",
    "AxisType",
    "BufferKind",
    "BufferPlan",
    "Condition",
    "Hardware",
    "HintGraph",
    "ImplGraph",
    "Mem",
    "Node",
    "Position",
    "Queue",
    "TensorView",
    "TileLength",
    "TilingSpec",
    "TmpBuffer",
]

Attr: TypeAlias = "int | float | str | bool | Expr | tuple[int, ...]"

#: Node attributes that are sizes: integers, or expressions, which are quoted in the text form of a graph.
SIZE_ATTRS = frozenset(
    {"bypass", "expr", "extent", "offset", "pitch", "row", "size", "start", "step", "stride"}
)


class AxisType(str, Enum):
    """Origin of an axis."""

    ORIGINAL = "ORIGINAL"
    MERGED = "MERGED"
    TILE_OUT = "TILE_OUT"
    TILE_IN = "TILE_IN"
    BLOCK_OUT = "BLOCK_OUT"
    BLOCK_IN = "BLOCK_IN"


@frozen
class Axis:
    """A loop axis.

    Attributes:
        id: index into ``graph.axes``.
        name: ``z0``; ``z0z1`` merged; suffix T/t tile out/in, B/b block out/in.
        size: number of iterations.
        origin: ids of the axes it was split or merged from; empty for ORIGINAL.
        align: the multiple that the size is rounded to; -1 for none.
    """

    id: int
    name: str
    size: Expr
    type: AxisType = AxisType.ORIGINAL
    origin: tuple[int, ...] = ()
    align: int = -1
    allow_oversize_axis: bool = False
    allow_unaligned_tail: bool = True


class AllocType(str, Enum):
    """Kind of allocation of a tensor's memory."""

    GLOBAL = "Global"
    QUEUE = "Queue"
    BUFFER = "Buffer"


class Hardware(str, Enum):
    """Memory that holds a tensor."""

    GM = "GM"
    UB = "UB"


class Position(str, Enum):
    """Position of a tensor in local memory: loaded, to be stored, or in between; or in GM."""

    GM = "GM"
    VECIN = "VECIN"
    VECOUT = "VECOUT"
    VECCALC = "VECCALC"


@frozen
class Mem:
    """Memory of a tensor.  ``reuse_id`` is equal for tensors that share one buffer in turn; -1 for none."""

    tensor_id: int
    alloc_type: AllocType
    hardware: Hardware
    position: Position
    offset: Expr | None = None
    reuse_id: int = -1


@frozen
class Queue:
    """The TQue of a tensor: ``buf_num`` buffers (2 = double buffering), at most ``depth`` enqueued at once."""

    id: int
    depth: int
    buf_num: int


@frozen
class TensorView:
    """The result of a node.

    Attributes:
        axis: axis ids, outermost first.
        repeats: size per axis; 1 where the tensor does not vary.
        strides: GM strides in elements, 0 where the tensor is broadcast; tensors that stay in UB hold the strides they
            would have in GM.
        offset: GM offset of the first element, in elements.
        vectorized_axis: axes inside one API call.
        vectorized_strides: UB strides in elements, one per vectorized axis.
    """

    dtype: DType
    axis: tuple[int, ...]
    repeats: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    offset: Expr = ZERO
    vectorized_axis: tuple[int, ...] = ()
    vectorized_strides: tuple[Expr, ...] = ()
    mem: Mem | None = None
    que: Queue | None = None
    buf: int | None = None

    def varies(self) -> tuple[int, ...]:
        """Return the ids of the axes along which the elements differ."""
        pairs = zip(self.axis, self.repeats, strict=True)
        return tuple([a for a, r in pairs if r.number != 1])

    def varies_along(self, axis: int) -> bool:
        """Return True if the elements differ along an axis."""
        return axis in self.axis and self.repeats[self.axis.index(axis)].number != 1


@frozen
class Api:
    """Realisation of a node: ``type`` Compute, ``compute_type`` from the registry, ``unit`` MTE2/Vector/MTE3."""

    type: str
    compute_type: str
    unit: str


@frozen
class TmpBuffer:
    """Scratch space of one API call: ``nbytes`` in the TBuf ``id``."""

    id: int
    nbytes: Expr


@frozen
class Node:
    """One operation.

    Attributes:
        name: unique in the graph.
        op: registry name.
        inputs: names of the nodes whose results are used, in the op's order.
        axis: loop nest around the node, outermost first (all axes, also those inside the API call).
        loop_axis: the innermost generated loop; None for a node outside all loops.
        loop_pass: index among the loops over ``loop_axis``, where reduced data are read in several passes.
        joins: for a node that updates an accumulator: the node of the initial value, whose buffer it shares.
        over: the Load whose queue buffer the result takes over.
        origin: JSON pointer into the input graph; becomes a comment in the generated code.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    y: TensorView
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    axis: tuple[int, ...] = ()
    loop_axis: int | None = None
    api: Api | None = None
    tmp_buffers: tuple[TmpBuffer, ...] = ()
    origin: str = ""
    loop_pass: int = 0
    joins: str | None = None
    over: str | None = None

    @property
    def loop(self) -> tuple[int | None, int]:
        """The innermost generated loop: its axis, and its index among the loops over that axis."""
        return self.loop_axis, self.loop_pass

    def size(self, attr: str, default: int | None = None) -> Expr:
        """Return a size attribute; without a default the node must have it."""
        value = self.attrs[attr] if default is None else self.attrs.get(attr, default)
        assert isinstance(value, int | Expr), f"{attr} of {self.name} is no size"
        return Expr.of(value)

    def number(self, attr: str, default: int | None = None) -> int:
        """Return an integer attribute; without a default the node must have it."""
        value = self.attrs[attr] if default is None else self.attrs.get(attr, default)
        assert isinstance(value, int), f"{attr} of {self.name} is no integer"
        return value


class AxisSizes(dict[int, Expr]):
    """Sizes of axes by id, looked up lazily: few are ever needed."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        super().__init__()
        self._axes = axes

    def __missing__(self, axis: int) -> Expr:
        return self._axes[axis].size


@frozen
class HintGraph:
    """A loop-level graph before scheduling.

    ``Data`` nodes (attr ``index``) are the kernel's inputs, ``Output`` nodes its outputs; ``Load`` and ``Store`` move
    between GM and UB; ``Scalar`` nodes hold compile-time values.  Merged axes stay in the list as origins of the MERGED
    axis.
    """

    name: str
    symbols: tuple[Symbol, ...]
    axes: tuple[Axis, ...]
    nodes: tuple[Node, ...]

    def node(self, name: str) -> Node:
        """Return the node called ``name``."""
        for n in self.nodes:
            if n.name == name:
                return n
        raise KeyError(name)

    def by_name(self) -> dict[str, Node]:
        """Return all nodes by name."""
        return {n.name: n for n in self.nodes}

    def users(self) -> dict[str, list[Node]]:
        """Return, for every node, the nodes that use its result, each once, in order."""
        out: dict[str, list[Node]] = {n.name: [] for n in self.nodes}
        for n in self.nodes:
            for i in dict.fromkeys(n.inputs):
                out[i].append(n)
        return out

    def ops(self, *names: str) -> Iterator[Node]:
        """Return the nodes whose op is one of ``names``."""
        return (n for n in self.nodes if n.op in names)


class BufferKind(str, Enum):
    """Kinds of buffers: a TQue passes between pipes, a TBuf does not."""

    QUEUE = "queue"
    BUF = "buf"


@frozen
class BufferPlan:
    """One TQue or TBuf of a kernel.

    Attributes:
        id: the queue id (``que.id``) or buffer id (``buf``, ``TmpBuffer.id``); the two count separately.
        position: VECIN, VECOUT, or VECCALC for a TBuf.
        copy: True if the queue is a TQueBind that carries loaded data straight to a store.
        nbytes: bytes of one buffer, a multiple of 32.
        tensors: names of the nodes whose results live here, in order of first use.
        bank: the address of each of its buffers modulo 512, for every tile size; None if not fixed by the plan.
    """

    kind: BufferKind
    id: int
    position: Position
    depth: int
    buf_num: int
    nbytes: Expr
    tensors: tuple[str, ...]
    copy: bool = False
    bank: int | None = None

    @property
    def pad(self) -> bool:
        """True if it is empty and only moves the buffers after it to other banks."""
        return self.bank is not None and not self.tensors


@frozen
class Condition:
    """Legality condition of a template: ``value`` is a multiple of ``multiple_of`` in ``at_least`` to ``at_most``."""

    value: Expr
    multiple_of: int = 1
    at_least: int | None = None
    at_most: int | None = None

    def holds(self, env: Mapping[str, int]) -> bool:
        """Return True if the condition holds for these sizes."""
        v = self.value.evaluate(env)
        low = self.at_least is None or v >= self.at_least
        return low and (self.at_most is None or v <= self.at_most) and v % self.multiple_of == 0

    def may_fail(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Return True unless the condition holds for all sizes inside ``ranges``."""
        if self.value.is_const:
            return not self.holds({})
        low, high = bounds(self.value, ranges)
        least, most = self.at_least, self.at_most
        inside = (least is None or low >= least) and (most is None or high <= most)
        return self.multiple_of != 1 or not inside

    def text(self) -> str:
        """The condition in words."""
        parts = [f"is a multiple of {self.multiple_of}"] if self.multiple_of != 1 else []
        parts += [f"is at least {self.at_least}"] if self.at_least is not None else []
        parts += [f"is at most {self.at_most}"] if self.at_most is not None else []
        return Wording(f"{{}} {' and '.join(parts)}", self.value)


@frozen
class TileLength:
    """Length of the tiles of one axis.

    Attributes:
        axis: id of the tiled axis.
        symbol: name of the length, the size of the TILE_IN axis.
        extent: size of the tiled axis.
        granule: lengths are multiples of this, except a tile that is the whole axis and not ``rounded``.
        most: longest legal tile by limits other than UB (rows of one DMA command), or None.
        rounded: a tile that holds the whole axis is also a multiple of the granule.
    """

    axis: int
    symbol: str
    extent: Expr
    granule: int
    most: Expr | None = None
    rounded: bool = False

    @property
    def longest(self) -> Expr:
        """Length of a tile that holds the whole axis."""
        return align_up(self.extent, self.granule) if self.rounded else self.extent

    @property
    def pieces(self) -> Expr:
        """Number of tiles of the axis, in terms of the symbol of their length."""
        return CeilDiv(self.extent, sym(self.symbol))


@frozen
class TilingSpec:
    """Tiling choices of the host for a template, and their limits.

    Attributes:
        lengths: tile lengths, one for each tiled axis.  The search opens one of them, the first.
        block_size: symbol of the number of tiles per core (the size of the BLOCK_IN axis).
        outer: number of iterations of the loops around the tiled axis; 1 if none.
        row_elements: elements per step of the tiled axis inside a tile (1 when the last axis is tiled).
        ub: bytes of UB as a function of the tile symbol and the graph symbols.
        ub_limit: usable bytes of UB on the target.
        conditions: run-time conditions for the template.
        reduce_tiles: True if one core loops over all tiles of the axis in its reduce loop, so the cores do not share
            them.
        reduce_outer: iterations of the reduce loop for each tile; with ``reduce_tiles``, the loop runs over the tiles
            times this.
        first_core: symbol of the core that takes the first tiles, if other groups run alongside; else core 0.
        staggered: passes of the reduce loop in which each core starts at a different step and wraps around.
    """

    lengths: tuple[TileLength, ...]
    block_size: str
    outer: Expr
    row_elements: Expr
    ub: Expr
    ub_limit: int
    conditions: tuple[Condition, ...] = ()
    reduce_tiles: bool = False
    reduce_outer: Expr = ONE
    first_core: str | None = None
    staggered: tuple[int, ...] = ()

    @property
    def opened(self) -> TileLength:
        """The tile length that the search opens."""
        return self.lengths[0]

    @property
    def tiles(self) -> Expr:
        """Number of tiles that the cores share, in terms of the tile symbol."""
        per_axis = ONE if self.reduce_tiles else self.opened.pieces
        return per_axis * self.outer

    @property
    def reduce_steps(self) -> Expr:
        """Iterations of the reduce loop for one of these tiles."""
        per_axis = self.opened.pieces if self.reduce_tiles else ONE
        return per_axis * self.reduce_outer


@frozen
class ImplGraph:
    """A HintGraph (one group of it) plus one schedule: one template, one branch of the kernel.

    Attributes:
        graph: name of the kernel.
        result, group: indices of the ScheduleResult and of the group in it.
        template: template family, such as ``general`` or ``row``.
        suffix: variant, such as ``unaligned``; empty for none.
        y_axis: id of the axis in the Y place of the function's name.
        r_axis: the axis of the reduce loop (in the R place), or None.
    """

    graph: str
    result: int
    group: int
    template: str
    suffix: str
    y_axis: int
    symbols: tuple[Symbol, ...]
    axes: tuple[Axis, ...]
    nodes: tuple[Node, ...]
    buffers: tuple[BufferPlan, ...]
    tiling: TilingSpec
    x_axis: int | None = None
    r_axis: int | None = None

    @property
    def name(self) -> str:
        """Name of the template function, ``<graph>_<result>_<template>_<group>_<X>_<Y>_<R>[_<suffix>]``."""
        x = "nil" if self.x_axis is None else self.x_axis
        r = "nil" if self.r_axis is None else self.r_axis
        tail = f"_{self.suffix}" if self.suffix else ""
        head = f"{self.graph}_{self.result}_{self.template}_{self.group}"
        return f"{head}_{x}_{self.y_axis}_{r}{tail}"

    @property
    def title(self) -> str:
        """Display name of the template among those of its group."""
        tiled = self.axes[self.tiling.opened.axis].name
        return f"{self.variant} (tile {tiled})"

    @property
    def variant(self) -> str:
        """The template with its suffix."""
        return f"{self.template}_{self.suffix}" if self.suffix else self.template

    def by_name(self) -> dict[str, Node]:
        """Return all nodes by name."""
        return {n.name: n for n in self.nodes}

    def merged_from(self, axis: int) -> set[int]:
        """Return an axis and all axes that it was merged from."""
        found = self.axes[axis]
        origin = found.origin if found.type is AxisType.MERGED else ()
        return {axis}.union(*(self.merged_from(a) for a in origin))

    def tile(self, kind: AxisType) -> Axis:
        """The TILE_IN or TILE_OUT axis of the tiling's axis."""
        origin = (self.tiling.opened.axis,)
        return next(a for a in reversed(self.axes) if a.type is kind and a.origin == origin)

    def cut_axes(self) -> tuple[tuple[Axis, Axis], ...]:
        """The axes cut into tiles of a constant length, as (tiles, inside); the last tile may be shorter."""
        made = [a for a in self.axes if a.type is not AxisType.ORIGINAL]
        inside = {a.origin: a for a in made if a.type is AxisType.TILE_IN}
        return tuple(
            (a, inside[a.origin])
            for a in made
            if a.type is AxisType.TILE_OUT and a.origin != (self.tiling.opened.axis,)
        )
