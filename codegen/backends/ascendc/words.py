"""Literals and wrapped calls in generated C++."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from autofuse.implgraph.ir.dtypes import DType

__all__ = ["INDENT", "WIDTH", "scalar_text", "wrap_call"]

INDENT = "  "
#: Line length of generated code, if a line can be broken.
WIDTH = 100


def wrap_call(head: str, arguments: Sequence[str], tail: str) -> list[str]:
    """Return ``head(arguments)tail``, with one argument per line if it exceeds the line length."""
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= WIDTH:
        return [line]
    middle = [f"{INDENT * 2}{a}," for a in arguments[:-1]]
    return [f"{head}(", *middle, f"{INDENT * 2}{arguments[-1]}){tail}"]


def scalar_text(value: float | int, dtype: DType) -> str:
    """Return a constant of this ``dtype`` and value; functions on registers may use it, since it calls nothing."""
    if dtype.kind == "f":
        text = _float_text(float(value), dtype.name)
        return text if dtype.name == "float32" else f"static_cast<{dtype.cpp}>({text})"
    if dtype.kind == "b":
        return f"static_cast<uint8_t>({int(bool(value))})"
    return f"static_cast<{dtype.cpp}>({_int_text(int(value), dtype)})"


def _int_text(value: int, dtype: DType) -> str:
    unsigned = dtype.kind == "u"
    if value == (1 << dtype.bits - 1 << unsigned) - 1:
        return f"{'U' * unsigned}INT{dtype.bits}_MAX"
    if value == -(1 << dtype.bits - 1):
        return f"INT{dtype.bits}_MIN"
    return str(value) if abs(value) < (1 << 31) else f"INT64_C({value})"


#: Bits of a float32 -> its name in ``autofuse_device.h``; a NaN has any other bits of that exponent.
_NAMED = {0x7F800000: "kInfinity", 0x7F7FFFFF: "kLargestFloat", 0x7F7F0000: "kLargestBfloat16"}


def _float_text(value: float, dtype: str) -> str:
    """Return the name of the float32 nearest to ``value``, or the shortest decimal that parses to it."""
    bits = _single(value)
    single = struct.unpack("<f", bits)[0]
    if math.isnan(single):
        return "autofuse::kNan"
    size = int.from_bytes(bits, "little") & 0x7FFFFFFF
    named = "kLargestHalf" if dtype == "float16" and abs(single) == 65504 else _NAMED.get(size)
    if named is not None:
        return f"autofuse::{named}" if single > 0 else f"-autofuse::{named}"
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if _single(float(text)) == bits:
            break
    if "e" not in text and "." not in text:
        text += ".0"
    return text + "f"


def _single(value: float) -> bytes:
    """Return the bytes of the nearest float32; out of range, infinity."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))
