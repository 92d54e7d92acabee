"""Text output of ``autofuse adopt``, and notes of other verbs on edited files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from autofuse.report.text.console import printable
from autofuse.report.text.tables import table

__all__ = ["print_edited", "print_edits"]


def print_edits(screen: Console, found: Mapping[str, Any]) -> None:
    """Print the changes, the differences if requested, and the edited files."""
    words = {
        "adopted": "is adopted: builds keep your edit",
        "accepted": "is accepted over the current generated text",
        "dropped": "is restored to the generated text",
    }
    for what, text in words.items():
        for name in found[what]:
            screen.print(printable(f"{name} {text}"), soft_wrap=True)
    for name, text in found["differences"].items():
        if text is None:
            unknown = (
                f"{name}: the generated text is not available; a build into the folder writes it"
            )
            screen.print(printable(unknown), soft_wrap=True)
            continue
        for line in text.splitlines():
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            screen.print(Text(printable(line), style=style), soft_wrap=True)
    if not found["edited"]:
        screen.print(printable(f"{found['folder']}: no file has been edited"))
        return
    out = table("edited", "builds", "generated text")
    for f in found["edited"]:
        out.add_row(
            printable(f["file"]),
            "keep it" if f["adopted"] else "stop here",
            "changed under the edit" if f["stale"] else "unchanged since the edit",
        )
    screen.print(out)


def print_edited(screen: Console, names: Sequence[str], meaning: str) -> None:
    """Print a line on the edited files of a folder and their effect on the output above."""
    if names:
        screen.print(printable(f"edited: {', '.join(names)}; {meaning}"), soft_wrap=True)
