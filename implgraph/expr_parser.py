"""Reads expressions: what graph files hold, and the printed form of :class:`Expr`.

A recursive-descent parser of our own; nothing is ever evaluated as code, and length, depth and numbers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from autofuse.implgraph.expr import (
    MAX_INT,
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Func,
    Max,
    Min,
    Mod,
    Ratio,
    const,
    is_single_atom,
    sym,
)

__all__ = ["MAX_PARSE_DEPTH", "MAX_PARSE_LENGTH", "parse"]

MAX_PARSE_DEPTH = 64
MAX_PARSE_LENGTH = 4096

_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_][A-Za-z0-9_]*)|(//|[-+*/%(),]))")
_SPACE = re.compile(r"\s*")
_FUNCTIONS = {
    "ceil": "ceil",
    "ceiling": "ceil",
    "floor": "floor",
    "min": "min",
    "max": "max",
    "mod": "mod",
    "ceildiv": "ceildiv",
    "floordiv": "floordiv",
}
_QUOTIENTS = {"/": Ratio, "//": FloorDiv, "%": Mod, "ceildiv": CeilDiv}


class _Parser:
    """Recursive descent over ``+ - * / // %``, parentheses, ceil, floor, min, max, mod."""

    def __init__(self, text: str, known: Callable[[str], bool] | None, max_length: int) -> None:
        if len(text) > max_length:
            raise ExprError(f"expression is longer than {max_length} characters", max_length)
        self.text = text
        self.known = known
        self.tokens: list[tuple[str, str, int]] = []
        self.depth = 0
        # Dividing a sum by a sum takes long.
        self.divisions_left = max_length // 512
        self.i = 0
        pos, end = 0, len(text.rstrip())
        while pos < end:
            m = _TOKEN.match(text, pos)
            if not m:
                blank = _SPACE.match(text, pos)
                bad = blank.end() if blank else pos
                raise ExprError(f"unexpected character {text[bad]!r}", bad)
            kind = "int" if m.group(1) else "name" if m.group(2) else "op"
            self.tokens.append((kind, m.group(m.lastindex or 0), m.start(m.lastindex or 0)))
            pos = m.end()

    def peek(self) -> str:
        return self.tokens[self.i][1] if self.i < len(self.tokens) else ""

    def position(self) -> int:
        return self.tokens[self.i][2] if self.i < len(self.tokens) else len(self.text)

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            found = self.peek() or "the end"
            raise ExprError(f"expected {expected!r}, found {found!r}", self.position())
        self.i += 1

    def parse(self) -> Expr:
        e = self.sum()
        if self.i < len(self.tokens):
            raise ExprError(f"unexpected {self.peek()!r}", self.position())
        return e

    def sum(self) -> Expr:
        e = self.term()
        while self.peek() in ("+", "-"):
            op = self.peek()
            self.i += 1
            r = self.term()
            e = e + r if op == "+" else e - r
        return e

    def term(self) -> Expr:
        e = self.factor()
        while self.peek() in ("*", "/", "//", "%"):
            op = self.peek()
            self.i += 1
            r = self.factor()
            e = e * r if op == "*" else self.quotient(op, e, r)
        return e

    def quotient(self, op: str, a: Expr, b: Expr) -> Expr:
        if len(a.terms) > 1 and len(b.terms) > 1:
            self.divisions_left -= 1
            if self.divisions_left < 0:
                raise ExprError("too many divisions of a sum by a sum", self.position())
        return _QUOTIENTS[op](a, b)

    def factor(self) -> Expr:
        self.depth += 1
        if self.depth > MAX_PARSE_DEPTH:
            raise ExprError(f"expression nests deeper than {MAX_PARSE_DEPTH}", self.position())
        try:
            return self._factor()
        finally:
            self.depth -= 1

    def _factor(self) -> Expr:
        if self.i >= len(self.tokens):
            raise ExprError("the expression ends too early", len(self.text))
        kind, tok, pos = self.tokens[self.i]
        self.i += 1
        if kind == "int":
            if len(tok) > 19 or int(tok) > MAX_INT:
                raise ExprError("integer does not fit 63 bits", pos)
            return const(int(tok))
        if tok == "-":
            return -self.factor()
        if tok == "(":
            e = self.sum()
            self.take(")")
            return e
        if kind == "name":
            if self.peek() == "(":
                return self.call(tok, pos)
            if self.known is not None and not self.known(tok):
                raise ExprError(f"unknown symbol {tok!r}", pos)
            return sym(tok)
        raise ExprError(f"unexpected {tok!r}", pos)

    def call(self, name: str, pos: int) -> Expr:
        fn = _FUNCTIONS.get(name.lower())
        if fn is None:
            raise ExprError(f"unknown function {name!r} (known: ceil, floor, min, max, mod)", pos)
        self.take("(")
        args = [self.sum()]
        while self.peek() == ",":
            self.i += 1
            args.append(self.sum())
        self.take(")")
        want = {"ceil": 1, "floor": 1, "mod": 2, "ceildiv": 2, "floordiv": 2}.get(fn)
        if want is not None and len(args) != want:
            raise ExprError(f"{name} takes {want} argument(s), not {len(args)}", pos)
        if fn == "min":
            return Min(*args)
        if fn == "max":
            return Max(*args)
        if fn == "mod":
            return self.quotient("%", *args)
        if fn == "ceildiv":
            return self.quotient("ceildiv", *args)
        if fn == "floordiv":
            return self.quotient("//", *args)
        e = args[0]
        if not is_single_atom(e):
            return self._round_sum(e, fn, pos)
        atom = e.terms[0][0][0][0]
        if isinstance(atom, Func) and atom.name == "Ratio":
            return (CeilDiv if fn == "ceil" else FloorDiv)(*atom.args)
        return e

    def _round_sum(self, e: Expr, fn: str, pos: int) -> Expr:
        """ceil/floor of an integer polynomial is itself; of a sum with a quotient it is not supported."""
        if any(isinstance(a, Func) and a.name == "Ratio" for a in e.atoms()):
            raise ExprError(f"{fn}() takes one quotient, such as {fn}(a / b)", pos)
        return e


def parse(
    text: str,
    known: Callable[[str], bool] | None = None,
    *,
    allow_ratio: bool = False,
    max_length: int = MAX_PARSE_LENGTH,
) -> Expr:
    """Read an expression.

    Args:
        text: ``s0*4``, ``ceil(s0/2)``, or the printed form ``Ceiling((40000 / (z0t_size)))``.
        known: says whether a symbol name is defined; None accepts all names.
        allow_ratio: accept a quotient that is not an integer polynomial (printed ``repeats``).
        max_length: longest text that is read, in characters.

    Raises:
        ExprError: with the position of the first problem.
    """
    parser = _Parser(text, known, max_length)
    try:
        e = parser.parse()
    except ExprError as err:
        if err.position >= 0:
            raise
        # From arithmetic (a division by zero, too many terms), which knows no text.
        raise ExprError(str(err), parser.tokens[parser.i - 1][2]) from None
    if not allow_ratio and _has_ratio(e):
        raise ExprError(f"{text.strip()!r} may not be an integer; write ceil(...) or floor(...)", 0)
    return e


def _has_ratio(e: Expr) -> bool:
    return any(
        isinstance(a, Func) and (a.name == "Ratio" or any(_has_ratio(x) for x in a.args))
        for a in e.atoms()
    )
