"""Command line of the verb ``targets``."""

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
            "autofuse targets",
            "autofuse targets ascend910b2",
            "autofuse targets nvidia-h100",
            "autofuse targets mine.toml              a custom target file",
        )
    )(targets)


def targets(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FILE.toml]",
            help="Show all figures of this target.",
            autocompletion=completing.targets,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the chips and GPUs, or all figures of one.

    Every figure has a status (measured, vendor, fitted, modelled, assumed) and a source.
    """

    def action() -> Outcome:
        from autofuse.commands.environment.known import targets

        return targets(name)

    raise typer.Exit(execute("targets", action, as_json=json))
