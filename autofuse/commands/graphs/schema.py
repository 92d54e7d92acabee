"""The words of the verb ``schema``."""

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
            "autofuse schema --results               of what bench --out writes",
            "autofuse schema --bundle                of what silicon writes",
            "autofuse schema --certificate            of what certify writes",
            "autofuse schema --kernel-json upstream   of what build --flow akg writes",
        )
    )(schema)


def schema(
    tuning: Annotated[
        bool, typer.Option("--tuning", help="Of tuning files, with tilings, or blocks for a GPU.")
    ] = False,
    results: Annotated[
        bool, typer.Option("--results", help="Of files of results, with measured times.")
    ] = False,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="Of bundles, with what the kit found on a chip.")
    ] = False,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Of the certificate of a kernel.")
    ] = False,
    kernel_json: Annotated[
        KernelJson | None,
        typer.Option(
            "--kernel-json", help="Of a flow's JSON, with these keys.", show_default=False
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Wrap it in the object that the other verbs print.")
    ] = False,
) -> None:
    """Print the JSON Schema of graph or other files."""

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
