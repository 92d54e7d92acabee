"""Values of symbols, at which many expressions are evaluated."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Sizes"]


class Sizes(dict[str, int]):
    """Values of symbols; nobody changes them.

    Many expressions that are evaluated at the same sizes have functions in common: each is computed once.

    Attributes:
        known: values of functions.
    """

    __slots__ = ("known",)

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self.known: dict[object, int] = {}
