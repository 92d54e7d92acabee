"""Rows of reductions and running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autofuse.clients.torch.emit import BOOL, FLOAT32, INT64, Emitter, Value
from autofuse.clients.torch.ops.row import Call, row
from autofuse.clients.torch.refusal import RefusedError
from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.dtypes import DType

__all__: list[str] = []


def _axes(c: Call, dims: Any, rank: int) -> tuple[int, ...]:
    """Return sorted axes; all of them for None or an empty list."""
    if dims is None:
        return tuple(range(rank))
    given = [dims] if isinstance(dims, int) else list(dims)
    if not given:
        return tuple(range(rank))
    return tuple(sorted({d % max(rank, 1) for d in given}))


def _reduce(e: Emitter, name: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
    if not x.shape:
        return x
    return e.apply(name, x, axes=tuple(axes), keepdims=keep)


def _along(c: Call, name: str, x: Value, dims: Any, keep: bool) -> Value:
    return _reduce(c.e, name, x, _axes(c, dims, len(x.shape)), keep)


@row("aten.sum.dim_IntList", "aten.sum.default", "prims.sum.default")
def _sum(c: Call) -> Value:
    x = c.e.cast(c.x(), c.dtype)
    return _along(c, "ReduceSum", x, c.arg(1, "dim"), bool(c.arg(2, "keepdim", False)))


@row("prims.prepare_softmax_online.default")
def _exponentials(c: Call) -> list[Value]:
    """Inductor's: the largest elements, and the sums of the exponentials relative to them."""
    x, dim = c.x(), c.arg(1, "dim")
    largest = _along(c, "ReduceMax", x, dim, True)
    powers = c.e.op("Exp", c.e.op("Sub", x, largest))
    return [largest, _along(c, "ReduceSum", powers, dim, True)]


@row("aten.mean.dim", "aten.mean.default")
def _mean(c: Call) -> Value:
    x = c.e.cast(c.x(), c.dtype)
    if "default" in str(c.node.target):
        return _along(c, "ReduceMean", x, None, False)
    return _along(c, "ReduceMean", x, c.arg(1, "dim"), bool(c.arg(2, "keepdim", False)))


def _extreme(c: Call, name: str) -> Value:
    x = c.x()
    if x.dtype == BOOL:
        name = {"ReduceMax": "ReduceAny", "ReduceMin": "ReduceAll"}[name]
    return _along(c, name, x, c.arg(1, "dim"), bool(c.arg(2, "keepdim", False)))


@row("aten.amax.default", "aten.max.default")
def _amax(c: Call) -> Value:
    return _extreme(c, "ReduceMax")


@row("aten.amin.default", "aten.min.default")
def _amin(c: Call) -> Value:
    return _extreme(c, "ReduceMin")


@row("aten.prod.default", "aten.prod.dim_int")
def _prod(c: Call) -> Value:
    x = c.e.cast(c.x(), c.dtype)
    if "default" in str(c.node.target):
        return _along(c, "ReduceProd", x, None, False)
    return _along(c, "ReduceProd", x, c.arg(1, "dim"), bool(c.arg(2, "keepdim", False)))


def _truth(c: Call, name: str) -> Value:
    x = c.e.cast(c.x(), BOOL)
    if "default" in str(c.node.target):
        return _along(c, name, x, None, False)
    return _along(c, name, x, c.arg(1, "dim"), bool(c.arg(2, "keepdim", False)))


@row("aten.any.default", "aten.any.dim", "aten.any.dims")
def _any(c: Call) -> Value:
    return _truth(c, "ReduceAny")


@row("aten.all.default", "aten.all.dim", "aten.all.dims")
def _all(c: Call) -> Value:
    return _truth(c, "ReduceAll")


# places ---------------------------------------------------------------------------------------


def _place(c: Call, name: str, dim: Any, keep: bool) -> Value:
    e, x = c.e, c.x()
    if x.dtype == BOOL:
        raise RefusedError("places of bools")
    if not x.shape:
        return e.full((), 0, INT64)
    if dim is None:
        # The index into the flattened tensor.
        flat = e.reshape(x, (product(x.shape),))
        return e.reshape(e.apply(name, flat, axis=0, keepdims=False), c.shape)
    return e.apply(name, x, axis=int(dim) % len(x.shape), keepdims=keep)


@row("aten.argmax.default")
def _argmax(c: Call) -> Value:
    return _place(c, "ArgMax", c.arg(1, "dim"), bool(c.arg(2, "keepdim", False)))


@row("aten.argmin.default")
def _argmin(c: Call) -> Value:
    return _place(c, "ArgMin", c.arg(1, "dim"), bool(c.arg(2, "keepdim", False)))


def _with_place(c: Call, reduction: str, place: str) -> list[Value]:
    keep = bool(c.arg(2, "keepdim", False))
    x = c.x()
    if x.dtype == BOOL:
        raise RefusedError("places of bools")
    dim = int(c.arg(1, "dim")) % max(len(x.shape), 1)
    return [_reduce(c.e, reduction, x, (dim,), keep), _place(c, place, dim, keep)]


@row("aten.max.dim")
def _max(c: Call) -> list[Value]:
    return _with_place(c, "ReduceMax", "ArgMax")


@row("aten.min.dim")
def _min(c: Call) -> list[Value]:
    return _with_place(c, "ReduceMin", "ArgMin")


# statistics -----------------------------------------------------------------------------------


def _variance(c: Call) -> tuple[Value, Value]:
    """Return variance and mean in float32, with reduced axes kept or dropped as in the result."""
    e, x = c.e, c.x()
    dims, keep = c.arg(1, "dim"), bool(c.node.kwargs.get("keepdim", False))
    given = c.node.kwargs.get("correction")
    correction = 1 if given is None else given
    if not isinstance(correction, int | float):
        raise RefusedError("the correction is known only at run time")
    axes = _axes(c, dims, len(x.shape))
    wide = e.cast(x, FLOAT32)
    middle = _reduce(e, "ReduceMean", wide, axes, True)
    centred = e.op("Sub", wide, middle)
    squares = e.op("Mul", centred, centred)
    if correction == 0:
        spread = _reduce(e, "ReduceMean", squares, axes, keep)
    else:
        count = product([x.shape[a] for a in axes])
        if count.is_const:
            number = e.full((), max(count.value - correction, 0), FLOAT32)
        else:
            size = c.scalar(count, FLOAT32)
            number = e.op("Maximum", e.op("Sub", size, float(correction)), 0.0)
        spread = e.op("Div", _reduce(e, "ReduceSum", squares, axes, keep), number)
    if not keep:
        left = tuple(s for i, s in enumerate(x.shape) if i not in axes)
        middle = e.reshape(middle, left)
    return spread, middle


@row("aten.var_mean.correction")
def _var_mean(c: Call) -> list[Value]:
    return list(_variance(c))


@row("aten.var.correction")
def _var(c: Call) -> Value:
    return _variance(c)[0]


@row("aten.std.correction")
def _std(c: Call) -> Value:
    return c.e.op("Sqrt", _variance(c)[0])


@row("aten.linalg_vector_norm.default")
def _vector_norm(c: Call) -> Value:
    e, x = c.e, c.e.cast(c.x(), FLOAT32)
    order = float(c.number(c.arg(1, "ord", 2), "the order"))
    dims, keep = c.arg(2, "dim"), bool(c.arg(3, "keepdim", False))
    size = e.op("Abs", x)
    if math.isinf(order):
        return _along(c, "ReduceMax" if order > 0 else "ReduceMin", size, dims, keep)
    if order == 0:
        return _along(c, "ReduceSum", e.cast(e.cast(x, BOOL), FLOAT32), dims, keep)
    if order == 1:
        return _along(c, "ReduceSum", size, dims, keep)
    if order == 2:
        return e.op("Sqrt", _along(c, "ReduceSum", e.op("Mul", x, x), dims, keep))
    powers = _along(c, "ReduceSum", e.op("Pow", size, order), dims, keep)
    return e.op("Pow", powers, 1.0 / order)


@row("aten.cumsum.default")
def _cumsum(c: Call) -> Value:
    x = c.e.cast(c.x(), c.dtype)
    if not x.shape:
        return x
    wide: DType = FLOAT32 if x.dtype.kind == "f" else x.dtype
    axis = int(c.arg(1, "dim")) % len(x.shape)
    return c.e.apply("CumSum", c.e.cast(x, wide), axis=axis)
