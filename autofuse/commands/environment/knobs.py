"""Command line of the verb ``knobs``."""

from __future__ import annotations

import typer

from autofuse.commands.options import Json, examples
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=examples("autofuse knobs", "AUTOFUSE_DEBUG=1 autofuse build first.json"))(
        knobs
    )


def knobs(json: Json = False) -> None:
    """List the environment variables that autofuse reads."""

    def action() -> Outcome:
        from autofuse.commands.environment.known import show_knobs

        return show_knobs()

    raise typer.Exit(execute("knobs", action, as_json=json))
