"""Rows of the ops that users write: element-wise, compare, select, cast, broadcast, view.

Numeric facts (dtypes of a call, tmp sizes, counts) come from the public Ascend C API documentation; the references are
NumPy in float64 or exact integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autofuse.implgraph.expr.expression import Expr, Max, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import ANY, Attr, Call, OpDef
from autofuse.implgraph.ops.formulas import saturating
from autofuse.implgraph.ops.formulas.expansions import (
    ARITH,
    BY_MODE,
    FLOATS,
    MODULAR,
    WRAPPING,
    expand_abs,
    expand_addn,
    expand_axpy,
    expand_bits_as,
    expand_clip,
    expand_compare,
    expand_div,
    expand_extremum,
    expand_fill,
    expand_identity,
    expand_logic,
    expand_neg,
    expand_pow_of,
    expand_reciprocal,
    expand_relu,
    expand_rounding,
    expand_rsqrt,
    expand_select,
    expand_sigmoid,
    expand_sign,
    expand_sub,
    scalar_form,
)
from autofuse.implgraph.ops.formulas.long_integers import or_long
from autofuse.implgraph.ops.formulas.vector_math import Formula
from autofuse.implgraph.ops.row_kinds import elementwise
from autofuse.implgraph.ops.rules import (
    any_dtype,
    bits_as_dtype,
    bits_as_reference,
    broadcast_shape,
    cast_dtype,
    cast_reference,
    compare_dtype,
    erf,
    fill_dtype,
    float_dtype,
    number_dtype,
    power,
    power_dtype,
    reciprocal,
    reference_of,
    reshape_shape,
    select_dtype,
    sum_all,
    target_shape,
    truth_dtype,
)

__all__ = ["ROWS"]

BF16 = {"bfloat16": "float32"}
HALF = {"bfloat16": "float32", "float16": "float32"}
BYTES = {"int8": "int16", "uint8": "int16"}
#: Half holds every byte value, in order.
ORDERED = {"int8": "float16", "uint8": "float16"}


# tmp-buffer rules (bytes for n elements), Ascend C documentation of the advanced APIs -------------


def _tmp(half: int, full: int) -> Callable[[Expr, DType], Expr]:
    def rule(n: Expr, d: DType) -> Expr:
        return Max(n * d.itemsize, const(256)) * (half if d.name == "float16" else full)

    return rule


def _power_tmp(n: Expr, d: DType) -> Expr:
    factor = {"float16": 14, "int32": 6}.get(d.name, 4)
    return Max(n * d.itemsize, const(256)) * factor + 256


# rows -----------------------------------------------------------------------------------------


def _call(
    api: str,
    style: str,
    dtypes: frozenset[str],
    tmp: Callable[[Expr, DType], Expr] | None = None,
    as_type: Mapping[str, str] | None = None,
) -> Call:
    return Call(api, style, dtypes, as_type or {}, tmp=tmp, inplace=tmp is None)


def _unary(name: str, api: str, fn: Callable[..., Any], **kw: Any) -> OpDef:
    fields: dict[str, Any] = {
        "call": _call(api, "unary", FLOATS),
        "promote": BF16,
        "cost": "unary",
    } | kw
    rule = fields.pop("dtype_rule", float_dtype)
    return OpDef(name, (1, 1), rule, broadcast_shape, "elewise", reference_of(fn), **fields)


def _advanced(
    name: str, api: str, fn: Callable[..., Any], half: int, full: int, **kw: Any
) -> OpDef:
    call = _call(api, "advanced_unary", FLOATS, _tmp(half, full))
    return _unary(name, api, fn, **({"call": call, "ulp": 4.0} | kw))


def _or_formula(op: str, fn: Formula, short: Formula) -> dict[str, Any]:
    """Return the fields of a row whose call an architecture may lack, with the formula that replaces it."""
    return {
        "expand": saturating.without_call(op, fn),
        "short": saturating.without_call(op, short),
        "promote": HALF,
        "source": "own polynomials, for architectures where no call is used",
    }


def _composite(name: str, fn: Callable[..., Any], expand: Any, **kw: Any) -> OpDef:
    return _unary(name, name, fn, **({"call": None, "expand": expand} | kw))


def _binary(
    name: str, api: str, fn: Callable[..., Any], dtypes: frozenset[str], **kw: Any
) -> OpDef:
    fields: dict[str, Any] = {
        "call": _call(api, "binary", dtypes),
        "promote": BF16,
        "cost": "binary",
    } | kw
    rule = float_dtype if dtypes == FLOATS else number_dtype
    return OpDef(name, (2, 2), rule, broadcast_shape, "elewise", reference_of(fn), **fields)


def _comparison(name: str, mode: str, fn: Callable[..., Any]) -> OpDef:
    return elementwise(
        name,
        (2, 2),
        compare_dtype,
        reference_of(fn),
        expand=or_long(BY_MODE[mode], expand_compare(mode)),
        promote={
            "bfloat16": "float32",
            "int16": "float32",
            "uint16": "float32",
            "int8": "float16",
            "uint8": "float16",
            "bool": "float16",
        },
        cost="compare",
        ulp=0.0,
        aliases=(mode.capitalize(),),
        doc=f"bool result; NaN compares as IEEE 754 ({mode})",
    )


ROWS: tuple[OpDef, ...] = (
    _unary(
        "Abs",
        "Abs",
        np.abs,
        dtype_rule=number_dtype,
        expand=or_long("Abs", expand_abs),
        promote=BF16 | {"int8": "int16"},
        ulp=0.0,
        doc="absolute value; the minimum integer is unchanged",
        errors="relative",
    ),
    _unary(
        "Sign",
        "Sign",
        np.sign,
        dtype_rule=number_dtype,
        call=None,
        expand=or_long("Sign", expand_sign),
        promote=BF16 | {"int8": "float16", "uint8": "float16", "uint16": "int32"},
        ulp=0.0,
        doc="-1, 0 or 1; propagates NaN",
    ),
    _unary("Exp", "Exp", np.exp, cost="exp", ulp=2.0, doc="e**x", special=True),
    _unary(
        "Ln",
        "Ln",
        np.log,
        cost="exp",
        ulp=2.0,
        aliases=("Log",),
        doc="natural logarithm",
        special=True,
    ),
    _unary("Sqrt", "Sqrt", np.sqrt, cost="exp", ulp=1.0, doc="square root", special=True),
    _unary(
        "Relu",
        "Relu",
        lambda x: np.where(x <= 0, x.dtype.type(0), x),
        dtype_rule=number_dtype,
        call=_call("Relu", "unary", FLOATS | {"int32"}),
        expand=or_long("Relu", expand_relu),
        promote=BF16 | {"int8": "float16"},
        ulp=0.0,
        doc="max(x, +0); propagates NaN",
        errors="relative",
    ),
    _advanced(
        "Tanh",
        "Tanh",
        np.tanh,
        4,
        1,
        cost="tanh",
        doc="hyperbolic tangent",
        **_or_formula("Tanh", saturating.tanh, saturating.short_tanh),
        special=True,
    ),
    _advanced(
        "Erf",
        "Erf",
        erf,
        8,
        3,
        cost="erf",
        ulp=6.0,
        doc="error function",
        **_or_formula("Erf", saturating.erf, saturating.short_erf),
        special=True,
    ),
    _advanced("Sin", "Sin", np.sin, 8, 3, cost="erf", doc="sine", special=True),
    _advanced("Cos", "Cos", np.cos, 8, 3, cost="erf", doc="cosine", special=True),
    _composite(
        "Rsqrt",
        lambda x: 1.0 / np.sqrt(x),
        expand_rsqrt,
        ulp=1.5,
        doc="1/sqrt(x), as Sqrt and Div",
        special=True,
    ),
    _composite(
        "Reciprocal",
        reciprocal,
        expand_reciprocal,
        dtype_rule=number_dtype,
        ulp=1.0,
        aliases=("Inv",),
        doc="1/x, as Div; for integers the integer part, 0 for 0",
    ),
    _composite(
        "Sigmoid",
        lambda x: 1.0 / (1.0 + np.exp(-x)),
        expand_sigmoid,
        ulp=4.0,
        doc="1/(1+exp(-x)); subnormal results may be 0",
    ),
    _composite(
        "Square",
        lambda x: x * x,
        or_long("Square", lambda s, xs, attrs: s.emit("Mul", (xs[0], xs[0]))),
        dtype_rule=number_dtype,
        promote=BF16 | BYTES,
        doc="x*x",
    ),
    _composite(
        "Floor",
        np.floor,
        expand_rounding("FLOOR"),
        promote=HALF,
        ulp=0.0,
        doc="largest integer <= x",
    ),
    _composite(
        "Ceil",
        np.ceil,
        expand_rounding("CEIL"),
        promote=HALF,
        ulp=0.0,
        doc="smallest integer >= x",
    ),
    _composite(
        "Round",
        np.rint,
        expand_rounding("RINT"),
        promote=HALF,
        ulp=0.0,
        doc="nearest integer, ties to even",
    ),
    _composite(
        "RoundAway",
        lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
        expand_rounding("ROUND"),
        promote=HALF,
        ulp=0.0,
        user=False,
        doc="nearest integer, ties away from zero",
    ),
    _composite(
        "Trunc", np.trunc, expand_rounding("TRUNC"), promote=HALF, ulp=0.0, doc="integer part"
    ),
    elementwise(
        "Neg",
        (1, 1),
        number_dtype,
        reference_of(np.negative),
        expand=or_long("Neg", expand_neg),
        promote=BF16 | BYTES,
        cost="unary",
        doc="-x",
        errors="relative",
    ),
    _binary(
        "Add",
        "Add",
        np.add,
        ARITH,
        call=_call("Add", "binary", MODULAR, as_type=WRAPPING),
        promote=BF16 | BYTES,
        expand=or_long("Add", scalar_form("Adds")),
        aliases=("TensorAdd",),
        doc="a + b; integers wrap",
        errors="added",
    ),
    _binary(
        "Sub",
        "Sub",
        np.subtract,
        ARITH,
        call=_call("Sub", "binary", MODULAR, as_type=WRAPPING),
        promote=BF16 | BYTES,
        expand=or_long("Sub", expand_sub),
        doc="a - b; integers wrap",
        errors="added",
    ),
    _binary(
        "Mul",
        "Mul",
        np.multiply,
        ARITH,
        call=_call("Mul", "binary", MODULAR, as_type=WRAPPING),
        promote=BF16 | BYTES,
        expand=or_long("Mul", scalar_form("Muls")),
        doc="a * b; integers wrap",
        errors="relative",
    ),
    _binary(
        "Div",
        "Div",
        np.divide,
        FLOATS,
        expand=expand_div,
        cost="div",
        ulp=1.0,
        aliases=("RealDiv",),
        doc="a / b, floats",
        special=True,
        errors="relative",
    ),
    _binary(
        "Maximum",
        "Max",
        np.maximum,
        ARITH,
        expand=or_long("Maximum", expand_extremum("Maximum", "Maxs")),
        promote=BF16 | ORDERED | {"uint16": "int32"},
        ulp=0.0,
        doc="maximum; propagates NaN",
        errors="relative",
    ),
    _binary(
        "Minimum",
        "Min",
        np.minimum,
        ARITH,
        expand=or_long("Minimum", expand_extremum("Minimum", "Mins")),
        promote=BF16 | ORDERED | {"uint16": "int32"},
        ulp=0.0,
        doc="minimum; propagates NaN",
        errors="relative",
    ),
    elementwise(
        "Pow",
        (2, 2),
        power_dtype,
        reference_of(power),
        call=_call("Power", "advanced_binary", FLOATS | {"int32"}, _power_tmp),
        expand=expand_pow_of,
        promote=BF16 | {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32"},
        cost="pow",
        ulp=8.0,
        doc="a ** b; accuracy set by Ascend's Power; integers wrap, a negative exponent leaves the integer part; the "
        "exponent of a float may be an integer, all of whose bits count",
        special=True,
    ),
    elementwise(
        "AddN",
        (1, ANY),
        number_dtype,
        sum_all,
        expand=expand_addn,
        doc="sum of all inputs, left to right",
    ),
    _comparison("Equal", "EQ", np.equal),
    _comparison("NotEqual", "NE", np.not_equal),
    _comparison("Less", "LT", np.less),
    _comparison("LessEqual", "LE", np.less_equal),
    _comparison("Greater", "GT", np.greater),
    _comparison("GreaterEqual", "GE", np.greater_equal),
    elementwise(
        "LogicalAnd",
        (2, 2),
        truth_dtype,
        reference_of(np.logical_and),
        expand=expand_logic("MaskAnd"),
        cost="unary",
        ulp=0.0,
        doc="a and b; numbers: not 0",
    ),
    elementwise(
        "LogicalOr",
        (2, 2),
        truth_dtype,
        reference_of(np.logical_or),
        expand=expand_logic("MaskOr"),
        cost="unary",
        ulp=0.0,
        doc="a or b; numbers: not 0",
    ),
    elementwise(
        "LogicalNot",
        (1, 1),
        truth_dtype,
        reference_of(np.logical_not),
        expand=expand_logic("MaskNot"),
        cost="unary",
        ulp=0.0,
        doc="not a; numbers: equal to 0",
    ),
    elementwise(
        "LogicalXor",
        (2, 2),
        truth_dtype,
        reference_of(np.logical_xor),
        expand=expand_logic("MaskXor"),
        cost="unary",
        ulp=0.0,
        doc="exactly one of a and b; numbers: not 0",
    ),
    elementwise(
        "Select",
        (3, 3),
        select_dtype,
        reference_of(np.where),
        expand=or_long("Select", expand_select),
        promote={"int8": "float16", "uint8": "float16", "bool": "float16"},
        cost="select",
        ulp=0.0,
        aliases=("Where",),
        doc="a where the condition holds, else b",
        errors="relative",
    ),
    elementwise(
        "MaskedFill",
        (3, 3),
        fill_dtype,
        reference_of(lambda x, mask, value: np.where(mask, value, x)),
        expand=expand_fill,
        cost="select",
        ulp=0.0,
        doc="c where the bool b holds, else a",
    ),
    elementwise(
        "ClipByValue",
        (3, 3),
        number_dtype,
        reference_of(lambda x, low, high: np.minimum(np.maximum(x, low), high)),
        expand=expand_clip,
        ulp=0.0,
        aliases=("Clip", "Clamp"),
        doc="min(max(a, b), c); propagates NaN",
    ),
    elementwise(
        "Axpy",
        (2, 2),
        number_dtype,
        lambda xs, attrs: xs[0] + xs[1] * xs[1].dtype.type(attrs.get("alpha", 1.0)),
        attrs=(
            Attr("alpha", "float", 1.0, doc="factor of the second input; integral for integers"),
        ),
        expand=expand_axpy,
        promote=BF16 | BYTES,
        ulp=1.0,
        doc="a + alpha * b",
    ),
    elementwise(
        "Cast",
        (1, 1),
        cast_dtype,
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
        call=Call("Cast", "cast", frozenset()),
        cost="cast",
        doc="conversion; a float to an integer truncates and saturates, NaN is 0; integers wrap",
    ),
    elementwise(
        "BitCast",
        (1, 1),
        bits_as_dtype,
        bits_as_reference,
        attrs=(
            Attr("dtype", "dtype", doc="target dtype, of the same width as the input's"),
            Attr("source", "dtype", "", doc="not to be given: the dtype of the input"),
        ),
        expand=expand_bits_as,
        cost="unary",
        ulp=0.0,
        doc="bits reinterpreted as another dtype of the same width",
    ),
    OpDef(
        "Broadcast",
        (1, 1),
        any_dtype,
        target_shape,
        "broadcast",
        lambda xs, attrs: xs[0],
        attrs=(Attr("shape", "shape", doc="target shape"),),
        call=Call("Broadcast", "device", frozenset(BY_NAME), inplace=False),
        cost="broadcast",
        ulp=0.0,
        aliases=("BroadcastTo", "Expand"),
        doc="NumPy broadcasting to a shape",
        errors="relative",
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
        errors="relative",
    ),
    elementwise(
        "Identity",
        (1, 1),
        any_dtype,
        lambda xs, attrs: xs[0],
        expand=expand_identity,
        cost="none",
        ulp=0.0,
        doc="the input itself",
        errors="relative",
    ),
)
