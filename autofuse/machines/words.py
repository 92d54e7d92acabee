"""Parsing of device names."""

from __future__ import annotations

import re

__all__ = ["CPU", "card_index", "memory_limit"]

#: The processor of this machine, which runs the twin, Triton's interpreter and loops.
CPU = "cpu"

_WORDS = re.compile(r"cuda(?::(0|[1-9][0-9]?))?")


def card_index(device: str) -> int | None:
    """Return the card that a text such as ``cuda:1`` names; None if it names none."""
    m = _WORDS.fullmatch(device)
    return int(m[1] or 0) if m else None


def memory_limit(device: str) -> int | None:
    """Return the MiB of address space of a worker for a device: None for the knob's value, 0 for no limit.

    The driver of a card reserves more address space than there is memory.
    """
    return None if device == CPU else 0
