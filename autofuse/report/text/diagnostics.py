"""Diagnostics on a terminal: the code, the line of the file with a caret, the hint."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from autofuse.base.diagnostics import Diagnostic, Where
from autofuse.report.text.console import printable

__all__ = ["print_diagnostics", "to_text"]

_COLORS = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
_SNIPPET_WIDTH = 96
#: A file larger than this is not opened again for a snippet.
_SNIPPET_BYTES = 1 << 24
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.\w]+|.')


def print_diagnostics(screen: Console, diagnostics: Iterable[Diagnostic]) -> None:
    """Print the diagnostics, separated by empty lines."""
    for i, d in enumerate(diagnostics):
        if i:
            screen.print()
        screen.print(to_text(d), soft_wrap=True)


def to_text(d: Diagnostic) -> Text:
    """Return a diagnostic as styled text, without a final newline."""
    out = Text()
    out.append(f"{d.severity} {d.code}", style=_COLORS.get(d.severity, "bold"))
    out.append(f": {printable(d.message)}", style="bold")
    place = str(d.where)
    if place:
        out.append("\n  --> ", style="blue")
        out.append(printable(place))
    snippet = _snippet(d.where)
    if snippet is not None:
        out.append("\n")
        out.append_text(snippet)
    for note in d.notes:
        out.append("\n  | ", style="blue")
        out.append(printable(note))
    if d.hint:
        out.append("\n  hint: ", style="bold green")
        out.append(printable(d.hint))
    return out


def _snippet(where: Where) -> Text | None:
    line = _line_of(where)
    if line is None:
        return None
    start = min(max(where.column - 1, 0), len(line))
    token = _TOKEN.match(line, start)
    end = token.end() if token else start + 1
    first = max(0, min(start - 20, len(line) - _SNIPPET_WIDTH))
    shown = line[first : first + _SNIPPET_WIDTH]
    before = ("..." if first else "") + printable(line[first:start])
    after = "..." if first + _SNIPPET_WIDTH < len(line) else ""
    carets = "^" * max(1, cell_len(printable(line[start : min(end, first + _SNIPPET_WIDTH)])))
    number = str(where.line)
    out = Text()
    out.append(f"{number} | ", style="blue")
    out.append(("..." if first else "") + printable(shown) + after)
    out.append("\n" + " " * len(number) + " | ", style="blue")
    out.append(" " * cell_len(before) + carets, style="bold red")
    return out


def _line_of(where: Where) -> str | None:
    if not where.path or where.line < 1:
        return None
    try:
        path = Path(where.path)
        if not path.is_file() or path.stat().st_size > _SNIPPET_BYTES:
            return None
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return None
    return lines[where.line - 1].rstrip("\r") if where.line <= len(lines) else None
