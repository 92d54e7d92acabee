"""Command line of the verb ``schema``."""

from __future__ import annotations

from typing import Annotated

import typer

from autofuse.commands.options import KernelJson, examples
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse schema > graph.schema.json",
            "autofuse schema --tuning > tuning.schema.json",
            "autofuse schema --results               files that bench --out writes",
            "autofuse schema --bundle                files that silicon writes",
            "autofuse schema --certificate            files that certify writes",
            "autofuse schema --kernel-json upstream   files that build --flow akg writes",
        )
    )(schema)


def schema(
    tuning: Annotated[
        bool,
        typer.Option("--tuning", help="Schema of tuning files, with tilings, or blocks for a GPU."),
    ] = False,
    results: Annotated[
        bool, typer.Option("--results", help="Schema of results files, with measured times.")
    ] = False,
    bundle: Annotated[
        bool,
        typer.Option("--bundle", help="Schema of bundles, with the kit's results from a chip."),
    ] = False,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Schema of kernel certificates.")
    ] = False,
    kernel_json: Annotated[
        KernelJson | None,
        typer.Option(
            "--kernel-json", help="Schema of a flow's JSON, with these keys.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Wrap the schema in the object that other verbs print.")
    ] = False,
) -> None:
    """Print the JSON Schema of graph files, or of other files."""

    def action() -> Outcome:
        from autofuse.commands.graphs.author import schema

        keys = None if kernel_json is None else kernel_json.value
        return schema(
            tuning=tuning,
            results=results,
            bundle=bundle,
            certificate=certificate,
            kernel_json=keys,
        )

    raise typer.Exit(execute("schema", action, as_json=json))
