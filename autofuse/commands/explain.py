"""``explain``: the templates of a graph, and what the cost model makes of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands import words, writing
from autofuse.commands.outcome import Outcome
from autofuse.commands.writing import keep_inputs
from autofuse.implgraph.ops.requirements import requirements

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["explain"]


def explain(
    graph: Path, *, shapes: Sequence[str], target: str, page: Path | None = None
) -> Outcome:
    """Schedule a graph and evaluate every template that is kept, at sizes of the user's choice.

    ``page`` is a file that gets the same as HTML.
    """
    from autofuse.report import explanation

    if page is not None:
        keep_inputs(page, {"the graph": graph})
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

    if page is not None:
        from autofuse.report.pages.explain_page import explain_page

        writing.write_all({page: writing.text(explain_page(found))}, None)

    def show(screen: Console) -> None:
        from autofuse.report.text.explain import print_explanation

        print_explanation(screen, found)
        if page is not None:
            screen.print(f"wrote {page}", soft_wrap=True)

    return Outcome(found, show)
