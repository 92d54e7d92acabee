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
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.schedule.axes.tiling_axes import Choice, GroupInput, with_tiles
from autofuse.schedule.templates.transpose import contiguous_axes

__all__ = [
    "LONG",
    "NAME",
    "OF_ROWS",
    "choices",
    "cut_into_rows",
    "is_of_rows",
    "rows_in_loop",
    "shared_choices",
]

NAME = "general"
#: Rows that a loop goes through: with one row in common, a 64th more than has to be moved.
ROWS = 32
#: Elements from which on rows are long: a tile that holds whole ones has few of them.
LONG = 1024
#: How the suffix of the variant starts.
OF_ROWS = "rows_"
#: Axes that may be looped over, the innermost first.
MOST = 2


def choices(g: GroupInput) -> list[Choice]:
    """The one choice of this family."""
    return [Choice(NAME, "", len(g.order) - 1, padded=False)]


def shared_choices(g: GroupInput) -> list[tuple[GroupInput, Choice]]:
    """A loop over rows for each axis along which rows have something in common."""
    last = g.order[-1]
    size = g.size(last).as_int()
    if (size is not None and size < LONG) or contiguous_axes(g):
        return []
    return [
        (
            replace(cut, reduced=(inside,)),
            Choice(NAME, f"{OF_ROWS}{rows}", len(cut.order) - 1, padded=False),
        )
        for cut, inside, rows in cut_into_rows(g, g.order[:-1])
    ]


def cut_into_rows(g: GroupInput, axes: Sequence[int]) -> list[tuple[GroupInput, int, int]]:
    """The group with one of some axes cut into loops, where its rows along the innermost axis have something in common.

    Returns:
        For each the group, the axis of the rows of a loop, and how many these are.
    """
    last = g.order[-1]
    loads = [n for n in g.nodes if n.op == "Load" and n.y.varies_along(last)]
    out: list[tuple[GroupInput, int, int]] = []
    for a in reversed(axes):
        rows = rows_in_loop(g.size(a).as_int())
        if rows >= 2 and _some_share(loads, a):
            cut = with_tiles(g, a, rows)
            out.append((cut, cut.order[1 + g.order.index(a)], rows))
    return out[:MOST]


def is_of_rows(impl: ImplGraph) -> bool:
    """Whether a template is one of these: for long rows, and none for other sizes."""
    return impl.template in (NAME, "narrow") and impl.suffix.startswith(OF_ROWS)


def _some_share(loads: list[Node], axis: int) -> bool:
    """Whether some rows along the axis are one row of GM, and others are not."""
    return len({n.y.varies_along(axis) for n in loads}) == 2


def rows_in_loop(rows: int | None) -> int:
    """Rows in a loop: as many in each, where their number is known when the kernel is built."""
    if rows is None:
        return ROWS
    return -(-rows // -(-rows // ROWS)) if rows else 1
