"""Prices the twin's recordings: steps with cycles by the cost model of a chip (``autofuse.schedule.cost.cost``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autofuse.codegen.passes.row_costs import PORTS, kinds_of_calls
from autofuse.machines.twin.run.record import DIMS, WRITE, CoreRecord
from autofuse.machines.twin.timed.clocks import Cause, Kind, Pipe, Step
from autofuse.machines.twin.timed.gm_reach import Reached, Transfers
from autofuse.schedule.cost.banks import bank_conflict
from autofuse.schedule.cost.cost import (
    Call,
    Conflict,
    Copy,
    Reach,
    Traffic,
    call_cycles,
    copy_cycles,
    load_issue,
    traffic_us,
)
from autofuse.targets import TargetSpec

__all__ = ["OTHER_CALLS", "Priced", "kind_of", "on_registers", "price"]

#: Rows of the vector table for functions that no registry row calls directly: functions of the shared headers, and
#: others that the twin knows.
OTHER_CALLS: Mapping[str, str] = {
    "AddRelu": "binary",
    "ArithProgression": "unary",
    "Axpy": "binary",
    "BlockReduceMax": "block_reduce",
    "BlockReduceMin": "block_reduce",
    "BlockReduceSum": "block_reduce",
    "Brcb": "broadcast",
    "Copy": "unary",
    "CreateVecIndex": "unary",
    "FusedMulAdd": "binary",
    "FusedMulAddRelu": "binary",
    "Gather": "gather",
    "GatherMask": "transpose",
    "GetCmpMask": "unary",
    "MulAddDst": "binary",
    "PairReduceSum": "unary",
    "Reciprocal": "unary",
    "ReduceMax": "reduce",
    "ReduceMin": "reduce",
    "ReduceSum": "reduce",
    "Rsqrt": "unary",
    "SetCmpMask": "unary",
    "SubRelu": "binary",
    "TransDataTo5HD": "transpose",
    "Transpose": "transpose",
    "WholeReduceMax": "reduce",
    "WholeReduceMin": "reduce",
    "WholeReduceSum": "reduce",
}


#: Rows for register functions with other names, and register functions without cost.
_ON_REGISTERS = {"Compares": "compare", "Truncate": "cast", "Reduce": "reduce"}
_MASKS = frozenset({"CreateMask", "UpdateMask"})
_BARRIER = "LocalMemBar"
_PORTS = {"LoadAlign": PORTS["load"], "StoreAlign": PORTS["store"]}
#: Bytes charged for an element of a register, for every dtype.
_LANE = 4


@dataclass(frozen=True, slots=True)
class Priced:
    """The priced stream of a core.

    Attributes:
        steps: one per event.
        reached: position of a copy -> the location of its bytes.
        conflicts: position of a vector call with data in UB -> its bank conflict.
        unpriced: functions without a known row in the vector table; they count as ``unary``.
    """

    steps: list[Step]
    reached: Mapping[int, Reached]
    conflicts: Mapping[int, Conflict]
    unpriced: frozenset[str]


def kind_of(api: str) -> str | None:
    """Return the row of a target's vector table for an Ascend C function, or None if the table lacks it."""
    return kinds_of_calls().get(api) or OTHER_CALLS.get(api)


def on_registers(parts: Iterable[tuple[str, float]], target: TargetSpec) -> tuple[float, float]:
    """Return the cycles of a register function: its head, plus the longer of its operations and its loads and stores.

    Operations issue one at a time (figure ``vector_issue``). A barrier takes as long as one between calls.

    Args:
        parts: register functions, with the number of executions of each.
        target: the chip.
    """
    lanes = target.arch.vector_bytes // _LANE
    work = ports = 0.0
    for api, count in parts:
        if api in _PORTS:
            ports += _PORTS[api] * count
        elif api == _BARRIER:
            work += target.model.vector_gap * count
        elif api not in _MASKS:
            kind = _on_registers(api) or "unary"
            work += call_cycles(Call(kind, count * lanes, 8 * _LANE), target)[1]
    return target.vector["unary"].head, max(work, ports)


def _on_registers(api: str) -> str | None:
    """Return the row of the vector table for a register function."""
    return _ON_REGISTERS.get(api) or kind_of(api)


def price(record: CoreRecord, number: int, found: Transfers, target: TargetSpec) -> Priced:
    """Return the priced steps of a core.

    Args:
        record: the core.
        number: its position among the recorded cores.
        found: the copies of all recorded cores.
        target: the chip.
    """
    return _Pricer(record, number, found, target).priced()


class _Pricer:
    def __init__(
        self, record: CoreRecord, number: int, found: Transfers, target: TargetSpec
    ) -> None:
        self.target = target
        self.apis = record.apis
        self.found, self.reached = found, found.by_core[number]
        self.cores = max(1.0, found.share[number])
        #: Columns of the events as lists, which are much faster to index than arrays.
        self.of = {n: record.events[n].tolist() for n in record.events.dtype.names or ()}
        self.conflicts: dict[int, Conflict] = {}
        self.unpriced: set[str] = set()
        self.calls: dict[Call, tuple[float, float]] = {}
        self.copies: dict[tuple[Copy, bool], float] = {}

    def priced(self) -> Priced:
        m, of = self.target.model, self.of
        steps: list[Step] = []
        heads: dict[int, float] = {}
        last = 0
        for i, (kind, pipe, cause, flag) in enumerate(
            zip(of["kind"], of["pipe"], of["cause"], of["flag"], strict=True)
        ):
            step = Step(_KINDS[kind], _PIPES[pipe], flag, _CAUSES[cause])
            steps.append(step)
            if step.kind is not Kind.ISSUE:
                continue
            if not of["nested"][i]:
                # A jump to an earlier line starts an iteration.
                line = of["line"][i]
                step.before = m.loop if line < last else 0.0
                last = line
            if step.pipe is Pipe.V:
                heads[i], step.cycles = self._call(i)
            elif step.pipe is Pipe.SCALAR:
                step.cycles = m.scalar_read
            else:
                self._copy(step, i)
        for i, head in (
            _of_chains(steps, heads, m.vector_gap) if m.vector_fused else heads
        ).items():
            steps[i].cycles += head
        return Priced(steps, self.reached, self.conflicts, frozenset(self.unpriced))

    # the vector unit ---------------------------------------------------------------------------
    def _call(self, i: int) -> tuple[float, float]:
        """Return the cycles of the head and of the elements."""
        if self._is_part(i + 1):
            return self._on_registers(i + 1)
        api = self.apis[self.of["api"][i]]
        kind = kind_of(api)
        if kind is None:
            self.unpriced.add(api)
            kind = "unary"
        # Gather fetches elements one by one.
        conflict = None if kind == "gather" else self._conflict(i)
        if conflict is not None:
            self.conflicts[i] = conflict
        bits = 8 * self.of["bytes"][i]
        call = Call(kind, self.of["count"][i], bits, conflict or Conflict.NONE)
        if call not in self.calls:
            self.calls[call] = call_cycles(call, self.target)
        return self.calls[call]

    def _is_part(self, i: int) -> bool:
        """Return True if event ``i`` exists and belongs to a register function."""
        kinds = self.of["kind"]
        return i < len(kinds) and _KINDS[kinds[i]] is Kind.PART

    def _on_registers(self, first: int) -> tuple[float, float]:
        """Return the cycles of a register function, whose operations begin at an event."""
        parts: list[tuple[str, float]] = []
        i = first
        while self._is_part(i):
            api = self.apis[self.of["api"][i]]
            if api not in {*_PORTS, *_MASKS, _BARRIER} and _on_registers(api) is None:
                self.unpriced.add(api)
            parts.append((api, self.of["count"][i]))
            i += 1
        return on_registers(parts, self.target)

    def _conflict(self, i: int) -> Conflict | None:
        """Return the bank conflict of the operands; None for calls with fewer than two tensors in UB."""
        n, writes = self.of["spans"][i], self.of["writes"][i]
        lo, hi = self.of["lo"][i], self.of["hi"][i]
        reads = [k for k in range(n) if not writes >> k & 1]
        if n < 2 or not reads:
            return None
        # Masks are short compared to the data, and their addresses cannot avoid the data's banks.
        most = max(hi[k] - lo[k] for k in reads)
        data = [lo[k] for k in reads if 2 * (hi[k] - lo[k]) > most]
        alike = writes & 1 and hi[0] - lo[0] == most
        return bank_conflict(data, lo[0] if alike else None, self.target.arch)

    # copies ------------------------------------------------------------------------------------
    def _copy(self, step: Step, i: int) -> None:
        if i not in self.reached:
            return
        m, where = self.target.model, self.reached[i]
        copy = self._command(i, where.reach)
        if self.of["gm_use"][i] & WRITE:
            step.lead = m.store_issue
            step.cycles = m.store_issue + self._moved(copy, store=True)
            traffic = Traffic(written=copy.nbytes)
            spilling = replace(traffic, cached=self.found.cached)
            step.later = self._share(spilling) - self._share(traffic)
        else:
            step.lead, step.latency = load_issue(copy, self.target), m.load_latency
            hit = where.hit / copy.nbytes
            step.cycles = step.lead + (1 - hit) * self._moved(copy)
            if hit:
                step.cycles += hit * self._moved(replace(copy, reach=Reach.L2))
            traffic = Traffic(
                read=where.far if where.reach is Reach.MEMORY else 0,
                reread=where.hit,
                shared=where.far if where.reach is Reach.SHARED else 0,
                same_order=where.far if where.reach is Reach.SAME_ORDER else 0,
            )
        step.hold = self._share(traffic)

    def _command(self, i: int, reach: Reach) -> Copy:
        """Return a copy as the cost model describes it."""
        of = self.of
        if of["gm_use"][i] & DIMS:
            return Copy(1, 1, of["count"][i] * of["bytes"][i], reach=reach, permuted=True)
        rows = of["gm_rows"][i]
        align = math.gcd(self.target.arch.cache_line_bytes, of["gm_at"][i])
        if rows > 1:
            align = math.gcd(align, of["gm_pitch"][i])
        return Copy(1, rows, of["gm_bytes"][i], align, reach)

    def _share(self, traffic: Traffic) -> float:
        """Return the cycles of the core's share of GM."""
        return traffic_us(traffic, self.target) * self.target.clock_mhz * self.cores

    def _moved(self, copy: Copy, *, store: bool = False) -> float:
        """Return the cycles of the bytes and rows."""
        if (copy, store) not in self.copies:
            found = copy_cycles(copy, self.cores, self.target, store=store)
            self.copies[copy, store] = found
        return self.copies[copy, store]


#: Number -> member: a lookup is faster than calling the class.
_KINDS, _PIPES, _CAUSES = list(Kind), list(Pipe), list(Cause)


def _of_chains(steps: Sequence[Step], heads: Mapping[int, float], gap: float) -> dict[int, float]:
    """Merge calls on registers: calls between two waits are one call, with the head of the longest."""
    out: dict[int, float] = {}
    first = -1
    for i, step in enumerate(steps):
        if step.pipe is Pipe.V and step.kind is Kind.WAIT:
            first = -1
        elif i in heads:
            first = i if first < 0 else first
            out[first] = max(out.get(first, 0.0), heads[i] + gap)
    return out
