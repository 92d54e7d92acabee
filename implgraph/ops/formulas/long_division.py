"""64-bit integers in pairs of 32-bit words: shifts by run-time counts, quotients, powers.

A signed number over a known one of up to 2^30 is the sum of three estimates in float32, rounded to nearest; the
remainder of the second fits a word.

Any other quotient is the sum of four.  Such an estimate never exceeds the quotient of the remaining dividend and is at
most 2^-19 of it too small.  So the remaining dividend is below 2^64, 2^46, 2^27, 2^8 and finally twice the divisor, and
one comparison finishes it.
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

_SINGLE, _INT32, _UINT32, _INT64, _UINT64 = (
    BY_NAME[n] for n in ("float32", "int32", "uint32", "int64", "uint64")
)
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


def _unsigned(a: Long, b: Long, known: int = 0) -> tuple[Long, Long]:
    """Return (quotient, remainder) of unsigned numbers; both 0 where b is 0.

    With the number that b is, if not 0, an estimate multiplies by its inverse, which is as accurate as a division.
    """
    none = b.is_zero()
    divisor = none.choose(1.0, _float(b))
    q, r = a.like(0), a
    for step, bits in enumerate((64, 46, 27, 8)):
        share = _float(r) * (_BELOW / known) if known else (_float(r) / divisor) * _BELOW
        # The remaining dividend is below 2^bits, which bounds the quotient by the divisor's bits less one.
        part = _words(share.rint("TRUNC"), max(bits + 1 - max(known.bit_length(), 1), 1), a)
        q = part if step == 0 else add(q, part)
        r = sub(r, mul(part, b))
    more = ~less(r, b) if known else ~less(r, b) & ~none
    one, zero = a.like(1), a.like(0)
    q, r = add(q, one).choose(more, q), sub(r, b).choose(more, r)
    return (q, r) if known else (zero.choose(none, q), zero.choose(none, r))


def _by_number(a: Long, size: int, negative: bool, floor: bool) -> tuple[Long, Long]:
    """Return (quotient, remainder) of a signed number by a known one, from its size: 1 < size <= 2^30.

    An estimate of x / size rounds x, 1 / size and their product to float32, and the result to an integer.  So with
    e = 2^-22.4 it leaves a remainder of at most e abs(x) + size / 2: first 2^40.6, then 2^18.2 and at last less than 1,
    each plus size / 2.  The second remainder fits a word, the third is below ``size``.
    """
    s, inverse = a.sink, 1.0 / size

    def estimate(x: Long) -> Long:
        whole = (Vec(s, x.joined()).cast(_SINGLE) * inverse).cast(_INT64, "RINT")
        return apart(s, whole.handle)

    first = estimate(a)
    rest = sub(a, mul(first, a.like(size)))
    second = estimate(rest)
    word = rest.low - second.low * size
    third = (word.cast(_SINGLE) * inverse).cast(_INT32, "RINT")
    r = word - third * size
    # The remainder has the sign of the divisor, or of the dividend.
    below, above = r < 0, r > 0
    if not floor:
        below, above = below & ~(a.high < 0), above & (a.high < 0)
    if not (floor and negative):
        third, r = below.choose(third - 1, third), below.choose(r + size, r)
    if not floor or negative:
        third, r = above.choose(third + 1, third), above.choose(r - size, r)
    q = add(first, add(second, _extended(third, a)))
    return neg(q) if negative else q, _extended(r, a)


def _extended(word: Vec, like: Long) -> Long:
    """Return a signed word as a longer number."""
    return Long(like.sink, word, word.sar(31), like.dtype)


def _divided_by(a: Long, b: int, floor: bool) -> tuple[Long, Long]:
    """Return (quotient, remainder) by a known number; both 0 if it is 0."""
    size, shift = abs(b), abs(b).bit_length() - 1
    if b == 0:
        return a.like(0), a.like(0)
    if a.dtype.kind == "u" and size == 1 << shift:
        q = shr(a, shift)
        return q, sub(a, shl(q, shift))
    if size == 1 << shift:
        up = a if floor else add(a, a.like(size - 1)).choose(a.high < 0, a)
        q = sar(up, shift)
        r = sub(a, shl(q, shift))
        if floor and b < 0:  # the quotient by -b is rounded up
            whole = r.is_zero()
            q, r = q.choose(whole, add(q, a.like(1))), r.choose(whole, add(r, a.like(b)))
        return neg(q) if b < 0 else q, r
    if a.dtype.kind == "i" and 1 < size <= 1 << 30:
        return _by_number(a, size, b < 0, floor)
    return _divided(a, a.like(b), floor, size)


def _divided(a: Long, b: Long, floor: bool, size: int = 0) -> tuple[Long, Long]:
    """Return (quotient, remainder); both 0 where the divisor, whose size may be known, is 0."""
    if a.dtype.kind == "u":
        return _unsigned(a, b, size)
    below, behind = a.high < 0, b.high < 0
    divisor = a.as_type(_UINT64).like(size) if size else _size(b, behind)
    q, r = _unsigned(_size(a, below), divisor, size)
    opposite = below ^ behind
    q, r = neg(q).choose(opposite, q), neg(r).choose(below, r)
    if floor:
        step = opposite & ~r.is_zero()
        q, r = sub(q, q.like(1)).choose(step, q), add(r, b).choose(step, r)
    return q, r


def divided(s: OpSink, xs: Sequence[Any], floor: bool, remainder: bool) -> Any:
    """Return quotient or remainder of two 64-bit operands, rounded down or toward zero; 0 where the divisor is 0."""
    a, known = apart(s, xs[0]), s.constant_of(xs[1])
    parts = (
        _divided(a, apart(s, xs[1]), floor) if known is None else _divided_by(a, int(known), floor)
    )
    return parts[remainder].as_type(a.dtype).joined()


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
