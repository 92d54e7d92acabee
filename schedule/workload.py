"""What a template does at given sizes, for the cost model; and the tile that it is best with.

Everything comes from the ImplGraph: axes, strides, queues, buffers.  The last tile of an axis counts as a whole one in
the time of a core, and with its own bytes in the traffic of all cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autofuse.implgraph.expr import ONE, ZERO
from autofuse.implgraph.graph import AxisType, BufferPlan, ImplGraph, Node
from autofuse.implgraph.ops import lookup
from autofuse.implgraph.reduce_rows import REDUCES
from autofuse.schedule.cost import (
    Body,
    Call,
    Conflict,
    Copy,
    Cost,
    Loop,
    Reach,
    Traffic,
    Work,
    evaluate,
)
from autofuse.schedule.layout import BLOCK
from autofuse.schedule.rank import largest_tile, smallest_tile
from autofuse.schedule.scan import SCAN, scan_run
from autofuse.schedule.transposition import copy_rows, transpose_cycles
from autofuse.targets import TargetSpec

__all__ = [
    "SLACK",
    "Tiling",
    "UbBuffer",
    "bank_conflict",
    "best_tiling",
    "conflicts",
    "tilings",
    "ub_map",
    "workload",
]

#: UB of architecture 2201: 16 groups of banks, 32 bytes each; a bank has the rows of 64 KiB.  One instruction covers 8.
GROUPS, HALF, BANK_BYTES = 16, 8, 1 << 16
#: Tiles per core that are tried beside halves of the largest tile.
SHARES = (1, 2, 3, 4, 5, 6, 8, 12, 16)
#: Where GM is what limits, short tiles seem to cost nothing.  Long ones are taken as far as they cost nothing either.
SLACK = 0.005


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tile length, tiles of one core, and the modelled cost."""

    tile: int
    per_core: int
    cores: int
    cost: Cost


@dataclass(frozen=True, slots=True)
class UbBuffer:
    """Where a buffer lies in UB: ``count`` copies of ``nbytes`` bytes from ``offset``."""

    plan: BufferPlan
    offset: int
    nbytes: int

    @property
    def count(self) -> int:
        """Copies of it."""
        return self.plan.buf_num


def tilings(impl: ImplGraph, target: TargetSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Tile lengths worth evaluating, longest first; none where not even the smallest tile fits.

    Args:
        impl: a template.
        target: the chip.
        sizes: values of all symbols of the graph.
    """
    spec = impl.tiling
    most = largest_tile(spec, sizes)
    if most == 0 or not all(c.holds(sizes) for c in spec.conditions):
        return ()
    least = min(smallest_tile(spec, sizes), most)
    extent, outer = spec.extent.evaluate(sizes), max(spec.outer.evaluate(sizes), 1)
    found = {most, least}
    half = most
    while half > least:
        half //= 2
        found.add(half)
    for share in SHARES:
        wanted = share * target.aiv_cores
        found.update(-(-extent // max(n, 1)) for n in (wanted // outer, -(-wanted // outer)))
    step = spec.granule
    legal = {min(max(-(-t // step) * step, least), most) for t in found}
    return tuple(sorted(legal, reverse=True))


def best_tiling(
    impl: ImplGraph, target: TargetSpec, sizes: Mapping[str, int], *, barriers: int = 0
) -> Tiling | None:
    """The longest tile whose modelled time is at most :data:`SLACK` above the least; None where none is legal."""
    found = []
    for tile in tilings(impl, target, sizes):
        work = workload(impl, target, sizes, tile, barriers=barriers)
        found.append(Tiling(tile, work.rounds, work.cores, evaluate(work, target)))
    least = min((t.cost.total for t in found), default=0.0)
    return next((t for t in found if t.cost.total <= least * (1 + SLACK)), None)


def workload(
    impl: ImplGraph,
    target: TargetSpec,
    sizes: Mapping[str, int],
    tile: int,
    *,
    barriers: int = 0,
    tiling_in_gm: bool = False,
) -> Work:
    """The work of a template.

    Args:
        impl: a template.
        target: the chip.
        sizes: values of all symbols of the graph.
        tile: length of a tile along the tiled axis.
        barriers: times that all cores meet before it.
        tiling_in_gm: the kernel reads its tiling data from GM.
    """
    return _Reader(impl, target, sizes, tile).work(barriers, tiling_in_gm)


def ub_map(impl: ImplGraph, sizes: Mapping[str, int], tile: int) -> tuple[UbBuffer, ...]:
    """The buffers in the order in which the kernel reserves them, from address 0 on."""
    env = {**sizes, impl.tiling.tile_size: tile}
    out: list[UbBuffer] = []
    offset = 0
    for plan in impl.buffers:
        nbytes = plan.nbytes.evaluate(env)
        out.append(UbBuffer(plan, offset, nbytes))
        offset += nbytes * plan.buf_num
    return tuple(out)


def conflicts(
    impl: ImplGraph, sizes: Mapping[str, int], tile: int
) -> tuple[tuple[Node, Conflict], ...]:
    """The vector calls with two tensors as operands, each with how these and the result lie in the banks."""
    starts = _addresses(impl, ub_map(impl, sizes, tile))
    named = impl.by_name()
    return tuple(
        (n, _conflict(n, operands, starts))
        for n in impl.nodes
        if len(operands := _tensors(n, named)) > 1
    )


def bank_conflict(operands: Sequence[int], result: int | None) -> Conflict:
    """The worst collision of a vector call, for the first of its instructions; those that follow move alike.

    An instruction covers eight of the sixteen groups of banks.  Two operands collide in any group that both are in; a
    result collides with an operand in the same bank, unless the two start in the same one, where the write comes one
    instruction later.

    Args:
        operands: UB addresses of the operands.
        result: UB address of the result, or None where it is no tensor.
    """
    groups = [p // BLOCK % GROUPS for p in operands]
    if any((a - b) % GROUPS != HALF for i, a in enumerate(groups) for b in groups[:i]):
        return Conflict.SOURCES
    if result is not None:
        for place, group in zip(operands, groups, strict=True):
            apart = (result // BLOCK - group) % GROUPS
            if place // BANK_BYTES == result // BANK_BYTES and apart not in (0, HALF):
                return Conflict.RESULT
    return Conflict.NONE


def _addresses(impl: ImplGraph, buffers: Iterable[UbBuffer]) -> dict[str, int]:
    """Node -> where its result lies in UB, in the first buffer of its queue."""
    at = {(b.plan.kind, b.plan.id): b.offset for b in buffers}
    out: dict[str, int] = {}
    for n in impl.nodes:
        key = ("queue", n.y.que.id) if n.y.que is not None else ("buf", n.y.buf)
        if key in at:
            out[n.name] = at[key[0], int(key[1] or 0)]
    return out


def _tensors(n: Node, named: Mapping[str, Node]) -> list[Node]:
    """Operands of a vector call that are read from UB as tensors."""
    if n.api is None or n.api.unit != "Vector":
        return []
    return [named[i] for i in n.inputs if i in named and named[i].y.vectorized_axis]


def _conflict(n: Node, operands: Sequence[Node], starts: Mapping[str, int]) -> Conflict:
    """How a call's tensors collide, in the first buffers of their queues."""
    places = [starts[x.name] for x in operands if x.name in starts]
    return bank_conflict(places, starts.get(n.name))


class _Reader:
    """Reads the work of one template at one tiling."""

    def __init__(
        self, impl: ImplGraph, target: TargetSpec, sizes: Mapping[str, int], tile: int
    ) -> None:
        spec = impl.tiling
        self.impl, self.target, self.sizes, self.tile = impl, target, sizes, tile
        self.named = impl.by_name()
        env = {**sizes, spec.tile_size: tile}
        self.tiles = spec.tiles.evaluate(env)
        self.per_core = max(-(-self.tiles // target.aiv_cores), 1)
        self.cores = max(-(-self.tiles // self.per_core), 1)
        self.env = {**env, spec.block_size: self.per_core}
        self.steps = spec.reduce_steps.evaluate(env)
        self.extent = spec.extent.evaluate(sizes)
        self.size = {a.id: a.size for a in impl.axes}
        self.tile_in = impl.tile(AxisType.TILE_IN).id
        self.starts = _addresses(impl, ub_map(impl, sizes, tile))
        self.buffers = min((b.buf_num for b in impl.buffers if b.kind == "queue"), default=2)
        self.carried = {t for b in impl.buffers if b.copy for t in b.tensors}
        self.seen: set[tuple[object, ...]] = set()

    def work(self, barriers: int, tiling_in_gm: bool) -> Work:
        nodes = [n for n in self.impl.nodes if n.api is not None]
        once = [n for n in nodes if n.loop_axis is None]
        inner = [n for n in nodes if n.loop_axis is not None and n.loop_axis == self.impl.r_axis]
        outer = [n for n in nodes if n.loop_axis is not None and n.loop_axis != self.impl.r_axis]
        if self.tiles == 0:
            return Work(1, (), Traffic(), barriers=barriers, tiling_in_gm=tiling_in_gm)
        moved = [self._moved(n, self.cores) for n in once if _copies(n)]
        moved += [self._moved(n, self.tiles) for n in outer if _copies(n)]
        moved += [self._moved(n, self.tiles * self.steps) for n in inner if _copies(n)]
        reach = {m.node: m.reach for m in moved}
        passes = sorted({n.loop_pass for n in inner})
        loops = [
            Loop(self._body([n for n in inner if n.loop_pass == p], reach), self.steps)
            for p in passes
        ]
        if outer:
            loops.append(Loop(self._body(outer, reach), 1))
        return Work(
            self.cores,
            tuple(loops),
            _sum(m.traffic for m in moved),
            once=self._body(once, reach) if once else None,
            rounds=self.per_core,
            barriers=barriers,
            tiling_in_gm=tiling_in_gm,
        )

    # loops ------------------------------------------------------------------------------------
    def _body(self, nodes: Sequence[Node], reach: Mapping[str, Reach]) -> Body:
        loads = tuple(self._copy(n, reach[n.name]) for n in nodes if n.op == "Load")
        stores = tuple(self._copy(n, Reach.MEMORY) for n in nodes if n.op == "Store")
        calls: list[Call] = []
        cycles = 0.0
        for n in nodes:
            if n.op == "UbTranspose":
                cycles += transpose_cycles(self.named[n.inputs[0]], self.impl, self.env)
            elif n.api is not None and n.api.unit == "Vector":
                calls.append(self._call(n))
        straight = [n for n in nodes if n.op == "Load" and n.name in self.carried]
        return Body(
            loads,
            tuple(calls),
            stores,
            self.buffers,
            chained=bool(straight) and not calls,
            scalar_reads=sum(n.op == "Load" and not n.y.vectorized_axis for n in nodes),
            cycles=cycles,
        )

    def _call(self, n: Node) -> Call:
        operands = _tensors(n, self.named)
        views = [n.y, *(x.y for x in operands)]
        count = self._elements(n)
        if n.op == SCAN:
            # Steps of 1, 2, 4, ... elements go over all of them, and the last one adds what comes before.
            run = scan_run(n, dict(enumerate(self.impl.axes)))
            along = math.prod(self._axis(n.y.vectorized_axis[i]) for i in run)
            count *= 1 + max(along - 1, 0).bit_length()
        if n.op in REDUCES:
            count = max((self._elements(x) for x in operands), default=count)
        conflict = Conflict.NONE
        if len(operands) > 1:
            conflict = _conflict(n, operands, self.starts)
        return Call(lookup(n.op).cost, count, max(y.dtype.bits for y in views), conflict)

    def _elements(self, n: Node) -> int:
        """Elements of a node's result in a whole tile."""
        return math.prod(self._axis(a) for a in n.y.vectorized_axis)

    def _axis(self, axis: int) -> int:
        size = self.size[axis].evaluate(self.env)
        return min(size, max(self.extent, 1)) if axis == self.tile_in else size

    # copies -----------------------------------------------------------------------------------
    def _copy(self, n: Node, reach: Reach) -> Copy:
        rows, commands = copy_rows(n, self.impl, self.env)
        rows = max(rows, 1)
        nbytes = self._elements(n) * n.y.dtype.itemsize
        return Copy(max(commands, 1), rows, -(-nbytes // rows), self._align(n), reach)

    def _align(self, n: Node) -> int:
        """What divides the GM addresses of the rows of a copy, in bytes."""
        y, line = n.y, self.target.cache_line_bytes
        found = math.gcd(line, y.offset.evaluate(self.env) * y.dtype.itemsize)
        for axis, stride in zip(y.axis, y.strides, strict=True):
            if stride in (ZERO, ONE) or self.size[axis].evaluate(self.env) <= 1:
                continue
            found = math.gcd(found, stride.evaluate(self.env) * y.dtype.itemsize)
        return found

    def _moved(self, n: Node, times: int) -> _Moved:
        """The bytes of a copy that runs ``times`` times on all cores together."""
        y = n.y
        item, elements = y.dtype.itemsize, self._elements(n)
        nbytes = elements * item * times
        strides = dict(zip(y.axis, y.strides, strict=True))
        apart = [a for a in y.axis if strides[a] != 0]
        distinct = item * math.prod(self._axis(a) for a in apart)
        if self.tile_in in y.vectorized_axis and self.extent > 0:
            pieces = -(-self.extent // self.tile) * self.tile
            nbytes = nbytes * self.extent // pieces
            distinct = distinct * self.extent // pieces
        distinct = min(distinct, nbytes)
        if n.op == "Store":
            return _Moved(n.name, Reach.MEMORY, Traffic(written=nbytes, cached=distinct))
        if self._same_for_all(n):
            together = Traffic(same_order=nbytes, cached=distinct)
            return _Moved(n.name, Reach.SAME_ORDER, together)
        key = (n.inputs[0], str(y.offset), tuple(map(str, y.strides)))
        # A later loop goes through the data that the cores' present tiles have.
        again, footprint = nbytes - distinct, distinct
        if key in self.seen or self.named[n.inputs[0]].op == "Workspace":
            again, distinct = nbytes, 0
            footprint = elements * item * self.cores * max(self.steps, 1)
        self.seen.add(key)
        hit = again * min(self.target.l2_bytes, footprint) // footprint if footprint else 0
        found = Traffic(read=nbytes - hit, reread=hit, cached=distinct)
        return _Moved(n.name, Reach.L2 if 2 * hit >= nbytes > 0 else Reach.MEMORY, found)

    def _same_for_all(self, n: Node) -> bool:
        """Whether all cores load the same data at the same time."""
        y = n.y
        looped = set() if self.impl.r_axis is None else set(self._parts(self.impl.r_axis))
        varying = {
            a
            for a, s in zip(y.axis, y.strides, strict=True)
            if s != 0 and a not in y.vectorized_axis and self.size[a].evaluate(self.env) > 1
        }
        return self.cores > 1 and not varying - looped

    def _parts(self, axis: int) -> Iterator[int]:
        """An axis, and those that it was merged from."""
        yield axis
        found = self.impl.axes[axis]
        if found.type is AxisType.MERGED:
            for a in found.origin:
                yield from self._parts(a)


@dataclass(frozen=True, slots=True)
class _Moved:
    node: str
    reach: Reach
    traffic: Traffic


def _copies(n: Node) -> bool:
    return n.op in ("Load", "Store")


def _sum(parts: Iterable[Traffic]) -> Traffic:
    total = Traffic()
    for t in parts:
        total = Traffic(
            total.read + t.read,
            total.reread + t.reread,
            total.shared + t.shared,
            total.same_order + t.same_order,
            total.written + t.written,
            total.cached + t.cached,
        )
    return total
