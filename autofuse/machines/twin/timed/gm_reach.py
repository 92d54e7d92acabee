"""Source of the data that recorded cores load: memory, L2, or a tensor that all cores read.

A simple model, stated in ``docs/performance.md``:

- Bytes that a core touched before are in L2 if it is as large as the bytes that all cores moved since then.
- If other cores read from the same places with the same call, all of them read one tensor: in the same order, where the
  k-th load of each starts at one place, else at different places.  The rates of both cases include hits in L2.
- Everything else comes from memory.  Anything not recorded is assumed to behave like the recorded part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.machines.twin.run.record import BYPASS, WRITE, CoreRecord, Recording
from autofuse.schedule.cost.cost import Reach
from autofuse.targets import TargetSpec

__all__ = ["Reached", "Transfers", "transfers"]

#: Bytes per "touched" mark, and the most marks per core and tensor.
_LEAST, _MOST, _MARKS = 32, 4096, 1 << 22
#: Most rows of a copy that are tracked.
_ROWS = 64
#: Most loads compared, and the share of them that must agree.
_COMPARED, _AGREE, _COMMON = 64, 0.9, 0.5

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reached:
    """Location of one copy's bytes: bytes from or to ``reach``, and bytes found in L2 instead.

    ``fresh``: bytes that this core had not touched before.
    """

    reach: Reach
    far: int
    hit: int
    fresh: int
    bypass: bool


@dataclass(frozen=True, slots=True)
class Transfers:
    """The copies of all recorded cores.

    Attributes:
        by_core: for every record, position of the event -> the location of its bytes.
        cached: bytes of all cores that are to be held in L2.
        active: number of cores that moved any bytes.
        share: for every record, the number of cores with its traffic: all traffic over its own.
        scale: ratio of all cores' traffic to the recorded cores', for loads and stores.
        longer: for every record, the core's traffic over its recorded traffic: 1 unless the record was cut.
    """

    by_core: tuple[Mapping[int, Reached], ...]
    cached: int
    active: int
    share: tuple[float, ...]
    scale: tuple[float, float]
    longer: tuple[float, ...]


def transfers(recording: Recording, target: TargetSpec) -> Transfers:
    """Follow the copies of the recorded cores.

    Args:
        recording: recording of a launch.
        target: the chip, for the size of its L2.
    """
    records = recording.records
    active = sum(a + b > 0 for a, b in recording.moved)
    copies = [np.flatnonzero(r.events["gm_rows"] > 0) for r in records]
    common = _common(records, copies)
    granules = _granules(records, copies, recording)
    by_core = tuple(
        _one_core(r, at, common, granules, active, target)
        for r, at in zip(records, copies, strict=True)
    )
    loaded, stored = (sum(m[i] for m in recording.moved) for i in (0, 1))
    seen = [recording.moved[r.core] for r in records]
    scale = (
        loaded / max(1, sum(m[0] for m in seen)),
        stored / max(1, sum(m[1] for m in seen)),
    )
    total = loaded + stored
    share = tuple(min(float(active), total / (a + b)) if a + b else 1.0 for a, b in seen)
    longer = tuple(
        max(1.0, (a + b) / recorded)
        if r.cut and (recorded := sum(x.far + x.hit for x in found.values()))
        else 1.0
        for (a, b), r, found in zip(seen, records, by_core, strict=True)
    )
    cached = 0.0
    for r, found, more in zip(records, by_core, longer, strict=True):
        for i, x in found.items():
            if x.bypass:
                continue
            store = bool(r.events["gm_use"][i] & WRITE)
            shared = x.reach in (Reach.SHARED, Reach.SAME_ORDER)
            cached += x.fresh * more * (1 / len(records) if shared else scale[store])
    return Transfers(by_core, round(cached), active, share, scale, longer)


def _one_core(
    record: CoreRecord,
    copies: Ints,
    common: Mapping[tuple[int, int], Reach],
    granules: Mapping[int, int],
    active: int,
    target: TargetSpec,
) -> dict[int, Reached]:
    """Return the copies of one core, in program order."""
    events = record.events[copies]
    touched = {
        int(r): _Touched(events[events["region"] == r], granules[int(r)])
        for r in np.unique(events["region"])
    }
    out: dict[int, Reached] = {}
    moved = 0
    fields = ("region", "line", "gm_at", "gm_bytes", "gm_pitch", "gm_rows", "gm_use")
    columns = [events[f].tolist() for f in fields]
    for i, region, line, at, nbytes, pitch, rows, use in zip(
        copies.tolist(), *columns, strict=True
    ):
        whole = nbytes * rows
        reach = common.get((region, line), Reach.MEMORY)
        fresh, again = touched[region].touch(at, nbytes, pitch, rows, moved)
        moved += whole
        new = round(whole * fresh)
        if use & WRITE:
            out[i] = Reached(Reach.MEMORY, whole, 0, new, False)
            continue
        # Assume that since then every core moved as much as this one.
        kept = (moved - again) * active <= target.l2_bytes
        hit = whole - new if kept and reach is Reach.MEMORY else 0
        out[i] = Reached(reach, whole - hit, hit, new, bool(use & BYPASS))
    return out


class _Touched:
    """Bytes of a tensor that a core has touched, with the amount moved up to then."""

    def __init__(self, events: npt.NDArray[Any], granule: int) -> None:
        ends = events["gm_at"] + (events["gm_rows"] - 1) * events["gm_pitch"] + events["gm_bytes"]
        self.granule = granule
        self.first = int(events["gm_at"].min()) // granule
        last = -(-int(ends.max()) // granule)
        self.when = np.full(last - self.first + 1, -1.0)

    def touch(self, at: int, nbytes: int, pitch: int, rows: int, moved: int) -> tuple[float, float]:
        """Mark a range; return the share touched for the first time, and the mean amount moved when the rest was."""
        g = self.granule
        if rows == 1 or pitch == nbytes:
            lo, hi = -(-at // g) - self.first, (at + nbytes * rows) // g - self.first
            if hi <= lo:  # less than a mark
                lo = at // g - self.first
                hi = lo + 1
            marks: Any = slice(lo, hi)
        else:
            starts = at + pitch * np.arange(0, rows, max(rows // _ROWS, 1), dtype=np.int64)
            width = max(nbytes // g, 1)
            begin = -(-starts // g) if nbytes >= g else starts // g
            marks = (begin[:, None] - self.first + np.arange(width)).clip(0, len(self.when) - 1)
        before = self.when[marks]
        old = before[before >= 0]
        self.when[marks] = float(moved)
        if old.size == 0:
            return 1.0, 0.0
        return 1.0 - old.size / before.size, float(old.mean())


def _granules(
    records: Sequence[CoreRecord], copies: Sequence[Ints], recording: Recording
) -> dict[int, int]:
    """Return the bytes per mark of every tensor: a common divisor of offsets and lengths, within limits."""
    found: dict[int, int] = {}
    for r, at in zip(records, copies, strict=True):
        events = r.events[at]
        for region in np.unique(events["region"]).tolist():
            of = events[events["region"] == region]
            step = found.get(region, 0)
            for name in ("gm_at", "gm_bytes"):
                step = math.gcd(step, int(np.gcd.reduce(of[name].astype(np.int64))))
            several = of[of["gm_rows"] > 1]
            if len(several):
                step = math.gcd(step, int(np.gcd.reduce(several["gm_pitch"].astype(np.int64))))
            found[region] = step
    out = {}
    for region, step in found.items():
        granule = min(max(step, _LEAST), _MOST)
        size = recording.regions[region - 1].bytes if region else _MARKS
        while size // granule > _MARKS:
            granule *= 2
        out[region] = granule
    return out


def _common(records: Sequence[CoreRecord], copies: Sequence[Ints]) -> dict[tuple[int, int], Reach]:
    """Return the calls with which several cores read the same places: (tensor, line) -> kind of reuse."""
    places: dict[tuple[int, int], list[list[int]]] = {}
    for r, at in zip(records, copies, strict=True):
        events = r.events[at]
        loads = events[(events["gm_use"] & WRITE) == 0]
        keys = zip(loads["region"].tolist(), loads["line"].tolist(), strict=True)
        own: dict[tuple[int, int], list[int]] = {}
        for key, place in zip(keys, loads["gm_at"].tolist(), strict=True):
            own.setdefault(key, []).append(place)
        for key, sequence in own.items():
            places.setdefault(key, []).append(sequence)
    out = {}
    for key, sequences in places.items():
        first, *others = sequences
        if not others:
            continue
        same = sum(_same_order(first, s) for s in others)
        if 2 * same > len(others):
            out[key] = Reach.SAME_ORDER
        elif 2 * sum(_same_places(first, s) for s in others) > len(others):
            out[key] = Reach.SHARED
    return out


def _same_order(a: Sequence[int], b: Sequence[int]) -> bool:
    pairs = list(zip(a[:_COMPARED], b, strict=False))
    return sum(x == y for x, y in pairs) >= _AGREE * len(pairs)


def _same_places(a: Sequence[int], b: Sequence[int]) -> bool:
    one, other = set(a), set(b)
    return len(one & other) >= _COMMON * min(len(one), len(other))
