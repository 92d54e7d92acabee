"""Rows of Bessel, modified Bessel and Airy functions.

Small arguments use polynomials, large ones asymptotic forms whose amplitudes are polynomials too.  The zeros of these
functions are not float32 numbers: the error is small relative to the amplitude, not to a value near a zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.formulas import bessel_coefficients as c
from autofuse.implgraph.ops.formulas import special_reference as ref
from autofuse.implgraph.ops.formulas.vector_math import Vec, horner, two_product
from autofuse.implgraph.ops.row_kinds import composite

__all__ = ["ROWS"]

INF, NAN = math.inf, math.nan
LARGEST = 3.4028234663852886e38
FITTED = "own polynomials (mpmath fits)"
WAVES = "own polynomials below 5, Hankel's asymptotic form with own amplitudes beyond (Abramowitz-Stegun 9.2.5)"


def _waves(a: Vec, order: int, second: bool) -> Vec:
    """Return Hankel's expansion for a >= 5: amplitudes from polynomials, sine and cosine from Ascend calls."""
    b = a.maximum(5.0).minimum(LARGEST)
    v = 5.0 / b
    u = v * v
    p = horner(u, c.HANKEL_P1 if order else c.HANKEL_P0)
    q = horner(u, c.HANKEL_Q1 if order else c.HANKEL_Q0) / b
    s, co = b.call("Sin"), b.call("Cos")
    plus, minus = s + co, s - co
    root = b.sqrt() * math.sqrt(math.pi)
    # cos and sin of b - pi/4, times sqrt 2, are plus and minus; of b - 3pi/4, minus and -plus.
    if order == 0:
        return (p * minus + q * plus if second else p * plus - q * minus) / root
    return (q * minus - p * plus if second else p * minus + q * plus) / root


def _inner(a: Vec) -> Vec:
    b = a.minimum(5.0)
    return b * b * 0.08 - 1.0


def _j0(x: Vec) -> Vec:
    a = abs(x)
    value = (a < 5.0).choose(horner(_inner(a), c.J0), _waves(a, 0, False))
    return a.equals(INF).choose(0.0, value)


def _j1(x: Vec) -> Vec:
    a = abs(x)
    value = (a < 5.0).choose(horner(_inner(a), c.J1) * a, _waves(a, 1, False))
    return a.equals(INF).choose(0.0, value) * x.unit()


def _y_ends(x: Vec, value: Vec) -> Vec:
    value = x.equals(INF).choose(0.0, value)
    value = x.equals(0.0).choose(-INF, value)
    return (x >= 0.0).choose(value, x * NAN)


def _y0(x: Vec) -> Vec:
    t = _inner(x)
    log = x.maximum(1e-45).minimum(5.0).ln() * (2.0 / math.pi)
    near = log * horner(t, c.J0) + horner(t, c.Y0)
    return _y_ends(x, (x < 5.0).choose(near, _waves(x, 0, True)))


def _y1(x: Vec) -> Vec:
    t, b = _inner(x), x.maximum(1e-45).minimum(5.0)
    log = b.ln() * (2.0 / math.pi)
    near = (log * horner(t, c.J1) + horner(t, c.Y1)) * b - (2.0 / math.pi) / b
    return _y_ends(x, (x < 5.0).choose(near, _waves(x, 1, True)))


def _growth(a: Vec, order: int) -> Vec:
    """Return exp(-a) I(a), for a >= 0, divided by a if the order is 1 and a is below 8."""
    near = horner(a.minimum(8.0) * 0.25 - 1.0, c.I1 if order else c.I0)
    b = a.maximum(8.0)
    far = horner(16.0 / b - 1.0, c.I1_FAR if order else c.I0_FAR) / b.sqrt()
    return (a < 8.0).choose(near * a if order else near, far)


def _i0(x: Vec) -> Vec:
    a = abs(x).minimum(200.0)
    half = (a * 0.5).exp()
    return half * _growth(a, 0) * half


def _i1(x: Vec) -> Vec:
    a = abs(x)
    half = (a.minimum(200.0) * 0.5).exp()
    value = half * _growth(a.minimum(200.0), 1) * half
    return value.with_sign_of(x)


def _k_parts(x: Vec, order: int) -> tuple[Vec, Vec]:
    """Return K(x) for x up to 1, and exp(x) K(x) beyond."""
    b = x.maximum(1e-45).minimum(1.0)
    u = b * b
    if order == 0:
        near = horner(u, c.K0) - b.ln() * horner(u, c.I0_NEAR)
    else:
        near = (b.ln() * horner(u, c.I1_NEAR) + horner(u, c.K1)) * b + 1.0 / b
    f = x.maximum(1.0)
    far = horner(2.0 / f - 1.0, c.K1_FAR if order else c.K0_FAR) / f.sqrt()
    return near, far


def _k_ends(x: Vec, value: Vec) -> Vec:
    value = x.equals(0.0).choose(INF, value)
    return (x >= 0.0).choose(value, x * NAN)


def _k(order: int) -> Callable[[Vec], Vec]:
    def fn(x: Vec) -> Vec:
        near, far = _k_parts(x, order)
        half = (x.maximum(1.0).minimum(300.0) * -0.5).exp()
        return _k_ends(x, (x < 1.0).choose(near, half * far * half))

    return fn


def _scaled_k(order: int) -> Callable[[Vec], Vec]:
    def fn(x: Vec) -> Vec:
        near, far = _k_parts(x, order)
        return _k_ends(x, (x < 1.0).choose(near * x.maximum(0.0).minimum(1.0).exp(), far))

    return fn


def _spherical_j0(x: Vec) -> Vec:
    a = abs(x)
    value = a.minimum(LARGEST).call("Sin") / a
    # x^2/6 is below half an ulp.
    value = a.equals(INF).choose(0.0, value)
    return (a < 1e-4).choose(1.0, value)


#: 2/3 in 12-bit parts and a remainder.
_THIRDS = (0.66650390625, 1.6278028488159180e-4)


def _two_thirds(b: Vec, root: Vec) -> tuple[Vec, Vec]:
    """Return 2/3 b^1.5 and its rounding error, where root is the rounded root of b."""
    square, lost = two_product(root, root)
    rest = ((b - square) - lost) / (root * 2.0)
    power, lost = two_product(b, root)
    rest = rest * b + lost
    high, low = _THIRDS
    factor = float(np.float32(high + low))
    coarse = power * 4097.0
    coarse = coarse - (coarse - power)
    fine = power - coarse
    tail = factor - high
    value = power * factor
    error = ((coarse * high - value) + coarse * tail + fine * high) + fine * tail
    return value, error + (rest * factor + power * (2.0 / 3.0 - factor))


def _airy(x: Vec) -> Vec:
    middle = horner(x.maximum(-3.0).minimum(1.0) * 0.5 + 0.5, c.AIRY)
    # Right: decay, the exponential in two factors.
    a = x.maximum(1.0).minimum(30.0)
    root = a.sqrt()
    zeta = a * root * (2.0 / 3.0)
    half = (zeta * -0.5).exp()
    quarter = root.sqrt()
    decay = (
        half * (horner(1.0 / zeta, c.AIRY_DECAY) / (quarter * (2.0 * math.sqrt(math.pi)))) * half
    )
    # Left: waves, their phase in two parts.
    b = (-x).maximum(3.0).minimum(1e6)
    root = b.sqrt()
    zeta, low = _two_thirds(b, root)
    v = 1.0 / zeta
    sine, cosine = zeta.call("Sin"), zeta.call("Cos")
    u = low * low
    turn, keep = ((u * (1.0 / 120.0) - 1.0 / 6.0) * u + 1.0) * low, (u * (1.0 / 24.0) - 0.5) * u
    s, co = sine + (cosine * turn + sine * keep), cosine - (sine * turn - cosine * keep)
    p, q = horner(v, c.AIRY_P), horner(v, c.AIRY_Q) * v
    # cos and sin of zeta - pi/4 are (co + s) and (s - co), over sqrt 2.
    waves = (p * (co + s) + q * (s - co)) / (root.sqrt() * math.sqrt(2.0 * math.pi))
    value = (x < -3.0).choose(waves, (x <= 1.0).choose(middle, decay))
    value = abs(x).equals(INF).choose(0.0, value)
    return ((x >= -1e6) | x.equals(-INF)).choose(value, x * NAN)


ROWS: tuple[OpDef, ...] = (
    composite(
        "BesselJ0",
        _j0,
        lambda x: ref.bessel_j(0, x),
        ulp=16.0,
        absolute=1e-6,
        doc="J0; absolute error 2e-7",
        source=WAVES,
    ),
    composite(
        "BesselJ1",
        _j1,
        lambda x: ref.bessel_j(1, x),
        ulp=16.0,
        absolute=1e-6,
        doc="J1; absolute error 2e-7",
        source=WAVES,
    ),
    composite(
        "BesselY0",
        _y0,
        lambda x: ref.bessel_y(0, x),
        ulp=16.0,
        absolute=1e-6,
        doc="Y0; absolute error 4e-7",
        source=WAVES,
    ),
    composite(
        "BesselY1",
        _y1,
        lambda x: ref.bessel_y(1, x),
        ulp=16.0,
        absolute=1e-6,
        doc="Y1; absolute error 4e-7 where |Y1| < 1",
        source=WAVES,
    ),
    composite(
        "ModifiedBesselI0", _i0, lambda x: ref.bessel_i(0, x), ulp=8.0, doc="I0", source=FITTED
    ),
    composite(
        "ModifiedBesselI1", _i1, lambda x: ref.bessel_i(1, x), ulp=8.0, doc="I1", source=FITTED
    ),
    composite(
        "ModifiedBesselK0", _k(0), lambda x: ref.bessel_k(0, x), ulp=8.0, doc="K0", source=FITTED
    ),
    composite(
        "ModifiedBesselK1", _k(1), lambda x: ref.bessel_k(1, x), ulp=8.0, doc="K1", source=FITTED
    ),
    composite(
        "ScaledModifiedBesselK0",
        _scaled_k(0),
        lambda x: ref.bessel_k(0, x, True),
        ulp=8.0,
        doc="exp(x) K0(x)",
        source=FITTED,
    ),
    composite(
        "ScaledModifiedBesselK1",
        _scaled_k(1),
        lambda x: ref.bessel_k(1, x, True),
        ulp=8.0,
        doc="exp(x) K1(x)",
        source=FITTED,
    ),
    composite(
        "SphericalBesselJ0",
        _spherical_j0,
        ref.spherical_j0,
        ulp=5.0,
        doc="sin(x)/x",
        source="set by Ascend's Sin",
    ),
    composite(
        "AiryAi",
        _airy,
        ref.airy_ai,
        ulp=16.0,
        absolute=2e-6,
        doc="Ai; left of 0 absolute error 1e-6, NaN below -1e6",
        source="own polynomials, asymptotic forms (Abramowitz-Stegun 10.4.59-60)",
        each_step=True,
    ),
)
