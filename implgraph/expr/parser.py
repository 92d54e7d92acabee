"""Parser for expressions in graph files and in the printed form of :class:`Expr`.

Recursive descent; nothing is ever evaluated as code.  Length, depth, numbers and the work of computing the canonical
form are bounded, for one expression (:func:`parse`) and for all of an input (:class:`Reader`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import (
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
    total,
)

__all__ = ["MAX_PARSE_DEPTH", "MAX_PARSE_LENGTH", "Reader", "ir_reader", "parse"]

MAX_PARSE_DEPTH = 64
MAX_PARSE_LENGTH = 4096
#: Maximum length of one expression, and of all distinct expressions, in a printed graph.
MAX_IR_LENGTH = 1 << 16
MAX_IR_TEXT = 1 << 18
#: Maximum number of term pairs in products of sums: a second or two of work.
MAX_PAIRS = 1 << 15
#: Maximum number of divisions of a sum by a sum per input; each may take a tenth of a second.
MAX_DIVISIONS = 16

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


class _Budget:
    """Remaining work budget of an expression, or of all expressions of an input."""

    def __init__(self, divisions: int) -> None:
        self.divisions = divisions
        self.pairs = MAX_PAIRS

    def divide(self, a: Expr, b: Expr, position: int) -> None:
        """Charge a division of a sum by a sum, which is slow."""
        if len(a.terms) > 1 and len(b.terms) > 1:
            self.divisions -= 1
            if self.divisions < 0:
                raise ExprError("too many divisions of a sum by a sum", position)

    def multiply(self, a: Expr, b: Expr, position: int) -> None:
        """Charge a product of sums, even if it ends up with few terms or cancels."""
        if len(a.terms) > 1 and len(b.terms) > 1:
            self.pairs -= len(a.terms) * len(b.terms)
            if self.pairs < 0:
                raise ExprError("too many products of sums", position)


class _Parser:
    """Recursive descent over ``+ - * / // %``, parentheses, ceil, floor, min, max, mod."""

    def __init__(
        self, text: str, known: Callable[[str], bool] | None, max_length: int, budget: _Budget
    ) -> None:
        if len(text) > max_length:
            raise ExprError(f"expression is longer than {max_length} characters", max_length)
        self.text = text
        self.known = known
        self.tokens: list[tuple[str, str, int]] = []
        self.depth = 0
        self.budget = budget
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
        parts = [self.term()]
        while self.peek() in ("+", "-"):
            op = self.peek()
            self.i += 1
            r = self.term()
            parts.append(r if op == "+" else -r)
        return parts[0] if len(parts) == 1 else total(parts)

    def term(self) -> Expr:
        e = self.factor()
        while self.peek() in ("*", "/", "//", "%"):
            op = self.peek()
            self.i += 1
            r = self.factor()
            e = self.product(e, r) if op == "*" else self.quotient(op, e, r)
        return e

    def product(self, a: Expr, b: Expr) -> Expr:
        self.budget.multiply(a, b, self.position())
        return a * b

    def quotient(self, op: str, a: Expr, b: Expr) -> Expr:
        self.budget.divide(a, b, self.position())
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
            raise ExprError(f"{name} takes {counted(want, 'argument')}, not {len(args)}", pos)
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
        """Return ceil/floor of an integer polynomial: the polynomial itself; a sum with a quotient is not supported."""
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
        known: returns True if a symbol name is defined; None accepts all names.
        allow_ratio: accept a quotient that is not an integer polynomial (printed ``repeats``).
        max_length: longest accepted text, in characters.

    Raises:
        ExprError: with the position of the first problem.
    """
    budget = _Budget(max_length // 512)
    return _parse(text, known, allow_ratio=allow_ratio, max_length=max_length, budget=budget)


class Reader:
    """Reads the expressions of one input, parsing each text once, within a total size limit.

    Args:
        max_text: maximum total length of distinct expressions, in characters.
        max_length: maximum length of one expression, in characters.
        allow_ratio: see :func:`parse`.
        known: returns True if a symbol name is defined; None accepts all names.
    """

    def __init__(
        self,
        *,
        max_text: int,
        max_length: int = MAX_PARSE_LENGTH,
        allow_ratio: bool = False,
        known: Callable[[str], bool] | None = None,
    ) -> None:
        self._max_text = self._text_left = max_text
        self._max_length = max_length
        self._allow_ratio = allow_ratio
        self._known = known
        self._budget = _Budget(MAX_DIVISIONS)
        self._found: dict[str, Expr | ExprError] = {}

    def read(self, text: str) -> Expr:
        """Return the parsed expression.

        Raises:
            ExprError: as :func:`parse`, or because the input has too many expressions.
        """
        if text not in self._found:
            self._text_left -= len(text)
            if self._text_left < 0:
                raise ExprError(f"all expressions together have over {self._max_text} characters")
            try:
                self._found[text] = _parse(
                    text,
                    self._known,
                    allow_ratio=self._allow_ratio,
                    max_length=self._max_length,
                    budget=self._budget,
                )
            except ExprError as err:
                self._found[text] = err
        found = self._found[text]
        if isinstance(found, ExprError):
            raise found
        return found


def ir_reader(known: Callable[[str], bool] | None = None) -> Reader:
    """Return a reader for text printed by autofuse: a printed sum of many buffers exceeds the limit for user input."""
    return Reader(max_text=MAX_IR_TEXT, max_length=MAX_IR_LENGTH, allow_ratio=True, known=known)


def _parse(
    text: str,
    known: Callable[[str], bool] | None,
    *,
    allow_ratio: bool,
    max_length: int,
    budget: _Budget,
) -> Expr:
    parser = _Parser(text, known, max_length, budget)
    try:
        e = parser.parse()
    except ExprError as err:
        if err.position >= 0:
            raise
        # Raised by arithmetic (a division by zero, too many terms), which has no text position.
        raise ExprError(str(err), parser.tokens[parser.i - 1][2]) from None
    if not allow_ratio and _has_ratio(e):
        raise ExprError(f"{text.strip()!r} may not be an integer; write ceil(...) or floor(...)", 0)
    return e


def _has_ratio(e: Expr) -> bool:
    return any(
        isinstance(a, Func) and (a.name == "Ratio" or any(_has_ratio(x) for x in a.args))
        for a in e.atoms()
    )
