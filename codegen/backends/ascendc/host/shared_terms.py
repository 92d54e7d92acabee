"""Common subexpressions of a generated function, each computed once and named."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from autofuse.implgraph.expr.expression import REBUILD, Expr, Func, product, sym, total
from autofuse.implgraph.ir.frozen import frozen

__all__ = ["SharedTerms", "shared_terms"]


@frozen
class SharedTerms:
    """Named terms.

    Attributes:
        values: name -> value, in terms of earlier names only.
        name: function -> its name.
    """

    values: Mapping[str, Expr]
    name: Mapping[Func, str]

    def within(self, e: Expr) -> Expr:
        """Return ``e`` in terms of the names."""
        if not self.name or not any([isinstance(a, Func) for a in e.atoms()]):
            return e
        return total(
            product([c, *(self._atom(a) for a, power in monomial for _ in range(power))])
            for monomial, c in e.terms
        )

    def _atom(self, a: object) -> Expr:
        if not isinstance(a, Func):
            return sym(str(a))
        return sym(self.name[a]) if a in self.name else self.outside(a)

    def outside(self, f: Func) -> Expr:
        """Return a function with its arguments in terms of the names."""
        return REBUILD[f.name](*(self.within(x) for x in f.args))


def shared_terms(exprs: Sequence[Expr], taken: Iterable[str], prefix: str = "v") -> SharedTerms:
    """Name the functions that occur more than once.

    Args:
        exprs: expressions of one generated function.
        taken: names in use.
        prefix: prefix of the new names.
    """
    count: dict[Func, int] = {}
    for e in exprs:
        if not e.is_const:
            _count(e, count)
    values: dict[str, Expr] = {}
    names: dict[Func, str] = {}
    found = SharedTerms(values, names)
    used = set(taken)
    free = (n for k in itertools.count() if (n := f"{prefix}{k}") not in used)
    for f in sorted((f for f, n in count.items() if n > 1), key=_depth):
        name = next(free)
        values[name] = found.outside(f)
        names[f] = name
    return found


def _depth(f: Func) -> int:
    """Return the nesting depth of a function."""
    inside = (a for x in f.args for a in x.atoms() if isinstance(a, Func))
    return 1 + max(map(_depth, inside), default=0)


def _count(e: Expr, count: dict[Func, int]) -> None:
    """Count functions; the inside of a repeated one counts once, since it is computed with it."""
    for monomial, _ in e.terms:
        for a, power in monomial:
            if not isinstance(a, Func):
                continue
            count[a] = count.get(a, 0) + power
            if count[a] == power:
                for x in a.args:
                    _count(x, count)
