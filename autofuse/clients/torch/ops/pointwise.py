"""Rows of element-wise ops."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as PROMOTION

from autofuse.clients.torch.emit import BFLOAT16, BOOL, FLOAT32, Emitter, Value
from autofuse.clients.torch.ops.row import Call, Kind, Numbers, row
from autofuse.clients.torch.refusal import RefusedError
from autofuse.implgraph.ir.dtypes import DType

__all__: list[str] = []

_SAME = PROMOTION.DEFAULT
_FLOAT = PROMOTION.INT_TO_FLOAT
_TRUTH = PROMOTION.ALWAYS_BOOL

#: PyTorch's meaning of sums and products of bools.
_OF_BOOLS = {
    "Add": "LogicalOr",
    "Mul": "LogicalAnd",
    "Maximum": "LogicalOr",
    "Minimum": "LogicalAnd",
    "BitwiseNot": "LogicalNot",
}
#: Rounding ops, which do not change integers.
_ROUNDING = frozenset({"Floor", "Ceil", "Round", "Trunc"})


def _compute(e: Emitter, name: str, *xs: Value) -> Value:
    """Apply an op of the registry; for bools, the equivalent of PyTorch's op."""
    dtype = xs[0].dtype
    if dtype == BOOL:
        name = _OF_BOOLS.get(name, name)
    if name in _ROUNDING and dtype.kind != "f":
        return xs[0]
    return e.op(name, *xs)


def _rows(promotion: PROMOTION, names: str, numbers: Numbers = Numbers.ROUNDED) -> None:
    """Register ops that map to one registry op: ``name:Row`` each; ``name*:Row`` for all overloads of a binary op."""
    for entry in names.split():
        name, ours = entry.split(":")
        overloads = ("Tensor", "Scalar") if name.endswith("*") else ("default",)
        if "." in name:
            name, overload = name.split(".")
            overloads = (overload,)

        def convert(c: Call, ours: str = ours) -> Value:
            return _compute(c.e, ours, *c.promoted(*c.node.args, kind=promotion))

        row(*(f"aten.{name.removesuffix('*')}.{o}" for o in overloads), numbers=numbers)(convert)


_rows(
    _SAME,
    """
    abs:Abs neg:Neg relu:Relu floor:Floor ceil:Ceil round:Round trunc:Trunc frac:Frac
    bitwise_not:BitwiseNot maximum:Maximum minimum:Minimum bitwise_and*:BitwiseAnd
    bitwise_or*:BitwiseOr bitwise_xor*:BitwiseXor fmod*:Fmod remainder*:Remainder remainder.Scalar_Tensor:Remainder
    hypot:Hypot bitwise_left_shift*:LShift bitwise_right_shift*:RShift __lshift__*:LShift __rshift__*:RShift
    pow.Tensor_Tensor:Pow pow.Scalar:Pow""",
)
_rows(_SAME, "mul*:Mul floor_divide:FloorDiv", Numbers.SECOND_WIDE)
_rows(
    _FLOAT,
    """
    exp:Exp exp2:Exp2 expm1:Expm1 log:Ln log2:Log2 log10:Log10 log1p:Log1p sqrt:Sqrt rsqrt:Rsqrt
    reciprocal:Reciprocal sigmoid:Sigmoid tanh:Tanh sin:Sin cos:Cos tan:Tan sinh:Sinh cosh:Cosh asin:Asin acos:Acos
    atan:Atan asinh:Asinh acosh:Acosh atanh:Atanh erf:Erf erfc:Erfc erfinv:Erfinv lgamma:Lgamma digamma:Digamma
    atan2:Atan2 copysign*:CopySign igamma:Igamma igammac:Igammac i0:ModifiedBesselI0
    special_erfcx:Erfcx special_ndtri:Ndtri special_i1:ModifiedBesselI1
    special_bessel_j0:BesselJ0 special_bessel_j1:BesselJ1 special_bessel_y0:BesselY0 special_bessel_y1:BesselY1
    special_modified_bessel_i0:ModifiedBesselI0 special_modified_bessel_i1:ModifiedBesselI1
    special_modified_bessel_k0:ModifiedBesselK0 special_modified_bessel_k1:ModifiedBesselK1
    special_scaled_modified_bessel_k0:ScaledModifiedBesselK0
    special_scaled_modified_bessel_k1:ScaledModifiedBesselK1
    special_spherical_bessel_j0:SphericalBesselJ0 special_airy_ai:AiryAi""",
)
_rows(
    _TRUTH,
    """
    eq*:Equal ne*:NotEqual lt*:Less le*:LessEqual gt*:Greater ge*:GreaterEqual logical_not:LogicalNot
    logical_and:LogicalAnd logical_or:LogicalOr logical_xor:LogicalXor""",
)


@row("aten.sign.default", "aten.sgn.default")
def _sign(c: Call) -> Value:
    """Lower sign, which is 0 for NaN."""
    (x,) = c.promoted(c.node.args[0])
    sign = _compute(c.e, "Sign", x)
    if x.dtype.kind != "f":
        return sign
    return c.e.select(c.e.op("IsNan", x), c.e.full((), 0, x.dtype), sign)


@row("aten.special_zeta.default")
def _zeta(c: Call) -> Value:
    """Lower zeta, infinite at its poles: exponent 1, and for larger exponents the integers from 0 down."""
    x, q = c.promoted(*c.node.args, kind=_FLOAT)
    e = c.e
    pole = e.op("LogicalAnd", e.op("LessEqual", q, 0), e.op("Equal", q, e.op("Floor", q)))
    pole = e.op("LogicalAnd", pole, e.op("Greater", x, 1))
    pole = e.op("LogicalOr", pole, e.op("Equal", x, 1))
    found = e.op("Zeta", x, q)
    return e.select(pole, e.full((), math.inf, found.dtype), found)


#: Powers that PyTorch computes with another function, which differs for -0 and -inf.
_ROOTS = {0.5: "Sqrt", -0.5: "Rsqrt"}


@row("aten.pow.Tensor_Scalar")
def _power(c: Call) -> Value:
    x, exponent = c.promoted(*c.node.args)
    if x.dtype.kind == "f":
        c.fitting(c.node.args[1], x.dtype)
    known = exponent.number if exponent.tensor is None else None
    # PyTorch uses no root for float16.
    if known in _ROOTS and x.dtype.kind == "f" and x.dtype.name != "float16":
        return c.e.op(_ROOTS[known], x)
    if known in (3, -2) and x.dtype == BFLOAT16:
        # PyTorch rounds every step.
        square = c.e.op("Mul", x, x)
        return c.e.op("Mul", square, x) if known == 3 else c.e.op("Reciprocal", square)
    return _compute(c.e, "Pow", x, exponent)


def _of_float(name: str) -> None:
    @row(f"aten.{name}.default")
    def convert(c: Call) -> Value:
        (x,) = c.promoted(c.node.args[0], kind=_FLOAT)
        ours = {"isnan": "IsNan", "isinf": "IsInf", "isfinite": "IsFinite", "signbit": "SignBit"}
        if name == "signbit" and c.x().dtype.kind != "f":
            x = c.x()
            return c.e.op("Less", x, 0) if x.dtype != BOOL else c.e.full(x.shape, False, BOOL)
        return c.e.op(ours[name], x)


for _name in ("isnan", "isinf", "isfinite", "signbit"):
    _of_float(_name)


# sums -----------------------------------------------------------------------------------------


def _scaled(c: Call, a: Any, b: Any) -> tuple[Value, Value]:
    """Return the operands of a sum, the second one times ``alpha``."""
    alpha = c.node.kwargs.get("alpha", 1)
    if alpha == 1:
        x, y = c.promoted(a, b)
        return x, y
    x, y = c.widened(a, b)
    return x, _compute(c.e, "Mul", y, c.factor(alpha, y))


@row("aten.add.Tensor", "aten.add.Scalar")
def _add(c: Call) -> Value:
    return _compute(c.e, "Add", *_scaled(c, *c.node.args[:2]))


@row("aten.sub.Tensor", "aten.sub.Scalar")
def _sub(c: Call) -> Value:
    return c.e.op("Sub", *_scaled(c, *c.node.args[:2]))


@row("aten.rsub.Tensor", "aten.rsub.Scalar")
def _rsub(c: Call) -> Value:
    return c.e.op("Sub", *_scaled(c, *c.node.args[1::-1]))


def _unrounded(c: Call, arg: Any) -> Value:
    """Return the first factor of an fma in float32.

    Dynamo decomposes ``addcmul_`` and ``addcdiv_`` into a product or quotient and an fma; eager rounds only the result.
    """
    if isinstance(arg, torch.fx.Node) and c.dtype.bits == 16:
        ours = {"aten.mul.Tensor": "Mul", "aten.div.Tensor": "Div"}.get(str(arg.target))
        parts = [x for a in arg.args if isinstance(x := c.values.get(a), Value)]  # type: ignore[arg-type]
        if ours is not None and [x.dtype for x in parts] == [c.dtype] * 2:
            return c.e.op(ours, *(c.e.cast(x, FLOAT32) for x in parts))
    return c.widened(arg)[0]


@row("prims.fma.default", numbers=Numbers.WIDE)
def _fma(c: Call) -> Value:
    # One rounding or two: PyTorch's own kernels differ by as much.
    a, b, x = c.node.args[:3]
    (wide,) = c.widened(x)
    return c.e.op("Add", c.e.op("Mul", _unrounded(c, a), c.factor(b, wide)), wide)


@row("aten.addcmul.default", numbers=Numbers.WIDE)
def _addcmul(c: Call) -> Value:
    x, a, b = c.widened(*c.node.args[:3])
    scale = c.factor(c.node.kwargs.get("value", 1), x)
    return c.e.op("Add", x, c.e.op("Mul", c.e.op("Mul", scale, a), b))


@row("aten.addcdiv.default", numbers=Numbers.WIDE)
def _addcdiv(c: Call) -> Value:
    x, a, b = c.widened(*c.node.args[:3], kind=_FLOAT)
    scale = c.factor(c.node.kwargs.get("value", 1), x)
    return c.e.op("Add", x, c.e.op("Div", c.e.op("Mul", scale, a), b))


@row("aten.lerp.Scalar", "aten.lerp.Tensor", numbers=Numbers.WIDE)
def _lerp(c: Call) -> Value:
    e = c.e
    a, b = c.widened(*c.node.args[:2])
    w = c.factor(c.node.args[2], a)
    span = e.op("Sub", b, a)
    near = e.op("Add", a, e.op("Mul", w, span))
    if w.tensor is None and abs(w.number) < 0.5:
        return near
    far = e.op("Sub", b, e.op("Mul", span, e.op("Sub", e.full((), 1, w.dtype), w)))
    if w.tensor is None:
        return far
    return e.select(e.op("Less", e.op("Abs", w), 0.5), near, far)


def _times_log(c: Call, log: str) -> Value:
    """Return the product of x and a logarithm of y, with the logarithm rounded to 16 bits; 0 where x is 0."""
    e = c.e
    x, y = c.promoted(*c.node.args[:2], kind=_FLOAT)
    product, zero = e.op("Mul", x, e.op(log, y)), e.full((), 0, x.dtype)
    return e.select(e.op("IsNan", y), y, e.select(e.op("Equal", x, zero), zero, product))


@row("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other")
def _xlogy(c: Call) -> Value:
    return _times_log(c, "Ln")


@row(*(f"aten.special_xlog1py.{o}" for o in ("default", "self_scalar", "other_scalar")))
def _xlog1py(c: Call) -> Value:
    return _times_log(c, "Log1p")


# quotients ------------------------------------------------------------------------------------


@row(
    "aten.div.Tensor",
    "aten.div.Scalar",
    "prims.div.default",
    "aten.true_divide.Tensor",
    numbers=Numbers.SECOND_WIDE,
)
def _div(c: Call) -> Value:
    kind = _SAME if str(c.node.target).startswith("prims") else _FLOAT
    a, b = c.promoted(*c.node.args[:2], kind=kind)
    return c.e.op("Div" if a.dtype.kind == "f" else "TruncDiv", a, b)


@row("aten.div.Tensor_mode", "aten.div.Scalar_mode", numbers=Numbers.SECOND_WIDE)
def _div_mode(c: Call) -> Value:
    mode = c.node.kwargs.get("rounding_mode")
    a, b = c.promoted(*c.node.args[:2], kind=_FLOAT if mode is None else _SAME)
    if mode is None:
        return c.e.op("Div", a, b)
    if mode == "trunc" and a.dtype.kind == "f":
        return c.e.op("Trunc", c.e.op("Div", a, b))
    return c.e.op("FloorDiv" if mode == "floor" else "TruncDiv", a, b)


# limits and choices ---------------------------------------------------------------------------


@row("aten.clamp_min.default", "aten.clamp_min.Tensor")
def _clamp_min(c: Call) -> Value:
    return _compute(c.e, "Maximum", *c.promoted(c.node.args[0], c.arg(1, "min")))


@row("aten.clamp_max.default", "aten.clamp_max.Tensor")
def _clamp_max(c: Call) -> Value:
    return _compute(c.e, "Minimum", *c.promoted(c.node.args[0], c.arg(1, "max")))


def _number_wins(c: Call, name: str) -> Value:
    """Return the maximum or minimum; NaN only if both operands are."""
    a, b = c.promoted(*c.node.args[:2])
    if a.dtype.kind != "f":
        return _compute(c.e, name, a, b)
    e = c.e
    either = e.op(name, a, b)
    return e.select(e.op("IsNan", a), b, e.select(e.op("IsNan", b), a, either))


@row("aten.fmax.default")
def _fmax(c: Call) -> Value:
    return _number_wins(c, "Maximum")


@row("aten.fmin.default")
def _fmin(c: Call) -> Value:
    return _number_wins(c, "Minimum")


@row("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def _where(c: Call) -> Value:
    a, b = c.promoted(*c.node.args[1:3])
    return c.e.select(c.cast(c.node.args[0], BOOL), a, b)


@row("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(c: Call) -> Value:
    x = c.x()
    return c.e.select(c.cast(c.node.args[1], BOOL), c.cast(c.node.args[2], x.dtype), x)


# activations without decomposition ----------------------------------------------------------------


@row("aten.gelu.default")
def _gelu(c: Call) -> Value:
    tanh = c.node.kwargs.get("approximate", "none") == "tanh"
    return c.e.op("GeluTanh" if tanh else "Gelu", c.x())


@row("aten.silu.default")
def _silu(c: Call) -> Value:
    return c.e.op("Silu", c.x())


@row("aten.mish.default")
def _mish(c: Call) -> Value:
    return c.e.op("Mish", c.x())


@row("aten.softplus.default", numbers=Numbers.WIDE)
def _softplus(c: Call) -> Value:
    e, (x,) = c.e, c.widened(c.node.args[0])
    beta = float(c.number(c.arg(1, "beta", 1), "beta"))
    threshold = float(c.number(c.arg(2, "threshold", 20), "the threshold"))
    scaled = x if beta == 1 else e.op("Mul", x, beta)
    soft = e.op("Log1p", e.op("Exp", scaled))
    return e.select(
        e.op("Greater", scaled, threshold), x, soft if beta == 1 else e.op("Div", soft, beta)
    )


@row("aten.leaky_relu.default", numbers=Numbers.WIDE)
def _leaky_relu(c: Call) -> Value:
    slope = float(c.number(c.arg(1, "negative_slope", 0.01), "the slope"))
    (x,) = c.widened(c.node.args[0])
    return c.e.op("LeakyRelu", x, negative_slope=slope)


# element types --------------------------------------------------------------------------------


def _to(c: Call, dtype: DType) -> Value:
    device = c.node.kwargs.get("device")
    if device is not None and device != c.meta_of(0).device:
        raise RefusedError("it moves data between devices")
    return c.e.cast(c.x(), dtype)


@row("prims.convert_element_type.default", "aten._to_copy.default", "aten.to.dtype")
def _convert(c: Call) -> Value:
    return _to(c, c.dtype)


@row("aten.copy.default", kind=Kind.COPY)
def _copy(c: Call) -> Value:
    return c.e.cast(c.value(c.node.args[1]), c.dtype)


@row("aten.frexp.Tensor")
def _frexp(c: Call) -> list[Value]:
    return [c.e.op("FrexpMantissa", c.x()), c.e.op("FrexpExponent", c.x())]
