"""Command line of the verb ``ops``."""

from __future__ import annotations

from typing import Annotated

import typer

from autofuse.commands import completing
from autofuse.commands.options import Json, examples
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse ops",
            "autofuse ops Softmax",
            "autofuse ops Softmax --json | jq .result.example > softmax.json",
        )
    )(ops)


def ops(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Describe this op.", autocompletion=completing.ops),
    ] = None,
    json: Json = False,
) -> None:
    """List the ops of graph files, or describe one.

    With a name, shows its attributes, its implementation per chip and dtype, its accuracy, its other
    names, and a graph that can be built.
    """

    def action() -> Outcome:
        from autofuse.commands.graphs.op_list import ops

        return ops(name)

    raise typer.Exit(execute("ops", action, as_json=json))
