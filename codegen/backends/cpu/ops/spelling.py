"""Spell formulas (:mod:`autofuse.codegen.nests.formulas`) in C++: words, types, casts and literals."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from autofuse.codegen.backends.ascendc.expr_cpp import int_literal
from autofuse.codegen.backends.cpu.ops.functions import FUNCTIONS
from autofuse.codegen.nests.language import (
    ATOM,
    COMPARED,
    INFIX,
    SUM,
    Language,
    Printer,
    bare,
    is_truth,
)
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

__all__ = ["CPP", "TYPES", "literal", "stored"]

#: Name of an element type -> C++ type of a value.
TYPES: Mapping[str, str] = {
    **{d.name: f"{d.name}_t" for d in BY_NAME.values() if d.kind in "iu"},
    "float32": "float",
    "float16": "half",
    "bfloat16": "bfloat16",
    "bool": "bool",
}


def stored(dtype: DType) -> str:
    """Return the type of an element in memory."""
    return "uint8_t" if dtype.kind == "b" else TYPES[dtype.name]


def literal(value: float | int, dtype: DType) -> str:
    """Return a number of a type as an expression that can stand beside any operator."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        text = int_literal(int(value)) if int(value) < 1 << 63 else f"UINT64_C({int(value)})"
        return f"{TYPES[dtype.name]}{{{text}}}" if dtype.name != "int32" else _atomic(text)
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if math.isnan(single):
        return "NAN"
    if math.isinf(single):
        return "INFINITY" if single > 0 else "(-INFINITY)"
    return _atomic(f"{single!s}f")


def _atomic(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


class _Printer(Printer):
    """Printer of wrapping integers: C++ wraps only unsigned ones, so compute in ``{U}`` and cast back to ``{T}``."""

    def number(self, value: float) -> str:
        if isinstance(value, float):
            return f"{value!r}f"
        return f"{self.given['T']}{{{value}}}" if self.integers else str(value)

    def infix(
        self, e: ast.expr, sign: str, rank: int, left: ast.expr, right: ast.expr
    ) -> tuple[str, int]:
        if not self.integers or is_truth(e):
            return super().infix(e, sign, rank, left, right)
        if sign in "+-*":
            text, _ = self._unsigned(e)
        elif sign == "<<":
            text = f"{self._unsigned(left)[0]} << {self.text(right, ATOM)}"
        else:
            text = f"{self.text(left, ATOM)} {sign.replace('//', '/')} {self.text(right, ATOM)}"
        return f"static_cast<{self.given['T']}>({text})", ATOM

    def _unsigned(self, e: ast.expr) -> tuple[str, int]:
        """Return a wrapping expression, and its precedence."""
        match e:
            case ast.Constant(int() as value):
                return f"{value}u", ATOM
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() as op, right):
                sign, rank = INFIX[type(op)]
                (a, first), (b, second) = self._unsigned(left), self._unsigned(right)
                a, b = a if first >= rank else f"({a})", b if second > rank else f"({b})"
                return f"{a} {sign} {b}", rank
        return f"static_cast<{self.given['U']}>({self.text(e)})", ATOM

    def inverted(self, x: ast.expr) -> tuple[str, int]:
        return f"static_cast<{self.given['T']}>(~{self.text(x, ATOM)})", ATOM

    def compared(self, left: ast.expr, sign: str, right: ast.expr) -> tuple[str, int]:
        if isinstance(right, ast.Constant | ast.UnaryOp) and self.integers:
            return f"{self.text(left, SUM)} {sign} {ast.unparse(right)}", COMPARED
        return super().compared(left, sign, right)

    def called(self, word: str, args: Sequence[ast.expr]) -> tuple[str, int]:
        if word == "where":
            condition, *values = (self.text(x, COMPARED) for x in args)
            return f"({condition} ? {' : '.join(values)})", ATOM
        return super().called(word, args)


class Cpp(Language):
    """C++, with functions in the namespace ``simd`` of the file."""

    printer = _Printer
    sizes: ClassVar[Mapping[str, str]] = {
        "T": "T",
        "U": "uint64_t",
        "BITS": "static_cast<T>(sizeof(T) * 8)",
        "TOP": "static_cast<T>(sizeof(T) * 8 - 1)",
    }
    loop, end, close = "for (size_t step = 0; step < sizeof(T) * 8; ++step) {", ";", "}"

    def spell(self, op: str, args: Sequence[str], dtypes: Sequence[DType], result: DType) -> str:
        """Return the expression of one element-wise op.

        Args:
            op: name of an op with a spelling.
            args: a name or a literal per operand.
            dtypes: type that each operand is held in.
            result: type that the result is held in.
        """
        if op == "Cast":
            return _cast(args[0], dtypes[0], result)
        wide = "uint64_t" if result.bits > 32 else "uint32_t"
        given = dict(zip("abc", args, strict=False)) | {"T": TYPES[result.name], "U": wide}
        integers = dtypes[-1].kind != "f"
        tree = self.tree(op, dtypes[-1])
        return _Printer(self, given, integers=integers).text(tree)

    def call(self, name: str, args: Sequence[str], given: Mapping[str, str]) -> str:
        """Return a call of a function."""
        return f"simd::{name}({', '.join(args)})"

    def named(self, text: str) -> Iterable[str]:
        """Return the names prefixed with ``simd::``, and the functions called without a namespace."""
        return (a or b for a, b in re.findall(r"simd::(\w+)|(?<![:\w])(\w+)(?=[<(])", text))

    def head(self, f: ast.FunctionDef, *, integers: bool) -> Iterable[str]:
        """Yield the lines of a function before its statements."""
        kind = "T" if integers else "float"
        yield f"// {ast.get_docstring(f)}"
        if integers:
            yield "template <typename T>"
        yield f"inline {kind} {f.name}({', '.join(f'{kind} {a.arg}' for a in f.args.args)}) {{"

    def assignment(self, name: str, value: ast.expr, p: Printer, times: int) -> str:
        """Return an assignment; ``times``: number of assignments to the name, 0 if it already has a value."""
        declared = "bool " if is_truth(value) else "T " if p.integers else "float "
        declared = f"const {declared}" if times == 1 else declared if times else ""
        return f"{declared}{name} = {bare(p.text(value))}"

    def printed(self, f: ast.FunctionDef) -> str:
        """Return a function of the table, in the namespace of the functions it calls."""
        return super().printed(f).replace("simd::", "")


#: 16-bit float type -> the functions that convert from and to float.
_HALVES = {"float16": "half", "bfloat16": "bfloat16"}


def _cast(x: str, have: DType, to: DType) -> str:
    """Return a cast.  Integers wrap; a float rounds to zero and saturates, and NaN becomes 0."""
    if have.name in _HALVES:
        return f"simd::from_{_HALVES[have.name]}({x})"
    if to.name in _HALVES:
        return f"simd::to_{_HALVES[to.name]}({x})"
    if to.kind == "b":
        return f"({x} != 0)"
    if have.kind == "b" and to.kind == "f":
        # A conversion from bool to float would prevent vectorisation.
        return f"({x} ? 1.0f : 0.0f)"
    called = "simd::to_int" if have.kind == "f" and to.kind in "iu" else "static_cast"
    return f"{called}<{TYPES[to.name]}>({x})"


#: C++ spellings; except for pow, the functions of the C library compile to one instruction.
_WORDS: Mapping[str, str] = {
    "absolute": "std::fabs({0})",
    "at_least": "({0} < {1} ? {1} : {0})",
    "at_most": "({0} > {1} ? {1} : {0})",
    "bit_cast": "simd::bit_cast<{T}>({0})",
    "bits": "simd::bit_cast<uint32_t>({0})",
    "copysign": "std::copysign({0}, {1})",
    "maximum": "simd::max({0}, {1})",
    "minimum": "simd::min({0}, {1})",
    "narrow": "static_cast<float>({0})",
    "one": "T(1)",
    "number": "simd::bit_cast<float>({0})",
    "power": "static_cast<float>(std::pow(static_cast<double>({0}), static_cast<double>({1})))",
    "wide": "static_cast<double>({0})",
    **{name: f"std::{name}({{0}})" for name in ("sqrt", "floor", "ceil", "trunc")},
    "ln": "simd::logarithm({0}, 0.693359375f, -2.12194440e-4f, 1.0f)",
    "log2": "simd::logarithm({0}, 1.0f, 0.0f, 1.44269504f)",
    "log10": "simd::logarithm({0}, 0.30102539f, 4.60503844e-6f, 0.434294482f)",
    "sin": "simd::sine({0}, 0)",
    "cos": "simd::sine({0}, 1)",
}

CPP = Cpp("C++", _WORDS, {}, FUNCTIONS)
