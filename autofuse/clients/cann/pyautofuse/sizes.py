"""Sizes and axes of clients: Python arithmetic on symbols."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann.pyautofuse.errors import SIZE_WORDS, ClientTypeError
from autofuse.implgraph.expr.expression import Atom, Expr, ExprError, FloorDiv, Func, const, sym
from autofuse.implgraph.expr.expression import Max as MaxOf
from autofuse.implgraph.expr.expression import Min as MinOf
from autofuse.implgraph.expr.expression import Mod as ModOf

__all__ = ["Axis", "Max", "Min", "Mod", "SizeExpr", "SizeLike", "size_of"]

#: Largest exponent of ``**``.
_MAX_POWER = 16


class SizeExpr:
    """An integer expression of sizes: ``SizeExpr(8)``, ``g.create_size("s0")``, and arithmetic on them.

    Without an argument it is 1.
    ``/`` and ``//`` are both floor division.
    """

    __slots__ = ("value",)

    def __init__(self, value: SizeLike = 1) -> None:
        self.value = size_of(value, "SizeExpr")

    @classmethod
    def symbol(cls, name: str) -> SizeExpr:
        """Return the size called ``name``."""
        return cls(sym(name))

    @property
    def expression(self) -> str:
        """The expression as text, with parentheses around all sums and products."""
        return _text(self.value)

    def __add__(self, other: SizeLike) -> SizeExpr:
        return SizeExpr(self.value + size_of(other, "+"))

    def __radd__(self, other: SizeLike) -> SizeExpr:
        return SizeExpr(size_of(other, "+") + self.value)

    def __sub__(self, other: SizeLike) -> SizeExpr:
        return SizeExpr(self.value - size_of(other, "-"))

    def __rsub__(self, other: SizeLike) -> SizeExpr:
        return SizeExpr(size_of(other, "-") - self.value)

    def __neg__(self) -> SizeExpr:
        return SizeExpr(-self.value)

    def __pos__(self) -> SizeExpr:
        return self

    def __mul__(self, other: SizeLike) -> SizeExpr:
        return SizeExpr(self.value * size_of(other, "*"))

    def __rmul__(self, other: SizeLike) -> SizeExpr:
        return SizeExpr(size_of(other, "*") * self.value)

    def __floordiv__(self, other: SizeLike) -> SizeExpr:
        return _quotient(self.value, size_of(other, "/"))

    def __rfloordiv__(self, other: SizeLike) -> SizeExpr:
        return _quotient(size_of(other, "/"), self.value)

    __truediv__ = __floordiv__
    __rtruediv__ = __rfloordiv__

    def __mod__(self, other: SizeLike) -> SizeExpr:
        return Mod(self, other)

    def __rmod__(self, other: SizeLike) -> SizeExpr:
        return Mod(other, self)

    def __pow__(self, power: object) -> SizeExpr:
        n = power.value.as_int() if isinstance(power, SizeExpr) else power
        if not isinstance(n, int) or not 0 <= n <= _MAX_POWER:
            text = f"the exponent {power} of a size is not an integer from 0 to {_MAX_POWER}"
            raise AutofuseError.of("AF1108", text)
        out = const(1)
        for _ in range(n):
            out = out * self.value
        return SizeExpr(out)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SizeExpr):
            return self.value == other.value
        return self.value == other

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return self.expression

    def __repr__(self) -> str:
        return f"SizeExpr({self.expression})"


def _text(e: Expr) -> str:
    terms = []
    for monomial, factor in e.terms:
        factors = [_atom_text(a) for a, power in monomial for _ in range(power)]
        if factor != 1 or not factors:
            factors.insert(0, str(factor))
        terms.append(factors[0] if len(factors) == 1 else f"({' * '.join(factors)})")
    if len(terms) < 2:
        return terms[0] if terms else "0"
    return f"({' + '.join(terms)})"


def _atom_text(a: Atom) -> str:
    if isinstance(a, Func) and a.name in ("Mod", "Min", "Max"):
        return f"{a.name}({', '.join(_text(x) for x in a.args)})"
    return str(a)


SizeLike: TypeAlias = int | SizeExpr | Expr


def size_of(value: object, what: str) -> Expr:
    """Return the expression of a value that represents a size.

    Raises:
        ClientTypeError: AF1103, the value is not a size; ``what`` names it.
    """
    if isinstance(value, SizeExpr):
        return value.value
    if isinstance(value, Expr):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return const(value)
    raise ClientTypeError.of(
        "AF1103",
        f"{what}: {value!r} is not a size",
        hint="an integer, or an expression of results of create_size",
    ).worded(SIZE_WORDS)


def _quotient(a: Expr, b: Expr) -> SizeExpr:
    try:
        return SizeExpr(FloorDiv(a, b))
    except ExprError as e:
        raise AutofuseError.of("AF1108", str(e)) from None


def Mod(a: SizeLike, b: SizeLike) -> SizeExpr:  # noqa: N802 - the client's name for it
    """Return ``a - a // b * b``."""
    try:
        return SizeExpr(ModOf(size_of(a, "Mod"), size_of(b, "Mod")))
    except ExprError as e:
        raise AutofuseError.of("AF1108", str(e)) from None


def Max(a: SizeLike, b: SizeLike) -> SizeExpr:  # noqa: N802
    """Return the maximum."""
    return SizeExpr(MaxOf(size_of(a, "Max"), size_of(b, "Max")))


def Min(a: SizeLike, b: SizeLike) -> SizeExpr:  # noqa: N802
    """Return the minimum."""
    return SizeExpr(MinOf(size_of(a, "Min"), size_of(b, "Min")))


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop axis of a graph.

    Attributes:
        id: its number in the graph.
        name: its name.
        size: number of iterations.
        type: always ``original``: a client's graphs are not scheduled yet.
    """

    id: int
    name: str
    size: SizeExpr
    type: str = field(default="original")
