"""64-bit integers in pairs of 32-bit words: wrapping arithmetic, comparison, selection, shifts by constants.

``Low`` and ``High`` split a tensor into words and ``Join`` recombines them; legalisation cancels adjacent pairs, so a
chain of such ops is split once and joined once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attrs, Expansion, OpSink
from autofuse.implgraph.ops.formulas.vector_math import Mask, Vec

__all__ = [
    "COMPARED",
    "Long",
    "add",
    "apart",
    "equal",
    "less",
    "mul",
    "neg",
    "or_long",
    "sar",
    "shl",
    "shr",
    "sub",
    "unsigned_less",
]

INT32, UINT32 = BY_NAME["int32"], BY_NAME["uint32"]


class Long:
    """The two words of an operand."""

    def __init__(self, s: OpSink, low: Vec, high: Vec, dtype: DType) -> None:
        self.sink, self.low, self.high, self.dtype = s, low, high, dtype

    def joined(self) -> Any:
        """Return the operand, joined from its words."""
        words = (self.low.handle, self.high.handle)
        return self.sink.emit("Join", words, {"dtype": self.dtype.name}, self.dtype)

    def choose(self, mask: Mask, other: Long) -> Long:
        """Return this number where ``mask`` holds, else the other."""
        low, high = mask.choose(self.low, other.low), mask.choose(self.high, other.high)
        return Long(self.sink, low, high, self.dtype)

    def like(self, value: int) -> Long:
        """Return a constant of the same dtype."""
        return apart(self.sink, self.sink.constant(value, self.dtype))

    def as_type(self, dtype: DType) -> Long:
        """Return the same bits as another dtype."""
        return Long(self.sink, self.low, self.high, dtype)

    def is_zero(self) -> Mask:
        """Return the mask of elements that are 0."""
        return self.low.equals(0) & self.high.equals(0)


def apart(s: OpSink, x: Any) -> Long:
    """Return the words of an operand."""
    low, high = Vec(s, s.emit("Low", (x,))), Vec(s, s.emit("High", (x,)))
    return Long(s, low, high, s.dtype_of(x))


def unsigned_less(a: Vec, b: Vec) -> Mask:
    """Compare words as uint32: after subtracting 2^31 they are ordered as int32."""
    return a.bits_plus(-(1 << 31)) < b.bits_plus(-(1 << 31))


def less(a: Long, b: Long) -> Mask:
    """Return the mask of elements with a < b."""
    upper = a.high < b.high if a.dtype.kind == "i" else unsigned_less(a.high, b.high)
    return upper | (a.high.equals(b.high) & unsigned_less(a.low, b.low))


def equal(a: Long, b: Long) -> Mask:
    """Return the mask of elements with a == b."""
    return a.low.equals(b.low) & a.high.equals(b.high)


def add(a: Long, b: Long) -> Long:
    """Return the sum a + b, modulo 2^64."""
    low, high = a.low + b.low, a.high + b.high
    carry = unsigned_less(low, a.low)
    return Long(a.sink, low, carry.choose(high + 1, high), a.dtype)


def sub(a: Long, b: Long) -> Long:
    """Return the difference a - b, modulo 2^64."""
    borrow = unsigned_less(a.low, b.low)
    high = a.high - b.high
    return Long(a.sink, a.low - b.low, borrow.choose(high - 1, high), a.dtype)


def neg(a: Long) -> Long:
    """Return -a, modulo 2^64."""
    low, high = -a.low, -a.high
    return Long(a.sink, low, a.low.equals(0).choose(high, high - 1), a.dtype)


def mul(a: Long, b: Long) -> Long:
    """Return a * b, modulo 2^64, by long multiplication in 16-bit digits."""
    (a0, a1), (b0, b1) = _digits(a.low), _digits(b.low)
    middle = a1 * b0 + (a0 * b0).shr(16)
    high = middle.shr(16)
    if a.sink.constant_of(b1.handle) != 0:
        other = a0 * b1 + middle.shl(16).shr(16)
        high = a1 * b1 + high + other.shr(16)
    for x, y in ((a.low, b.high), (b.low, a.high)):
        if a.sink.constant_of(y.handle) != 0:
            high = high + x * y
    return Long(a.sink, a.low * b.low, high, a.dtype)


def _digits(word: Vec) -> tuple[Vec, Vec]:
    """Return the lower and the upper 16 bits of a word."""
    known = word.sink.constant_of(word.handle)
    if known is None:
        return word.shl(16).shr(16), word.shr(16)
    return word.like(int(known) & 0xFFFF), word.like(int(known) >> 16 & 0xFFFF)


def shl(a: Long, n: int) -> Long:
    """Return the bits shifted left by 0 <= n < 64."""
    if n >= 32:
        return Long(a.sink, a.low.like(0), a.low.shl(n - 32) if n > 32 else a.low, a.dtype)
    if n == 0:
        return a
    return Long(a.sink, a.low.shl(n), a.high.shl(n).bits_or(a.low.shr(32 - n)), a.dtype)


def shr(a: Long, n: int) -> Long:
    """Return the bits shifted right by 0 <= n < 64, filled with zeros."""
    if n >= 32:
        return Long(a.sink, a.high.shr(n - 32) if n > 32 else a.high, a.low.like(0), a.dtype)
    if n == 0:
        return a
    return Long(a.sink, a.low.shr(n).bits_or(a.high.shl(32 - n)), a.high.shr(n), a.dtype)


def sar(a: Long, n: int) -> Long:
    """Return the bits shifted right by 0 <= n < 64, filled with the sign."""
    if n >= 32:
        return Long(a.sink, a.high.sar(n - 32) if n > 32 else a.high, a.high.sar(31), a.dtype)
    if n == 0:
        return a
    return Long(a.sink, a.low.shr(n).bits_or(a.high.shl(32 - n)), a.high.sar(n), a.dtype)


def _abs(a: Long) -> Long:
    if a.dtype.kind == "u":
        return a
    return neg(a).choose(a.high < 0, a)


def _sign(a: Long) -> Long:
    zero = a.is_zero()
    low = zero.choose(a.low.like(0), a.low.like(1))
    high = a.low.like(0)
    if a.dtype.kind == "i":
        negative = a.high < 0
        low, high = negative.choose(-1, low), a.high.sar(31)
    return Long(a.sink, low, high, a.dtype)


#: Comparisons by ``less``: (swap the operands, negate the result).
COMPARED: Mapping[str, tuple[bool, bool]] = {
    "Less": (False, False),
    "Greater": (True, False),
    "LessEqual": (True, True),
    "GreaterEqual": (False, True),
}


def _relu(a: Long) -> Long:
    return a.like(0).choose(a.high < 0, a) if a.dtype.kind == "i" else a


def _form(op: str, s: OpSink, xs: Sequence[Any]) -> Any:
    if op == "Select":
        mask = Mask(s, xs[0])
        return apart(s, xs[1]).choose(mask, apart(s, xs[2])).joined()
    parts = [apart(s, x) for x in xs]
    if op in COMPARED:
        swapped, negated = COMPARED[op]
        mask = less(*(reversed(parts) if swapped else parts))
        return (~mask if negated else mask).handle
    if op in ("Equal", "NotEqual"):
        mask = equal(*parts)
        return (~mask if op == "NotEqual" else mask).handle
    if op in ("Maximum", "Minimum"):
        a, b = parts
        return (a.choose(less(b, a), b) if op == "Maximum" else a.choose(less(a, b), b)).joined()
    return _FORMS[op](*parts).joined()


_FORMS: Mapping[str, Callable[..., Long]] = {
    "Add": add,
    "Sub": sub,
    "Mul": mul,
    "Neg": neg,
    "Abs": _abs,
    "Sign": _sign,
    "Relu": _relu,
    "Square": lambda a: mul(a, a),
}


def or_long(op: str, expand: Expansion | None) -> Expansion:
    """Return an expansion that first tries the 64-bit integer form of ``op``."""

    def either(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        d = s.dtype_of(xs[-1])
        if d.bits == 64:
            return _form(op, s, xs)
        return expand(s, xs, attrs) if expand is not None else None

    return either
