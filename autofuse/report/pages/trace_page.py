"""Timed mode as one HTML file without anything from elsewhere: timeline, UB, roofline, loops and source."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

__all__ = ["page_text"]

_TEMPLATE = "trace_page.html"


def page_text(report: Mapping[str, Any]) -> str:
    """The page of a timed report.

    All names are data inside of one JSON text, which the script puts on the page as text, never as markup.

    Args:
        report: of ``autofuse.machines.twin.timed.timed``.
    """
    template = resources.files("autofuse.report").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    data = json.dumps(report, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Nothing inside of a script element may look like its end, or like a comment.
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    title = html.escape(f"{report['name']} on {report['target']} (model)")
    # Names may look like the marks themselves, so the text is cut before anything is put in.
    before, rest = template.split("{{title}}", 1)
    between, after = rest.split("{{data}}", 1)
    return f"{before}{title}{between}{data}{after}"
