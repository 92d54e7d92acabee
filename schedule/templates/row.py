"""*row*: an outer axis is tiled, the axes inside it are whole in UB.

A tile is a number of rows.  Where all rows are a multiple of 32 bytes they lie in UB as they lie in GM; the
``unaligned`` variant works for any length: rows are padded to 32 bytes by DataCopyPad, or, in a group without
broadcasts, packed, since no call has to find the start of a row.
"""

from __future__ import annotations

from autofuse.schedule.axes.tiling_axes import Choice, GroupInput, unmerge
from autofuse.schedule.placement.placement import alignment

__all__ = ["MAX_INNER", "NAME", "choices", "packed_choice"]

NAME = "row"
#: Inner axes that a template for symbolic sizes holds in UB at most; more rarely fit.
MAX_INNER = 2


def choices(g: GroupInput) -> list[Choice]:
    """Aligned and unaligned rows for each axis that may be tiled, innermost first."""
    if len(g.order) < 2:
        return []
    last = g.size(g.order[-1])
    align = alignment(g, g.order[-1])
    static = all(g.size(a).is_const for a in g.order)
    first = 0 if static else max(0, len(g.order) - 1 - MAX_INNER)
    out: list[Choice] = []
    for position in range(len(g.order) - 2, first - 1, -1):
        aligned = last.as_int()
        if aligned is None or aligned % align == 0:
            out.append(Choice(NAME, "", position, padded=False))
        if aligned is None or aligned % align != 0:
            out.append(Choice(NAME, "unaligned", position, padded=True))
    return out


def packed_choice(g: GroupInput) -> tuple[GroupInput, Choice] | None:
    """For a group of one merged axis: its outermost part tiled, rows packed; named after the merged axis."""
    if len(g.order) != 1:
        return None
    apart = unmerge(g)
    if apart is None:
        return None
    return apart, Choice("general", "unaligned", 0, padded=False, y_axis=g.order[0])
