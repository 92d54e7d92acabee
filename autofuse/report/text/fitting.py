"""Tables that fit the screen: columns shrink at words, then names at their marks, and at last rows become blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions
from rich.text import Text

from autofuse.report.text.console import printable

__all__ = ["Fitted", "folded"]

#: Between two columns.
_GAP = 2
#: Columns of names and words longer than this may become narrower than their words; all others then keep their width.
_LONG = 32
_LEAST = 16
#: Break points of a name that is longer than its column.
_PIECE = re.compile(r"[^/._:,\-]*[/._:,\-]?")


def folded(text: str, width: int) -> list[str]:
    """Break a text into lines for a column: between words, and long words after ``/``, ``.``, ``_`` and the like."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            wanted = f"{line} {word}" if line else word
            if cell_len(wanted) <= width:
                line = wanted
                continue
            if line:
                lines.append(line)
            *whole, line = _broken(word, width)
            lines += whole
        lines.append(line)
    return lines


def _broken(word: str, width: int) -> list[str]:
    """Break a word into pieces of at most the width."""
    lines = [""]
    for piece in _PIECE.findall(word) if cell_len(word) > width else [word]:
        if cell_len(lines[-1]) + cell_len(piece) <= width:
            lines[-1] += piece
            continue
        chopped = chop_cells(piece, width) if cell_len(piece) > width else [piece]
        lines += chopped if lines[-1] else []
        lines = lines if lines[-1] else chopped
    return lines


class Fitted:
    """A table without lines.

    Args:
        columns: the headings.
        right: the columns of numbers.
        header: whether to show headings.
    """

    def __init__(self, columns: Sequence[str], right: Sequence[str], header: bool) -> None:
        self.columns = list(columns)
        self.right = [c in right for c in columns]
        self.header = header
        self.rows: list[list[str | Text]] = []

    def add_row(self, *cells: str | Text) -> None:
        """Add a row; its control characters are made visible."""
        self.rows.append([printable(c) if isinstance(c, str) else c for c in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._blocks(options.max_width)
            return
        if self.header:
            yield self._line(console, widths, [Text(c, style="dim") for c in self.columns])
        for row in self.rows:
            yield self._line(console, widths, row)

    def _widths(self, limit: int) -> list[int] | None:
        """Return the widths of the columns; None if no readable layout fits."""
        above: list[list[str | Text]] = [[*self.columns]] if self.header else []
        cells = [[_plain(r[k]) for r in (*above, *self.rows)] for k in range(len(self.columns))]
        found = [max((_longest(c.split("\n")) for c in column), default=0) for column in cells]
        words = [max((_longest(c.split()) for c in column), default=0) for column in cells]
        steps = ([min(w, most) for w in words] for most in (_LONG, _LEAST))
        room = limit - _GAP * (len(self.columns) - 1)
        for floors in steps:
            while sum(found) > room:
                wide = [(w, k) for k, w in enumerate(found) if w > floors[k]]
                if not wide:
                    break
                found[max(wide)[1]] -= 1
        return found if sum(found) <= room else None

    def _line(self, console: Console, widths: Sequence[int], row: Sequence[str | Text]) -> Text:
        """Return the lines of a row, several if a cell has several."""
        cells = [
            list(c.wrap(console, w or 1))
            if isinstance(c, Text)
            else [Text(x) for x in folded(c, w or 1)]
            for c, w in zip(row, widths, strict=True)
        ]
        lines = []
        for k in range(max(map(len, cells), default=0)):
            line = Text()
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
                part = cell[k] if k < len(cell) else Text()
                space = " " * max(width - part.cell_len, 0)
                start = "" if column == 0 else " " * _GAP
                before, after = (space, "") if self.right[column] else ("", space)
                line = Text.assemble(line, start + before, part, after)
            line.rstrip()
            lines.append(line)
        return Text("\n").join(lines)

    def _blocks(self, limit: int) -> Iterator[Text]:
        """Yield a line per cell, below the first cell of its row."""
        for row in self.rows:
            named = [
                (name if self.header else "", _plain(cell))
                for name, cell in zip(self.columns, row, strict=True)
                if _plain(cell)
            ]
            for k, (name, cell) in enumerate(named):
                text = f"{name}: {cell}" if name else cell
                start = "  " if k else ""
                for line in folded(text, max(limit - len(start), 1)):
                    yield Text(start + line)


def _plain(cell: str | Text) -> str:
    return cell.plain if isinstance(cell, Text) else cell


def _longest(parts: Sequence[str]) -> int:
    return max(map(cell_len, parts), default=0)
