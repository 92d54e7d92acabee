"""Command line of the verb ``doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from autofuse.commands.options import Json, examples
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples("autofuse doctor", 'cmake -DTWIN="$(autofuse doctor --twin-dir)" ...')
    )(doctor)


def doctor(
    twin_dir: Annotated[
        bool, typer.Option("--twin-dir", help="Print the folder of the twin's CMake package.")
    ] = False,
    json: Json = False,
) -> None:
    """Check this machine: compiler, twin, CANN, Triton, cache."""

    def action() -> Outcome:
        from autofuse.commands.environment.known import doctor, twin_folder

        return twin_folder() if twin_dir else doctor()

    raise typer.Exit(execute("doctor", action, as_json=json))
