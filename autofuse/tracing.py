"""``AUTOFUSE_TRACE``: the steps of a build on stderr or as a page; off unless the variable is set."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autofuse.base import cache, knobs
from autofuse.base.artifacts import digest
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.observing import Observer
from autofuse.targets import Target

if TYPE_CHECKING:
    from autofuse.report.text.ir.build_trace import BuildTrace

__all__ = ["Tracing", "tracing"]


@dataclass(slots=True)
class Tracing:
    """Observer and output folder of a build that may be traced.

    Attributes:
        observe: observer for the driver; None if tracing is off.
        folder: the folder of the page, once known; None: the cache folder.
    """

    observe: Observer | None = None
    folder: Path | None = None


@contextmanager
def tracing(target: str | Target) -> Iterator[Tracing]:
    """Trace the enclosed build if ``AUTOFUSE_TRACE`` is set. The page of a failed build is in the cache folder.

    Raises:
        AutofuseError: AF5008, the variable has an invalid value.
    """
    form = knobs.TRACE.get()
    if not form:
        yield Tracing()
        return
    from autofuse.report.text.ir.build_trace import BuildTrace, trace_text

    trace = BuildTrace()
    held = Tracing(trace)
    try:
        yield held
    except AutofuseError as e:
        held.folder = None
        trace.failed(e)
        raise
    finally:
        if trace.name:
            chip = target if isinstance(target, str) else target.name
            text = trace_text(trace, chip) if form == "text" else _page(trace, chip, held.folder)
            sys.stderr.write(text)


def _page(trace: BuildTrace, target: str, folder: Path | None) -> str:
    """Write the page and return a line with its path, or why it is missing: a trace never makes a build fail."""
    from autofuse.report.pages.build_trace_page import trace_page

    page = trace_page(trace, target)
    name = f"{re.sub(r'[^A-Za-z0-9_]', '_', trace.name)[:64]}.trace.html"
    try:
        if folder is None:
            made = cache.entry(
                "traces", digest(page), name, lambda f: cache.write_atomic(f / name, page)
            )
            return f"trace: {made / name}\n"
        cache.write_atomic(folder / name, page)
        return f"trace: {folder / name}\n"
    except (OSError, AutofuseError) as e:
        return f"trace: the page cannot be written: {e}\n"
