"""What a template costs with tiles of a given length: the cost model in integers.

The same formulas, in the same order, as ``autofuse_tile_cost.h``; a test compiles that header and
compares.  Costs are ticks of 2**-10 cycles; they leave out what no choice changes (``kernel_head_us``).

One file, as the header is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import lru_cache
from typing import NamedTuple

from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import TilingSpec
from autofuse.schedule.axes.tile_limits import largest_tile
from autofuse.schedule.search.cost_form import (
    RATE_BITS,
    TICK_BITS,
    Affine,
    BodyForm,
    CostForm,
    Place,
    Route,
    ticks,
)
from autofuse.targets import TargetSpec

__all__ = [
    "HIDDEN_BITS",
    "SHARE_BITS",
    "TICK_SHIFT",
    "UNLIMITED",
    "BoundForm",
    "ChipTable",
    "Pipes",
    "Solution",
    "TileParts",
    "bind",
    "chip_table",
    "tile_cost",
    "tile_parts",
    "undisturbed_cost",
]

#: Costs above this stay there; the same number as in the header.
UNLIMITED = (1 << 63) - 1
#: What the parts of a cost are limited to, so that their sum is no overflow in 64 bits; bits of a number of cores.
MOST_TICKS, CORE_BITS = UNLIMITED // 4, 16
#: What is hidden, GM or the pipes, counts for a 256th: of tilings that GM makes equal, the one with the least work is
#: taken.
HIDDEN_BITS = 8
#: Members that every tile asks for; the interpreter takes long to look them up.
_ONCE, _STEP = Place.ONCE, Place.STEP
_WRITE, _AGAIN, _STREAM = Route.WRITE, Route.AGAIN, Route.STREAM
#: Where a copy comes from, as in :class:`BodyParts`: memory, L2, what all cores read in one order, or from several
#: places; and one that is stored.
_MEMORY, _NEAR, _SAME, _APART, _STORED = range(5)
#: From rates to ticks, and of the share of bytes that L2 holds.
TICK_SHIFT = RATE_BITS - TICK_BITS
SHARE_BITS = 20


@frozen
class ChipTable:
    """The figures of a chip as the solver wants them: cycles in ticks, rates in 2**-24 cycles per byte.

    Attributes:
        load_rate, hot_rate, store_rate: of one core.
        read_share, again_share, same_share, shared_share, write_share, writeback_share: of all cores together.
        block: bytes that a row in UB is rounded up to.
    """

    cores: int
    ub: int
    line: int
    l2: int
    load_issue: int
    store_issue: int
    row: int
    latency: int
    short_row: int
    core_start: int
    load_rate: int
    hot_rate: int
    store_rate: int
    read_share: int
    again_share: int
    same_share: int
    shared_share: int
    write_share: int
    writeback_share: int
    block: int

    def row_of_header(self) -> tuple[int, ...]:
        """The members of ``autofuse::Chip``: all but the length of a block, which the header states itself."""
        return astuple(self)[:-1]


@lru_cache(maxsize=16)
def chip_table(target: TargetSpec) -> ChipTable:
    """The figures of a target."""
    m = target.model

    def rate(bytes_per_cycle: float) -> int:
        return round((1 << RATE_BITS) / bytes_per_cycle)

    def share(gbs: float) -> int:
        return rate(gbs * 1e3 / target.clock_mhz)

    return ChipTable(
        cores=target.aiv_cores,
        ub=target.ub_usable,
        line=target.arch.cache_line_bytes,
        l2=target.l2_bytes,
        load_issue=ticks(m.load_issue),
        store_issue=ticks(m.store_issue),
        row=ticks(m.row),
        latency=ticks(m.load_latency),
        short_row=round(m.short_row),
        core_start=ticks(m.core_start),
        load_rate=rate(m.load_core_rate),
        hot_rate=rate(m.hot_core_rate),
        store_rate=rate(m.store_core_rate),
        read_share=share(m.read_gbs),
        again_share=share(m.l2_read_gbs),
        same_share=share(m.same_order_gbs),
        shared_share=share(m.shared_gbs),
        write_share=share(m.write_gbs),
        writeback_share=share(m.writeback_gbs),
        block=target.arch.block_bytes,
    )


@frozen
class Line:
    """``base + step * t``."""

    base: int
    step: int

    def at(self, t: int) -> int:
        """The value for a tile of this length."""
        return self.base + self.step * t


@frozen
class BoundCopy:
    """A :class:`~autofuse.schedule.search.cost_form.CopyForm` for given sizes.

    ``aligned``: its distances in GM, or-ed; ``varies``: along an axis of loops other than that of the tiles.
    """

    body: int
    route: Route
    count: int
    commands: Line
    rows: Line
    row_bytes: Line
    aligned: int
    tiled: int
    whole: int
    each: int
    distinct: int
    footprint: Line
    varies: bool
    varies_by_tile: bool


@frozen
class BoundCalls:
    """Vector calls of a body for given sizes."""

    body: int
    cycles: Line
    along: Line


@frozen
class BoundForm:
    """A template for given sizes.

    Attributes:
        extent, outer, reduce_outer, granule: as of its TilingSpec.
        longest: the tile that holds the whole axis.
        looped: one core goes through all tiles of the axis.
        largest: the largest legal tile, or 0.
        row_step: bytes of a row for each element of a tile that is cut into several, the fewest of all copies;
            as many as no row is too short for where there are none.
    """

    extent: int
    longest: int
    outer: int
    reduce_outer: int
    granule: int
    looped: bool
    largest: int
    row_step: int
    bodies: tuple[BodyForm, ...]
    copies: tuple[BoundCopy, ...]
    calls: tuple[BoundCalls, ...]


@frozen
class Solution:
    """A choice: length of a tile, tiles of one core, cores, and the cost in ticks."""

    tile: int
    per_core: int
    cores: int
    cost: int


def bind(
    form: CostForm,
    spec: TilingSpec,
    sizes: Mapping[str, int],
    ub: int | None = None,
) -> BoundForm:
    """The costs of a template for given sizes.

    Args:
        form: of the template.
        spec: its tiling.
        sizes: values of all symbols of the graph.
        ub: usable bytes of UB, if fewer than the target has.

    Raises:
        ExprError: a size that the template divides by is 0.
    """

    def line(a: Affine) -> Line:
        return Line(a.base.evaluate(sizes), a.step.evaluate(sizes))

    copies = []
    for c in form.copies:
        aligned = tiled = 0
        for size, distance in c.aligned:
            if size is None or size.evaluate(sizes) > 1:
                aligned |= distance.evaluate(sizes)
        for distance in c.tiled:
            tiled |= distance.evaluate(sizes)
        copies.append(
            BoundCopy(
                c.body,
                c.route,
                c.count,
                line(c.commands),
                line(c.rows),
                line(c.row_bytes),
                aligned,
                tiled,
                c.whole.evaluate(sizes),
                c.each.evaluate(sizes),
                c.distinct.evaluate(sizes),
                line(c.footprint),
                any(v.evaluate(sizes) > 1 for v in c.varying),
                c.varies_by_tile,
            )
        )
    calls = tuple(BoundCalls(c.body, line(c.cycles), line(c.along)) for c in form.calls)
    return BoundForm(
        spec.extent.evaluate(sizes),
        max(spec.longest.evaluate(sizes), 1),
        spec.outer.evaluate(sizes),
        spec.reduce_outer.evaluate(sizes),
        spec.granule,
        spec.reduce_tiles,
        largest_tile(spec, sizes, ub),
        min(
            [
                c.row_bytes.step
                for c in copies
                if c.row_bytes.step > 0 and c.rows.base + c.rows.step > 1
            ],
            default=1 << 16,  # longer than any block
        ),
        form.bodies,
        tuple(copies),
        calls,
    )


class BodyParts(NamedTuple):
    """One run of a loop body, in ticks and in bytes by where they come from and go to.

    Attributes:
        load, store: ticks of DMA commands and rows.
        memory, again, same, shared: bytes that are loaded from memory, from L2, by all cores at the same time, and by
            all of them from different places.
        stored: bytes.
    """

    load: int
    memory: int
    again: int
    same: int
    shared: int
    vector: int
    store: int
    stored: int


class Pipes(NamedTuple):
    """Ticks of the pipes of one core: ``once``, and ``period`` for each of its tiles.

    Attributes:
        rest: ticks that are left once the last bytes have come.
        exposed: those of ``once`` that the first and the last tile leave unhidden.
    """

    once: int
    period: int
    rest: int
    exposed: int


@frozen
class TileParts:
    """What follows from the length of a tile alone.

    Attributes:
        tiles: that the cores share.
        steps: of the reduce loop.
        gm, gm_core: ticks of GM for all cores, and more of them for every core that takes part.
        pipes: of a core that no other one disturbs.
        free: cores up to which that is so.
        tail, behind: ticks that the last tile of the axis takes longer than others, and leaves unhidden where it is the
            last one of a core, if its rows are shorter than a block.
        every: so many tiles have one such.
    """

    tile: int
    tiles: int
    steps: int
    bodies: tuple[BodyParts, ...]
    gm: int
    gm_core: int
    pipes: Pipes
    free: int
    tail: int
    behind: int
    every: int


def tile_parts(form: BoundForm, chip: ChipTable, tile: int) -> TileParts:
    """What a tile of this length means for pipes and GM.

    Args:
        form: a template for given sizes.
        chip: figures.
        tile: length of a tile.
    """
    pieces = -(-form.extent // tile)
    tiles = form.outer if form.looped else form.outer * pieces
    steps = pieces * form.reduce_outer if form.looped else form.reduce_outer
    most = max(min(tiles, chip.cores), 1)
    length = min(tile, max(form.extent, 1))
    runs = (0, tiles, tiles * steps)
    # Every core goes through all tiles of the axis, again and again.
    rounds = not form.looped and form.outer >= chip.cores
    flows: list[tuple[int, int]] = []
    read = again = same = shared = same_core = written = cached = streamed = 0
    for c in form.copies:
        body, count, route = form.bodies[c.body], c.count, c.route
        place = body.place
        moved = count * (c.whole + c.each * runs[place])
        distinct = count * c.distinct
        distinct = distinct if distinct < moved else moved
        cached += distinct
        if route is _WRITE:
            flows.append((_STORED, 1))
            written += moved
            continue
        once, by_tile = place is _ONCE, c.varies_by_tile and pieces > 1
        if once or (most > 1 and not c.varies and (rounds or not by_tile)):
            # All cores read one tensor: those that start at the same place do so in the same order.
            places = max(min(steps if body.staggered else pieces, most), 1)
            places = places if body.staggered or by_tile else 1
            flows.append((_SAME, places))
            same += moved // places
            shared += moved - moved // places
            same_core += count * c.each if once else 0
        else:
            hit, reach = moved - distinct, _MEMORY
            if hit > 0:
                held = distinct
                if route is _AGAIN:
                    held = c.footprint.at(length) * most * max(steps, 1)
                if held > chip.l2:
                    hit = hit * ((chip.l2 << SHARE_BITS) // held) >> SHARE_BITS
                reach = _NEAR if 2 * hit >= moved else _MEMORY
            read += moved - hit
            again += hit
            streamed += distinct if route is _STREAM else 0
            flows.append((reach, 1))
    gm = (read * chip.read_share >> TICK_SHIFT) + (again * chip.again_share >> TICK_SHIFT)
    gm += (same * chip.same_share >> TICK_SHIFT) + (shared * chip.shared_share >> TICK_SHIFT)
    gm += written * chip.write_share >> TICK_SHIFT
    if cached > chip.l2:
        cached -= streamed
    if cached > chip.l2:
        spilled = written - (written * ((chip.l2 << SHARE_BITS) // cached) >> SHARE_BITS)
        gm += spilled * chip.writeback_share >> TICK_SHIFT
    apart = tile if pieces > 1 else 0
    bodies = _bodies(form, chip, flows, length, apart)
    alone = Pipes(*_pipes(form, chip, bodies, steps, 0))
    last, tail, behind = form.extent - (pieces - 1) * tile, 0, 0
    if pieces > 1 and last * form.row_step < chip.block:
        shorter = Pipes(*_pipes(form, chip, _bodies(form, chip, flows, last, apart), steps, 0))
        # Where a core goes through all of an axis, every step of a tile was taken for a last one.
        tail = max(shorter.period - alone.period, 0) // (pieces if form.looped else 1)
        behind = min(max(shorter.exposed - alone.exposed, 0), MOST_TICKS)
    return TileParts(
        tile,
        tiles,
        steps,
        bodies,
        min(gm, MOST_TICKS),
        min(same_core * chip.same_share >> TICK_SHIFT, MOST_TICKS >> CORE_BITS),
        Pipes(
            min(alone.once, MOST_TICKS),
            _at_most(alone.period, tiles),
            min(alone.rest, MOST_TICKS),
            alone.exposed,
        ),
        _undisturbed(chip, bodies),
        _at_most(tail, tiles),
        behind,
        1 if form.looped else pieces,
    )


def _at_most(period: int, tiles: int) -> int:
    """Ticks of a tile, all of which together are no overflow."""
    return MOST_TICKS // tiles if tiles * period > MOST_TICKS else period


def _bodies(
    form: BoundForm, chip: ChipTable, flows: Sequence[tuple[int, int]], length: int, apart: int
) -> tuple[BodyParts, ...]:
    """One run of every loop body.

    Args:
        form: a template for given sizes.
        chip: figures.
        flows: of every copy, where it goes to or comes from, and at how many places the cores start there.
        length: of the tile.
        apart: distance of the tiles; 0 where there is one.
    """
    load, store = [0] * len(form.bodies), [0] * len(form.bodies)
    stored = [0] * len(form.bodies)
    moves = [[0, 0, 0, 0] for _ in form.bodies]
    cycles = [0] * len(form.bodies)
    for c, (reach, places) in zip(form.copies, flows, strict=True):
        commands = c.commands.base + c.commands.step * length
        rows = c.rows.base + c.rows.step * length
        row = c.row_bytes.base + c.row_bytes.step * length
        rows = rows if rows > 1 else 1
        padded = -(-row // chip.block) * chip.block
        if row < chip.block and rows > 1:
            padded = chip.short_row
        bits = chip.line | c.aligned | c.tiled * apart
        off = chip.line - (bits & -bits)
        if off > 0 and row + off > chip.line:
            padded = padded * (row + off) // max(row, chip.line)
        body, count = c.body, c.count
        billed = count * rows * padded
        issue = chip.row * (rows - commands) if rows > commands else 0
        if reach == _STORED:
            store[body] += count * (issue + chip.store_issue * commands)
            stored[body] += billed
            continue
        load[body] += count * (issue + chip.load_issue * commands)
        moves[body][reach] += billed // places
        moves[body][_APART] += billed - billed // places
    for v in form.calls:
        along = v.along.at(length)
        times = 1 + (along - 1).bit_length() if along > 1 else 1
        cycles[v.body] += v.cycles.at(length) * times
    return tuple(
        [
            BodyParts(
                load[i],
                memory,
                near,
                in_order,
                apart_,
                form.bodies[i].heads + (cycles[i] >> TICK_SHIFT),
                store[i],
                stored[i],
            )
            for i, (memory, near, in_order, apart_) in enumerate(moves)
        ]
    )


def _undisturbed(chip: ChipTable, bodies: Sequence[BodyParts]) -> int:
    """Cores up to which each moves its bytes as fast as by itself."""
    memory = again = same = shared = stored = 0
    for _, from_memory, from_l2, in_order, apart, _, _, written in bodies:
        memory, again, same = memory | from_memory, again | from_l2, same | in_order
        shared, stored = shared | apart, stored | written
    free = chip.store_rate // chip.write_share if stored else UNLIMITED
    if memory:
        free = min(free, chip.load_rate // chip.read_share)
    if again:
        free = min(free, chip.hot_rate // chip.again_share)
    if same:
        free = min(free, chip.load_rate // chip.same_share)
    if shared:
        free = min(free, chip.load_rate // chip.shared_share)
    return free


def _pipes(
    form: BoundForm, chip: ChipTable, bodies: Sequence[BodyParts], steps: int, cores: int
) -> tuple[int, int, int, int]:
    """:class:`Pipes` of one of so many cores; with 0, of a core that no other one disturbs."""
    once = period = exposed = rest = 0
    for b, parts in zip(form.bodies, bodies, strict=True):
        load, from_memory, from_l2, in_order, apart, vector, store, written = parts
        # Most bodies load from memory alone, and numbers of this size take long to multiply.
        loaded = stored = 0
        if from_memory:
            loaded = from_memory * max(chip.load_rate, cores * chip.read_share)
        if from_l2:
            loaded += from_l2 * max(chip.hot_rate, cores * chip.again_share)
        if in_order:
            loaded += in_order * max(chip.load_rate, cores * chip.same_share)
        if apart:
            loaded += apart * max(chip.load_rate, cores * chip.shared_share)
        if written:
            stored = written * max(chip.store_rate, cores * chip.write_share)
        mte2, mte3 = load + (loaded >> TICK_SHIFT), store + (stored >> TICK_SHIFT)
        come = mte2 + chip.latency if b.loads else mte2
        total, scalar = come + vector + mte3, b.scalar
        alone = total if total > scalar else scalar
        times = steps if b.place is _STEP else 1
        if b.place is _ONCE:
            once += alone
        elif times > 0:
            wait = total if b.chained else (come if come > mte3 else mte3) + vector
            one = max(mte2, vector, mte3, scalar, wait // b.buffers)
            period += one * times
            exposed = alone - one if alone - one > exposed else exposed
            left = come - mte2 + vector
            rest = left if left > rest else rest
    return once + exposed, min(period, UNLIMITED), rest, exposed


def tile_cost(
    form: BoundForm,
    chip: ChipTable,
    parts: TileParts,
    per_core: int,
    best: Solution | None = None,
) -> Solution:
    """The cost of a choice.

    Args:
        form: a template for given sizes.
        chip: figures.
        parts: of a length of a tile.
        per_core: tiles of one core.
        best: another choice, which is returned unless this one costs less.
    """
    cost = undisturbed_cost(chip, parts, per_core)
    if best is not None and cost >= best.cost:
        return best
    cores = -(-parts.tiles // per_core)
    if cores > parts.free:
        once, period, _, _ = _pipes(form, chip, parts.bodies, parts.steps, cores)
        cost = _together(chip, parts, per_core, once, period)
        if best is not None and cost >= best.cost:
            return best
    return Solution(parts.tile, per_core, max(cores, 1), min(cost, UNLIMITED))


def undisturbed_cost(chip: ChipTable, parts: TileParts, per_core: int) -> int:
    """Ticks of a choice if cores did not disturb each other: it costs no less.

    Args:
        chip: figures.
        parts: of a length of a tile.
        per_core: tiles of one core.
    """
    return (
        _together(chip, parts, per_core, parts.pipes.once, parts.pipes.period)
        if parts.tiles > 0
        else chip.core_start
    )


def _together(chip: ChipTable, parts: TileParts, per_core: int, once: int, period: int) -> int:
    """Ticks of all cores, whose pipes take so many once and for each of their tiles."""
    cores = -(-parts.tiles // per_core)
    gm = parts.gm + cores * parts.gm_core
    gm += parts.pipes.rest if gm > 0 else 0
    tails = _tails(parts, per_core, cores) if parts.tail or parts.behind else 0
    return chip.core_start * cores + _hidden(gm, once + per_core * period + tails)


def _tails(parts: TileParts, per_core: int, cores: int) -> int:
    """What last tiles add to the core that takes longest; of one axis the last core has it, with fewer others."""
    spare = 0
    if parts.tiles == parts.every:
        spare = (per_core * cores - parts.tiles) * parts.pipes.period
    return max(-(-per_core // parts.every) * parts.tail + parts.behind - spare, 0)


def _hidden(gm: int, pipeline: int) -> int:
    """Ticks of both at the same time."""
    pipeline = pipeline if pipeline < MOST_TICKS else MOST_TICKS
    if gm > pipeline:
        return gm + (pipeline >> HIDDEN_BITS)
    return pipeline + (gm >> HIDDEN_BITS)
