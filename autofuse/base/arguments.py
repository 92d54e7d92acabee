"""Arguments of calls that are wrong in themselves: the errors name them."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.visible import visible

__all__ = ["integer", "spelled", "symbol_sizes"]

_ANY_SIZE = 1 << 62


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


def spelled(name: str, known: Container[str]) -> str:
    """A name as it is known: graphs of some readers have control characters of a file as they are shown."""
    return visible(name) if name not in known and visible(name) in known else name


def symbol_sizes(
    graph: str, symbols: Mapping[str, str], given: Mapping[str, int]
) -> dict[str, int]:
    """Sizes that a caller gives to symbols, by their identifiers; whether they are in range is for the kernel to say.

    Args:
        graph: its name, for messages.
        symbols: those that it has: identifier -> the name that users know it by.
        given: size per symbol, by either name.

    Raises:
        AutofuseError: AF5007, a name is not that of a symbol.
        TypeError: a size is no whole number.
        ValueError: a size is far out of any range.
    """
    known = {n: n for n in symbols} | {label: n for n, label in symbols.items()}
    given = {spelled(name, known): size for name, size in given.items()}
    for name in given:
        if name not in known:
            hint = f"its symbols are: {', '.join(symbols.values()) or 'none'}"
            raise AutofuseError.of("AF5007", f"{name} is not a symbol of {graph}", hint=hint)
    return {known[n]: integer(f"the size {n}", v, -_ANY_SIZE, _ANY_SIZE) for n, v in given.items()}
