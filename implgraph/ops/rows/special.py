"""Rows of special functions: inverse error function, gamma family, Bessel, Airy, orthogonal polynomials.

Computed in float32 from the polynomials in ``coefficients.py``.  Where the zeros of a function are not float32 numbers
(Bessel, Airy, lgamma and digamma left of 0), the error is small relative to the function's amplitude, not to a value
near such a zero: the bound in the row's text refers to the amplitude, and ``ulp`` is the comparison's tolerance
elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attr, Attrs, OpDef, OpError, OpSink
from autofuse.implgraph.ops.formulas import coefficients as c
from autofuse.implgraph.ops.formulas import special_reference as ref
from autofuse.implgraph.ops.formulas.vector_math import Vec, horner, two_product
from autofuse.implgraph.ops.row_kinds import HALF, composite, elementwise, with_attrs
from autofuse.implgraph.ops.rows.math import log1p, power_of_two, scaled, sine_of_pi
from autofuse.implgraph.ops.rules import float_dtype, reference_of

__all__ = ["ROWS"]

SINGLE, INT32 = BY_NAME["float32"], BY_NAME["int32"]
INF, NAN = math.inf, math.nan
LARGEST = 3.4028234663852886e38


# error functions --------------------------------------------------------------------------------
def _erfcx(x: Vec) -> Vec:
    a = abs(x).minimum(LARGEST / 4)
    t = (a - 2.0) / (a + 2.0)
    value = horner(t, c.ERFCX) / (a + 2.0)
    b = a.minimum(9.5)
    square, lost = two_product(b, b)
    half = (square * 0.5).exp()
    below = (half + half * lost) * 2.0 * half - value
    value = x.equals(INF).choose(0.0, value)
    return (x < 0.0).choose((a < 9.5).choose(below, INF), value)


def _erfinv(x: Vec) -> Vec:
    a = abs(x)
    w = -(log1p(-a) + log1p(a))
    near = w < 5.0
    center = horner(w.minimum(5.0) - 2.5, c.ERFINV) * a
    tail = horner(w.maximum(4.0).minimum(17.0).sqrt() - 3.0, c.ERFINV_TAIL)
    value = near.choose(center, tail)
    value = a.equals(1.0).choose(INF, value)
    return (a <= 1.0).choose(value, x * NAN).with_sign_of(x)


def _ndtri(p: Vec) -> Vec:
    q = p - 0.5
    center = horner((q * q).minimum(0.1807), c.NDTRI) * q
    tail = p.minimum(1.0 - p)
    r = (tail.maximum(1e-45).ln() * -2.0).sqrt()
    near = horner(r.maximum(2.09).minimum(4.0) - 3.0, c.NDTRI_NEAR)
    far = r - horner(4.0 / r.maximum(4.0), c.NDTRI_FAR)
    size = (r <= 4.0).choose(near, far)
    size = tail.equals(0.0).choose(INF, size)
    outer = (q < 0.0).choose(-size, size)
    value = (abs(q) <= 0.425).choose(center, outer)
    return (tail >= 0.0).choose(value, p * NAN)


# gamma family -----------------------------------------------------------------------------------
def _lgamma_positive(x: Vec) -> Vec:
    """Return ln(gamma(x)) for x >= 0: polynomials around the zeros, products below 7.5, then Stirling's series."""
    # Move x into [1.5, 2.5) by its recurrence, or below 0.7 up by one.
    low = x < 0.7
    y = low.choose(x + 1.0, x)
    one = y < 1.5
    d1 = y.minimum(1.5).maximum(0.7) - 1.0
    first = horner(d1, c.LGAMMA_1) * d1
    z, product = y.minimum(7.5), None
    for _ in range(5):
        above = z >= 2.5
        z = above.choose(z - 1.0, z)
        factor = above.choose(z, 1.0)
        product = factor if product is None else product * factor
    d2 = z.maximum(1.5) - 2.0
    assert product is not None
    second = horner(d2, c.LGAMMA_2) * d2 + product.ln()
    s = y.maximum(7.5)
    v = 1.0 / s
    u = v * v
    series = ((u * (1.0 / 1260.0) - 1.0 / 360.0) * u + 1.0 / 12.0) * v
    third = (s - 0.5) * (s.ln() - 1.0) + (series + (0.5 * math.log(2.0 * math.pi) - 0.5))
    value = one.choose(first + 0.0, (y < 7.5).choose(second, third))
    value = low.choose(value - x.maximum(1e-45).ln(), value)
    return value


def _lgamma(x: Vec) -> Vec:
    a = abs(x)
    positive = _lgamma_positive(a.minimum(4.0850034e36))
    tiny = a < 1e-7
    # gamma(x) gamma(-x) = -pi / (x sin(pi x)); below 2^-23 both are 1/|x|.
    reflected = ((math.pi / (a.maximum(1e-7) * sine_of_pi(a.minimum(2.0**24)))).ln()) - positive
    value = ((x < 0.0) & ~tiny).choose(reflected, positive)
    value = (a <= 4.0850034e36).choose(value, a * INF)
    whole = (x <= 0.0) & (a - a.rint()).equals(0.0)
    return whole.choose(INF, value)


_ZERO = 1.4616321449683623
_ZERO_HIGH = float(np.float32(_ZERO))


def _digamma(x: Vec) -> Vec:
    below = x < 0.5
    y = below.choose(1.0 - x, x)
    # A polynomial around the zero; for x >= 2 the recurrence up to 8, then the asymptotic series.
    d = (y.maximum(1.0).minimum(2.6) - _ZERO_HIGH) - (_ZERO - _ZERO_HIGH)
    near = horner(d, c.DIGAMMA) * d
    up = (y < 1.0).choose(1.0 / y, 0.0)
    d0 = ((y + 1.0).maximum(1.0).minimum(2.0) - _ZERO_HIGH) - (_ZERO - _ZERO_HIGH)
    near = (y < 1.0).choose(horner(d0, c.DIGAMMA) * d0 - up, near)
    z, total = y.maximum(2.0), None
    for _ in range(6):
        small = z < 8.0
        part = small.choose(1.0 / z, 0.0)
        total = part if total is None else total + part
        z = small.choose(z + 1.0, z)
    assert total is not None
    v = 1.0 / z
    u = v * v
    series = ((u * (1.0 / 252.0) - 1.0 / 120.0) * u + 1.0 / 12.0) * u
    far = z.ln() - (v * 0.5 + series + total)
    value = (y < 2.6).choose(near, far)
    part = x - x.rint()
    reflected = value - math.pi / (part * math.pi).call("Tan")
    out = below.choose(reflected, value)
    out = ((x < 0.0) & part.equals(0.0)).choose(x * NAN, out)
    out = x.equals(0.0).choose(x.unit() * -INF, out)
    return (x > -INF).choose(out, x * NAN)


# zeta ---------------------------------------------------------------------------------------------
def _zeta(x: Vec, q: Vec) -> Vec:
    """Evaluate zeta by Euler-Maclaurin with 8 terms before and four after; powers use Ascend's Power."""
    terms, total = 8, None
    minus = -x
    for k in range(terms):
        part = (q + float(k)).call("Pow", minus) if k else q.call("Pow", minus)
        total = part if total is None else total + part
    assert total is not None
    a = q + float(terms)
    base = a.call("Pow", minus)
    inner, factor = a.like(0.5), x / a
    for i, b in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600)):
        inner = factor * b + inner
        factor = factor * ((x + float(2 * i + 1)) / a) * ((x + float(2 * i + 2)) / a)
    value = total + (base > 0.0).choose(base * inner, 0.0)
    value = value + a.call("Pow", 1.0 - x) / (x - 1.0)
    value = x.equals(1.0).choose(INF, value)
    return ((x >= 1.0) & (q > 0.0)).choose(value, x * q * NAN)


# polynomials --------------------------------------------------------------------------------------
#: Maximum unrolled degree; beyond it the recurrence would make the kernel too long.
MAX_DEGREE = 64


def _recurrence(x: Vec, n: int, step: Callable[[int, Vec, Vec], Vec], first: Vec) -> Vec:
    before, now = x.like(1.0), first
    if n == 0:
        return before
    for k in range(1, n):
        before, now = now, step(k, now, before)
    return now


def _chebyshev(slope: float, offset: float) -> Callable[..., Vec]:
    """Return p_n(2x - 1) with p_0 = 1, p_1(y) = slope y + offset, from the distance u of x to the nearer end of [0, 1].

    There y is 1 - 2u or 2u - 1; up to the sign of odd degrees, the latter is the former for the polynomial with
    -offset.  With 2y = 2 - 4u the recurrence becomes one of differences, in which u, unlike y, is exact (Reinsch).
    """

    def fn(x: Vec, n: int) -> Vec:
        if n == 0:
            return x.like(1.0)  # keeps NaN
        low = x < 0.5
        u = low.choose(x, 1.0 - x)
        step = u * (-2.0 * slope)
        if offset:
            step = step + low.choose(slope - offset - 1.0, slope + offset - 1.0)
        elif slope != 1.0:
            step = step + (slope - 1.0)
        now, twice = step + 1.0, u * 4.0
        for _ in range(1, n):
            step = step - twice * now
            now = now + step
        return low.choose(-now, now) if n % 2 else now

    return fn


def _shifted(name: str, letter: str, slope: float, offset: float) -> OpDef:
    """Return a formula for shifted Chebyshev polynomials: p_1(y) = slope y + offset at y = 2x - 1."""
    attr = Attr("n", "int", doc=f"degree, 0 to {MAX_DEGREE}")

    def rule(dtypes: Sequence[DType], attrs: Attrs) -> DType:
        if not 0 <= int(attrs["n"]) <= MAX_DEGREE:
            raise OpError("AF1205", f"n must be from 0 to {MAX_DEGREE}, not {attrs['n']}")
        return float_dtype(dtypes, attrs)

    def reference(x: np.ndarray, n: int) -> np.ndarray:
        y = 2.0 * x - 1.0
        found = ref.polynomial(y, n, slope * y + offset)
        # The recurrence in y subtracts infinities.
        return np.where(np.isinf(y) & (n > 1), y if n % 2 else abs(y), found)

    return composite(
        name,
        _chebyshev(slope, offset),
        with_attrs(reference, attr),
        attrs=(attr,),
        dtype_rule=rule,
        ulp=64.0,
        absolute=1e-5,
        doc=f"Chebyshev polynomial {letter}_n(2x - 1), n constant; error about n ulp of the largest value on [0, 1]",
        source="three-term recurrence in differences (Reinsch)",
    )


def _of_degree(
    step: Callable[[Vec], Callable[[int, Vec, Vec], Vec]], first: Callable[[Vec], Vec]
) -> Any:
    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        n = s.constant_of(xs[1])
        if n is None or not 0 <= n <= MAX_DEGREE or s.dtype_of(xs[0]).name != "float32":
            return None
        x = Vec(s, xs[0])
        return _recurrence(x, int(n), step(x), first(x)).handle

    return expand


def _laguerre_step(x: Vec) -> Callable[[int, Vec, Vec], Vec]:
    def step(k: int, now: Vec, before: Vec) -> Vec:
        return (((2 * k + 1.0) - x) * now - before * float(k)) * (1.0 / (k + 1))

    return step


def _legendre_step(x: Vec) -> Callable[[int, Vec, Vec], Vec]:
    def step(k: int, now: Vec, before: Vec) -> Vec:
        return (x * now * (2 * k + 1.0) - before * float(k)) * (1.0 / (k + 1))

    return step


def _degree_reference(step: Callable[..., Any], first: Callable[[Any], Any]) -> Callable[..., Any]:
    def fn(x: np.ndarray, n: np.ndarray) -> np.ndarray:
        degree = int(np.max(n, initial=0))
        before, now = np.ones_like(x), first(x)
        if degree == 0:
            return before
        for k in range(1, degree):
            before, now = now, step(x)(k, now, before)
            # Values beyond float32 become infinite, and NaN a step later.
            now = np.where(abs(now) > LARGEST, np.copysign(INF, now), now)
        return np.asarray(now)

    return fn


def _degree_row(name: str, step: Any, first: Any, doc: str) -> OpDef:
    return elementwise(
        name,
        (2, 2),
        float_dtype,
        reference_of(_degree_reference(step, first)),
        expand=_of_degree(step, first),
        promote=HALF,
        cost="unary",
        ulp=128.0,
        absolute=1e-5,
        doc=f"{doc}, b a constant from 0 to {MAX_DEGREE}",
        source="three-term recurrence",
    )


# parts of a number --------------------------------------------------------------------------------
def _mantissa(x: Vec) -> Vec:
    a = abs(x)
    tiny = a < 2.0**-126
    normal = tiny.choose(a * 2.0**24, a)
    exponent = normal.shr(23).bits_plus(-126)
    value = normal.bits_minus(exponent.shl(23), SINGLE)
    usual = (a < INF) & (a > 0.0)
    return usual.choose(value, a).with_sign_of(x)


def _exponent(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
    if s.dtype_of(xs[0]).name != "float32":
        wide = s.emit("Cast", xs, {"dtype": "float32"}, SINGLE)
        return s.emit("FrexpExponent", (wide,))
    a = abs(Vec(s, xs[0]))
    tiny = a < 2.0**-126
    normal = tiny.choose(a * 2.0**24, a)
    exponent = normal.shr(23).bits_plus(-126)
    exponent = tiny.choose(exponent.bits_plus(-24), exponent)
    usual = (a < INF) & (a > 0.0)
    return usual.choose(exponent, 0).handle


def _int32_of_float(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    float_dtype(dtypes, attrs)
    return INT32


def _ldexp(x: Vec, k: Vec) -> Vec:
    """Return x * 2^k, k a float that holds an integer."""
    n = k.maximum(-300.0).minimum(300.0).cast(INT32)
    third = (n.cast(SINGLE) * (1.0 / 3.0)).rint("TRUNC").cast(INT32)
    value = scaled(x * power_of_two(third), n - third)
    return k.differs(k).choose(k, value)


FITTED = "own polynomials (mpmath fits)"

ROWS: tuple[OpDef, ...] = (
    composite(
        "Erfcx", _erfcx, ref.erfcx, ulp=6.0, doc="exp(x^2) erfc(x)", source=FITTED, each_step=True
    ),
    composite(
        "Erfinv",
        _erfinv,
        ref.erfinv,
        ulp=4.0,
        doc="inverse of erf",
        source="polynomials in ln(1-x^2) (form of Giles 2010), own fits",
    ),
    composite(
        "Ndtri",
        _ndtri,
        ref.ndtri,
        ulp=6.0,
        doc="quantile of the normal distribution",
        source="three ranges (as Wichura, AS 241), own fits; set by Ascend's Ln in the tails",
    ),
    composite(
        "Lgamma",
        _lgamma,
        ref.lgamma,
        ulp=8.0,
        absolute=2e-6,
        doc="ln |gamma(x)|; near its zeros left of 0 absolute error 1e-6",
        source="own polynomials on 0.7..2.5, recurrence, Stirling's series (Abramowitz-Stegun 6.1.41), reflection",
    ),
    composite(
        "Digamma",
        _digamma,
        ref.digamma,
        ulp=8.0,
        absolute=1e-6,
        doc="derivative of ln gamma(x); left of 0 absolute error near its zeros",
        source="own polynomial around the zero, recurrence, asymptotic series (Abramowitz-Stegun 6.3.18), reflection",
    ),
    composite(
        "Zeta",
        _zeta,
        ref.hurwitz_zeta,
        2,
        ulp=64.0,
        doc="sum of (b + k)^-a over k from 0; a > 1, b > 0",
        source="Euler-Maclaurin (Abramowitz-Stegun 23.1.30); set by Ascend's Power",
    ),
    _shifted("ShiftedChebyshevPolynomialT", "T", 1.0, 0.0),
    _shifted("ShiftedChebyshevPolynomialU", "U", 2.0, 0.0),
    _shifted("ShiftedChebyshevPolynomialV", "V", 2.0, -1.0),
    _shifted("ShiftedChebyshevPolynomialW", "W", 2.0, 1.0),
    _degree_row(
        "LaguerrePolynomialL", _laguerre_step, lambda x: 1.0 - x, "Laguerre polynomial L_b(a)"
    ),
    _degree_row("LegendrePolynomialP", _legendre_step, lambda x: x, "Legendre polynomial P_b(a)"),
    composite(
        "FrexpMantissa",
        _mantissa,
        lambda x: np.frexp(x)[0],
        ulp=0.0,
        doc="m of x = m 2^e, 1/2 <= |m| < 1",
        source="exponent bits",
    ),
    elementwise(
        "FrexpExponent",
        (1, 1),
        _int32_of_float,
        lambda xs, attrs: np.where(np.isfinite(xs[0]), np.frexp(xs[0])[1], 0).astype(np.int64),
        expand=_exponent,
        cost="unary",
        ulp=0.0,
        doc="e of x = m 2^e, int32; 0 for 0, infinities and NaN",
        source="exponent bits",
    ),
    composite(
        "Ldexp",
        _ldexp,
        lambda x, k: x * np.exp2(np.clip(np.trunc(k), -300, 300)),
        2,
        ulp=0.5,
        doc="a 2^b, b a float with an integral value",
        source="exponent bits",
    ),
)
