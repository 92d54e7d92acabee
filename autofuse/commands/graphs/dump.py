"""Command line of the verb ``dump``."""

from __future__ import annotations

from typing import Annotated

import typer

from autofuse.commands import completing
from autofuse.commands.options import (
    DEFAULT_TARGET,
    STAGES,
    TEMPLATE_STAGES,
    Graph,
    Json,
    Target,
    examples,
)
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse dump first.json",
            "autofuse dump first.json --stage hint",
            "autofuse dump first.json --stage impl --template 1",
            "autofuse dump first.json --stage files",
            "autofuse dump first.json -t nvidia-h100    its Triton kernels",
        )
    )(dump)


def _stages(ctx: typer.Context, incomplete: str) -> list[str]:
    left_out = () if completing.has_templates(ctx) else TEMPLATE_STAGES
    return [s for s in STAGES if s.startswith(incomplete) and s not in left_out]


def dump(
    graph: Graph,
    stage: Annotated[
        str | None,
        typer.Option(
            "--stage",
            help="fusion, hint, impl, kernel or files.  [default: impl; files for a GPU]",
            show_default=False,
            autocompletion=_stages,
        ),
    ] = None,
    template: Annotated[
        int | None,
        typer.Option(
            "--template",
            metavar="KEY",
            help="Print only this tiling key.",
            autocompletion=completing.keys,
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Print the IR after a stage."""

    def action() -> Outcome:
        from autofuse.commands.graphs.inspect import dump

        return dump(graph, stage=stage, template=template, target=target)

    raise typer.Exit(execute("dump", action, as_json=json))
