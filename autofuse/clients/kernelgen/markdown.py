"""Escaping of text from files for Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from autofuse.base.visible import visible

__all__ = ["bullets", "code", "plain", "table"]

#: Text allowed between backquotes in a table cell: it ends neither.
_CODE = re.compile(r"(?:[A-Za-z0-9_.,:;/()\[\]=+*%'\" -]|[<>]=)*[A-Za-z0-9_\]\)]\Z", re.A)
#: Characters that are always markup in Markdown or HTML.
_MARKUP = {c: f"\\{c}" for c in "\\`*[]{}|"} | {c: f"&#{ord(c)};" for c in "&<>~@$"}
#: Text that is markup in some positions: automatic links, emphasis, and the first word of a line.
_PLACES = re.compile(
    r":(?=//)|(?<=\bwww)\.|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=^)[-+#.)=:!]", re.I
)
_NUMBERED = re.compile(r"^(\d+)([.)])")


def plain(text: str) -> str:
    """Return any text on one line, with all markup escaped."""
    shown = _PLACES.sub(lambda m: f"\0{ord(m[0])};", visible(text).strip())
    shown = _NUMBERED.sub(lambda m: f"{m[1]}\0{ord(m[2])};", shown)
    return "".join(_MARKUP.get(c, c) for c in shown).replace("\0", "&#")


def code(text: str) -> str:
    """Return a name or an expression between backquotes if possible, else escaped by :func:`plain`."""
    shown = visible(text)
    if _CODE.match(shown) and not shown.startswith(" "):
        return f"`{shown}`"
    return plain(shown)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; cells are Markdown, on one line, without vertical bars."""
    out = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return [*out, *(f"| {' | '.join(row)} |" for row in rows), ""]


def bullets(items: Iterable[str]) -> list[str]:
    """Return the lines of a list; items are Markdown on one line."""
    return [*(f"- {i}" for i in items), ""]
