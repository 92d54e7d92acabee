"""Expansions of element-wise ops that the chip has no call for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ops.definition import Attrs, OpSink
from autofuse.implgraph.ops.formulas.long_division import power
from autofuse.implgraph.ops.formulas.vector_math import Vec

__all__ = [
    "ARITH",
    "BY_MODE",
    "FLOATS",
    "MODULAR",
    "WRAPPING",
    "expand_abs",
    "expand_addn",
    "expand_axpy",
    "expand_bits_as",
    "expand_clip",
    "expand_compare",
    "expand_div",
    "expand_extremum",
    "expand_fill",
    "expand_identity",
    "expand_logic",
    "expand_neg",
    "expand_pow_of",
    "expand_reciprocal",
    "expand_relu",
    "expand_rounding",
    "expand_rsqrt",
    "expand_select",
    "expand_sigmoid",
    "expand_sign",
    "expand_sub",
    "scalar_form",
]

FLOATS = frozenset({"float16", "float32"})
ARITH = frozenset({"int16", "int32", "float16", "float32"})
#: Sums, products and shifts have the same bits for signed and unsigned types: compute unsigned types as signed ones.
WRAPPING = {"uint16": "int16", "uint32": "int32"}
MODULAR = ARITH.union(WRAPPING)
INT_MIN = -(1 << 31)
#: Largest exponent of a divisor that becomes a factor.  Larger divisors are lengths of rows that do not fit UB: a
#: variance beside a mean in one pass is recognised by the division of the mean.
_MOST_SHIFT = 12
#: Exponent of the largest power of two.
_MOST_EXPONENT = {"float16": 15, "float32": 127}


def _scalar_fits(s: OpSink, a: Any, b: Any) -> bool:
    """Return True if a scalar call takes ``b``: for an unsigned type only a constant, whose bits are known."""
    d = s.dtype_of(a).name
    return d in ARITH or (d in WRAPPING and s.constant_of(b) is not None)


def scalar_form(device_op: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """Rewrite a commutative binary op with one uniform operand to its scalar form."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        a, b = xs
        if s.is_uniform(a):
            a, b = b, a
        if s.is_uniform(a) or not s.is_uniform(b) or not _scalar_fits(s, a, b):
            return None
        return s.emit(device_op, (a, b))

    return expand


def _negated(s: OpSink, x: Any) -> Any:
    c = s.constant_of(x)
    if c is not None:
        return s.constant(-c, s.dtype_of(x))
    return s.emit("Muls", (x, s.constant(-1, s.dtype_of(x))))


def expand_sub(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand a Sub with a uniform operand to the sum with its negative."""
    a, b = xs
    if s.is_uniform(a) == s.is_uniform(b) or not _scalar_fits(
        s, *((b, a) if s.is_uniform(a) else xs)
    ):
        return None
    if s.is_uniform(b):
        return s.emit("Adds", (a, _negated(s, b)))
    return s.emit("Adds", (_negated(s, b), a))


def expand_neg(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand Neg to the product with -1."""
    return _negated(s, xs[0]) if s.dtype_of(xs[0]).name in MODULAR else None


def expand_abs(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand Abs of integers to the larger of the number and its negative."""
    d = s.dtype_of(xs[0])
    if d.kind == "u":
        return xs[0]
    return s.emit("Maximum", (xs[0], _negated(s, xs[0]))) if d.name in ("int16", "int32") else None


def expand_relu(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand Relu: unsigned numbers stay, int16 uses Maxs."""
    d = s.dtype_of(xs[0])
    if d.kind == "u":
        return xs[0]
    return s.emit("Maxs", (xs[0], s.constant(0, d))) if d.name == "int16" else None


def _signed_order(s: OpSink, x: Any) -> Any:
    """Map uint32 to int32 in the same order, by subtracting 2^31."""
    int32 = BY_NAME["int32"]
    return s.emit("IntAdds", (x, s.constant(INT_MIN, int32)), dtype=int32)


def expand_extremum(op: str, device_op: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """Expand Maximum or Minimum: the scalar form; uint32 in the order of int32."""
    scalar = scalar_form(device_op)

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        d = s.dtype_of(xs[0])
        if d.name == "uint32":
            best = s.emit(op, [_signed_order(s, x) for x in xs])
            return s.emit("IntAdds", (best, s.constant(INT_MIN, BY_NAME["int32"])), dtype=d)
        return scalar(s, xs, attrs) if d.name in ARITH else None

    return expand


def expand_sign(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand Sign: clamp integers, and floats after a product that makes every nonzero number 1 or more; NaN stays."""
    x, d = xs[0], s.dtype_of(xs[0])
    if d.name in ("int16", "int32"):
        return s.emit("Mins", (s.emit("Maxs", (x, s.constant(-1, d))), s.constant(1, d)))
    if d.name == "uint32":
        return s.emit("Minimum", (x, s.constant(1, d)))
    if d.name not in FLOATS:
        return None
    # The largest power of two, twice: it lifts even the smallest subnormal number above 1.
    scale = s.constant(2.0 ** _MOST_EXPONENT[d.name], d)
    out = s.emit("Muls", (s.emit("Muls", (x, scale)), scale))
    out = s.emit("Mins", (s.emit("Maxs", (out, s.constant(-1.0, d))), s.constant(1.0, d)))
    return s.emit("Adds", (out, s.constant(0.0, d)))  # -0 becomes 0


def expand_pow_of(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand powers that are products, such as all of 64-bit integers; uint32 uses the Power of int32."""
    d = s.dtype_of(xs[0])
    if d.kind == "f":
        return _expand_pow(s, xs, attrs)
    if d.bits == 64:
        return power(s, xs)
    if d.name != "uint32":
        return None
    # An exponent from 2^31 on loses its top bit and gains 2^30: odd bases have that period, even ones give 0.
    base, exponent = Vec(s, xs[0]), Vec(s, xs[1])
    positive = exponent.shl(1).shr(1).bits_or(exponent.shr(31).shl(30))
    return (
        base.call("Reinterpret", dtype=BY_NAME["int32"])
        .call("Pow", positive)
        .call("Reinterpret", dtype=d)
        .handle
    )


def _truth(s: OpSink, x: Any) -> Any:
    d = s.dtype_of(x)
    return x if d.kind == "b" else s.emit("NotEqual", (x, s.constant(0, d)))


def expand_logic(op: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """Expand logic ops on numbers: nonzero is true."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        truths = [_truth(s, x) for x in xs]
        if op != "MaskXor":
            return s.emit(op, truths)
        both = s.emit("MaskNot", (s.emit("MaskAnd", truths),))
        return s.emit("MaskAnd", (s.emit("MaskOr", truths), both))

    return expand


def expand_fill(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand to a Select."""
    return s.emit("Select", (xs[1], xs[2], xs[0]))


def expand_clip(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand to the minimum of a maximum."""
    return s.emit("Minimum", (s.emit("Maximum", xs[:2]), xs[2]))


def expand_axpy(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand to a product and a sum."""
    alpha, d = attrs.get("alpha", 1.0), s.dtype_of(xs[0])
    return s.emit("Add", (xs[0], s.emit("Mul", (xs[1], s.constant(alpha, d)))))


def expand_div(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Divide by a power of two with its reciprocal, which is exact only for powers of two."""
    c = s.constant_of(xs[1])
    if (
        s.dtype_of(xs[0]).name not in FLOATS
        or c is None
        or s.is_uniform(xs[0])
        or c == 0
        or not math.isfinite(c)
    ):
        return None
    mantissa, exponent = math.frexp(c)
    if abs(mantissa) != 0.5 or abs(exponent) > _MOST_SHIFT:
        return None
    return s.emit("Muls", (xs[0], s.constant(1.0 / c, s.dtype_of(xs[0]))))


def _expand_pow(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    x, c = xs[0], s.constant_of(xs[1])
    if c == 1:
        return x
    if c == 2:
        return s.emit("Mul", (x, x))
    if c == 3:
        return s.emit("Mul", (s.emit("Mul", (x, x)), x))
    if c == -1:
        return s.emit("Div", (s.constant(1, s.dtype_of(x)), x))
    return None


def expand_rsqrt(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand Rsqrt to a root and a division: the chip's Rsqrt is a table look-up with an error of 2e-4."""
    return s.emit("Div", (s.constant(1, s.dtype_of(xs[0])), s.emit("Sqrt", (xs[0],))))


def expand_reciprocal(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand Reciprocal to a division: the chip's is an approximation.  Of integers only 1 and -1 have one."""
    d = s.dtype_of(xs[0])
    if d.kind != "f":
        unit = s.emit("Equal", (s.emit("Abs", (xs[0],)), s.constant(1, d)))
        return s.emit("Select", (unit, xs[0], s.constant(0, d)))
    return s.emit("Div", (s.constant(1, s.dtype_of(xs[0])), xs[0]))


def expand_sigmoid(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand to an exponential, a sum and a division."""
    e = s.emit("Exp", (_negated(s, xs[0]),))
    return s.emit(
        "Div",
        (s.constant(1, s.dtype_of(xs[0])), s.emit("Add", (e, s.constant(1, s.dtype_of(xs[0]))))),
    )


def expand_addn(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand to sums, left to right."""
    out = xs[0]
    for x in xs[1:]:
        out = s.emit("Add", (out, x))
    return out


def expand_identity(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Return the operand."""
    return xs[0]


def expand_bits_as(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Return the operand's bytes as another dtype; a bool is a byte that is 0 or 1."""
    have, to = s.dtype_of(xs[0]), BY_NAME[attrs["dtype"]]
    if have == to:
        return xs[0]
    if have.kind == "b":
        return s.emit("Cast", xs, {"dtype": to.name}, to)
    return s.emit("Reinterpret", xs, {"dtype": to.name}, to)


def expand_rounding(mode: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """Expand to a Cast of float32 to itself, with a rounding mode."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        if s.dtype_of(xs[0]).name != "float32":
            return None
        return s.emit("Cast", xs, {"dtype": "float32", "round": mode}, BY_NAME["float32"])

    return expand


def expand_compare(mode: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """Expand comparisons: floats compare directly; int32 has at most EQ on the chip, the rest uses Max, Min and Not."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        a, b = xs
        d = s.dtype_of(a).name
        if d in FLOATS:
            if s.is_uniform(b) and not s.is_uniform(a):
                return s.emit("CompareScalar", (a, b), {"mode": mode})
            if s.is_uniform(a) and not s.is_uniform(b):
                return s.emit("CompareScalar", (b, a), {"mode": _SWAPPED[mode]})
            return s.emit("Compare", (a, b), {"mode": mode})
        if d == "int32":
            if mode in ("GE", "LE"):
                edge = s.emit("Maximum" if mode == "GE" else "Minimum", (a, b))
                return _same_integers(s, edge, a)
            if mode == "EQ":
                return _same_integers(s, a, b)
            return s.emit("MaskNot", (s.emit(BY_MODE[_NEGATED[mode]], (a, b)),))
        if d == "uint32":
            return s.emit(BY_MODE[mode], (_signed_order(s, a), _signed_order(s, b)))
        return None

    return expand


def _same_integers(s: OpSink, a: Any, b: Any) -> Any:
    """Return the mask of equal int32 elements.

    If the chip compares only floats: a wrapping difference is 0 only for equal operands, and no nonzero int32 converts
    to 0 in float32.
    """
    if s.takes("Compare", s.dtype_of(a)):
        return s.emit("Compare", (a, b), {"mode": "EQ"})
    single = BY_NAME["float32"]
    difference = s.emit("Cast", (s.emit("Sub", (a, b)),), {"dtype": single.name}, single)
    return s.emit("Equal", (difference, s.constant(0, single)))


_SWAPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_NEGATED = {"LT": "GE", "GT": "LE", "NE": "EQ"}
BY_MODE = {
    "EQ": "Equal",
    "NE": "NotEqual",
    "LT": "Less",
    "LE": "LessEqual",
    "GT": "Greater",
    "GE": "GreaterEqual",
}


def expand_select(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand to a SelectMask; a uniform first value is swapped with the second."""
    cond, a, b = xs
    if s.dtype_of(a).itemsize not in (2, 4):
        return None
    if s.is_uniform(a) and not s.is_uniform(b):
        return s.emit("SelectMask", (s.emit("MaskNot", (cond,)), b, a))
    return s.emit("SelectMask", (cond, a, b))
