"""Files of results: one per set, with a JSON object per line and row; the last line of a row counts.

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

#: Competitors; a row is compared with the better one.
INDUCTORS = ("inductor", "max")
#: Competitors whose results must be within bounds.
OURS = ("autofuse", "measured", "tuned", "all", "generated")


def append(folder: Path, record: Mapping[str, Any]) -> None:
    """Add a line to the file of the record's set."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{record['set']}.jsonl").open("a", encoding="utf-8") as f:
        f.write(json.dumps(record, allow_nan=False) + "\n")


def read(folder: Path, since: float = 0.0) -> list[Record]:
    """Return the latest record of every row, in file order.

    Args:
        folder: folder of the files.
        since: ignore records of earlier runs (seconds since the epoch).

    Raises:
        ValueError: a line is not a JSON object.
    """
    return latest({p.name: p.read_bytes() for p in folder.glob("*.jsonl")}, since)


def latest(files: Mapping[str, bytes], since: float = 0.0) -> list[Record]:
    """Return the results of :func:`read` for files by name, without those in subfolders.

    Raises:
        ValueError: a line is not a JSON object.
    """
    found: dict[tuple[str, str], Record] = {}
    for name in sorted(n for n in files if n.endswith(".jsonl") and "/" not in n):
        for line in files[name].decode().splitlines():
            record = json.loads(line)
            if record["run"]["time"] >= since:
                found[record["set"], record["name"]] = record
    return list(found.values())


def done(found: Iterable[Record], competitors: Sequence[str]) -> set[tuple[str, str]]:
    """Return set and name of the rows with an answer, a time or a reason, from every competitor."""
    return {(r["set"], r["name"]) for r in found if all(c in r["results"] for c in competitors)}


def time_of(record: Record, *competitors: str) -> float | None:
    """Return the minimum time (us) of some competitors; None if there is none.  Wrong results have no time."""
    results = (record["results"].get(c, {}) for c in competitors)
    times = [r["us"] for r in results if r.get("right")]
    return min(times, default=None)


def of_roof(record: Record, *competitors: str) -> float | None:
    """Return the fraction of the roof reached by the fastest of some competitors."""
    us = time_of(record, *competitors)
    return None if us is None else float(record["roof_us"]) / us


def ratio(record: Record, *peers: str, own: str = "autofuse") -> float | None:
    """Return the minimum time of some peers over that of ``own``: above 1 if ``own`` is faster."""
    mine, theirs = time_of(record, own), time_of(record, *peers)
    return None if mine is None or theirs is None else theirs / mine
