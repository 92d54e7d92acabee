"""Templates of groups with running sums.

*scan_all*: a tile holds all elements of a sum; the tiled axis is another one.  Sixteen or more rows are summed side by
side, fewer rows one after the other, so there is a template for either case: their costs and scratch space are
unrelated.

*scan*: one core loops over the axes of the sums, with the carry from earlier tiles in UB.  With the innermost axis
tiled it is legal for every size: a tile is a part of a row in which each element continues its own sum, or a part of
the one sum.
"""

from __future__ import annotations

from functools import partial

from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.frozen import replace
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, TileLengths
from autofuse.schedule.placement.scan import SCANNED_TOGETHER, place_scan
from autofuse.schedule.templates import family
from autofuse.schedule.templates.family import Candidates, Placing
from autofuse.schedule.templates.reduce import Reduce, tiled

__all__ = ["ALL", "FEW", "LOOP", "SCAN", "Scan"]

ALL, LOOP = "scan_all", "scan"
#: Suffix of *scan_all* with fewer rows than are summed side by side.
FEW = "few"


class Scan(Reduce):
    """Tiles that hold all elements of a sum, and loops over these."""

    kinds = family.SCAN

    def candidates(self, g: GroupInput) -> Candidates:
        """Return whole sums in a tile, then loops."""
        whole, loops = tiled(g, ALL, LOOP)
        whole = [(h, v) for h, c in whole for v in (_variants(g, c) if h is g else [c])]
        return whole + loops

    def placing(self, g: GroupInput) -> Placing:
        """Return a function that places the axes of the sums inside the tile, or in a loop with a carry."""
        return partial(place_scan, g)


SCAN = Scan()


def _variants(g: GroupInput, candidate: Candidate) -> list[Candidate]:
    """Return whole sums in a tile; two variants, for many rows and for few, if a step is known to have few rows."""
    inside = [a for a in g.order[candidate.position + 1 :] if a not in g.reduced]
    rows = product(g.size(a) for a in inside).as_int()
    if g.order[-1] not in g.reduced or rows is None or not 0 < rows < SCANNED_TOGETHER:
        return [candidate]  # columns, or rows with enough or an unknown number per step
    return [
        replace(candidate, lengths=TileLengths(shortest=-(-SCANNED_TOGETHER // rows))),
        replace(candidate, suffix=FEW, lengths=TileLengths(longest=(SCANNED_TOGETHER - 1) // rows)),
    ]
