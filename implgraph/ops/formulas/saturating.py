"""Hyperbolic tangent and error function, for architectures without calls for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autofuse.implgraph.ops.definition import Attrs, Expansion, OpSink
from autofuse.implgraph.ops.formulas import coefficients as c
from autofuse.implgraph.ops.formulas.vector_math import Formula, Vec, formula, horner, monic

__all__ = ["erf", "short_erf", "short_tanh", "tanh", "without_call"]


def without_call(op: str, fn: Formula) -> Expansion:
    """Return a float32 formula as an expansion that declines if the architecture has a call for the op."""
    written_out = formula(fn, "float32")

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        return None if s.takes(op, s.dtype_of(xs[0])) else written_out(s, xs, attrs)

    return expand


def tanh(x: Vec) -> Vec:
    """Return the hyperbolic tangent: for large x by the exponential, which is 0 or infinite at the ends; 3 ulp."""
    square = x * x
    near = x + x * (square * horner(square, c.TANH))
    far = 1.0 - 2.0 / ((x * 2.0).exp() + 1.0)
    return (square < 0.36).choose(near, far)


def erf(x: Vec) -> Vec:
    """Return the error function; 6 ulp."""
    return _quotient(x, 3.8, c.ERF_OF_SQUARE)


def short_tanh(x: Vec) -> Vec:
    """Return the hyperbolic tangent for 16-bit results."""
    return _quotient(x, 5.3, c.TANH_SHORT)


def short_erf(x: Vec) -> Vec:
    """Return the error function for 16-bit results."""
    return _quotient(x, 3.0, c.ERF_SHORT)


def _quotient(x: Vec, end: float, ratio: tuple[Sequence[float], Sequence[float]]) -> Vec:
    """Return x times a quotient of polynomials in x^2; exactly 1 or -1 beyond ``end``.

    There the square is clamped, so that the product keeps growing and is then clamped itself: adding 1 must give 0 or
    2.
    """
    square = (x * x).minimum(end * end)
    above, below = ratio
    whole = x * (horner(square, above) / monic(square, below))
    return whole.minimum(1.0).maximum(-1.0)
