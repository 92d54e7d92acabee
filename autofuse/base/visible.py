"""Text from outside, for terminals, logs and pages: what is no printable character is shown as what it is."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str, keep: str = "") -> str:
    """``text`` with control characters, marks of direction, lone surrogates and the like replaced by pictures or codes.

    Args:
        text: any text.
        keep: characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _shown(c) for c in text)


def _shown(c: str) -> str:
    if c == "\t":
        return " "
    code = ord(c)
    return chr(0x2400 + code) if code < 0x20 else f"\\u{code:04x}"
