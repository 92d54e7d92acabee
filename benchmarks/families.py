"""What the templates for short rows are worth, by the cost model.

    python benchmarks/families.py                              ../shared/corpus/akg
    python benchmarks/families.py graphs/ --target ascend910b4
    python benchmarks/families.py --limit 200 --json           some of the graphs

A graph is scheduled with all families of templates, and again without *narrow* (docs/templates.md).  Printed are the
graphs for which that makes a difference, as time with it over time without, with the start of a kernel.  Times are
those of the model; nothing is measured.
"""

from __future__ import annotations

import sys
from unittest import mock

from forms import Found, in_us, report

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.lowering.lowering import lower_all
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.cost.costs import Costs
from autofuse.schedule.cost.solver import modelled_ticks
from autofuse.schedule.scheduler import schedule_all
from autofuse.schedule.templates.narrow import NARROW
from autofuse.targets import TargetSpec


def compare(graph: FusionGraph, target: TargetSpec) -> Found | None:
    """A graph with and without the family; None where sizes are symbols, or nothing is legal."""
    if graph.symbols:
        return None
    try:
        hints = [canonicalise(h) for h in lower_all(graph, target)]
        taken = modelled_ticks(*schedule_all(hints, target), Costs(target))
        with mock.patch.object(type(NARROW), "candidates", return_value=[]):
            without = modelled_ticks(*schedule_all(hints, target), Costs(target))
    except AutofuseError:
        return None
    if taken is None or without is None:
        return None
    return Found(graph.name, len(hints), in_us(taken, target), in_us(without, target))


if __name__ == "__main__":
    words = "{changed} take a template for short rows, {slower} of them slower; time over that without it:"
    sys.exit(report(__doc__, words, compare))
