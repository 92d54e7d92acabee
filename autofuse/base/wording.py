"""Message texts: counts with nouns, and texts that can use the user's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["Wording", "counted", "differing", "form", "listed", "part"]


class Wording(str):
    """A text about parts of a graph.

    As a plain string it has the compiler's identifiers. :meth:`named` returns it with the user's names, which are known
    only with the user's graph.
    """

    template: str
    parts: tuple[object, ...]

    def __new__(cls, template: str, *parts: object) -> Wording:
        """Fill the ``{}`` of ``template`` with the parts; a part with a name, such as a node, appears by name."""
        self = super().__new__(cls, template.format(*(getattr(p, "name", p) for p in parts)))
        self.template, self.parts = template, parts
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)

    def named(self, name: Callable[[object], str]) -> str:
        """Return the text with ``name(part)`` in place of each part."""
        return self.template.format(*map(name, self.parts))


def form(count: object, one: str, many: str) -> str:
    """Return ``one`` for 1, else ``many``; a symbolic size counts as plural."""
    return one if count == 1 else many


def listed(parts: Sequence[object], by: str = "; ") -> Wording:
    """Join the parts with ``by``."""
    return Wording(by.join(["{}"] * len(parts)), *parts)


def counted(count: object, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 kernel``, ``2 kernels``.

    Args:
        count: an integer, or the expression of a size; other texts, such as ``2 to 3``, take the plural.
        one: the noun in the singular.
        many: the plural; by default ``one`` with an s.
    """
    noun = form(count, one, many or f"{one}s")
    return f"{count} {noun}" if isinstance(count, int | str) else Wording(f"{{}} {noun}", count)


def part(count: int, elements: int, what: str, one: str, many: str) -> str:
    """Return a count of elements with its verb: ``1 of 8 elements of y is``."""
    return f"{count} of {counted(elements, 'element')} of {what} {form(count, one, many)}"


def differing(wrong: int, elements: int, what: str, reference: str = "NumPy") -> str:
    """Return a sentence that counts the elements that differ from a reference."""
    return f"{part(wrong, elements, what, 'differs', 'differ')} from {reference}"
