"""Words that name devices."""

from __future__ import annotations

import re

__all__ = ["CPU", "card_index", "memory_limit"]

#: The processor of this machine, where the twin, Triton's interpreter and loops run.
CPU = "cpu"

_WORDS = re.compile(r"cuda(?::(0|[1-9][0-9]?))?")


def card_index(device: str) -> int | None:
    """The card that a text such as ``cuda:1`` names; None where it names none."""
    m = _WORDS.fullmatch(device)
    return int(m[1] or 0) if m else None


def memory_limit(device: str) -> int | None:
    """Return MiB of address space of a worker for a device: None for the knob's, 0 for no limit.

    The driver of a card reserves more addresses than there is memory.
    """
    return None if device == CPU else 0
