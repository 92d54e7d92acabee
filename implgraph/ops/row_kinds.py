"""Constructors of rows, such as compositions: ops that become other ops on the chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autofuse.implgraph.ops.definition import Attr, DTypeRule, OpDef, Reference
from autofuse.implgraph.ops.formulas.vector_math import Formula, formula
from autofuse.implgraph.ops.rules import broadcast_shape, float_dtype, reference_of

__all__ = ["BF16", "HALF", "composite", "device_op", "elementwise", "with_attrs"]

BF16 = {"bfloat16": "float32"}
#: Compositions compute 16-bit floats in float32.
HALF = {"bfloat16": "float32", "float16": "float32"}


def composite(
    name: str,
    fn: Formula,
    reference: Callable[..., Any],
    arity: int = 1,
    *,
    short: Formula | None = None,
    **fields: Any,
) -> OpDef:
    """Return the row of an element-wise float op that ``fn`` computes in float32.

    Args:
        name: name of the row.
        fn: formula of ``arity`` vectors and the attributes.
        reference: NumPy function of as many arrays, in float64; or, for an op with attributes, a complete reference.
        arity: number of inputs.
        short: formula with fewer calls for 16-bit floats.
        fields: other fields of the row.
    """
    values: dict[str, Any] = {
        "reference": reference if fields.get("attrs") else reference_of(reference),
        "expand": formula(fn, "float32"),
        "promote": HALF,
        "short": None if short is None else formula(short, "float32"),
        "cost": "unary",
        "ulp": 2.0,
        "dtype_rule": float_dtype,
        "shape_rule": broadcast_shape,
        "compute_type": "elewise",
    } | fields
    return OpDef(name=name, arity=(arity, arity), **values)


def device_op(
    name: str, arity: tuple[int, int], dtype_rule: DTypeRule, compute_type: str, **fields: Any
) -> OpDef:
    """Return the row of an op that only lowering and scheduling create; its inputs broadcast."""
    return OpDef(name, arity, dtype_rule, broadcast_shape, compute_type, user=False, **fields)


def elementwise(
    name: str,
    arity: tuple[int, int],
    dtype_rule: DTypeRule,
    reference: Reference | None = None,
    **fields: Any,
) -> OpDef:
    """Return the row of an element-wise op whose inputs broadcast."""
    return OpDef(name, arity, dtype_rule, broadcast_shape, "elewise", reference, **fields)


def with_attrs(fn: Callable[..., Any], *attrs: Attr) -> Callable[..., Any]:
    """Return a NumPy function of arrays, and of attributes as keywords, as a reference."""
    defaults = {a.name: a.default for a in attrs}

    def reference(xs: Any, given: Any) -> Any:
        return fn(*xs, **(defaults | dict(given)))

    return reference
