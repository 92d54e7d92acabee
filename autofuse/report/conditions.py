"""Conditions of templates in terms of the graph's symbols: "needs h <= 24,576" for a formula of UB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import Expr, ExprError, Sym, sym
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import Condition

__all__ = ["needs"]

Ranges = Mapping[str, tuple[int, int]]

#: Most characters of a formula that is as readable as its description.
_SHORT = 24
#: Most characters of a formula that is still readable.
_LONG = 48


def needs(condition: Condition, symbols: Sequence[Symbol], sizes: Mapping[str, int]) -> str:
    """Return what a condition requires of the sizes, in words.

    A bound of a value that grows with a symbol becomes a bound of the symbol. With several symbols it is a bound of one
    of them with the others at their sizes, and the text states that.

    Args:
        condition: condition of a template.
        symbols: symbols of the graph; the text uses the user's names.
        sizes: typical or given sizes per symbol.
    """
    labels = {s.name: s.label for s in symbols}
    value = condition.value.substitute({n: sym(x) for n, x in labels.items() if n != x})
    parts = []
    if condition.multiple_of != 1:
        parts.append(f"{_product(value)} to be a multiple of {condition.multiple_of:,}")
    if condition.at_least is not None or condition.at_most is not None:
        ranges = {s.label: (s.min, s.max) for s in symbols}
        given = {labels[n]: size for n, size in sizes.items() if n in labels}
        parts.append(_bounded(value, condition.at_least, condition.at_most, ranges, given))
    return f"needs {' and '.join(parts)}" if parts else "always"


def _product(value: Expr) -> str:
    """Describe a value that must be a multiple of something."""
    text = str(value)
    if len(text) > _LONG:
        return f"a combination of {', '.join(sorted(value.symbols()))} that is in the JSON object"
    return text[1:-1] if text.startswith("(") and text.find(")") == len(text) - 1 else text


def _bounded(
    value: Expr, low: int | None, high: int | None, ranges: Ranges, sizes: Mapping[str, int]
) -> str:
    symbols = sorted(value.symbols())
    for name in symbols:
        others = {s: sizes[s] for s in symbols if s != name and s in sizes}
        if len(others) < len(symbols) - 1 or name not in ranges:
            continue
        try:
            inner = value.substitute(others)
            if not _grows(inner, ranges):
                continue
            found = _interval(inner, name, low, high, ranges[name])
        except ExprError:
            continue
        if found is not None:
            at = ", ".join(f"{s} = {n:,}" for s, n in others.items())
            return found + (f" at {at}" if at else "")
    if len(str(value)) <= _SHORT:
        return _compared(str(value), low, high)
    text = f"a combination of {', '.join(symbols)} that is in the JSON object"
    return text if symbols else _compared(str(value), low, high)


def _compared(name: str, low: int | None, high: int | None) -> str:
    sides = [f"{name} >= {low:,}"] if low is not None else []
    return " and ".join(sides + ([f"{name} <= {high:,}"] if high is not None else []))


def _interval(
    value: Expr, name: str, low: int | None, high: int | None, limits: tuple[int, int]
) -> str | None:
    """Return the sizes of a symbol for which a value that grows with it is in bounds; None: all or none of them."""
    first, last = limits

    def reaches(bound: int) -> Callable[[int], bool]:
        return lambda n: value.evaluate({name: n}) >= bound

    start = first if low is None else _least(reaches(low), first, last)
    stop = last if high is None else _least(reaches(high + 1), first, last) - 1
    if start > stop or (start == first and stop == last):
        return None
    return _compared(name, start if start > first else None, stop if stop < last else None)


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number from which on a monotonic condition holds; ``high + 1`` if it never holds."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _grows(value: Expr, ranges: Ranges) -> bool:
    """Return True if a value surely does not fall when a symbol grows: sums and products of non-negative terms."""
    for monomial, factor in value.terms:
        if factor < 0 and monomial:
            return False
        for atom, _ in monomial:
            if isinstance(atom, Sym):
                if ranges[atom.name][0] < 0:
                    return False
                continue
            inner = atom.args
            if atom.name in ("CeilDiv", "FloorDiv"):
                if not inner[1].is_const or inner[1].value <= 0:
                    return False
                inner = inner[:1]
            elif atom.name not in ("Min", "Max"):
                return False
            if any(not _grows(e, ranges) or bounds(e, ranges)[0] < 0 for e in inner):
                return False
    return True
