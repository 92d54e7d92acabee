"""Rows of the ops that users write: element-wise, compare, select, cast, broadcast, view.

Numeric facts (dtypes of a call, tmp sizes, counts) come from the public Ascend C API documentation; the references are
NumPy in float64 or exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.implgraph.dtypes import BY_NAME, DType
from autofuse.implgraph.expr import Expr, Max, const
from autofuse.implgraph.op_rules import (
    any_dtype,
    broadcast_shape,
    cast_dtype,
    cast_reference,
    compare_dtype,
    erf,
    float_dtype,
    logical_dtype,
    number_dtype,
    reference_of,
    reshape_shape,
    select_dtype,
    sum_all,
    target_shape,
)
from autofuse.implgraph.ops import ANY, Attr, Attrs, Call, OpDef, OpSink

__all__ = ["ROWS"]

A2 = "2201"
P310 = "2002"
FLOATS = frozenset({"float16", "float32"})
ARITH = frozenset({"int16", "int32", "float16", "float32"})
BF16 = {"bfloat16": "float32"}
HALF = {"bfloat16": "float32", "float16": "float32"}


# expansions -----------------------------------------------------------------------------------


def _scalar_form(device_op: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """A commutative binary op with one uniform operand becomes its scalar form."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        a, b = xs
        if s.dtype_of(a).name not in ARITH or s.is_uniform(a) == s.is_uniform(b):
            return None
        return s.emit(device_op, (b, a) if s.is_uniform(a) else (a, b))

    return expand


def _negated(s: OpSink, x: Any) -> Any:
    c = s.constant_of(x)
    if c is not None:
        return s.constant(-c, s.dtype_of(x))
    return s.emit("Muls", (x, s.constant(-1, s.dtype_of(x))))


def _expand_sub(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    a, b = xs
    if s.dtype_of(a).name not in ARITH or s.is_uniform(a) == s.is_uniform(b):
        return None
    if s.is_uniform(b):
        return s.emit("Adds", (a, _negated(s, b)))
    return s.emit("Adds", (_negated(s, b), a))


def _expand_neg(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    return _negated(s, xs[0]) if s.dtype_of(xs[0]).name in ARITH else None


def _expand_div(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """A power of two divides exactly by multiplying with its reciprocal; nothing else does."""
    c = s.constant_of(xs[1])
    if (
        s.dtype_of(xs[0]).name not in FLOATS
        or c is None
        or s.is_uniform(xs[0])
        or c == 0
        or not math.isfinite(c)
    ):
        return None
    mantissa, exponent = math.frexp(c)
    if abs(mantissa) != 0.5 or abs(exponent) > 12:
        return None
    return s.emit("Muls", (xs[0], s.constant(1.0 / c, s.dtype_of(xs[0]))))


def _expand_pow(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    x, c = xs[0], s.constant_of(xs[1])
    if c == 1:
        return x
    if c == 2:
        return s.emit("Mul", (x, x))
    if c == 3:
        return s.emit("Mul", (s.emit("Mul", (x, x)), x))
    if c == -1:
        return s.emit("Div", (s.constant(1, s.dtype_of(x)), x))
    return None


def _expand_rsqrt(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """The chip's Rsqrt is a table look-up good to 2e-4; a root and a division are accurate."""
    return s.emit("Div", (s.constant(1, s.dtype_of(xs[0])), s.emit("Sqrt", (xs[0],))))


def _expand_reciprocal(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """As Rsqrt: the chip's Reciprocal is an approximation."""
    return s.emit("Div", (s.constant(1, s.dtype_of(xs[0])), xs[0]))


def _expand_sigmoid(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    e = s.emit("Exp", (_negated(s, xs[0]),))
    return s.emit(
        "Div",
        (s.constant(1, s.dtype_of(xs[0])), s.emit("Add", (e, s.constant(1, s.dtype_of(xs[0]))))),
    )


def _expand_addn(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    out = xs[0]
    for x in xs[1:]:
        out = s.emit("Add", (out, x))
    return out


def _expand_identity(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    return xs[0]


def _expand_rounding(mode: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        if s.dtype_of(xs[0]).name != "float32":
            return None
        return s.emit("Cast", xs, {"dtype": "float32", "round": mode}, BY_NAME["float32"])

    return expand


def _expand_compare(mode: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    """Floats compare directly; int32 has only EQ on the chip, the rest follows from Max, Min and Not."""

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        a, b = xs
        d = s.dtype_of(a).name
        if d in FLOATS:
            if s.is_uniform(b) and not s.is_uniform(a):
                return s.emit("CompareScalar", (a, b), {"mode": mode})
            if s.is_uniform(a) and not s.is_uniform(b):
                return s.emit("CompareScalar", (b, a), {"mode": _SWAPPED[mode]})
            return s.emit("Compare", (a, b), {"mode": mode})
        if d == "int32":
            if mode in ("GE", "LE"):
                edge = s.emit("Maximum" if mode == "GE" else "Minimum", (a, b))
                return s.emit("Compare", (edge, a), {"mode": "EQ"})
            if mode == "EQ":
                return s.emit("Compare", (a, b), {"mode": "EQ"})
            return s.emit("MaskNot", (s.emit(_BY_MODE[_NEGATED[mode]], (a, b)),))
        return None

    return expand


_SWAPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_NEGATED = {"LT": "GE", "GT": "LE", "NE": "EQ"}
_BY_MODE = {
    "EQ": "Equal",
    "NE": "NotEqual",
    "LT": "Less",
    "LE": "LessEqual",
    "GT": "Greater",
    "GE": "GreaterEqual",
}


def _expand_select(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    cond, a, b = xs
    if s.dtype_of(a).name not in ("float16", "float32", "int32", "int16", "bfloat16"):
        return None
    if s.is_uniform(a) and not s.is_uniform(b):
        return s.emit("SelectMask", (s.emit("MaskNot", (cond,)), b, a))
    return s.emit("SelectMask", (cond, a, b))


def _expand_mask(op: str) -> Callable[[OpSink, Sequence[Any], Attrs], Any]:
    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        return s.emit(op, xs)

    return expand


# tmp-buffer rules (bytes for n elements), Ascend C documentation of the advanced APIs -------------


def _tmp(half: int, full: int) -> Callable[[Expr, DType], Expr]:
    def rule(n: Expr, d: DType) -> Expr:
        return Max(n * d.itemsize, const(256)) * (half if d.name == "float16" else full)

    return rule


def _power_tmp(n: Expr, d: DType) -> Expr:
    factor = {"float16": 14, "int32": 6}.get(d.name, 4)
    return Max(n * d.itemsize, const(256)) * factor + 256


# rows -----------------------------------------------------------------------------------------


def _calls(
    api: str, style: str, dtypes: frozenset[str], tmp: Callable[[Expr, DType], Expr] | None = None
) -> Mapping[str, Call]:
    call = Call(api, style, dtypes, tmp=tmp, inplace=tmp is None)
    return {A2: call, P310: call}


def _unary(name: str, api: str, fn: Callable[..., Any], **kw: Any) -> OpDef:
    fields: dict[str, Any] = {
        "calls": _calls(api, "unary", FLOATS),
        "promote": BF16,
        "cost": "unary",
    } | kw
    return OpDef(name, (1, 1), float_dtype, broadcast_shape, "elewise", reference_of(fn), **fields)


def _advanced(
    name: str, api: str, fn: Callable[..., Any], half: int, full: int, **kw: Any
) -> OpDef:
    return _unary(
        name, api, fn, calls=_calls(api, "advanced_unary", FLOATS, _tmp(half, full)), ulp=4.0, **kw
    )


def _composite(name: str, fn: Callable[..., Any], expand: Any, **kw: Any) -> OpDef:
    return _unary(name, name, fn, **({"calls": {}, "expand": expand} | kw))


def _binary(
    name: str, api: str, fn: Callable[..., Any], dtypes: frozenset[str], **kw: Any
) -> OpDef:
    fields: dict[str, Any] = {
        "calls": _calls(api, "binary", dtypes),
        "promote": BF16,
        "cost": "binary",
    } | kw
    rule = float_dtype if dtypes == FLOATS else number_dtype
    return OpDef(name, (2, 2), rule, broadcast_shape, "elewise", reference_of(fn), **fields)


def _comparison(name: str, mode: str, fn: Callable[..., Any]) -> OpDef:
    return OpDef(
        name,
        (2, 2),
        compare_dtype,
        broadcast_shape,
        "elewise",
        reference_of(fn),
        expand=_expand_compare(mode),
        promote={
            "bfloat16": "float32",
            "int16": "float32",
            "int8": "float16",
            "uint8": "float16",
            "bool": "float16",
        },
        cost="compare",
        ulp=0.0,
        doc=f"bool result; NaN compares as IEEE 754 ({mode})",
    )


_NEG_PROMOTE = {"bfloat16": "float32"}

ROWS: tuple[OpDef, ...] = (
    _unary("Abs", "Abs", np.abs, doc="absolute value"),
    _unary("Exp", "Exp", np.exp, cost="exp", ulp=2.0, doc="e**x"),
    _unary("Ln", "Ln", np.log, cost="exp", ulp=2.0, aliases=("Log",), doc="natural logarithm"),
    _unary("Sqrt", "Sqrt", np.sqrt, cost="exp", ulp=1.0, doc="square root"),
    _unary("Relu", "Relu", lambda x: np.where(x <= 0, 0.0, x), doc="max(x, +0); NaN stays"),
    _advanced("Tanh", "Tanh", np.tanh, 4, 1, cost="tanh", doc="hyperbolic tangent"),
    _advanced("Erf", "Erf", erf, 8, 3, cost="erf", doc="error function"),
    _advanced("Sin", "Sin", np.sin, 8, 3, cost="erf", doc="sine"),
    _advanced("Cos", "Cos", np.cos, 8, 3, cost="erf", doc="cosine"),
    _composite(
        "Rsqrt",
        lambda x: 1.0 / np.sqrt(x),
        _expand_rsqrt,
        ulp=1.5,
        doc="1/sqrt(x), as Sqrt and Div",
    ),
    _composite(
        "Reciprocal",
        lambda x: 1.0 / x,
        _expand_reciprocal,
        ulp=1.0,
        aliases=("Inv",),
        doc="1/x, as Div",
    ),
    _composite(
        "Sigmoid", lambda x: 1.0 / (1.0 + np.exp(-x)), _expand_sigmoid, ulp=4.0, doc="1/(1+exp(-x))"
    ),
    _composite(
        "Square", lambda x: x * x, lambda s, xs, attrs: s.emit("Mul", (xs[0], xs[0])), doc="x*x"
    ),
    _composite(
        "Floor",
        np.floor,
        _expand_rounding("FLOOR"),
        promote=HALF,
        ulp=0.0,
        doc="largest integer <= x",
    ),
    _composite(
        "Ceil",
        np.ceil,
        _expand_rounding("CEIL"),
        promote=HALF,
        ulp=0.0,
        doc="smallest integer >= x",
    ),
    _composite(
        "Round",
        np.rint,
        _expand_rounding("RINT"),
        promote=HALF,
        ulp=0.0,
        doc="nearest integer, ties to even",
    ),
    _composite(
        "Trunc", np.trunc, _expand_rounding("TRUNC"), promote=HALF, ulp=0.0, doc="integer part"
    ),
    OpDef(
        "Neg",
        (1, 1),
        number_dtype,
        broadcast_shape,
        "elewise",
        reference_of(np.negative),
        expand=_expand_neg,
        promote=_NEG_PROMOTE,
        cost="unary",
        doc="-x",
    ),
    _binary(
        "Add",
        "Add",
        np.add,
        ARITH,
        expand=_scalar_form("Adds"),
        aliases=("TensorAdd",),
        doc="a + b",
    ),
    _binary("Sub", "Sub", np.subtract, ARITH, expand=_expand_sub, doc="a - b"),
    _binary("Mul", "Mul", np.multiply, ARITH, expand=_scalar_form("Muls"), doc="a * b"),
    _binary(
        "Div",
        "Div",
        np.divide,
        FLOATS,
        expand=_expand_div,
        cost="div",
        ulp=1.0,
        aliases=("RealDiv", "TrueDiv"),
        doc="a / b, floats",
    ),
    _binary(
        "Maximum",
        "Max",
        np.maximum,
        ARITH,
        expand=_scalar_form("Maxs"),
        ulp=0.0,
        doc="larger; NaN wins",
    ),
    _binary(
        "Minimum",
        "Min",
        np.minimum,
        ARITH,
        expand=_scalar_form("Mins"),
        ulp=0.0,
        doc="smaller; NaN wins",
    ),
    OpDef(
        "Pow",
        (2, 2),
        float_dtype,
        broadcast_shape,
        "elewise",
        reference_of(np.power),
        calls=_calls("Power", "advanced_binary", FLOATS, _power_tmp),
        expand=_expand_pow,
        promote=BF16,
        cost="pow",
        ulp=8.0,
        doc="a ** b",
    ),
    OpDef(
        "AddN",
        (1, ANY),
        number_dtype,
        broadcast_shape,
        "elewise",
        sum_all,
        expand=_expand_addn,
        doc="sum of all inputs, left to right",
    ),
    _comparison("Equal", "EQ", np.equal),
    _comparison("NotEqual", "NE", np.not_equal),
    _comparison("Less", "LT", np.less),
    _comparison("LessEqual", "LE", np.less_equal),
    _comparison("Greater", "GT", np.greater),
    _comparison("GreaterEqual", "GE", np.greater_equal),
    OpDef(
        "LogicalAnd",
        (2, 2),
        logical_dtype,
        broadcast_shape,
        "elewise",
        reference_of(np.logical_and),
        expand=_expand_mask("MaskAnd"),
        cost="unary",
        doc="a and b",
    ),
    OpDef(
        "LogicalOr",
        (2, 2),
        logical_dtype,
        broadcast_shape,
        "elewise",
        reference_of(np.logical_or),
        expand=_expand_mask("MaskOr"),
        cost="unary",
        doc="a or b",
    ),
    OpDef(
        "LogicalNot",
        (1, 1),
        logical_dtype,
        broadcast_shape,
        "elewise",
        reference_of(np.logical_not),
        expand=_expand_mask("MaskNot"),
        cost="unary",
        doc="not a",
    ),
    OpDef(
        "Select",
        (3, 3),
        select_dtype,
        broadcast_shape,
        "elewise",
        reference_of(np.where),
        expand=_expand_select,
        promote={"int8": "float16", "uint8": "float16", "bool": "float16"},
        cost="select",
        ulp=0.0,
        aliases=("Where",),
        doc="a where the condition holds, else b",
    ),
    OpDef(
        "Cast",
        (1, 1),
        cast_dtype,
        broadcast_shape,
        "elewise",
        cast_reference,
        attrs=(
            Attr("dtype", "dtype", doc="target dtype, such as float16"),
            Attr(
                "round",
                "str",
                "",
                doc="rounding to an integral value: RINT, FLOOR, CEIL, ROUND; TRUNC is the default for integer dtypes",
            ),
        ),
        calls={A2: Call("Cast", "cast", frozenset()), P310: Call("Cast", "cast", frozenset())},
        cost="cast",
        doc="conversion; to integers it truncates and saturates",
    ),
    OpDef(
        "Broadcast",
        (1, 1),
        any_dtype,
        target_shape,
        "broadcast",
        lambda xs, attrs: xs[0],
        attrs=(Attr("shape", "shape", doc="target shape"),),
        cost="broadcast",
        ulp=0.0,
        aliases=("BroadcastTo", "Expand"),
        doc="NumPy broadcasting to a shape",
    ),
    OpDef(
        "Reshape",
        (1, 1),
        any_dtype,
        reshape_shape,
        "view",
        lambda xs, attrs: xs[0],
        attrs=(Attr("shape", "shape", doc="new shape with the same number of elements"),),
        cost="none",
        ulp=0.0,
        doc="same elements in the same order under another shape",
    ),
    OpDef(
        "Identity",
        (1, 1),
        any_dtype,
        broadcast_shape,
        "elewise",
        lambda xs, attrs: xs[0],
        expand=_expand_identity,
        cost="none",
        ulp=0.0,
        doc="the input itself",
    ),
)
