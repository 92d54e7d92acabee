"""Check that the arrays of a call do not overlap where a kernel writes.

A kernel reads and writes elements in its own order, on several cores at once, so a read of memory that it also
overwrites gives the old value or the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import Diagnostic
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.values import misfit

__all__ = ["overlaps_itself", "share_memory", "written_overlaps"]

Array: TypeAlias = npt.NDArray[Any]

#: Most steps of the exact test, some milliseconds. Arrays that need more count as overlapping.
_MAX_WORK: Any = 1 << 20


def share_memory(a: Array, b: Array) -> bool:
    """Return True if two arrays have a byte in common, or if that is too hard to decide."""
    try:
        return np.shares_memory(a, b, max_work=_MAX_WORK)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(a: Array) -> bool:
    """Return True if two elements of an array have a byte in common, or if that is too hard to decide."""
    if a.flags.c_contiguous or a.flags.f_contiguous:
        return False
    # Two elements differ along a first axis. Their distance is that of the first element along that axis to a later
    # one, combined with any offset along the axes after it.
    for _ in range(a.ndim):
        if share_memory(a[:1], a[1:]):
            return True
        if a.size == 0:
            return False
        a = a[0, ...]
    return False


def written_overlaps(graph: FusionGraph, arrays: Mapping[str, Array]) -> tuple[Diagnostic, ...]:
    """Return AF5007 for every overwritten array that shares bytes with itself or another array.

    Args:
        graph: the graph; inputs that are only read may share memory.
        arrays: by input.
    """
    written = [o.inout for o in graph.outputs if o.inout is not None]
    found: list[Diagnostic] = []
    for i, name in enumerate(written):
        if overlaps_itself(arrays[name]):
            text = (
                f"{name} is overwritten by the kernel, but elements of its array overlap in memory"
            )
            found += misfit(text, hint=f"pass {name}.copy()").diagnostics
        for other in (n for n in arrays if n not in written[: i + 1]):
            if share_memory(arrays[name], arrays[other]):
                text = f"{name} is overwritten by the kernel, but its array shares memory with that of {other}"
                found += misfit(text, hint=f"pass {other}.copy()").diagnostics
    return tuple(found)
