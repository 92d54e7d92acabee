"""Durations of a client's steps, reported by the client."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from autofuse.clients.cann.pyautofuse.errors import ClientTypeError

__all__ = ["duration_record", "report_durations"]

_MOST = 10_000
_LOG = logging.getLogger("autofuse.pyautofuse")

_lock = threading.Lock()
_records: deque[tuple[tuple[str, ...], int, int]] = deque(maxlen=_MOST)


def duration_record(*args: Any) -> None:
    """Record a step: ``duration_record(labels, start, duration)``, both times in nanoseconds.

    The last 10,000 steps are kept until :func:`report_durations`.

    Raises:
        ClientTypeError: AF1103, an argument has the wrong type, or a time is negative.
    """
    if len(args) != 3 or not all(isinstance(a, int) for a in args[1:]):
        raise _wrong(
            f"duration_record takes labels, a start and a duration, not {args!r}",
            "UtilsDurationRecord param parse failed",
        )
    labels, start, duration = args
    if not isinstance(labels, list | tuple) or not all(isinstance(x, str) for x in labels):
        raise _wrong(f"labels are strings, not {labels!r}", "target param is invalid")
    if start < 0 or duration < 0:
        raise _wrong(
            f"start {start} or duration {duration} is negative", "duration param is invalid"
        )
    with _lock:
        _records.append((tuple(labels), start, duration))


def report_durations() -> None:
    """Write the recorded steps to the logger ``autofuse.pyautofuse``, level INFO, and clear them."""
    with _lock:
        records = list(_records)
        _records.clear()
    for labels, start, duration in records:
        _LOG.info("%s: start %d ns, duration %d ns", " ".join(labels), start, duration)


def _wrong(text: str, words: str) -> ClientTypeError:
    return ClientTypeError.of("AF1103", text).worded(words)
