"""Output of ``autofuse adopt`` for people, and notes of other verbs on edited files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from autofuse.report.text.console import printable
from autofuse.report.text.tables import table

__all__ = ["print_edited", "print_edits"]


def print_edits(screen: Console, found: Mapping[str, Any]) -> None:
    """Print what was done, the differences if asked for, and which files are edited."""
    words = {
        "adopted": "is yours now: builds keep it",
        "accepted": "is based on what is generated now",
        "dropped": "is the generated text again",
    }
    for what, text in words.items():
        for name in found[what]:
            screen.print(printable(f"{name} {text}"), soft_wrap=True)
    for name, text in found["differences"].items():
        if text is None:
            unknown = (
                f"{name}: the generated text is not known here; a build into the folder makes it"
            )
            screen.print(printable(unknown), soft_wrap=True)
            continue
        for line in text.splitlines():
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            screen.print(Text(printable(line), style=style), soft_wrap=True)
    if not found["edited"]:
        screen.print(printable(f"{found['folder']}: every file is as it was generated"))
        return
    out = table("edited", "builds", "generated text")
    for f in found["edited"]:
        out.add_row(
            printable(f["file"]),
            "keep it" if f["adopted"] else "stop here",
            "changed under the edit" if f["stale"] else "as it was edited",
        )
    screen.print(out)


def print_edited(screen: Console, names: Sequence[str], meaning: str) -> None:
    """One line for a folder with edited files: which, and what that means for what was printed."""
    if names:
        screen.print(printable(f"edited: {', '.join(names)}; {meaning}"), soft_wrap=True)
