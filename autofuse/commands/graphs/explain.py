"""Command line of the verb ``explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands.options import (
    DEFAULT_TARGET,
    Graph,
    Json,
    Shape,
    Target,
    Tuning,
    examples,
    path,
)
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse explain first.json",
            "autofuse explain first.json --shape rows=4096 --target ascend910b4",
            "autofuse explain first.json --html explained.html",
            "autofuse explain out                       a folder that build wrote",
            "autofuse explain first.json -t nvidia-h100 --tuning-out blocks.json",
            "autofuse explain first.json --json | jq .result.total_us",
        )
    )(explain)


def explain(
    graph: Graph,
    shape: Shape = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", parser=path, metavar="FILE", help="Also write an HTML page."),
    ] = None,
    tuning: Tuning = None,
    tuning_out: Annotated[
        Path | None,
        typer.Option(
            "--tuning-out",
            parser=path,
            metavar="FILE",
            help="For a GPU: write the chosen blocks, to edit and pass to --tuning.",
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Show the templates of a graph, with modelled times.

    Shows the bottleneck of each template, why some are not chosen, and the layout of UB. All times come
    from a model of the chip; none is measured. For a GPU, lists the kernels with their blocks, the bytes
    that they must move, and the time of each by a model of the card.
    """

    def action() -> Outcome:
        from autofuse.commands.graphs.explaining import explain

        return explain(
            graph,
            shapes=shape or [],
            target=target,
            page=html,
            tuning=tuning,
            tuning_out=tuning_out,
        )

    raise typer.Exit(execute("explain", action, as_json=json))
