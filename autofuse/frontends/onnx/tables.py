"""Names that ONNX and autofuse spell differently."""

from __future__ import annotations

__all__ = ["ATTR_NAMES", "ROW_NAMES", "type_name", "type_number"]

#: ONNX op -> row of the registry, for element-wise ops with different names.
ROW_NAMES = {
    "And": "LogicalAnd",
    "GreaterOrEqual": "GreaterEqual",
    "LessOrEqual": "LessEqual",
    "Log": "Ln",
    "Not": "LogicalNot",
    "Or": "LogicalOr",
    "Where": "Select",
    "Xor": "LogicalXor",
}

#: ONNX op -> attribute -> attribute of the row, for names that differ.
ATTR_NAMES = {"LeakyRelu": {"alpha": "negative_slope"}}

_TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}
_NUMBERS = {name: n for n, name in _TYPES.items()}


def type_name(number: int) -> str:
    """Return the name of an ONNX element type; autofuse's name if it has the type."""
    return _TYPES.get(number, f"type {number}")


def type_number(name: str) -> int:
    """Return the ONNX number of an element type; 0 if ONNX does not have it."""
    return _NUMBERS.get(name, 0)
