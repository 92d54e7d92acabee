"""The float64 references of special functions, and the fitted polynomials, against mpmath."""

import mpmath as mp
import numpy as np
import pytest
from coefficients import FITS, RATIOS

from autofuse.implgraph.ops.formulas import bessel_coefficients, coefficients
from autofuse.implgraph.ops.formulas import special_reference as ref


def ndtri(p):
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


WIDE = (
    -30.5,
    -7.25,
    -1.5,
    -0.3,
    -1e-6,
    1e-6,
    0.01,
    0.3,
    0.99,
    1.5,
    4.9,
    7.3,
    24.9,
    25.1,
    61.0,
    90.0,
)
POSITIVE = tuple(x for x in WIDE if x > 0)
CASES = {
    "erfc": (ref.erfc, mp.erfc, (-3.0, -0.5, 0.0, 0.5, 3.0, 9.0)),
    "erfcx": (ref.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (-3.0, 0.0, 0.5, 4.99, 5.01, 100.0)),
    "lgamma": (ref.lgamma, lambda x: mp.log(abs(mp.gamma(x))), WIDE),
    "digamma": (ref.digamma, mp.digamma, WIDE),
    "erfinv": (ref.erfinv, mp.erfinv, (-0.999999, -0.5, 1e-9, 0.3, 0.7, 0.9999)),
    "ndtri": (ref.ndtri, ndtri, (1e-7, 0.01, 0.3, 0.5000001, 0.9, 0.999)),
    "j0": (lambda x: ref.bessel_j(0, x), lambda x: mp.besselj(0, x), WIDE),
    "j1": (lambda x: ref.bessel_j(1, x), lambda x: mp.besselj(1, x), WIDE),
    "y0": (lambda x: ref.bessel_y(0, x), lambda x: mp.bessely(0, x), POSITIVE),
    "y1": (lambda x: ref.bessel_y(1, x), lambda x: mp.bessely(1, x), POSITIVE),
    "i0": (lambda x: ref.bessel_i(0, x), lambda x: mp.besseli(0, x), WIDE),
    "i1": (lambda x: ref.bessel_i(1, x), lambda x: mp.besseli(1, x), WIDE),
    "k0": (lambda x: ref.bessel_k(0, x), lambda x: mp.besselk(0, x), POSITIVE),
    "k1": (lambda x: ref.bessel_k(1, x), lambda x: mp.besselk(1, x), POSITIVE),
}


@pytest.mark.parametrize("name", CASES)
def test_references_agree_with_mpmath(name):
    fn, exact, points = CASES[name]
    got = fn(np.array(points))
    want = np.array([float(exact(mp.mpf(x))) for x in points])
    np.testing.assert_allclose(got, want, rtol=2e-10, atol=1e-12)


def test_airy_far_from_the_origin():
    """Zero where mpmath is slow and the function is smaller than any float64; below, the phase is lost."""
    x = np.array([2e6, np.inf, -np.inf, -2e6, np.nan])
    np.testing.assert_array_equal(ref.airy_ai(x), [0.0, 0.0, 0.0, np.nan, np.nan])
    np.testing.assert_allclose(
        ref.airy_ai(np.array([-2.5, 0.0, 3.0])), [float(mp.airyai(v)) for v in (-2.5, 0, 3)]
    )


def test_incomplete_gamma_agrees_with_mpmath():
    rng = np.random.default_rng(7)
    a = 10.0 ** rng.uniform(-3, 4.3, 60)
    x = a * np.exp(rng.normal(size=60) * np.minimum(1.5, 3 / np.sqrt(a)))
    want = [float(mp.gammainc(p, 0, q, regularized=True)) for p, q in zip(a, x, strict=True)]
    np.testing.assert_allclose(ref.igamma(a, x), want, atol=2e-11)
    np.testing.assert_allclose(ref.igammac(a, x), 1 - np.array(want), atol=2e-11)


def test_incomplete_gamma_at_the_ends():
    a = np.array([0.0, 0.0, 2.0, 2.0, np.inf, np.inf, -1.0, 2.0])
    x = np.array([0.0, 3.0, 0.0, np.inf, 5.0, np.inf, 1.0, -1.0])
    want = np.array([np.nan, 1.0, 0.0, 1.0, 0.0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(ref.igamma(a, x), want)
    np.testing.assert_array_equal(ref.igammac(a, x), 1 - want)


def test_zeta_agrees_with_mpmath():
    x, q = np.array([1.1, 2.0, 7.5, 30.0]), np.array([0.2, 1.0, 3.7, 20.0])
    want = [float(mp.zeta(a, b)) for a, b in zip(x, q, strict=True)]
    np.testing.assert_allclose(ref.hurwitz_zeta(x, q), want, rtol=1e-12)


@pytest.mark.parametrize("fit", FITS, ids=lambda f: f.name)
def test_polynomials_fit_their_functions(fit):
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    module = bessel_coefficients if hasattr(bessel_coefficients, fit.name) else coefficients
    powers = list(reversed(getattr(module, fit.name)))
    for k in range(8):
        x = low + (high - low) * (k + mp.mpf("0.37")) / 8
        assert abs(mp.polyval(powers, x) - fit.function(x)) < max(2e-7, fit.bound)


@pytest.mark.parametrize("ratio", RATIOS, ids=lambda r: r.name)
def test_quotients_fit_their_functions(ratio):
    low, high = mp.mpf(ratio.low), mp.mpf(ratio.high)
    above, below = getattr(coefficients, ratio.name)
    for k in range(8):
        x = low + (high - low) * ((k + mp.mpf("0.37")) / 8) ** 2
        have = mp.polyval(above[::-1], x) / mp.polyval([1, *below[::-1]], x)
        assert abs(have / ratio.function(x) - 1) < ratio.bound
