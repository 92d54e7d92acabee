"""Assumptions about the chip's calls, each with elements that show whether it holds.

The documentation of the chip does not settle these; the CPU twin computes them as NumPy does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autofuse.implgraph.ir.fusion import AttrValue

__all__ = ["CORNERS", "Corner"]

_NAN, _INF = math.nan, math.inf
#: Subnormal numbers of float32 and of float16, and the smallest normal ones.
_SMALL, _SMALL16 = (1e-40, -1e-40, 1e-45, 1.1754944e-38), (6e-8, -6e-8, 5.9e-5, 6.104e-5)
_NOTHING: Mapping[str, AttrValue] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Corner:
    """An assumption.

    Attributes:
        name: unique, an identifier.
        says: the assumption, as a sentence.
        op: the op whose result shows it.
        dtype: dtype of the inputs.
        inputs: the elements of each input; all have the same length.
        attrs: attributes of the op.
    """

    name: str
    says: str
    op: str
    dtype: str
    inputs: tuple[tuple[float, ...], ...]
    attrs: Mapping[str, AttrValue] = field(default_factory=lambda: _NOTHING)


def _floats(
    name: str, says: str, op: str, *inputs: tuple[float, ...], **attrs: AttrValue
) -> tuple[Corner, ...]:
    """Return a corner for float32 and one for float16."""
    return tuple(
        Corner(f"{name}_{d}", says, op, d, inputs, MappingProxyType(attrs))
        for d in ("float32", "float16")
    )


def _cast(source: str, result: str, says: str, *values: float) -> Corner:
    attrs = MappingProxyType({"dtype": result})
    return Corner(f"cast_{source}_{result}", says, "Cast", source, (values,), attrs)


_PAIRS = (
    (_NAN, 1.0, _NAN, 0.0, -0.0, _INF, -_INF, 2.0),
    (1.0, _NAN, _NAN, -0.0, 0.0, -_INF, _INF, -2.0),
)
_TIES = (0.5, -0.5, 1.5, 2.5, -2.5, 1e-9, 0.49999997, 3.5)
_OUTSIDE = (3e9, -3e9, 1e20, -1e20, _INF, -_INF, _NAN, 65536.0)

CORNERS: tuple[Corner, ...] = (
    *_floats(
        "relu_zero",
        "Relu of -0 is 0, of NaN is NaN",
        "Relu",
        (0.0, -0.0, _NAN, _INF, -_INF, 1.0, -1.0, 6e-8),
    ),
    *_floats("maximum_nan", "Maximum with NaN is NaN", "Maximum", *_PAIRS),
    *_floats("minimum_nan", "Minimum with NaN is NaN", "Minimum", *_PAIRS),
    *_floats("abs_sign", "Abs clears the sign of zero and of infinity", "Abs", _PAIRS[0]),
    *_floats("add_infinity", "inf - inf is NaN, -0 + 0 is 0", "Add", *_PAIRS),
    *_floats("mul_zero", "0 * inf is NaN, signs of zero are kept", "Mul", *_PAIRS),
    *_floats(
        "div_zero",
        "x / 0 is an infinity, 0 / 0 NaN",
        "Div",
        (1.0, -1.0, 0.0, -0.0, _INF, 1.0, -1.0, _NAN),
        (0.0, 0.0, 0.0, 1.0, _INF, -0.0, _INF, 1.0),
    ),
    *_floats(
        "sqrt_zero",
        "Sqrt of -0 is -0, below 0 NaN",
        "Sqrt",
        (0.0, -0.0, -1.0, _INF, -_INF, _NAN, 4.0, 2.0),
    ),
    *_floats(
        "rsqrt_zero", "Rsqrt of 0 is inf", "Rsqrt", (0.0, -1.0, _INF, _NAN, 4.0, 2.0, 1.0, 0.25)
    ),
    *_floats(
        "reciprocal_zero",
        "Reciprocal of 0 is an infinity",
        "Reciprocal",
        (0.0, -0.0, _INF, -_INF, _NAN, 4.0, 3.0, -1.0),
    ),
    *_floats(
        "ln_edge",
        "Ln of 0 is -inf, below 0 NaN",
        "Ln",
        (0.0, -0.0, -1.0, _INF, _NAN, 1.0, 2.0, 0.5),
    ),
    *_floats(
        "exp_edge",
        "Exp overflows to inf and underflows to 0",
        "Exp",
        (_INF, -_INF, _NAN, -0.0, 89.0, -104.0, 11.1, -17.0),
    ),
    *_floats(
        "less_nan",
        "comparisons with NaN are false, 0 and -0 are equal",
        "Less",
        *_PAIRS,
    ),
    *_floats("equal_nan", "NaN equals nothing, 0 equals -0", "Equal", *_PAIRS),
    *_floats("not_equal_nan", "NaN differs from everything", "NotEqual", *_PAIRS),
    *_floats("reduce_max_nan", "a maximum over NaN is NaN", "ReduceMax", _PAIRS[0], axes=(0,)),
    *_floats(
        "reduce_sum_infinity", "a sum of inf and -inf is NaN", "ReduceSum", _PAIRS[1], axes=(0,)
    ),
    *_floats(
        "arg_max_tie",
        "ArgMax returns the first of equal maxima",
        "ArgMax",
        (1.0, 3.0, 3.0, -0.0, 0.0, 3.0, 2.0, 1.0),
        axis=0,
    ),
    Corner("add_subnormal_float32", "subnormal sums are kept", "Add", "float32", (_SMALL, _SMALL)),
    Corner(
        "add_subnormal_float16", "subnormal sums are kept", "Add", "float16", (_SMALL16, _SMALL16)
    ),
    Corner(
        "mul_subnormal_float32",
        "products below the least normal number are kept",
        "Mul",
        "float32",
        ((1e-30, -1e-30, 1e-38, 3e-39), (1e-10, 1e-10, 0.1, 2.0)),
    ),
    Corner(
        "ln_subnormal_float32",
        "Ln takes subnormal numbers",
        "Ln",
        "float32",
        ((1e-40, 1e-45, 1.1754944e-38, 5e-39),),
    ),
    Corner(
        "ln_subnormal_float16",
        "Ln takes subnormal numbers",
        "Ln",
        "float16",
        ((6e-8, 1e-6, 5.9e-5, 6.104e-5),),
    ),
    Corner(
        "sqrt_subnormal_float32",
        "Sqrt takes subnormal numbers",
        "Sqrt",
        "float32",
        ((1e-40, 1e-45, 1.1754944e-38, 5e-39),),
    ),
    _cast(
        "float32",
        "float16",
        "ties to even; overflow gives inf",
        *(1.00048828125, 1.00146484375, 65504.0, 65520.0, 1e6, -1e6, 6e-8, _NAN),
    ),
    _cast(
        "float32",
        "bfloat16",
        "ties to even",
        *(1.00390625, 1.01171875, 3.4e38, 3.3895e38, 1e-40, -0.0, _INF, _NAN),
    ),
    _cast("float32", "int32", "truncates; out of range saturates, NaN is 0", *_TIES, *_OUTSIDE),
    _cast("float32", "int16", "truncates; out of range saturates, NaN is 0", *_TIES, *_OUTSIDE),
    _cast("float32", "int64", "truncates; out of range saturates, NaN is 0", *_TIES, *_OUTSIDE),
    _cast("float16", "int8", "truncates; out of range saturates, NaN is 0", *_TIES, 200.0, -200.0),
    _cast("float16", "uint8", "truncates; out of range saturates", *_TIES, 300.0, -1.0),
    _cast("int32", "float32", "rounds to even", 16777217, 16777219, -16777217, 2147483647),
    _cast("int64", "float32", "rounds to even", 16777217, 16777219, -16777217, 2147483647),
    _cast("int32", "int16", "wraps", 40000, -40000, 65536, 70000),
    Corner("round_half_float32", "Round rounds ties to even", "Round", "float32", (_TIES,)),
    Corner(
        "add_wrap_int32",
        "sums of integers wrap",
        "Add",
        "int32",
        ((2147483647, -2147483648, 1, -1), (1, -1, 2147483647, -2147483648)),
    ),
    Corner(
        "add_wrap_int16",
        "sums of integers wrap",
        "Add",
        "int16",
        ((32767, -32768, 1, -1), (1, -1, 32767, -32768)),
    ),
    Corner(
        "mul_wrap_int32",
        "products of integers wrap",
        "Mul",
        "int32",
        ((65536, 2147483647, -2147483648, 46341), (65536, 2, -1, 46341)),
    ),
    Corner(
        "mul_wrap_int16",
        "products of integers wrap",
        "Mul",
        "int16",
        ((256, 32767, -32768, 200), (256, 2, -1, 200)),
    ),
    Corner(
        "floor_div_int32",
        "quotients are rounded down",
        "FloorDiv",
        "int32",
        ((7, -7, 7, -7, 2147483647, -2147483647, 1, -1), (2, 2, -2, -2, 3, 3, 5, 5)),
    ),
    Corner(
        "trunc_div_int32",
        "quotients are rounded towards 0",
        "TruncDiv",
        "int32",
        ((7, -7, 7, -7, 2147483647, -2147483647, 1, -1), (2, 2, -2, -2, 3, 3, 5, 5)),
    ),
    Corner(
        "mod_int32",
        "a remainder has the sign of the divisor",
        "Mod",
        "int32",
        ((7, -7, 7, -7, 2147483647, -2147483647, 1, -1), (2, 2, -2, -2, 3, 3, 5, 5)),
    ),
)
