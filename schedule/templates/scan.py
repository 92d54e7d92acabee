"""Templates of groups with running sums.

*scan_all*: a tile holds everything that a sum runs over; the tiled axis is another one.  Sums of rows are made side by
side from 16 of them on, and one after the other where a tile has fewer, so there is a template for either: what they
cost, and the scratch space that they take, have nothing in common.

*scan*: the axes of the sums are gone through in a loop of one core, with what comes before the tile in UB.  With the
innermost axis tiled it is legal for every size: a tile is a part of a row of which each element goes on with its own
sum, or a part of the one sum.
"""

from __future__ import annotations

from functools import partial

from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tile_limits import takes_every_size
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, with_unit_axis
from autofuse.schedule.placement.scan import SCANNED_TOGETHER, place_scan
from autofuse.schedule.realise import Template
from autofuse.schedule.templates import family
from autofuse.schedule.templates.family import Candidates, Family, Placing

__all__ = ["ALL", "FEW", "SCAN"]

ALL, LOOP = "scan_all", "scan"
#: Suffix of *scan_all* with fewer rows than are summed side by side.
FEW = "few"
#: Candidates of one kind that are tried, the innermost tiled axes first.
MOST = 4


class _Scan(Family):
    kinds = family.SCAN

    def candidates(self, g: GroupInput) -> Candidates:
        """Everything worth trying: whole sums in a tile, then loops."""
        kept = [p for p, a in enumerate(g.order) if a not in g.reduced]
        # What the cores share where the outermost axis is summed.
        unit = with_unit_axis(g) if g.order[0] in g.reduced else g
        out = [(g, c) for p in reversed(kept[-MOST:]) for c in _whole(g, p)]
        if not kept:
            out.append((unit, Candidate(ALL, "", 0, padded=True, all_load=True)))
        for p in reversed(range(len(g.order))[-2 * MOST :]):
            summed = g.order[p] in g.reduced
            if not summed and not any(a in g.reduced for a in g.order[:p]):
                continue  # nothing to loop over
            if summed and not any(k < p for k in kept):
                out.append((unit, Candidate(LOOP, "", p + 1, padded=True)))
            else:
                out.append((g, Candidate(LOOP, "", p, padded=True)))
        return out

    def placing(self, g: GroupInput) -> Placing:
        """The axes of the sums lie inside the tile, or are a loop with a carry."""
        return partial(place_scan, g)

    def planned(self, template: Template) -> ImplGraph:
        """Tiles with whole sums hold whole rows."""
        return template.of_rows() if template.candidate.all_load else template.in_tiles()

    def always_legal(self, impl: ImplGraph) -> bool:
        """A loop whose tiles may be short."""
        return impl.r_axis is not None and takes_every_size(impl.tiling)


SCAN = _Scan()


def _whole(g: GroupInput, position: int) -> list[Candidate]:
    """Tiles with everything that a sum runs over, and many rows or few where it is known how many one step has."""
    candidate = Candidate(ALL, "", position, padded=True, all_load=True)
    inside = [a for a in g.order[position + 1 :] if a not in g.reduced]
    rows = product(g.size(a) for a in inside).as_int()
    if g.order[-1] not in g.reduced or rows is None or not 0 < rows < SCANNED_TOGETHER:
        return [candidate]  # columns, or rows of which one step has enough, or an unknown number
    return [
        replace(candidate, shortest=-(-SCANNED_TOGETHER // rows)),
        replace(candidate, suffix=FEW, longest=(SCANNED_TOGETHER - 1) // rows),
    ]
