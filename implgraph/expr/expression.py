"""Integer expressions over symbolic sizes.

An :class:`Expr` is a polynomial with integer coefficients over *atoms*; an atom is a symbol or one of ``CeilDiv``,
``FloorDiv``, ``Mod``, ``Min``, ``Max`` and ``Ratio``.  The polynomial form is canonical, so ``==`` is equality of
normal forms and a division by a monomial is exact arithmetic on exponents.  All symbols are integers >= 0.  Evaluation
and printing use exact integer arithmetic, never floats.  sympy is imported only here, and only to divide by a sum (see
:func:`divide_exact`).

``Ratio(a, b)`` is an exact quotient that is not known to be an integer polynomial.  It occurs in the
``repeats`` of outer axes of an ImplGraph (the text form of the specification) and never in generated code.

One file: the class, its atoms and the functions that make atoms all need each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from autofuse.implgraph.expr.parentheses import bare
from autofuse.implgraph.expr.sizes import Sizes

__all__ = [
    "REBUILD",
    "Atom",
    "CeilDiv",
    "Expr",
    "ExprError",
    "FloorDiv",
    "Func",
    "IntLike",
    "Max",
    "Min",
    "Mod",
    "Ratio",
    "Sym",
    "align_up",
    "const",
    "divide_exact",
    "is_single_atom",
    "product",
    "quotient",
    "sym",
    "total",
]

MAX_TERMS = 256
MAX_INT = (1 << 63) - 1
#: Most symbols and functions inside one function.  A function of a sum occurs in every term of a product with a sum, so
#: the text doubles with each level of nesting.
MAX_FUNC_SIZE = 4096
#: Most nested functions; keeps printed text within the parser's depth limit.
MAX_FUNC_DEPTH = 16


class ExprError(ValueError):
    """An expression that cannot be read, built or evaluated; ``position`` is an offset into the text or -1."""

    def __init__(self, message: str, position: int = -1) -> None:
        super().__init__(message)
        self.position = position


class Sym:
    """A named integer >= 0.  Immutable and hashable.

    Attributes:
        key: sort key; symbols come before functions.
    """

    __slots__ = ("_hash", "key", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = (0, name)
        self._hash = hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sym) and self.name == other.name

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Sym], tuple[str]]:
        return Sym, (self.name,)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Sym({self.name!r})"


class Func:
    """An opaque function of expressions: ``name`` in ``CeilDiv FloorDiv Mod Min Max Ratio``; immutable."""

    __slots__ = ("_hash", "_key", "args", "name")

    def __init__(self, name: str, args: tuple[Expr, ...]) -> None:
        self.name = name
        self.args = args
        self._hash = hash((name, args))
        self._key: tuple[int, str] | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Sort key; functions come after symbols."""
        if self._key is None:
            self._key = (1, self._print())
        return self._key

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Func)
            and self._hash == other._hash
            and self.name == other.name
            and self.args == other.args
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Func], tuple[str, tuple[Expr, ...]]]:
        return Func, (self.name, self.args)

    def __str__(self) -> str:
        return self.key[1]

    def __repr__(self) -> str:
        return f"Func({self})"

    def _print(self) -> str:
        if self.name == "Ratio":
            return f"({self.args[0]} / ({bare(self.args[1])}))"
        if self.name in ("CeilDiv", "FloorDiv"):
            word = "Ceiling" if self.name == "CeilDiv" else "Floor"
            return f"{word}(({self.args[0]} / ({bare(self.args[1])})))"
        return f"{self.name}({', '.join(bare(a) for a in self.args)})"


_NO_SYMBOLS: frozenset[str] = frozenset()
Atom: TypeAlias = Sym | Func
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]


def _term_key(term: tuple[Monomial, int]) -> tuple[int, tuple[tuple[tuple[int, str], int], ...]]:
    """Return the key that terms are sorted by."""
    monomial = term[0]
    return len(monomial), tuple([(a.key, p) for a, p in monomial])


class Expr:
    """A canonical integer polynomial over atoms.  Immutable and hashable.

    Attributes:
        is_const: True if the value does not depend on any symbol.
        number: the constant value, or None.
    """

    __slots__ = ("_hash", "_symbols", "_text", "_value", "is_const", "number", "terms")

    terms: tuple[tuple[Monomial, int], ...]
    is_const: bool
    number: int | None

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._text: str | None = None
        self._symbols: frozenset[str] | None = None
        self._hash: int | None = None
        if not terms:
            self._value = self.number = 0
            self.is_const = True
        elif len(terms) == 1 and not terms[0][0]:
            self._value = self.number = terms[0][1]
            self.is_const = True
        else:
            self._value, self.number, self.is_const = 0, None, False

    # construction -----------------------------------------------------------------------------
    @staticmethod
    def of(value: IntLike) -> Expr:
        """Return an Expr from an int or an Expr."""
        if isinstance(value, Expr):
            return value
        return const(value)

    @staticmethod
    def _from_dict(d: dict[Monomial, int]) -> Expr:
        items = [(m, c) for m, c in d.items() if c != 0]
        if len(items) > 1:
            if len(items) > MAX_TERMS:
                raise ExprError(f"expression grows to more than {MAX_TERMS} terms")
            items.sort(key=_term_key)
        elif not items or not items[0][0]:
            return const(items[0][1]) if items else ZERO
        return Expr(tuple(items))

    # inspection -------------------------------------------------------------------------------
    @property
    def value(self) -> int:
        """The value of a constant expression."""
        if not self.is_const:
            raise ExprError(f"{self} is not a constant")
        return self._value

    def as_int(self) -> int | None:
        """Return the constant value, or None."""
        return self.number

    def symbols(self) -> frozenset[str]:
        """Return the names of all symbols, including those inside functions."""
        if self.is_const:
            return _NO_SYMBOLS
        if self._symbols is not None:
            return self._symbols
        out: set[str] = set()
        for m, _ in self.terms:
            for a, _p in m:
                if isinstance(a, Sym):
                    out.add(a.name)
                else:
                    for x in a.args:
                        out |= x.symbols()
        self._symbols = frozenset(out)
        return self._symbols

    def atoms(self) -> Iterable[Atom]:
        """Yield the top-level atoms (not those inside functions)."""
        for m, _ in self.terms:
            for a, _p in m:
                yield a

    # arithmetic -------------------------------------------------------------------------------
    def __add__(self, other: IntLike) -> Expr:
        o = other if isinstance(other, Expr) else const(other)
        if self.is_const and o.is_const:
            return const(self._value + o._value)
        if not o.terms:
            return self
        if not self.terms:
            return o
        d = dict(self.terms)
        for m, c in o.terms:
            d[m] = d.get(m, 0) + c
        return Expr._from_dict(d)

    def __radd__(self, other: int) -> Expr:
        return self + other

    def __neg__(self) -> Expr:
        return Expr(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: IntLike) -> Expr:
        o = other if isinstance(other, Expr) else const(other)
        if o.is_const:
            return self + -o._value if o._value else self
        return self + (-o)

    def __rsub__(self, other: int) -> Expr:
        return Expr.of(other) - self

    def __mul__(self, other: IntLike) -> Expr:
        if not isinstance(other, Expr):
            return self._times(other)
        o = other
        if o.is_const:
            return self if o._value == 1 else self._times(o._value)
        if self.is_const:
            return o if self._value == 1 else o._times(self._value)
        if len(self.terms) == 1 and len(o.terms) == 1:
            ((m1, c1),), ((m2, c2),) = self.terms, o.terms
            return Expr(((_mul_monomials(m1, m2), c1 * c2),))
        d: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in o.terms:
                m = _mul_monomials(m1, m2)
                d[m] = d.get(m, 0) + c1 * c2
            if len(d) > 2 * MAX_TERMS:
                break  # too many, even if the rest cancels half of them
        return Expr._from_dict(d)

    def _times(self, factor: int) -> Expr:
        """Return the product with a constant, the most frequent kind."""
        if self.is_const:
            return const(self._value * factor)
        if factor == 1:
            return self
        if not factor:
            return ZERO
        if len(self.terms) == 1:
            ((monomial, c),) = self.terms
            return Expr(((monomial, c * factor),))
        return Expr(tuple([(m, c * factor) for m, c in self.terms]))

    def __rmul__(self, other: int) -> Expr:
        return self * other

    def __reduce__(self) -> tuple[type[Expr], tuple[tuple[tuple[Monomial, int], ...]]]:
        # String hashes differ between processes, so recompute it.
        return Expr, (self.terms,)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Expr):
            return self.terms == other.terms
        return isinstance(other, int) and self.is_const and self._value == other

    def __hash__(self) -> int:
        if self._hash is None:
            # A constant hashes like the int it is equal to.
            self._hash = hash(self._value if self.is_const else self.terms)
        return self._hash

    def __bool__(self) -> bool:
        raise TypeError("an Expr has no truth value; compare with == or use as_int()")

    # evaluation -------------------------------------------------------------------------------
    def evaluate(self, env: Mapping[str, int] | None = None) -> int:
        """Return the exact integer value.

        Raises:
            ExprError: an unbound symbol, a division by zero, or a Ratio that is not an integer.
        """
        if self.is_const:
            return self._value
        env = env or {}
        known = env.known if type(env) is Sizes else {}
        value = 0
        for m, v in self.terms:
            for a, p in m:
                x = env.get(a.name) if isinstance(a, Sym) else known.get(a)
                if x is None:
                    x = known[a] = _eval_atom(a, env)
                v *= x if p == 1 else x**p
            value += v
        return value

    def substitute(self, env: Mapping[str, IntLike]) -> Expr:
        """Replace symbols by expressions."""
        if not env or self.is_const:
            return self
        parts = []
        for m, c in self.terms:
            t = const(c)
            for a, p in m:
                if isinstance(a, Sym):
                    r = Expr.of(env[a.name]) if a.name in env else _atom(a)
                else:
                    r = REBUILD[a.name](*(x.substitute(env) for x in a.args))
                for _ in range(p):
                    t = t * r
            parts.append(t)
        return total(parts)

    # printing ---------------------------------------------------------------------------------
    def __str__(self) -> str:
        if self._text is None:
            self._text = self._print()
        return self._text

    def _print(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        for m, c in self.terms:
            factors = [str(a) for a, p in m for _ in range(p)]
            if c != 1 or not factors:
                factors.insert(0, str(c))
            parts.append(factors[0] if len(factors) == 1 else "(" + " * ".join(factors) + ")")
        return parts[0] if len(parts) == 1 else "(" + " + ".join(parts) + ")"

    def __repr__(self) -> str:
        return f"Expr({self})"


IntLike: TypeAlias = int | Expr


@lru_cache(maxsize=4096)
def const(value: int) -> Expr:
    """Return a constant."""
    return ONE if value == 1 else Expr((((), int(value)),)) if value else ZERO


def _atom(a: Atom) -> Expr:
    return Expr(((((a, 1),), 1),))


@lru_cache(maxsize=4096)
def sym(name: str) -> Expr:
    """Return the symbol ``name``."""
    return _atom(Sym(name))


ZERO = Expr(())
ONE = Expr((((), 1),))


def _mul_monomials(a: Monomial, b: Monomial) -> Monomial:
    if not a:
        return b
    if not b:
        return a
    d = dict(a)
    for atom, p in b:
        d[atom] = d.get(atom, 0) + p
    return tuple(sorted(d.items(), key=lambda ap: ap[0].key))


def total(parts: Iterable[Expr]) -> Expr:
    """Return the sum, sorted once: adding the parts one by one takes quadratic time."""
    d: dict[Monomial, int] = {}
    for e in parts:
        for m, c in e.terms:
            d[m] = d.get(m, 0) + c
    return Expr._from_dict(d)


def product(values: Iterable[IntLike]) -> Expr:
    """Return the product of all values; 1 for none."""
    factor, out = 1, None
    for v in values:
        if not isinstance(v, Expr):
            factor *= v
        elif v.is_const:
            factor *= v._value
        else:
            out = v if out is None else out * v
    return const(factor) if out is None else out._times(factor)


def _eval_atom(a: Atom, env: Mapping[str, int]) -> int:
    if isinstance(a, Sym):
        try:
            return env[a.name]
        except KeyError:
            raise ExprError(f"symbol {a.name!r} has no value") from None
    args = [x._value if x.is_const else x.evaluate(env) for x in a.args]
    if a.name == "Min":
        return min(args)
    if a.name == "Max":
        return max(args)
    n, d = args
    if d == 0:
        raise ExprError(f"division by zero in {a}")
    if a.name == "CeilDiv":
        return -(-n // d)
    if a.name == "FloorDiv":
        return n // d
    if a.name == "Mod":
        return n % d
    if n % d:
        raise ExprError(f"{a} is not an integer")
    return n // d


# functions ------------------------------------------------------------------------------------


def quotient(a: IntLike, b: IntLike) -> Expr:
    """Return ``a / b``, which is an integer polynomial."""
    found = divide_exact(a, b)
    assert found is not None, f"{b} does not divide {a}"
    return found


def divide_exact(a: IntLike, b: IntLike) -> Expr | None:
    """Return ``a / b`` as an integer polynomial, or None if it is not one."""
    x, y = Expr.of(a), Expr.of(b)
    if not y.terms:
        return None
    if x.is_const and y.is_const:
        quotient, rest = divmod(x.value, y.value)
        return None if rest else const(quotient)
    if x == y:
        return ONE
    if not x.terms:
        return ZERO
    if len(y.terms) == 1:
        (ym, yc) = y.terms[0]
        out: dict[Monomial, int] = {}
        for m, c in x.terms:
            if c % yc:
                return None
            d = dict(m)
            for atom, p in ym:
                have = d.get(atom, 0)
                if have < p:
                    return None
                if have == p:
                    del d[atom]
                else:
                    d[atom] = have - p
            out[tuple(sorted(d.items(), key=lambda ap: ap[0].key))] = c // yc
        return Expr._from_dict(out)
    if len(x.terms) == 1:
        return None
    return _divide_by_sum(x, y)


def _divide_by_sum(x: Expr, y: Expr) -> Expr | None:
    """Divide by a divisor of two or more terms with sympy's ``div`` over the integers."""
    import sympy

    atoms = sorted({a for e in (x, y) for a in e.atoms()}, key=lambda a: a.key)
    gens = [sympy.Symbol(f"a{i}", integer=True) for i in range(len(atoms))]
    index = {a: g for a, g in zip(atoms, gens, strict=True)}

    def to_poly(e: Expr) -> sympy.Poly:
        d = {tuple(dict(m).get(a, 0) for a in atoms): c for m, c in e.terms}
        return sympy.Poly(d, *gens, domain="ZZ")

    quotient, remainder = to_poly(x).div(to_poly(y))
    # sympy divides over the rationals: (a + b) / (2*a + 2*b) leaves no remainder either.
    if not remainder.is_zero or any(c.q != 1 for c in quotient.coeffs()):
        return None
    out = ZERO
    back = {g: _atom(a) for a, g in index.items()}
    for powers, coeff in quotient.terms():
        t = const(int(coeff))
        for g, p in zip(gens, powers, strict=True):
            for _ in range(p):
                t = t * back[g]
        out = out + t
    return out


def _fold(name: str, a: IntLike, b: IntLike, op: Callable[[int, int], int]) -> Expr:
    x, y = Expr.of(a), Expr.of(b)
    if y.is_const and y.value == 0:
        raise ExprError(f"division by zero in {name}({x}, 0)")
    if x.is_const and y.is_const:
        return const(op(x.value, y.value))
    return _func(name, (x, y))


def _func(name: str, args: tuple[Expr, ...]) -> Expr:
    """Return a function as an expression, if it is not too large."""
    left, todo = MAX_FUNC_SIZE, [(e, 1) for e in args]
    while todo:
        e, depth = todo.pop()
        for m, _ in e.terms:
            for a, p in m:
                left -= p
                if left < 0:
                    raise ExprError(
                        f"{name}() of an expression with more than {MAX_FUNC_SIZE} parts"
                    )
                if isinstance(a, Func):
                    if depth >= MAX_FUNC_DEPTH:
                        raise ExprError(f"more than {MAX_FUNC_DEPTH} functions inside each other")
                    todo.extend([(x, depth + 1) for x in a.args] * p)
    return _atom(Func(name, args))


def CeilDiv(a: IntLike, b: IntLike) -> Expr:  # noqa: N802 - the field's name for it
    """Return the smallest integer >= a / b."""
    x, y = Expr.of(a), Expr.of(b)
    if x.is_const and y.is_const and y._value:
        return const(-(-x._value // y._value))
    return _ceil_div(x, y)


@lru_cache(maxsize=16384)
def _ceil_div(a: Expr, b: Expr) -> Expr:
    # Cached: every buffer length is rounded up, and the same few lengths recur.
    q = divide_exact(a, b)
    return q if q is not None else _fold("CeilDiv", a, b, lambda n, d: -(-n // d))


def FloorDiv(a: IntLike, b: IntLike) -> Expr:  # noqa: N802
    """Return the largest integer <= a / b."""
    q = divide_exact(a, b)
    return q if q is not None else _fold("FloorDiv", a, b, lambda n, d: n // d)


def Mod(a: IntLike, b: IntLike) -> Expr:  # noqa: N802
    """Return ``a - FloorDiv(a, b) * b``."""
    return ZERO if divide_exact(a, b) is not None else _fold("Mod", a, b, lambda n, d: n % d)


def Ratio(a: IntLike, b: IntLike) -> Expr:  # noqa: N802
    """Return the exact quotient a / b, as an integer polynomial if it is one."""
    q = divide_exact(a, b)
    if q is not None:
        return q
    x, y = Expr.of(a), Expr.of(b)
    if y.is_const and y.value == 0:
        raise ExprError(f"division by zero in {x} / 0")
    return _func("Ratio", (x, y))


@lru_cache(maxsize=4096)
def _min_max(name: str, values: tuple[IntLike, ...], pick: Callable[[list[int]], int]) -> Expr:
    numbers: list[int] = []
    rest: list[Expr] = []
    for v in values:
        e = Expr.of(v)
        atom = e.terms[0][0][0][0] if is_single_atom(e) else None
        for x in atom.args if isinstance(atom, Func) and atom.name == name else (e,):
            if x.is_const:
                numbers.append(x._value)
            else:
                rest.append(x)
    if len(rest) > 1:
        rest = sorted(set(rest), key=str)
    if not rest:
        if not numbers:
            raise ExprError(f"{name} of nothing")
        return const(pick(numbers))
    args = ([const(pick(numbers))] if numbers else []) + rest
    return args[0] if len(args) == 1 else _func(name, tuple(args))


def is_single_atom(e: Expr) -> bool:
    """Return True if the expression is a single symbol or function."""
    return (
        len(e.terms) == 1
        and e.terms[0][1] == 1
        and len(e.terms[0][0]) == 1
        and e.terms[0][0][0][1] == 1
    )


def Min(*values: IntLike) -> Expr:  # noqa: N802
    """Return the smallest of the values."""
    return _min_max("Min", values, min)


def Max(*values: IntLike) -> Expr:  # noqa: N802
    """Return the largest of the values."""
    return _min_max("Max", values, max)


def align_up(a: IntLike, n: IntLike) -> Expr:
    """Return the smallest multiple of n that is >= a."""
    return CeilDiv(a, n) * n


#: Function -> its constructor, which simplifies.
REBUILD: dict[str, Callable[..., Expr]] = {
    "CeilDiv": CeilDiv,
    "FloorDiv": FloorDiv,
    "Mod": Mod,
    "Ratio": Ratio,
    "Min": Min,
    "Max": Max,
}
