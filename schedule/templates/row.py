"""*row*: an outer axis is tiled, the axes inside it are whole in UB.

A tile is a number of rows.  If all rows are multiples of 32 bytes, they have the same layout in UB as in GM; the
``unaligned`` variant works for any length: DataCopyPad pads rows to 32 bytes.
"""

from __future__ import annotations

from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, Padding
from autofuse.schedule.placement.placement import alignment
from autofuse.schedule.realise import Template
from autofuse.schedule.templates.family import ELEMENTWISE, Candidates, Family

__all__ = ["MAX_INNER", "ROW"]

NAME = "row"
#: Maximum inner axes that a template for symbolic sizes holds in UB; more rarely fit.
MAX_INNER = 2


class _Row(Family):
    kinds = ELEMENTWISE

    def candidates(self, g: GroupInput) -> Candidates:
        """Return aligned and unaligned rows for each axis that may be tiled, innermost first."""
        if len(g.order) < 2:
            return []
        length = g.size(g.order[-1]).as_int()
        align = alignment(g, g.order[-1])
        static = all(g.size(a).is_const for a in g.order)
        first = 0 if static else max(0, len(g.order) - 1 - MAX_INNER)
        out: Candidates = []
        for position in range(len(g.order) - 2, first - 1, -1):
            if length is None or length % align == 0:
                out.append((g, Candidate(NAME, "", position)))
            if length is None or length % align != 0:
                out.append((g, Candidate(NAME, "unaligned", position, Padding.INNERMOST)))
        return out

    def planned(self, template: Template) -> ImplGraph:
        return template.of_rows()


ROW = _Row()
