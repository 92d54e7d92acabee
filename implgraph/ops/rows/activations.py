"""Rows of activations, float classification and sign handling: short compositions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attr, Attrs, OpDef, OpSink
from autofuse.implgraph.ops.formulas import coefficients as c
from autofuse.implgraph.ops.formulas.special_reference import erfc
from autofuse.implgraph.ops.formulas.vector_math import (
    Mask,
    Vec,
    formula,
    horner,
    monic,
    two_product,
    two_sum,
)
from autofuse.implgraph.ops.row_kinds import BF16, HALF, composite, elementwise, with_attrs
from autofuse.implgraph.ops.rows.math import expm1, expm1_below, log1p_of_exp
from autofuse.implgraph.ops.rules import broadcast_shape, float_dtype, number_dtype, reference_of

__all__ = ["ROWS", "normal_below"]

SINGLE = BY_NAME["float32"]
INF = math.inf
ROOT_HALF = math.sqrt(0.5)
#: Scale of the tanh form of Gelu.
GELU_SCALE = math.sqrt(8.0 / math.pi)


# the Gaussian integral ------------------------------------------------------------------------
#: Adding and subtracting this rounds a number below 2^14 to multiples of 2^-8.
_TO_EIGHT_BITS = 1.5 * 2.0**15


def _decay(a: Vec, factor: float) -> Vec:
    """Return exp(factor * a^2) for 0 <= a <= 15: the square of a with 8 fraction bits is exact."""
    near = (a + _TO_EIGHT_BITS) - _TO_EIGHT_BITS
    return (near * near * factor).exp() * ((a - near) * (a + near) * factor).exp()


def _over_decay(a: Vec) -> tuple[Vec, Vec]:
    """Return numerator and denominator of Ndtr(-a) exp(a^2/2), for a >= 0."""
    above, below = c.NORMAL_TAIL
    return horner(a, above), monic(a, below)


def _erfc(x: Vec) -> Vec:
    a = abs(x).minimum(11.0)
    above, below = _over_decay(a * math.sqrt(2.0))
    tail = above / below * _decay(a, -1.0) * 2.0
    return (x < 0.0).choose(2.0 - tail, tail)


def normal_below(x: Vec) -> Vec:
    """Return the normal distribution function."""
    a = abs(x).minimum(15.0)
    above, below = _over_decay(a)
    tail = above / below * _decay(a, -0.5)
    return (x > 0.0).choose(1.0 - tail, tail)


def _gelu(x: Vec) -> Vec:
    # Clamping avoids infinity times 0; the result is 0 long before.
    a = abs(x).minimum(15.0)
    above, below = _over_decay(a)
    return x.maximum(0.0) - above * (a * _decay(a, -0.5)) / below


def _short_tail(a: Vec) -> Vec:
    """Return Ndtr(-a) for 16-bit results, for a from 0 to 15, where it is 0."""
    above, below = c.NORMAL_TAIL_SHORT
    return (a * a * -0.5).exp() * horner(a, above) / monic(a, below)


def _short_erfc(x: Vec) -> Vec:
    tail = _short_tail((abs(x) * math.sqrt(2.0)).minimum(15.0)) * 2.0
    return (x < 0.0).choose(2.0 - tail, tail)


def _short_normal_below(x: Vec) -> Vec:
    tail = _short_tail(abs(x).minimum(15.0))
    return (x > 0.0).choose(1.0 - tail, tail)


def _short_gelu(x: Vec) -> Vec:
    a = abs(x).minimum(15.0)
    return x.maximum(0.0) - a * _short_tail(a)


#: Absolute value of the argument at which the slope of Gelu is 0.
GELU_LEAST = 0.7517915246935645


def _gelu_slope(x: Vec) -> Vec:
    a = abs(x).minimum(15.0)
    above, below = _over_decay(a)
    negative = (a * (1.0 / math.sqrt(2.0 * math.pi)) - above / below) * _decay(a, -0.5)
    return (x > 0.0).choose(negative + 1.0, -negative)


def _short_gelu_slope(x: Vec) -> Vec:
    a = abs(x).minimum(15.0)
    above, below = c.GELU_SLOPE
    # Factoring out the zero keeps the error relative there as well.
    negative = (a * a * -0.5).exp() * (a - GELU_LEAST) * horner(a, above) / monic(a, below)
    return (x > 0.0).choose(negative + 1.0, -negative)


def _gelu_slope_reference(x: np.ndarray) -> np.ndarray:
    near = np.clip(x, -60.0, 60.0)
    density = np.exp(-0.5 * near * near) / math.sqrt(2.0 * math.pi)
    return np.asarray(0.5 * erfc(-x * ROOT_HALF) + near * density)


def _gelu_tanh(x: Vec) -> Vec:
    a = x.maximum(-30.0)
    return _gated(a, (a * a * 0.044715 + 1.0) * a * GELU_SCALE)


def _short_gelu_tanh(x: Vec) -> Vec:
    a = x.maximum(-30.0)
    return _short_gated(a, (a * a * (0.044715 * GELU_SCALE) + GELU_SCALE) * a)


def _gelu_tanh_reference(x: np.ndarray) -> np.ndarray:
    a = np.maximum(x, -30.0)
    return np.asarray(a / (1.0 + np.exp(-GELU_SCALE * (a + 0.044715 * a**3))))


def _gelu_reference(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, -60.0) * 0.5 * erfc(-x * ROOT_HALF))


# activations ----------------------------------------------------------------------------------
def _gated(x: Vec, z: Vec) -> Vec:
    """Return x / (1 + exp(-z)); for negative z the exponential is split into two factors, as it may be subnormal."""
    half = (z.minimum(0.0) * 0.5).exp()
    return x * half * half / ((-abs(z)).exp() + 1.0)


def _short_gated(x: Vec, z: Vec) -> Vec:
    """Return x / (1 + exp(-z)) for 16-bit results, where the exponential of a very negative z may be 0."""
    e = z.minimum(40.0).exp()
    return x * (e / (e + 1.0))


def _finite_below(x: Vec, alpha: float) -> Vec:
    """Return x, clamped where alpha x is so far below 0 that x / (1 + exp(-alpha x)) is 0."""
    if alpha == 0.0:
        return x
    return x.maximum(-300.0 / alpha) if alpha > 0.0 else x.minimum(-300.0 / alpha)


def _silu(x: Vec, alpha: float = 1.0) -> Vec:
    return _gated(_finite_below(x, alpha), x * alpha if alpha != 1.0 else x)


def _short_silu(x: Vec, alpha: float = 1.0) -> Vec:
    return _short_gated(_finite_below(x, alpha), x * alpha if alpha != 1.0 else x)


def _silu_reference(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    cut = -1e4 / alpha if alpha != 0.0 else -INF
    kept = np.minimum(x, cut) if alpha < 0.0 else np.maximum(x, cut)
    return np.asarray(kept / (1.0 + np.exp(-alpha * x)))


def _softplus(x: Vec) -> Vec:
    return x.maximum(0.0) + log1p_of_exp(abs(x))


def _log_sigmoid(x: Vec) -> Vec:
    return x.minimum(0.0) - log1p_of_exp(abs(x))


def _tanh_softplus(x: Vec) -> Vec:
    # n/(n + 2) with n = e (e + 2); it is 1 for x >= 20.
    e = x.minimum(20.0).exp()
    n = (e + 2.0) * e
    return n / (n + 2.0)


def _mish(x: Vec) -> Vec:
    # As above; the factor e of n is split in two, as in _gated, and kept small before x, so that nothing overflows.
    half = (x.minimum(20.0) * 0.5).exp()
    e = half * half
    factor = e + 2.0
    ratio = factor * half / (factor * e + 2.0)
    return x.maximum(-300.0) * ratio * half


def _short_mish(x: Vec) -> Vec:
    return x.maximum(-300.0) * _tanh_softplus(x)


def _mish_reference(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, -1e3) * np.tanh(np.logaddexp(0.0, x)))


def _elu(x: Vec, alpha: float = 1.0) -> Vec:
    below = expm1_below(x.minimum(0.0))
    return x.maximum(0.0) + (below if alpha == 1.0 else below * alpha)


def _elu_reference(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.asarray(np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))


SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def _selu(x: Vec, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Vec:
    return x.maximum(0.0) * gamma + expm1_below(x.minimum(0.0)) * (alpha * gamma)


def _selu_reference(
    x: np.ndarray, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA
) -> np.ndarray:
    return gamma * _elu_reference(x, alpha)


def _celu(x: Vec, alpha: float = 1.0) -> Vec:
    z = x.minimum(0.0) * (1.0 / alpha)
    return x.maximum(0.0) + (expm1_below(z) if alpha > 0.0 else expm1(z)) * alpha


def _celu_reference(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.asarray(np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)))


def _hard_sigmoid(x: Vec, alpha: float = 0.2, beta: float = 0.5) -> Vec:
    return (x * alpha + beta).maximum(0.0).minimum(1.0)


def _hard_sigmoid_reference(x: np.ndarray, alpha: float = 0.2, beta: float = 0.5) -> np.ndarray:
    """Evaluate in float32, as the op is defined: near 0 the sum consists of rounding errors."""
    line = x.astype(np.float32) * np.float32(alpha) + np.float32(beta)
    return np.asarray(np.minimum(np.maximum(line, 0), 1), np.float64)


def _hard_swish(x: Vec) -> Vec:
    return x * _hard_sigmoid(x, 1.0 / 6.0, 0.5)


def _hard_swish_reference(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * _hard_sigmoid_reference(x, 1.0 / 6.0, 0.5))


def _softsign(x: Vec) -> Vec:
    return x / (abs(x) + 1.0)


def _softsign_reference(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1.0 + np.abs(x)))


def _thresholded_relu(x: Vec, alpha: float = 1.0) -> Vec:
    return (x > alpha).choose(x, x.like(0.0))


def _shrink(x: Vec, lambd: float = 0.5, bias: float = 0.0) -> Vec:
    low, high = x < -lambd, x > lambd
    return high.choose(x - bias, low.choose(x + bias, x.like(0.0)))


def _shrink_reference(x: np.ndarray, lambd: float = 0.5, bias: float = 0.0) -> np.ndarray:
    return np.asarray(np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0)))


def _leaky_relu(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    slope = s.constant(attrs.get("negative_slope", 0.01), s.dtype_of(xs[0]))
    return s.emit("LeakyRelus", (xs[0], slope))


def _leaky_reference(x: np.ndarray, negative_slope: float = 0.01) -> np.ndarray:
    return np.asarray(np.where(x >= 0, x, x * negative_slope))


def _prelu(x: Vec, slope: Vec) -> Vec:
    return (x < 0.0).choose(x * slope, x)


# fused multiply-add ---------------------------------------------------------------------------
def _fma(a: Vec, b: Vec, addend: Vec) -> Vec:
    """Compute a * b + c with an exact product, so the result is rounded almost only once."""
    product, lost = two_product(a, b)
    total, rest = two_sum(product, addend)
    corrected = total + (lost + rest)
    # Fall back where the halves of a factor overflow or the sum is infinite.
    usable = (abs(corrected) < INF) & (abs(product) > 2.0**-100)
    return usable.choose(corrected, a * b + addend)


def _fma_of(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    """Expand an integer Fma to a product and a sum, which wrap."""
    if s.dtype_of(xs[0]).kind in "iu":
        return s.emit("Add", (s.emit("Mul", xs[:2]), xs[2]))
    return formula(_fma, "float32")(s, xs, attrs)


# signs and classes ----------------------------------------------------------------------------
def _copysign(x: Vec, y: Vec) -> Vec:
    return abs(x).with_sign_of(y)


def _is_nan(x: Vec) -> Mask:
    return x.differs(x)


def _is_finite(x: Vec) -> Mask:
    return abs(x) < INF


def _is_inf(x: Vec, detect_negative: bool = True, detect_positive: bool = True) -> Mask:
    if detect_negative and detect_positive:
        return abs(x).equals(INF)
    if detect_negative or detect_positive:
        return x.equals(INF if detect_positive else -INF)
    return x < -INF


def _is_inf_reference(
    x: np.ndarray, detect_negative: bool = True, detect_positive: bool = True
) -> np.ndarray:
    return (np.isposinf(x) & detect_positive) | (np.isneginf(x) & detect_negative)


def _sign_bit(x: Vec) -> Mask:
    return x.unit() < 0.0


def _class_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    float_dtype(dtypes, attrs)
    return BY_NAME["bool"]


def _class(name: str, fn: Any, reference: Any, doc: str, **kw: Any) -> OpDef:
    """Return the row of a float test; half is tested directly, unless the test uses float32 bits."""
    native = kw.pop("native", True)
    fields: dict[str, Any] = {
        "reference": reference if kw.get("attrs") else reference_of(reference),
        "expand": formula(fn, "float32", *(["float16"] if native else [])),
        "promote": BF16 if native else HALF,
        "cost": "compare",
        "ulp": 0.0,
        "doc": doc,
    } | kw
    return OpDef(name, (1, 1), _class_dtype, broadcast_shape, "elewise", **fields)


def _attr(name: str, default: float, doc: str) -> Attr:
    return Attr(name, "float", default, doc=doc)


_ALPHA = _attr("alpha", 1.0, "factor")
_SELU = (_attr("alpha", SELU_ALPHA, "factor below 0"), _attr("gamma", SELU_GAMMA, "factor"))
_HARD = (_attr("alpha", 0.2, "slope"), _attr("beta", 0.5, "value at 0"))
_SHRINK = (_attr("lambd", 0.5, "half width"), _attr("bias", 0.0, "amount subtracted"))
_SLOPE = _attr("negative_slope", 0.01, "factor below 0")
_DETECT = (
    Attr("detect_negative", "bool", True, doc="count -inf"),
    Attr("detect_positive", "bool", True, doc="count inf"),
)


def _activation(name: str, fn: Any, reference: Any, doc: str, *attrs: Attr, **kw: Any) -> OpDef:
    fields: dict[str, Any] = {"attrs": attrs, "doc": doc, "ulp": 3.0} | kw
    return composite(name, fn, with_attrs(reference, *attrs) if attrs else reference, **fields)


TAIL = "own quotient of polynomials, times exp(-x^2/2) in two factors; set by Ascend's Exp"

ROWS: tuple[OpDef, ...] = (
    composite("Erfc", _erfc, erfc, short=_short_erfc, ulp=8.0, doc="1 - erf(x)", source=TAIL),
    composite(
        "Ndtr",
        normal_below,
        lambda x: 0.5 * erfc(-x * ROOT_HALF),
        short=_short_normal_below,
        ulp=8.0,
        doc="normal distribution function",
        source=TAIL,
    ),
    _activation(
        "Gelu",
        _gelu,
        _gelu_reference,
        "x Ndtr(x)",
        short=_short_gelu,
        ulp=10.0,
        source=TAIL,
        special=True,
    ),
    _activation(
        "GeluSlope",
        _gelu_slope,
        _gelu_slope_reference,
        "derivative of Gelu: Ndtr(x) + x exp(-x^2/2)/sqrt(2 pi)",
        short=_short_gelu_slope,
        ulp=14.0,
        absolute=3e-7,
        source=TAIL,
    ),
    _activation(
        "GeluTanh",
        _gelu_tanh,
        _gelu_tanh_reference,
        "x / (1 + exp(-sqrt(8/pi) (x + 0.044715 x^3)))",
        short=_short_gelu_tanh,
        ulp=200.0,
        source="the error is relative to a result that vanishes; 4 ulp of x for x from -2",
    ),
    _activation(
        "Silu",
        _silu,
        _silu_reference,
        "x / (1 + exp(-alpha x))",
        _ALPHA,
        short=_short_silu,
        ulp=5.0,
        aliases=("Swish",),
    ),
    _activation(
        "Softplus", _softplus, lambda x: np.logaddexp(0.0, x), "ln(1 + exp(x))", special=True
    ),
    _activation(
        "LogSigmoid",
        _log_sigmoid,
        lambda x: -np.logaddexp(0.0, -x),
        "ln(1/(1 + exp(-x)))",
        special=True,
    ),
    _activation(
        "TanhSoftplus",
        _tanh_softplus,
        lambda x: np.tanh(np.logaddexp(0.0, x)),
        "tanh(ln(1 + exp(x))), the factor of Mish",
        ulp=5.0,
    ),
    _activation(
        "Mish", _mish, _mish_reference, "x tanh(ln(1 + exp(x)))", short=_short_mish, ulp=5.0
    ),
    _activation("Elu", _elu, _elu_reference, "x, or alpha (exp(x) - 1) below 0", _ALPHA),
    _activation("Selu", _selu, _selu_reference, "gamma Elu(x)", *_SELU, ulp=4.0),
    _activation(
        "Celu",
        _celu,
        _celu_reference,
        "x, or alpha (exp(x/alpha) - 1) below 0",
        _ALPHA,
        ulp=4.0,
    ),
    _activation(
        "HardSigmoid",
        _hard_sigmoid,
        _hard_sigmoid_reference,
        "alpha x + beta clamped to 0..1, in float32",
        *_HARD,
        ulp=1.0,
        each_step=True,
    ),
    _activation(
        "HardSwish",
        _hard_swish,
        _hard_swish_reference,
        "x HardSigmoid(x; 1/6, 1/2); NaN for -inf",
        ulp=2.0,
        each_step=True,
    ),
    _activation(
        "Softsign", _softsign, _softsign_reference, "x / (1 + |x|); NaN for infinities", ulp=1.5
    ),
    _activation(
        "ThresholdedRelu",
        _thresholded_relu,
        lambda x, alpha=1.0: np.where(x > alpha, x, 0.0),
        "x above alpha, else 0, also for NaN",
        _ALPHA,
        ulp=0.0,
    ),
    _activation(
        "Shrink",
        _shrink,
        _shrink_reference,
        "bias nearer to 0 outside lambd, else 0, also for NaN",
        *_SHRINK,
        ulp=0.5,
    ),
    elementwise(
        "LeakyRelu",
        (1, 1),
        float_dtype,
        with_attrs(_leaky_reference, _SLOPE),
        attrs=(_SLOPE,),
        expand=_leaky_relu,
        promote=BF16,
        cost="unary",
        ulp=1.0,
        doc="x, or negative_slope * x below 0",
    ),
    composite(
        "PRelu",
        _prelu,
        lambda x, slope: np.where(x < 0, x * slope, x),
        2,
        ulp=0.5,
        doc="a, or a * b below 0",
    ),
    composite(
        "Fma",
        _fma,
        lambda a, b, d: a * b + d,
        3,
        dtype_rule=number_dtype,
        expand=_fma_of,
        promote=HALF | {"int8": "int16", "uint8": "int16"},
        ulp=2.0,
        doc="a * b + c; integers wrap; for floats the product is exact while |a|, |b| < 2^115 and |a b| > 2^-100",
        source="Dekker's product, Knuth's sum",
    ),
    composite(
        "CopySign",
        _copysign,
        np.copysign,
        2,
        ulp=0.0,
        doc="|a| with the sign of b",
        source="sign bit",
    ),
    _class("IsNan", _is_nan, np.isnan, "true where x is NaN", aliases=("Isnan",)),
    _class("IsFinite", _is_finite, np.isfinite, "true where x is finite"),
    _class(
        "IsInf",
        _is_inf,
        with_attrs(_is_inf_reference, *_DETECT),
        "true where x is infinite",
        attrs=_DETECT,
    ),
    _class(
        "SignBit",
        _sign_bit,
        np.signbit,
        "true where the sign bit is set, also for -0 and NaN",
        native=False,
    ),
)
