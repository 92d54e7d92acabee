"""Check that the arrays of a call do not overlap where a kernel writes.

A kernel reads and writes elements in an order of its own, on several cores at once: what it reads of memory that it
overwrites elsewhere is the old value or the new one.
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

#: Steps of the exact test, some milliseconds.  Arrays that take more than that to tell apart count as overlapping.
_MAX_WORK: Any = 1 << 20


def share_memory(a: Array, b: Array) -> bool:
    """True if two arrays have a byte in common, and where that is too hard to find out."""
    try:
        return np.shares_memory(a, b, max_work=_MAX_WORK)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(a: Array) -> bool:
    """True if two elements of an array have a byte in common, and where that is too hard to find out."""
    if a.flags.c_contiguous or a.flags.f_contiguous:
        return False
    # Two elements differ along a first axis.  How far they are apart is how far the first element along that axis is
    # from one of the later ones, whatever the axes behind it.
    for _ in range(a.ndim):
        if share_memory(a[:1], a[1:]):
            return True
        if a.size == 0:
            return False
        a = a[0, ...]
    return False


def written_overlaps(graph: FusionGraph, arrays: Mapping[str, Array]) -> tuple[Diagnostic, ...]:
    """AF5007 for every array that is overwritten and has bytes in common with itself or another one.

    Args:
        graph: whose inputs; what only reads may share memory with what only reads.
        arrays: by input.
    """
    written = [o.inout for o in graph.outputs if o.inout is not None]
    found: list[Diagnostic] = []
    for i, name in enumerate(written):
        if overlaps_itself(arrays[name]):
            text = f"{name} is overwritten by the kernel, but elements of its array share memory"
            found += misfit(text, hint=f"pass {name}.copy()").diagnostics
        for other in (n for n in arrays if n not in written[: i + 1]):
            if share_memory(arrays[name], arrays[other]):
                text = f"{name} is overwritten by the kernel, but its array shares memory with that of {other}"
                found += misfit(text, hint=f"pass {other}.copy()").diagnostics
    return tuple(found)
