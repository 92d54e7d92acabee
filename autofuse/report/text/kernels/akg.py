"""Text output of ``autofuse build --flow akg``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted
from autofuse.report.text.console import printable
from autofuse.report.text.kernels.build import print_build, print_files
from autofuse.report.text.tables import bytes_text, number, table

__all__ = ["print_flow"]


def print_flow(screen: Console, found: Mapping[str, Any], *, verbose: bool) -> None:
    """Print the launches of a graph with their binaries, or the templates of a project; files, JSON, next command."""
    if not found["launches"]:
        print_build(screen, found, verbose=verbose)
        _print_json(screen, found)
        return
    took = sum(found["seconds"].values())
    count = counted(len(found["launches"]), "launch", "launches")
    screen.print(
        printable(f"{found['name']} for {found['target']}: ") + f"{count}, {took:.2f} s",
        style="bold",
    )
    columns = ("binary", "grid", "block", "cluster", "registers", "shared")
    out = table(*columns, right=("registers", "shared"))
    for row in found["launches"]:
        out.add_row(
            printable(row["binFileName"] + row["binFileSuffix"]),
            *(_dims(row[k]) for k in ("gridDim", "blockDim", "clusterDim")),
            number(row["registers"]),
            bytes_text(row["sharedBytes"]),
        )
    screen.print(out)
    print_files(screen, found, verbose)
    _print_json(screen, found)


def _print_json(screen: Console, found: Mapping[str, Any]) -> None:
    why = "" if found["compiled"]["done"] else "; sha256 is null because nothing is compiled"
    screen.print(f"{found['json']} has the keys of {found['keys']}{why}", soft_wrap=True)


def _dims(sizes: Sequence[object]) -> str:
    """Return sizes without trailing ones."""
    shown = [str(s) for s in sizes]
    while len(shown) > 1 and shown[-1] == "1":
        shown.pop()
    return " x ".join(shown)
