"""Interval arithmetic: bounds of an expression from the ranges of its symbols, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeGuard

from autofuse.implgraph.expr.expression import (
    REBUILD,
    Atom,
    Expr,
    ExprError,
    Func,
    Sym,
    const,
    product,
    sym,
    total,
)

__all__ = ["bounds", "settled"]


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


def settled(e: Expr, ranges: Mapping[str, tuple[int, int]]) -> Expr:
    """Return ``e`` without the operands of Max and Min that never decide for symbols inside ``ranges``.

    A Max or Min that is a factor stays where it would become a sum, which would have to be multiplied out.
    """
    if not _chooses(e):
        return e
    terms = []
    for m, c in e.terms:
        factors = [const(c)]
        for a, power in m:
            one = _settled_atom(a, ranges)
            if len(one.terms) > 1 and (len(m) > 1 or power > 1):
                one = Expr(((((a, 1),), 1),))
            factors += [one] * power
        terms.append(product(factors))
    return total(terms)


@lru_cache(maxsize=4096)
def _chooses(e: Expr) -> bool:
    """Return True if ``e`` contains a Max or Min."""
    found = [a for a in e.atoms() if isinstance(a, Func)]
    return any([a.name in ("Max", "Min") or any(map(_chooses, a.args)) for a in found])


def _settled_atom(a: Atom, ranges: Mapping[str, tuple[int, int]]) -> Expr:
    if isinstance(a, Sym):
        return sym(a.name)
    names = sorted(frozenset[str]().union(*(x.symbols() for x in a.args)))
    return _settled_function(a, tuple([(name, ranges[name]) for name in names]))


@lru_cache(maxsize=4096)
def _settled_function(a: Func, known: tuple[tuple[str, tuple[int, int]], ...]) -> Expr:
    # Cached: the templates of a graph share most sizes.
    ranges = dict(known)
    args = [settled(x, ranges) for x in a.args]
    if a.name in ("Max", "Min"):
        for x in tuple(args):
            others = [y for y in args if y is not x]
            if any(_is_natural(y - x if a.name == "Max" else x - y, ranges) for y in others):
                args = others
    return REBUILD[a.name](*args)


def _is_natural(e: Expr, ranges: Mapping[str, tuple[int, int]]) -> bool:
    """Return True if ``e`` is proven to be 0 or more."""
    try:
        return bounds(e, ranges)[0] >= 0 or bounds(_beneath(e, ranges), ranges)[0] >= 0
    except ExprError:  # a divisor that may be zero
        return False


def _beneath(e: Expr, ranges: Mapping[str, tuple[int, int]]) -> Expr:
    """Return an expression that is below 0 wherever ``e`` is: outermost roundings become fractions.

    ``k * CeilDiv(x, k)`` is at least x and at most ``x + k - 1``; both sides are multiplied by all k.
    """
    scale = math.lcm(*(a.args[1].value for m, _ in e.terms for a, _ in m if _rounds_up(a)))
    terms = []
    for m, c in e.terms:
        term = const(c * scale)
        for a, power in m:
            atom = Expr(((((a, 1),), 1),))
            rest = Expr(((tuple(f for f in m if f[0] != a), 1),))
            if _rounds_up(a) and power == 1 and bounds(rest, ranges)[0] >= 0:
                k = a.args[1].value
                term = rest * (c * scale // k) * (a.args[0] + (k - 1 if c < 0 else 0))
                break
            term = term * product([atom] * power)
        terms.append(term)
    return total(terms)


def _rounds_up(a: Atom) -> TypeGuard[Func]:
    return not isinstance(a, Sym) and a.name == "CeilDiv" and (a.args[1].number or 0) > 0
