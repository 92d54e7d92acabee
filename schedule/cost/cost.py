"""Cycles of single copies and vector calls, from the figures in a chip's target file.

Timed mode uses them to price the commands of a run.  ``schedule.search.breakdown`` has the time of a template.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from autofuse.targets import TargetSpec

__all__ = [
    "NOTE",
    "Call",
    "Conflict",
    "Copy",
    "Reach",
    "Traffic",
    "call_cycles",
    "copy_cycles",
    "line_factor",
    "load_issue",
    "traffic_us",
]

#: Disclaimer on the model's figures, part of every output.
NOTE = "model: nothing here was measured; docs/performance.md has the model's errors"


class Reach(str, Enum):
    """Source of loaded data."""

    MEMORY = "memory"
    L2 = "l2"
    #: All cores read the same tensor, each starting at a different position, ...
    SHARED = "shared"
    #: ... or all at the same position at the same time.
    SAME_ORDER = "same order"


class Conflict(str, Enum):
    """Conflict of the operands of a vector call in the banks of UB."""

    NONE = "none"
    #: The two operands share groups of banks.
    SOURCES = "sources"
    #: The result is in an operand's bank, some rows apart.
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Copy:
    """The copy of one Load or Store in an iteration.

    Attributes:
        commands: DMA commands.
        rows: number of separate rows in GM, over all commands.
        row_bytes: bytes of a row.
        align: largest power of two that divides the GM addresses of rows, in bytes.
        reach: source of a load.
        permuted: multi-dimensional commands, which move element by element.
    """

    commands: int
    rows: int
    row_bytes: int
    align: int = 512
    reach: Reach = Reach.MEMORY
    permuted: bool = False

    @property
    def nbytes(self) -> int:
        """Number of copied bytes."""
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class Call:
    """Vector calls of one kind.

    Attributes:
        kind: row of the target's vector table.
        count: elements processed by all calls together.
        bits: size of an element.
        conflict: bank conflict of their operands in UB.
        calls: number of calls.
        waits: number of calls that wait for the result of an earlier one.
    """

    kind: str
    count: float
    bits: int
    conflict: Conflict = Conflict.NONE
    calls: float = 1
    waits: float = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes between GM and all cores.

    Attributes:
        read: bytes read from memory.
        reread: bytes read again, from L2.
        shared: bytes per core of tensors that all cores read, each starting at a different position.
        same_order: as ``shared``, with all cores starting at the same position.
        written: bytes written to GM.
        cached: bytes placed in L2: those written, and those read without bypassing L2, each counted once.
        streamed: the part of these that bypasses L2 if L2 cannot hold all of them.
    """

    read: int = 0
    reread: int = 0
    shared: int = 0
    same_order: int = 0
    written: int = 0
    cached: int = 0
    streamed: int = 0


def line_factor(row_bytes: int, align: int, line: int) -> float:
    """Return the average number of cache lines that rows touch, relative to aligned addresses.

    Args:
        row_bytes: bytes of a row.
        align: alignment of rows, in bytes.
        line: bytes of a cache line.
    """
    if row_bytes <= 0 or align >= line:
        return 1.0
    touched = (row_bytes + line - max(align, 1)) / line
    return max(1.0, touched / max(1.0, row_bytes / line))


def traffic_us(traffic: Traffic, target: TargetSpec) -> float:
    """Return the microseconds that GM takes for the bytes of all cores; loads and stores share its bandwidth.

    Writes go to L2.  Written bytes that L2 cannot hold go on to memory.
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


def load_issue(copy: Copy, target: TargetSpec) -> float:
    """Return the cycles that a load command takes in addition to its bytes."""
    return target.model.dims_issue if copy.permuted else target.model.load_issue


def copy_cycles(copy: Copy, cores: float, target: TargetSpec, *, store: bool = False) -> float:
    """Return the cycles that the bytes and rows of a Load or Store take on its pipe, without issuing its commands.

    Args:
        copy: the copy.
        cores: cores that share GM.
        target: the chip.
        store: True for a copy to GM, False for one from GM.
    """
    m = target.model
    if copy.permuted:
        return copy.nbytes / m.dims_rate
    stored = min(m.store_core_rate, _share(m.write_gbs, cores, target))
    return _moved(copy, stored if store else _rate(copy, cores, target), target)


def call_cycles(call: Call, target: TargetSpec) -> tuple[float, float]:
    """Return the cycles of vector calls, heads and elements; 0 for calls that issue no instruction."""
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
    """Return the cycles of the bytes and rows of a copy."""
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
    """Return the load rate of one of ``cores`` cores, in bytes per cycle."""
    m = target.model
    if copy.reach is Reach.L2:
        return min(m.hot_core_rate, _share(m.l2_read_gbs, cores, target))
    if copy.reach is Reach.MEMORY:
        return min(m.load_core_rate, _share(m.read_gbs, cores, target))
    whole = m.same_order_gbs if copy.reach is Reach.SAME_ORDER else m.shared_gbs
    return min(m.load_core_rate, _share(whole, cores, target))


def _share(gbs: float, cores: float, target: TargetSpec) -> float:
    """Return one core's share of a bandwidth in 1e9 B/s, in bytes per cycle."""
    return gbs * 1e3 / (target.clock_mhz * max(cores, 1.0))
