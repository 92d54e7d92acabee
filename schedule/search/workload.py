"""What a template does at given sizes, for the cost model; and the tile that it is best with.

Everything comes from the ImplGraph: axes, strides, queues, buffers.  The last tile of an axis counts as a whole one in
the time of a core, unless its rows are shorter than a block, and with its own bytes in the traffic of all cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, Min, const
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import AxisSizes, AxisType, BufferPlan, ImplGraph, Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.schedule.axes.tile_limits import largest_tile, smallest_tile
from autofuse.schedule.cost.banks import bank_conflict, data_operands
from autofuse.schedule.cost.cache_hints import bypass_bytes
from autofuse.schedule.cost.cost import (
    Body,
    Call,
    Conflict,
    Copy,
    Cost,
    Loop,
    Reach,
    Tail,
    Traffic,
    Work,
)
from autofuse.schedule.cost.device_calls import summed
from autofuse.schedule.functions import issued
from autofuse.schedule.placement.permutation import is_permuted
from autofuse.schedule.placement.picking import beyond, is_run
from autofuse.schedule.placement.transposition import copy_rows
from autofuse.targets import Architecture, TargetSpec

__all__ = [
    "Tiling",
    "UbBuffer",
    "bank_conflict",
    "conflicts",
    "tilings",
    "ub_map",
    "workload",
]

#: Tiles per core that are tried beside halves of the largest tile.
SHARES = (1, 2, 3, 4, 5, 6, 8, 12, 16)


@frozen
class Tiling:
    """Tile length, tiles of one core, and the modelled cost."""

    tile: int
    per_core: int
    cores: int
    cost: Cost


@frozen
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


def workload(
    impl: ImplGraph,
    target: TargetSpec,
    sizes: Mapping[str, int],
    tile: int,
    *,
    per_core: int | None = None,
    barriers: int = 0,
    tiling_in_gm: bool = False,
) -> Work:
    """The work of a template.

    Args:
        impl: a template.
        target: the chip.
        sizes: values of all symbols of the graph.
        tile: length of a tile along the tiled axis.
        per_core: tiles of one core; None: as few as all cores leave for each.
        barriers: times that all cores meet before it.
        tiling_in_gm: the kernel reads its tiling data from GM.
    """
    return _Reader(impl, target, sizes, tile, per_core).work(barriers, tiling_in_gm)


def ub_map(impl: ImplGraph, sizes: Mapping[str, int], tile: int) -> tuple[UbBuffer, ...]:
    """The buffers in the order in which the kernel reserves them, from address 0 on."""
    env = {**sizes, impl.tiling.tile_size: tile}
    out: list[UbBuffer] = []
    offset = 0
    lengths = {e: e.evaluate(env) for e in {plan.nbytes for plan in impl.buffers}}
    for plan in impl.buffers:
        nbytes = lengths[plan.nbytes]
        out.append(UbBuffer(plan, offset, nbytes))
        offset += nbytes * plan.buf_num
    return tuple(out)


def conflicts(
    impl: ImplGraph, sizes: Mapping[str, int], tile: int, arch: Architecture
) -> tuple[tuple[Node, int, Conflict], ...]:
    """The element-wise vector calls: how many tensors they read, and how these and the result lie in the banks."""
    places = _places(ub_map(impl, sizes, tile))
    named = impl.by_name()
    return tuple(
        [
            (n, len(read), _conflict(n, read, places, arch))
            for n in impl.nodes
            if (read := data_operands(n, named))
        ]
    )


def _places(buffers: Iterable[UbBuffer]) -> dict[str, tuple[int, ...]]:
    """Node -> where its result lies in UB, in each of the buffers of its queue."""
    out: dict[str, tuple[int, ...]] = {}
    for b in buffers:
        at = tuple([b.offset + k * b.nbytes for k in range(b.count)])
        out.update(dict.fromkeys(b.plan.tensors, at))
    return out


def _conflict(
    n: Node, read: Sequence[Node], places: Mapping[str, tuple[int, ...]], arch: Architecture
) -> Conflict:
    """The worst that a call's tensors do to each other; queues go through their buffers in step."""
    found = Conflict.NONE
    if not read:
        return found
    # A result of another width falls behind the operands, or ahead of them.
    bits = n.y.dtype.bits
    alike = n.name in places and all([x.y.dtype.bits == bits for x in read])
    turns = [places[x.name] for x in read] + ([places[n.name]] if alike else [])
    for turn in range(max(map(len, turns))):
        at = [t[turn % len(t)] for t in turns]
        now = bank_conflict(at[: len(read)], at[-1] if alike else None, arch)
        if now is Conflict.SOURCES:
            return now
        found = now if found is Conflict.NONE else found
    return found


class _Reader:
    """Reads the work of one template at one tiling."""

    def __init__(
        self,
        impl: ImplGraph,
        target: TargetSpec,
        sizes: Mapping[str, int],
        tile: int,
        per_core: int | None,
    ) -> None:
        spec = impl.tiling
        self.impl, self.target, self.sizes, self.tile = impl, target, sizes, tile
        self.named = impl.by_name()
        env = {**sizes, spec.tile_size: tile}
        self.tiles = spec.tiles.evaluate(env)
        self.per_core = per_core or max(-(-self.tiles // target.aiv_cores), 1)
        self.cores = max(-(-self.tiles // self.per_core), 1)
        self.env = {**env, spec.block_size: self.per_core}
        self.steps = spec.reduce_steps.evaluate(env)
        self.extent = spec.extent.evaluate(sizes)
        #: Every core goes through all tiles of the axis, again and again.
        outer = spec.outer.evaluate(env)
        self.rounds = not spec.reduce_tiles and outer >= target.aiv_cores
        self.size = AxisSizes(impl.axes)
        #: Of an axis in tiles of a constant length: the axis itself, and its tiles.
        self.cut: dict[int, tuple[Expr, Expr]] = {}
        for tiles, inside in impl.cut_axes():
            whole = self.size[inside.origin[0]]
            self.cut[inside.id] = whole, self.size[tiles.id]
            # It may be shorter than one of them.
            self.size[inside.id] = Min(inside.size, whole)
        self.tile_in = impl.tile(AxisType.TILE_IN).id
        # So may the tile itself: its length is rounded up.
        self.size[self.tile_in] = Min(self.size[self.tile_in], max(self.extent, 1))
        self.places = _places(ub_map(impl, sizes, tile))
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
        of = {m.node: m for m in moved}
        loops = self._loops(inner, outer, of, self.steps)
        return Work(
            self.cores,
            loops,
            _sum(m.traffic for m in moved),
            once=self._body(once, of) if once else None,
            rounds=self.per_core,
            barriers=barriers,
            tiling_in_gm=tiling_in_gm,
            tail=self._tail(inner, outer, of),
        )

    # loops ------------------------------------------------------------------------------------
    def _loops(
        self, inner: Sequence[Node], outer: Sequence[Node], of: Mapping[str, _Moved], steps: int
    ) -> tuple[Loop, ...]:
        passes = sorted({n.loop_pass for n in inner})
        loops = [
            Loop(self._body([n for n in inner if n.loop_pass == p], of), steps) for p in passes
        ]
        return (*loops, Loop(self._body(outer, of), 1)) if outer else tuple(loops)

    def _tail(
        self, inner: Sequence[Node], outer: Sequence[Node], of: Mapping[str, _Moved]
    ) -> Tail | None:
        """The last tile of the axis, if it has rows that are shorter than a block, as no element is longer than one."""
        pieces = -(-self.extent // self.tile)
        last = self.extent - (pieces - 1) * self.tile
        block = self.target.arch.block_bytes
        if pieces <= 1 or last >= block:
            return None
        reader = _Reader(self.impl, self.target, self.sizes, self.tile, self.per_core)
        reader.size[self.tile_in] = const(last)
        looped = self.impl.tiling.reduce_tiles
        # A core that goes through all of an axis has one last step for every round of them.
        loops = reader._loops(inner, outer, of, self.steps // pieces if looped else self.steps)
        copies = [c for loop in loops for c in (*loop.body.loads, *loop.body.stores)]
        if not any(c.rows > 1 and c.row_bytes < block for c in copies):
            return None
        if looped:
            return Tail(loops, self.per_core, 0)
        spare = self.per_core * self.cores - self.tiles if self.tiles == pieces else 0
        return Tail(loops, -(-self.per_core // pieces), spare)

    def _body(self, nodes: Sequence[Node], moved: Mapping[str, _Moved]) -> Body:
        loads = tuple(self._copy(n, moved[n.name]) for n in nodes if n.op == "Load")
        stores = tuple(self._copy(n, moved[n.name]) for n in nodes if n.op == "Store")
        calls: list[Call] = []
        for n in nodes:
            if n.api is not None and n.api.unit == "Vector":
                calls += self._calls(n)
        straight = [n for n in nodes if n.op == "Load" and n.name in self.carried]
        indices = {i for n in nodes if n.op == "Load" for i in n.inputs[1:]}
        return Body(
            loads,
            tuple(calls),
            stores,
            self.buffers,
            chained=bool(straight),
            scalar_reads=sum(
                n.op == "Load" and not n.y.vectorized_axis and n.name not in indices for n in nodes
            ),
            waits=any(n.name in indices for n in nodes),
        )

    def _calls(self, n: Node) -> tuple[Call, ...]:
        operands = [self.named[i] for i in n.inputs if i in self.named]
        views = [n.y, *(x.y for x in operands if x.y.vectorized_axis)]
        bits = max(y.dtype.bits for y in views)
        length = {**self.env, self.impl.tiling.tile_size: self._axis(self.tile_in)}
        found = issued(n, self.impl, self.named, lambda a: self.size[a], length, self.target.arch)
        if found is None:
            conflict = _conflict(n, data_operands(n, self.named), self.places, self.target.arch)
            return (Call(lookup(n.op).cost, self._elements(n), bits, conflict),)
        return summed(found, bits)

    def _elements(self, n: Node) -> int:
        """Elements of a node's result in a whole tile."""
        return math.prod(self._axis(a) for a in n.y.vectorized_axis)

    def _axis(self, axis: int) -> int:
        return self.size[axis].evaluate(self.env)

    # copies -----------------------------------------------------------------------------------
    def _copy(self, n: Node, moved: _Moved) -> Copy:
        copied = copy_rows(n, self.impl, self.size, self.env)
        rows = max(copied.rows, 1)
        nbytes = (copied.elements if is_run(n) else self._elements(n)) * n.y.dtype.itemsize
        commands = max(copied.commands, 1)
        row = -(-nbytes // rows)
        directed = n.op == "Load" and len(n.inputs) > 1
        return Copy(
            commands,
            rows,
            row,
            self._align(n),
            moved.reach,
            moved.places,
            directed,
            is_permuted(n),
        )

    def _align(self, n: Node) -> int:
        """What divides the GM addresses of the rows of a copy, in bytes."""
        y, line = n.y, self.target.arch.cache_line_bytes
        found = math.gcd(line, y.offset.evaluate(self.env) * y.dtype.itemsize)
        if n.inputs[1:] and n.op == "Load":
            found = math.gcd(found, n.size("stride").evaluate(self.env) * y.dtype.itemsize)
        inside = y.vectorized_axis[-1:] if is_run(n) else ()
        for axis, stride in zip(y.axis, y.strides, strict=True):
            if stride in (ZERO, ONE) or axis in inside or self.size[axis].evaluate(self.env) <= 1:
                continue
            found = math.gcd(found, stride.evaluate(self.env) * y.dtype.itemsize)
        return found

    def _moved(self, n: Node, times: int) -> _Moved:
        """The bytes of a copy that runs ``times`` times on all cores together."""
        y = n.y
        item, elements = y.dtype.itemsize, self._elements(n)
        nbytes = elements * item * times
        strides = dict(zip(y.axis, y.strides, strict=True))
        # What an index names is taken to be other elements each time.
        apart = [a for a in y.axis if strides[a] != 0 or n.inputs[1:]]
        distinct = item * math.prod(self._axis(a) for a in apart)
        if self.tile_in in y.vectorized_axis and self.extent > 0:
            pieces = -(-self.extent // self.tile) * self.tile
            nbytes = nbytes * self.extent // pieces
            distinct = distinct * self.extent // pieces
        for a in self.cut.keys() & set(y.vectorized_axis):
            length, tiles = (e.evaluate(self.env) for e in self.cut[a])
            pieces = max(tiles * self.size[a].evaluate(self.env), 1)
            nbytes = nbytes * length // pieces
            distinct = distinct * length // pieces
        distinct = min(distinct, nbytes)
        if is_run(n) and nbytes > 0:
            between = self._between(n, nbytes // item, times) * item
            distinct += between * distinct // nbytes
            nbytes += between
        if n.op == "Store":
            return _Moved(n.name, Reach.MEMORY, Traffic(written=nbytes, cached=distinct))
        if self._same_for_all(n):
            places = self._places_of(n)
            together = Traffic(
                shared=nbytes - nbytes // places, same_order=nbytes // places, cached=distinct
            )
            if places == 1:
                return _Moved(n.name, Reach.SAME_ORDER, together)
            return _Moved(n.name, Reach.SHARED, together, places)
        key = (n.inputs[0], str(y.offset), tuple(map(str, y.strides)))
        # A later loop goes through the data that the cores' present tiles have.
        again, footprint = nbytes - distinct, distinct
        if key in self.seen or self.named[n.inputs[0]].op == "Workspace":
            again, distinct = nbytes, 0
            footprint = elements * item * self.cores * max(self.steps, 1)
        self.seen.add(key)
        hit = again * min(self.target.l2_bytes, footprint) // footprint if footprint else 0
        streamed = distinct if bypass_bytes(n) is not None else 0
        found = Traffic(read=nbytes - hit, reread=hit, cached=distinct, streamed=streamed)
        return _Moved(n.name, Reach.L2 if 2 * hit >= nbytes > 0 else Reach.MEMORY, found)

    def _between(self, n: Node, elements: int, times: int) -> int:
        """Elements that the runs of a Load have beside its own, in all tiles together."""
        step = abs(dict(zip(n.y.axis, n.y.strides, strict=True))[n.y.vectorized_axis[-1]].value)
        copied = copy_rows(n, self.impl, self.size, self.env)
        rows = copied.rows * times
        if copied.of_the_tile and self.extent > 0:
            rows = rows * self.extent // (-(-self.extent // self.tile) * self.tile)
        return (elements - rows) * (step - 1) + rows * beyond(n)

    def _same_for_all(self, n: Node) -> bool:
        """Whether all cores load the same data at the same time."""
        y = n.y
        r_axis = self.impl.r_axis
        looped = set() if r_axis is None else self.impl.merged_from(r_axis)
        if self.rounds:
            looped.add(self.impl.tile(AxisType.TILE_OUT).id)
        # Where an index directs a load, other elements of the index are other places.
        views = [y, *(self.named[i].y for i in n.inputs[1:])]
        varying = {
            a
            for v in views
            for a, s in zip(v.axis, v.strides, strict=True)
            if s != 0 and a not in v.vectorized_axis and self.size[a].evaluate(self.env) > 1
        }
        return self.cores > 1 and (not varying - looped or self._names_most(n))

    def _names_most(self, n: Node) -> bool:
        """Whether an index is so long that each core comes by half of its table: all of them read one tensor then."""
        if not n.inputs[1:]:
            return False
        index = self.named[n.inputs[1]].y
        axes = [a for a, s in zip(index.axis, index.strides, strict=True) if s != 0]
        names = math.prod(self.size[a].evaluate(self.env) for a in axes)
        # Of evenly spread names, ln 2 = 0.69 for each place of the table come by half of it.
        return 100 * names >= 69 * self.cores * n.size("extent").evaluate(self.env)

    def _places_of(self, n: Node) -> int:
        """At how many places the cores start in a tensor that all of them load."""
        inside = n.loop_axis is not None and n.loop_axis == self.impl.r_axis
        if self.rounds and self.tile_in in n.y.vectorized_axis and n.loop_axis is not None:
            return max(min(-(-self.extent // self.tile), self.cores), 1)
        if self._names_most(n):
            return self.cores
        if not inside or n.loop_pass not in self.impl.tiling.staggered:
            return 1
        return max(min(self.steps, self.cores), 1)


@frozen
class _Moved:
    node: str
    reach: Reach
    traffic: Traffic
    places: int | None = None


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
            total.streamed + t.streamed,
        )
    return total
