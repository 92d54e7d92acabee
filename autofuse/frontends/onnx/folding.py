"""Constant folding of nodes whose operands are known: shape arithmetic, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autofuse.frontends.onnx import tables
from autofuse.frontends.onnx.values import Array, Foreign, Known, Traced, Value, uniform_value
from autofuse.implgraph.expr.expression import Expr, divide_exact, product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

if TYPE_CHECKING:
    import onnx

__all__ = ["fold"]

#: Most work for folding; more is left to the kernel.
_MAX_WORK = 1 << 22
#: The folded ops that only move elements; no others apply to sizes that were cast.
_KEEPS = frozenset({"Cast", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"})
#: Ops whose result is not larger than the broadcast shape of their operands.
_FOLDED = frozenset(
    [
        "Abs",
        "Acos",
        "Acosh",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Clip",
        "Compress",
        "Concat",
        "Cos",
        "Cosh",
        "CumSum",
        "Div",
        "Equal",
        "Erf",
        "Exp",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "Or",
        "Pow",
        "Reciprocal",
        "ReduceL1",
        "ReduceL2",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Relu",
        "Reshape",
        "Round",
        "Shape",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Size",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Tan",
        "Tanh",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
        "Xor",
    ]
)


def fold(node: onnx.NodeProto, opset: int, inputs: Sequence[Value | None]) -> list[Value] | None:
    """Return the results of a node of the default domain if they can be computed now, else None.

    Arrays of several floats are left to the kernel: folding is for sizes, indices and scalars.
    """
    if node.op_type in ("Shape", "Size"):
        x = inputs[0] if inputs else None
        return None if x is None else [_shape(node, x)]
    if node.op_type not in _FOLDED or not inputs:
        return None
    arrays: list[Array | None] = []
    work = 1
    for x in inputs:
        if isinstance(x, Traced | Foreign):
            return None
        arrays.append(None if x is None else x.array)
        if x is not None:
            if x.array.dtype.kind not in "iubO" and x.array.size > 1:
                return None
            work *= max(x.array.size, 1)
    if work > _MAX_WORK:
        return None
    if node.op_type == "Cast" and _makes_floats(arrays[0]) and _to_float(node):
        return None
    if any(a is not None and a.dtype == object for a in arrays):
        cast = next((x.cast for x in inputs if isinstance(x, Known) and x.cast is not None), None)
        if node.op_type == "Cast":
            cast = _size_type(node)
        if node.op_type not in _KEEPS if cast is not None else node.op_type in ("Cast", "CastLike"):
            return None
        found = _symbolic(node, arrays)
        return found and [replace(v, cast=cast) for v in found if isinstance(v, Known)]
    return _evaluated(node, opset, arrays)


def _makes_floats(array: Array | None) -> bool:
    return array is not None and array.size > 1 and uniform_value(array) is None


def _to_float(node: onnx.NodeProto) -> bool:
    import onnx.helper as helper

    to = next((a.i for a in node.attribute if a.name == "to"), 0)
    return to not in helper.get_all_tensor_dtypes() or bool(
        helper.tensor_dtype_to_np_dtype(to).kind not in "iub"
    )


def _size_type(node: onnx.NodeProto) -> DType | None:
    """Return the element type that sizes are cast to, if it holds every size."""
    to = next((tables.type_name(a.i) for a in node.attribute if a.name == "to"), "")
    return BY_NAME[to] if to in ("int32", "int64", "float32") else None


def _shape(node: onnx.NodeProto, x: Value) -> Known:
    sizes = list(x.shape)
    if node.op_type == "Size":
        sizes = [product(sizes)]
    else:
        attrs = {a.name: a.i for a in node.attribute}
        rank = len(sizes)
        start, end = (min(max(v + rank if v < 0 else v, 0), rank) for v in _bounds(attrs, rank))
        sizes = sizes[start:end]
    numbers = [s.as_int() for s in sizes]
    fixed = all(n is not None for n in numbers)
    array = np.asarray(numbers, np.int64) if fixed else np.array([*sizes, None], object)[:-1]
    return Known(array.reshape(()) if node.op_type == "Size" else array)


def _bounds(attrs: Mapping[str, int], rank: int) -> tuple[int, int]:
    return attrs.get("start", 0), attrs.get("end", rank)


def _evaluated(
    node: onnx.NodeProto, opset: int, arrays: Sequence[Array | None]
) -> list[Value] | None:
    """Evaluate the node by the onnx package's reference implementation."""
    import onnx.helper as helper
    from onnx.reference import ReferenceEvaluator

    names = [n for n in node.input if n]
    function = helper.make_function(
        "", "fold", names, list(node.output), [node], [helper.make_opsetid("", opset)]
    )
    feeds = {n: a for n, a in zip(node.input, arrays, strict=False) if a is not None}
    try:
        # Not warnings.catch_warnings: its filters are per process, errstate is per thread.
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(function).run(None, feeds, attributes={})
    except Exception:  # the op's converter reports the error
        return None
    found = [np.asarray(r) for r in results]
    if any(a.dtype.kind in "OSU" for a in found):  # strings
        return None
    return [Known(a, o) for a, o in zip(found, node.output, strict=True)]


# sizes that are symbols -----------------------------------------------------------------------


def _divided(a: Any, b: Any) -> Any:
    exact = divide_exact(a, b)
    if exact is None:
        raise ValueError(f"{a} is not divisible by {b}")
    return exact


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: Expr.of(a) + Expr.of(b),
    "Sub": lambda a, b: Expr.of(a) - Expr.of(b),
    "Mul": lambda a, b: Expr.of(a) * Expr.of(b),
    "Div": lambda a, b: _divided(Expr.of(a), Expr.of(b)),
}


def _symbolic(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> list[Value] | None:
    """Evaluate shape arithmetic on objects: sums, products, and moves of sizes."""
    given = [a for a in arrays if a is not None]
    plain = [a if a.dtype == object else a.astype(object) for a in given]
    attrs = {a.name: a for a in node.attribute}
    try:
        if node.op_type in _ARITHMETIC:
            function = np.frompyfunc(_ARITHMETIC[node.op_type], 2, 1)
            found = function(_exprs(plain[0]), _exprs(plain[1]))
        elif node.op_type in ("Identity", "Cast"):
            found = plain[0]
        elif node.op_type == "Concat":
            found = np.concatenate(plain, attrs["axis"].i)
        elif node.op_type == "Gather":
            axis = attrs["axis"].i if "axis" in attrs else 0
            found = np.take(plain[0], given[1].astype(np.int64), axis)
        elif node.op_type == "Unsqueeze" and len(given) > 1:
            found = np.expand_dims(plain[0], tuple(int(v) for v in given[1]))
        elif node.op_type == "Squeeze":
            axes = tuple(int(v) for v in given[1]) if len(given) > 1 else None
            found = np.squeeze(plain[0], axes)
        elif node.op_type == "Reshape" and given[1].dtype != object:
            found = plain[0].reshape([int(v) for v in given[1]])
        elif node.op_type == "Slice" and plain[0].ndim == 1 and len(given) >= 3:
            step = int(given[4][0]) if len(given) > 4 else 1
            found = plain[0][int(given[1][0]) : int(given[2][0]) : step]
        elif node.op_type == "ReduceProd":
            found = np.asarray(product([Expr.of(v) for v in plain[0]]), object)
            keep = attrs["keepdims"].i if "keepdims" in attrs else 1
            found = found.reshape((1,) * plain[0].ndim) if keep else found
        else:
            return None
    except (ValueError, TypeError, IndexError, KeyError):
        return None
    return [Known(np.asarray(found, object))]


def _exprs(a: Array) -> Array:
    return np.asarray(np.frompyfunc(Expr.of, 1, 1)(a), object)
