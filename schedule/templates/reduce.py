"""Templates of groups with reductions.

*reduce_all*: a tile holds whole rows of everything that is reduced, so GM is read once, also where results of the
reduction meet the data again (norms).  The tiled axis is one that is kept.

*reduce*: reduced axes are gone through in a loop, with an accumulator in UB.  Data that meet a result of the
reduction are read again in a further loop.  With the innermost axis tiled it is legal for every size.
"""

from __future__ import annotations

from autofuse.schedule.tiling_axes import Choice, GroupInput, with_unit_axis

__all__ = ["ALL", "LOOP", "choices"]

ALL, LOOP = "reduce_all", "reduce"

#: Choices of one family that are tried, the innermost tiled axes first.
MOST = 4


def choices(g: GroupInput) -> list[tuple[GroupInput, Choice]]:
    """Everything worth trying: all-load templates, then loops."""
    kept = [p for p, a in enumerate(g.order) if a not in g.reduced]
    unit = with_unit_axis(g)
    out = [(g, Choice(ALL, "", p, padded=True, all_load=True)) for p in reversed(kept[-MOST:])]
    if not kept:
        out.append((unit, Choice(ALL, "", 0, padded=True, all_load=True)))
    for p in reversed(range(len(g.order))[-2 * MOST :]):
        reduced = g.order[p] in g.reduced
        if not reduced and not any(a in g.reduced for a in g.order[:p]):
            continue  # nothing to loop over: the all-load template
        if reduced and not any(k < p for k in kept):
            out.append((unit, Choice(LOOP, "", p + 1, padded=True)))
        else:
            out.append((g, Choice(LOOP, "", p, padded=True)))
    return out
