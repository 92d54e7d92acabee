"""A cursor over one line of the text form; ``ir_text_parser`` says what the lines mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from autofuse.implgraph.expr.expression import Expr, ExprError
from autofuse.implgraph.expr.parser import Reader
from autofuse.implgraph.ir.graph import Attr

__all__ = ["KEY", "Line", "LineError", "strip_comment"]

#: A key such as ``.y.dtype``.
KEY = re.compile(r"\.[A-Za-z_][\w.]*", re.ASCII)

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_]\w*(?:[/.-]\w+)*", re.ASCII)
_COLONS = re.compile(r"[A-Za-z]+::[A-Za-z]+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_COMMENT_OR_STRING = re.compile(rf'//|{_STRING.pattern}|"')
_INT = re.compile(r"-?[0-9]{1,19}(?![0-9])")
_NUMBER = re.compile(r"-?(?:inf|nan|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)", re.ASCII)

_E = TypeVar("_E", bound=Enum)
_T = TypeVar("_T")


class LineError(Exception):
    """A problem at a place of one line; ``column`` counts from 0."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Line:
    """A cursor over one line without its comment."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        self.i = 0
        self.skip()

    def skip(self) -> None:
        """Move over white space."""
        m = _SPACE.match(self.text, self.i)
        self.i = m.end() if m else self.i

    def fail(self, message: str, at: int | None = None) -> LineError:
        """An error at ``at``, by default here."""
        return LineError(message, self.number, self.i if at is None else at)

    def found(self) -> str:
        """What comes next, for an error message."""
        rest = self.text[self.i : self.i + 20].strip()
        return repr(rest) if rest else "the end of the line"

    def at_end(self) -> bool:
        """True if nothing is left."""
        return self.i >= len(self.text)

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """The text that ``pattern`` matches here, or None."""
        m = pattern.match(self.text, self.i)
        if not m:
            return None
        self.i = m.end()
        self.skip()
        return m.group()

    def accept(self, literal: str) -> bool:
        """Move over ``literal`` if it comes next."""
        if not self.text.startswith(literal, self.i):
            return False
        self.i += len(literal)
        self.skip()
        return True

    def accept_word(self, word: str) -> bool:
        """Like :meth:`accept`, but not for the beginning of a longer word."""
        m = _WORD.match(self.text, self.i)
        return m is not None and m.group() == word and self.accept(word)

    def expect(self, literal: str) -> None:
        """Move over ``literal``; an error if something else comes next."""
        if not self.accept(literal):
            raise self.fail(f"expected {literal!r}, found {self.found()}")

    def end(self) -> None:
        """An error if something is left."""
        if not self.at_end():
            raise self.fail(f"unexpected {self.found()}")

    def string(self) -> str | None:
        """A JSON string, or None if the next thing is none."""
        start = self.i
        text = self.match(_STRING)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except ValueError:
            raise self.fail("the string has a bad escape", start) from None
        return str(value)

    def word(self, what: str) -> str:
        """A bare word or a string."""
        got = self.string()
        if got is None:
            got = self.match(_WORD)
        if got is None:
            raise self.fail(f"expected {what}, found {self.found()}")
        return got

    def integer(self) -> int:
        """An integer of at most 19 digits."""
        text = self.match(_INT)
        if text is None:
            raise self.fail(f"expected an integer, found {self.found()}")
        return int(text)

    def flag(self) -> bool:
        """0 or 1."""
        start = self.i
        value = self.integer()
        if value not in (0, 1):
            raise self.fail(f"expected 0 or 1, found {value}", start)
        return value == 1

    def enum(self, kind: type[_E], prefix: str = "") -> _E:
        """A member of ``kind``, by value, with ``prefix`` before it."""
        start = self.i
        members = {f"{prefix}{m.value}": m for m in kind}
        names = ", ".join(members)
        text = self.match(_COLONS) or self.word(f"one of {names}")
        try:
            return members[text]
        except KeyError:
            raise self.fail(f"expected one of {names}, found {text!r}", start) from None

    def field(self, name: str) -> None:
        """``, name:``."""
        self.expect(",")
        self.expect(name)
        self.expect(":")

    def listing(self, item: Callable[[], _T]) -> list[_T]:
        """``{a, b, }``."""
        self.expect("{")
        out: list[_T] = []
        while not self.accept("}"):
            out.append(item())
            if not self.accept(","):
                self.expect("}")
                break
        return out

    def expression(self, reader: Reader) -> Expr:
        """Everything up to a comma or brace outside parentheses."""
        start, depth = self.i, 0
        while self.i < len(self.text):
            ch = self.text[self.i]
            if depth == 0 and ch in ",}":
                break
            depth += (ch == "(") - (ch == ")")
            self.i += 1
        try:
            e = reader.read(self.text[start : self.i])
        except ExprError as err:
            raise self.fail(str(err), start + max(err.position, 0)) from None
        self.skip()
        return e

    def value(self) -> Attr:
        """An attribute value."""
        if self.text.startswith("{", self.i):
            return tuple(self.listing(self.integer))
        got = self.string()
        if got is not None:
            return got
        for word, truth in (("true", True), ("false", False)):
            if self.accept_word(word):
                return truth
        start = self.i
        text = self.match(_NUMBER)
        if text is None:
            raise self.fail(f"expected a value, found {self.found()}")
        if text.lstrip("-").isdigit():
            if len(text) > 20:
                raise self.fail("the integer has more than 19 digits", start)
            return int(text)
        return float(text)


def strip_comment(text: str) -> str:
    """The text before ``//``; a ``//`` inside a string does not count."""
    if "//" not in text:
        return text
    i = 0
    while True:
        m = _COMMENT_OR_STRING.search(text, i)
        if m is None or m.group() == '"':  # a string without an end: its reader reports it
            return text
        if m.group() == "//":
            return text[: m.start()]
        i = m.end()
