"""Command line of the verb ``cache``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from autofuse.commands.options import Json, examples
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


class CacheAction(str, Enum):
    """Action on the cache."""

    info = "info"
    clear = "clear"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=examples("autofuse cache info", "autofuse cache clear"))(cache)


def cache(
    action: Annotated[
        CacheAction, typer.Argument(metavar="info|clear", help="Show its contents, or empty it.")
    ],
    json: Json = False,
) -> None:
    """Show or empty the cache of compiled kernels."""

    def run() -> Outcome:
        from autofuse.commands.environment import cached

        return cached.info() if action is CacheAction.info else cached.clear()

    raise typer.Exit(execute("cache", run, as_json=json))
