"""Text of expressions without redundant parentheses."""

from __future__ import annotations

__all__ = ["bare"]


def bare(e: object) -> str:
    """Return the text without the outer parentheses of a sum or a product."""
    text = str(e)
    if text.startswith("(") and _matching(text) == len(text) - 1:
        return text[1:-1]
    return text


def _matching(text: str) -> int:
    depth = 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if depth == 0:
            return i
    return -1
