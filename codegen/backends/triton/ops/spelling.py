"""Spell formulas (:mod:`autofuse.codegen.nests.formulas`) in Triton: words, types, casts and literals.

A device function replaces a Triton builtin that deviates from the registry's definition of an op by more than the
allowed error, or that the interpreter lacks.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from autofuse.codegen.backends.triton.ops.functions import FUNCTIONS
from autofuse.codegen.nests.formulas import FUNCTIONS as SHARED
from autofuse.codegen.nests.formulas import Formulas
from autofuse.codegen.nests.language import PRODUCT, Language, Printer
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

__all__ = ["TRITON", "TYPES", "literal"]

#: Name of an element type -> Triton type.
TYPES: Mapping[str, str] = {
    **{name: f"tl.{name}" for name in BY_NAME if name not in ("bool", "mask")},
    "bool": "tl.int1",
}
#: Range of numbers that Triton treats as float32; all others become float64.
_LEAST_SINGLE, _LARGEST_SINGLE = 2.0**-126, (2 - 2.0**-23) * 2.0**127


def literal(value: float | int, dtype: DType) -> str:
    """Return a number as a literal: an int for an integer type, True or False for bool."""
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind in "iu":
        return str(int(value))
    value = float(value)
    if abs(value) > _LARGEST_SINGLE:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if not math.isfinite(value):
        return f'float("{value}")'
    if value == 0.0 and math.copysign(1.0, value) < 0.0:
        # Triton constants lose the sign of zero.
        return f"(tl.full((), 0.0, {TYPES[dtype.name]}) * -1.0)"
    if 0.0 < abs(value) < _LEAST_SINGLE:
        return f"tl.full((), {value!r}, {TYPES[dtype.name]})"
    return repr(value)


class _Printer(Printer):
    def negated(self, x: ast.expr) -> tuple[str, int]:
        # Not -x, which some versions compute as 0 - x: the sign is wrong for x = 0.
        return f"{self.text(x, PRODUCT)} * -1.0", PRODUCT


class Triton(Language):
    """Triton, with device functions beside the kernels."""

    printer = _Printer
    sizes: ClassVar[Mapping[str, str]] = {"TOP": "BITS - 1"}
    loop, end, close = "for _ in tl.static_range(BITS):", "", ""

    def spell(
        self,
        op: str,
        args: Sequence[str],
        attrs: Mapping[str, Any],
        dtypes: Sequence[DType],
        result: DType,
    ) -> str:
        """Return the expression of one element-wise op.

        Args:
            op: name of an op with a spelling.
            args: a name or a literal per operand.
            attrs: attributes of the node; ``accuracy`` is ``short`` or ``exact``, from
                ``autofuse.codegen.nests.legalize``.
            dtypes: type that each operand is held in.
            result: type that the result is held in.
        """
        lead = dtypes[-1]
        cast = op == "Cast"
        tree = None if cast else self.tree(op, lead, attrs.get("accuracy", ""))
        plain = [_is_literal(a) for a in args]
        # An expression of literals only would be a Python number.
        typed = _calls(tree) or all(p or d != lead for p, d in zip(plain, dtypes, strict=True))
        texts = [
            f"tl.full((), {a}, {TYPES[d.name]})" if p and typed else a
            for a, p, d in zip(args, plain, dtypes, strict=True)
        ]
        if tree is None:
            return _cast(texts[0], dtypes[0], result)
        given = dict(zip("abc", texts, strict=False))
        given |= {"T": TYPES[result.name], "BITS": str(result.bits)}
        given["ONES"] = str((1 << result.bits) - 1)
        return _Printer(self, given, integers=lead.kind != "f").text(tree)

    def call(self, name: str, args: Sequence[str], given: Mapping[str, str]) -> str:
        """Return a call of a device function, which takes the width of integers."""
        width = [given["BITS"]] if _takes_width(name) else []
        return f"_{name}({', '.join((*args, *width))})"

    def named(self, text: str) -> Iterable[str]:
        """Return the names of the device functions in a text."""
        return re.findall(r"(?<![\w.])_\w+", text)

    def head(self, f: ast.FunctionDef, *, integers: bool) -> Iterable[str]:
        """Yield the lines of a function before its statements."""
        width = ["BITS: tl.constexpr"] if _takes_width(f.name) else []
        doc = (ast.get_docstring(f) or "").replace("^", "**")
        yield "@triton.jit"
        yield f"def _{f.name}({', '.join([*(a.arg for a in f.args.args), *width])}):"
        yield f'    """{doc}"""'

    def assignment(self, name: str, value: ast.expr, p: Printer, times: int) -> str:
        """Return an assignment."""
        return f"{name} = {p.text(value)}"


def _is_literal(text: str) -> bool:
    return not text.isidentifier() and not text.startswith("tl.")


def _takes_width(name: str) -> bool:
    return re.search(r"\b(BITS|TOP)\b", SHARED.get(name, "")) is not None


#: Builtins whose operands may be Python numbers, which take the element type of the other operands.
_UNTYPED = ("where", "maximum", "minimum", "exact_quotient")


def _calls(e: ast.expr | None) -> bool:
    """Return True if an expression has a builtin that takes only blocks, so that its literals need a dtype."""
    if e is None:
        return True
    words = (
        n.func.id for n in ast.walk(e) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    )
    return any(w not in _UNTYPED for w in words)


def _cast(x: str, have: DType, to: DType) -> str:
    """Return a cast.  Integers wrap; a float rounds to zero and saturates, and NaN becomes 0."""
    if to.kind == "b":
        return f"{x} != 0"
    if have.kind == "f" and to.kind in "iu":
        low = -(1 << (to.bits - 1)) if to.kind == "i" else 0
        return f"_to_int({x}, {TYPES[to.name]}, {low}, {low + (1 << to.bits) - 1})"
    return f"{x}.to({TYPES[to.name]})"


_NAN = "propagate_nan=tl.PropagateNan.ALL"
_WORDS: Mapping[str, str] = {
    "at_least": f"tl.maximum({{0}}, {{1}}, {_NAN})",
    "at_most": f"tl.minimum({{0}}, {{1}}, {_NAN})",
    "bit_cast": "{0}.to({T}, bitcast=True)",
    "bits": "{0}.to(tl.int32, bitcast=True)",
    "copysign": "tl.where({1} < 0.0, {0} * -1.0, {0})",
    "exact_quotient": "tl.div_rn({0}, {1})",
    "larger": "tl.maximum({0}, {1})",
    "log10": "tl.log2({0}) * 0.30102999566398120",
    "maximum": f"tl.maximum({{0}}, {{1}}, {_NAN})",
    "minimum": f"tl.minimum({{0}}, {{1}}, {_NAN})",
    "narrow": "{0}.to(tl.float32)",
    "number": "{0}.to(tl.float32, bitcast=True)",
    "one": "tl.full({0}.shape, 1, {0}.dtype)",
    "rough_exp": "tl.exp({0})",
    "smaller": "tl.minimum({0}, {1})",
    # The plain one is an approximation that flushes subnormal numbers to 0.
    "sqrt": "tl.sqrt_rn({0})",
    # On a card those of Triton take subnormal numbers for zeros.
    "ceil": "tl.where(tl.ceil({0}) < {0}, 1.0, tl.ceil({0}))",
    "floor": "tl.where(tl.floor({0}) > {0}, -1.0, tl.floor({0}))",
    "trunc": "tl.where({0} < 0.0, tl.ceil({0}), tl.floor({0}))",
    "where": "tl.where({0}, {1}, {2})",
    "wide": "{0}.to(tl.float64)",
    **{"absolute": "tl.abs({0})", "ln": "tl.log({0})"},
    **{name: f"tl.{name}({{0}})" for name in ("cos", "erf", "exp2", "log2", "sin")},
}
_FORMULAS: Formulas = {
    "Abs": {"i": "absolute(a)"},
    "BitwiseNot": {"u": "a ^ ONES"},  # The interpreter does not support ~ of unsigned integers.
    "Div exact": {"f": "exact_quotient(a, b)"},
    "Exp short": {"f": "rough_exp(a)"},
    "Maximum": {"iu": "larger(a, b)"},
    "Minimum": {"iu": "smaller(a, b)"},
}

TRITON = Triton("Triton", _WORDS, _FORMULAS, FUNCTIONS)
