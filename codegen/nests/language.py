"""Print formulas (:mod:`autofuse.codegen.nests.formulas`) in a language: expressions, and the functions they call."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from autofuse.codegen.nests.formulas import COEFFICIENTS, FORMULAS, FUNCTIONS, Formulas
from autofuse.implgraph.ir.dtypes import DType

__all__ = ["ATOM", "COMPARED", "INFIX", "SUM", "Language", "Printer", "bare", "is_truth", "parsed"]

#: Precedence, loose to tight: a choice, a comparison or bitwise operator, a sum, a product, a sign, a name.
CHOICE, COMPARED, SUM, PRODUCT, SIGNED, ATOM = range(6)
INFIX: Mapping[type, tuple[str, int]] = {
    ast.Add: ("+", SUM),
    ast.Sub: ("-", SUM),
    ast.Mult: ("*", PRODUCT),
    ast.Div: ("/", PRODUCT),
    ast.FloorDiv: ("//", PRODUCT),
    ast.Mod: ("%", PRODUCT),
    ast.LShift: ("<<", COMPARED),
    ast.RShift: (">>", COMPARED),
    ast.BitAnd: ("&", COMPARED),
    ast.BitOr: ("|", COMPARED),
    ast.BitXor: ("^", COMPARED),
    ast.Eq: ("==", COMPARED),
    ast.NotEq: ("!=", COMPARED),
    ast.Lt: ("<", COMPARED),
    ast.LtE: ("<=", COMPARED),
    ast.Gt: (">", COMPARED),
    ast.GtE: (">=", COMPARED),
}


@lru_cache(maxsize=256)
def parsed(text: str) -> ast.expr:
    """Return the syntax tree of a formula."""
    return ast.parse(text, mode="eval").body


@lru_cache(maxsize=64)
def _function(name: str) -> ast.FunctionDef:
    """Return a function of the table, with its polynomials expanded to steps."""
    (found,) = ast.parse(FUNCTIONS[name]).body
    assert isinstance(found, ast.FunctionDef)
    found.body = [step for s in found.body for step in _steps(s)]
    return found


def _steps(s: ast.stmt) -> Iterator[ast.stmt]:
    """Yield a statement, or the steps of a polynomial."""
    match s:
        case ast.Assign(
            [ast.Name(name)], ast.Call(ast.Name("polynomial"), [ast.Name(x), ast.Name(table)])
        ):
            *rest, top = COEFFICIENTS[table]
            steps = [f"{name} * {x} {'-' if c < 0 else '+'} {abs(c)!r}" for c in reversed(rest)]
            yield from ast.parse("\n".join(f"{name} = {e}" for e in (repr(top), *steps))).body
        case _:
            yield s


def bare(text: str) -> str:
    """Return an expression without enclosing parentheses."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if k == len(text) - 1 and text.startswith("(") else text
    return text


def is_truth(e: ast.expr) -> bool:
    """Return True if an expression is a truth value."""
    match e:
        case ast.Compare():
            return True
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr(), _):
            return is_truth(left)
    return False


class Printer:
    """Printer of the expressions of one formula.

    Args:
        language: language with the words.
        given: names in the formula -> their texts.
        integers: True for a formula of integers.
    """

    def __init__(self, language: Language, given: Mapping[str, str], *, integers: bool) -> None:
        self.language, self.given, self.integers = language, given, integers

    def text(self, e: ast.expr, least: int = CHOICE) -> str:
        """Return an expression, parenthesised if it binds less tightly than ``least``."""
        text, rank = self.ranked(e)
        return text if rank >= least else f"({text})"

    def ranked(self, e: ast.expr) -> tuple[str, int]:
        """Return an expression, and its precedence."""
        match e:
            case ast.Constant(value):
                assert isinstance(value, int | float)
                return self.number(value), ATOM
            case ast.Name(name):
                return self.given.get(name, name), ATOM
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return self.number(-value), ATOM
            case ast.UnaryOp(ast.USub(), x):
                return self.negated(x)
            case ast.UnaryOp(ast.Invert(), x):
                return self.inverted(x)
            case ast.BinOp(left, op, right):
                return self.infix(e, *INFIX[type(op)], left, right)
            case ast.Compare(left, [op], [right]):
                return self.compared(left, INFIX[type(op)][0], right)
            case ast.Call(ast.Name(word), args):
                return self.called(word, args)
        raise AssertionError(ast.dump(e))

    def number(self, value: float) -> str:
        """Return a number of a formula."""
        return repr(value)

    def negated(self, x: ast.expr) -> tuple[str, int]:
        """Return the negation of a float."""
        return f"-{self.text(x, SIGNED)}", SIGNED

    def inverted(self, x: ast.expr) -> tuple[str, int]:
        """Return the bitwise complement of an integer."""
        return f"~{self.text(x, SIGNED)}", SIGNED

    def infix(
        self, e: ast.expr, sign: str, rank: int, left: ast.expr, right: ast.expr
    ) -> tuple[str, int]:
        """Return a binary operation."""
        first, second = (ATOM, ATOM) if rank == COMPARED else (rank, rank + 1)
        return f"{self.text(left, first)} {sign} {self.text(right, second)}", rank

    def compared(self, left: ast.expr, sign: str, right: ast.expr) -> tuple[str, int]:
        """Return a comparison."""
        return f"{self.text(left, SUM)} {sign} {self.text(right, SUM)}", COMPARED

    def called(self, word: str, args: Sequence[ast.expr]) -> tuple[str, int]:
        """Return a word applied to its operands."""
        known = self.language.words.get(word)
        if known is None:
            return self.language.call(word, [self.text(x) for x in args], self.given), ATOM

        def operand(m: re.Match[str]) -> str:
            x = args[int(m[1])]
            # Before a method or an operator it has to be an atom.
            return self.text(x, ATOM if known[m.end() : m.end() + 1] in (".", " ") else CHOICE)

        text = re.sub(r"\{(\d)\}", operand, known)
        rank = ATOM if text.endswith(")") and not text.startswith("-") else PRODUCT
        return text.replace("{T}", self.given.get("T", "")), rank


class Language(ABC):
    """A language with its spelling of formulas.

    Attributes:
        name: name for messages.
        words: word of formulas -> its text; ``{0}`` is the first operand, ``{T}`` the type of the result.
        formulas: overrides of the shared formulas; ``Exp short`` overrides Exp if its attribute ``accuracy`` is
            ``short``.
        own: functions written in the language itself.
        printer: class that prints its expressions.
        sizes: text of ``T``, ``BITS`` and ``TOP`` in a function.
        loop, end, close: the head of a loop over bits, and the ends of a statement and of a block.
    """

    printer: ClassVar[type[Printer]]
    sizes: ClassVar[Mapping[str, str]]
    loop: ClassVar[str]
    end: ClassVar[str]
    close: ClassVar[str]

    def __init__(
        self, name: str, words: Mapping[str, str], formulas: Formulas, own: Mapping[str, str]
    ) -> None:
        self.name, self.words, self.formulas, self.own = name, words, formulas, own

    def formula(self, op: str, dtype: DType | None, accuracy: object = "") -> str | None:
        """Return the formula of an op.

        Args:
            op: op name.
            dtype: dtype of its last operand; None for any.
            accuracy: ``short`` or ``exact``, from ``autofuse.codegen.nests.legalize``.
        """
        tables = (self.formulas.get(f"{op} {accuracy}"), self.formulas.get(op), FORMULAS.get(op))
        for kinds in filter(None, tables):
            for k, text in kinds.items():
                if dtype is None or dtype.kind in k:
                    return text
        return None

    def spelled(self, op: str, dtype: DType | None = None) -> bool:
        """Return True if a backend emits an op directly, for a last operand of a dtype or of any."""
        return op == "Cast" or self.formula(op, dtype) is not None

    def tree(self, op: str, dtype: DType, accuracy: object = "") -> ast.expr:
        """Return the syntax tree of a spelled op's formula."""
        text = self.formula(op, dtype, accuracy)
        assert text is not None, f"{op} of {dtype.name} is not spelled"
        return parsed(text)

    # functions --------------------------------------------------------------------------------
    @abstractmethod
    def call(self, name: str, args: Sequence[str], given: Mapping[str, str]) -> str:
        """Return a call of a function."""

    @abstractmethod
    def head(self, f: ast.FunctionDef, *, integers: bool) -> Iterable[str]:
        """Return the lines of a function before its statements."""

    @abstractmethod
    def assignment(self, name: str, value: ast.expr, p: Printer, times: int) -> str:
        """Return an assignment; ``times``: number of assignments to the name, 0 if it already has a value."""

    @abstractmethod
    def named(self, text: str) -> Iterable[str]:
        """Return the names that a text calls, functions included."""

    def printed(self, f: ast.FunctionDef) -> str:
        """Return a function of the table as text."""
        integers = f.args.args[0].annotation is not None
        p = self.printer(self, self.sizes, integers=integers)
        given = Counter(n.targets[0].id for n in ast.walk(f) if isinstance(n, ast.Assign))  # type: ignore[attr-defined]
        lines = [*self.head(f, integers=integers)]

        def say(body: Sequence[ast.stmt], indent: str) -> None:
            for s in body:
                match s:
                    case ast.Assign([ast.Name(name)], value):
                        text = self.assignment(name, value, p, given.pop(name, 0))
                        lines.append(f"{indent}{text}{self.end}")
                    case ast.Return(ast.expr() as value):
                        lines.append(f"{indent}return {bare(p.text(value))}{self.end}")
                    case ast.For():
                        lines.append(f"{indent}{self.loop}")
                        say(s.body, f"{indent}    ")
                        lines.extend([f"{indent}{self.close}"] if self.close else [])

        say(f.body, "    ")
        return "\n".join((*lines, *([self.close] if self.close else []), ""))

    def function(self, name: str) -> str | None:
        """Return the text of a function, by its name in calls."""
        plain = name.removeprefix("_")
        if name in self.own:
            return self.own[name]
        return self.printed(_function(plain)) if plain in FUNCTIONS else None

    def functions(self, *texts: str) -> dict[str, str]:
        """Return the functions that texts call, by name; callees come first."""
        found: dict[str, str] = {}
        seen: set[str] = set()

        def add(text: str) -> None:
            for name in self.named(text):
                body = None if name in seen else self.function(name)
                if body is not None:
                    seen.add(name)
                    add(body)
                    found[name] = body

        for text in texts:
            add(text)
        return found
