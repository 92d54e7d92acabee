"""Sizes of AKG files: numbers, named symbols, symbols defined by others, and -1 without a name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from autofuse.base.wording import counted
from autofuse.frontends.builder import MAX_ELEMENTS, MAX_SIZE, GraphBuilder, is_moderate
from autofuse.frontends.json_positions import quote
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import (
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Max,
    Min,
    Mod,
    const,
    product,
    sym,
)
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.names import called, symbol_identifier

__all__ = ["Sizes", "parse_call"]

#: Smallest value of a symbol of an AKG file; the files do not give one.
_MIN = 1
_NAME = re.compile(r"[A-Za-z_]\w*\Z", re.A)
_TOKEN = re.compile(r"\s*(?:(-?\d{1,19})|([A-Za-z_]\w*)|([(),]))", re.A)
_MAX_DEPTH = 32
_MAX_TEXT = 4096

_CALLS: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "ScalarAdd": lambda a, b: a + b,
    "ScalarSub": lambda a, b: a - b,
    "ScalarMul": lambda a, b: a * b,
    "ScalarDiv": FloorDiv,
    "ScalarFloorDiv": FloorDiv,
    "ScalarCeilDiv": CeilDiv,
    "ScalarMod": Mod,
    "ScalarMax": Max,
    "ScalarMin": Min,
}


def parse_call(text: str, resolve: Callable[[str], Expr]) -> Expr:
    """Read ``ScalarAdd(s3, 1)`` and the like; ``resolve`` gives the value of a name.

    Raises:
        ExprError: with the position of the first problem.
    """
    if len(text) > _MAX_TEXT:
        raise ExprError(f"longer than {_MAX_TEXT} characters", 0)
    tokens: list[tuple[str, int]] = []
    pos = 0
    while text[pos:].strip():
        m = _TOKEN.match(text, pos)
        if m is None:
            raise ExprError(f"unexpected character {text[pos:].lstrip()[0]!r}", pos)
        tokens.append((m.group(m.lastindex or 0), m.start(m.lastindex or 0)))
        pos = m.end()
    tokens.append(("", len(text)))
    i = 0

    def take(expected: str) -> None:
        nonlocal i
        if tokens[i][0] != expected:
            raise ExprError(
                f"expected {expected!r}, found {tokens[i][0] or 'the end'!r}", tokens[i][1]
            )
        i += 1

    def value(depth: int) -> Expr:
        nonlocal i
        word, at = tokens[i]
        if depth > _MAX_DEPTH:
            raise ExprError(f"nests deeper than {_MAX_DEPTH}", at)
        if not word or word in "(),":
            raise ExprError(f"unexpected {word or 'end'!r}", at)
        i += 1
        if word.lstrip("-").isdigit():
            return const(int(word))
        if tokens[i][0] != "(":
            return resolve(word)
        if word not in _CALLS:
            raise ExprError(f"unknown function {word!r} (known: {', '.join(_CALLS)})", at)
        take("(")
        left = value(depth + 1)
        take(",")
        right = value(depth + 1)
        take(")")
        e = _CALLS[word](left, right)
        if not is_moderate(e):
            raise ExprError("the numbers are too large", at)
        return e

    out = value(0)
    if tokens[i][0]:
        raise ExprError(f"unexpected {tokens[i][0]!r}", tokens[i][1])
    return out


class Sizes:
    """Turns the shapes of an AKG file into expressions.

    ``symbolic_shape`` names the dimensions that are -1; ``symbol_calc_expr`` defines some of these names by others.
    Older files have only -1: each such dimension of a graph input is then a symbol of its own, and an element-wise op
    equates the aligned dimensions of its operands.
    """

    def __init__(self, builder: GraphBuilder, calc: Mapping[str, str]) -> None:
        self._builder = builder
        self._calc = calc
        self._values: dict[str, Expr] = {}
        self._open: set[str] = set()
        self._unnamed: set[str] = set()
        self._equal: dict[str, Expr] = {}

    def read(
        self, shape: Sequence[int], symbolic: Sequence[str] | None, pointer: str, *, define: bool
    ) -> tuple[Expr | None, ...] | None:
        """Return the sizes of a tensor; None if it is wrong, and None for each unknown size.

        Args:
            shape: numbers, -1 where unknown.
            symbolic: one text per dimension, or None.
            pointer: JSON pointer of the tensor's description.
            define: a graph input, whose unknown sizes become symbols.
        """
        findings = self._builder.findings
        if symbolic is not None and len(symbolic) != len(shape):
            text = f"symbolic_shape has {counted(len(symbolic), 'entry', 'entries')}, shape has {len(shape)}"
            findings.add("AF1104", text, f"{pointer}/symbolic_shape")
            return None
        out: list[Expr | None] = []
        for i, n in enumerate(shape):
            if n >= 0:
                out.append(const(n))
                continue
            if n != -1:
                findings.add(
                    "AF1109",
                    f"the size {n} is negative",
                    f"{pointer}/shape/{i}",
                    hint="-1 is a dynamic size",
                )
                return None
            text = symbolic[i] if symbolic is not None else ""
            if text and text != "-1":
                try:
                    out.append(parse_call(text, self._named))
                except ExprError as e:
                    findings.add(
                        "AF1108",
                        f"{quote(text)}: {e}",
                        f"{pointer}/symbolic_shape/{i}",
                        shift=max(e.position, 0) + 1,
                    )
                    return None
            elif define:
                out.append(self._fresh(f"d{len(self._builder.symbols)}", unnamed=True))
            else:
                out.append(None)
        return tuple(out)

    def _named(self, name: str) -> Expr:
        if name in self._values:
            return self._values[name]
        if name in self._open:
            raise ExprError(f"{name!r} is defined by itself", 0)
        if len(self._open) > _MAX_DEPTH:
            raise ExprError(f"the definition of {name!r} is a chain that is too long", 0)
        if name in self._calc:
            self._open.add(name)
            try:
                value = parse_call(self._calc[name], self._named)
            except ExprError as e:
                # There is no position in the text; the innermost definition is the most specific.
                raise e if e.position < 0 else ExprError(f"{self._calc[name]!r}: {e}") from None
            finally:
                self._open.discard(name)
        else:
            if not _NAME.match(name):
                raise ExprError(f"{name!r} is not a name", 0)
            value = self._fresh(name)
        self._values[name] = value
        return value

    def _fresh(self, name: str, *, unnamed: bool = False) -> Expr:
        word = symbol_identifier(name, self._builder.taken)
        own = called(name, word)
        self._builder.symbols[word] = Symbol(word, _MIN, MAX_SIZE, called=own)
        if unnamed:
            self._unnamed.add(word)
        return sym(word)

    def resolve(self, e: Expr) -> Expr:
        """Return ``e`` with the substitutions that :meth:`equate` found so far."""
        while self._equal:
            replaced = e.substitute({n: self._equal[n] for n in e.symbols() if n in self._equal})
            if replaced == e:
                break
            e = replaced
        return e

    def equate(self, shapes: Sequence[tuple[Expr, ...]]) -> None:
        """Equate the unnamed sizes of tensors that an element-wise op joins.

        In files without symbol names nothing distinguishes a size of 1, which would be broadcast, from an equal size;
        the kernels of such files were compiled for equal sizes.
        """
        if not self._unnamed:
            return
        rank = max((len(s) for s in shapes), default=0)
        for i in range(rank):
            column = [self.resolve(s[i - rank + len(s)]) for s in shapes if i - rank + len(s) >= 0]
            column = [e for e in column if e != 1]
            for a, b in pairwise(column):
                x, y = self.resolve(a), self.resolve(b)
                if x == y:
                    continue
                for one, other in ((y, x), (x, y)):
                    if str(one) in self._unnamed and str(one) not in other.symbols():
                        self._equal[str(one)] = other
                        break

    def finish(self) -> None:
        """Forget the symbols that :meth:`equate` replaced, and give the others an upper limit.

        The files do not limit their symbols, so the limit is the largest power of two for which
        every tensor stays addressable.
        """
        b = self._builder
        for name in self._equal:
            b.symbols.pop(name, None)
        limit = MAX_SIZE
        while limit > 1 and not self._addressable(limit):
            limit >>= 1
        for name in b.symbols:
            b.symbols[name] = Symbol(name, _MIN, limit)

    def _addressable(self, limit: int) -> bool:
        """Return True if no tensor has too many elements while every symbol is at most ``limit``."""
        ranges = {name: (_MIN, limit) for name in self._builder.symbols}
        for t in self._builder.tensors.values():
            shape = [self.resolve(s) for s in t.shape]
            if all(s.is_const for s in shape):
                continue
            try:
                if bounds(product(shape), ranges)[1] >= MAX_ELEMENTS:
                    return False
            except ExprError:
                # No limit would help; the check of the shapes reports the error.
                continue
        return True
