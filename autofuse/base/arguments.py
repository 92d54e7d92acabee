"""Checks of call arguments, with errors that name the argument."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.visible import visible

__all__ = ["integer", "spelled", "symbol_sizes"]

_ANY_SIZE = 1 << 62


def integer(name: str, value: Any, low: int, high: int) -> int:
    """Return the value as an int in range.

    Args:
        name: the argument, for messages.
        value: a Python or NumPy integer.
        low: the smallest allowed value.
        high: the largest.

    Raises:
        TypeError: it is not an integer; a text or a float is refused.
        ValueError: it is out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {number}")
    return number


def spelled(name: str, known: Container[str]) -> str:
    """Return the known spelling of a name: some readers replace control characters by their visible form."""
    return visible(name) if name not in known and visible(name) in known else name


def symbol_sizes(
    graph: str, symbols: Mapping[str, str], given: Mapping[str, int]
) -> dict[str, int]:
    """Return the caller's symbol sizes by identifier; the kernel checks their range.

    Args:
        graph: its name, for messages.
        symbols: its symbols: identifier -> the user's name.
        given: size per symbol, by either name.

    Raises:
        AutofuseError: AF5007, a name is not a symbol.
        TypeError: a size is not an integer.
        ValueError: a size is far out of any range.
    """
    known = {n: n for n in symbols} | {label: n for n, label in symbols.items()}
    given = {spelled(name, known): size for name, size in given.items()}
    for name in given:
        if name not in known:
            hint = f"its symbols are: {', '.join(symbols.values()) or 'none'}"
            raise AutofuseError.of("AF5007", f"{name} is not a symbol of {graph}", hint=hint)
    return {known[n]: integer(f"the size {n}", v, -_ANY_SIZE, _ANY_SIZE) for n, v in given.items()}
