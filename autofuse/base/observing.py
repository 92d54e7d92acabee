"""Observers of the compiler: callables passed to stages and passes, so nothing is global."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

__all__ = ["Observer", "Watch", "inside", "named", "told"]

#: Called with a stage, the name of a pass (empty for the whole stage), its input and its output.
Observer: TypeAlias = Callable[[str, str, object, object], None]
#: Called inside one stage with the name of a pass, its input and its output.
Watch: TypeAlias = Callable[[str, object, object], None]

T = TypeVar("T")


def inside(observe: Observer | None, stage: str) -> Watch | None:
    """Return a watch on the passes of a stage; None if there is no observer."""
    return None if observe is None else partial(observe, stage)


def named(watch: Watch | None, prefix: str) -> Watch | None:
    """Return a watch that puts ``prefix`` before the name of every pass; None for None."""
    if watch is None:
        return None
    return lambda name, before, after: watch(f"{prefix}: {name}", before, after)


def told(watch: Watch | None, name: str, before: object, after: T) -> T:
    """Report a pass to the watch, if any, and return its output ``after``."""
    if watch is not None:
        watch(name, before, after)
    return after
