"""Interval arithmetic: bounds of an expression from the ranges of its symbols."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.expr.expression import Atom, Expr, ExprError, Sym

__all__ = ["bounds"]


def bounds(e: Expr, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return a closed interval that contains every value of ``e`` for symbols inside ``ranges``."""
    if e.is_const:
        return e._value, e._value
    lo = hi = 0
    for m, c in e.terms:
        tlo = thi = 1
        for a, p in m:
            alo, ahi = _atom_bounds(a, ranges)
            for _ in range(p):
                corners = (tlo * alo, tlo * ahi, thi * alo, thi * ahi)
                tlo, thi = min(corners), max(corners)
        lo, hi = lo + min(c * tlo, c * thi), hi + max(c * tlo, c * thi)
    return lo, hi


def _atom_bounds(a: Atom, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    if isinstance(a, Sym):
        try:
            return ranges[a.name]
        except KeyError:
            raise ExprError(f"symbol {a.name!r} has no range") from None
    iv = [bounds(x, ranges) for x in a.args]
    if a.name == "Min":
        return min(i[0] for i in iv), min(i[1] for i in iv)
    if a.name == "Max":
        return max(i[0] for i in iv), max(i[1] for i in iv)
    (nlo, nhi), (dlo, dhi) = iv
    if dlo <= 0:
        raise ExprError(f"the divisor of {a} may be zero")
    if a.name == "Mod":
        return 0, min(dhi - 1, nhi) if nlo >= 0 else dhi - 1
    pairs = [(n, d) for n in (nlo, nhi) for d in (dlo, dhi)]
    corners: list[int] = []
    if a.name in ("FloorDiv", "Ratio"):
        corners += [n // d for n, d in pairs]
    if a.name in ("CeilDiv", "Ratio"):
        corners += [-(-n // d) for n, d in pairs]
    return min(corners), max(corners)
