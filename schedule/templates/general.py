"""*general*: the innermost axis of the iteration space is tiled.

For a group without broadcasts that is the whole tensor as one axis.  With broadcasts it is the template that always
works: inside a tile every tensor either varies along the one axis or is a single value.

Its ``rows`` variant is for rows that have something in common, as a bias, and are too long for a tile that holds whole
ones: a tile is a piece of the columns, and a loop inside it goes through some rows.  What these have in common is
loaded, cast and computed once for all of them.
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
#: Rows that a loop goes through: with one row in common, a 64th more than has to be moved.
ROWS = 32
#: Elements from which on rows are long: a tile that holds whole ones has few of them.
LONG = 1024
#: Axes that may be looped over, the innermost first.
MOST = 2


class _General(Family):
    kinds = ELEMENTWISE

    def candidates(self, g: GroupInput) -> Candidates:
        """The one candidate of this family."""
        return [(g, Candidate(NAME, "", len(g.order) - 1))]

    def always_legal(self, impl: ImplGraph) -> bool:
        """A tile of a few elements fits, whatever the sizes are."""
        return True


class _GeneralRows(InLoops):
    kinds = ELEMENTWISE

    def candidates(self, g: GroupInput) -> Candidates:
        """A loop over rows for each axis along which rows have something in common."""
        size = g.size(g.order[-1]).as_int()
        if (size is not None and size < LONG) or contiguous_axes(g):
            return []
        return cut_into_rows(g, g.order[:-1], Candidate(NAME, "", -1))


GENERAL, GENERAL_ROWS = _General(), _GeneralRows()


def cut_into_rows(g: GroupInput, axes: Sequence[int], plain: Candidate) -> Candidates:
    """The group with one of some axes cut into loops, where its rows along the innermost axis have something in common.

    Args:
        g: the group; what is reduced in it stays so.
        axes: that may be cut.
        plain: what the candidates are like otherwise.
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
    """Return True if along the axis some loads read one row of GM again, and others do not."""
    return len({n.y.varies_along(axis) for n in loads}) == 2


def rows_in_loop(rows: int | None) -> int:
    """Rows in a loop: as many in each, where their number is known when the kernel is built."""
    if rows is None:
        return ROWS
    return -(-rows // -(-rows // ROWS)) if rows else 1
