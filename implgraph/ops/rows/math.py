"""Rows of exponentials, logarithms, trigonometric and hyperbolic functions that the chip has no call for.

All are computed in float32.  Polynomials come from ``coefficients.py``; arguments are reduced in two or three parts
(Cody and Waite, Software Manual for the Elementary Functions), and the rounding error of a large plus a small term is
added to the small terms.  No step needs a fused multiply-add.
"""

from __future__ import annotations

import math

import numpy as np

from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.formulas import coefficients as c
from autofuse.implgraph.ops.formulas.vector_math import Vec, horner, two_sum
from autofuse.implgraph.ops.row_kinds import composite

__all__ = [
    "ROWS",
    "exp_parts",
    "expm1",
    "expm1_below",
    "log1p",
    "log1p_of_exp",
    "log_parts",
    "power_of_two",
    "scaled",
    "sine_of_pi",
]

SINGLE, INT32 = BY_NAME["float32"], BY_NAME["int32"]
INF = math.inf
LN2 = math.log(2.0)
#: ln 2 in two parts: a product of the first with an integer below 2^15 is exact.
LN2_HI, LN2_LO = 0.693359375, -2.12194440054690583e-4
#: pi/2 in five parts; products of the first four with an integer below 2^16 are exact.
HALF_PI = (
    1.5703125,
    0.0004825592041015625,
    1.2665987014770508e-06,
    9.89530235528946e-10,
    2.5633440682570896e-12,
)
#: Largest argument of a tangent: 2^16 times pi/2.
TURNS = 102943.0
#: pi/2 and pi/4 as float32, and their rounding errors.
PI_2, PI_2_LO = float(np.float32(math.pi / 2)), math.pi / 2 - float(np.float32(math.pi / 2))
PI_4, PI_4_LO = PI_2 / 2, PI_2_LO / 2
CODY_WAITE = "Cody-Waite reduction, own minimax-grade polynomial"


# exponentials -----------------------------------------------------------------------------------
def power_of_two(k: Vec) -> Vec:
    """Return 2^k as float32 from an int32 k between -126 and 127."""
    return k.bits_plus(127).shl(23, SINGLE)


def scaled(value: Vec, k: Vec) -> Vec:
    """Return value * 2^k in two steps, since 2^k may be out of range; rounds once where the result is subnormal."""
    half = k.sar(1)
    return value * power_of_two(half) * power_of_two(k.bits_minus(half))


def exp_parts(x: Vec) -> tuple[Vec, Vec]:
    """Return (m, k) with e^x = 2^k (1 + m), |m| < 0.42, k int32; |x| at most 2^14."""
    turns = (x * (1.0 / LN2)).rint()
    high = x - turns * LN2_HI
    low = turns * LN2_LO
    r = high - low
    lost = (high - r) - low
    return r + (horner(r, c.EXP) * r * r + lost), turns.cast(INT32)


def expm1(x: Vec) -> Vec:
    """Return exp(x) - 1 from the chip's exponential u, corrected for rounding and the chip's error by u (x - ln u).

    The correction applies where u is below 2; above, ln u loses more, and the result has the error of u.
    """
    a = x.maximum(-30.0)
    u = a.exp()
    low = u.minimum(2.0)
    return (u - 1.0) + low * (a.minimum(LN2) - low.ln())


def expm1_below(x: Vec) -> Vec:
    """Return exp(x) - 1 for x <= 0."""
    a = x.maximum(-30.0)
    u = a.exp()
    return (u - 1.0) + u * (a - u.ln())


def _exp2(x: Vec) -> Vec:
    clamped = x.maximum(-151.0).minimum(129.0)
    turns = clamped.rint()
    z = (clamped - turns) * LN2
    return scaled(z + horner(z, c.EXP) * z * z + 1.0, turns.cast(INT32))


# 16-bit formulas: Exp and Ln of float32 are accurate enough.
def _short_exp2(x: Vec) -> Vec:
    return (x * LN2).exp()


def _short_log2(x: Vec) -> Vec:
    return x.ln() * (1.0 / LN2)


def _short_log10(x: Vec) -> Vec:
    return x.ln() * (1.0 / math.log(10.0))


def _half_exp(x: Vec) -> Vec:
    """Return e^x / 2 for x >= 0; infinite only where cosh is."""
    m, k = exp_parts(x.minimum(90.0))
    return scaled(m + 1.0, k.bits_plus(-1))


def _sinh(x: Vec) -> Vec:
    a = abs(x)
    h = _half_exp(a)
    u = a * a
    value = (a < 1.0).choose(a + horner(u, c.SINH) * u * a, h - 0.25 / h)
    return value.with_sign_of(x)


def _cosh(x: Vec) -> Vec:
    h = _half_exp(abs(x))
    return h + 0.25 / h


# logarithms -------------------------------------------------------------------------------------
def log_parts(x: Vec) -> tuple[Vec, Vec, Vec]:
    """Return (e, f, d) with ln x = e ln 2 + f - d, 1 + f between sqrt(1/2) and sqrt(2); x positive and finite."""
    tiny = x < 2.0**-126
    normal = tiny.choose(x * 2.0**24, x)
    steps = normal.bits_plus(-0x3F3504F3).sar(23)
    f = normal.bits_minus(steps.shl(23), SINGLE) - 1.0
    whole = steps.cast(SINGLE)
    e = tiny.choose(whole - 24.0, whole)
    square = f * f
    return e, f, square * 0.5 - square * f * horner(f, c.LOG)


def _log_ends(x: Vec, value: Vec) -> Vec:
    """Patch the value of a logarithm at 0, infinity, below 0 and NaN."""
    inside = (x < INF).choose(value, x)
    below = x.equals(0.0).choose(inside * 0.0 - INF, inside * math.nan)
    return (x > 0.0).choose(inside, below)


def _log_of(x: Vec, high: float, low: float, factor: float) -> Vec:
    """Compute ln x * factor, where high + low = ln 2 * factor and products of ``high`` with exponents are exact."""
    e, f, d = log_parts(x.minimum(3.4028234663852886e38))
    if factor == 1.0:
        total, lost = two_sum(e * high, f)
        return _log_ends(x, total + (lost - (d - e * low)))
    # Split factor in two, the first part of 12 bits, so that its product with f loses little.
    coarse = float(np.float32(np.ldexp(np.rint(np.ldexp(factor, 10)), -10)))
    log = f - d
    rest = (f - log) - d
    part = log * coarse
    total, lost = two_sum(e * high, part)
    return _log_ends(x, total + (lost + (log * (factor - coarse) + rest * factor + e * low)))


def _log2(x: Vec) -> Vec:
    return _log_of(x, 1.0, 0.0, 1.0 / LN2)


_LOG10_2 = math.log10(2.0)
_LOG10_2_HI = float(np.float32(np.rint(_LOG10_2 * 2.0**13) / 2.0**13))


def _log10(x: Vec) -> Vec:
    return _log_of(x, _LOG10_2_HI, _LOG10_2 - _LOG10_2_HI, 1.0 / math.log(10.0))


def log1p(x: Vec) -> Vec:
    """Return the logarithm of 1 + x: ln(u) + (1 + x - u)/u, where u is 1 + x rounded."""
    inside = x.minimum(3.4028234663852886e38)
    u = inside + 1.0
    # The rounding error; up to 2^24 both differences are exact, beyond that it is negligible.
    lost = inside - (u - 1.0)
    # Negated twice to keep -0 in the sum.  The limits avoid 0/0 at infinity and -1.
    return -(-(u.maximum(x).ln()) - lost / u.maximum(2.0**-30))


def log1p_of_exp(a: Vec) -> Vec:
    """Return ln(1 + exp(-a)) for a >= 0: log1p of an argument that is neither negative nor large."""
    e = (-a).exp()
    u = e + 1.0
    return u.ln() + (e - (u - 1.0)) / u


# inverse hyperbolic -----------------------------------------------------------------------------
def _asinh(x: Vec) -> Vec:
    a = abs(x)
    small = a.minimum(2.0**30)
    square = small * small
    value = log1p(small + square / ((square + 1.0).sqrt() + 1.0))
    large = a.maximum(2.0).ln() + LN2
    return (a < 2.0**29).choose(value, large).with_sign_of(x)


def _acosh(x: Vec) -> Vec:
    t = x.minimum(2.0**30) - 1.0
    value = log1p(t + (t * 2.0 + t * t).sqrt())
    known = (x < 2.0**29).choose(value, x.maximum(2.0).ln() + LN2)
    return (x >= 1.0).choose(known, x * math.nan)


def _atanh(x: Vec) -> Vec:
    a = abs(x)
    value = log1p(a * 2.0 / (1.0 - a)) * 0.5
    return value.with_sign_of(x)


# trigonometric ----------------------------------------------------------------------------------
def _sine(r: Vec, u: Vec) -> Vec:
    return r + horner(u, c.SIN) * u * r


def _cosine(u: Vec) -> Vec:
    return 1.0 - (u * 0.5 - horner(u, c.COS) * u * u)


def _tan(x: Vec) -> Vec:
    n = (x * (2.0 / math.pi)).rint()
    first, second, third, fourth, fifth = HALF_PI
    # x less n pi/2 as r + low: the first two steps are exact, the rounding errors of the next two are kept.
    r = x - n * first - n * second
    low = n * -fifth
    for part in (third, fourth):
        step = n * part
        near = r - step
        low = low + ((r - near) - step)
        r = near
    half = n * 0.5
    is_odd = (half - half.rint("FLOOR")) > 0.25
    u = r * r
    value = r + (horner(u, c.TAN) * u * r + (low + low * u))
    value = is_odd.choose(-1.0 / value, value)
    value = x.equals(0.0).choose(x, value)
    return (abs(x) <= TURNS).choose(value, math.nan)


def tangent(x: np.ndarray) -> np.ndarray:
    """Return the reference of Tan: NaN beyond the op's largest argument."""
    return np.asarray(np.where(np.abs(x) <= TURNS, np.tan(x), np.nan))


def sine_of_pi(x: Vec) -> Vec:
    """Return |sin(pi x)|, exact at integers, since the distance to the nearest integer is exact."""
    f = abs(x - x.rint())
    near = f <= 0.25
    r = near.choose(f, 0.5 - f) * math.pi
    u = r * r
    return near.choose(_sine(r, u), _cosine(u))


def _atan(x: Vec) -> Vec:
    a = abs(x)
    far, middle = a > 1.65, a > 0.6
    t = far.choose(-1.0 / a, middle.choose((a - 1.0) / (a + 1.0), a))
    u = t * t
    curve = horner(u, c.ATAN) * u * t
    outer = far.choose(t + (curve + PI_2_LO) + PI_2, t + (curve + PI_4_LO) + PI_4)
    return middle.choose(outer, t + curve).with_sign_of(x)


def _atan2(y: Vec, x: Vec) -> Vec:
    ax, ay = abs(x), abs(y)
    large, small = ax.maximum(ay), ax.minimum(ay)
    # Some chips divide subnormal numbers as zeros; a quotient of two of them would be NaN.
    tiny = large < 2.0**-100
    large, small = (tiny.choose(z * 2.0**64, z) for z in (large, small))
    q = small / large
    # Two zeros give the angle 0, two infinities pi/4.
    q = large.equals(0.0).choose(large, q)
    q = small.equals(INF).choose(1.0, q)
    middle = q > 0.6
    t = middle.choose((q - 1.0) / (q + 1.0), q)
    u = t * t
    curve = t + horner(u, c.ATAN) * u * t
    angle = middle.choose(curve + PI_4_LO, curve)
    base = middle.choose(PI_4, 0.0)
    # The angle in its octant is base + angle; reflect at the diagonal, then at the axis.
    swapped = ay > ax
    base = swapped.choose(PI_2 - base, base)
    angle = swapped.choose(PI_2_LO - angle, angle)
    left = x.unit() < 0.0
    base = left.choose(2.0 * PI_2 - base, base)
    angle = left.choose(2.0 * PI_2_LO - angle, angle)
    return abs(base + angle).with_sign_of(y)


def _asin_parts(a: Vec) -> tuple[Vec, Vec]:
    """Return (s, poly) with asin s = s + poly: s is a up to 1/2, and the root of (1 - a)/2 beyond."""
    near = a <= 0.5
    z = near.choose(a * a, (1.0 - a) * 0.5)
    s = near.choose(a, z.sqrt())
    return s, horner(z, c.ASIN) * z * s


def _asin(x: Vec) -> Vec:
    a = abs(x)
    s, poly = _asin_parts(a)
    far = PI_2 - (s * 2.0 + (poly * 2.0 - PI_2_LO))
    return (a <= 0.5).choose(s + poly, far).with_sign_of(x)


def _acos(x: Vec) -> Vec:
    a = abs(x)
    s, poly = _asin_parts(a)
    signed = s.with_sign_of(x)
    curve = poly * x.unit()
    middle = PI_2 - (signed + (curve - PI_2_LO))
    right = (s + poly) * 2.0
    left = 2.0 * PI_2 - (right - 2.0 * PI_2_LO)
    return (a <= 0.5).choose(middle, (x > 0.0).choose(right, left))


def _hypot(x: Vec, y: Vec) -> Vec:
    ax, ay = abs(x), abs(y)
    large = ax.maximum(ay)
    huge, tiny = large > 2.0**60, large < 2.0**-60
    factor = huge.choose(2.0**-70, tiny.choose(2.0**70, 1.0))
    p, q = ax * factor, ay * factor
    value = (p * p + q * q).sqrt() / factor
    # An infinity with NaN gives infinity.
    return (ax.equals(INF) | ay.equals(INF)).choose(INF, value)


ROWS: tuple[OpDef, ...] = (
    composite(
        "Expm1",
        expm1,
        np.expm1,
        aliases=("Expm",),
        doc="exp(x) - 1",
        source="u - 1 + u (x - ln u), u = exp(x) as rounded; set by Ascend's Exp and Ln",
        special=True,
    ),
    composite(
        "Exp2",
        _exp2,
        np.exp2,
        short=_short_exp2,
        doc="2**x",
        source="exact reduction to |r| <= 1/2, own polynomial; of 16 bits exp(x ln 2)",
        special=True,
    ),
    composite(
        "Log2",
        _log2,
        np.log2,
        short=_short_log2,
        doc="binary logarithm",
        source=f"{CODY_WAITE}; of 16 bits Ln",
        special=True,
    ),
    composite(
        "Log10",
        _log10,
        np.log10,
        short=_short_log10,
        doc="decimal logarithm",
        source=f"{CODY_WAITE}; of 16 bits Ln",
        special=True,
    ),
    composite(
        "Log1p",
        log1p,
        np.log1p,
        doc="ln(1 + x)",
        ulp=3.0,
        source="ln(u) + (1 + x - u)/u, u = 1 + x rounded; set by Ascend's Ln",
    ),
    composite("Sinh", _sinh, np.sinh, doc="hyperbolic sine", source="of expm1 and e^x/2"),
    composite("Cosh", _cosh, np.cosh, doc="hyperbolic cosine", source="of e^x/2"),
    composite(
        "Asinh",
        _asinh,
        np.arcsinh,
        ulp=3.0,
        doc="inverse of sinh",
        source="of log1p (Abramowitz-Stegun 4.6.20)",
    ),
    composite(
        "Acosh",
        _acosh,
        np.arccosh,
        ulp=3.0,
        doc="inverse of cosh",
        source="of log1p (Abramowitz-Stegun 4.6.21)",
    ),
    composite(
        "Atanh",
        _atanh,
        np.arctanh,
        ulp=3.0,
        doc="inverse of tanh",
        source="of log1p (Abramowitz-Stegun 4.6.22)",
    ),
    composite(
        "Tan",
        _tan,
        tangent,
        doc="tangent; NaN for |x| above 102943",
        source="Cody-Waite reduction by pi/2 in five parts, own polynomials",
    ),
    composite(
        "Atan",
        _atan,
        np.arctan,
        doc="inverse of tan",
        source="pi/4 + atan((a-1)/(a+1)) from 0.6, pi/2 - atan(1/a) from 1.65, own polynomial",
    ),
    composite(
        "Atan2",
        _atan2,
        np.arctan2,
        2,
        ulp=2.0,
        doc="angle of the point (b, a)",
        source="as Atan, by octants",
    ),
    composite(
        "Asin",
        _asin,
        np.arcsin,
        doc="inverse of sin",
        source="own polynomial; asin a = pi/2 - 2 asin sqrt((1-a)/2)",
    ),
    composite("Acos", _acos, np.arccos, doc="inverse of cos", source="as Asin"),
    composite(
        "Hypot",
        _hypot,
        np.hypot,
        2,
        doc="sqrt(a*a + b*b) without overflow",
        source="scaled by a power of two",
    ),
)
