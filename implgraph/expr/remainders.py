"""Bounds of remainders: ``n - k*FloorDiv(n, k)`` is at least 0 and less than ``k``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, Atom, Expr, Func, Mod, Sym

__all__ = ["tight_bounds"]


def tight_bounds(e: Expr, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Like :func:`~autofuse.implgraph.expr.expression.bounds`, also with numbers written as quotient and remainder.

    Args:
        e: the expression.
        ranges: closed range of every symbol.
    """
    low, high = bounds(e, ranges)
    for symbol, value in _divided(e):
        other = bounds(_with(e, symbol, value), ranges)
        low, high = max(low, other[0]), min(high, other[1])
    return low, high


def _divided(e: Expr) -> Iterator[tuple[Sym, Expr]]:
    """Yield symbols whose quotient by a number occurs in ``e``, each rewritten in terms of that quotient."""
    for a in dict.fromkeys(e.atoms()):
        if not isinstance(a, Func) or a.name != "FloorDiv" or not a.args[1].is_const:
            continue
        top, k = a.args
        for m, c in top.terms:
            symbol = m[0][0] if m else None
            if m == ((symbol, 1),) and c == 1 and isinstance(symbol, Sym):
                others = top - Expr(((m, 1),))
                if symbol.name not in others.symbols():
                    yield symbol, k * Expr(((((a, 1),), 1),)) + Mod(top, k) - others


def _with(e: Expr, symbol: Atom, value: Expr) -> Expr:
    """Return the expression with another value for a symbol; function arguments stay."""
    out = ZERO
    for m, c in e.terms:
        term = Expr(((tuple((a, p) for a, p in m if a != symbol), c),))
        for a, p in m:
            factor = value if a == symbol else ONE
            for _ in range(p):
                term = term * factor
        out = out + term
    return out
