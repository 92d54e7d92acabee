"""Symbol values for evaluating many expressions."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Sizes"]


class Sizes(dict[str, int]):
    """Symbol values, never mutated.

    Expressions evaluated at the same sizes share functions; each is computed once.

    Attributes:
        known: values of functions.
    """

    __slots__ = ("known",)

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self.known: dict[object, int] = {}
