"""Proofs of inequalities between size expressions, for all legal values of their symbols.

The only question is ``e >= 0``.  Elimination answers it: it replaces an atom of ``e`` by a known bound, in the
direction that makes ``e`` smaller, until only a number or a sum of nonnegative terms is left.

1. ``e`` is brought to normal form: ``CeilDiv(4*t, 256)`` becomes ``CeilDiv(t, 64)``, and common factors are dropped.
2. It holds if every term is non-negative, or if interval arithmetic over the ranges of the symbols says so.
3. Otherwise take the atom ``v`` of the highest rank (an index before the tile length, and that before the graph's
   sizes). With ``e = q*v + r`` and the sign of ``q`` known (by the same question), every fact ``m*v >= x`` (or ``<=``)
   with ``m >= 1`` gives ``m*e >= q*x + m*r``, and the question is asked of the right-hand side.  One such fact
   suffices; for a ``Min`` from below, or a ``Max`` from above, every operand is required.

Facts about functions, for ``n >= 1`` (the tests confirm each with an SMT solver):

- ``x <= n*CeilDiv(x, n) <= x + n - 1`` and ``x - n + 1 <= n*FloorDiv(x, n) <= x``; both grow with ``x``;
- ``CeilDiv(x, m) <= k*CeilDiv(y, n)`` if ``n*x <= k*m*y``, as the right side is an integer that is at least ``x/m``; so
  ``CeilDiv(x, m) <= k*CeilDiv(x, k*m)``;
- ``CeilDiv(n*q + c, n) = q + CeilDiv(c, n)``, and the same for ``FloorDiv``;
- ``0 <= Mod(x, n) <= n - 1``, and ``Mod(x, n) = x - n*FloorDiv(x, n)``;
- ``CeilDiv(CeilDiv(x, m), n) = CeilDiv(x, m*n)``, and the same for ``FloorDiv``;
- if ``n`` divides ``x``, ``n*CeilDiv(x, n) = n*FloorDiv(x, n) = x``.

"True" is a proof; "False" only means that none was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    Atom,
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Func,
    Max,
    Min,
    Mod,
    Ratio,
    Sym,
    const,
    divide_exact,
    is_single_atom,
    sym,
)

__all__ = ["Bound", "Fact", "Prover"]

#: ``(m, x)``: ``m*v >= x`` among lower bounds, ``m*v <= x`` among upper ones; ``m`` is at least 1.
Bound: TypeAlias = tuple[Expr, Expr]

_DEPTH = 24
#: Most questions per obligation; beyond them it counts as not proved.
_STEPS = 600
_REBUILD: dict[str, Callable[..., Expr]] = {"Min": Min, "Max": Max, "Mod": Mod, "Ratio": Ratio}


@dataclass(frozen=True, slots=True)
class Fact:
    """Facts about one symbol.

    Attributes:
        low, high: an interval of numbers.
        lower, upper: bounds that depend on other symbols.
        rank: symbols of higher rank are eliminated first; bounds use symbols of lower rank.
        multiple: the value is a multiple of this.
    """

    low: int = 0
    high: int = 1 << 62
    lower: tuple[Bound, ...] = ()
    upper: tuple[Bound, ...] = ()
    rank: int = 0
    multiple: int = 1


class Prover:
    """Prover for one set of facts; it caches its answers."""

    def __init__(
        self,
        facts: Mapping[str, Fact],
        multiples: Mapping[Expr, int] | None = None,
        assumed: Iterable[Expr] = (),
        examples: Callable[[], Sequence[Mapping[str, int]]] = tuple,
    ) -> None:
        """Create a prover.

        Args:
            facts: one per symbol.
            multiples: expressions that are multiples of a number.
            assumed: expressions known to be nonnegative.
            examples: some legal values of all symbols: an expression that is negative for one needs no search.
        """
        self.facts = dict(facts)
        self._examples = examples
        self.multiples = dict(multiples or {})
        self.ranges = {name: (f.low, f.high) for name, f in self.facts.items()}
        self._known: dict[Expr, bool] = {}
        self._normal: dict[Expr, Expr] = {}
        self._ranks: dict[Atom, int] = {}
        self._steps = 0
        self.assumed = tuple(self.normal(x) for x in assumed)

    # questions --------------------------------------------------------------------------------
    def nonneg(self, e: Expr) -> bool:
        """Return True if ``e >= 0`` is proved."""
        self._steps = 0
        return self._ask(e, 0)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Return True if ``a == b`` is proved."""
        if a == b:
            return True
        d = self.normal(a - b)
        return not d.terms or (not d.is_const and self.nonneg(d) and self.nonneg(-d))

    def divides(self, n: int, e: Expr) -> bool:
        """Return True if ``e`` is proved to be a multiple of ``n``."""
        if n == 1:
            return True
        for value, m in self.multiples.items():
            q = divide_exact(e, value)
            if q is not None and all(c * m % n == 0 for _, c in q.terms):
                return True
        for monomial, c in e.terms:
            for a, p in monomial:
                if isinstance(a, Sym):
                    fact = self.facts.get(a.name)
                    c *= (fact.multiple if fact else 1) ** p
                elif a.name in ("Min", "Max"):
                    c *= math.gcd(n, *(_content(x) for x in a.args)) ** p
            if c % n:
                return False
        return True

    def monotone(self, e: Expr, name: str) -> bool:
        """Return True if ``e`` is proved to be non-decreasing in the symbol ``name``."""
        # A factor of several terms, as in (s - 3)*t, is asked for as a whole.
        factors: dict[tuple[tuple[Atom, int], ...], Expr] = {}
        for monomial, c in e.terms:
            moving = tuple((a, p) for a, p in monomial if name in _symbols(a))
            if not moving:
                continue
            rest = const(c)
            for a, p in monomial:
                for _ in range(0 if name in _symbols(a) else p):
                    rest = rest * self._normal_atom(a)
            factors[moving] = factors.get(moving, ZERO) + rest
        return all(
            self.nonneg(factor)
            and all(self._grows(a, name) and self._is_nonneg(a) for a, _ in moving)
            for moving, factor in factors.items()
        )

    def _grows(self, a: Atom, name: str) -> bool:
        if isinstance(a, Sym) or name not in _symbols(a):
            return True
        if a.name in ("CeilDiv", "FloorDiv"):
            return name not in a.args[1].symbols() and self.monotone(a.args[0], name)
        return a.name in ("Min", "Max") and all(self.monotone(x, name) for x in a.args)

    # normal form ------------------------------------------------------------------------------
    def normal(self, e: Expr) -> Expr:
        """Return ``e`` with reduced fractions."""
        if all(isinstance(a, Sym) for a in e.atoms()):
            return e
        found = self._normal.get(e)
        if found is None:
            found = ZERO
            for monomial, c in e.terms:
                term = const(c)
                for a, p in monomial:
                    value = self._normal_atom(a)
                    for _ in range(p):
                        term = term * value
                found = found + term
            self._normal[e] = found
        return found

    def _normal_atom(self, a: Atom) -> Expr:
        if isinstance(a, Sym):
            return sym(a.name)
        args = [self.normal(x) for x in a.args]
        if a.name in ("CeilDiv", "FloorDiv") and args[1].is_const and args[0].terms:
            n = args[1].value
            g = math.gcd(n, *(c for _, c in args[0].terms))
            x, n = Expr(tuple((m, c // g) for m, c in args[0].terms)), n // g
            inner = x.terms[0][0][0][0] if is_single_atom(x) else None
            if isinstance(inner, Func) and inner.name == a.name and inner.args[1].is_const:
                # A nested quotient of the same kind becomes one division by the product.
                x, n = inner.args[0], n * inner.args[1].value
            whole, c = _constant(x)
            if c and all(k % n == 0 for _, k in whole.terms):
                part = -(-c // n) if a.name == "CeilDiv" else c // n
                return Expr(tuple((m, k // n) for m, k in whole.terms)) + part
            return CeilDiv(x, n) if a.name == "CeilDiv" else FloorDiv(x, n)
        if a.name == "CeilDiv":
            return CeilDiv(*args)
        if a.name == "FloorDiv":
            return FloorDiv(*args)
        return _REBUILD[a.name](*args)

    # elimination ------------------------------------------------------------------------------
    def _ask(self, e: Expr, depth: int) -> bool:
        if e.is_const:
            return e.value >= 0
        e = _primitive(self.normal(e))
        if e.is_const:
            return e.value >= 0
        known = self._known.get(e)
        if known is not None:
            return known
        self._steps += 1
        if depth > _DEPTH or self._steps > _STEPS:
            return False
        self._known[e] = False  # Proves nothing while the question is open.
        answer = self._plain(e) or self._assumed(e)
        answer = answer or (not self._refuted(e) and self._search(e, depth))
        if answer:
            self._known[e] = True
        elif depth:
            del self._known[e]  # The search may have been cut short.
        return answer

    def _assumed(self, e: Expr) -> bool:
        return any(self._plain(e - x) for x in self.assumed)

    def _refuted(self, e: Expr) -> bool:
        return any(_value(e, env) < 0 for env in self._examples())

    def _search(self, e: Expr, depth: int) -> bool:
        """Eliminate the first atom whose factor has a known sign, or another one of its rank."""
        tried: int | None = None
        for a in self._order(e):
            if tried is not None and self._rank(a) < tried:
                break
            answer = self._eliminate(e, a, depth)
            if answer:
                return True
            if answer is not None:
                tried = self._rank(a)
        return False

    def _plain(self, e: Expr) -> bool:
        if all(c > 0 and all(self._atom_nonneg(a) for a, _ in m) for m, c in e.terms):
            return True
        try:
            return bounds(e, self.ranges)[0] >= 0
        except ExprError:
            return False

    def _atom_nonneg(self, a: Atom) -> bool:
        if isinstance(a, Sym):
            return self.ranges.get(a.name, (-1, 0))[0] >= 0
        if a.name == "Mod":
            return True
        check = any if a.name == "Max" else all
        return check(self._plain(x) for x in a.args)

    def _is_nonneg(self, a: Atom) -> bool:
        """Return True if an atom is proved nonnegative, searching for the operands of a function."""
        if self._atom_nonneg(a) or isinstance(a, Sym) or a.name == "Ratio":
            return self._atom_nonneg(a)
        check = any if a.name == "Max" else all
        return check(self.nonneg(x) for x in a.args)

    def _rank(self, a: Atom) -> int:
        if isinstance(a, Sym):
            fact = self.facts.get(a.name)
            return fact.rank if fact else 0
        rank = self._ranks.get(a)
        if rank is None:
            rank = 5 + max((self._rank(x) for arg in a.args for x in arg.atoms()), default=0)
            self._ranks[a] = rank
        return rank

    def _order(self, e: Expr) -> list[Atom]:
        """Return the atoms to eliminate, the best first; more than four are not worth the time."""
        atoms = list(dict.fromkeys(e.atoms()))
        return sorted(atoms, key=self._rank, reverse=True)[:4]

    def _eliminate(self, e: Expr, v: Atom, depth: int) -> bool | None:
        """Return True if some bound of ``v`` leads to a proof; None if the sign of its factor is unknown."""
        q, r = _split(e, v)
        if any(a == v for a in q.atoms()):
            return None
        if q.is_const:
            positive = q.value > 0
        elif self._ask(q, depth + 1):
            positive = True
        elif self._ask(-q, depth + 1):
            positive = False
        else:
            return None
        if isinstance(v, Func) and v.name == ("Min" if positive else "Max"):
            return all(self._ask(q * x + r, depth + 1) for x in v.args)
        found = self._lower(v, e) if positive else self._upper(v, e)
        return any(self._ask(_with_bound(q, r, m, x), depth + 1) for m, x in found)

    def _lower(self, v: Atom, e: Expr) -> Iterator[Bound]:
        if isinstance(v, Sym):
            fact = self.facts.get(v.name)
            if fact is not None:
                yield from fact.lower
                yield ONE, const(fact.low)
            return
        x, n = v.args[0], v.args[-1]
        if v.name == "Max":
            yield from _nearest(tuple((ONE, a) for a in v.args), _without(e, v))
        elif v.name == "Mod":
            yield ONE, x - n * FloorDiv(x, n)
            yield ONE, ZERO
        elif v.name in ("CeilDiv", "FloorDiv"):
            exact = self._exact(v)
            if exact is not None:
                yield n, exact
                return
            if v.name == "CeilDiv":
                for fine, k in _related(v, e, finer=True):
                    yield const(k), fine
                yield n, x
            else:
                yield n, x - n + 1
            yield from self._moved(v, up=False)
            yield ONE, ZERO

    def _upper(self, v: Atom, e: Expr) -> Iterator[Bound]:
        if isinstance(v, Sym):
            fact = self.facts.get(v.name)
            if fact is not None:
                yield from _nearest(fact.upper, e)
                if fact.high < 1 << 62:
                    yield ONE, const(fact.high)
            return
        x, n = v.args[0], v.args[-1]
        if v.name == "Min":
            yield from _nearest(tuple((ONE, a) for a in v.args), _without(e, v))
        elif v.name == "Mod":
            yield ONE, x - n * FloorDiv(x, n)
            yield ONE, n - 1
        elif v.name in ("CeilDiv", "FloorDiv"):
            exact = self._exact(v)
            if exact is not None:
                yield n, exact
                return
            if v.name == "CeilDiv":
                for coarse, k in _related(v, e, finer=False):
                    yield ONE, coarse * k
            yield from self._moved(v, up=True)
            yield n, (x + n - 1 if v.name == "CeilDiv" else x)

    def _exact(self, v: Func) -> Expr | None:
        """Return the divisor times a quotient, if the divisor divides the numerator up to a constant; else None."""
        x, n = v.args
        if not n.is_const:
            return None
        whole, c = _constant(x)
        if not self.divides(n.value, whole):
            return None
        part = -(-c // n.value) if v.name == "CeilDiv" else c // n.value
        return whole + part * n

    def _moved(self, v: Func, up: bool) -> Iterator[Bound]:
        """Yield bounds of a quotient: its value with the highest symbol of the numerator at its bound."""
        x, n = v.args
        names = sorted(x.symbols(), key=lambda s: self.facts[s].rank if s in self.facts else 0)
        if not names or names[-1] in n.symbols() or not self.monotone(x, names[-1]):
            return
        fact = self.facts.get(names[-1])
        if fact is None or fact.rank == 0:
            return
        low = (*fact.lower, (ONE, const(fact.low)))
        for m, bound in fact.upper if up else low:
            if m == 1:
                moved = x.substitute({names[-1]: bound})
                yield ONE, CeilDiv(moved, n) if v.name == "CeilDiv" else FloorDiv(moved, n)


def _value(e: Expr, env: Mapping[str, int]) -> int:
    """Return the value of an expression, 0 if a symbol has none."""
    try:
        return e.evaluate(env)
    except ExprError:
        return 0


def _symbols(a: Atom) -> frozenset[str]:
    if isinstance(a, Sym):
        return frozenset({a.name})
    return frozenset().union(*(x.symbols() for x in a.args))


def _constant(e: Expr) -> tuple[Expr, int]:
    """Return ``(x, c)`` with ``e = x + c``, where ``x`` has no constant term."""
    c = sum(k for m, k in e.terms if not m)
    return e - c, c


def _content(e: Expr) -> int:
    return math.gcd(*(c for _, c in e.terms)) if e.terms else 0


def _primitive(e: Expr) -> Expr:
    """Return ``e`` without common factors: of its coefficients, and symbols in all terms, which are nonnegative."""
    g = _content(e)
    if g > 1:
        e = Expr(tuple((m, c // g) for m, c in e.terms))
    common = {a: p for a, p in e.terms[0][0] if isinstance(a, Sym)} if len(e.terms) > 1 else {}
    for monomial, _ in e.terms:
        if not common:
            return e
        powers = dict(monomial)
        common = {a: min(p, powers[a]) for a, p in common.items() if a in powers}
    if not common:
        return e
    factor = tuple(sorted(common.items(), key=lambda ap: ap[0].key))
    quotient = divide_exact(e, Expr(((factor, 1),)))
    return e if quotient is None else quotient


def _split(e: Expr, v: Atom) -> tuple[Expr, Expr]:
    """Return ``(q, r)`` with ``e == q*v + r``; ``q`` may contain ``v`` again."""
    q: dict[tuple[tuple[Atom, int], ...], int] = {}
    r: list[tuple[tuple[tuple[Atom, int], ...], int]] = []
    for monomial, c in e.terms:
        power = dict(monomial).get(v, 0)
        if power == 0:
            r.append((monomial, c))
            continue
        rest = tuple((a, p - 1 if a == v else p) for a, p in monomial if a != v or p > 1)
        q[rest] = q.get(rest, 0) + c
    out = ZERO
    for monomial, c in q.items():
        out = out + Expr(((monomial, c),))
    return out, Expr(tuple(r))


def _with_bound(q: Expr, r: Expr, m: Expr, x: Expr) -> Expr:
    """Return ``q*v + r`` with ``m*v`` replaced by ``x``, scaled by ``m`` only if necessary."""
    if m == 1:
        return q * x + r
    part = divide_exact(q, m) if len(m.terms) == 1 else None
    return part * x + r if part is not None else q * x + m * r


def _related(v: Func, e: Expr, *, finer: bool) -> Iterator[tuple[Expr, int]]:
    """Yield other ceilings ``a`` in ``e`` with a number ``k``: ``a <= k*v`` if ``finer``, else ``v <= k*a``."""
    for a in e.atoms():
        if isinstance(a, Func) and a.name == "CeilDiv" and a != v:
            k = _times(a, v) if finer else _times(v, a)
            if k:
                yield Expr(((((a, 1),), 1),)), k


def _times(low: Func, high: Func) -> int:
    """Return a number ``k`` with ``low <= k*high``, for two ceilings; 0 if none is found."""
    (x, m), (y, n) = low.args, high.args
    if not (m.is_const and n.is_const):
        return 0
    have = dict(y.terms)
    monomial, c = next(((t, c) for t, c in x.terms if t), ((), 0))
    other = have.get(monomial, 0) * m.value
    if c <= 0 or other <= 0 or n.value * c % other:
        return 0
    k = n.value * c // other
    rest = k * m.value * y - n.value * x
    return k if rest.is_const and rest.value >= 0 else 0


def _nearest(found: tuple[Bound, ...], e: Expr) -> list[Bound]:
    """Return the bounds, sorted by how few symbols they add to the question."""
    if len(found) < 2:
        return list(found)
    have = e.symbols()

    def distance(b: Bound) -> tuple[int, int]:
        own = b[1].symbols()
        return len(own - have), -len(own & have)

    return sorted(found, key=distance)


def _without(e: Expr, v: Atom) -> Expr:
    return _split(e, v)[1]
