"""The table of a tuning file in the generated tiling function."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.codegen.backends.ascendc.expr_cpp import int_literal
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.search.given import GivenTiling, templates_of

__all__ = ["TUNED_HEADER", "TunedView", "tuned_view"]

#: Additional includes of a kernel with such a table.
TUNED_HEADER = "autofuse_tuned.h"


@frozen
class TunedView:
    """Lengths of the arrays, rows as initialisers, and the sizes of a call."""

    sizes: int
    groups: int
    rows: tuple[str, ...]
    call: str


def tuned_view(
    graph: FusionGraph, results: Sequence[ScheduleResult], rows: Sequence[GivenTiling], call: str
) -> TunedView | None:
    """Return the table; None without rows.

    Args:
        graph: the whole graph.
        results: its schedules.
        rows: tilings that fit the schedules.
        call: parameters for the symbols, separated by commas.
    """
    if not rows:
        return None
    most = max(len(r.groups) for r in rows)
    lines = []
    for row in rows:
        where = templates_of(row, results)
        assert where is not None
        index, choices = where
        ranges = [row.sizes.get(s.name, (s.min, s.max)) for s in graph.symbols] or [(0, 0)]
        least, largest = (", ".join(int_literal(r[i]) for r in ranges) for i in (0, 1))
        tiles = ", ".join(
            f"{{{choice}, {int_literal(g.tile)}, {int_literal(g.cores)}}}"
            for choice, g in zip(choices, row.groups, strict=True)
        )
        lines.append(f"{{{{{least}}}, {{{largest}}}, {index}, {{{tiles}}}}}")
    return TunedView(max(len(graph.symbols), 1), most, tuple(lines), call or "0")
