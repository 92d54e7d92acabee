"""Special functions in float64, for the references of rows: vectorised, to about 1e-13.

Integrals use the trapezoidal rule where it converges geometrically; the rest uses asymptotic series, recurrences and
Newton's method on functions of the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

__all__ = [
    "airy_ai",
    "bessel_i",
    "bessel_j",
    "bessel_k",
    "bessel_y",
    "digamma",
    "erfc",
    "erfcx",
    "erfinv",
    "hurwitz_zeta",
    "igamma",
    "igammac",
    "lgamma",
    "ndtri",
    "polynomial",
    "spherical_j0",
]

Array = npt.NDArray[np.float64]


def _each(fn: Callable[[float], float]) -> np.vectorize:
    return np.vectorize(fn, otypes=[np.float64])


_ERFC = _each(math.erfc)
_ERF = _each(math.erf)
_LGAMMA = _each(
    lambda x: math.inf if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)
)


def erfc(x: Array) -> Array:
    """1 - erf(x)."""
    return np.asarray(_ERFC(x))


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x): by the product up to 5, by a continued fraction beyond."""
    with np.errstate(all="ignore"):
        near = np.exp(np.minimum(x, 5.0) ** 2) * _ERFC(np.minimum(x, 5.0))
        far = np.maximum(x, 5.0)
        fraction = np.zeros_like(far)
        for k in range(60, 0, -1):
            fraction = (k / 2.0) / (far + fraction)
        return np.asarray(np.where(x <= 5.0, near, 1.0 / (math.sqrt(math.pi) * (far + fraction))))


def lgamma(x: Array) -> Array:
    """Logarithm of |gamma(x)|; infinite at 0, -1, -2, ..."""
    return np.asarray(_LGAMMA(x))


def digamma(x: Array) -> Array:
    """Logarithmic derivative of gamma; NaN at 0, -1, -2, ... and -inf at +0."""
    with np.errstate(all="ignore"):
        below = x < 0.5
        y = np.where(below, 1.0 - x, x)
        total = np.zeros_like(y)
        for _ in range(12):
            small = y < 12.0
            total = total - np.where(small, 1.0 / y, 0.0)
            y = np.where(small, y + 1.0, y)
        v = 1.0 / (y * y)
        series = v * (
            1 / 12 - v * (1 / 120 - v * (1 / 252 - v * (1 / 240 - v * (1 / 132 - v * 691 / 32760))))
        )
        value = total + np.log(y) - 0.5 / y - series
        part = x - np.rint(x)
        reflected = value - math.pi / np.tan(math.pi * part)
        out = np.where(below, reflected, value)
        out = np.where((x < 0) & (part == 0), np.nan, out)
        out = np.where(x == 0, np.copysign(np.inf, -x), out)
        return np.asarray(np.where(np.isneginf(x), np.nan, out))


def erfinv(x: Array) -> Array:
    """Inverse of erf: Newton's method on erf near 0, on erfc near 1."""
    with np.errstate(all="ignore"):
        a = np.abs(x)
        inside = np.where(a < 1.0, a, 0.5)
        w = np.sqrt(-np.log1p(-inside * inside))
        y = np.where(inside < 0.5, inside * 0.8862269254527580, w * 0.9)
        for _ in range(40):
            gap = np.where(inside < 0.5, inside - _ERF(y), _ERFC(y) - (1.0 - inside))
            step = gap * math.sqrt(math.pi) / 2 * np.exp(y * y)
            y = y + np.clip(step / (1.0 - y * step), -0.25, 0.25)
            if np.max(np.abs(step), initial=0.0) < 1e-15:
                break
        out = np.copysign(y, x)
        out = np.where(a == 1.0, np.copysign(np.inf, x), out)
        return np.asarray(np.where((a > 1.0) | np.isnan(x), np.nan, out))


def ndtri(p: Array) -> Array:
    """Quantile of the normal distribution."""
    with np.errstate(all="ignore"):
        q = np.minimum(p, 1.0 - p)
        inside = np.where((q > 0) & (q < 0.5), q, 0.25)
        y = np.sqrt(-2.0 * np.log(inside))
        for _ in range(80):
            gap = 0.5 * _ERFC(y / math.sqrt(2.0)) - inside
            step = gap * math.sqrt(2.0 * math.pi) * np.exp(y * y / 2)
            step = np.clip(step / (1.0 - y * step / 2), -0.5, 0.5)
            y = y + step
            if np.max(np.abs(step), initial=0.0) < 1e-14:
                break
        out = np.where(q == 0.5, 0.0, np.where(p < 0.5, -y, y))
        out = np.where(p == 0.0, -np.inf, np.where(p == 1.0, np.inf, out))
        return np.asarray(np.where((p < 0) | (p > 1) | np.isnan(p), np.nan, out))


# Bessel functions -------------------------------------------------------------------------------
def _hankel(order: int, x: Array) -> tuple[Array, Array]:
    """Amplitudes P and Q of Hankel's expansion, for x >= 25."""
    mu, p, q = 4.0 * order * order, np.ones_like(x), np.zeros_like(x)
    term = np.ones_like(x)
    for k in range(1, 25):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8.0 * x)
        if k % 2:
            q = q + (-1.0) ** (k // 2) * term
        else:
            p = p + (-1.0) ** (k // 2) * term
    return p, q


def _far(order: int, x: Array, second: bool) -> Array:
    p, q = _hankel(order, x)
    # sin and cos of x - (2n + 1) pi/4 from those of x, without loss of accuracy.
    s, c = np.sin(x), np.cos(x)
    angle = (2 * order + 1) * math.pi / 4
    cos, sin = c * math.cos(angle) + s * math.sin(angle), s * math.cos(angle) - c * math.sin(angle)
    scale = np.sqrt(2.0 / (math.pi * x))
    return np.asarray(scale * (p * sin + q * cos if second else p * cos - q * sin))


def bessel_j(order: int, x: Array) -> Array:
    """J0 or J1."""
    with np.errstate(all="ignore"):
        a = np.abs(x)
        near = np.minimum(a, 25.0)
        n = 80
        total = np.zeros_like(a)
        for k in range(n):
            theta = math.pi * (k + 0.5) / n
            total = total + np.cos(order * theta - near * math.sin(theta))
        value = np.where(a <= 25.0, total / n, _far(order, np.maximum(a, 25.0), False))
        value = np.where(np.isinf(a), 0.0, value)
        value = np.where(a < 1e-8, 1.0 if order == 0 else a / 2, value)
        return np.asarray(np.copysign(1.0, x) * value if order else value) + 0.0 * np.where(
            np.isinf(x), 0.0, x
        )


@cache
def _gauss_legendre() -> tuple[tuple[float, float], ...]:
    """Return nodes in [-1, 1] and weights; computed on demand, since they take longer than all other rows."""
    nodes, weights = np.polynomial.legendre.leggauss(160)
    return tuple(zip(nodes, weights, strict=True))


def bessel_y(order: int, x: Array) -> Array:
    """Y0 or Y1 for positive x (Watson 6.21)."""
    with np.errstate(all="ignore"):
        a = np.where((x > 0) & (x < 25.0), x, 1.0)
        first, second = np.zeros_like(a), np.zeros_like(a)
        end = np.arcsinh(40.0 / a) + (3.0 if order else 0.0)
        for node, weight in _gauss_legendre():
            theta = (node + 1.0) * math.pi / 2
            first = first + weight * np.sin(a * math.sin(theta) - order * theta)
            t = (node + 1.0) / 2 * end
            kernel = 2.0 * np.cosh(t) if order == 0 else 2.0 * np.sinh(t)
            second = (
                second + weight * (kernel if order else 2.0) * np.exp(-a * np.sinh(t)) * end / 2
            )
        near = first / 2 - second / math.pi
        value = np.where(x < 25.0, near, _far(order, np.maximum(x, 25.0), True))
        value = np.where(np.isposinf(x), 0.0, value)
        value = np.where(x == 0.0, -np.inf, value)
        return np.asarray(np.where((x < 0) | np.isnan(x), np.nan, value))


def bessel_i(order: int, x: Array, scaled: bool = False) -> Array:
    """I0 or I1; times exp(-|x|) if scaled."""
    with np.errstate(all="ignore"):
        a = np.abs(x)
        near = np.minimum(a, 60.0)
        n, total = 200, np.zeros_like(a)
        for k in range(n):
            theta = math.pi * (k + 0.5) / n
            total = total + np.exp(near * (math.cos(theta) - 1.0)) * math.cos(order * theta)
        far, series, term = np.maximum(a, 60.0), np.ones_like(a), np.ones_like(a)
        for k in range(1, 16):
            term = -term * (4.0 * order * order - (2 * k - 1) ** 2) / (8.0 * k * far)
            series = series + term
        value = np.where(a <= 60.0, total / n, series / np.sqrt(2.0 * math.pi * far))
        if order:
            value = np.where(a < 1e-3, a / 2 * (1 + a * a / 8) * np.exp(-a), value)
        value = value if scaled else value * np.exp(a)
        value = np.where(np.isinf(a), 0.0 if scaled else np.inf, value)
        return np.asarray(np.copysign(value, x) if order else value) + 0.0 * np.where(
            np.isinf(x), 0.0, x
        )


def bessel_k(order: int, x: Array, scaled: bool = False) -> Array:
    """K0 or K1 for positive x; times exp(x) if scaled."""
    with np.errstate(all="ignore"):
        a = np.where((x > 0) & np.isfinite(x), x, 1.0)
        end = 2.0 * np.arcsinh(np.sqrt(22.5 / a)) + np.where(a < 1.0, 2.0 * order, 0.0)
        total = np.zeros_like(a)
        for node, weight in _gauss_legendre():
            t = (node + 1.0) / 2 * end
            total = total + weight * np.exp(-a * 2.0 * np.sinh(t / 2) ** 2) * (
                np.cosh(t) if order else 1.0
            )
        value = total * end / 2
        value = value if scaled else value * np.exp(-a)
        value = np.where(np.isposinf(x), 0.0, value)
        value = np.where(x == 0.0, np.inf, value)
        return np.asarray(np.where((x < 0) | np.isnan(x), np.nan, value))


def spherical_j0(x: Array) -> Array:
    """sin(x)/x."""
    with np.errstate(all="ignore"):
        value = np.sin(x) / np.where(x == 0, 1.0, x)
        return np.asarray(np.where(x == 0, 1.0, np.where(np.isinf(x), 0.0, value)))


def _airy_one(x: float) -> float:
    import mpmath

    if math.isnan(x):
        return math.nan
    if abs(x) > 1e6:
        return 0.0 if x > 0 or math.isinf(x) else math.nan
    return float(mpmath.airyai(x))


def airy_ai(x: Array) -> Array:
    """Ai, by mpmath; NaN below -1e6."""
    return np.asarray(_each(_airy_one)(x))


# zeta and polynomials ---------------------------------------------------------------------------
#: Bernoulli numbers B2, B4, ... over (2k)!.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


def hurwitz_zeta(x: Array, q: Array, terms: int = 24) -> Array:
    """Sum of (q + k)^-x over k from 0, for x > 1 and q > 0 (Euler-Maclaurin)."""
    with np.errstate(all="ignore"):
        total = np.zeros(np.broadcast(x, q).shape)
        for k in range(terms):
            total = total + (q + k) ** -x
        a = q + terms
        base = a**-x
        total = total + a ** (1.0 - x) / (x - 1.0) + base * 0.5
        factor = x / a
        for i, b in enumerate(_BERNOULLI):
            total = total + np.where(base > 0.0, base * factor * b, 0.0)
            factor = factor * (x + 2 * i + 1) * (x + 2 * i + 2) / (a * a)
        total = np.where(np.isposinf(x), np.where(q > 1, 0.0, np.where(q == 1, 1.0, np.inf)), total)
        total = np.where(x == 1.0, np.inf, total)
        return np.asarray(np.where((x < 1) | (q <= 0) | np.isnan(x) | np.isnan(q), np.nan, total))


def polynomial(x: Array, n: int, first: Array, scale: float = 2.0) -> Array:
    """p_n of the recurrence p_0 = 1, p_1 = first, p_k+1 = scale x p_k - p_k-1."""
    before, now = np.ones_like(x), first
    for _ in range(n - 1):
        before, now = now, scale * x * now - before
    return before if n == 0 else now


# incomplete gamma functions ---------------------------------------------------------------------

_LOG_GAMMA = _each(lambda a: math.lgamma(a) if 0 < a < math.inf else math.nan)


def _gamma_series(a: Array, x: Array) -> Array:
    """P(a, x) for x below a + 1."""
    term = np.ones_like(a)
    total = term.copy()
    k = 0
    while k < 100_000 and np.any(term > 1e-17 * total):
        k += 1
        term = term * (x / (a + k))
        total += term
    return np.asarray(np.exp(a * np.log(x) - x - _LOG_GAMMA(a + 1.0)) * total)


def _gamma_fraction(a: Array, x: Array) -> Array:
    """Q(a, x) for x of at least a + 1: the continued fraction by Lentz's algorithm."""
    b = x + 1.0 - a
    c, d = np.full_like(a, 1e300), 1.0 / b
    h = d.copy()
    for k in range(1, 100_000):
        step = -k * (k - a)
        b = b + 2.0
        d = 1.0 / np.where(step * d + b == 0.0, 1e-300, step * d + b)
        c = np.where(b + step / c == 0.0, 1e-300, b + step / c)
        h *= c * d
        if np.all(np.abs(c * d - 1.0) < 1e-15):
            break
    return np.asarray(np.exp(a * np.log(x) - x - _LOG_GAMMA(a)) * h)


def _gamma_uniform(a: Array, x: Array) -> Array:
    """P(a, x) for large a: Temme's expansion; terms after the first two are below 1e-12."""
    mu = (x - a) / a
    powers = (1.0, -1 / 3, 7 / 36, -73 / 540, 1331 / 12960, -22409 / 272160)
    near = mu * np.polyval(powers[::-1], np.clip(mu, -0.05, 0.05))
    far = np.sign(mu) * np.sqrt(2.0 * np.maximum(mu - np.log1p(mu), 0.0))
    eta = np.where(np.abs(mu) < 0.05, near, far)
    e = np.clip(eta, -0.5, 0.5)
    first = np.polyval((1 / 2835, 1 / 864, -2 / 135, 1 / 12, -1 / 3), e)
    first += np.polyval((-1 / 288, -1 / 540), e) / a
    decay = np.exp(-0.5 * a * eta * eta) / np.sqrt(2.0 * np.pi * a)
    return np.asarray(0.5 * _ERFC(-eta * np.sqrt(0.5 * a)) - decay * first)


def _gamma_pair(a: Array, x: Array) -> tuple[Array, Array]:
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    p = np.full(a.shape, np.nan)
    q = p.copy()
    known = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    large = known & (a > 1e4)
    low = known & ~large & (x < a + 1)
    high = known & ~large & (x >= a + 1)
    far = high & (x > 1e5)  # the exponential is 0
    high &= ~far
    with np.errstate(all="ignore"):
        p[large] = _gamma_uniform(a[large], x[large])
        p[low] = _gamma_series(a[low], x[low])
        q[high] = _gamma_fraction(a[high], x[high])
    q[large], q[low], p[high] = 1.0 - p[large], 1.0 - p[low], 1.0 - q[high]
    none = (a > 0) & (x == 0) | ((a == np.inf) & (x >= 0) & (x < np.inf))
    every = far | ((a >= 0) & (a < np.inf) & (x == np.inf)) | ((a == 0) & (x > 0))
    p[none], q[none], p[every], q[every] = 0.0, 1.0, 1.0, 0.0
    return p, q


def igamma(a: Array, x: Array) -> Array:
    """Regularised lower incomplete gamma function P(a, x)."""
    return _gamma_pair(a, x)[0]


def igammac(a: Array, x: Array) -> Array:
    """Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return _gamma_pair(a, x)[1]
