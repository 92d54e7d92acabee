"""``adopt``: the user's edits of generated files that later builds keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autofuse.commands.options import Json, examples, path
from autofuse.commands.outcome import Outcome, execute

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        "adopt",
        epilog=examples(
            "autofuse adopt out               record every edit in the folder",
            "autofuse adopt out --diff        show the edits; record nothing",
            "autofuse adopt out device/add_kernel.cpp",
            "autofuse adopt out --accept device/add_kernel.cpp",
            "autofuse adopt out --drop device/add_kernel.cpp",
        ),
    )(_adopt)


def _adopt(
    folder: Annotated[
        Path, typer.Argument(parser=path, metavar="DIR", help="A folder that build wrote.")
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Edited files in the folder.  [default: all]"),
    ] = None,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Show the edits against the generated text; change nothing."),
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="FILE",
            help="Keep the edit despite changes in the generated text. Repeatable.",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="FILE", help="Restore the generated text. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Keep generated files that you edited.

    The next build into DIR leaves an adopted file as it is, and warns if the text generated for it
    changed (AF5016). The generated text is kept under generated/. verify, run and explain accept DIR
    with its edits, adopted or not.
    """

    def action() -> Outcome:
        return adopt(folder, files or [], diff=diff, accept=accept or [], drop=drop or [])

    raise typer.Exit(execute("adopt", action, as_json=json))


def adopt(
    folder: Path, files: list[str], *, diff: bool, accept: list[str], drop: list[str]
) -> Outcome:
    """Record, accept and drop edits, or show them."""
    from autofuse.base.diagnostics import AutofuseError
    from autofuse.base.edits import edited_files, stale_findings
    from autofuse.measure import adopting

    if diff and (accept or drop):
        text = "--diff is read-only; --accept and --drop change the folder"
        raise AutofuseError.of("AF5007", text, hint="leave out --diff")
    if files and (accept or drop):
        text = "give files after --accept or --drop, or alone to adopt them"
        raise AutofuseError.of("AF5007", text, hint="--accept FILE --drop FILE")
    adopted: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    if accept:
        accepted = adopting.accept(folder, accept)
    if drop:
        dropped = adopting.drop(folder, drop)
    if not (diff or accept or drop):
        adopted = adopting.adopt(folder, files)
    shown = adopting.differences(folder, files) if diff else {}
    left = edited_files(folder)
    stale = tuple(f.name for f in left if f.stale)
    found = {
        "folder": str(folder),
        "adopted": list(adopted),
        "accepted": list(accepted),
        "dropped": list(dropped),
        "edited": [{"file": f.name, "adopted": f.adopted, "stale": f.stale} for f in left],
        "differences": shown,
    }

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.edits import print_edits

        print_edits(screen, found)

    return Outcome(found, show, stale_findings(folder, stale))
