"""The table of template families."""

from __future__ import annotations

from autofuse.schedule.templates.family import Family
from autofuse.schedule.templates.general import GENERAL, GENERAL_ROWS
from autofuse.schedule.templates.narrow import NARROW
from autofuse.schedule.templates.reduce import REDUCE
from autofuse.schedule.templates.row import ROW
from autofuse.schedule.templates.scan import SCAN
from autofuse.schedule.templates.transpose import CUT_REDUCE, TRANSPOSE

__all__ = ["FAMILIES"]

#: In the order of trial: of equally fast templates the first one wins, and if none fits, the first one gives the
#: reason.
FAMILIES: tuple[Family, ...] = (
    GENERAL,
    ROW,
    GENERAL_ROWS,
    REDUCE,
    CUT_REDUCE,
    TRANSPOSE,
    NARROW,
    SCAN,
)
