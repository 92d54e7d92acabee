"""Run a target on one input, within limits, and keep the findings."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["Harness", "minimise"]

#: Limit for one input, in CPU seconds because the machine may be busy.
LIMIT_S = 10.0
#: Maximum growth of peak memory by one input.
LIMIT_RSS_MB = 512
#: Address space beyond the initial size of the process.
_HEADROOM_MB = 3072
_PARTS = ("autofuse", "implgraph", "schedule", "codegen")


class _TooLongError(BaseException):
    """An input took too long.  Not an Exception, so that no handler below the loop catches it."""


def _too_long(number: int, frame: FrameType | None) -> None:
    raise _TooLongError


def _peak_kib() -> int:
    """Return the peak resident memory of this program.

    Not ``ru_maxrss``, which starts at the size of the parent process.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("VmHWM:")[2].split()[0])


@dataclass
class Harness:
    """One target and its findings.

    Attributes:
        name: name of the target.
        function: the target.
        folder: folder for findings; None to keep them only in memory.
        findings: a short text that identifies a finding -> the smallest input.
    """

    name: str
    function: Callable[[bytes], None]
    folder: Path | None = None
    findings: dict[str, bytes] = field(default_factory=dict)
    runs: int = 0
    slowest_s: float = 0.0

    def limit(self) -> None:
        """Set the resource limits of this process."""
        signal.signal(signal.SIGPROF, _too_long)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (used + (_HEADROOM_MB << 20), hard))

    def run(self, data: bytes) -> str:
        """Run an input and return its finding; empty if there is none."""
        self.runs += 1
        before = _peak_kib()
        start = time.process_time()
        found, details = "", ""
        try:
            signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
            try:
                self.function(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except _TooLongError as e:
            found, details = f"hang: more than {LIMIT_S:g} s in {_place(e)}", _trace(e)
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            found, details = f"{type(e).__name__} in {_place(e)}", _trace(e)
        self.slowest_s = max(self.slowest_s, time.process_time() - start)
        grown = _peak_kib() - before
        if not found and grown > LIMIT_RSS_MB << 10:
            found = f"memory: {grown >> 10} MiB more"
        if found and (found not in self.findings or len(data) < len(self.findings[found])):
            self.findings[found] = data
            self._save(found, data, details)
        return found

    def _save(self, found: str, data: bytes, details: str) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name}-{hashlib.sha256(found.encode()).hexdigest()[:10]}"
        (self.folder / f"{stem}.input").write_bytes(data)
        report: dict[str, Any] = {"target": self.name, "finding": found, "details": details}
        (self.folder / f"{stem}.json").write_text(json.dumps(report, indent=1))


def _place(error: BaseException) -> str:
    """Return the innermost function of autofuse in a traceback: ``file:function``."""
    place = "?"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if any(p in _PARTS for p in path.parts[:-1]) and "fuzzing" not in path.parts:
            place = f"{path.name}:{frame.f_code.co_name}"
    if type(error).__name__ == "FindingError":
        place += f" ({str(error)[:60]})"
    return place


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-14:])[-6000:]


def minimise(harness: Harness, data: bytes, found: str, seconds: float) -> bytes:
    """Return a smaller input with the same finding, by removing parts of a JSON value or of the text."""
    deadline = time.monotonic() + seconds

    def still(candidate: bytes) -> bool:
        return time.monotonic() < deadline and harness.run(candidate) == found

    data = _smaller_json(data, still)
    size = max(1, len(data) // 2)
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if still(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _smaller_json(data: bytes, still: Callable[[bytes], bool]) -> bytes:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    again = True
    while again:
        again = False
        for path in _paths(value):
            candidate = json.loads(json.dumps(value))
            box = candidate
            for step in path[:-1]:
                box = box[step]
            del box[path[-1]]
            raw = json.dumps(candidate).encode()
            if len(raw) < len(data) and still(raw):
                value, data, again = candidate, raw, True
                break
    return data


def _paths(value: Any) -> list[list[Any]]:
    """Return the paths of all members, outer ones first."""
    out: list[list[Any]] = []
    todo: list[tuple[Any, list[Any]]] = [(value, [])]
    for v, path in todo:
        keys = list(v) if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ()
        for k in keys:
            out.append([*path, k])
            todo.append((v[k], [*path, k]))
    return out
