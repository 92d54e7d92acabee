"""``docs/knobs.md``: every environment variable, from :data:`autofuse.base.knobs.KNOBS`.

``python tools/pages/knobs_page.py`` prints the page.
"""

from __future__ import annotations

import sys

from autofuse.base.knobs import KNOBS

__all__ = ["knobs_page"]

_VALUES = {
    "text": "a text",
    "integer": "an integer",
    "switch": "`1`, `true`, `yes`, `on`; `0`, `false`, `no`, `off` or empty",
    "words": "words, as a shell reads them",
}


def knobs_page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# Environment variables",
        "",
        "Made by `python tools/pages/knobs_page.py` from `autofuse/base/knobs.py`; do not edit.",
        "",
        "autofuse reads a variable when it needs it, not on import. An invalid value is an error (AF5008).",
        "`autofuse knobs` shows the current values, and warns about unknown `AUTOFUSE_*` variables.",
        "",
        "| variable | kind | default | what it does |",
        "| --- | --- | --- | --- |",
    ]
    for k in KNOBS:
        kind = k.kind + (f", at least {k.least}" if k.kind == "integer" else "")
        kind += "".join(f", `{v}`" for v in k.values)
        doc = k.doc + (f"; without it, `{k.fallback}` is read" if k.fallback else "")
        lines.append(f"| `{k.name}` | {kind} | {_code(k.default_text())} | {doc} |")
    lines += ["", "| kind | values |", "| --- | --- |"]
    lines += [f"| {kind} | {values} |" for kind, values in _VALUES.items()]
    return "\n".join(lines) + "\n"


def _code(default: str) -> str:
    return default if default == "empty" else f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(knobs_page())
