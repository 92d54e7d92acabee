"""The two streams of a command: results on stdout, diagnostics and progress on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.text import Text

from autofuse.base.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["console", "printable", "progress", "ticker"]

#: Width of tables without a terminal, as in a log or a message.
PIPE_WIDTH = 80


class Screen(Console):
    """A console that passes no control characters of its input to the terminal.

    Without a terminal only tables have a width: a sentence stays on one line, for tools that search it.
    """

    def __init__(self, out: TextIO) -> None:
        self._sentences_whole = not out.isatty() and not os.environ.get("COLUMNS", "").isdigit()
        width = PIPE_WIDTH if self._sentences_whole else None
        super().__init__(file=out, width=width, highlight=False, markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, but never wrap a sentence without a terminal."""
        if self._sentences_whole and all(isinstance(x, str | Text) for x in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a printed text, or a cell of a table."""
        return super().render_str(printable(text), **options)


def console(stream: TextIO | None = None) -> Console:
    """Return a console on ``stream`` (default stdout).

    rich honours NO_COLOR and FORCE_COLOR; a pipe gets plain text of width COLUMNS.
    """
    return Screen(stream if stream is not None else sys.stdout)


def printable(text: str) -> str:
    """Return ``text`` with control characters made visible; line breaks stay."""
    return visible(text, keep="\n")


@contextmanager
def progress(
    title: str, total: int, *, show: bool, remaining: bool = False
) -> Iterator[ProgressTick]:
    """Show a progress bar on stderr, only if ``show`` and on a terminal; ``remaining``: with the remaining time."""
    # Most commands show no bar, and rich's progress modules are slow to import.
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    screen = console(sys.stderr)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *((TextColumn("left"), TimeRemainingColumn()) if remaining else ()),
        console=screen,
        transient=True,
        disable=not (show and screen.is_terminal),
    )
    with bar:
        yield ProgressTick(bar, bar.add_task(title, total=total))


@contextmanager
def ticker(title: str, *, show: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows its argument as progress on stderr, only if ``show`` and on a terminal."""
    screen = console(sys.stderr)
    if not (show and screen.is_terminal):
        yield lambda _: None
        return
    with screen.status(title) as status:
        yield lambda text: status.update(
            Text(printable(f"{title}: {text}"[: max(screen.width - 4, 8)]))
        )


class ProgressTick:
    """Advances a progress bar by one."""

    def __init__(self, bar: Progress, task: object) -> None:
        self._bar = bar
        self._task = task

    def __call__(self) -> None:
        self._bar.advance(self._task)  # type: ignore[arg-type]

    def reach(self, done: int, of: int) -> None:
        """Set the bar to ``done`` of ``of``."""
        self._bar.update(self._task, completed=done, total=of)  # type: ignore[arg-type]
