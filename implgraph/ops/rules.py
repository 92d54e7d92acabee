"""Dtype and shape rules and references shared by the rows of ``rows/``."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import Expr, product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype
from autofuse.implgraph.ops.definition import Attrs, OpError, Shape

__all__ = [
    "ROUNDING",
    "any_dtype",
    "bits_as_dtype",
    "bits_as_reference",
    "bits_dtype",
    "broadcast_shape",
    "broadcast_shapes",
    "cast_dtype",
    "cast_reference",
    "compare_dtype",
    "erf",
    "fill_dtype",
    "float_dtype",
    "integer_dtype",
    "number_dtype",
    "power",
    "power_dtype",
    "reciprocal",
    "reference_of",
    "reshape_shape",
    "same_dtype",
    "select_dtype",
    "sum_all",
    "target_shape",
    "truth_dtype",
    "with_source",
]


# dtype and shape rules ------------------------------------------------------------------------


def same_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the common dtype of all inputs; raise AF1203 if the inputs have none in common."""
    first = dtypes[0]
    for d in dtypes[1:]:
        if d != first:
            names = ", ".join(x.name for x in dtypes)
            raise OpError(
                "AF1203", f"inputs have different dtypes: {names}", f"insert a Cast to {first}"
            )
    return first


def _only(kinds: str, what: str) -> Callable[[Sequence[DType], Attrs], DType]:
    def rule(dtypes: Sequence[DType], attrs: Attrs) -> DType:
        d = same_dtype(dtypes, attrs)
        if d.kind not in kinds:
            raise OpError("AF1203", f"{d} is not {what}", "insert a Cast")
        return d

    return rule


float_dtype = _only("f", "a float type")
number_dtype = _only("fiu", "a number type")
integer_dtype = _only("iu", "an integer type")
bits_dtype = _only("iub", "an integer type or bool")


def power_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the common dtype of base and exponent; the base's dtype for a float base and an integer exponent."""
    if dtypes[0].kind == "f" and dtypes[1].kind in "iu":
        return dtypes[0]
    return number_dtype(dtypes, attrs)


def truth_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return bool, for inputs of any dtypes."""
    return BY_NAME["bool"]


def fill_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the tensor's dtype for MaskedFill, whose mask, the second operand, is bool."""
    return select_dtype((dtypes[1], dtypes[0], dtypes[2]), attrs)


def compare_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return bool, for inputs of one dtype."""
    same_dtype(dtypes, attrs)
    return BY_NAME["bool"]


def select_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the dtype of the two values; the condition is bool."""
    if dtypes[0].kind != "b":
        raise OpError(
            "AF1203",
            f"the condition of Select must be bool, not {dtypes[0]}",
            "insert a Cast to bool",
        )
    return same_dtype(dtypes[1:], attrs)


def cast_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the target dtype; a rounding mode must fit it."""
    to, mode = BY_NAME[attrs["dtype"]], attrs.get("round", "")
    if mode and mode not in ROUNDING:
        raise OpError(
            "AF1205", f"unknown rounding mode {mode!r}", f"known: {', '.join(sorted(ROUNDING))}"
        )
    if mode and not (dtypes[0].kind == "f" and (to.kind in "iu" or to == dtypes[0])):
        raise OpError(
            "AF1205",
            f"a rounding mode applies only to a Cast from a float to an integer or to itself, not {dtypes[0]} to {to}",
            "leave out the attribute",
        )
    return to


def any_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the dtype of the first input."""
    return dtypes[0]


def broadcast_shapes(shapes: Sequence[tuple[Expr, ...]]) -> tuple[Expr, ...]:
    """Broadcast symbolic shapes as NumPy does; only a literal 1 broadcasts.

    Raises:
        OpError: AF1204 when two sizes differ and neither is 1.
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Expr] = []
    for i in range(rank):
        size: Expr | None = None
        for s in shapes:
            j = i - (rank - len(s))
            if j < 0:
                continue
            if size is None or size == 1:
                size = s[j]
            elif s[j] != 1 and s[j] != size:
                text = " and ".join("[" + ", ".join(map(str, x)) + "]" for x in shapes)
                raise OpError(
                    "AF1204",
                    f"shapes {text} do not broadcast: {size} against {s[j]} in dimension {i}",
                    "sizes must be equal or 1; insert a Reshape to line the dimensions up",
                )
        assert size is not None
        out.append(size)
    return tuple(out)


def broadcast_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    """Return the broadcast shape of all inputs."""
    return broadcast_shapes(shapes)


def target_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    """Shape rule of Broadcast: the attribute, if the input broadcasts to it."""
    shape: Shape = attrs["shape"]
    got = broadcast_shapes([shapes[0], shape])
    if got != shape:
        raise OpError("AF1204", f"{_text(shapes[0])} does not broadcast to {_text(shape)}")
    return shape


def reshape_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    """Shape rule of Reshape: the attribute, if the number of elements stays."""
    shape: Shape = attrs["shape"]
    have, want = product(shapes[0]), product(shape)
    if have != want:
        raise OpError(
            "AF1204",
            f"Reshape from {_text(shapes[0])} ({counted(have, 'element')}) to {_text(shape)} "
            f"({counted(want, 'element')})",
        )
    return shape


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


# references -----------------------------------------------------------------------------------


def reference_of(fn: Callable[..., Any]) -> Callable[[Sequence[np.ndarray], Attrs], np.ndarray]:
    """Return a NumPy function of arrays as a reference."""

    def reference(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
        return np.asarray(fn(*xs))

    return reference


def erf(x: np.ndarray) -> np.ndarray:
    """Return the error function, in float64."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a ** b; integers modulo 2^64, and with a negative exponent the integer part of the quotient.

    For a float base with an integer exponent, the exponent's last bit gives the sign, even if float64 cannot hold it.
    """
    if a.dtype.kind == "f" and b.dtype.kind in "iu":
        size = np.power(np.abs(a), b.astype(np.float64))
        return np.asarray(np.where((b & b.dtype.type(1)) != 0, np.copysign(size, a), size))
    if a.dtype.kind not in "iu":
        return np.asarray(np.power(a, b))
    whole = np.power(a, np.maximum(b, 0).astype(a.dtype))
    below = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1).astype(np.int64), 0))
    return np.asarray(np.where(b < 0, below.astype(a.dtype), whole))


def reciprocal(x: np.ndarray) -> np.ndarray:
    """Return 1 / x; for integers the integer part, and 0 for 0."""
    if x.dtype.kind == "f":
        return np.asarray(1.0 / x)
    return np.asarray(np.where(np.abs(x) == 1, x, x.dtype.type(0)))


def sum_all(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Return the reference of AddN: the sum, left to right."""
    out = xs[0]
    for x in xs[1:]:
        out = out + x
    return np.asarray(out)


def _half_away(x: np.ndarray) -> np.ndarray:
    """Round to nearest, ties away from zero, without the error of adding 0.5 to the largest number below 0.5."""
    whole = np.trunc(x)
    return np.asarray(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole))


#: Rounding modes of a Cast from float to integer, by the name of the Ascend C RoundMode.
ROUNDING: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "RINT": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND": _half_away,
    "TRUNC": np.trunc,
}


def bits_as_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    """Return the target dtype of BitCast, whose elements have the input's width."""
    have, to = dtypes[0], BY_NAME[attrs["dtype"]]
    if attrs.get("source") not in (None, "", have.name):
        raise OpError("AF1205", f"the input is {have}, not {attrs['source']}", "leave out source")
    if have.bits != to.bits or (to.kind == "b" and have.kind != "b"):
        raise OpError(
            "AF1203",
            f"{have} and {to} differ in their bits",
            "BitCast keeps the width, and a bool is 0 or 1",
        )
    return to


def bits_as_reference(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Return the bits of the first operand, which is of dtype ``source``, read as ``dtype``.

    Without ``source`` the operand has the width of the result, and a float operand is not bfloat16.
    """
    to = numpy_dtype(BY_NAME[attrs["dtype"]])
    if attrs.get("source"):
        held = xs[0].astype(numpy_dtype(BY_NAME[attrs["source"]]))
    else:
        held = xs[0].astype(np.dtype(f"{xs[0].dtype.kind}{to.itemsize}"))
    return np.asarray(held.view(to))


def with_source(attrs: Attrs, names: Collection[str], dtype: str) -> Attrs:
    """Return the attributes for a reference: ``source``, if a row has that name, is the dtype of the first operand."""
    return {**attrs, "source": dtype} if "source" in names else attrs


def cast_reference(xs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Apply only the parts of a cast that the oracle's final rounding to the target dtype does not cover."""
    x, to = xs[0], BY_NAME[attrs["dtype"]]
    if to.kind == "b":
        return np.asarray(x != 0)
    mode = attrs.get("round") or ("TRUNC" if to.kind in "iu" else "")
    if mode and x.dtype.kind == "f":
        return np.asarray(ROUNDING[mode](x))
    return np.asarray(x)
