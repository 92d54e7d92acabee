"""``explain``: the templates of a graph, and what the cost model makes of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands import words
from autofuse.commands.outcome import Outcome
from autofuse.implgraph.ops.requirements import requirements

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["explain"]


def explain(graph: Path, *, shapes: Sequence[str], target: str) -> Outcome:
    """Schedule a graph and evaluate every template that is kept, at sizes of the user's choice."""
    from autofuse.report import explanation

    given = words.sizes(shapes, "--shape")
    asked = api.read(graph)
    sizes = explanation.sizes_of(asked.symbols, given)
    for r in requirements(asked):
        if not r.holds(sizes):
            hint = "a kernel refuses these sizes as well"
            raise AutofuseError.of("AF5007", r.text, hint=hint)
    built = api.build(graph, target=target)
    found = explanation.explain(built.graph.label, built.schedule, built.target, sizes, built.graph)
    labels = built.graph.symbol_labels()
    found["sizes"] = {labels[n]: size for n, size in sizes.items()}

    def show(screen: Console) -> None:
        from autofuse.report.text.explain import print_explanation

        print_explanation(screen, found)

    return Outcome(found, show)
