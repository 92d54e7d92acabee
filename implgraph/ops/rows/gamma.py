"""Rows of the incomplete gamma functions.

For a >= 20 they use Temme's uniform expansion: the normal distribution function of a transformed argument, and three
terms of a correction.  Below, a is raised by 20, which adds a sum of 20 terms of equal sign::

    P(a, x) = P(a + 20, x) + x^a e^-x / gamma(a + 1) * (1 + x/(a+1) (1 + x/(a+2) (1 + ...)))

So the number of operations does not depend on the data, unlike for a series or a continued fraction.  The price is that
only the absolute error of the smaller of P and Q = 1 - P is bounded.
"""

from __future__ import annotations

import math

from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.formulas import coefficients as c
from autofuse.implgraph.ops.formulas import special_reference as ref
from autofuse.implgraph.ops.formulas.vector_math import Vec, horner
from autofuse.implgraph.ops.row_kinds import composite
from autofuse.implgraph.ops.rows.activations import normal_below
from autofuse.implgraph.ops.rows.math import log1p

__all__ = ["ROWS"]

#: Smallest parameter for the expansion; smaller parameters are raised by this number.
STEPS = 20
#: Larger arguments are clamped for the sum: its factor is 0 there.
LONGEST = 150.0
#: Clamping range of parameters and arguments, from the least float32, so that logarithms and quotients are finite.
LEAST, MOST = 2.0**-149, 1e30
#: Beyond this, the correction of the expansion is negligible.
EDGE = 1.3


def _phi(mu: Vec) -> Vec:
    """Return the exponent mu - ln(1 + mu), clamped so that rounding cannot make it negative."""
    return (mu - log1p(mu)).maximum(0.0)


def _temme(a: Vec, x: Vec) -> tuple[Vec, Vec]:
    """Return (z, correction), where P is the normal distribution function at z less the correction; for a >= 20."""
    mu = (x - a) / a
    inside = mu.maximum(-0.3).minimum(0.3)
    root = (_phi(mu) * 2.0).sqrt()
    outside = (mu < 0.0).choose(-root, root)
    eta = (abs(mu) < 0.3).choose(horner(inside, c.TEMME_ETA) * mu, outside)
    z = (eta * a.sqrt()).maximum(-30.0).minimum(30.0)
    e = eta.maximum(-EDGE).minimum(EDGE)
    part = (horner(e, c.TEMME_2) / a + horner(e, c.TEMME_1)) / a + horner(e, c.TEMME_0)
    return z, (z * z * -0.5).exp() * part / (a * (2.0 * math.pi)).sqrt()


def _raised(a: Vec, x: Vec) -> Vec:
    """Return P(a, x) - P(a + 20, x) for a below 20."""
    x = x.minimum(LONGEST)
    small = a < 1.0
    near = (a * x.ln() - x).exp() * horner(a.minimum(1.0), c.RGAMMA_ONE)
    from_one = a.maximum(1.0)
    mu = (x - from_one) / from_one
    decay = (_phi(mu) * from_one * -1.0).exp()
    factor = horner(1.0 / from_one, c.STIRLING) / (from_one * (2.0 * math.pi)).sqrt()
    total = x * 0.0 + 1.0
    for k in range(STEPS - 1, 0, -1):
        total = total * (x / (a + float(k))) + 1.0
    return small.choose(near, decay * factor) * total


def _both(a: Vec, x: Vec, upper: bool) -> Vec:
    raw_a, raw_x = a, x
    a, x = a.maximum(LEAST).minimum(MOST), x.maximum(LEAST).minimum(MOST)
    few = a < float(STEPS)
    z, correction = _temme(few.choose(a + float(STEPS), a), x)
    added = few.choose(_raised(a, x), 0.0)
    if upper:
        z, correction, added = -z, -correction, -added
    value = normal_below(z) - correction + added
    value = value.maximum(0.0).minimum(1.0)
    # Clamping loses which of the two is larger, and beyond it only that matters.
    cut = raw_a.maximum(raw_x) > MOST
    low = (raw_x.equals(0.0) & (raw_a > 0.0)) | (cut & (raw_x < raw_a))
    high = (raw_a.equals(0.0) & (raw_x > 0.0)) | (cut & (raw_a < raw_x))
    value = low.choose(1.0 if upper else 0.0, value)
    value = high.choose(0.0 if upper else 1.0, value)
    known = (raw_a >= 0.0) & (raw_x >= 0.0) & ((raw_a + raw_x) > 0.0)
    both = raw_a.minimum(raw_x)
    return (known & (both < math.inf)).choose(value, math.nan)


def _igamma(a: Vec, x: Vec) -> Vec:
    return _both(a, x, False)


def _igammac(a: Vec, x: Vec) -> Vec:
    return _both(a, x, True)


_SOURCE = (
    "Temme's uniform expansion (DLMF 8.12), own fits; recurrence (DLMF 8.8.5) below a = 20; "
    "Stirling's factor"
)

ROWS: tuple[OpDef, ...] = (
    composite(
        "Igamma",
        _igamma,
        ref.igamma,
        2,
        ulp=64.0,
        absolute=4e-6,
        doc="regularised lower incomplete gamma function P(a, b); absolute error 2e-6",
        source=_SOURCE,
        exact_quotients=True,
    ),
    composite(
        "Igammac",
        _igammac,
        ref.igammac,
        2,
        ulp=64.0,
        absolute=4e-6,
        doc="regularised upper incomplete gamma function Q(a, b); absolute error 2e-6",
        source=_SOURCE,
        exact_quotients=True,
    ),
)
