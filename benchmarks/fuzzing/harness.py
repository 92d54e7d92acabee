"""Runs a target on one input, within limits, and keeps what it finds."""

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

#: CPU seconds for one input, as the machine may be busy with other things.
LIMIT_S = 10.0
#: Growth of the peak of memory that one input may cause.
LIMIT_RSS_MB = 512
#: Address space beyond what the process has when it starts.
_HEADROOM_MB = 3072
_PARTS = ("autofuse", "implgraph", "schedule", "codegen")


class _TooLongError(BaseException):
    """Not an Exception, so that no handler between here and the loop takes it."""


def _too_long(number: int, frame: FrameType | None) -> None:
    raise _TooLongError


def _peak_kib() -> int:
    """Peak of resident memory of this program.

    Not ``ru_maxrss``: that one starts at the size of the process which started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("VmHWM:")[2].split()[0])


@dataclass
class Harness:
    """One target and what was found in it.

    Attributes:
        name: of the target.
        function: the target.
        folder: findings are written into it; None to keep them only here.
        findings: a short text that identifies a finding -> the smallest input.
    """

    name: str
    function: Callable[[bytes], None]
    folder: Path | None = None
    findings: dict[str, bytes] = field(default_factory=dict)
    runs: int = 0
    slowest_s: float = 0.0

    def limit(self) -> None:
        """Set the limits of this process."""
        signal.signal(signal.SIGPROF, _too_long)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (used + (_HEADROOM_MB << 20), hard))

    def run(self, data: bytes) -> str:
        """The finding that an input causes; empty if it causes none."""
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
    """The innermost function of autofuse in a traceback: ``file:function``."""
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
    """A smaller input with the same finding: parts of a JSON value or of the text are left out."""
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
    """Paths of all members, outer ones first."""
    out: list[list[Any]] = []
    todo: list[tuple[Any, list[Any]]] = [(value, [])]
    for v, path in todo:
        keys = list(v) if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ()
        for k in keys:
            out.append([*path, k])
            todo.append((v[k], [*path, k]))
    return out
