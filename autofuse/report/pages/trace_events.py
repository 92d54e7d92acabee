"""Timed mode as a trace file: the JSON object format of Chrome traces, which Perfetto reads too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["TRACKS", "trace_text"]

#: Tracks of a core, from the top.
TRACKS = ("scalar", "MTE2", "V", "MTE3")

Json = dict[str, Any]


def trace_text(report: Mapping[str, Any]) -> str:
    """Return the trace of a timed report: one process per recorded core, one thread per pipe, a slice per instruction.

    Times are modelled microseconds. The rest of the report is under ``autofuse``.

    Args:
        report: from ``autofuse.machines.twin.timed.timed``.
    """
    events = list(_events(report))
    rest = {k: v for k, v in report.items() if k not in ("slices", "functions")}
    found = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"note": report["note"], "kernel": report["name"], "chip": report["target"]},
        "autofuse": rest,
    }
    return json.dumps(found, ensure_ascii=True, separators=(",", ":"), allow_nan=False) + "\n"


def _events(report: Mapping[str, Any]) -> Iterator[Json]:
    nodes = report["nodes"]
    rows = {s["core"]: s["rows"] for s in report["slices"]}
    for s in report["slices"]:
        core = s["core"]
        yield _name("process_name", core, 0, f"core {core} (model)")
        yield {**_name("process_sort_index", core, 0, ""), "args": {"sort_index": core}}
        for tid, track in enumerate(TRACKS):
            yield _name("thread_name", core, tid, track)
            yield {**_name("thread_sort_index", core, tid, ""), "args": {"sort_index": tid}}
        yield _slice(core, 0, "kernel start", "start", 0.0, report["start_us"], {})
        for pipe, node, api, line, start, end, nbytes, waits, _ in rows[
            core if s["same_as"] is None else s["same_as"]
        ]:
            of = nodes[node]
            args: Json = {"api": api, "op": of["op"], "line": line, "bytes": nbytes}
            if of["function"]:
                args["function"] = of["function"]
            if waits:
                args["waited_us"] = {cause: us for cause, us in waits}
            tid = TRACKS.index(pipe)
            yield _slice(core, tid, of["node"], pipe, start, end - start, args)


def _name(kind: str, pid: int, tid: int, name: str) -> Json:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _slice(
    pid: int, tid: int, name: str, category: str, start: float, length: float, args: Json
) -> Json:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": round(max(length, 0.0), 4),
        "args": args,
    }
