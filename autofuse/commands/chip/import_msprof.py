"""The verb ``import-msprof``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autofuse.commands import completing
from autofuse.commands.options import Json, examples, path
from autofuse.commands.outcome import execute

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        "import-msprof",
        epilog=examples(
            "autofuse import-msprof op_summary_1.csv -t ascend910b2 --graphs graphs/",
            "autofuse import-msprof kernel_details.csv -t ascend910b2 -g out -o all.json",
        ),
    )(import_msprof)


def import_msprof(
    tables: Annotated[
        list[Path],
        typer.Argument(
            parser=path,
            metavar="CSV...",
            help="op_summary_*.csv from msprof, or kernel_details.csv from torch_npu.",
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--target",
            "-t",
            help="Profiled chip; the table does not name it.",
            autocompletion=completing.targets,
        ),
    ],
    graphs: Annotated[
        list[Path] | None,
        typer.Option(
            "--graphs",
            "-g",
            parser=path,
            metavar="GRAPH|DIR",
            help="Graphs of the kernels: files, folders of files, or folders that build wrote. Repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            parser=path,
            metavar="FILE|DIR",
            help="Add the results to this file or folder.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Import kernel times from your own profile.

    Kernels are recognised by name; rows of other operators are counted and skipped. Given the graphs,
    the sizes follow from the shapes in the table, and the cost model's prediction is added.
    """
    from autofuse.commands.chip.profiles import import_msprof as run

    raise typer.Exit(
        execute(
            "import-msprof",
            lambda: run(tables, graphs=graphs or [], target=target, out=out),
            as_json=json,
        )
    )
