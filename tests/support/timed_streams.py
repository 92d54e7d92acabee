"""Recordings made by hand: kernels whose loops and queues are known, as the twin would record them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofuse.machines.twin.run.native import Region
from autofuse.machines.twin.run.record import BYPASS, DIMS, EVENT, WRITE, CoreRecord, Recording
from autofuse.machines.twin.timed.clocks import Cause, Kind, Pipe
from autofuse.machines.twin.timed.pricing import kind_of
from autofuse.measure.calibration.written import Body, Work
from autofuse.schedule.cost.cost import Conflict, Copy, Reach

#: A function for every row of the vector table that the measured kernels use.
APIS = {"unary": "Abs", "binary": "Add", "exp": "Exp", "div": "Div", "cast": "Cast"}
#: UB addresses of two operands and a result, by how they collide.
PLACES = {
    Conflict.NONE: (0, 65536 + 256, 131072),
    Conflict.SOURCES: (0, 65536, 131072),
    Conflict.RESULT: (0, 65536 + 256, 32),
}


@dataclass
class Events:
    """The events of one core."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    apis: list[str] = field(default_factory=list)
    flags: int = 0

    def add(self, kind: Kind, pipe: Pipe, **values: Any) -> None:
        self.rows.append({"kind": kind, "pipe": pipe, **values})

    def api(self, name: str) -> int:
        if name not in self.apis:
            self.apis.append(name)
        return self.apis.index(name)

    def set(self, pipe: Pipe) -> int:
        self.flags += 1
        self.add(Kind.SET, pipe, flag=self.flags)
        return self.flags

    def wait(self, pipe: Pipe, flag: int, cause: Cause) -> None:
        if flag:
            self.add(Kind.WAIT, pipe, flag=flag, cause=cause)

    def call(self, api: str, count: int, nbytes: int, line: int, spans: Sequence[Any] = ()) -> None:
        """A vector call; a span is (first byte, last byte + 1, written)."""
        lo = [s[0] for s in spans] + [0] * (4 - len(spans))
        hi = [s[1] for s in spans] + [0] * (4 - len(spans))
        writes = sum(1 << k for k, s in enumerate(spans) if s[2])
        self.add(
            Kind.ISSUE,
            Pipe.V,
            api=self.api(api),
            count=count,
            bytes=nbytes,
            line=line,
            spans=len(spans),
            writes=writes,
            lo=lo,
            hi=hi,
        )

    def copy(self, line: int, region: int, at: int, nbytes: int, **values: Any) -> None:
        """A copy; ``write``, ``bypass``, ``rows``, ``pitch``; ``dims``: elements in UB, and bytes of one."""
        write, bypass = values.get("write", False), values.get("bypass", False)
        elements, element = values.get("dims", (0, 0))
        self.add(
            Kind.ISSUE,
            Pipe.MTE3 if write else Pipe.MTE2,
            api=self.api("DataCopyPad"),
            line=line,
            region=region,
            gm_at=at,
            gm_bytes=nbytes,
            gm_rows=values.get("rows", 1),
            gm_pitch=values.get("pitch", nbytes),
            gm_use=WRITE * write | BYPASS * bypass | DIMS * bool(elements),
            count=elements,
            bytes=element,
        )

    def record(self, core: int) -> CoreRecord:
        array = np.zeros(len(self.rows), dtype=EVENT)
        for i, row in enumerate(self.rows):
            for name, value in row.items():
                array[name][i] = value
        return CoreRecord(core, False, array, tuple(self.apis), ())


def recording_of(work: Work) -> Recording:
    """A kernel of one loop after another, as its first and last core would be recorded.

    Loads of a later loop with ``Reach.L2`` go through the data of the one before again.
    """
    cores = sorted({0, work.cores - 1})
    records, moved = [], (0, 0)
    for core in cores:
        events, moved = _core(work, core)
        records.append(events.record(core))
    ends = [0] * 3
    for r in records:
        for e in r.events[r.events["gm_rows"] > 0]:
            end = int(e["gm_at"] + (e["gm_rows"] - 1) * e["gm_pitch"] + e["gm_bytes"])
            ends[e["region"] - 1] = max(ends[e["region"] - 1], end)
    regions = tuple(Region(0, end, f"r{i}", i == 2) for i, end in enumerate(ends))
    return Recording(work.cores, tuple(records), (moved,) * work.cores, regions)


def _core(work: Work, core: int) -> tuple[Events, tuple[int, int]]:
    events = Events()
    loaded = stored = 0
    each = work.loops[0].iterations
    tiles = each * work.rounds
    freed: dict[int, list[int]] = {0: [], 1: []}
    for first in range(0, tiles, max(each, 1)):
        for loop in work.loops:
            again = all(c.reach is Reach.L2 for c in loop.body.loads)
            for i in range(loop.iterations):
                place = first + i % each if again else first + i
                _iteration(events, loop.body, work, core, (place, tiles), freed)
                loaded += sum(c.nbytes for c in loop.body.loads)
                stored += sum(c.nbytes for c in loop.body.stores)
    return events, (loaded, stored)


def _iteration(
    events: Events,
    body: Body,
    work: Work,
    core: int,
    number: tuple[int, int],
    freed: dict[int, list[int]],
) -> None:
    """Loads, calls and a store, with the flags of two queues; one queue where the loaded buffer is the stored one."""
    place, tiles = number
    back = freed[0][-body.buffers] if len(freed[0]) >= body.buffers else 0
    events.wait(Pipe.MTE2, back, Cause.SLOT)
    for k, c in enumerate(body.loads):
        for at, rows, pitch in _places(c, work, core, place, tiles):
            events.copy(10 + k, 1 + k, at, c.row_bytes, rows=rows, pitch=pitch, bypass=body.bypass)
    loaded = events.set(Pipe.MTE2) if body.loads else 0
    if body.calls:
        events.wait(Pipe.V, loaded, Cause.DATA)
        out = freed[1][-body.buffers] if len(freed[1]) >= body.buffers and not body.chained else 0
        events.wait(Pipe.V, out, Cause.SLOT)
        for call in body.calls:
            a, b, d = PLACES[call.conflict]
            nbytes = call.count * call.bits // 8
            two = call.kind == "binary"
            spans = [(d, d + nbytes, True), (a, a + nbytes, False)]
            spans += [(b, b + nbytes, False)] if two else []
            events.add(Kind.BARRIER, Pipe.V)
            assert kind_of(APIS[call.kind]) == call.kind
            events.call(APIS[call.kind], call.count, call.bits // 8, 20, spans)
    if not body.chained:
        freed[0].append(events.set(Pipe.V if body.calls else Pipe.MTE2))
    done = events.set(Pipe.V) if body.calls else loaded
    if body.stores:
        events.wait(Pipe.MTE3, done, Cause.DATA)
        for c in body.stores:
            at = (core * tiles + place) * c.nbytes
            events.copy(30, 3, at, c.nbytes, write=True)
        freed[1].append(events.set(Pipe.MTE3))
        if body.chained:
            freed[0].append(freed[1][-1])


def _places(
    c: Copy, work: Work, core: int, place: int, tiles: int
) -> Iterator[tuple[int, int, int]]:
    """Where the commands of a load start in their tensor, their rows, and how far these are apart.

    A tensor with rows is a matrix, of which a load takes a rectangle.
    """
    tile = core * tiles + place
    if c.reach is Reach.SAME_ORDER:
        tile = place
    if c.reach is Reach.SHARED:
        tile = (place + core * tiles // work.cores) % tiles
    if c.rows == 1:
        yield tile * c.nbytes, 1, c.nbytes
        return
    width = 24576 if c.reach in (Reach.MEMORY, Reach.L2) else 1024
    across = width // c.row_bytes
    # Rows at odd addresses: the matrix has one column less.
    width -= 0 if c.align >= 512 else c.align
    start = tile // across * c.rows * width + tile % across * c.row_bytes
    rows = c.rows // c.commands
    for k in range(c.commands):
        yield start + k * rows * width, rows, width
