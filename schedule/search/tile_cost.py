"""How long a template takes with tiles of a length on a number of cores: the cost model that tiles are chosen by.

The same formulas, in the same order, as ``autofuse_tile_model.h``; a test compiles that header and compares.  Times are
cycles, without what no choice changes (``kernel_head_us``).  Sizes are integers, times are floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import TilingSpec
from autofuse.schedule.axes.tile_limits import largest_tile
from autofuse.schedule.search.cost_form import Affine, BodyForm, CostForm, Place, Route, six_digits
from autofuse.targets import TargetSpec

__all__ = [
    "BoundForm",
    "ChipTable",
    "Pipes",
    "TileParts",
    "Tiled",
    "bind",
    "chip_table",
    "least_time",
    "paces",
    "pipes_of",
    "tile_parts",
    "tile_time",
]

#: What is hidden, GM or the pipes, counts for this share: of tilings that GM makes equal, the one with the least work
#: is taken.
HIDDEN = 1 / 256
#: Tiles that a last one counts for at most.
MOST_LATE = 40
#: Members that every tile asks for; the interpreter takes long to look them up.
_ONCE, _TILE, _STEP = Place.ONCE, Place.TILE, Place.STEP
_WRITE, _AGAIN, _STREAM = Route.WRITE, Route.AGAIN, Route.STREAM
#: Where a load comes from: memory, L2, what all cores read in one order, or from several places.
_MEMORY, _L2, _SAME, _SHARED = range(4)


@frozen
class ChipTable:
    """The figures of a chip as the solver wants them: cycles, bytes, and bytes per cycle.

    Attributes:
        ub, l2: bytes.
        line, block: bytes of a cache line, and those that a row in UB is rounded up to.
        core_start, load_issue, store_issue, row, load_latency: cycles.
        short_row: bytes that a row of less than a block counts for.
        load_core, l2_core, store_core: rates of one core.
        read, l2_read, same_order, shared, write, writeback: rates of all cores together.
    """

    cores: int
    ub: int
    l2: int
    line: int
    block: int
    short_row: int
    core_start: float
    load_issue: float
    store_issue: float
    row: float
    load_latency: float
    load_core: float
    l2_core: float
    store_core: float
    read: float
    l2_read: float
    same_order: float
    shared: float
    write: float
    writeback: float


@lru_cache(maxsize=16)
def chip_table(target: TargetSpec) -> ChipTable:
    """The figures of a target."""
    m = target.model

    def rate(gbs: float) -> float:
        return six_digits(gbs * 1e3 / target.clock_mhz)

    return ChipTable(
        cores=target.aiv_cores,
        ub=target.ub_usable,
        l2=target.l2_bytes,
        line=target.arch.cache_line_bytes,
        block=target.arch.block_bytes,
        short_row=round(m.short_row),
        core_start=six_digits(m.core_start),
        load_issue=six_digits(m.load_issue),
        store_issue=six_digits(m.store_issue),
        row=six_digits(m.row),
        load_latency=six_digits(m.load_latency),
        load_core=six_digits(m.load_core_rate),
        l2_core=six_digits(m.hot_core_rate),
        store_core=six_digits(m.store_core_rate),
        read=rate(m.read_gbs),
        l2_read=rate(m.l2_read_gbs),
        same_order=rate(m.same_order_gbs),
        shared=rate(m.shared_gbs),
        write=rate(m.write_gbs),
        writeback=rate(m.writeback_gbs),
    )


class Line(NamedTuple):
    """``base + step * t``."""

    base: int
    step: int


class BoundCopy(NamedTuple):
    """A :class:`~autofuse.schedule.search.cost_form.CopyForm` for given sizes; distances are or-ed.

    ``own_base + own_step * t``: its cycles, where they do not follow from the rest; else 0.
    """

    body: int
    route: Route
    number: int
    commands: Line
    rows: Line
    row_bytes: Line
    apart: int
    tiles_apart: int
    distinct: int
    varies: bool
    varies_by_tile: bool
    own_base: float
    own_step: float


class BoundCalls(NamedTuple):
    """Vector calls of a body for given sizes: ``base + step * t`` cycles, 1 + log2(``along``) times, rounded up."""

    body: int
    base: float
    step: float
    along: Line


@frozen
class BoundForm:
    """A template for given sizes.

    Attributes:
        extent, outer, reduce_outer, granule: as of its TilingSpec.
        longest: the tile that holds the whole axis.
        looped: one core goes through all tiles of the axis.
        largest: the largest legal tile, or 0.
        row_step: bytes of a row for each element of a tile that is cut into several, the fewest of all copies; more
            than a block where there are none.
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
class Tiled:
    """A choice: length of a tile, tiles of one core, cores, and the cycles that it takes."""

    tile: int
    per_core: int
    cores: int
    cycles: float


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
        apart = tiles_apart = 0
        for size, distance in c.apart:
            if size is None or size.evaluate(sizes) > 1:
                apart |= distance.evaluate(sizes)
        for distance in c.tiles_apart:
            tiles_apart |= distance.evaluate(sizes)
        own_base, own_step = _weighted(c.cycles, line)
        copies.append(
            BoundCopy(
                c.body,
                c.route,
                c.count,
                line(c.commands),
                line(c.rows),
                line(c.row_bytes),
                apart,
                tiles_apart,
                c.distinct.evaluate(sizes),
                any(v.evaluate(sizes) > 1 for v in c.varying),
                c.varies_by_tile,
                own_base,
                own_step,
            )
        )
    calls = []
    for v in form.calls:
        base, step = _weighted(v.cycles, line)
        calls.append(BoundCalls(v.body, base, step, line(v.along)))
    steps = [c.row_bytes.step for c in copies if c.row_bytes.step > 0 and sum(c.rows) > 1]
    return BoundForm(
        spec.extent.evaluate(sizes),
        max(spec.longest.evaluate(sizes), 1),
        spec.outer.evaluate(sizes),
        spec.reduce_outer.evaluate(sizes),
        spec.granule,
        spec.reduce_tiles,
        largest_tile(spec, sizes, ub),
        min(steps, default=1 << 16),
        form.bodies,
        tuple(copies),
        tuple(calls),
    )


def _weighted(
    parts: Sequence[tuple[float, Affine]], line: Callable[[Affine], Line]
) -> tuple[float, float]:
    base = step = 0.0
    for weight, count in parts:
        at = line(count)
        base += weight * at.base
        step += weight * at.step
    return base, step


class BodyParts(NamedTuple):
    """One run of a loop body.

    Attributes:
        load, vector, store: cycles; those of copies without their bytes.
        loaded: bytes from memory, from L2, of all cores in the same order, and of all from different places.
        stored: bytes.
    """

    load: float
    vector: float
    store: float
    loaded: tuple[float, ...]
    stored: float


class Pipes(NamedTuple):
    """Cycles of the pipes of one core.

    Attributes:
        once: before its tiles.
        period: of each of its tiles.
        exposed: what the first and the last tile leave unhidden.
        rest: what is left once the last bytes have come.
    """

    once: float
    period: float
    exposed: float
    rest: float


@frozen
class TileParts:
    """What follows from the length of a tile alone.

    Attributes:
        pieces: of the axis.
        tiles: that the cores share.
        steps: of the reduce loop.
        bodies: of a whole tile.
        alone: pipes of a core that no other one disturbs.
        tail, behind: cycles that the last tile of the axis takes longer, and leaves unhidden besides, where its rows
            are shorter than a block.
        late: so many tiles take as long, where one core has it; at most ``MOST_LATE``.
        gm, gm_core: cycles of GM for all cores, and more of them for every core that takes part.
    """

    tile: int
    pieces: int
    tiles: int
    steps: int
    bodies: tuple[BodyParts, ...]
    alone: Pipes
    tail: float
    behind: float
    late: int
    gm: float
    gm_core: float


class _Flow(NamedTuple):
    """Where the bytes of a copy come from, and at how many places the cores start there."""

    reach: int
    places: int


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
    length = min(tile, max(form.extent, 1))
    flows, gm, gm_core = _traffic(form, chip, length, pieces, tiles, steps)
    apart = tile if pieces > 1 else 0
    bodies = _bodies(form, chip, flows, length, apart)
    alone = pipes_of(form, chip, bodies, steps, 0)
    rest, tail, behind, late = form.extent - (pieces - 1) * tile, 0.0, 0.0, 0
    if pieces > 1 and rest * form.row_step < chip.block:
        last = pipes_of(form, chip, _bodies(form, chip, flows, rest, apart), steps, 0)
        # Where one core goes through all of the axis, every step of a tile was taken for a last one.
        tail = max(last.period - alone.period, 0.0) / (pieces if form.looped else 1)
        behind = max(last.exposed - alone.exposed, 0.0)
        if not form.looped and tiles == pieces and alone.period > 0:
            late = int(min((tail + behind) / alone.period + 1, MOST_LATE))
    return TileParts(tile, pieces, tiles, steps, bodies, alone, tail, behind, late, gm, gm_core)


def _traffic(
    form: BoundForm, chip: ChipTable, length: int, pieces: int, tiles: int, steps: int
) -> tuple[list[_Flow], float, float]:
    """Where the bytes of every copy come from, and cycles of GM: for all cores, and for each core besides."""
    most = max(min(tiles, chip.cores), 1)
    # Every core goes through all tiles of the axis, again and again.
    rounds = not form.looped and form.outer >= chip.cores
    flows: list[_Flow] = []
    read = again = same = shared = same_core = written = cached = streamed = 0.0
    for c in form.copies:
        body = form.bodies[c.body]
        rows, row = c.rows, c.row_bytes
        own = float(rows.base + rows.step * length) * (row.base + row.step * length)
        moved = c.number * own
        if body.place is _ONCE:
            # Every core reads it.
            flows.append(_Flow(_SAME, 1))
            same_core += moved
            continue
        if rows.step or row.step:
            # All of the axis, however it is cut.
            whole = form.extent
            moved = c.number * (
                float(rows.base + rows.step * whole) * (row.base + row.step * whole)
            )
            moved *= form.outer
            moved *= form.reduce_outer if body.place is _STEP else 1
        else:
            moved *= tiles
            moved *= steps if body.place is _STEP else 1
        distinct = min(float(c.number * c.distinct), moved)
        cached += distinct
        if c.route is _WRITE:
            flows.append(_Flow(_MEMORY, 1))
            written += moved
            continue
        by_tile = c.varies_by_tile and pieces > 1
        if most > 1 and not c.varies and (rounds or not by_tile):
            # All cores read one tensor: those that start at the same place do so in the same order.
            places = max(min(steps if body.staggered else pieces, most), 1)
            places = places if body.staggered or by_tile else 1
            flows.append(_Flow(_SAME, places))
            own_place = moved / places
            same += own_place
            shared += moved - own_place
            continue
        hit = moved - distinct
        if hit > 0:
            held = own * most * max(steps, 1) if c.route is _AGAIN else distinct
            if held > chip.l2:
                hit *= chip.l2 / held
        read += moved - hit
        again += hit
        streamed += distinct if c.route is _STREAM else 0.0
        flows.append(_Flow(_L2 if hit > 0 and 2 * hit >= moved else _MEMORY, 1))
    by_memory, by_l2, in_order, by_place, storing = _shares(chip)
    gm = read * by_memory + again * by_l2
    gm += same * in_order + shared * by_place
    gm += written * storing
    if cached > chip.l2:
        cached -= streamed
    if cached > chip.l2:
        gm += (written - written * (chip.l2 / cached)) / chip.writeback
    return flows, gm, same_core * in_order


def _bodies(
    form: BoundForm, chip: ChipTable, flows: Sequence[_Flow], length: int, apart: int
) -> tuple[BodyParts, ...]:
    """One run of every loop body.

    Args:
        form: a template for given sizes.
        chip: figures.
        flows: of every copy.
        length: of the tile.
        apart: distance of the tiles; 0 where there is one.
    """
    load, store = [0.0] * len(form.bodies), [0.0] * len(form.bodies)
    stored, vector = [0.0] * len(form.bodies), [b.heads for b in form.bodies]
    loaded = [[0.0] * 4 for _ in form.bodies]
    for c, (reach, places) in zip(form.copies, flows, strict=True):
        own = c.own_base + c.own_step * length
        if own > 0:
            load[c.body] += c.number * own
            continue
        commands = c.commands.base + c.commands.step * length
        rows = max(c.rows.base + c.rows.step * length, 1)
        row = c.row_bytes.base + c.row_bytes.step * length
        billed = float(-(-row // chip.block) * chip.block)
        if row < chip.block and rows > 1:
            billed = float(chip.short_row)
        bits = chip.line | c.apart | c.tiles_apart * apart
        off = chip.line - (bits & -bits)
        if off > 0 and row + off > chip.line:
            billed = billed * (row + off) / max(row, chip.line)
        billed *= c.number * rows
        further = chip.row * max(rows - commands, 0)
        i = c.body
        if c.route is _WRITE:
            store[i] += c.number * (chip.store_issue * commands + further)
            stored[i] += billed
            continue
        load[i] += c.number * (chip.load_issue * commands + further)
        in_order = billed / places
        loaded[i][reach] += in_order
        loaded[i][_SHARED] += billed - in_order
    for v in form.calls:
        along = v.along.base + v.along.step * length
        times = 1 + (along - 1).bit_length() if along > 1 else 1
        vector[v.body] += (v.base + v.step * length) * times
    return tuple(
        [
            BodyParts(load[i], vector[i], store[i], tuple(loaded[i]), stored[i])
            for i in range(len(form.bodies))
        ]
    )


@lru_cache(maxsize=1024)
def paces(chip: ChipTable, cores: int) -> tuple[float, ...]:
    """Cycles per byte of one of so many cores: loads by where they come from, and stores."""
    own = (chip.load_core, chip.l2_core, chip.load_core, chip.load_core, chip.store_core)
    return tuple(max(1 / one, cores * all_) for one, all_ in zip(own, _shares(chip), strict=True))


@lru_cache(maxsize=16)
def _shares(chip: ChipTable) -> tuple[float, ...]:
    """Cycles per byte of all cores together, in the same order."""
    rates = (chip.read, chip.l2_read, chip.same_order, chip.shared, chip.write)
    return tuple(1 / rate for rate in rates)


def pipes_of(
    form: BoundForm, chip: ChipTable, bodies: Sequence[BodyParts], steps: int, cores: int
) -> Pipes:
    """The pipes of one of so many cores."""
    memory, l2, same, shared, storing = paces(chip, cores)
    once = period = exposed = rest = 0.0
    for b, (load, vector, store, loaded, stored) in zip(form.bodies, bodies, strict=True):
        mte2 = load + (
            (loaded[0] * memory + loaded[1] * l2) + (loaded[2] * same + loaded[3] * shared)
        )
        mte3 = store + stored * storing
        come = mte2 + chip.load_latency if b.loads else mte2
        alone = max(come + vector + mte3, b.scalar)
        if b.place is _ONCE:
            once += alone
            continue
        times = steps if b.place is _STEP else 1
        if times == 0:
            continue
        wait = come + vector + mte3 if b.chained else max(come, mte3) + vector
        one = max(mte2, vector, mte3, b.scalar, wait / b.buffers)
        period += one * times
        exposed = max(exposed, alone - one)
        rest = max(rest, come - mte2 + vector)
    return Pipes(once, period, exposed, rest)


def least_time(form: BoundForm, chip: ChipTable, parts: TileParts, per_core: int) -> float:
    """Cycles of a choice if cores did not disturb each other: it takes no less.

    Args:
        form: a template for given sizes.
        chip: figures.
        parts: of a length of a tile.
        per_core: tiles of one core.
    """
    if parts.tiles == 0:
        return chip.core_start
    return _together(form, chip, parts, per_core, parts.alone)


def tile_time(form: BoundForm, chip: ChipTable, parts: TileParts, per_core: int) -> float:
    """Cycles of a choice; arguments as of :func:`least_time`."""
    if parts.tiles == 0:
        return chip.core_start
    cores = -(-parts.tiles // per_core)
    pipes = pipes_of(form, chip, parts.bodies, parts.steps, cores)
    return _together(form, chip, parts, per_core, pipes)


def _together(
    form: BoundForm, chip: ChipTable, parts: TileParts, per_core: int, pipes: Pipes
) -> float:
    """Cycles of all cores, with these pipes."""
    cores = -(-parts.tiles // per_core)
    tiles = per_core * pipes.period + _last_tiles(form, parts, per_core, cores)
    busy = pipes.once + pipes.exposed + tiles
    gm = parts.gm + cores * parts.gm_core
    gm += pipes.rest if gm > 0 else 0.0
    return chip.core_start * cores + max(busy, gm) + min(busy, gm) * HIDDEN


def _last_tiles(form: BoundForm, parts: TileParts, per_core: int, cores: int) -> float:
    """What last tiles add to the core that takes longest; of one axis the last core has it, with fewer others."""
    tail, behind = parts.tail, parts.behind
    if tail + behind == 0:
        return 0.0
    if form.looped:
        return per_core * tail + behind
    spare = per_core * cores - parts.tiles if parts.tiles == parts.pieces else 0
    return max(-(-per_core // parts.pieces) * tail + behind - spare * parts.alone.period, 0.0)
