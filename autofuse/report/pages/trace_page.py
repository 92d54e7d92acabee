"""Timed mode as one self-contained HTML file: timeline, UB, roofline, loops and source."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

__all__ = ["page_text"]

_TEMPLATE = "trace_page.html"


def page_text(report: Mapping[str, Any]) -> str:
    """Return the page of a timed report.

    All names are data inside one JSON text, which the script inserts as text, never as markup.

    Args:
        report: from ``autofuse.machines.twin.timed.timed``.
    """
    template = resources.files("autofuse.report").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    data = json.dumps(report, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # Nothing inside a script element may look like its end, or like a comment.
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    title = html.escape(f"{report['name']} on {report['target']} (model)")
    # Names may look like the placeholders, so the template is split before anything is inserted.
    before, rest = template.split("{{title}}", 1)
    between, after = rest.split("{{data}}", 1)
    return f"{before}{title}{between}{data}{after}"
