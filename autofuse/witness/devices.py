"""The words that name a card."""

from __future__ import annotations

import re

__all__ = ["card_index"]

_WORDS = re.compile(r"cuda(?::(0|[1-9][0-9]?))?")


def card_index(device: str) -> int | None:
    """The card that a text such as ``cuda:1`` names; None where it names none."""
    m = _WORDS.fullmatch(device)
    return int(m[1] or 0) if m else None
