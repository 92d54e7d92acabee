"""64-bit integers in pairs of 32-bit words: arithmetic that wraps, order, selection.

``Low`` and ``High`` take a tensor apart and ``Join`` puts it together; legalisation drops a pair that meets itself, so
that a chain of such ops is taken apart once and joined once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autofuse.implgraph.dtypes import BY_NAME, DType
from autofuse.implgraph.ops import Attrs, Expansion, OpSink
from autofuse.implgraph.vector_math import Mask, Vec

__all__ = ["COMPARED", "or_long"]

INT32, UINT32 = BY_NAME["int32"], BY_NAME["uint32"]


class _Long:
    """Both words of an operand."""

    def __init__(self, s: OpSink, low: Vec, high: Vec, dtype: DType) -> None:
        self.sink, self.low, self.high, self.dtype = s, low, high, dtype

    def joined(self) -> Any:
        """The operand."""
        words = (self.low.handle, self.high.handle)
        return self.sink.emit("Join", words, {"dtype": self.dtype.name}, self.dtype)

    def choose(self, mask: Mask, other: _Long) -> _Long:
        """This one where ``mask`` holds, else the other."""
        low, high = mask.choose(self.low, other.low), mask.choose(self.high, other.high)
        return _Long(self.sink, low, high, self.dtype)


def _apart(s: OpSink, x: Any) -> _Long:
    low, high = Vec(s, s.emit("Low", (x,))), Vec(s, s.emit("High", (x,)))
    return _Long(s, low, high, s.dtype_of(x))


def _unsigned_less(a: Vec, b: Vec) -> Mask:
    """Words compared as uint32: less 2^31 they are ordered as int32."""
    return a.bits_plus(-(1 << 31)) < b.bits_plus(-(1 << 31))


def _less(a: _Long, b: _Long) -> Mask:
    upper = a.high < b.high if a.dtype.kind == "i" else _unsigned_less(a.high, b.high)
    return upper | (a.high.equals(b.high) & _unsigned_less(a.low, b.low))


def _equal(a: _Long, b: _Long) -> Mask:
    return a.low.equals(b.low) & a.high.equals(b.high)


def _add(a: _Long, b: _Long) -> _Long:
    low, high = a.low + b.low, a.high + b.high
    carry = _unsigned_less(low, a.low)
    return _Long(a.sink, low, carry.choose(high + 1, high), a.dtype)


def _sub(a: _Long, b: _Long) -> _Long:
    borrow = _unsigned_less(a.low, b.low)
    high = a.high - b.high
    return _Long(a.sink, a.low - b.low, borrow.choose(high - 1, high), a.dtype)


def _neg(a: _Long) -> _Long:
    low, high = -a.low, -a.high
    return _Long(a.sink, low, a.low.equals(0).choose(high, high - 1), a.dtype)


def _mul(a: _Long, b: _Long) -> _Long:
    """Long multiplication in 16-bit digits; what is above 64 bits is dropped."""
    a0, a1 = a.low.shl(16).shr(16), a.low.shr(16)
    b0, b1 = b.low.shl(16).shr(16), b.low.shr(16)
    middle = a1 * b0 + (a0 * b0).shr(16)
    other = a0 * b1 + middle.shl(16).shr(16)
    high = a1 * b1 + middle.shr(16) + other.shr(16)
    high = high + a.low * b.high + a.high * b.low
    return _Long(a.sink, a.low * b.low, high, a.dtype)


def _abs(a: _Long) -> _Long:
    if a.dtype.kind == "u":
        return a
    return _neg(a).choose(a.high < 0, a)


def _sign(a: _Long) -> _Long:
    zero = a.low.equals(0) & a.high.equals(0)
    low = zero.choose(a.low.like(0), a.low.like(1))
    high = a.low.like(0)
    if a.dtype.kind == "i":
        negative = a.high < 0
        low, high = negative.choose(-1, low), a.high.sar(31)
    return _Long(a.sink, low, high, a.dtype)


#: Comparisons: whether the operands change places, and whether the result is negated.
COMPARED: Mapping[str, tuple[bool, bool]] = {
    "Less": (False, False),
    "Greater": (True, False),
    "LessEqual": (True, True),
    "GreaterEqual": (False, True),
}


def _form(op: str, s: OpSink, xs: Sequence[Any]) -> Any:
    if op == "Select":
        mask = Mask(s, xs[0])
        return _apart(s, xs[1]).choose(mask, _apart(s, xs[2])).joined()
    parts = [_apart(s, x) for x in xs]
    if op in COMPARED:
        swapped, negated = COMPARED[op]
        mask = _less(*(reversed(parts) if swapped else parts))
        return (~mask if negated else mask).handle
    if op in ("Equal", "NotEqual"):
        mask = _equal(*parts)
        return (~mask if op == "NotEqual" else mask).handle
    if op in ("Maximum", "Minimum"):
        a, b = parts
        return (a.choose(_less(b, a), b) if op == "Maximum" else a.choose(_less(a, b), b)).joined()
    return _FORMS[op](*parts).joined()


_FORMS: Mapping[str, Callable[..., _Long]] = {
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Neg": _neg,
    "Abs": _abs,
    "Sign": _sign,
    "Square": lambda a: _mul(a, a),
}


def or_long(op: str, expand: Expansion | None) -> Expansion:
    """An expansion with the form of ``op`` on 64-bit integers before it."""

    def either(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        d = s.dtype_of(xs[-1])
        if d.bits == 64:
            return _form(op, s, xs)
        return expand(s, xs, attrs) if expand is not None else None

    return either
