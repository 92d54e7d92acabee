"""Garbage collection of processes that are autofuse's own."""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["collect_rarely"]

#: New objects between two collections; Python's default is 700.
_MANY = 50_000


@cache
def collect_rarely() -> None:
    """Look for garbage in cycles seldom, and never among what is there already.

    A command ends soon, and nearly all that it makes is immutable and in no cycle: looking through the modules that it
    loads would take longer than many builds.  Programs that import autofuse are left as they are.  A second call does
    nothing.
    """
    gc.freeze()
    gc.set_threshold(_MANY, 20, 50)
