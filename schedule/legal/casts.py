"""Casts in terms of the chip's calls: routes through other dtypes, wrap-around, and missing unsigned types.

Integers are converted as NumPy does, modulo the width of the target.  The chip's own Cast between integers saturates,
so excess bits are shifted out first; unsigned types use the signed types of equal width.  Float to integer follows the
chip: out-of-range values saturate and NaN becomes zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.cast_routes import cast_route
from autofuse.implgraph.ops.definition import Attrs
from autofuse.implgraph.ops.registry import find_call
from autofuse.targets import Architecture

__all__ = ["CastSink", "cast_mode", "convert", "exact_mode", "to_whole"]

HALF, SINGLE, INT16, INT32, INT64, UINT16, UINT32 = (
    BY_NAME[n] for n in ("float16", "float32", "int16", "int32", "int64", "uint16", "uint32")
)
#: Types that no call of the chip converts -> signed types with the same bits.
_TWIN = {"uint16": INT16, "uint32": INT32, "uint64": INT64}


class CastSink(Protocol):
    """The rewriter interface for building conversions."""

    @property
    def arch(self) -> Architecture:
        """Architecture of the target."""

    def emit(
        self, op: str, inputs: Sequence[Any], attrs: Attrs | None = None, dtype: DType | None = None
    ) -> str:
        """Like ``OpSink.emit``."""

    def constant(self, value: float | int, dtype: DType) -> str:
        """Like ``OpSink.constant``."""

    def dtype_of(self, operand: Any) -> DType:
        """Like ``OpSink.dtype_of``."""

    def cast_node(self, x: str, to: DType, mode: str) -> str:
        """Add one Cast call."""


def convert(s: CastSink, x: str, to: DType, mode: str) -> str | None:
    """Convert ``x`` to ``to``, neither of them bool nor a mask; return None if the chip cannot.

    Args:
        s: builds the nodes.
        x: name of a tensor.
        to: the target dtype.
        mode: rounding mode from a float to an integer; empty for the default.
    """
    have = s.dtype_of(x)
    if have == to:
        return x
    if have.kind in "iub" and to.kind in "iu":
        return _between_integers(s, x, have, to)
    if to.name in _TWIN:
        return _to_unsigned(s, x, to, mode)
    if have.name in ("uint16", "uint32"):
        return _from_unsigned(s, x, have, to)
    if have.name == "uint64":
        return _from_long(s, x, to)
    return _by_route(s, x, have, to, mode)


def _by_route(s: CastSink, x: str, have: DType, to: DType, mode: str) -> str | None:
    route = cast_route(s.arch, have.name, to.name)
    if route is None:
        # This architecture converts 16-bit integers only to float16.
        halves = have is INT16 and (have.name, "float16") in s.arch.casts
        return _by_route(s, _from_short(s, x), SINGLE, to, mode) if halves else None
    down = have.kind == "f" and to.kind in "iu"
    if down and len(route) > 1 and mode in ("RINT", "ROUND"):
        # Avoid rounding twice: round to an integer first, then convert exactly.
        single = _by_route(s, x, have, SINGLE, "") if have is not SINGLE else x
        if single is None:
            return None
        return convert(s, s.cast_node(single, SINGLE, mode), to, "")
    for step in route:
        x = s.cast_node(x, BY_NAME[step], _step_mode(s, s.dtype_of(x), BY_NAME[step], to, mode))
    return x


def _step_mode(s: CastSink, have: DType, step: DType, to: DType, mode: str) -> str:
    """Return the rounding mode of one step of a conversion that ends in ``to``."""
    if have.kind != "f" or to.kind not in "iu":
        return mode if have.kind == "f" else ""
    if step is SINGLE:
        return ""  # exact step
    if step is not HALF:
        return mode
    # A narrower intermediate float must not round up to the next integer.  Rounding to odd never creates a new integer
    # or midpoint: for byte values, float16 has at least three fraction bits.
    mode = mode or "TRUNC"
    return mode if cast_mode(s.arch, have, HALF, mode) else "ODD"


# integers -------------------------------------------------------------------------------------
def _between_integers(s: CastSink, x: str, have: DType, to: DType) -> str | None:
    if have.bits == to.bits:
        return s.emit("Reinterpret", (x,), dtype=to)
    if to.bits > have.bits:
        return _wider(s, x, have, to)
    if have.bits == 64:
        return convert(s, s.emit("Low", (x,)), to, "")
    if not _has_shifts(s):
        return _low_bits(s, x, have, to)
    if to.bits == 16:
        return _low_half(s, x, to)
    if have.bits == 32:
        x = _low_half(s, x, INT16)
    shift = s.constant(8, INT16)
    if to.kind == "i":
        byte = s.emit("Sar", (s.emit("Shl", (x, shift), dtype=INT16), shift), dtype=INT16)
    else:
        high = s.emit("Shl", (x, shift), dtype=INT16)
        byte = s.emit("Shr", (high, s.constant(8, UINT16)), dtype=INT16)
    return s.cast_node(s.cast_node(byte, HALF, ""), to, "")


def _has_shifts(s: CastSink) -> bool:
    return find_call("Shl", s.arch) is not None


def _low_bits(s: CastSink, x: str, have: DType, to: DType) -> str | None:
    """Return the low 8 or 16 bits by masking, without shifts; signed numbers are offset by half the range."""
    word = INT16 if have.bits == 16 else INT32
    # Unsigned 16-bit numbers share their bits with signed ones.
    signed = to.kind == "i" or to.bits == 16
    middle = 1 << (to.bits - 1) if signed else 0
    x = _signed(s, x, have)
    if middle:
        x = s.emit("IntAdds", (x, s.constant(middle, word)), dtype=word)
    x = s.emit("BitAnd", (x, s.constant((1 << to.bits) - 1, word)), dtype=word)
    if middle:
        x = s.emit("IntAdds", (x, s.constant(-middle, word)), dtype=word)
    narrow = _by_route(s, x, word, INT16 if to.bits == 16 else to, "")
    return s.emit("Reinterpret", (narrow,), dtype=to) if narrow and to is UINT16 else narrow


def _from_short(s: CastSink, x: str) -> str:
    """Convert int16 to float32: its bytes are exact in float16, and their sum is exact in float32."""
    parts = (s.emit("BitAnd", (x, s.constant(m, INT16)), dtype=INT16) for m in (-256, 255))
    return s.emit("Add", [s.cast_node(s.cast_node(p, HALF, ""), SINGLE, "") for p in parts])


def _low_half(s: CastSink, x: str, to: DType) -> str:
    """Return the low 16 of 32 bits, sign-extended first, so that the chip's saturating cast is exact."""
    if not _has_shifts(s):
        low = _low_bits(s, x, INT32, to)
        assert low is not None, "an architecture without shifts casts int32 to int16"
        return low
    shift = s.constant(16, INT32)
    low = s.emit("Sar", (s.emit("Shl", (x, shift), dtype=INT32), shift), dtype=INT32)
    narrow = s.cast_node(low, INT16, "")
    return narrow if to is INT16 else s.emit("Reinterpret", (narrow,), dtype=to)


def _wider(s: CastSink, x: str, have: DType, to: DType) -> str | None:
    if have.bits == 8:
        if to.bits == 16:
            small = _by_route(s, x, have, INT16, "")
            if small is None:
                return None
            return small if to is INT16 else s.emit("Reinterpret", (small,), dtype=to)
        word = _by_route(s, x, have, INT32, "")
    elif have.bits == 16:
        word = _by_route(s, _signed(s, x, have), INT16, INT32, "")
        if word is not None and have.kind == "u" and not _has_shifts(s):
            word = s.emit("BitAnd", (word, s.constant(65535, INT32)), dtype=INT32)
        elif word is not None and have.kind == "u":
            high = s.emit("Shl", (word, s.constant(16, INT32)), dtype=INT32)
            word = s.emit("Shr", (high, s.constant(16, UINT32)), dtype=INT32)
    else:
        word = _signed(s, x, have)
    if word is None:
        return None
    if to.bits == 32:
        return word if to is INT32 else s.emit("Reinterpret", (word,), dtype=to)
    if have is UINT32:
        return s.emit("Join", (word, s.constant(0, INT32)), {"dtype": to.name}, to)
    wide = _by_route(s, word, INT32, INT64, "")
    if wide is None:
        return None
    return wide if to is INT64 else s.emit("Reinterpret", (wide,), dtype=to)


def _signed(s: CastSink, x: str, have: DType) -> str:
    return s.emit("Reinterpret", (x,), dtype=_TWIN[have.name]) if have.name in _TWIN else x


# floats ---------------------------------------------------------------------------------------
def _to_unsigned(s: CastSink, x: str, to: DType, mode: str) -> str | None:
    """Convert a float to uint16, uint32 or uint64, saturating at both ends."""
    have = s.dtype_of(x)
    single = x if have is SINGLE else convert(s, x, SINGLE, "")
    if single is None:
        return None
    if mode not in ("", "TRUNC"):
        single = s.cast_node(single, SINGLE, mode)
    if to is UINT16:
        word = s.cast_node(single, INT32, "TRUNC")
        inside = s.emit(
            "Mins", (s.emit("Maxs", (word, s.constant(0, INT32))), s.constant(65535, INT32))
        )
        return _low_half(s, inside, UINT16)
    positive = s.emit("Maxs", (single, s.constant(0.0, SINGLE)))
    if to.name == "uint64":
        return _to_long(s, positive, to)
    # Upper half of the range: subtract 2^31, and set the top bit afterwards.
    above = s.emit("GreaterEqual", (positive, s.constant(2.0**31, SINGLE)))
    less = s.emit("Adds", (positive, s.constant(-(2.0**31), SINGLE)))
    small = s.emit("Select", (above, less, positive))
    word = s.cast_node(small, INT32, "TRUNC")
    top = s.emit("IntAdds", (word, s.constant(-(1 << 31), INT32)), dtype=INT32)
    return s.emit("Reinterpret", (s.emit("Select", (above, top, word)),), dtype=to)


def _to_long(s: CastSink, positive: str, to: DType) -> str:
    """Convert a nonnegative float32 to uint64, through int64; the upper half gets its top bit separately."""
    above = s.emit("GreaterEqual", (positive, s.constant(2.0**63, SINGLE)))
    less = s.emit("Adds", (positive, s.constant(-(2.0**63), SINGLE)))
    small = s.emit("Select", (above, less, positive))
    long = s.cast_node(small, INT64, "TRUNC")
    high = s.emit("High", (long,))
    top = s.emit("IntAdds", (high, s.constant(-(1 << 31), INT32)), dtype=INT32)
    words = (s.emit("Low", (long,)), s.emit("Select", (above, top, high)))
    return s.emit("Join", words, {"dtype": to.name}, to)


def _from_long(s: CastSink, x: str, to: DType) -> str | None:
    """Convert uint64 to a float: the upper half of the range is halved, with a sticky last bit."""

    def shift(op: str, word: str, n: int) -> str:
        return s.emit(op, (word, s.constant(n, INT32 if op == "Shl" else UINT32)), dtype=INT32)

    low, high = s.emit("Low", (x,)), s.emit("High", (x,))
    last = shift("Shr", shift("Shl", low, 31), 31)
    half = s.emit("BitOr", (shift("Shr", low, 1), shift("Shl", high, 31)), dtype=INT32)
    half = s.emit("BitOr", (half, last), dtype=INT32)
    above = s.emit("Less", (high, s.constant(0, INT32)))
    words = (
        s.emit("Select", (above, half, low)),
        s.emit("Select", (above, shift("Shr", high, 1), high)),
    )
    single = s.cast_node(s.emit("Join", words, {"dtype": "int64"}, INT64), SINGLE, "")
    double = s.emit("Muls", (single, s.constant(2.0, SINGLE)))
    total = s.emit("Select", (above, double, single))
    return total if to is SINGLE else convert(s, total, to, "")


def _from_unsigned(s: CastSink, x: str, have: DType, to: DType) -> str | None:
    """Convert uint16 or uint32 to a float: 16-bit halves are exact, and their sum rounds once."""
    if have is UINT16:
        word = convert(s, x, INT32, "")
        return None if word is None else convert(s, word, to, "")
    if not _has_shifts(s):
        total = _by_masks(s, s.emit("Reinterpret", (x,), dtype=INT32))
        return total if to is SINGLE else convert(s, total, to, "")
    sixteen = s.constant(16, UINT32)
    high = s.emit("Shr", (x, sixteen), dtype=INT32)
    low = s.emit(
        "Shr", (s.emit("Shl", (x, s.constant(16, INT32)), dtype=INT32), sixteen), dtype=INT32
    )
    upper = s.emit("Muls", (s.cast_node(high, SINGLE, ""), s.constant(65536.0, SINGLE)))
    total = s.emit("Add", (upper, s.cast_node(low, SINGLE, "")))
    return total if to is SINGLE else convert(s, total, to, "")


def _by_masks(s: CastSink, bits: str) -> str:
    """Return the parts of a uint32 as float32: the upper half, negative if its sign bit is set, and the lower half."""
    upper, lower = (
        s.cast_node(s.emit("BitAnd", (bits, s.constant(m, INT32)), dtype=INT32), SINGLE, "")
        for m in (-65536, 65535)
    )
    negative = s.emit("Less", (upper, s.constant(0.0, SINGLE)))
    upper = s.emit(
        "Select", (negative, s.emit("Adds", (upper, s.constant(2.0**32, SINGLE))), upper)
    )
    return s.emit("Add", (upper, lower))


def to_whole(s: CastSink, x: str, mode: str) -> str:
    """Round a float32 to a whole number through int32, where Cast cannot round float32 to itself."""
    near = s.cast_node(s.cast_node(x, INT32, mode), SINGLE, "")
    # Integers have no signed zero; the result has the sign of ``x`` in every mode.
    sign = s.emit("BitAnd", (x, s.constant(-(1 << 31), INT32)), dtype=SINGLE)
    signed = s.emit("BitOr", (near, sign), dtype=SINGLE)
    # Every float32 of at least 2^23 is whole; NaN compares false.
    small = s.emit("Less", (s.emit("Abs", (x,)), s.constant(2.0**23, SINGLE)))
    return s.emit("Select", (small, signed, x))


def cast_mode(arch: Architecture, have: DType, to: DType, mode: str = "") -> str | None:
    """Return the round mode of one Cast that rounds like ``mode`` (empty: like NumPy), or None if no mode does."""
    mode = mode or _rounding(have, to)
    # NONE rounds inexact results to nearest even.
    same = {"RINT": ("RINT", "NONE"), "NONE": ("NONE", "RINT")}.get(mode, (mode,))
    return next((m for m in same if (have.name, to.name, m) in arch.modes), None)


def exact_mode(arch: Architecture, have: DType, to: DType) -> str:
    """Return the round mode of one Cast of values that are exact in both dtypes."""
    return cast_mode(arch, have, to, "NONE") or "NONE"


def _rounding(have: DType, to: DType) -> str:
    """Return NumPy's rounding: to nearest even for floats, toward zero for integers; NONE if exact."""
    if have.kind == "f" and to.kind in "iub":
        return "TRUNC"
    if have.kind == "f" and to.kind == "f":
        return "RINT" if to.itemsize < have.itemsize else "NONE"
    if have.kind in "iu" and to.kind == "f" and have.itemsize >= 4:
        return "RINT"
    return "NONE"
