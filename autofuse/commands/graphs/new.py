"""Command line of the verb ``new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands.options import Json, examples, path
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=examples("autofuse new first", "autofuse new first -o graphs"))(new)


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the graph.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", parser=path, metavar="DIR", help="Folder to write to."),
    ] = Path(),
    json: Json = False,
) -> None:
    """Write a graph to start from.

    Also writes graph.schema.json, with which editors complete and check the file.
    """

    def action() -> Outcome:
        from autofuse.commands.graphs.author import new

        return new(name, output)

    raise typer.Exit(execute("new", action, as_json=json))
