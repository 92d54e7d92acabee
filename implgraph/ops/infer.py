"""Dtype and shape inference of one node, from its registry row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, Tensor
from autofuse.implgraph.ops.definition import OpDef, OpError

__all__ = [
    "check_attrs",
    "infer_node",
    "operand_dtypes",
    "with_whole_numbers",
]


def operand_dtypes(operands: Sequence[Tensor | Constant]) -> list[DType]:
    """Return the dtypes of the operands; a constant without dtype takes that of the tensors beside it.

    Next to tensors, a constant takes the dtype of the last tensor operand that is not bool (the condition of a Select
    comes first); a float constant beside an integer tensor is an error.  Without tensors, constants are float32 or
    int32.
    """
    tensors = [o.dtype for o in operands if isinstance(o, Tensor)]
    numeric = [d for d in tensors if d.kind != "b"]
    known = numeric or tensors
    guess: DType | None = known[-1] if known else None
    out: list[DType] = []
    for o in operands:
        if o.dtype is not None:
            out.append(o.dtype)
        elif guess is None:
            out.append(_default_dtype(o))
        else:
            assert isinstance(o, Constant)
            if guess.kind in "iub" and isinstance(o.value, float) and not o.value.is_integer():
                raise OpError(
                    "AF1203",
                    f"the constant {o.value} does not fit {guess}",
                    "Cast the tensor to a float type first",
                )
            out.append(guess)
    return out


def with_whole_numbers(
    row: OpDef, operands: Sequence[Tensor | Constant], attrs: Mapping[str, Any]
) -> list[Tensor | Constant]:
    """Return the operands; a whole number that the adjacent float type would round is int64 if the op takes it."""
    out = list(operands)
    for i, o in enumerate(operands):
        if not isinstance(o, Constant) or o.dtype is not None or not math.isfinite(o.value):
            continue
        value, long = int(o.value), BY_NAME["int64"]
        try:
            dtypes = operand_dtypes(operands)
            if value != o.value or not -(1 << 63) <= value < 1 << 63 or dtypes[i].kind != "f":
                continue
            with np.errstate(over="ignore"):
                if float(np.asarray(value, np.float64).astype(numpy_dtype(dtypes[i]))) == value:
                    continue
            row.dtype_rule([*dtypes[:i], long, *dtypes[i + 1 :]], attrs)
        except OpError:
            continue
        out[i] = Constant(value, long)
    return out


def _default_dtype(c: Tensor | Constant) -> DType:
    """Return the dtype of a constant without tensor operands beside it."""
    assert isinstance(c, Constant)
    if isinstance(c.value, bool):
        return BY_NAME["bool"]
    return BY_NAME["int32" if isinstance(c.value, int) else "float32"]


def check_attrs(row: OpDef, attrs: Mapping[str, Any]) -> None:
    """Check that required attributes exist and have the right kind, and that no others are given.

    Raises:
        OpError: AF1205.
    """
    for a in row.attrs:
        if a.name not in attrs:
            if a.default is None:
                raise OpError(
                    "AF1205", f"{row.name} needs the attribute {a.name!r} ({a.kind})", a.doc
                )
            continue
        if not _fits(a.kind, attrs[a.name]):
            raise OpError(
                "AF1205",
                f"attribute {a.name!r} of {row.name} must be {a.kind}, not {attrs[a.name]!r}",
            )
    unknown = sorted(set(attrs) - row.attr_names())
    if unknown:
        known = ", ".join(sorted(row.attr_names())) or "none"
        raise OpError(
            "AF1205", f"{row.name} has no attribute {unknown[0]!r}", f"its attributes are: {known}"
        )


def _fits(kind: str, v: Any) -> bool:
    if kind == "bool":
        return isinstance(v, bool)
    if kind == "int":
        return isinstance(v, int) and not isinstance(v, bool)
    if kind == "float":
        return isinstance(v, (int, float)) and not isinstance(v, bool)
    if kind == "str":
        return isinstance(v, str)
    if kind == "dtype":
        return isinstance(v, str) and v in BY_NAME and v != "mask"
    if kind == "shape":
        return isinstance(v, tuple) and all(isinstance(x, Expr) for x in v)
    return isinstance(v, tuple) and all(isinstance(x, int) and not isinstance(x, bool) for x in v)


def infer_node(
    row: OpDef,
    operands: Sequence[Tensor | Constant],
    attrs: Mapping[str, Any],
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[DType, tuple[Expr, ...]]:
    """Return the dtype and shape of the result.

    An out-of-bounds read for all values of the symbols is an error; one that depends on the symbols is rejected by the
    host function.

    Args:
        row: the op's row.
        operands: tensors and constants, in order.
        attrs: attributes; ``shape`` values are tuples of Expr, ``dtype`` values canonical names.
        ranges: closed ranges of the known symbols.

    Raises:
        OpError: with the diagnostic code of the mistake.
        ExprError: a size is unbounded.
    """
    lo, hi = row.arity
    if not lo <= len(operands) <= hi:
        raise OpError("AF1202", f"{row.name} takes {row.takes()}, not {len(operands)}")
    check_attrs(row, attrs)
    dtypes = operand_dtypes(operands)
    shapes = [o.shape if isinstance(o, Tensor) else () for o in operands]
    found = row.dtype_rule(dtypes, attrs), row.shape_rule(shapes, attrs)
    known = ranges or {}
    for value, what in row.inside(shapes, attrs) if row.inside is not None else ():
        if value.symbols() <= known.keys() and bounds(value, known)[1] < 0:
            raise OpError("AF1204", f"the {row.name} {what}")
    return found
