"""The cost model: from what a kernel does to the time that each pipe takes, and to the time of the kernel.

A kernel is a :class:`Work`: per core a few loops, each with a body of loads, vector calls and stores, and the traffic
of all cores together.  The figures of the chip are those of its target file, with status and source.
``docs/performance.md`` has the formulas, and how far they are from times measured on silicon.

Times are microseconds of the model, never measurements.  The functions are pure; equal arguments give equal results.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from autofuse.targets import TargetSpec

__all__ = [
    "NOTE",
    "Body",
    "Call",
    "Conflict",
    "Copy",
    "Cost",
    "Loop",
    "Reach",
    "Tail",
    "Traffic",
    "Work",
    "call_cycles",
    "copy_cycles",
    "evaluate",
    "line_factor",
    "load_issue",
    "traffic_us",
]

#: What every output says about the figures of the model.
NOTE = "model: nothing here was measured; docs/performance.md has the model's errors"


class Reach(str, Enum):
    """Where loaded data come from."""

    MEMORY = "memory"
    L2 = "l2"
    #: All cores read the same tensor, each starting at another place, ...
    SHARED = "shared"
    #: ... or all of them at the same place at the same time.
    SAME_ORDER = "same order"


class Conflict(str, Enum):
    """How the operands of a vector call lie in the banks of UB."""

    NONE = "none"
    #: The two operands are in the same groups of banks.
    SOURCES = "sources"
    #: The result is in the bank of an operand, some rows apart.
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Copy:
    """What one Load or Store does in an iteration.

    Attributes:
        commands: DMA commands.
        rows: rows that lie apart in GM, of all commands.
        row_bytes: bytes of a row.
        align: largest power of two that divides the GM addresses of rows, in bytes.
        reach: of a load.
        places: of a ``SHARED`` load: how many places the cores start at; None: each at one of its own.
        directed: the scalar unit reads the place of each command from an index in UB.
        permuted: commands of several dimensions, which go from element to element.
    """

    commands: int
    rows: int
    row_bytes: int
    align: int = 512
    reach: Reach = Reach.MEMORY
    places: int | None = None
    directed: bool = False
    permuted: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes that are copied."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class Call:
    """Vector calls of one kind.

    Attributes:
        kind: row of the target's vector table.
        count: elements that they go over, all together.
        bits: of an element.
        conflict: how their operands lie in the banks of UB.
        calls: how many there are.
        waits: how many of them wait for the result of one before.
    """

    kind: str
    count: float
    bits: int
    conflict: Conflict = Conflict.NONE
    calls: float = 1
    waits: float = 1


@dataclass(frozen=True, slots=True)
class Body:
    """One iteration of a loop.

    Attributes:
        buffers: buffers of each queue: 1, or 2 where copies of one iteration overlap with calls of another.
        chained: the buffer that is loaded is the one that is stored.
        scalar_reads: elements that are read from UB into registers, without those of indices.
        waits: an index is loaded in this iteration, and MTE2 stands still until it is there and read.
    """

    loads: tuple[Copy, ...] = ()
    calls: tuple[Call, ...] = ()
    stores: tuple[Copy, ...] = ()
    buffers: int = 2
    chained: bool = False
    scalar_reads: int = 0
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A body that one core runs ``iterations`` times."""

    body: Body
    iterations: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes between GM and the cores, of all cores.

    Attributes:
        read: read from memory.
        reread: read again, from L2.
        shared: read by every core, of tensors that all cores read; each starts at another place.
        same_order: the same where all start at one place.
        written: to GM.
        cached: what L2 is asked to hold: what is written, and what is read without bypassing L2, each byte once.
        streamed: the part of that which bypasses L2 where L2 cannot hold all of it.
    """

    read: int = 0
    reread: int = 0
    shared: int = 0
    same_order: int = 0
    written: int = 0
    cached: int = 0
    streamed: int = 0


@dataclass(frozen=True, slots=True)
class Tail:
    """The last tile of the axis, where its rows are shorter than a block: it may take longer than the others.

    Attributes:
        loops: as of the work, with what that tile has.
        count: how many such tiles the core with the most to do has.
        spare: tiles that it has fewer than other cores.
    """

    loops: tuple[Loop, ...]
    count: int
    spare: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel, or one group of it, does.

    Attributes:
        cores: cores that take part.
        once: what a core does before its loops.
        loops: of the core with the most to do, one after another; repeated ``rounds`` times.
        barriers: times that all cores meet.
        tiling_in_gm: the tiling data come in GM, not by value.
        tail: of the tiles.
    """

    cores: int
    loops: tuple[Loop, ...]
    traffic: Traffic
    once: Body | None = None
    rounds: int = 1
    barriers: int = 0
    tiling_in_gm: bool = False
    tail: Tail | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Modelled microseconds.

    Attributes:
        mte2, vector, mte3, scalar: how long the pipe is busy on the core with the most to do.
        gm: how long GM takes for the traffic of all cores.
        pipeline: of a core, with what queues of this depth leave unhidden.
        exposed: beside GM or the pipeline's steady state: the first load and the last calls and stores.
        start: of the kernel.
        sync: barriers.
        total: of the kernel.
        limit: what the time is spent on, such as ``GM`` or ``vector``.
    """

    mte2: float
    vector: float
    mte3: float
    scalar: float
    gm: float
    pipeline: float
    exposed: float
    start: float
    sync: float
    total: float
    limit: str

    @property
    def bound(self) -> float:
        """The time below which this work cannot be done on this chip: its busiest resource, and the start."""
        return self.start + max(self.gm, self.mte2, self.vector, self.mte3)


def line_factor(row_bytes: int, align: int, line: int) -> float:
    """Cache lines that rows touch on average, over those that they would touch at aligned addresses.

    Args:
        row_bytes: bytes of a row.
        align: what divides the addresses of rows, in bytes.
        line: bytes of a cache line.
    """
    if row_bytes <= 0 or align >= line:
        return 1.0
    touched = (row_bytes + line - max(align, 1)) / line
    return max(1.0, touched / max(1.0, row_bytes / line))


def traffic_us(traffic: Traffic, target: TargetSpec) -> float:
    """Microseconds that GM takes for the bytes of all cores; loads and stores share it.

    What is written goes to L2.  Of the bytes that L2 is asked to hold and cannot, the written ones go on to memory.
    """
    m = target.model
    cached = traffic.cached - (traffic.streamed if traffic.cached > target.l2_bytes else 0)
    spilled = max(0.0, 1.0 - target.l2_bytes / cached) if cached > 0 else 0.0
    return (
        traffic.read / m.read_gbs
        + traffic.reread / m.l2_read_gbs
        + traffic.shared / m.shared_gbs
        + traffic.same_order / m.same_order_gbs
        + traffic.written / m.write_gbs
        + traffic.written * spilled / m.writeback_gbs
    ) / 1e3


@dataclass(frozen=True, slots=True)
class _Busy:
    """Cycles of the pipes in one iteration; ``period``: between two iterations, ``alone``: of one by itself.

    ``held``: MTE2 stands still so long for an index.
    """

    mte2: float
    vector: float
    mte3: float
    scalar: float
    held: float
    period: float
    alone: float
    latency: float


def evaluate(work: Work, target: TargetSpec) -> Cost:
    """The modelled time of a kernel.

    Per body, a queue of d buffers gives a buffer back after load and calls (or calls and store), so that an iteration
    takes at least a d-th of that, and at least what its busiest pipe takes.  The first iteration and the last are seen
    in full.  All cores together take at least what GM takes, and what GM cannot overlap with.
    """
    us = 1.0 / target.clock_mhz
    pipes = [_busy(loop.body, work.cores, target) for loop in work.loops]
    count = [loop.iterations * work.rounds for loop in work.loops]
    once = _busy(work.once, work.cores, target) if work.once is not None else None
    running = [p for p, n in zip(pipes, count, strict=True) if n > 0]
    steady = sum(n * p.period for p, n in zip(pipes, count, strict=True))
    exposed = max((p.alone - p.period for p in running), default=0.0)
    before = once.alone if once is not None else 0.0
    longer = _longer(work, target)
    pipeline = before + steady + exposed + longer
    gm = traffic_us(work.traffic, target)
    # GM rests until the first load arrives, while the last tile is computed, and where loads wait for an index.
    rest = us * max((p.latency + p.vector for p in running), default=0.0) if gm > 0 else 0.0
    held = us * sum(n * p.held for p, n in zip(pipes, count, strict=True))
    rest += held
    start = target.kernel_head_us + us * target.model.core_start * work.cores
    start += us * target.model.tiling_load if work.tiling_in_gm else 0.0
    sync = us * work.barriers * target.sync_all

    def sum_of(name: str) -> float:
        cycles = sum(n * getattr(p, name) for p, n in zip(pipes, count, strict=True))
        return us * float(cycles + (getattr(once, name) if once is not None else 0.0))

    busy = {name: sum_of(name) for name in ("mte2", "vector", "mte3", "scalar")}
    by_gm = gm + rest >= us * pipeline
    body = max(gm + rest, us * pipeline)
    return Cost(
        **busy,
        gm=gm,
        pipeline=us * pipeline,
        exposed=rest if by_gm else us * (before + exposed),
        start=start,
        sync=sync,
        total=start + body + sync,
        limit=_limit(start, sync, body, by_gm, busy, us * longer, held),
    )


def _longer(work: Work, target: TargetSpec) -> float:
    """Cycles by which a core with last tiles takes longer than one without, both by themselves."""
    tail = work.tail
    if tail is None:
        return 0.0
    whole = [_busy(loop.body, 1, target) for loop in work.loops]
    last = [_busy(loop.body, 1, target) for loop in tail.loops]
    pairs = list(zip(tail.loops, last, whole, strict=True))
    more = sum(loop.iterations * (a.period - b.period) for loop, a, b in pairs)
    behind = max(p.alone - p.period for p in last) - max(p.alone - p.period for p in whole)
    spare = sum(loop.iterations * p.period for loop, p in zip(work.loops, whole, strict=True))
    return max(tail.count * max(more, 0.0) + max(behind, 0.0) - tail.spare * spare, 0.0)


def _limit(
    start: float,
    sync: float,
    body: float,
    by_gm: bool,
    busy: dict[str, float],
    longer: float,
    held: float,
) -> str:
    """What most of the time is spent on: start, barriers, GM, a pipe that is busy nearly always, or else waiting.

    ``longer``: what last tiles add, ``held``: how long loads wait for an index; each is said where it is a fourth.
    """
    if start + sync >= body:
        return "start" if start >= sync else "barriers"
    if by_gm:
        return "GM"
    name = max(busy, key=lambda k: busy[k])
    titles = {"mte2": "MTE2", "vector": "vector", "mte3": "MTE3", "scalar": "scalar"}
    if busy[name] >= 0.8 * body:
        return titles[name]
    if 4 * longer >= body:
        return "last tile"
    return "index" if 4 * held >= body else "queue depth"


def _busy(body: Body, cores: int, target: TargetSpec) -> _Busy:
    """Cycles of one iteration."""
    m = target.model
    mte2 = sum(
        load_issue(c, target) * c.commands + copy_cycles(c, cores, target) for c in body.loads
    )
    mte3 = sum(
        m.store_issue * c.commands + copy_cycles(c, cores, target, store=True) for c in body.stores
    )
    vector = _vector(body.calls, target)
    places = [c.commands for c in body.loads if c.directed]
    # Several commands are a loop of their own.
    turns = 1 + sum(n for n in places if n > 1)
    scalar = m.loop * turns + m.scalar_read * (body.scalar_reads + sum(places))
    latency = m.load_latency if body.loads else 0.0
    held = 0.0
    if body.waits:
        # The first place is read once the index is there; then loads go on as fast as places are read.
        held = latency + max(m.scalar_read, scalar - mte2)
    waits = [latency + held + mte2 + vector, vector + mte3]
    alone = latency + held + mte2 + vector + mte3
    if body.chained:
        waits = [alone]
    period = max(mte2 + held, vector, mte3, scalar, max(waits) / body.buffers)
    return _Busy(mte2, vector, mte3, scalar, held, period, max(alone, scalar), latency)


def load_issue(copy: Copy, target: TargetSpec) -> float:
    """Cycles that a command of a load takes beside its bytes."""
    return target.model.dims_issue if copy.permuted else target.model.load_issue


def copy_cycles(copy: Copy, cores: float, target: TargetSpec, *, store: bool = False) -> float:
    """Cycles that the bytes and rows of a Load or Store take on its pipe, without the issue of its commands.

    Args:
        copy: what is copied.
        cores: cores that share GM.
        target: the chip.
        store: to GM; else from it.
    """
    m = target.model
    if copy.permuted:
        return copy.nbytes / m.dims_rate
    stored = min(m.store_core_rate, _share(m.write_gbs, cores, target))
    return _moved(copy, stored if store else _rate(copy, cores, target), target)


def call_cycles(call: Call, target: TargetSpec) -> tuple[float, float]:
    """Cycles of the heads of vector calls, and of their elements; nothing for those that issue no instruction."""
    row = target.vector[call.kind]
    if call.count <= 0 or not row.rate32:
        return 0.0, 0.0
    m = target.model
    factor = {
        Conflict.NONE: 1.0,
        Conflict.SOURCES: m.conflict_sources,
        Conflict.RESULT: m.conflict_result,
    }[call.conflict]
    elements = (row.cycles(round(call.count), call.bits) - row.head) * factor
    return row.head * call.calls, elements / m.vector_issue


def _moved(copy: Copy, rate: float, target: TargetSpec) -> float:
    """Cycles of the bytes and rows of a copy."""
    if copy.rows <= 0 or copy.row_bytes <= 0:
        return 0.0
    m = target.model
    block = target.arch.block_bytes
    row = float(-(-copy.row_bytes // block) * block)
    if copy.row_bytes < block and copy.rows > 1:
        row = m.short_row
    row *= line_factor(copy.row_bytes, copy.align, target.arch.cache_line_bytes)
    return m.row * max(copy.rows - copy.commands, 0) + copy.rows * row / rate


def _rate(copy: Copy, cores: float, target: TargetSpec) -> float:
    """Bytes per cycle that one of ``cores`` cores loads at."""
    m = target.model
    if copy.reach is Reach.L2:
        return min(m.hot_core_rate, _share(m.l2_read_gbs, cores, target))
    if copy.reach is Reach.MEMORY:
        return min(m.load_core_rate, _share(m.read_gbs, cores, target))
    same = 1.0 if copy.reach is Reach.SAME_ORDER else 1.0 / copy.places if copy.places else 0.0
    whole = 1.0 / (same / m.same_order_gbs + (1.0 - same) / m.shared_gbs)
    return min(m.load_core_rate, _share(whole, cores, target))


def _share(gbs: float, cores: float, target: TargetSpec) -> float:
    """Bytes per cycle of one of ``cores`` cores, of a bandwidth in 1e9 B/s."""
    return gbs * 1e3 / (target.clock_mhz * max(cores, 1.0))


def _vector(calls: Iterable[Call], target: TargetSpec) -> float:
    """Cycles of the vector unit for the calls of one iteration, each of which needs the one before."""
    m = target.model
    heads = elements = longest = 0.0
    for call in calls:
        head, work = call_cycles(call, target)
        if not work:
            continue
        heads += head + m.vector_gap * call.waits
        longest = max(longest, target.vector[call.kind].head + m.vector_gap)
        elements += work
    return (longest if m.vector_fused else heads) + elements
