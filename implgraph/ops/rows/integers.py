"""Rows of bitwise operations, shifts, and the divisions of integers and of floats with their sign rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attr, Attrs, OpDef, OpSink
from autofuse.implgraph.ops.formulas.long_division import divided, shifted
from autofuse.implgraph.ops.formulas.vector_math import Vec, formula, two_product
from autofuse.implgraph.ops.row_kinds import HALF, composite, elementwise, with_attrs
from autofuse.implgraph.ops.rules import (
    bits_dtype,
    float_dtype,
    integer_dtype,
    number_dtype,
    reference_of,
)

__all__ = ["ROWS"]

SINGLE, INT32, UINT32 = BY_NAME["float32"], BY_NAME["int32"], BY_NAME["uint32"]
#: Narrow integers are computed in int32, which holds them all; unsigned ones are zero-extended.
TO_INT32 = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32"}
#: Bytes are computed in int16; wider types as 16-bit units.
TO_INT16 = {"int8": "int16", "uint8": "int16"}
#: Types computed in pairs of words.
PAIRS = frozenset({"int64", "uint64"})


# bitwise --------------------------------------------------------------------------------------
def _bitwise(bits: Callable[[Vec, Vec], Vec], masks: str) -> Any:
    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        if s.dtype_of(xs[0]).kind == "b":
            return s.emit(masks, xs)
        return bits(Vec(s, xs[0]), Vec(s, xs[1])).handle

    return expand


def _xor(a: Vec, b: Vec) -> Vec:
    return a.call("BitOr", b).call("BitAnd", a.call("BitAnd", b).call("BitNot"))


def _not(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    return s.emit("MaskNot" if s.dtype_of(xs[0]).kind == "b" else "BitNot", xs)


def _bit_row(
    name: str, arity: int, fn: Callable[..., Any], expand: Any, doc: str, **kw: Any
) -> OpDef:
    return elementwise(
        name,
        (arity, arity),
        bits_dtype,
        reference_of(fn),
        expand=expand,
        promote=TO_INT16,
        cost="unary",
        ulp=0.0,
        doc=doc,
        **kw,
    )


# shifts ---------------------------------------------------------------------------------------
_LEFT, _RIGHT = "LEFT", "RIGHT"


def _shift(direction: str) -> Any:
    """Expand a shift: by a constant one call; by a tensor one conditional shift for each bit of the count."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        x, way = Vec(s, xs[0]), str(attrs.get("direction", direction))
        if x.dtype.bits == 64:
            return shifted(s, xs, way == _LEFT)
        if x.dtype not in (INT32, UINT32):
            return None
        count = s.constant_of(xs[1])
        if count is not None:
            return _by(x, int(count) if 0 <= int(count) < 32 else 32, way).handle
        n = Vec(s, xs[1]).cast(SINGLE)
        if Vec(s, xs[1]).dtype is INT32:
            n = (n < 0.0).choose(32.0, n)
        for k in (16, 8, 4, 2, 1):
            set_ = n >= float(k)
            x = set_.choose(_by(x, k, way), x)
            n = set_.choose(n - float(k), n)
        # The remaining count: 1 for 32, since 31 were shifted already.
        return (n >= 1.0).choose(_by(_by(x, 31, way), 1, way), x).handle

    return expand


def _by(x: Vec, n: int, way: str) -> Vec:
    if n == 0:
        return x
    for _ in range(2 if n > 31 else 1):
        step = min(n, 31)
        if way == _LEFT:
            x = x.shl(step, x.dtype)
        elif x.dtype is INT32:
            x = x.sar(step)
        else:
            x = x.shr(step, x.dtype)
    return x


def _shifted(x: np.ndarray, n: np.ndarray, direction: str) -> np.ndarray:
    """Shift as NumPy does: counts of at least the type's width, or negative, give 0, or -1 for a negative number."""
    beyond = (n < 0) | (n >= 64)
    few = np.where(beyond, 63, n).astype(x.dtype)
    if direction == _LEFT:
        out = np.left_shift(x, few)
    else:
        out = np.right_shift(x, few)
        if x.dtype.kind == "i":
            return np.asarray(out)
    return np.asarray(np.where(beyond, x.dtype.type(0), out))


def _shift_row(name: str, direction: str, doc: str, **kw: Any) -> OpDef:
    attrs: tuple[Attr, ...] = kw.pop("attrs", ())

    def reference(x: np.ndarray, n: np.ndarray, **given: Any) -> np.ndarray:
        return _shifted(x, n, given.get("direction", direction))

    return elementwise(
        name,
        (2, 2),
        integer_dtype,
        with_attrs(reference, *attrs),
        attrs=attrs,
        expand=_shift(direction),
        promote=TO_INT32,
        cost="unary",
        ulp=0.0,
        doc=doc,
        source="shifts by 16, 8, 4, 2, 1 where the count has that bit; 64 bits as two words",
        **kw,
    )


# division of integers ---------------------------------------------------------------------------
def _floor_parts(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """Return (quotient, remainder) of int32, rounded down; both 0 where b is 0.

    The float quotient has a relative error of 2^-22, so the remainder of the first estimate is below |b| + 2^10; a
    second estimate is off by one at most.  Products and differences wrap, which does not affect the small remainder.
    """
    divisor = b.cast(SINGLE)
    q = (a.cast(SINGLE) / divisor).cast(INT32)
    r = a - q * b
    more = (r.cast(SINGLE) / divisor).rint("FLOOR").cast(INT32)
    q, r = q + more, r - more * b
    sign = b.sar(31).call("BitOr", b.like(1))
    low = (r * sign).cast(SINGLE) < 0.0
    q, r = low.choose(q - 1, q), low.choose(r + b, r)
    high = (r * sign - b * sign).cast(SINGLE) >= 0.0
    q, r = high.choose(q + 1, q), high.choose(r - b, r)
    none = divisor.equals(0.0)
    return none.choose(0, q), none.choose(0, r)


def _trunc_parts(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """Return (quotient, remainder) of int32, rounded toward zero."""
    q, r = _floor_parts(a, b)
    opposite = (a.cast(SINGLE) * b.cast(SINGLE) < 0.0) & r.cast(SINGLE).differs(0.0)
    return opposite.choose(q + 1, q), opposite.choose(r - b, r)


def _unsigned_parts(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """Return (quotient, remainder) of uint32: half the dividend is a positive int32, as is a divisor below 2^31."""
    large = b >= 1 << 31
    small = large.choose(1, b).call("Reinterpret", dtype=INT32)
    half, _ = _floor_parts(a.shr(1), small)
    q = large.choose(a.like(0), half.shl(1, UINT32))
    r = a - q * b
    more = (r >= b) & b.differs(0)
    q, r = more.choose(q + 1, q), more.choose(r - b, r)
    return q, b.equals(0).choose(0, r)


def _integer_part(floor: bool, index: int) -> Callable[[Vec, Vec], Vec]:
    def fn(a: Vec, b: Vec) -> Vec:
        if a.dtype is UINT32:
            return _unsigned_parts(a, b)[index]
        return (_floor_parts if floor else _trunc_parts)(a, b)[index]

    return fn


# division of floats -----------------------------------------------------------------------------
#: Quotients at least this large need more than two steps of 24 bits: the remainder is then NaN.
LONG = 2.0**46


def _factor(b: Vec) -> Vec:
    """Return a power of two to scale a divisor: halves of a factor must not overflow, rounding errors not vanish."""
    large, small = b > 2.0**100, b < 2.0**-50
    return large.choose(2.0**-64, small.choose(2.0**64, 1.0))


def _fmod_of(x: Vec, y: Vec) -> Vec:
    """Return the remainder of |x| / |y| rounded toward zero: exact, or NaN where the quotient is at least LONG."""
    a, b = abs(x), abs(y)
    factor = _factor(b)
    r, divisor = a * factor, b * factor
    for _ in range(2):
        q = (r / divisor).rint("TRUNC")
        product, lost = two_product(q, divisor)
        r = (r - product) - lost
    # The rounded quotient may be one too large, then one too small.
    r = (r < 0.0).choose(r + divisor, r)
    r = (r >= divisor).choose(r - divisor, r)
    r = (a / b < LONG).choose(abs(r) / factor, math.nan)
    return (a < b).choose(a, r)


def _fmod(x: Vec, y: Vec) -> Vec:
    return _fmod_of(x, y).with_sign_of(x)


def _remainder(x: Vec, y: Vec) -> Vec:
    r = _fmod_of(x, y)
    opposite = (x.unit() * y.unit() < 0.0) & (r > 0.0)
    return opposite.choose(abs(y) - r, r).with_sign_of(y)


def _quotient_parts(x: Vec, y: Vec) -> tuple[Vec, Vec, Vec]:
    """Return (size, left, quotient): |x/y| rounded down, the scaled remainder of |x|, and the float quotient."""
    quotient = x / y
    factor = _factor(abs(y))
    a, b = abs(x) * factor, abs(y) * factor
    size = abs(quotient).rint("FLOOR")
    # The quotient may have been rounded up to an integer: then the remainder is negative.
    product, lost = two_product(size, b)
    left = (a - product) - lost
    return (left < 0.0).choose(size - 1.0, size), left, quotient


def _divided(size: Vec, quotient: Vec) -> Vec:
    """Return the result with its sign; quotients of at least 2^24 are always integral."""
    return (abs(quotient) < 2.0**24).choose(size.with_sign_of(quotient), quotient)


def _floor_divide(x: Vec, y: Vec) -> Vec:
    size, left, quotient = _quotient_parts(x, y)
    some = (left.differs(0.0) | size.equals(0.0)) & x.differs(0.0)
    below = (x.unit() * y.unit() < 0.0) & some
    value = _divided(below.choose(size + 1.0, size), quotient)
    return ((abs(x) < math.inf) | y.equals(0.0)).choose(value, math.nan)


def _trunc_divide(x: Vec, y: Vec) -> Vec:
    size, _, quotient = _quotient_parts(x, y)
    return _divided(size, quotient)


def _either(floats: Any, integers: Any, floor: bool, remainder: bool) -> Any:
    """Return an expansion for float32, int32, uint32 and 64 bits; the op's ``fmod`` selects rounding toward zero."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        kind = s.dtype_of(xs[0]).name
        if kind in PAIRS:
            return divided(s, xs, floor and not attrs.get("fmod", False), remainder)
        fn = floats if kind == "float32" else integers if kind in ("int32", "uint32") else None
        return None if fn is None else formula(fn)(s, xs, attrs)

    return expand


def _division(
    name: str,
    floats: Any,
    integers: Any,
    reference: Callable[..., Any],
    doc: str,
    floor: bool,
    remainder: bool,
    **kw: Any,
) -> OpDef:
    fields: dict[str, Any] = {
        "expand": _either(floats, integers, floor, remainder),
        "promote": HALF | TO_INT32,
        "cost": "div",
        "ulp": 1.0,
        "source": "two estimates of the quotient in float32, at most four of 64-bit integers; remainders exact",
    } | kw
    return elementwise(
        name,
        (2, 2),
        number_dtype,
        reference if fields.get("attrs") else reference_of(reference),
        doc=doc,
        **fields,
    )


def _int_trunc(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    q, r = np.floor_divide(a, b), np.remainder(a, b)
    return np.asarray(np.where((r != 0) & ((a < 0) != (b < 0)), q + q.dtype.type(1), q))


def _trunc_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _int_trunc(a, b) if a.dtype.kind in "iu" else np.asarray(np.trunc(a / b))


def _mod(x: Vec, y: Vec, fmod: bool = False) -> Vec:
    if x.dtype is SINGLE:
        return _fmod(x, y) if fmod else _remainder(x, y)
    return _integer_part(not fmod, 1)(x, y)


def _mod_reference(a: np.ndarray, b: np.ndarray, fmod: bool = False) -> np.ndarray:
    value = (np.fmod if fmod else np.remainder)(a, b)
    if a.dtype.kind in "iu":
        return np.asarray(value)
    with np.errstate(all="ignore"):
        return np.asarray(np.where(np.abs(a / b) < LONG, value, np.nan))


def _fmod_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _mod_reference(a, b, True)


_FMOD = Attr(
    "fmod", "bool", False, doc="sign of the dividend, as C's fmod, instead of the divisor's"
)
_DIRECTION = Attr("direction", "str", _LEFT, doc="LEFT or RIGHT")


def _true_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the float dtype unchanged; integers give float32."""
    d = number_dtype(dtypes, attrs)
    return d if d.kind == "f" else SINGLE


def _true_divide(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    if s.dtype_of(xs[0]).kind == "f":
        return s.emit("Div", xs)
    wide = [s.emit("Cast", (x,), {"dtype": "float32"}, SINGLE) for x in xs]
    return s.emit("Div", wide)


def _to_integer_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    float_dtype(dtypes, attrs)
    return BY_NAME[attrs.get("dtype", "int32")]


def _to_integer(mode: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        to = BY_NAME[attrs.get("dtype", "int32")]
        return s.emit("Cast", xs, {"dtype": to.name, "round": mode}, to)

    return expand


def _rounding_row(name: str, mode: str, fn: Callable[..., Any], **kw: Any) -> OpDef:
    attr = Attr("dtype", "dtype", "int32", doc="an integer type")

    def reference(xs: Sequence[np.ndarray], attrs: Mapping[str, Any]) -> np.ndarray:
        return np.asarray(fn(xs[0]))

    return elementwise(
        name,
        (1, 1),
        _to_integer_dtype,
        reference,
        attrs=(attr,),
        expand=_to_integer(mode),
        cost="cast",
        ulp=0.0,
        doc=f"Cast to an integer, {mode}; out-of-range values saturate, NaN gives 0",
        **kw,
    )


ROWS: tuple[OpDef, ...] = (
    _bit_row(
        "BitwiseAnd",
        2,
        np.bitwise_and,
        _bitwise(lambda a, b: a.call("BitAnd", b), "MaskAnd"),
        "bitwise and",
    ),
    _bit_row(
        "BitwiseOr",
        2,
        np.bitwise_or,
        _bitwise(lambda a, b: a.call("BitOr", b), "MaskOr"),
        "bitwise or",
    ),
    _bit_row(
        "BitwiseXor",
        2,
        np.bitwise_xor,
        _bitwise(_xor, "LogicalXor"),
        "bitwise exclusive or",
        aliases=("Xor",),
        source="(a | b) & ~(a & b)",
    ),
    _bit_row("BitwiseNot", 1, np.invert, _not, "bits flipped", aliases=("Invert",)),
    _shift_row(
        "LShift", _LEFT, "a << b; 0 if b is negative or at least the width", aliases=("ShiftLeft",)
    ),
    _shift_row(
        "RShift",
        _RIGHT,
        "a >> b, arithmetic for signed types; a negative b counts as the width",
        aliases=("ShiftRight",),
    ),
    _shift_row("BitShift", _LEFT, "a << b or a >> b", attrs=(_DIRECTION,)),
    _division(
        "FloorDiv",
        _floor_divide,
        _integer_part(True, 0),
        np.floor_divide,
        "a / b rounded down; integer division by 0 gives 0",
        floor=True,
        remainder=False,
        aliases=("FloorDivide",),
        special=True,
        each_step=True,
        exact_quotients=True,
    ),
    _division(
        "TruncDiv",
        _trunc_divide,
        _integer_part(False, 0),
        _trunc_reference,
        "a / b rounded towards zero; integer division by 0 gives 0",
        floor=False,
        remainder=False,
        aliases=("TruncateDiv",),
        special=True,
        each_step=True,
        exact_quotients=True,
    ),
    _division(
        "Remainder",
        _remainder,
        _integer_part(True, 1),
        _mod_reference,
        "a - floor(a/b)*b, sign of b; floats exact, NaN if |a/b| >= 2^46; integers with b = 0 give 0",
        floor=True,
        remainder=True,
        aliases=("FloorMod",),
        special=True,
        each_step=True,
        exact_quotients=True,
    ),
    _division(
        "Fmod",
        _fmod,
        _integer_part(False, 1),
        _fmod_reference,
        "a - trunc(a/b)*b, sign of a; floats exact, NaN if |a/b| >= 2^46; integers with b = 0 give 0",
        floor=False,
        remainder=True,
        aliases=("TruncateMod",),
        special=True,
        each_step=True,
        exact_quotients=True,
    ),
    _division(
        "Mod",
        _mod,
        _mod,
        with_attrs(_mod_reference, _FMOD),
        "Remainder, or Fmod with fmod=true",
        floor=True,
        remainder=True,
        attrs=(_FMOD,),
        each_step=True,
        exact_quotients=True,
    ),
    elementwise(
        "TrueDiv",
        (2, 2),
        _true_dtype,
        reference_of(np.true_divide),
        expand=_true_divide,
        cost="div",
        ulp=2.0,
        doc="a / b; integers give float32",
    ),
    composite(
        "Frac",
        lambda x: x - x.rint("TRUNC"),
        lambda x: x - np.trunc(x),
        ulp=0.5,
        doc="x - trunc(x)",
    ),
    _rounding_row("RoundToInt", "RINT", np.rint),
    _rounding_row("TruncToInt", "TRUNC", np.trunc),
    _rounding_row("FloorToInt", "FLOOR", np.floor),
    _rounding_row("CeilToInt", "CEIL", np.ceil, aliases=("Ceil2Int",)),
)
