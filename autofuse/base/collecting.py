"""Garbage collection in autofuse's own processes."""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["collect_rarely"]

#: New objects between two collections; Python's default is 700.
_MANY = 50_000


@cache
def collect_rarely() -> None:
    """Run the cyclic garbage collector rarely, and never over objects that already exist.

    A command is short-lived, and nearly all its objects are immutable and in no cycle; scanning the loaded modules
    would take longer than many builds. Programs that import autofuse are not affected. A second call does nothing.
    """
    gc.freeze()
    gc.set_threshold(_MANY, 20, 50)
