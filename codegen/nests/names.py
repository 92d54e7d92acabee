"""Identifiers of generated text: names of tensors may contain any character, unlike identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["Names"]

#: Characters that an identifier must not have.
_FOREIGN = re.compile(r"[^A-Za-z0-9_]")


class Names:
    """Unique identifiers within one scope.

    Args:
        taken: reserved names: words of the language, and other names in the text.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def take(self, wanted: str) -> str:
        """Return an identifier like ``wanted``, numbered if that is taken."""
        base = _FOREIGN.sub("_", wanted).lstrip("_") or "v"
        base = base if base[0].isalpha() else f"v{base}"
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    @contextmanager
    def block(self) -> Iterator[None]:
        """Open a block; names taken in it are free again after it."""
        before = set(self._taken)
        yield
        self._taken = before
