"""Approximate vector call counts of integer ops, for narrowing to compare.

Legalisation knows the exact counts, but only once there are axes; these figures count its expansions on whole vectors.
A call that fills a 64-bit vector counts as two; calls on bit masks are nearly free and count as a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ops.cast_routes import cast_route
from autofuse.targets import Architecture

__all__ = ["cast_calls", "op_calls"]

#: Calls of 64-bit ops on pairs of words.
_LONG: Mapping[str, float] = {
    **dict.fromkeys(("Reshape", "Identity", "Slice", "Transpose", "Concat", "Pad"), 0),
    **dict.fromkeys(("Equal", "NotEqual"), 4),
    **dict.fromkeys(("Less", "LessEqual", "Greater", "GreaterEqual"), 9),
    **dict.fromkeys(("Select", "MaskedFill"), 4),
    **dict.fromkeys(("Add", "Sub", "AddN", "Neg", "Sign", "Relu"), 8),
    **dict.fromkeys(("Abs", "Maximum", "Minimum"), 12),
    **dict.fromkeys(("Mul", "Square"), 25),
    **dict.fromkeys(("FloorDiv", "TruncDiv", "Remainder", "Fmod", "Mod"), 200),
    **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin", "CumSum"), 20),
    "ClipByValue": 24,
    "Iota": 2,
    "Broadcast": 2,
    "ArgMax": 8,
    "ArgMin": 8,
}
#: Calls of int32 ops; 1 if not listed.
_WORD: Mapping[str, float] = {
    **dict.fromkeys(("Reshape", "Identity", "Slice", "Transpose", "Concat", "Pad"), 0),
    **dict.fromkeys(("LessEqual", "GreaterEqual"), 2),
    **dict.fromkeys(("Less", "Greater"), 2.1),
    **dict.fromkeys(("FloorDiv", "TruncDiv", "Remainder", "Fmod", "Mod"), 30),
    **dict.fromkeys(("ArgMax", "ArgMin"), 7.9),
    "NotEqual": 1.1,
    "Abs": 2,
    "Sign": 4,
    "ClipByValue": 2,
}
_SINGLE: Mapping[str, float] = {
    **dict.fromkeys(("Reshape", "Identity", "Slice", "Transpose", "Concat", "Pad"), 0),
    "Sign": 5,
    "ClipByValue": 2,
}


def op_calls(op: str, d: DType) -> float:
    """Return the vector calls, per 32-bit vector, of an op with result (for a comparison: operand) dtype ``d``."""
    if d.kind == "f":
        return _SINGLE.get(op, 1)
    if d.bits == 64:
        return _LONG.get(op, 8)
    return _WORD.get(op, 1)


def cast_calls(arch: Architecture, have: DType, to: DType) -> int | None:
    """Return the calls of a Cast between signed integers, bytes, bool and floats; None if the chip has none.

    Args:
        arch: architecture of the target.
        have: dtype of the operand.
        to: dtype of the result.
    """
    if have == to:
        return 0
    if any(d.kind == "u" and d.bits > 8 for d in (have, to)):
        return None
    if have.bits == 64 and to.bits == 32 and to.kind == "i":
        return 1  # the low word
    if to.kind == "b":
        return 1  # a comparison with 0
    route = cast_route(arch, have.name, to.name)
    return None if route is None else len(route)
