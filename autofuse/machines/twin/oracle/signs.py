"""Signs of a result that are certain despite its error.

A bound may be as wide as the result, for example for a subnormal number or an exponential of an inexact operand. It
then says nothing about the sign, but the op may: a product of two negative numbers is not negative. If the sign of
every operand is certain, so is the sign of a product, a quotient, a power or an odd function; an exponential always has
the same sign. The sign of a sum with cancellation is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofuse.implgraph.ops.definition import OpDef
from autofuse.machines.twin.oracle.rounding import Array, Value

__all__ = ["are_told", "from_operands", "sure"]

#: Ops whose results are never negative.
_POSITIVE = frozenset(
    {
        "Exp",
        "Exp2",
        "Abs",
        "Square",
        "Sqrt",
        "Rsqrt",
        "Sigmoid",
        "Softplus",
        "Cosh",
        "Erfc",
        "Erfcx",
    }
    | {"Ndtr", "Relu", "HardSigmoid", "Acosh", "Acos"}
)
#: Ops whose results have the sign of the first operand.
_ODD = frozenset(
    {"Identity", "Cast", "Erf", "Tanh", "Sinh", "Asinh", "Atan", "Atanh", "Asin", "Expm1", "Log1p"}
    | {"Sign", "Softsign", "Reciprocal", "Erfinv", "ModifiedBesselI1"}
)
_PRODUCTS = frozenset({"Mul", "Div", "TrueDiv"})


def sure(x: Value, known: Array | None, safety: float) -> Array:
    """Return 1, -1 or 0 per element: its sign, or 0 where the error may flip it and nothing else is known.

    Args:
        x: floats or integers.
        known: the result of :func:`from_operands` for it.
        safety: largest ratio of an error to its bound.
    """
    if x.data.dtype.kind == "b":
        return np.zeros(x.data.shape, np.int8)
    size = (x.data > 0).astype(np.int8) - (x.data < 0)
    if x.error is None:
        return size
    far = np.abs(x.data) > safety * x.error
    return np.where(far, size, np.int8(0) if known is None else known)


def are_told(row: OpDef) -> bool:
    """Return True if the operands of an op determine the sign of its result, also near 0."""
    return row.name in _POSITIVE | _ODD | _PRODUCTS | {"Neg", "CopySign", "Pow"}


def from_operands(row: OpDef, signs: Sequence[Array], operands: Sequence[Value]) -> Array | None:
    """Return the certain signs of a result from its operands' signs; None if the op does not determine them.

    Args:
        row: row of an element-wise op.
        signs: of the operands, as returned by :func:`sure`.
        operands: their values.
    """
    if row.name in _POSITIVE:
        return np.ones(np.shape(signs[0]), np.int8)
    if row.name in _ODD:
        return signs[0]
    if row.name == "Neg":
        return np.asarray(-signs[0])
    if row.name == "CopySign":
        return signs[1]
    if row.name in _PRODUCTS:
        return np.asarray(signs[0] * signs[1])
    if row.name == "Pow":
        exponent = operands[1]
        with np.errstate(all="ignore"):
            odd = np.fmod(exponent.data, 2) != 0
        negative = np.where(odd, np.int8(-1), np.int8(1))
        exact = exponent.error is None or exponent.error == 0
        return np.asarray(
            np.where(
                signs[0] > 0, np.int8(1), np.where(exact & (signs[0] < 0), negative, np.int8(0))
            )
        )
    return None
