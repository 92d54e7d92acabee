"""Arguments that no graph could make right: a ``TypeError`` or ``ValueError`` that names them."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["integer"]


def integer(name: str, value: Any, low: int, high: int) -> int:
    """A whole number.

    Args:
        name: of the argument, for messages.
        value: a number of Python or of NumPy.
        low: the smallest one that is allowed.
        high: the largest one.

    Raises:
        TypeError: it is no whole number; a text or a float is none.
        ValueError: it is out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} is from {low} to {high}, not {number}")
    return number
