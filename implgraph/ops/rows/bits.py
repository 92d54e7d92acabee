"""Rows of the calls on bit patterns, used by expansions and casts; users do not write them.

The chip's ``And``, ``Or`` and ``Not`` take only 16-bit data: wider elements count as several.  Shifts and the sums
below treat a float as the integer of its bits, so that exponents can be read and written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attr, Attrs, Call, OpDef
from autofuse.implgraph.ops.row_kinds import device_op

__all__ = ["ROWS"]

PIECES = frozenset(d.name for d in BY_NAME.values() if d.bits >= 16)
SIGNED = {"float32": "int32", "uint32": "int32", "float16": "int16", "uint16": "int16"}
UNSIGNED = {"float32": "uint32", "int32": "uint32", "float16": "uint16", "int16": "uint16"}


#: Operands and result have one width, in any type.
_DTYPE = (Attr("dtype", "dtype", "", doc="type of the result, if not that of the first operand"),)


def _result(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    return BY_NAME[attrs["dtype"]] if attrs.get("dtype") else dtypes[0]


def _bits(name: str, api: str, arity: int) -> OpDef:
    """Return the row of a bitwise call on 16-bit units of the operands."""
    call = Call(api, f"bits_{arity}", PIECES, as_type=dict.fromkeys(sorted(PIECES), "uint16"))
    return device_op(
        name, (arity, arity), _result, "elewise", attrs=_DTYPE, call=call, cost="unary"
    )


def _integer(
    name: str, api: str, style: str, dtypes: frozenset[str], as_type: Mapping[str, str]
) -> OpDef:
    return device_op(
        name,
        (2, 2),
        _result,
        "elewise",
        attrs=_DTYPE,
        call=Call(api, style, dtypes, as_type=as_type),
        cost="unary" if style == "scalar" else "binary",
    )


_LONG = frozenset({"int64", "uint64"})


def _int32(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    return BY_NAME["int32"]


def _int64(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    return BY_NAME[attrs.get("dtype") or "int64"]


def _word(name: str) -> OpDef:
    call = Call(f"{name}Words", "unary", _LONG, inplace=False)
    return device_op(name, (1, 1), _int32, "elewise", call=call, cost="unary")


def _join_tmp(n: Expr, d: DType) -> Expr:
    return n * 24 + 192


_JOIN = Call("JoinWords", "advanced_binary", frozenset({"int32"}), tmp=_join_tmp, inplace=False)

_SHIFTED = frozenset({"int16", "uint16", "int32", "uint32"})
_INTEGERS = frozenset({"int16", "int32"})

ROWS: tuple[OpDef, ...] = (
    _bits("BitAnd", "And", 2),
    _bits("BitOr", "Or", 2),
    _bits("BitNot", "Not", 1),
    # Shifts by a constant: arithmetic (Sar), logical (Shr), left (Shl).
    _integer("Shl", "ShiftLeft", "scalar", _SHIFTED, SIGNED),
    _integer("Sar", "ShiftRight", "scalar", _INTEGERS, SIGNED),
    _integer("Shr", "ShiftRight", "scalar", frozenset({"uint16", "uint32"}), UNSIGNED),
    # Sums of bit patterns as integers that wrap.
    _integer("IntAdds", "Adds", "scalar", _INTEGERS, SIGNED),
    _integer("IntAdd", "Add", "binary", _INTEGERS, SIGNED),
    _integer("IntSub", "Sub", "binary", _INTEGERS, SIGNED),
    _word("Low"),
    _word("High"),
    device_op("Join", (2, 2), _int64, "elewise", attrs=_DTYPE, call=_JOIN, cost="select"),
    # Reinterpretation of the bytes as another type of the same width.
    device_op(
        "Reinterpret",
        (1, 1),
        _result,
        "elewise",
        attrs=_DTYPE,
        call=Call(
            "DataCopy",
            "reinterpret",
            frozenset(d for d in BY_NAME if d != "mask"),
            inplace=False,
        ),
        cost="unary",
    ),
)
