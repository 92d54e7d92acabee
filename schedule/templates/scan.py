"""Templates of groups with running sums.

*scan_all*: a tile holds everything that a sum runs over; the tiled axis is another one.

*scan*: the axes of the sums are gone through in a loop of one core, with what comes before the tile in UB.  With the
innermost axis tiled it is legal for every size: a tile is a part of a row of which each element goes on with its own
sum, or a part of the one sum.
"""

from __future__ import annotations

from autofuse.schedule.tiling_axes import Choice, GroupInput, with_unit_axis

__all__ = ["ALL", "LOOP", "choices"]

ALL, LOOP = "scan_all", "scan"
#: Choices of one family that are tried, the innermost tiled axes first.
MOST = 4


def choices(g: GroupInput) -> list[tuple[GroupInput, Choice]]:
    """Everything worth trying: whole sums in a tile, then loops."""
    kept = [p for p, a in enumerate(g.order) if a not in g.reduced]
    unit = with_unit_axis(g)
    out = [(g, Choice(ALL, "", p, padded=True, all_load=True)) for p in reversed(kept[-MOST:])]
    if not kept:
        out.append((unit, Choice(ALL, "", 0, padded=True, all_load=True)))
    for p in reversed(range(len(g.order))[-2 * MOST :]):
        summed = g.order[p] in g.reduced
        if not summed and not any(a in g.reduced for a in g.order[:p]):
            continue  # nothing to loop over
        if summed and not any(k < p for k in kept):
            out.append((unit, Choice(LOOP, "", p + 1, padded=True)))
        else:
            out.append((g, Choice(LOOP, "", p, padded=True)))
    return out
