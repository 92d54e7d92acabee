"""Timed mode: a run of a kernel with clocks from the cost model of a chip.

The kernel runs once in full. Then some cores run again and are recorded (``twin.run.record``), their instructions are
priced (``twin.timed.pricing``) and simulated (``twin.timed.clocks``). The result is JSON; all times in it are modelled,
none is measured.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.machines.twin.run.findings import KernelText
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.run.record import WRITE, Buffer, CoreRecord, Recording
from autofuse.machines.twin.timed.clocks import (
    CAUSES,
    PIPES,
    Kind,
    Pipe,
    Played,
    Step,
    critical_path,
    play,
)
from autofuse.machines.twin.timed.gm_reach import Transfers, transfers
from autofuse.machines.twin.timed.pricing import Priced, price
from autofuse.machines.twin.timed.source_map import SourceMap
from autofuse.results import Run
from autofuse.schedule.cost.cost import NOTE, Conflict
from autofuse.targets import TargetSpec

__all__ = ["EVENTS", "SAMPLED", "SCHEMA", "SLICES", "sampled_cores", "timed_report", "timed_run"]

SCHEMA = "autofuse.timed/1"
#: Most recorded cores, recorded events per core, and listed instructions.
SAMPLED, EVENTS, SLICES = 5, 60_000, 20_000
#: Most nodes listed of the critical path.
_PATH_ROWS = 40


def sampled_cores(moved: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the cores to record: the first, the last, the busiest, and some in between.

    Args:
        moved: bytes that each core moved from and to GM.
    """
    active = [i for i, m in enumerate(moved) if sum(m)] or [0]
    busiest = max(active, key=lambda i: (sum(moved[i]), -i))
    found = {active[0], active[-1], busiest}
    for part in range(1, SAMPLED):
        if len(found) < SAMPLED:
            found.add(active[len(active) * part // SAMPLED])
    return tuple(sorted(found))


def timed_run(
    kernel: TwinKernel,
    inputs: Mapping[str, Any],
    target: TargetSpec,
    *,
    symbols: Mapping[str, int] | None = None,
    key: int | None = None,
) -> tuple[Run, dict[str, Any]]:
    """Run a kernel and return the model's report on the run.

    Args:
        kernel: compiled with ``checked=True``.
        inputs: as for :meth:`TwinKernel.run`.
        target: the chip.
        symbols: as there.
        key: as there.

    Returns:
        The run, and the report (see :func:`timed_report`).

    Raises:
        AutofuseError: as :meth:`TwinKernel.run`.
    """
    run, recording = kernel.record(inputs, sampled_cores, EVENTS, symbols=symbols, key=key)
    text = KernelText.of(kernel.path)
    source = SourceMap(text, kernel.graph)
    report = timed_report(recording, target, source, tiling_in_gm="TILING_KEY_IS" in text.text)
    head = {"name": kernel.graph.label, "sizes": run.symbols, "key": run.key}
    return run, {"schema": SCHEMA, "note": NOTE, **head, **report}


def timed_report(
    recording: Recording, target: TargetSpec, source: SourceMap, *, tiling_in_gm: bool = False
) -> dict[str, Any]:
    """Return the model's report on a recording, ready for JSON; times are modelled microseconds.

    Args:
        recording: some cores of a launch.
        target: the chip.
        source: the kernel's text.
        tiling_in_gm: the kernel reads its tiling data from GM.
    """
    found = transfers(recording, target)
    # Cores that do the same at other places in GM are simulated once.
    kinds: dict[bytes, int] = {}
    alike = [
        kinds.setdefault(_pattern(r, found, i, target), i) for i, r in enumerate(recording.records)
    ]
    one_each = sorted(kinds.values())
    records = recording.records
    priced = {i: price(records[i], i, found, target) for i in one_each}
    m = target.model
    streams = [priced[i].steps for i in one_each]
    if any(r.cut for r in records):
        streams = [[_alone(s, target.sync_all) for s in x] for x in streams]
    found_times = play(streams, gap=m.vector_gap, sync=target.sync_all)
    played = dict(zip(one_each, found_times, strict=True))
    us = 1.0 / target.clock_mhz
    start = target.kernel_head_us + us * m.core_start * max(found.active, 1)
    start += us * m.tiling_load if tiling_in_gm else 0.0
    cores = {
        i: _Core(records[i], priced[i], played[i], source, us, start, found.longer[i])
        for i in one_each
    }
    slowest = max(one_each, key=lambda i: (cores[i].finish_us, -i))
    rows = [{"core": r.core, **cores[i].row()} for r, i in zip(records, alike, strict=True)]
    loaded, stored = (sum(x[i] for x in recording.moved) for i in (0, 1))
    slices = [
        {
            "core": r.core,
            "same_as": None if at == i else records[i].core,
            "rows": cores[i].slices() if at == i else [],
        }
        for at, (r, i) in enumerate(zip(records, alike, strict=True))
    ]
    return {
        "target": target.name,
        "total_us": start + cores[slowest].finish_us,
        "start_us": start,
        "clock_mhz": target.clock_mhz,
        "block_dim": recording.block_dim,
        "active_cores": found.active,
        "sampled": [r.core for r in recording.records],
        "cut": [r.core for r in recording.records if r.cut],
        "slowest": records[slowest].core,
        "loaded_bytes": loaded,
        "stored_bytes": stored,
        "cores": rows,
        "l2": _l2(recording, found, target),
        "conflicts": _conflicts([priced[i] for i in alike]),
        "unpriced": sorted(frozenset().union(*(p.unpriced for p in priced.values()))),
        "critical_path": {"core": records[slowest].core, **cores[slowest].path()},
        "roofline": _roofline(recording, [cores[i] for i in alike], start, target),
        "nodes": source.nodes,
        "functions": source.functions(),
        "ub": {"bytes": target.ub_usable, **_ub(records[slowest], cores[slowest].slices(), source)},
        "slices": slices,
        "left_out": sum(max(0, cores[i].instructions - SLICES) for i in alike),
    }


def _ub(record: CoreRecord, rows: Sequence[Sequence[Any]], source: SourceMap) -> dict[str, Any]:
    """Return the UB layout of each group of a kernel, in the order in which the groups run.

    Args:
        record: the record of a core.
        rows: its instructions, as returned by :meth:`_Core.slices`.
        source: the source map of the kernel.

    Returns:
        ``groups``: names of functions, and ``buffers``, each with the index of its group.
    """
    layouts: list[list[Buffer]] = []
    for b in record.buffers:
        if b.lo == 0 or not layouts:
            layouts.append([])
        layouts[-1].append(b)
    spans: dict[str, list[tuple[int, int, int, int]]] = {}
    for row in rows:
        touched = [(lo, hi, is_new, row[1]) for lo, hi, is_new in row[8]]
        spans.setdefault(source.nodes[row[1]]["function"], []).extend(touched)
    spans = {function: found for function, found in spans.items() if function and found}
    groups: list[str] = []
    buffers: list[dict[str, Any]] = []
    left = iter(layouts)
    for function, found in spans.items():
        # A core may reserve memory for a group without doing any work in it.
        fitting = (x for x in left if all(any(b.lo <= s[0] < b.hi for b in x) for s in found))
        written = [(lo, hi, node) for lo, hi, is_new, node in found if is_new]
        for b in next(fitting, ()):
            held = _held(b.lo, b.hi, written, source)
            here = {"lo": b.lo, "hi": b.hi, "name": b.name, "holds": held, "group": len(groups)}
            buffers.append(here)
        groups.append(function)
    return {"groups": groups, "buffers": buffers}


def _held(
    low: int, high: int, written: Iterable[tuple[int, int, int]], source: SourceMap
) -> list[str]:
    """Return the tensors, or intermediate steps of them, that instructions write into a buffer, in order."""
    names = (source.nodes[n]["tensor"] for lo, hi, n in written if low < hi and lo < high)
    return list(dict.fromkeys(n for n in names if n))


def _alone(step: Step, sync: float) -> Step:
    """Handle a barrier of all cores that not all records reach: this core waits only for itself."""
    if step.kind is not Kind.SYNC:
        return step
    return Step(Kind.BARRIER_ALL, Pipe.SCALAR, before=sync)


def _pattern(record: CoreRecord, found: Transfers, number: int, target: TargetSpec) -> bytes:
    """Return a digest of the parts of a core's record that decide its times: equal for cores with equal streams."""
    events = record.events.copy()
    aligned = np.gcd(events["gm_at"].astype(np.int64), target.arch.cache_line_bytes)
    events["gm_at"] = np.where(events["gm_rows"] > 0, aligned, 0)
    reached = repr((record.apis, found.share[number], list(found.by_core[number].items())))
    return hashlib.sha256(events.tobytes() + reached.encode()).digest()


class _Core:
    """The results of one core."""

    def __init__(
        self,
        record: CoreRecord,
        priced: Priced,
        played: Played,
        source: SourceMap,
        us: float,
        start: float,
        longer: float,
    ) -> None:
        self.record, self.priced, self.played = record, priced, played
        self.source, self.us, self.start = source, us, start
        #: Ratio of the core's work to its recorded part.
        self.longer = longer
        self.steps: Sequence[Step] = priced.steps
        self.of = {n: record.events[n].tolist() for n in record.events.dtype.names or ()}
        self.issued = [i for i, s in enumerate(self.steps) if s.kind is Kind.ISSUE]

    @property
    def instructions(self) -> int:
        """Number of instructions."""
        return len(self.issued)

    @property
    def finish_us(self) -> float:
        """Microseconds of the core, excluding the start of the kernel."""
        return self.us * self.longer * self.played.finish

    def node(self, i: int) -> int:
        """Return the node of an instruction."""
        return self.source.node(self.of["line"][i], bool(self.of["nested"][i]))

    def row(self) -> dict[str, Any]:
        """Return the figures of the core."""
        played, us, longer = self.played, self.us * self.longer, self.longer
        commands: Counter[Pipe] = Counter(self.steps[i].pipe for i in self.issued)
        moved: Counter[Pipe] = Counter()
        for i in self.issued:
            moved[self.steps[i].pipe] += self._bytes(i)
        pipes = {}
        for pipe, name in PIPES.items():
            stalls = played.stall[pipe]
            pipes[name] = {
                "cycles": longer * played.busy[pipe],
                "us": us * played.busy[pipe],
                "utilisation": played.busy[pipe] / played.finish if played.finish else 0.0,
                "bytes": round(longer * moved[pipe]),
                "commands": round(longer * commands[pipe]),
                "stalls_us": {CAUSES[c]: us * stalls[c] for c in sorted(stalls)},
            }
        return {
            "us": us * played.finish,
            "instructions": round(longer * self.instructions),
            "gm_share_us": us * played.gm_busy,
            "pipes": pipes,
        }

    def _bytes(self, i: int) -> int:
        """Return the bytes that an instruction moves between GM and UB, or that the vector unit processes."""
        if self.steps[i].pipe is Pipe.V:
            return int(self.of["count"][i] * self.of["bytes"][i])
        return int(self.of["gm_rows"][i] * self.of["gm_bytes"][i])

    def slices(self) -> list[list[Any]]:
        """Return the first instructions: pipe, node, API, line, start, end, bytes, waits, UB ranges and write flags."""
        out: list[list[Any]] = []
        of, played = self.of, self.played
        for i in self.issued[:SLICES]:
            waits = [[CAUSES[c], self._round(n)] for c, n in played.stalls.get(i, ())]
            spans = [
                [of["lo"][i][k], of["hi"][i][k], of["writes"][i] >> k & 1]
                for k in range(of["spans"][i])
            ]
            out.append(
                [
                    PIPES[self.steps[i].pipe],
                    self.node(i),
                    self.record.apis[of["api"][i]],
                    of["line"][i],
                    self._round(played.start[i], self.start),
                    self._round(played.end[i], self.start),
                    self._bytes(i),
                    waits,
                    spans,
                ]
            )
        return out

    def _round(self, cycles: float, start: float = 0.0) -> float:
        """Return microseconds, rounded to a tenth of a nanosecond."""
        return round(start + self.us * cycles, 4)

    def path(self) -> dict[str, Any]:
        """Return the time of the core by node, pipe and wait, along its critical path."""
        played, us = self.played, self.us * self.longer
        spent: defaultdict[tuple[int, str], float] = defaultdict(float)
        numbers: Counter[tuple[int, str]] = Counter()
        waits: defaultdict[str, float] = defaultdict(float)
        now = 0.0
        for i in critical_path(played):
            between = played.start[i] - now
            if between > 0:
                # The latency of a load, a barrier or the scalar unit: the last cause that the pipe waited for.
                causes = played.stalls.get(i)
                waits[CAUSES[causes[-1][0]] if causes else "issue"] += between
            key = (self.node(i), PIPES[self.steps[i].pipe])
            spent[key] += played.end[i] - max(now, played.start[i])
            numbers[key] += 1
            now = max(now, played.end[i])
        if played.finish > now:
            waits["GM after the last instruction"] += played.finish - now
        rows = sorted(spent, key=lambda k: (-spent[k], k))
        return {
            "us": us * played.finish,
            "instructions": sum(numbers.values()),
            "parts": [
                {"node": n, "pipe": p, "us": us * spent[n, p], "instructions": numbers[n, p]}
                for n, p in rows[:_PATH_ROWS]
            ],
            "waits_us": {name: us * waits[name] for name in sorted(waits)},
        }

    def operations(self) -> int:
        """Return the elements that the vector unit processes."""
        return sum(self.of["count"][i] for i in self.issued if self.steps[i].pipe is Pipe.V)


def _l2(recording: Recording, found: Transfers, target: TargetSpec) -> dict[str, Any]:
    """Return statistics of L2 for the loads of the recorded cores."""
    by: Counter[str] = Counter()
    for r, copies in zip(recording.records, found.by_core, strict=True):
        uses = r.events["gm_use"].tolist()
        for i, x in copies.items():
            if not uses[i] & WRITE:
                by[x.reach.value] += x.far
                by["hits"] += x.hit
    total = sum(by.values())
    spilled = max(0.0, 1.0 - target.l2_bytes / found.cached) if found.cached else 0.0
    return {
        "loaded_bytes": total,
        "hit_bytes": by["hits"],
        "hit_rate": by["hits"] / total if total else 0.0,
        "memory_bytes": by["memory"],
        "same_tensor_bytes": by["shared"] + by["same order"],
        "held_bytes": found.cached,
        "size_bytes": target.l2_bytes,
        "spilled_share_of_stores": spilled,
    }


def _conflicts(priced: Sequence[Priced]) -> dict[str, int]:
    """Return the vector calls by bank conflict in UB, over the recorded cores."""
    found = Counter(c for p in priced for c in p.conflicts.values())
    return {
        "calls": sum(found.values()),
        "without": found[Conflict.NONE],
        "sources": found[Conflict.SOURCES],
        "result": found[Conflict.RESULT],
    }


def _roofline(
    recording: Recording, cores: Sequence[_Core], start: float, target: TargetSpec
) -> dict[str, Any]:
    """Return operations per second over operations per byte, of the kernel and of the chip.

    Args:
        recording: its records are in the order of ``cores``.
        cores: results of the recorded cores; the others are scaled from these by their bytes.
        start: microseconds before the cores begin.
        target: the chip.
    """
    nbytes = sum(map(sum, recording.moved))
    of_these = sum(sum(recording.moved[r.core]) for r in recording.records)
    operations = sum(c.operations() * c.longer for c in cores) * nbytes / max(of_these, 1)
    us = max(c.finish_us for c in cores)
    cycles = target.aiv_cores * target.clock_mhz / 1e3
    rates = target.vector["binary"]
    return {
        "operations": round(operations),
        "bytes": nbytes,
        "intensity": operations / nbytes if nbytes else 0.0,
        "gops": operations / (start + us) / 1e3,
        "gops_without_start": operations / us / 1e3 if us else 0.0,
        "roofs": [
            {"name": "vector, 16 bits", "gops": cycles * rates.rate16},
            {"name": "vector, 32 bits", "gops": cycles * rates.rate32},
            {"name": "exp", "gops": cycles * target.vector["exp"].rate32},
        ],
        "slopes": [
            {"name": "memory, loads", "gbs": target.model.read_gbs},
            {"name": "L2, loads", "gbs": target.model.l2_read_gbs},
        ],
    }
