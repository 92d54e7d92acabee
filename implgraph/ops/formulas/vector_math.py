"""Vector arithmetic for writing expansions as formulas.

A :class:`Vec` wraps a handle of the rewriter with arithmetic operators, so that an expansion reads like its formula.
Numbers combined with a vector become constants of its dtype.  Every operator is one call of the chip, or the calls that
its row expands to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attrs, OpSink

__all__ = ["Mask", "Vec", "formula", "horner", "monic", "two_product", "two_sum"]

_INT32, _UINT32, _SINGLE = BY_NAME["int32"], BY_NAME["uint32"], BY_NAME["float32"]
#: 2^12 + 1 splits 24 bits into two halves of 12.
_SPLIT = 4097.0


class Vec:
    """A tensor operand under construction."""

    __slots__ = ("handle", "sink")

    def __init__(self, sink: OpSink, handle: Any) -> None:
        self.sink = sink
        self.handle = handle

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.sink.dtype_of(self.handle)

    def like(self, value: Vec | float) -> Vec:
        """Return ``value`` as an operand of this dtype."""
        if isinstance(value, Vec):
            return value
        return Vec(self.sink, self.sink.constant(value, self.dtype))

    def call(self, op: str, *others: Vec | float, dtype: DType | None = None) -> Vec:
        """Apply one op to this vector and others."""
        operands = [self.handle, *(self.like(o).handle for o in others)]
        return Vec(self.sink, self.sink.emit(op, operands, None, dtype))

    def __add__(self, other: Vec | float) -> Vec:
        return self.call("Add", other)

    def __radd__(self, other: float) -> Vec:
        return self.call("Add", other)

    def __sub__(self, other: Vec | float) -> Vec:
        return self.call("Sub", other)

    def __rsub__(self, other: float) -> Vec:
        return self.like(other).call("Sub", self)

    def __mul__(self, other: Vec | float) -> Vec:
        return self.call("Mul", other)

    def __rmul__(self, other: float) -> Vec:
        return self.call("Mul", other)

    def __truediv__(self, other: Vec | float) -> Vec:
        return self.call("Div", other)

    def __rtruediv__(self, other: float) -> Vec:
        return self.like(other).call("Div", self)

    def __neg__(self) -> Vec:
        return self.call("Neg")

    def __abs__(self) -> Vec:
        return self.call("Abs")

    def __lt__(self, other: Vec | float) -> Mask:
        return self._test("Less", other)

    def __le__(self, other: Vec | float) -> Mask:
        return self._test("LessEqual", other)

    def __gt__(self, other: Vec | float) -> Mask:
        return self._test("Greater", other)

    def __ge__(self, other: Vec | float) -> Mask:
        return self._test("GreaterEqual", other)

    def equals(self, other: Vec | float) -> Mask:
        """Element-wise ==."""
        return self._test("Equal", other)

    def differs(self, other: Vec | float) -> Mask:
        """Element-wise !=; true for NaN."""
        return self._test("NotEqual", other)

    def _test(self, op: str, other: Vec | float) -> Mask:
        return Mask(self.sink, self.sink.emit(op, (self.handle, self.like(other).handle)))

    def maximum(self, other: Vec | float) -> Vec:
        """Return the larger; NaN propagates."""
        return self.call("Maximum", other)

    def minimum(self, other: Vec | float) -> Vec:
        """Return the smaller; NaN propagates."""
        return self.call("Minimum", other)

    def exp(self) -> Vec:
        """The chip's Exp."""
        return self.call("Exp")

    def ln(self) -> Vec:
        """The chip's Ln."""
        return self.call("Ln")

    def sqrt(self) -> Vec:
        """The chip's Sqrt."""
        return self.call("Sqrt")

    def cast(self, dtype: DType, round: str = "") -> Vec:
        """Convert, with a rounding mode for integer targets."""
        attrs = {"dtype": dtype.name} | ({"round": round} if round else {})
        return Vec(self.sink, self.sink.emit("Cast", (self.handle,), attrs, dtype))

    def rint(self, mode: str = "RINT") -> Vec:
        """Round a float to an integral float."""
        return self.cast(self.dtype, mode)

    # bits of float32 and int32 ----------------------------------------------------------------
    def shl(self, n: int, dtype: DType | None = None) -> Vec:
        """Shift bits left; the result is ``dtype`` (default int32)."""
        count = Vec(self.sink, self.sink.constant(n, _INT32))
        return self.call("Shl", count, dtype=dtype or _INT32)

    def sar(self, n: int) -> Vec:
        """Shift bits right as int32, with sign extension."""
        return self.call("Sar", Vec(self.sink, self.sink.constant(n, _INT32)), dtype=_INT32)

    def shr(self, n: int, dtype: DType | None = None) -> Vec:
        """Shift bits right, filling with zeros; the result is ``dtype`` (default int32)."""
        count = Vec(self.sink, self.sink.constant(n, _UINT32))
        return self.call("Shr", count, dtype=dtype or _INT32)

    def bits_plus(self, n: int, dtype: DType | None = None) -> Vec:
        """Add ``n`` to the bits as int32; the result is ``dtype`` (default int32)."""
        count = Vec(self.sink, self.sink.constant(n, _INT32))
        return self.call("IntAdds", count, dtype=dtype or _INT32)

    def bits_minus(self, other: Vec, dtype: DType | None = None) -> Vec:
        """Subtract other bits; the result is ``dtype`` (default int32)."""
        return self.call("IntSub", other, dtype=dtype or _INT32)

    def bits_or(self, other: Vec, dtype: DType | None = None) -> Vec:
        """Bitwise OR; the result is ``dtype`` (default: own dtype)."""
        return self.call("BitOr", other, dtype=dtype or self.dtype)

    def sign_bit(self) -> Vec:
        """Return only the sign bit of a float32, as int32."""
        return self.shr(31).shl(31)

    def unit(self) -> Vec:
        """Return 1.0 with the sign of a float32, including zeros and NaN."""
        return self.sign_bit().bits_plus(0x3F800000, _SINGLE)

    def with_sign_of(self, other: Vec) -> Vec:
        """Return this value, which must not be negative, with the sign bit of another."""
        return self.bits_or(other.sign_bit(), self.dtype)


class Mask:
    """A truth value per element."""

    __slots__ = ("handle", "sink")

    def __init__(self, sink: OpSink, handle: Any) -> None:
        self.sink = sink
        self.handle = handle

    def __and__(self, other: Mask) -> Mask:
        return Mask(self.sink, self.sink.emit("MaskAnd", (self.handle, other.handle)))

    def __or__(self, other: Mask) -> Mask:
        return Mask(self.sink, self.sink.emit("MaskOr", (self.handle, other.handle)))

    def __invert__(self) -> Mask:
        return Mask(self.sink, self.sink.emit("MaskNot", (self.handle,)))

    def __xor__(self, other: Mask) -> Mask:
        return (self | other) & ~(self & other)

    def choose(self, yes: Vec | float, no: Vec | float) -> Vec:
        """Return ``yes`` where it holds, else ``no``; two numbers are float32."""
        lead = next((v for v in (yes, no) if isinstance(v, Vec)), None)
        dtype = lead.dtype if lead else _SINGLE
        operands = [
            v.handle if isinstance(v, Vec) else self.sink.constant(v, dtype) for v in (yes, no)
        ]
        operands.insert(0, self.handle)
        return Vec(self.sink, self.sink.emit("Select", operands))


Formula = Callable[..., "Vec | Mask"]


def formula(fn: Formula, *dtypes: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """Return a function of vectors, and of the attributes as keywords, as an expansion.

    Args:
        fn: the formula.
        dtypes: names of the accepted dtypes; others are left to the row's calls and promotions.
    """

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        if dtypes and s.dtype_of(xs[-1]).name not in dtypes:
            return None
        done = fn(*(Vec(s, x) for x in xs), **attrs)
        return None if done is None else done.handle

    return expand


def horner(x: Vec, coefficients: Sequence[float]) -> Vec:
    """Evaluate a polynomial; the coefficient of the highest power comes last."""
    *rest, top = coefficients
    total = x * top
    for i, c in enumerate(reversed(rest)):
        total = total + c
        if i + 1 < len(rest):
            total = total * x
    return total


def monic(x: Vec, coefficients: Sequence[float]) -> Vec:
    """Evaluate a polynomial whose highest coefficient is 1; of the others, the highest comes last."""
    *rest, last = coefficients
    total = x + last
    for c in reversed(rest):
        total = total * x + c
    return total


def two_sum(a: Vec, b: Vec | float) -> tuple[Vec, Vec]:
    """Return a + b rounded, and its rounding error (Knuth)."""
    b = a.like(b)
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Vec, b: Vec) -> tuple[Vec, Vec]:
    """Return a * b rounded, and its rounding error (Dekker); factors at most 2^115, product at least 2^-102."""
    product = a * b
    a1, a0 = _halves(a)
    b1, b0 = (a1, a0) if b is a else _halves(b)
    lost = ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0
    return product, lost


def _halves(a: Vec) -> tuple[Vec, Vec]:
    c = a * _SPLIT
    high = c - (c - a)
    return high, a - high
