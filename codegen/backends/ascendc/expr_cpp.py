"""Print an :class:`Expr` as C++.

The text is int64 arithmetic with calls to ``autofuse_math.h``; it never uses floats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from autofuse.implgraph.expr.expression import Atom, Expr, ExprError, Func, IntLike, Sym

__all__ = ["CPP_KEYWORDS", "check_identifier", "int_literal", "to_cpp"]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::)[A-Za-z_][A-Za-z0-9_]*)*")
_KEYWORD_TEXT = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq
"""
CPP_KEYWORDS = frozenset(_KEYWORD_TEXT.split())
_NAMED = ("CeilDiv", "FloorDiv", "Mod")
_FOLDED = ("Min", "Max")


def to_cpp(expr: IntLike, names: Mapping[str, str] | None = None, *, atomic: bool = False) -> str:
    """Return ``expr`` as C++ text.

    Args:
        expr: expression to print.
        names: C++ spelling of symbols, such as ``t.s0``; other symbols keep their names.
        atomic: parenthesise a sum or a product, so that it can stand next to an operator.

    Raises:
        ExprError: for a ``Ratio``, a number that int64 cannot hold, or an illegal name.
    """
    e = expr if isinstance(expr, Expr) else Expr.of(expr)
    if e.number is not None and 0 <= e.number < 1 << 31:
        return str(e.number)
    return _sum(e, names, atomic) if names else _unnamed(e, atomic)


@lru_cache(maxsize=8192)
def _unnamed(e: Expr, atomic: bool) -> str:
    # Cached: a kernel repeats the same few sizes for every tensor.
    return _sum(e, {}, atomic)


def int_literal(value: int) -> str:
    """Return an integer literal: plain if int holds it, 64 bits wide otherwise."""
    if -(1 << 31) < value < 1 << 31:
        return str(value)
    if value == -(1 << 63):
        return "INT64_MIN"
    if not -(1 << 63) < value < 1 << 63:
        raise ExprError(f"{value} does not fit 64 bits")
    return f"INT64_C({value})"


@lru_cache(maxsize=4096)
def check_identifier(name: str) -> str:
    """Return ``name`` if it is a C++ identifier.

    Raises:
        ExprError: if it is not.
    """
    if not _IDENTIFIER.fullmatch(name) or name in CPP_KEYWORDS:
        raise ExprError(f"{name!r} is not an identifier in C++")
    return name


def _sum(e: Expr, names: Mapping[str, str], atomic: bool) -> str:
    if e.number is not None and e.number >= 0:
        return int_literal(e.number)
    terms = e.terms
    if terms[0][1] < 0:
        # Put a positive term first if there is one: `n - 1`, not `-1 + n`.
        first = next((i for i, (_, c) in enumerate(terms) if c > 0), 0)
        terms = (terms[first], *terms[:first], *terms[first + 1 :])
    text = ""
    for i, (monomial, c) in enumerate(terms):
        negative = c < 0 and c != -(1 << 63)
        joiner = ("-" if negative else "") if i == 0 else (" - " if negative else " + ")
        factors = [_atom(a, names) for a, power in monomial for _ in range(power)]
        size = -c if negative else c
        if size != 1 or not factors:
            factors.insert(0, int_literal(size))
        text += joiner + " * ".join(factors)
    return text if not atomic or _is_atomic(e, text) else f"({text})"


def _is_atomic(e: Expr, text: str) -> bool:
    """Return True if the text of an expression needs no parentheses next to an operator."""
    if len(e.terms) != 1:
        return False
    monomial, c = e.terms[0]
    one_call = c == 1 and len(monomial) == 1 and monomial[0][1] == 1
    return one_call or not (" * " in text or text.startswith("-"))


def _atom(a: Atom, names: Mapping[str, str]) -> str:
    if isinstance(a, Sym):
        return _place(names.get(a.name, a.name))
    return _call(a, names)


@lru_cache(maxsize=4096)
def _place(name: str) -> str:
    if not _PLACE.fullmatch(name):
        raise ExprError(f"{name!r} is not a name in C++")
    return name


def _call(f: Func, names: Mapping[str, str]) -> str:
    args = [_sum(x, names, False) for x in f.args]
    if f.name in _NAMED:
        return f"autofuse::{f.name}({', '.join(args)})"
    if f.name not in _FOLDED:
        raise ExprError(f"{f} has no place in generated code")
    text = args[-1]
    for arg in reversed(args[:-1]):
        text = f"autofuse::{f.name}({arg}, {text})"
    return text
