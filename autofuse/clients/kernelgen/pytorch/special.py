"""Rows of special functions, which PyTorch has under the same names, and of functions of the parts of floats."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autofuse.clients.kernelgen.pytorch.operation import Operation, Row, number

__all__ = ["ROWS"]

_S = "torch.special"


def _one(name: str) -> Row:
    return Row(f"{name}({{0}})", wide=True, tensors=(0,))


def _two(name: str) -> Row:
    return Row(f"{name}({{0}}, {{1}})", wide=True, tensors=(0, 1))


def _shifted(kind: str) -> Row:
    """Return the row of a polynomial whose degree is an attribute."""

    def form(op: Operation) -> str:
        degree = number(int(op.attrs["n"]))
        return f"{_S}.shifted_chebyshev_polynomial_{kind}({op[0]}, {degree})"

    return Row(form, wide=True, tensors=(0,))


ROWS: Mapping[str, Row] = {
    # PyTorch's version underflows to 0 before the result is too small for float32.
    "Ndtr": Row(f"0.5 * torch.erfc({{0}} * {number(-math.sqrt(0.5))})", wide=True, tensors=(0,)),
    "Ndtri": _one(f"{_S}.ndtri"),
    "Erfcx": _one(f"{_S}.erfcx"),
    "Erfinv": _one("torch.erfinv"),
    "Lgamma": _one("torch.lgamma"),
    "Digamma": _one("torch.digamma"),
    "Zeta": Row(
        f'torch.where({{1}} > 0, {_S}.zeta({{0}}, {{1}}), float("nan"))', wide=True, tensors=(0, 1)
    ),
    "Igamma": _two(f"{_S}.gammainc"),
    "Igammac": _two(f"{_S}.gammaincc"),
    "BesselJ0": _one(f"{_S}.bessel_j0"),
    "BesselJ1": _one(f"{_S}.bessel_j1"),
    "BesselY0": _one(f"{_S}.bessel_y0"),
    "BesselY1": _one(f"{_S}.bessel_y1"),
    "ModifiedBesselI0": _one(f"{_S}.modified_bessel_i0"),
    "ModifiedBesselI1": _one(f"{_S}.modified_bessel_i1"),
    "ModifiedBesselK0": _one(f"{_S}.modified_bessel_k0"),
    "ModifiedBesselK1": _one(f"{_S}.modified_bessel_k1"),
    "ScaledModifiedBesselK0": _one(f"{_S}.scaled_modified_bessel_k0"),
    "ScaledModifiedBesselK1": _one(f"{_S}.scaled_modified_bessel_k1"),
    "SphericalBesselJ0": _one(f"{_S}.spherical_bessel_j0"),
    "AiryAi": _one(f"{_S}.airy_ai"),
    "ShiftedChebyshevPolynomialT": _shifted("t"),
    "ShiftedChebyshevPolynomialU": _shifted("u"),
    "ShiftedChebyshevPolynomialV": _shifted("v"),
    "ShiftedChebyshevPolynomialW": _shifted("w"),
    "LaguerrePolynomialL": Row(f"{_S}.laguerre_polynomial_l({{0}}, {{1}})", wide=True),
    "LegendrePolynomialP": Row(f"{_S}.legendre_polynomial_p({{0}}, {{1}})", wide=True),
    "FrexpMantissa": Row("torch.frexp({0}).mantissa", wide=True, tensors=(0,)),
    "FrexpExponent": Row(
        "torch.where(torch.isfinite({0}), torch.frexp({0}).exponent, 0)", wide=True, tensors=(0,)
    ),
    # In float64, no intermediate power of two overflows.
    "Ldexp": Row(
        lambda op: (
            f"({op[0]} * torch.exp2(torch.trunc({op.tensor(1)}.double()))).to({op.dtype_text})"
        )
    ),
}
