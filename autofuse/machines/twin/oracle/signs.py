"""Signs that a result has whatever its error is.

A bound may be as wide as the result: of a number below the smallest normal one, of an exponential of an inexact
operand.  It says nothing of the sign then, but the op may: a product of two negative numbers is not negative.  Where
the sign of every operand is sure, so is that of a product, a quotient, a power or an odd function; an exponential has
one sign always.  Of a sum with cancellation nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofuse.implgraph.ops.definition import OpDef
from autofuse.machines.twin.oracle.rounding import Array, Value

__all__ = ["are_told", "from_operands", "sure"]

#: Never negative.
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
#: The sign of the first operand.
_ODD = frozenset(
    {"Identity", "Cast", "Erf", "Tanh", "Sinh", "Asinh", "Atan", "Atanh", "Asin", "Expm1", "Log1p"}
    | {"Sign", "Softsign", "Reciprocal", "Erfinv", "ModifiedBesselI1"}
)
_PRODUCTS = frozenset({"Mul", "Div", "TrueDiv"})


def sure(x: Value, known: Array | None, safety: float) -> Array:
    """1, -1 or 0 per element: its sign, or 0 where the error may turn it and nothing else is known.

    Args:
        x: floats or integers.
        known: what :func:`from_operands` found for it.
        safety: how many times its bound an error may be.
    """
    if x.data.dtype.kind == "b":
        return np.zeros(x.data.shape, np.int8)
    size = (x.data > 0).astype(np.int8) - (x.data < 0)
    if x.error is None:
        return size
    far = np.abs(x.data) > safety * x.error
    return np.where(far, size, np.int8(0) if known is None else known)


def are_told(row: OpDef) -> bool:
    """True if the operands of an op determine the sign of its result, also near 0."""
    return row.name in _POSITIVE | _ODD | _PRODUCTS | {"Neg", "CopySign", "Pow"}


def from_operands(row: OpDef, signs: Sequence[Array], operands: Sequence[Value]) -> Array | None:
    """The sure signs of a result from those of its operands; None where the op does not tell.

    Args:
        row: of an element-wise op.
        signs: of the operands, as :func:`sure` gives them.
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
