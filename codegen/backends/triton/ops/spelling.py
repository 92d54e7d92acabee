"""How each op is written in Triton: one table, a row per op and kind of element types.

Floats of 16 bits are held as float32 (``legalize``), so rows of floats are those of float32.  The rows mean what the
registry says of the op, within the error that it allows; where Triton's own word does not, or is not there in the
interpreter, there is a function of ``functions``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from autofuse.codegen.backends.triton.ops.functions import DEVICE_FUNCTIONS, with_called
from autofuse.codegen.nests.legalize import Dialect
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

__all__ = ["DEVICE_FUNCTIONS", "DIALECT", "TYPES", "functions_of", "literal", "spell", "spelled"]

#: Name of an element type -> the type in Triton.
TYPES: Mapping[str, str] = {
    **{name: f"tl.{name}" for name in BY_NAME if name not in ("bool", "mask")},
    "bool": "tl.int1",
}
#: Triton takes numbers from the one to the other for float32; all others become float64.
_LEAST_SINGLE, _LARGEST_SINGLE = 2.0**-126, (2 - 2.0**-23) * 2.0**127

Attrs: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Row:
    """How an op is written for operands of some kinds.

    Attributes:
        text: of the expression; ``{0}`` is the first operand, ``{T}`` the type of the result, ``{W}`` the number of
            its bits, ``{ONES}`` all of them.
        kinds: of the element types of the last operand.
        uses: names of device functions in ``text``.
        typed: literals get their element type; elsewhere they take that of the operand beside them.
        other: expressions without functions for some values of the attribute ``accuracy``: ``short`` where the result
            is rounded to 16 bits, ``exact`` where it must be correctly rounded.
    """

    text: str
    kinds: str = "f"
    uses: tuple[str, ...] = ()
    typed: bool = False
    other: Mapping[str, str] = field(default_factory=dict)


def literal(value: float | int, dtype: DType) -> str:
    """A number as it stands in a kernel: of an integer type an integer, of bool True or False."""
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
        # Constants of Triton lose the sign.
        return f"(tl.full((), 0.0, {TYPES[dtype.name]}) * -1.0)"
    if 0.0 < abs(value) < _LEAST_SINGLE:
        return f"tl.full((), {value!r}, {TYPES[dtype.name]})"
    return repr(value)


def spelled(op: str, dtype: DType | None = None) -> bool:
    """Whether an op is written directly, for a last operand of an element type or of any."""
    return any(dtype is None or dtype.kind in row.kinds for row in _TABLE.get(op, ()))


def spell(
    op: str, args: Sequence[str], attrs: Attrs, dtypes: Sequence[DType], result: DType
) -> str:
    """The expression of one element-wise op.

    Args:
        op: name of a row of the table.
        args: a name or a literal per operand.
        attrs: of the node; ``accuracy``: ``short`` or ``exact``, as ``autofuse.codegen.nests.legalize`` gives it.
        dtypes: element type per operand, as it is held.
        result: element type of the result, as it is held.
    """
    row = _row(op, dtypes, result)
    lead = dtypes[-1]
    plain = [_is_literal(a) for a in args]
    # An expression of literals alone would be one of Python's numbers.
    typed = row.typed or all(p or d != lead for p, d in zip(plain, dtypes, strict=True))
    texts = [
        f"tl.full((), {a}, {TYPES[d.name]})" if p and typed else a
        for a, p, d in zip(args, plain, dtypes, strict=True)
    ]
    text = row.other.get(attrs.get("accuracy", ""), row.text)
    return text.format(*texts, T=TYPES[result.name], W=result.bits, ONES=(1 << result.bits) - 1)


def functions_of(op: str, attrs: Attrs, dtypes: Sequence[DType], result: DType) -> tuple[str, ...]:
    """Names of the device functions in the expression of an op, and of those that they call."""
    row = _row(op, dtypes, result)
    return () if attrs.get("accuracy", "") in row.other else with_called(row.uses)


def _row(op: str, dtypes: Sequence[DType], result: DType) -> _Row:
    if op == "Cast":
        return _cast(dtypes[0], result)
    kind = dtypes[-1].kind
    return next(row for row in _TABLE[op] if kind in row.kinds)


def _is_literal(text: str) -> bool:
    return not text.isidentifier() and not text.startswith("tl.")


def _cast(have: DType, to: DType) -> _Row:
    """Integers wrap; a float becomes an integer by rounding to zero, saturates, and NaN is 0."""
    if to.kind == "b":
        return _Row("{0} != 0", typed=True)
    if have.kind == "f" and to.kind in "iu":
        low = -(1 << (to.bits - 1)) if to.kind == "i" else 0
        text = f"_to_int({{0}}, {{T}}, {low}, {low + (1 << to.bits) - 1})"
        return _Row(text, uses=("_to_int",), typed=True)
    return _Row("{0}.to({T})", typed=True)


def _called(name: str, *more: str, kinds: str = "f") -> _Row:
    """A call of a device function on all operands; ``more`` are further arguments."""
    arity = 1 if name in _UNARY else 2
    args = ", ".join((*(f"{{{i}}}" for i in range(arity)), *more))
    return _Row(f"{name}({args})", kinds, (name,), typed=True)


_UNARY = frozenset({"_expm1", "_softplus", "_gelu", "_tanh", "_round", "_trunc", "_round_away"})
_ALL = "fiub"


def _infix(sign: str, kinds: str = "fiu") -> tuple[_Row, ...]:
    return (_Row(f"{{0}} {sign} {{1}}", kinds),)


def _extremum(name: str) -> tuple[_Row, ...]:
    nan = _Row(f"tl.{name}({{0}}, {{1}}, propagate_nan=tl.PropagateNan.ALL)")
    return nan, _Row(f"tl.{name}({{0}}, {{1}})", "iu", typed=True)


_TABLE: Mapping[str, tuple[_Row, ...]] = {
    # Arithmetic.
    "Add": _infix("+"),
    "Sub": _infix("-"),
    "Mul": _infix("*"),
    "Div": (_Row("{0} / {1}", other={"exact": "tl.div_rn({0}, {1})"}),),
    # Not -x, which some versions compute as 0 - x: that has another sign where x is 0.
    "Neg": (_Row("{0} * -1.0", typed=True), _Row("0 - {0}", "iu", typed=True)),
    "Abs": (_Row("tl.abs({0})", "fi", typed=True), _Row("{0}", "u", typed=True)),
    "Square": (_Row("{0} * {0}", "fiu", typed=True),),
    "Sign": (
        _Row("tl.where({0} > 0.0, 1.0, tl.where({0} < 0.0, -1.0, {0} + 0.0))", typed=True),
        _Row("({0} > 0).to({T}) - ({0} < 0).to({T})", "i", typed=True),
        _Row("({0} > 0).to({T})", "u", typed=True),
    ),
    "Relu": (
        _Row("tl.maximum({0}, 0.0, propagate_nan=tl.PropagateNan.ALL)", typed=True),
        _Row("tl.where({0} > 0, {0}, 0)", "i", typed=True),
        _Row("{0}", "u", typed=True),
    ),
    "LeakyRelus": (_Row("tl.where({0} >= 0.0, {0}, {0} * {1})"),),
    "Maximum": _extremum("maximum"),
    "Minimum": _extremum("minimum"),
    "Fma": (
        # The product is exact in float64, also where there is no fused operation.
        _Row("({0}.to(tl.float64) * {1}.to(tl.float64) + {2}.to(tl.float64)).to({T})", typed=True),
        _Row("{0} * {1} + {2}", "iu"),
    ),
    "Pow": (_called("_power"), _called("_power_int", "{W}", kinds="iu")),
    "TruncDiv": (_called("_trunc_div", kinds="i"), _called("_unsigned_div", kinds="u")),
    "FloorDiv": (_called("_floor_div", kinds="i"), _called("_unsigned_div", kinds="u")),
    "Fmod": (_called("_trunc_mod", kinds="i"), _called("_unsigned_mod", kinds="u")),
    "Remainder": (_called("_floor_mod", kinds="i"), _called("_unsigned_mod", kinds="u")),
    # Functions of floats.
    "Exp": (_Row("_exp({0})", uses=("_exp",), typed=True, other={"short": "tl.exp({0})"}),),
    "Expm1": (_called("_expm1"),),
    "Softplus": (_called("_softplus"),),
    "LogSigmoid": (_Row("_softplus({0} * -1.0) * -1.0", uses=("_softplus",), typed=True),),
    "Gelu": (_called("_gelu"),),
    "Exp2": (_Row("tl.exp2({0})", typed=True),),
    "Ln": (_Row("tl.log({0})", typed=True),),
    "Log2": (_Row("tl.log2({0})", typed=True),),
    "Log10": (_Row("tl.log2({0}) * 0.30102999566398120", typed=True),),
    # The plain one is an approximation, for which subnormal numbers are 0.
    "Sqrt": (_Row("tl.sqrt_rn({0})", typed=True),),
    "Rsqrt": (_Row("1.0 / tl.sqrt_rn({0})", typed=True),),
    "Sin": (_Row("tl.sin({0})", typed=True),),
    "Cos": (_Row("tl.cos({0})", typed=True),),
    "Erf": (_Row("tl.erf({0})", typed=True),),
    "Tanh": (_called("_tanh"),),
    "Floor": (_Row("tl.floor({0})", typed=True),),
    "Ceil": (_Row("tl.ceil({0})", typed=True),),
    "Round": (_called("_round"),),
    "RoundAway": (_called("_round_away"),),
    "Trunc": (_called("_trunc"),),
    # Truth values.
    "Equal": _infix("==", _ALL),
    "NotEqual": _infix("!=", _ALL),
    "Less": _infix("<", _ALL),
    "LessEqual": _infix("<=", _ALL),
    "Greater": _infix(">", _ALL),
    "GreaterEqual": _infix(">=", _ALL),
    "Select": (_Row("tl.where({0}, {1}, {2})", _ALL),),
    # Bits.
    "BitwiseAnd": _infix("&", "iub"),
    "BitwiseOr": _infix("|", "iub"),
    "BitwiseXor": _infix("^", "iub"),
    "BitwiseNot": (
        _Row("~{0}", "i", typed=True),
        # The interpreter has no ~ of unsigned numbers.
        _Row("{0} ^ {ONES}", "u", typed=True),
        _Row("{0} == 0", "b", typed=True),
    ),
    "Shl": _infix("<<", "iu"),
    "Shr": _infix(">>", "iu"),
    "LShift": (_called("_shift_left", "{W}", kinds="iu"),),
    "RShift": (
        _called("_shift_right", "{W}", kinds="i"),
        _called("_unsigned_shift_right", "{W}", kinds="u"),
    ),
    "Cast": (_Row("{0}.to({T})", _ALL),),
    "BitCast": (_Row("{0}.to({T}, bitcast=True)", _ALL, typed=True),),
}

DIALECT = Dialect("Triton", spelled)
