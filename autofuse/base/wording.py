"""Message texts: counts with their nouns, and texts that can use the user's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Wording", "counted", "differing", "form", "listed", "part"]


class Wording(str):
    """A text about parts of a graph.

    As a plain string it has the compiler's identifiers.  :meth:`named` returns it with the names of the user, which
    only who has the graph of the user knows.
    """

    template: str
    parts: tuple[object, ...]

    def __new__(cls, template: str, *parts: object) -> Wording:
        """A text: ``template`` has a ``{}`` for each part; what has a name, as a node, is there by that."""
        self = super().__new__(cls, template.format(*(getattr(p, "name", p) for p in parts)))
        self.template, self.parts = template, parts
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)

    def named(self, name: Callable[[object], str]) -> str:
        """The text with ``name`` of each part in its place."""
        return self.template.format(*map(name, self.parts))


def form(count: object, one: str, many: str) -> str:
    """The form of a word that goes with a number: ``one`` for 1, else ``many``; a symbolic size is not 1."""
    return one if count == 1 else many


def listed(parts: Sequence[object], by: str = "; ") -> Wording:
    """Return the parts in a row, with ``by`` between them."""
    return Wording(by.join(["{}"] * len(parts)), *parts)


def counted(count: object, one: str, many: str = "") -> str:
    """A number and what it counts: ``1 kernel``, ``2 kernels``.

    Args:
        count: an integer, or the expression of a size; other texts, as ``2 to 3``, take the plural.
        one: the noun in the singular.
        many: its plural, where that is not ``one`` with an s.
    """
    noun = form(count, one, many or f"{one}s")
    return f"{count} {noun}" if isinstance(count, int | str) else Wording(f"{{}} {noun}", count)


def part(count: int, elements: int, what: str, one: str, many: str) -> str:
    """A count of elements with the verb that agrees with it: ``1 of 8 elements of y is``."""
    return f"{count} of {counted(elements, 'element')} of {what} {form(count, one, many)}"


def differing(wrong: int, elements: int, what: str, reference: str = "NumPy") -> str:
    """A sentence that counts the elements that differ from a reference."""
    return f"{part(wrong, elements, what, 'differs', 'differ')} from {reference}"
