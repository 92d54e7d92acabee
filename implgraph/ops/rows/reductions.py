"""Rows of reductions, of compositions of them, and of scans along an axis.

The four in :data:`REDUCES` exist on the device too: in a HintGraph they have no attribute but :data:`PART`, and the
reduced axes are those along which the operand varies but the result does not.  The others are compositions, which
``decompose.py`` expands before lowering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import ONE, Expr
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Addends, Attr, Attrs, Call, OpDef, OpError, Shape
from autofuse.implgraph.ops.rules import float_dtype, number_dtype, truth_dtype

__all__ = [
    "JOIN",
    "PART",
    "REDUCES",
    "ROWS",
    "neutral",
    "reduce_array",
    "reduced_axes",
    "running_sum",
]

Array = Any

#: Element types that the device functions of ``autofuse_reduce.h`` take.
NATIVE = frozenset({"float16", "float32", "int16", "int32"})

_FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
}
#: The reductions that the device has.
REDUCES = frozenset(_FUNCTIONS)
#: Ops that join the results of a reduction over two parts.
JOIN = {"ReduceSum": "Add", "ReduceMax": "Maximum", "ReduceMin": "Minimum", "ReduceProd": "Mul"}


#: Attribute of a reduction of the outermost dimension in parts: the number of its elements in each but the last, which
#: may be shorter.  Lowering adds it (``implgraph/division/row_parts.py``); the result has the parts in their place.
PART = "part"


def reduced_axes(axes: Sequence[int], rank: int, what: str = "reduction") -> tuple[int, ...]:
    """Return the axes as sorted nonnegative numbers; no axes means all of them.

    Raises:
        OpError: AF1205, an axis does not exist or is named twice.
    """
    out = [a + rank if a < 0 else a for a in axes]
    for given, a in zip(axes, out, strict=True):
        if not 0 <= a < rank:
            raise OpError(
                "AF1205",
                f"the {what} has no axis {given}: the tensor has {counted(rank, 'dimension')}",
            )
    if len(set(out)) != len(out):
        raise OpError("AF1205", f"the axes {list(axes)} name an axis twice")
    return tuple(sorted(out)) if out else tuple(range(rank))


def neutral(op: str, dtype: DType) -> float | int:
    """Return the result of an empty reduction."""
    if op in ("ReduceSum", "ReduceProd"):
        return int(op == "ReduceProd")
    high = op == "ReduceMin"
    if dtype.kind == "f":
        return float("inf") if high else float("-inf")
    if dtype.kind == "b":
        return int(high)
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    return low + (1 << dtype.bits) - 1 if high else low


def reduce_array(op: str, x: Array, axes: tuple[int, ...], dtype: DType) -> Array:
    """Reduce with NumPy; reduced axes stay, with size 1.  ``dtype`` determines the value of an empty reduction."""
    if any(x.shape[a] == 0 for a in axes):
        shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
        return np.full(shape, neutral(op, dtype), x.dtype)
    out = _FUNCTIONS[op](x, axis=axes, keepdims=True)
    return np.asarray(out)


# rules ----------------------------------------------------------------------------------------


def _reduced(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    gone = set(axes)
    if keepdims:
        return tuple(ONE if i in gone else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in gone)


def _reduce_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    axes = reduced_axes(attrs.get("axes", ()), len(shapes[0]))
    return _reduced(shapes[0], axes, attrs.get("keepdims", False))


def _extreme_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    """Return the shape of a reduction that has no value for empty operands."""
    for a in reduced_axes(attrs.get("axes", ()), len(shapes[0])):
        if shapes[0][a] == 0:
            raise OpError(
                "AF1204", f"zero elements have no maximum or minimum: axis {a} has size 0"
            )
    return _reduce_shape(shapes, attrs)


def _one_axis(attrs: Attrs, rank: int, what: str) -> int:
    if rank == 0:
        raise OpError("AF1204", f"the {what} needs a tensor with at least one dimension")
    return reduced_axes((attrs["axis"],), rank, what)[0]


def _arg_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    axis = _one_axis(attrs, len(shapes[0]), "ArgMax")
    if shapes[0][axis] == 0:
        raise OpError("AF1204", f"zero elements have no maximum or minimum: axis {axis} has size 0")
    return _reduced(shapes[0], (axis,), attrs.get("keepdims", False))


def _arg_extent(shapes: Sequence[Shape], attrs: Attrs) -> tuple[Expr, ...]:
    return (shapes[0][_one_axis(attrs, len(shapes[0]), "ArgMax")],)


def _arg_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    number_dtype(dtypes, attrs)
    d = BY_NAME[attrs.get("dtype", "int64")]
    if d.name not in ("int32", "int64"):
        raise OpError("AF1205", f"an index is int32 or int64, not {d}")
    return d


def _along_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    _one_axis(attrs, len(shapes[0]), "op")
    return shapes[0]


# references -----------------------------------------------------------------------------------


def _reference(op: str) -> Callable[[Sequence[Array], Attrs], Array]:
    def reference(xs: Sequence[Array], attrs: Attrs) -> Array:
        x = xs[0]
        axes = reduced_axes(attrs.get("axes", ()), x.ndim)
        kind = BY_NAME[{"i": "int64", "u": "uint64", "b": "bool"}.get(x.dtype.kind, "float32")]
        out = reduce_array(op, x, axes, kind)
        return out if attrs.get("keepdims", False) else np.asarray(out.squeeze(axes))

    return reference


def _numpy(fn: Callable[..., Array]) -> Callable[[Sequence[Array], Attrs], Array]:
    def reference(xs: Sequence[Array], attrs: Attrs) -> Array:
        axes = reduced_axes(attrs.get("axes", ()), xs[0].ndim)
        return np.asarray(fn(xs[0], axis=axes, keepdims=attrs.get("keepdims", False)))

    return reference


def _arg(fn: Callable[..., Array]) -> Callable[[Sequence[Array], Attrs], Array]:
    def reference(xs: Sequence[Array], attrs: Attrs) -> Array:
        axis = attrs["axis"]
        out = np.asarray(fn(xs[0], axis=axis))
        return np.expand_dims(out, axis) if attrs.get("keepdims", False) else out

    return reference


def _shifted(xs: Sequence[Array], attrs: Attrs) -> tuple[Array, Array]:
    """Return the tensor less its largest value, and the sum of the exponentials of the difference."""
    x, axis = xs[0], attrs["axis"]
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shifted = np.asarray(x - top)
    return shifted, np.sum(np.exp(shifted), axis=axis, keepdims=True)


def _softmax(xs: Sequence[Array], attrs: Attrs) -> Array:
    shifted, total = _shifted(xs, attrs)
    return np.asarray(np.exp(shifted) / total)


def _log_softmax(xs: Sequence[Array], attrs: Attrs) -> Array:
    shifted, total = _shifted(xs, attrs)
    return np.asarray(shifted - np.log(total))


def running_sum(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the sums of all elements up to each one, or before it; from the end with ``reverse``."""
    x = np.flip(x, axis) if reverse else x
    if exclusive:
        first = np.zeros_like(np.take(x, [0] if x.shape[axis] else [], axis))
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(0, max(x.shape[axis] - 1, 0))
        x = np.concatenate([first, x[tuple(cut)]], axis)
    out = np.cumsum(x, axis=axis, dtype=x.dtype)
    return np.asarray(np.flip(out, axis) if reverse else out)


def _cumsum(xs: Sequence[Array], attrs: Attrs) -> Array:
    flags = bool(attrs.get("exclusive", False)), bool(attrs.get("reverse", False))
    return running_sum(xs[0], attrs["axis"], *flags)


# rows -----------------------------------------------------------------------------------------

#: Kernels add pairwise, or add a few elements sequentially and join them in a wider or another sum.  Ascend kernels add
#: the rows of a core sequentially.
_PAIRS = Addends(6.0, roots=0.5)
#: Running sums of float32 may also be sequential, as in Triton's interpreter and PyTorch.
_LINE = Addends(0.0, roots=4.0)
_FACTORS = Addends(0.0, roots=math.inf, of="the product")
#: An exponential, the sum, a division or a logarithm, and corrections of the sum when a larger maximum comes late.
_EXPONENTIALS = Addends(_PAIRS.steps, _PAIRS.roots, own=18.0)

_AXES = (
    Attr(
        "axes", "ints", (), doc="dimensions to reduce; negative ones count from the end; none: all"
    ),
    Attr("keepdims", "bool", False, doc="keep reduced dimensions, with size 1"),
)
_AXIS = (Attr("axis", "int", doc="the dimension; a negative one counts from the end"),)
_CALL = Call("Reduce", "device", NATIVE, inplace=False)


def _reduce(name: str, doc: str, **kw: Any) -> OpDef:
    extreme = name in ("ReduceMax", "ReduceMin")
    fields: dict[str, Any] = {
        "attrs": _AXES,
        "call": _CALL,
        "promote": {"bfloat16": "float32"},
        "cost": "reduce",
        "ulp": 0.0 if extreme else 0.5,
    } | kw
    shape = _extreme_shape if extreme else _reduce_shape
    return OpDef(name, (1, 1), number_dtype, shape, "reduce", _reference(name), doc=doc, **fields)


def _composed(
    name: str, dtype: Any, shape: Any, reference: Any, attrs: tuple[Attr, ...], **kw: Any
) -> OpDef:
    return OpDef(
        name, (1, 1), dtype, shape, "composite", reference, attrs=attrs, cost="reduce", **kw
    )


_ARG = (
    *_AXIS,
    Attr("keepdims", "bool", False, doc="keep the reduced dimension, with size 1"),
    Attr("dtype", "dtype", "int64", doc="int64 or int32"),
)

ROWS: tuple[OpDef, ...] = (
    _reduce("ReduceSum", "sum along dimensions; 0 for no elements", addends=_PAIRS, errors="added"),
    _reduce(
        "ReduceMax",
        "maximum along dimensions; propagates NaN; for no elements (a run-time size of 0), the lowest of the dtype",
    ),
    _reduce(
        "ReduceMin",
        "minimum along dimensions; propagates NaN; for no elements (a run-time size of 0), the highest of the dtype",
    ),
    _reduce("ReduceProd", "product along dimensions; 1 for no elements", addends=_FACTORS),
    _composed(
        "ReduceMean",
        float_dtype,
        _reduce_shape,
        _numpy(np.mean),
        _AXES,
        ulp=1.0,
        addends=Addends(_PAIRS.steps, _PAIRS.roots, own=2.0, of="the mean of their magnitudes"),
        doc="mean along dimensions",
    ),
    _composed(
        "ReduceAny",
        truth_dtype,
        _reduce_shape,
        _numpy(np.any),
        _AXES,
        ulp=0.0,
        doc="true if any element is; numbers: not 0; bool",
    ),
    _composed(
        "ReduceAll",
        truth_dtype,
        _reduce_shape,
        _numpy(np.all),
        _AXES,
        ulp=0.0,
        doc="true if all elements are; numbers: not 0; bool",
    ),
    _composed(
        "ArgMax",
        _arg_dtype,
        _arg_shape,
        _arg(np.argmax),
        _ARG,
        ulp=0.0,
        nonempty=_arg_extent,
        doc="index of the first maximum; NaN counts as the maximum; a call with no elements is rejected",
    ),
    _composed(
        "ArgMin",
        _arg_dtype,
        _arg_shape,
        _arg(np.argmin),
        _ARG,
        ulp=0.0,
        nonempty=_arg_extent,
        doc="index of the first minimum; NaN counts as the minimum; a call with no elements is rejected",
    ),
    _composed(
        "Softmax",
        float_dtype,
        _along_shape,
        _softmax,
        _AXIS,
        ulp=1.0,
        addends=replace(_EXPONENTIALS, of="the result, more where x is far below the largest"),
        doc="exp(x) / sum(exp(x)) along a dimension",
    ),
    _composed(
        "LogSoftmax",
        float_dtype,
        _along_shape,
        _log_softmax,
        _AXIS,
        ulp=1.0,
        addends=replace(_EXPONENTIALS, of="1 + the size of the result"),
        doc="the logarithm of Softmax",
    ),
    OpDef(
        "CumSum",
        (1, 1),
        number_dtype,
        _along_shape,
        "scan",
        _cumsum,
        attrs=(
            *_AXIS,
            Attr("exclusive", "bool", False, doc="exclude the element itself"),
            Attr("reverse", "bool", False, doc="sum from the end"),
        ),
        cost="binary",
        addends=_LINE,
        doc="running sum along a dimension",
    ),
)
