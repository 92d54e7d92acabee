"""How each op is written in C++: one table, a row per op and kind of element types.

Floats of 16 bits are held as float (``autofuse.codegen.nests.legalize``), so rows of floats are those of float32.  The
rows mean what the registry says of the op, within the error that it allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autofuse.codegen.backends.ascendc.expr_cpp import int_literal
from autofuse.codegen.nests.legalize import Dialect
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

__all__ = ["COSTLY", "DIALECT", "TYPES", "functions_of", "literal", "spell", "spelled", "stored"]

#: Name of an element type -> the type of a value in C++.
TYPES: Mapping[str, str] = {
    **{d.name: f"{d.name}_t" for d in BY_NAME.values() if d.kind in "iu"},
    "float32": "float",
    "float16": "half",
    "bfloat16": "bfloat16",
    "bool": "bool",
}
#: Ops that cost more than reading a value again.
COSTLY = frozenset(
    {"Exp", "Expm1", "Exp2", "Ln", "Log2", "Log10", "Softplus", "LogSigmoid", "Gelu", "Tanh", "Erf"}
    | {"Sin", "Cos", "Pow", "Div", "Sqrt", "Rsqrt", "TruncDiv", "FloorDiv", "Fmod", "Remainder"}
)


@dataclass(frozen=True, slots=True)
class _Row:
    """How an op is written for operands of some kinds.

    Attributes:
        text: of the expression; ``{0}`` is the first operand, ``{T}`` the type of the result, ``{U}`` an unsigned
            type in which its integers wrap.
        kinds: of the element types of the last operand.
        uses: names of functions in ``text``.
    """

    text: str
    kinds: str = "f"
    uses: tuple[str, ...] = ()


def stored(dtype: DType) -> str:
    """The type of an element in memory."""
    return "uint8_t" if dtype.kind == "b" else TYPES[dtype.name]


def literal(value: float | int, dtype: DType) -> str:
    """A number of a type, as an expression that may stand beside any operator."""
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


def spelled(op: str, dtype: DType) -> bool:
    """Whether an op is written directly, for a last operand of an element type."""
    return any(dtype.kind in row.kinds for row in _TABLE.get(op, ()))


def spell(op: str, args: Sequence[str], dtypes: Sequence[DType], result: DType) -> str:
    """The expression of one element-wise op.

    Args:
        op: name of a row of the table.
        args: a name or a literal per operand.
        dtypes: element type per operand, as it is held.
        result: element type of the result, as it is held.
    """
    wide = "uint64_t" if result.bits > 32 else "uint32_t"
    return _row(op, dtypes, result).text.format(*args, T=TYPES[result.name], U=wide)


def functions_of(op: str, dtypes: Sequence[DType], result: DType) -> tuple[str, ...]:
    """Names of the functions in the expression of an op."""
    return _row(op, dtypes, result).uses


def _row(op: str, dtypes: Sequence[DType], result: DType) -> _Row:
    if op == "Cast":
        return _cast(dtypes[0], result)
    kind = dtypes[-1].kind
    return next(row for row in _TABLE[op] if kind in row.kinds)


#: Floats of 16 bits -> the functions from and to float.
_HALVES = {"float16": "half", "bfloat16": "bfloat16"}


def _cast(have: DType, to: DType) -> _Row:
    """Integers wrap; a float becomes an integer by rounding to zero, saturates, and NaN is 0."""
    if have.name in _HALVES:
        name = f"from_{_HALVES[have.name]}"
        return _Row(f"simd::{name}({{0}})", uses=(name,))
    if to.name in _HALVES:
        name = f"to_{_HALVES[to.name]}"
        return _Row(f"simd::{name}({{0}})", uses=(name,))
    if to.kind == "b":
        return _Row("({0} != 0)")
    if have.kind == "b" and to.kind == "f":
        # A conversion of bool to float keeps a loop from becoming vector instructions.
        return _Row("({0} ? 1.0f : 0.0f)")
    if have.kind == "f" and to.kind in "iu":
        return _Row("simd::to_int<{T}>({0})", uses=("to_int",))
    return _Row("static_cast<{T}>({0})")


def _called(name: str, arity: int = 1, kinds: str = "f", group: str = "") -> _Row:
    """A call of a function; ``group``: the text that has it, where that has several."""
    args = ", ".join(f"{{{i}}}" for i in range(arity))
    return _Row(f"simd::{name}({args})", kinds, (group or name,))


def _library(name: str, arity: int = 1) -> tuple[_Row, ...]:
    """A call of the C library that is one instruction."""
    args = ", ".join(f"{{{i}}}" for i in range(arity))
    return (_Row(f"std::{name}({args})"),)


def _arithmetic(sign: str) -> tuple[_Row, ...]:
    """Integers wrap, as only unsigned ones do in C++."""
    wraps = f"static_cast<{{T}}>(static_cast<{{U}}>({{0}}) {sign} static_cast<{{U}}>({{1}}))"
    return _Row(f"({{0}} {sign} {{1}})"), _Row(wraps, "iu")


def _comparison(sign: str) -> tuple[_Row, ...]:
    return (_Row(f"({{0}} {sign} {{1}})", "fiub"),)


def _bits(sign: str) -> tuple[_Row, ...]:
    return (_Row(f"static_cast<{{T}}>({{0}} {sign} {{1}})", "iub"),)


def _extreme(name: str) -> tuple[_Row, ...]:
    """Of floats NaN wins."""
    return (
        _called(name, 2, group="extremes"),
        _called(f"{name}_int", 2, "iu", "integer_extremes"),
    )


_NEGATED = "static_cast<{T}>(0u - static_cast<{U}>({0}))"
_TABLE: Mapping[str, tuple[_Row, ...]] = {
    # Arithmetic.
    "Add": _arithmetic("+"),
    "Sub": _arithmetic("-"),
    "Mul": _arithmetic("*"),
    "Div": (_Row("({0} / {1})"),),
    "Neg": (_Row("(-{0})"), _Row(_NEGATED, "iu")),
    "Abs": (
        _Row("std::fabs({0})"),
        _Row("({0} < 0 ? " + _NEGATED + " : {0})", "i"),
        _Row("{0}", "u"),
    ),
    "Square": (
        _Row("({0} * {0})"),
        _Row("static_cast<{T}>(static_cast<{U}>({0}) * static_cast<{U}>({0}))", "iu"),
    ),
    "Sign": (
        _Row("({0} > 0.0f ? 1.0f : {0} < 0.0f ? -1.0f : {0})"),
        _Row("static_cast<{T}>(({0} > 0) - ({0} < 0))", "iu"),
    ),
    "Relu": (
        _Row("({0} < 0.0f ? 0.0f : {0})"),
        _Row("({0} < 0 ? {T}{{0}} : {0})", "i"),
        _Row("{0}", "u"),
    ),
    "LeakyRelus": (_Row("({0} >= 0.0f ? {0} : {0} * {1})"),),
    "Maximum": _extreme("max"),
    "Minimum": _extreme("min"),
    "Fma": (
        # The product is exact in double, also where there is no fused operation.
        _Row(
            "static_cast<float>(static_cast<double>({0}) * static_cast<double>({1})"
            " + static_cast<double>({2}))"
        ),
        _Row(
            "static_cast<{T}>(static_cast<{U}>({0}) * static_cast<{U}>({1}) + static_cast<{U}>({2}))",
            "iu",
        ),
    ),
    # The product in the exponent needs more bits than float has.
    "Pow": (
        _Row("static_cast<float>(std::pow(static_cast<double>({0}), static_cast<double>({1})))"),
        _called("power_int", 2, "iu"),
    ),
    "TruncDiv": (_called("trunc_div", 2, "iu", "divisions"),),
    "FloorDiv": (_called("floor_div", 2, "iu", "divisions"),),
    "Fmod": (_called("trunc_mod", 2, "iu", "divisions"),),
    "Remainder": (_called("floor_mod", 2, "iu", "divisions"),),
    # Functions of floats.
    "Exp": (_called("exp"),),
    "Expm1": (_called("expm1"),),
    "Exp2": (_called("exp2"),),
    "Softplus": (_called("softplus"),),
    "LogSigmoid": (_Row("(-simd::softplus(-{0}))", uses=("softplus",)),),
    "Gelu": (_called("gelu"),),
    "Ln": (_Row("simd::logarithm({0}, 0.693359375f, -2.12194440e-4f, 1.0f)", uses=("logarithm",)),),
    "Log2": (_Row("simd::logarithm({0}, 1.0f, 0.0f, 1.44269504f)", uses=("logarithm",)),),
    "Log10": (
        _Row(
            "simd::logarithm({0}, 0.30102539f, 4.60503844e-6f, 0.434294482f)", uses=("logarithm",)
        ),
    ),
    "Sqrt": _library("sqrt"),
    "Rsqrt": (_Row("(1.0f / std::sqrt({0}))"),),
    "Sin": (_Row("simd::sine({0}, 0)", uses=("sine",)),),
    "Cos": (_Row("simd::sine({0}, 1)", uses=("sine",)),),
    "Erf": (_called("erf"),),
    "Tanh": (_called("tanh"),),
    "Floor": _library("floor"),
    "Ceil": _library("ceil"),
    "Trunc": _library("trunc"),
    "Round": (_called("round_even"),),
    "RoundAway": (_called("round_away"),),
    # Truth values.
    "Equal": _comparison("=="),
    "NotEqual": _comparison("!="),
    "Less": _comparison("<"),
    "LessEqual": _comparison("<="),
    "Greater": _comparison(">"),
    "GreaterEqual": _comparison(">="),
    "Select": (_Row("({0} ? {1} : {2})", "fiub"),),
    # Bits.
    "BitwiseAnd": _bits("&"),
    "BitwiseOr": _bits("|"),
    "BitwiseXor": _bits("^"),
    "BitwiseNot": (_Row("static_cast<{T}>(~{0})", "iu"), _Row("(!{0})", "b")),
    "Shl": (_Row("static_cast<{T}>(static_cast<{U}>({0}) << {1})", "iu"),),
    "Shr": (_Row("static_cast<{T}>({0} >> {1})", "iu"),),
    "LShift": (_called("shift_left", 2, "iu", "shifts"),),
    "RShift": (_called("shift_right", 2, "iu", "shifts"),),
    "Cast": (_Row("static_cast<{T}>({0})", "fiub"),),
    "BitCast": (_Row("simd::bit_cast<{T}>({0})", "fiub", ("bit_cast",)),),
}

DIALECT = Dialect("C++", spelled)
