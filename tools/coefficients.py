"""Fit the polynomials of ``implgraph/ops/formulas/coefficients.py`` with mpmath, and print that module.

``python tools/coefficients.py > implgraph/ops/formulas/coefficients.py && ruff format
implgraph/ops/formulas/coefficients.py`` (a minute); with ``bessel``, the sibling module ``bessel_coefficients.py``.

Every polynomial interpolates its function at Chebyshev nodes, in 40 digits, and is converted to powers of the variable;
the degree is the smallest whose error, with coefficients rounded to float32, is below the bound in the table.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp

mp.mp.dps = 40
Function = Callable[["mp.mpf"], "mp.mpf"]


@dataclass(frozen=True)
class Fit:
    """One polynomial: ``function`` of a variable between ``low`` and ``high``, and its description."""

    name: str
    text: str
    function: Function
    low: object
    high: object
    bound: float = 2e-9


@dataclass(frozen=True)
class Ratio:
    """A quotient of polynomials of degrees ``top`` and ``bottom`` with the least relative error from ``function``.

    The leading coefficient of the denominator is 1.
    """

    name: str
    text: str
    function: Function
    low: object
    high: object
    top: int
    bottom: int
    bound: float


def _normal_tail(a: mp.mpf) -> mp.mpf:
    return mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2


#: Negated zero of Gelu's slope.
GELU_LEAST = mp.mpf("0.75179152469356445746")


def _gelu_slope(a: mp.mpf) -> mp.mpf:
    """Return the slope of Gelu at -a, divided by exp(-a^2/2) and by a's distance from the zero."""
    if abs(a - GELU_LEAST) < mp.mpf("1e-12"):
        a += mp.mpf("1e-10")
    return (_normal_tail(a) - a / mp.sqrt(2 * mp.pi)) / (GELU_LEAST - a)


def _near_zero(f: Function, limit: Function) -> Function:
    """Return ``f``, with its Taylor limit where the formula is 0/0."""
    return lambda x: limit(x) if abs(x) < mp.mpf("1e-12") else f(x)


def _taylor(f: Function, skip: int, terms: int = 3) -> Function:
    """Return (f(x) minus its first ``skip`` Taylor terms) / x**skip near zero."""
    c = mp.taylor(f, 0, skip + terms)[skip:]
    return lambda x: mp.polyval(list(reversed(c)), x)


def _rest(f: Function, skip: int) -> Function:
    c = mp.taylor(f, 0, skip - 1)

    def exact(x: mp.mpf) -> mp.mpf:
        with mp.workdps(60):
            return (f(x) - mp.polyval(list(reversed(c)), x)) / x**skip

    return _near_zero(exact, _taylor(f, skip))


def _odd(f: Function) -> Function:
    """Return (f(sqrt(u)) - sqrt(u)) / sqrt(u)**3 for an odd function with slope 1 at 0."""
    whole = _rest(f, 3)
    return lambda u: whole(mp.sqrt(u))


def _slope(f: Function) -> Function:
    """Return f(sqrt(u)) / sqrt(u) for an odd function."""
    whole = _rest(f, 1)
    return lambda u: whole(mp.sqrt(u))


def _tail(f: Function) -> Function:
    """Return a function of v in (0, 1], extended by its limit at v = 0."""
    return lambda v: f(max(v, mp.mpf("1e-8")))


def _p(order: int, part: str) -> Function:
    """Return the amplitudes of Hankel's expansion at x = 5/sqrt(v): P, and Q times x."""

    def f(v: mp.mpf) -> mp.mpf:
        v = max(v, mp.mpf("1e-7"))
        x = 5 / mp.sqrt(v)
        chi = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        scale = mp.sqrt(mp.pi * x / 2)
        if part == "p":
            return scale * (j * mp.cos(chi) + y * mp.sin(chi))
        return scale * (y * mp.cos(chi) - j * mp.sin(chi)) * x

    return f


def _x(u: mp.mpf) -> mp.mpf:
    return mp.sqrt(max(u, mp.mpf("1e-20")))


def _erfinv_center(w: mp.mpf) -> mp.mpf:
    # w = -ln(1 - x^2) - 2.5
    x = mp.sqrt(-mp.expm1(-(max(w + mp.mpf("2.5"), mp.mpf("1e-20")))))
    return mp.erfinv(x) / x


def _erfinv_tail(w: mp.mpf) -> mp.mpf:
    # w = sqrt(-ln(1 - x^2)) - 3; solved for the complement, because x itself rounds to 1
    a = (w + 3) ** 2
    q = -mp.expm1(mp.log1p(-mp.exp(-a)) / 2)  # 1 - x
    y = mp.sqrt(a)
    for _ in range(60):
        step = (mp.erfc(y) - q) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        step = step / (1 - y * step)
        y += step
        if abs(step) < mp.mpf("1e-30"):
            break
    return y


def _ndtri_tail(r: mp.mpf) -> mp.mpf:
    # r = sqrt(-2 ln p); the quantile for p below 1/2, positive
    p = mp.exp(-r * r / 2)
    y = r
    for _ in range(80):
        f = mp.erfc(y / mp.sqrt(2)) / 2 - p
        step = f * mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        step = step / (1 - y * step / 2)
        y += step
        if abs(step) < mp.mpf("1e-30"):
            break
    return y


def _airy_phase(part: str) -> Function:
    """Return the amplitudes for x = -z, at 1/zeta = v with zeta = 2/3 z^1.5."""

    def f(v: mp.mpf) -> mp.mpf:
        v = max(v, mp.mpf("1e-6"))
        zeta = 1 / v
        z = (1.5 * zeta) ** (mp.mpf(2) / 3)
        a = zeta - mp.pi / 4
        scale = mp.sqrt(mp.pi) * z**0.25
        ai, bi = mp.airyai(-z) * scale, mp.airybi(-z) * scale
        # Ai = P cos(a) + Q sin(a), Bi = -P sin(a) + Q cos(a)
        p, q = ai * mp.cos(a) - bi * mp.sin(a), ai * mp.sin(a) + bi * mp.cos(a)
        return p if part == "p" else q / v

    return f


def _airy_decay(v: mp.mpf) -> mp.mpf:
    v = max(v, mp.mpf("1e-6"))
    zeta = 1 / v
    x = (1.5 * zeta) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * mp.exp(zeta) * 2 * mp.sqrt(mp.pi) * x**0.25


QUARTER = mp.pi / 4
LN2H = mp.log(2) / 2 * mp.mpf("1.02")
ROOT = mp.sqrt(2)
X0 = mp.findroot(mp.digamma, 1.46)


def _scaled_gamma(w: mp.mpf) -> mp.mpf:
    """Return the reciprocal of the factor of Stirling's formula for gamma(a + 1), at a = 1/w."""
    a = 1 / w
    return mp.exp((a + mp.mpf("0.5")) * mp.log(a) - a - mp.loggamma(a + 1)) * mp.sqrt(2 * mp.pi)


def _eta(mu: mp.mpf) -> mp.mpf:
    """Return eta/mu of Temme's expansion: eta^2/2 = mu - ln(1 + mu)."""
    mu = mu if abs(mu) > mp.mpf("1e-9") else mp.mpf("1e-9")
    with mp.workdps(80):
        return mp.sqrt(2 * (mu - mp.log1p(mu))) / abs(mu)


def _temme(order: int) -> Function:
    """Return coefficient c_0, c_1 or c_2 of Temme's expansion (DLMF 8.12.7 to 8.12.10) as a function of eta."""

    def f(eta: mp.mpf) -> mp.mpf:
        with mp.workdps(100):
            e = mp.mpf(eta) if abs(eta) > mp.mpf("1e-9") else mp.mpf("1e-9")
            mu = -mp.lambertw(-mp.exp(-1 - e * e / 2), 0 if e < 0 else -1).real - 1
            if order == 0:
                return 1 / mu - 1 / e
            if order == 1:
                return 1 / e**3 - 1 / mu**3 - 1 / mu**2 - 1 / (12 * mu)
            rest = (
                3 / mu**5 + 5 / mu**4 + mp.mpf(25) / 12 / mu**3 + 1 / (12 * mu**2) + 1 / (288 * mu)
            )
            return rest - 3 / e**5

    return f


FITS = (
    Fit("EXP", "(e^r - 1 - r) / r^2 in r", _rest(mp.exp, 2), -LN2H, LN2H, 1e-8),
    Fit(
        "LOG",
        "(ln(1 + f) - f + f^2/2) / f^3 in f",
        _rest(mp.log1p, 3),
        1 / ROOT - 1,
        ROOT - 1,
        8e-8,
    ),
    Fit("SIN", "(sin r - r) / r^3 in r^2", _odd(mp.sin), 0, QUARTER**2),
    Fit(
        "COS",
        "(cos r - 1 + r^2/2) / r^4 in r^2",
        lambda u: _rest(mp.cos, 4)(mp.sqrt(u)),
        0,
        QUARTER**2,
    ),
    Fit("ATAN", "(atan a - a) / a^3 in a^2", _odd(mp.atan), 0, mp.mpf("0.37"), 2e-8),
    Fit("TAN", "(tan r - r) / r^3 in r^2", _odd(mp.tan), 0, QUARTER**2, 1.2e-8),
    Fit("SINH", "(sinh a - a) / a^3 in a^2", _odd(mp.sinh), 0, 1, 4e-9),
    Fit("TANH", "(tanh x - x) / x^3 in x^2", _odd(mp.tanh), 0, 0.36, 2e-7),
    Fit("ASIN", "(asin a - a) / a^3 in a^2", _odd(mp.asin), 0, 0.25, 2e-8),
    Fit(
        "ERFCX",
        "(a + 2) erfcx(a) in (a - 2)/(a + 2)",
        lambda t: (
            (2 * (1 + t) / (1 - t) + 2)
            * mp.exp((2 * (1 + t) / (1 - t)) ** 2)
            * mp.erfc(2 * (1 + t) / (1 - t))
            if t < 0.9999
            else 1 / mp.sqrt(mp.pi) + 2 * (1 - t) / 4 / mp.sqrt(mp.pi)
        ),
        -1,
        mp.mpf("0.995"),
        6e-9,
    ),
    Fit("ERF", "erf(a)/a - 1 in a^2", lambda u: _slope(mp.erf)(u) - 1, 0, 1, 4e-9),
    Fit("ERFINV", "erfinv(x)/x in w - 2.5, w = -ln(1 - x^2)", _erfinv_center, -2.5, 2.5, 1.5e-8),
    Fit(
        "ERFINV_TAIL", "erfinv(x) in sqrt(w) - 3", _erfinv_tail, mp.sqrt(5) - 3, mp.mpf("1.1"), 4e-8
    ),
    Fit(
        "NDTRI",
        "quantile/(p - 1/2) in (p - 1/2)^2",
        lambda u: _slope(lambda q: mp.sqrt(2) * mp.erfinv(2 * q))(u),
        0,
        mp.mpf("0.425") ** 2,
        4e-8,
    ),
    Fit(
        "NDTRI_NEAR",
        "quantile in r - 3, r = sqrt(-2 ln p)",
        lambda w: _ndtri_tail(w + 3),
        mp.mpf("-0.75") - mp.mpf("0.16"),
        1,
        6e-8,
    ),
    Fit(
        "NDTRI_FAR",
        "r - quantile in 4/r",
        lambda v: 4 / v - _ndtri_tail(4 / v),
        mp.mpf("0.27"),
        1,
        6e-8,
    ),
    Fit(
        "LGAMMA_1",
        "lgamma(1 + d)/d in d",
        lambda d: mp.loggamma(1 + d) / d if abs(d) > 1e-12 else -mp.euler,
        -0.3,
        0.5,
        2e-8,
    ),
    Fit(
        "LGAMMA_2",
        "lgamma(2 + d)/d in d",
        lambda d: mp.loggamma(2 + d) / d if abs(d) > 1e-12 else 1 - mp.euler,
        -0.5,
        1,
        2e-8,
    ),
    Fit(
        "DIGAMMA",
        "digamma(x0 + d)/d in d, x0 the zero",
        lambda d: mp.digamma(X0 + d) / d if abs(d) > 1e-12 else mp.psi(1, X0),
        1 - X0,
        mp.mpf("2.6") - X0,
        2e-8,
    ),
    *(
        Fit(
            f"HANKEL_{part.upper()}{n}",
            f"amplitude {part.upper()} of order {n} in (5/x)^2",
            _p(n, part),
            0,
            1,
            1e-8,
        )
        for n in (0, 1)
        for part in "pq"
    ),
    Fit("J0", "J0(x) in x^2/12.5 - 1", lambda t: mp.besselj(0, _x(12.5 * (t + 1))), -1, 1, 1e-8),
    Fit(
        "J1",
        "J1(x)/x in x^2/12.5 - 1",
        lambda t: mp.besselj(1, _x(12.5 * (t + 1))) / _x(12.5 * (t + 1)),
        -1,
        1,
        1e-8,
    ),
    Fit(
        "Y0",
        "Y0(x) - 2/pi ln(x) J0(x) in x^2/12.5 - 1",
        lambda t: (
            mp.bessely(0, _x(12.5 * (t + 1)))
            - 2 / mp.pi * mp.log(_x(12.5 * (t + 1))) * mp.besselj(0, _x(12.5 * (t + 1)))
        ),
        -1,
        1,
        1e-8,
    ),
    Fit(
        "Y1",
        "(Y1(x) - 2/pi (ln(x) J1(x) - 1/x))/x in x^2/12.5 - 1",
        lambda t: (
            (
                mp.bessely(1, _x(12.5 * (t + 1)))
                - 2
                / mp.pi
                * (
                    mp.log(_x(12.5 * (t + 1))) * mp.besselj(1, _x(12.5 * (t + 1)))
                    - 1 / _x(12.5 * (t + 1))
                )
            )
            / _x(12.5 * (t + 1))
        ),
        -1,
        1,
        1e-8,
    ),
    Fit(
        "I0",
        "e^-x I0(x) in x/4 - 1",
        lambda t: mp.besseli(0, 4 * (t + 1)) * mp.exp(-4 * (t + 1)),
        -1,
        1,
        6e-9,
    ),
    Fit(
        "I1",
        "e^-x I1(x)/x in x/4 - 1",
        lambda t: (
            mp.besseli(1, 4 * (t + 1)) * mp.exp(-4 * (t + 1)) / (4 * (t + 1))
            if t > -0.9999999
            else mp.mpf("0.5") - 2 * (t + 1)
        ),
        -1,
        1,
        3e-9,
    ),
    *(
        Fit(
            f"I{n}_FAR",
            f"e^-x sqrt(x) I{n}(x) in 16/x - 1",
            lambda t, n=n: (
                mp.besseli(n, 16 / (t + 1)) * mp.exp(-16 / (t + 1)) * mp.sqrt(16 / (t + 1))
                if t > -0.999
                else 1 / mp.sqrt(2 * mp.pi) * (1 - (4 * n * n - 1) * (t + 1) / 128)
            ),
            -1,
            1,
            3e-9,
        )
        for n in (0, 1)
    ),
    Fit(
        "K0",
        "K0(x) + ln(x) I0(x) in x^2",
        lambda u: mp.besselk(0, _x(u)) + mp.log(_x(u)) * mp.besseli(0, _x(u)),
        0,
        1,
        4e-9,
    ),
    Fit("I0_NEAR", "I0(x) in x^2", lambda u: mp.besseli(0, _x(u)), 0, 1, 8e-9),
    Fit("I1_NEAR", "I1(x)/x in x^2", lambda u: mp.besseli(1, _x(u)) / _x(u), 0, 1, 4e-9),
    Fit(
        "K1",
        "(K1(x) - ln(x) I1(x) - 1/x)/x in x^2",
        lambda u: (mp.besselk(1, _x(u)) - mp.log(_x(u)) * mp.besseli(1, _x(u)) - 1 / _x(u)) / _x(u),
        0,
        1,
        4e-9,
    ),
    *(
        Fit(
            f"K{n}_FAR",
            f"e^x sqrt(x) K{n}(x) in 2/x - 1",
            lambda t, n=n: (
                mp.besselk(n, 2 / (t + 1)) * mp.exp(2 / (t + 1)) * mp.sqrt(2 / (t + 1))
                if t > -0.999
                else mp.sqrt(mp.pi / 2) * (1 + (4 * n * n - 1) * (t + 1) / 16)
            ),
            -1,
            1,
            8e-9,
        )
        for n in (0, 1)
    ),
    Fit("AIRY", "Ai(x) in x/2 + 0.5 (x from -3 to 1)", lambda t: mp.airyai(2 * t - 1), -1, 1, 1e-8),
    Fit("AIRY_DECAY", "2 sqrt(pi) x^(1/4) e^zeta Ai(x) in 1/zeta", _airy_decay, 0, 1.5, 2e-8),
    Fit("AIRY_P", "amplitude P of Ai(-z) in 1/zeta", _airy_phase("p"), 0, 0.29, 1e-8),
    Fit("AIRY_Q", "amplitude Q times zeta of Ai(-z) in 1/zeta", _airy_phase("q"), 0, 0.29, 4e-8),
    Fit("RGAMMA_ONE", "1/gamma(1 + a) in a", lambda a: mp.rgamma(1 + a), 0, 1, 2e-8),
    Fit(
        "STIRLING", "Stirling's formula over gamma(1 + a) in 1/a", _tail(_scaled_gamma), 0, 1, 2e-8
    ),
    Fit("TEMME_ETA", "eta/mu in mu", _eta, -0.3, 0.3, 2e-8),
    *(
        Fit(f"TEMME_{k}", f"c_{k} of Temme's expansion in eta", _temme(k), -1.3, 1.3, bound)
        for k, bound in ((0, 1e-8), (1, 2e-7), (2, 2e-7))
    ),
)


def single(x: mp.mpf) -> float:
    """Return the nearest float32."""
    value: float = struct.unpack("<f", struct.pack("<f", float(x)))[0]
    return value


def interpolate(f: Function, low: mp.mpf, high: mp.mpf, degree: int) -> list[mp.mpf]:
    """Return the coefficients, lowest power first, of the polynomial through the Chebyshev nodes."""
    middle, half = (low + high) / 2, (high - low) / 2
    n = degree + 1
    nodes = [mp.cos((2 * k + 1) * mp.pi / (2 * n)) for k in range(n)]
    values = [f(middle + half * t) for t in nodes]
    rows = mp.matrix(n, n)
    for i, t in enumerate(nodes):
        for j in range(n):
            rows[i, j] = (middle + half * t) ** j
    return list(mp.lu_solve(rows, mp.matrix(values)))


def fitted(fit: Fit) -> tuple[list[float], float]:
    """Return the polynomial of the smallest degree within the bound, and its error."""
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    points = [low + (high - low) * k / 97 for k in range(98)]
    exact = [fit.function(x) for x in points]
    best: tuple[list[float], float] = ([], float("inf"))
    for degree in range(2, 24):
        c = [single(v) for v in interpolate(fit.function, low, high, degree)]
        p = [mp.mpf(v) for v in reversed(c)]
        error = float(max(abs(mp.polyval(p, x) - y) for x, y in zip(points, exact, strict=True)))
        if error < best[1]:
            best = (c, error)
        if error <= fit.bound:
            break
        if degree > len(best[0]) + 2 and best[0]:
            break  # the error is the coefficients' own rounding: more of them do not help
    return best


RATIOS = (
    Ratio("NORMAL_TAIL", "exp(a^2/2) Ndtr(-a) in a", _normal_tail, 0, 15.6, 4, 5, 3e-8),
    Ratio(
        "NORMAL_TAIL_SHORT",
        "exp(a^2/2) Ndtr(-a) in a, for 16 bits",
        _normal_tail,
        0,
        15,
        2,
        3,
        3e-5,
    ),
    Ratio("ERF_OF_SQUARE", "erf(x)/x in x^2, for x to 3.8", _slope(mp.erf), 0, 14.44, 6, 4, 8e-8),
    Ratio(
        "ERF_SHORT",
        "erf(x)/x in x^2, for x to 3 and 16 bits",
        _slope(mp.erf),
        0,
        9,
        2,
        3,
        6e-5,
    ),
    Ratio(
        "TANH_SHORT",
        "tanh(x)/x in x^2, for x to 5.3 and 16 bits",
        _slope(mp.tanh),
        0,
        28.09,
        2,
        3,
        4e-6,
    ),
    Ratio(
        "GELU_SLOPE",
        "exp(a^2/2) Gelu'(-a)/(a0 - a) in a, a0 = 0.75179, for 16 bits",
        _gelu_slope,
        0,
        15,
        2,
        2,
        5e-5,
    ),
)


def closest(fit: Ratio) -> tuple[list[float], list[float], float]:
    """Return numerator and denominator, lowest powers first, and the error, by the Remez exchange."""
    n, f = fit.top + fit.bottom + 2, fit.function
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    # Denser at the lower end, where the functions curve.
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * k / 1200)) ** 2 for k in range(601)]
    values = [f(x) for x in grid]
    at = [600 * k // (n - 1) for k in range(n)]
    above, below = [mp.mpf(1)], [mp.mpf(1)]
    for _ in range(60):
        rows, right = mp.matrix(n, n), mp.matrix(n, 1)
        for i, k in enumerate(at):
            x, y = grid[k], values[k]
            for j in range(fit.top + 1):
                rows[i, j] = x**j
            for j in range(fit.bottom):
                rows[i, fit.top + 1 + j] = -y * x**j
            # The error times the denominator of the previous step.
            rows[i, n - 1] = (-1) ** i * y * mp.polyval(below[::-1], x)
            right[i] = y * x**fit.bottom
        c = list(mp.lu_solve(rows, right))
        above, below = c[: fit.top + 1], [*c[fit.top + 1 : -1], mp.mpf(1)]
        off = [_off(above, below, x, y) for x, y in zip(grid, values, strict=True)]
        peaks: list[int] = []  # the largest error of every run of one sign
        for k in range(601):
            if not peaks or (off[k] < 0) != (off[peaks[-1]] < 0):
                peaks.append(k)
            elif abs(off[k]) > abs(off[peaks[-1]]):
                peaks[-1] = k
        while len(peaks) > n:
            peaks.pop(0 if abs(off[peaks[0]]) < abs(off[peaks[-1]]) else -1)
        if len(peaks) == n:
            at = peaks
    p, q = [single(v) for v in above], [single(v) for v in below]
    return p, q, float(max(abs(_off(p, q, x, y)) for x, y in zip(grid, values, strict=True)))


def _off(above: list[object], below: list[object], x: mp.mpf, y: mp.mpf) -> mp.mpf:
    return mp.polyval(above[::-1], x) / mp.polyval(below[::-1], x) / y - 1


#: First lines of the modules, by command-line word, and names of the polynomials in the second module.
TITLES = {
    "others": "Coefficients of polynomials, lowest power first: made by ``tools/coefficients.py``; do not edit.",
    "bessel": "Coefficients for Bessel and Airy functions: made by ``tools/coefficients.py bessel``; do not edit.",
}
_BESSEL = re.compile("HANKEL|AIRY|[IJKY][01]")


def main() -> int:
    """Print the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=TITLES, nargs="?", default="others")
    part = parser.parse_args().part
    fits = [f for f in FITS if bool(_BESSEL.match(f.name)) == (part == "bessel")]
    ratios = RATIOS if part == "others" else ()
    out = [
        f'"""{TITLES[part]}',
        "",
        "The number behind each is the largest error of the polynomial, in the unit of what it approximates.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        f"__all__ = {sorted(f.name for f in (*fits, *ratios))!r}",
        "",
    ]
    for fit in fits:
        c, error = fitted(fit)
        sys.stderr.write(
            f"{fit.name} degree {len(c) - 1} error {error:.1e} bound {fit.bound:.0e}\n"
        )
        out.append(f"#: {fit.text}; {error:.1e}")
        out.append(f"{fit.name} = ({', '.join(map(repr, c))},)")
    for ratio in ratios:
        above, below, off = closest(ratio)
        out.append(f"#: {ratio.text}: above and below, the highest 1; {off:.1e} of it")
        out.append(
            f"{ratio.name} = (({', '.join(map(repr, above))},), ({', '.join(map(repr, below[:-1]))},))"
        )
    sys.stdout.write("\n".join(out) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
