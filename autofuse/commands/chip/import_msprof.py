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
            help="op_summary_*.csv of msprof, or kernel_details.csv of torch_npu.",
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--target",
            "-t",
            help="The chip that was profiled: a table does not say which.",
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
            help="Graphs of the kernels: files, folders of them, folders that build wrote. Repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            parser=path,
            metavar="FILE|DIR",
            help="Add the results to this file, or to this folder.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Take times of kernels from your own profile.

    Kernels are recognised by their names; rows of other operators are counted and left. With the
    graphs, sizes follow from the shapes in the table, and the time of the cost model stands beside.
    """
    from autofuse.commands.chip.profiles import import_msprof as run

    raise typer.Exit(
        execute(
            "import-msprof",
            lambda: run(tables, graphs=graphs or [], target=target, out=out),
            as_json=json,
        )
    )
