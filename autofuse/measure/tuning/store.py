"""Store of measurements: a file with a line of JSON per candidate, which runs append to and later runs read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from autofuse.base.diagnostics import AutofuseError

__all__ = ["Record", "Store"]

SCHEMA = "autofuse.tuning-store/1"


@dataclass(frozen=True, slots=True)
class Record:
    """A candidate at one shape.

    Attributes:
        context: digest of graph, target, device and version.
        sizes: sizes of the symbols.
        key: key of the candidate.
        us: its median time in microseconds; 0 if it has none.
        default_us: the default's in the same rounds.
        ratio: median ratio of the two over rounds.
        why: reason why it has no time; empty if it has one.
    """

    context: str
    sizes: Mapping[str, int]
    key: str
    us: float
    default_us: float
    ratio: float
    why: str = ""


class Store:
    """Records of a file, or of this run alone.

    Args:
        path: the file; None: keep nothing.
        known: records of the file.
    """

    def __init__(self, path: Path | None, known: tuple[Record, ...] = ()) -> None:
        self._path, self._lock = path, threading.Lock()
        self._known = {_place(r.context, r.sizes, r.key): r for r in known}

    def find(self, context: str, sizes: Mapping[str, int], key: str) -> Record | None:
        """Return the record of a candidate, or None."""
        return self._known.get(_place(context, sizes, key))

    def add(self, record: Record) -> None:
        """Add a record; several threads may do so.

        Raises:
            AutofuseError: AF5005, the file cannot be written.
        """
        with self._lock:
            self._known[_place(record.context, record.sizes, record.key)] = record
            if self._path is None:
                return
            line = json.dumps({"schema": SCHEMA, **asdict(record)}) + "\n"
            try:
                with self._path.open("ab+") as f:
                    # Start a new line after one that was cut off.
                    if f.tell() and (f.seek(-1, os.SEEK_END), f.read(1))[1] != b"\n":
                        line = "\n" + line
                    f.write(line.encode())
            except OSError as e:
                text = f"{self._path} cannot be written: {e.strerror or e}"
                raise AutofuseError.of("AF5005", text) from None


def _place(
    context: str, sizes: Mapping[str, int], key: str
) -> tuple[str, tuple[tuple[str, int], ...], str]:
    return context, tuple(sorted(sizes.items())), key
