"""Command line of the verb ``show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands.options import Graph, Json, examples, path
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=examples("autofuse show first.json", "autofuse show first.json -o g.svg"))(
        show
    )


def show(
    graph: Graph,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=path, metavar="FILE.svg", help="Draw a picture."),
    ] = None,
    json: Json = False,
) -> None:
    """Summarise a graph: inputs, outputs, ops, sizes; or draw it."""

    def action() -> Outcome:
        from autofuse.commands.graphs.inspect import show

        return show(graph, output)

    raise typer.Exit(execute("show", action, as_json=json))
