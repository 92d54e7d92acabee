"""64-bit integers in pairs of 32-bit words: shifts by run-time counts, quotients, powers.

A quotient is the sum of four estimates in float32.  An estimate never exceeds the quotient of the remaining dividend
and is at most 2^-19 of it too small.  So the remaining dividend is below 2^64, 2^46, 2^27, 2^8 and finally twice the
divisor, and one comparison finishes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ops.definition import OpSink
from autofuse.implgraph.ops.formulas.long_integers import (
    Long,
    add,
    apart,
    equal,
    less,
    mul,
    neg,
    sar,
    shl,
    shr,
    sub,
)
from autofuse.implgraph.ops.formulas.vector_math import Mask, Vec

__all__ = ["divided", "power", "shifted"]

_SINGLE, _INT32, _UINT32, _UINT64 = (BY_NAME[n] for n in ("float32", "int32", "uint32", "uint64"))
_WORD = 2.0**32
#: Operands and result of a division each have a relative error of 2^-23: this factor keeps every estimate below.
_BELOW = 1.0 - 2.0**-20


def shifted(s: OpSink, xs: Sequence[Any], left: bool) -> Any:
    """Return ``xs[0]`` shifted by ``xs[1]``, both of one 64-bit dtype.

    A count of at least 64 or a negative count gives 0, or -1 for a right shift of a negative number.
    """
    x, count = apart(s, xs[0]), s.constant_of(xs[1])
    by = shl if left else sar if x.dtype.kind == "i" else shr
    if count is not None:
        known = int(count)
        return (by(x, known) if 0 <= known < 64 else _beyond(x, left)).joined()
    n = apart(s, xs[1])
    all_bits = ~(n.high.equals(0) & n.low.shr(6).equals(0))
    out = x
    for k in range(6):
        bit = n.low.shl(31 - k).shr(31).differs(0)
        out = by(out, 1 << k).choose(bit, out)
    return _beyond(x, left).choose(all_bits, out).joined()


def _beyond(x: Long, left: bool) -> Long:
    """Return what remains once every bit is shifted out: 0, or copies of the sign."""
    word = x.low.like(0) if left or x.dtype.kind == "u" else x.high.sar(31)
    return Long(x.sink, word, word, x.dtype)


# quotients ------------------------------------------------------------------------------------
def _word_float(word: Vec) -> Vec:
    """Return a word, as uint32, in float32."""
    return word.call("Reinterpret", dtype=_UINT32).cast(_SINGLE)


def _float(x: Long) -> Vec:
    return _word_float(x.high) * _WORD + _word_float(x.low)


def _float_word(x: Vec) -> Vec:
    """Return an integral float32 from 0 to 2^32 as the bits of a uint32."""
    return x.cast(_UINT32).call("Reinterpret", dtype=_INT32)


def _words(x: Vec, bits: int, like: Long) -> Long:
    """Return an integral float32 below 2^bits as words."""
    if bits < 32:
        low = x.cast(_INT32)
        return Long(like.sink, low, low.like(0), like.dtype)
    high = (x * (1.0 / _WORD)).rint("TRUNC")
    low = x - high * _WORD
    upper = _float_word(high) if bits > 62 else high.cast(_INT32)
    return Long(like.sink, _float_word(low), upper, like.dtype)


def _unsigned(a: Long, b: Long) -> tuple[Long, Long]:
    """Return (quotient, remainder) of unsigned numbers; both 0 where b is 0."""
    none = b.is_zero()
    divisor = none.choose(1.0, _float(b))
    q, r = a.like(0), a
    for step, bits in enumerate((64, 46, 27, 8)):
        estimate = ((_float(r) / divisor) * _BELOW).rint("TRUNC")
        part = _words(estimate, bits, a)
        q = part if step == 0 else add(q, part)
        r = sub(r, mul(b, part))
    more = ~less(r, b) & ~none
    one = a.like(1)
    q, r = add(q, one).choose(more, q), sub(r, b).choose(more, r)
    zero = a.like(0)
    return zero.choose(none, q), zero.choose(none, r)


def _unsigned_by(a: Long, b: int) -> tuple[Long, Long]:
    """Return (quotient, remainder) of an unsigned number by a known nonzero one.

    An estimate multiplies by the float32 nearest to 1/b, which is as accurate as a division.
    """
    if b & (b - 1) == 0:
        q = shr(a, b.bit_length() - 1)
        return q, sub(a, shl(q, b.bit_length() - 1))
    divisor = a.like(b)
    q, r = a.like(0), a
    for step, bits in enumerate((64, 46, 27, 8)):
        # The remaining dividend is below 2^bits, which bounds the quotient by the divisor's bits less one.
        estimate = (_float(r) * (_BELOW / b)).rint("TRUNC")
        part = _words(estimate, max(bits - b.bit_length() + 1, 1), a)
        q = part if step == 0 else add(q, part)
        r = sub(r, mul(part, divisor))
    more = ~less(r, divisor)
    return add(q, a.like(1)).choose(more, q), sub(r, divisor).choose(more, r)


def _divided_by(a: Long, b: int, floor: bool) -> tuple[Long, Long]:
    """Return (quotient, remainder) by a known number; both 0 if it is 0."""
    if b == 0:
        return a.like(0), a.like(0)
    if a.dtype.kind == "u":
        return _unsigned_by(a, b)
    shift = b.bit_length() - 1
    if floor and b == 1 << shift:
        q = sar(a, shift)
        return q, sub(a, shl(q, shift))
    below = a.high < 0
    opposite = below if b > 0 else ~below
    q, r = _unsigned_by(_size(a, below), abs(b))
    q, r = neg(q).choose(opposite, q), neg(r).choose(below, r)
    if floor:
        step, divisor = opposite & ~r.is_zero(), a.like(b)
        q, r = sub(q, q.like(1)).choose(step, q), add(r, divisor).choose(step, r)
    return q, r


def divided(s: OpSink, xs: Sequence[Any], floor: bool, remainder: bool) -> Any:
    """Return quotient or remainder of two 64-bit operands, rounded down or toward zero; 0 where the divisor is 0."""
    a, known = apart(s, xs[0]), s.constant_of(xs[1])
    if known is not None:
        q, r = _divided_by(a, int(known), floor)
        return (r if remainder else q).as_type(a.dtype).joined()
    b = apart(s, xs[1])
    if a.dtype.kind == "u":
        q, r = _unsigned(a, b)
        return (r if remainder else q).joined()
    below, behind = a.high < 0, b.high < 0
    q, r = _unsigned(_size(a, below), _size(b, behind))
    opposite = below ^ behind
    q, r = neg(q).choose(opposite, q), neg(r).choose(below, r)
    if floor:
        step = opposite & ~r.is_zero()
        q, r = sub(q, q.like(1)).choose(step, q), add(r, b).choose(step, r)
    return (r if remainder else q).as_type(a.dtype).joined()


def _size(x: Long, negative: Mask) -> Long:
    """Return the absolute value as uint64, which also holds that of the smallest integer."""
    return neg(x).choose(negative, x).as_type(_UINT64)


# powers ---------------------------------------------------------------------------------------
#: Exponent bits handled by squaring; higher bits use three terms of a binomial series.
_SQUARED = 14
#: The inverse of 3 modulo 2^32, as int32.
_THIRD = 0xAAAAAAAB - (1 << 32)


def power(s: OpSink, xs: Sequence[Any]) -> Any:
    """Return ``xs[0]`` to the power ``xs[1]``, both of one 64-bit dtype, modulo 2^64.

    A negative exponent gives the integer part: a sign for 1 and -1, otherwise 0.
    """
    base, exponent = apart(s, xs[0]), s.constant_of(xs[1])
    if exponent is None:
        n = apart(s, xs[1])
        out = _power_of(base, n)
        if n.dtype.kind == "u":
            return out.joined()
        return _quotient_of_one(base, _bit(n, 0)).choose(n.high < 0, out).joined()
    if exponent < 0:
        return _quotient_of_one(base, int(exponent) % 2 != 0).joined()
    return _constant_power(base, int(exponent)).joined()


def _bit(x: Long, k: int) -> Mask:
    """Return bit k < 32 of a number."""
    return x.low.shl(31 - k).shr(31).differs(0)


def _quotient_of_one(base: Long, odd: Mask | bool) -> Long:
    """Return the integer part of 1 / base^n, for n odd or even."""
    one = base.like(1)
    minus = one if odd is False else base.like(-1)
    sign = minus if isinstance(odd, bool) else minus.choose(odd, one)
    out = one.choose(equal(base, one), base.like(0))
    return sign.choose(equal(base, base.like(-1)), out)


def _constant_power(base: Long, n: int) -> Long:
    out, square = base.like(1), base
    first = True
    while n:
        if n % 2:
            out, first = (square if first else mul(out, square)), False
        n //= 2
        square = mul(square, square) if n else square
    return out


def _power_of(base: Long, n: Long) -> Long:
    """Return a power with a run-time, unsigned exponent.

    With n = m + 2^14 e, an odd base has base^(2^14) = 1 + 2^16 k, whose e-th power ends after these terms: 1 + e 2^16 k
    + e(e-1)/2 2^32 k^2 + e(e-1)(e-2)/6 2^48 k^3.  A power of an even base is 0 if e is not.
    """
    # From the highest bit down, so that every step needs only base.
    out = base.choose(_bit(n, _SQUARED - 1), base.like(1))
    for i in reversed(range(_SQUARED - 1)):
        out = mul(out, out)
        out = mul(out, base).choose(_bit(n, i), out)
    square = base
    for _ in range(_SQUARED):
        square = mul(square, square)
    e, k = shr(n, _SQUARED), shr(square, 16)
    less = sub(e, e.like(1))
    pairs = _bit(e, 0).choose(e.low * shr(less, 1).low, shr(e, 1).low * less.low)
    triples = (e.low * less.low * (e.low - 2)).shr(1) * _THIRD
    linear = shl(mul(k, e), 16)
    more = k.low * k.low * (pairs + (k.low * triples).shl(16))
    series = Long(base.sink, linear.low.bits_plus(1), linear.high + more, base.dtype)
    even = base.like(0).choose(~e.is_zero(), out)
    return mul(out, series).choose(_bit(base, 0), even)
