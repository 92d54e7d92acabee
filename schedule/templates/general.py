"""*general*: the innermost axis of the iteration space is tiled.

For a group without broadcasts that is the whole tensor as one axis.  With broadcasts this template always works: inside
a tile every tensor either varies along the one axis or is a single value.

Its ``rows`` variant is for rows that share data, such as a bias, and are too long for a tile of whole rows: a tile is a
piece of the columns, and an inner loop iterates over some rows.  The shared data are loaded, cast and computed once for
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Condition, ImplGraph, Node
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, with_tiles
from autofuse.schedule.templates.family import ELEMENTWISE, Candidates, Family, InLoops
from autofuse.schedule.templates.transpose import contiguous_axes

__all__ = ["GENERAL", "GENERAL_ROWS", "LONG", "cut_into_rows", "rows_in_loop"]

NAME = "general"
#: Rows per loop: with one shared row, this moves 1/64 more than necessary.
ROWS = 32
#: Minimum elements of a long row: a tile holds few such rows.
LONG = 1024
#: Maximum number of axes to try as loops, innermost first.
MOST = 2


class _General(Family):
    kinds = ELEMENTWISE

    def candidates(self, g: GroupInput) -> Candidates:
        """Return the one candidate of this family."""
        return [(g, Candidate(NAME, "", len(g.order) - 1))]

    def always_legal(self, impl: ImplGraph) -> bool:
        """Return True: a tile of a few elements always fits."""
        return True


class _GeneralRows(InLoops):
    kinds = ELEMENTWISE

    def candidates(self, g: GroupInput) -> Candidates:
        """Return a loop over rows for each axis along which rows share data."""
        size = g.size(g.order[-1]).as_int()
        if (size is not None and size < LONG) or contiguous_axes(g):
            return []
        return cut_into_rows(g, g.order[:-1], Candidate(NAME, "", -1))


GENERAL, GENERAL_ROWS = _General(), _GeneralRows()


def cut_into_rows(g: GroupInput, axes: Sequence[int], plain: Candidate) -> Candidates:
    """Return the group with one of several axes cut into loops, where rows along the innermost axis share data.

    Args:
        g: the group; its reduced axes stay.
        axes: the axes that may be cut.
        plain: template for the candidates' other fields.
    """
    last = g.order[-1]
    loads = [n for n in g.nodes if n.op == "Load" and n.y.varies_along(last)]
    out: Candidates = []
    for a in reversed(axes):
        rows = rows_in_loop(g.size(a).as_int())
        if rows < 2 or not _some_share(loads, a):
            continue
        cut = with_tiles(g, a, rows)
        inside = cut.order[1 + g.order.index(a)]
        candidate = replace(
            plain,
            suffix=f"rows_{rows}",
            position=len(cut.order) - 1,
            conditions=(
                Condition(g.size(a), at_least=rows),
                Condition(g.size(last), at_least=LONG),
            ),
        )
        out.append((replace(cut, reduced=(inside, *g.reduced)), candidate))
    return out[:MOST]


def _some_share(loads: list[Node], axis: int) -> bool:
    """Return True if along the axis some loads reread one row of GM, and others do not."""
    return len({n.y.varies_along(axis) for n in loads}) == 2


def rows_in_loop(rows: int | None) -> int:
    """Return the rows per loop: equal in all loops if their number is known at build time."""
    if rows is None:
        return ROWS
    return -(-rows // -(-rows // ROWS)) if rows else 1
