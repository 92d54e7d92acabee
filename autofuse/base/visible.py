"""Untrusted text made safe for terminals, logs and pages: unprintable characters are shown by name or code."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str, keep: str = "") -> str:
    """Replace control characters, direction marks, lone surrogates and the like by symbols or codes.

    Args:
        text: any text.
        keep: characters that stay unchanged.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _shown(c) for c in text)


def _shown(c: str) -> str:
    if c == "\t":
        return " "
    code = ord(c)
    return chr(0x2400 + code) if code < 0x20 else f"\\u{code:04x}"
