"""Files of results: one per set, one JSON object per line and row; of several lines of a row the last one counts.

A record has ``set``, ``name``, ``shape``, ``dtype``, ``backward``, ``sweep``, ``aim``, ``counted``, ``bytes``,
``roof_us``, ``run`` (device, clocks, versions, ``copy_gbs``, seed, time) and ``results``: for every competitor either
a time (``us``, ``least_us``, ``most_us``, ``method``, ``why``, ``host_us``, ``errors``, ``bounds``, ``right``,
``kernels``, ``seconds``), or ``failed`` or ``skipped`` with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]

#: Competitors whose better one a row is compared with.
INDUCTORS = ("inductor", "max")
#: Those whose results are held to bounds.
OURS = ("autofuse", "generated")


def append(folder: Path, record: Mapping[str, Any]) -> None:
    """Add a line to the file of the record's set."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{record['set']}.jsonl").open("a", encoding="utf-8") as f:
        f.write(json.dumps(record, allow_nan=False) + "\n")


def read(folder: Path, since: float = 0.0) -> list[Record]:
    """The latest record of every row, in the order of the files.

    Args:
        folder: of the files.
        since: records of earlier runs (seconds since the epoch) do not count.

    Raises:
        ValueError: a line is no JSON object.
    """
    return latest({p.name: p.read_bytes() for p in folder.glob("*.jsonl")}, since)


def latest(files: Mapping[str, bytes], since: float = 0.0) -> list[Record]:
    """Return the results of :func:`read` for files by their names, without those in folders of their own.

    Raises:
        ValueError: a line is no JSON object.
    """
    found: dict[tuple[str, str], Record] = {}
    for name in sorted(n for n in files if n.endswith(".jsonl") and "/" not in n):
        for line in files[name].decode().splitlines():
            record = json.loads(line)
            if record["run"]["time"] >= since:
                found[record["set"], record["name"]] = record
    return list(found.values())


def done(found: Iterable[Record], competitors: Sequence[str]) -> set[tuple[str, str]]:
    """Set and name of the rows that have an answer, a time or a reason, from each of the competitors."""
    return {(r["set"], r["name"]) for r in found if all(c in r["results"] for c in competitors)}


def time_of(record: Record, *competitors: str) -> float | None:
    """The least time (us) of some competitors; None if none has one.  Wrong results have no time."""
    results = (record["results"].get(c, {}) for c in competitors)
    times = [r["us"] for r in results if r.get("right")]
    return min(times, default=None)


def of_roof(record: Record, *competitors: str) -> float | None:
    """The fraction of the roof that the fastest of some competitors reaches."""
    us = time_of(record, *competitors)
    return None if us is None else float(record["roof_us"]) / us


def ratio(record: Record, *peers: str, own: str = "autofuse") -> float | None:
    """The least time of some peers over that of ``own``: above 1 where ``own`` is faster."""
    mine, theirs = time_of(record, own), time_of(record, *peers)
    return None if mine is None or theirs is None else theirs / mine
