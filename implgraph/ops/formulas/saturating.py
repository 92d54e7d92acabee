"""Hyperbolic tangent and error function, for architectures that have no calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autofuse.implgraph.ops.definition import Attrs, Expansion, OpSink
from autofuse.implgraph.ops.formulas import coefficients as c
from autofuse.implgraph.ops.formulas.vector_math import Formula, Vec, formula, horner, monic

__all__ = ["erf", "short_erf", "short_tanh", "tanh", "without_call"]


def without_call(op: str, fn: Formula) -> Expansion:
    """A formula of float32 as an expansion that declines where the architecture has a call of the op."""
    written_out = formula(fn, "float32")

    def expand(s: OpSink, xs: Sequence[Any], attrs: Attrs) -> Any:
        return None if s.takes(op, s.dtype_of(xs[0])) else written_out(s, xs, attrs)

    return expand


def tanh(x: Vec) -> Vec:
    """The tangent: of large x by the exponential, which is 0 or infinite at the ends; 3 ulp."""
    square = x * x
    near = x + x * (square * horner(square, c.TANH))
    far = 1.0 - 2.0 / ((x * 2.0).exp() + 1.0)
    return (square < 0.36).choose(near, far)


def erf(x: Vec) -> Vec:
    """The error function; 6 ulp."""
    return _quotient(x, 3.8, c.ERF_OF_SQUARE)


def short_tanh(x: Vec) -> Vec:
    """The tangent, of 16 bits."""
    return _quotient(x, 5.3, c.TANH_SHORT)


def short_erf(x: Vec) -> Vec:
    """The error function, of 16 bits."""
    return _quotient(x, 3.0, c.ERF_SHORT)


def _quotient(x: Vec, end: float, ratio: tuple[Sequence[float], Sequence[float]]) -> Vec:
    """A quotient of polynomials of the square of x, times x, and exactly 1 or -1 beyond ``end``.

    There the square is cut, so that the product grows on, and then is cut itself: who adds 1 expects 0 or 2.
    """
    square = (x * x).minimum(end * end)
    above, below = ratio
    whole = x * (horner(square, above) / monic(square, below))
    return whole.minimum(1.0).maximum(-1.0)
