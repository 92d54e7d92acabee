"""Converters of reductions, softmax and running sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autofuse.frontends.onnx.context import Node, Result, converter
from autofuse.frontends.onnx.emit import Emitter
from autofuse.frontends.onnx.values import Known, Value
from autofuse.implgraph.expr.expression import const, product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype

__all__ = ["mean", "reduced_count"]

INT64 = BY_NAME["int64"]
_FLOAT_LIMITS = {"Max": -np.inf, "Min": np.inf}


def reduce(e: Emitter, kind: str, x: Value, axes: Sequence[int], *, keepdims: bool = True) -> Value:
    """Reduce by ``Sum Max Min Prod Mean``; an empty axis gives the neutral element."""
    dtype = e.dtype(x)
    if any(x.shape[a] == 0 for a in axes):
        shape = tuple(
            const(1) if i in axes else s for i, s in enumerate(x.shape) if keepdims or i not in axes
        )
        return e.broadcast(e.scalar(_neutral(kind, dtype), dtype), shape)
    if dtype.kind == "b":
        kind = {"Max": "Any", "Min": "All"}.get(kind, kind)
    if kind == "Mean" and dtype.kind != "f":
        wide = e.cast(x, BY_NAME["float32"])
        return e.cast(mean(e, wide, axes, keepdims=keepdims), dtype)
    return e.reduce(f"Reduce{kind}", x, axes, keepdims=keepdims)


def _neutral(kind: str, dtype: DType) -> float | int | bool:
    if kind in ("Sum", "Prod"):
        return 0 if kind == "Sum" else 1
    if dtype.kind == "f":
        return float("nan") if kind == "Mean" else _FLOAT_LIMITS[kind]
    if dtype.kind == "b":
        return kind == "Min"
    limits = np.iinfo(numpy_dtype(dtype))
    return int(limits.min if kind == "Max" else limits.max)


def mean(e: Emitter, x: Value, axes: Sequence[int], *, keepdims: bool = True) -> Value:
    """Divide the sum over the axes by their size."""
    return e.reduce("ReduceMean", x, axes, keepdims=keepdims)


def reduced_count(x: Value, axes: Sequence[int]) -> int | None:
    """Return the number of elements reduced to one; None if it is not constant."""
    return product([x.shape[a] for a in axes]).as_int()


def _axes(n: Node, x: Value) -> tuple[int, ...]:
    """Return the named axes; if none are named, all, unless the op says that this means none."""
    rank = len(x.shape)
    axes = n.axes(1, rank)
    if axes:
        return axes
    return () if n.attrs.get("noop_with_empty_axes") else tuple(range(rank))


@converter("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean")
def _plain(n: Node) -> Result:
    x = n.x()
    keep = bool(n.attrs.get("keepdims", 1))
    return reduce(n.e, n.op_type.removeprefix("Reduce"), x, _axes(n, x), keepdims=keep)


@converter("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def _composed(n: Node) -> Result:
    e, x, kind = n.e, n.x(), n.op_type.removeprefix("Reduce")
    axes, keep = _axes(n, x), bool(n.attrs.get("keepdims", 1))
    if kind == "LogSumExp":
        return _log_sum_exp(e, x, axes, keep)
    if kind == "L1":
        x = e.op("Abs", x)
    elif kind in ("L2", "SumSquare"):
        x = e.op("Mul", x, x)
    total = reduce(e, "Sum", x, axes, keepdims=keep)
    if kind == "L2":
        return _through_float(e, "Sqrt", total)
    return _through_float(e, "Ln", total) if kind == "LogSum" else total


def _through_float(e: Emitter, op: str, x: Value) -> Value:
    dtype = e.dtype(x)
    if dtype.kind == "f":
        return e.op(op, x)
    return e.cast(e.op(op, e.cast(x, BY_NAME["float32"])), dtype)


def _log_sum_exp(e: Emitter, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """The maximum + log(sum(exp(x - maximum))); where the maximum is infinite, nothing is subtracted."""
    if not axes or any(x.shape[a] == 0 for a in axes):
        total = reduce(e, "Sum", e.op("Exp", x), axes, keepdims=keep)
        return e.op("Ln", total)
    most = reduce(e, "Max", x, axes)
    zero = e.like(0, x)
    finite = e.op("Less", e.op("Abs", most), e.like(np.inf, x))
    shift = e.select(finite, most, zero)
    total = reduce(e, "Sum", e.op("Exp", e.sub(x, shift)), axes, keepdims=keep)
    if not keep:
        shape = tuple(s for i, s in enumerate(shift.shape) if i not in axes)
        shift = e.reshape(shift, shape)
    return e.add(e.op("Ln", total), shift)


@converter("ArgMax", "ArgMin")
def _arg(n: Node) -> Result:
    e, x = n.e, n.x()
    rank = len(x.shape)
    axis = n.axis(int(n.attrs.get("axis", 0)), rank)
    last = bool(n.attrs.get("select_last_index", 0))
    keep = bool(n.attrs.get("keepdims", 1))
    if last:
        size = n.size(x, axis)
        starts = [const(size - 1 if i == axis else 0) for i in range(rank)]
        x = e.slice(x, starts, x.shape, [-1 if i == axis else 1 for i in range(rank)])
    if not last:
        return e.apply(n.op_type, x, axis=axis, keepdims=keep, dtype="int64")
    found = e.apply(n.op_type, x, axis=axis, keepdims=keep, dtype="int32")
    return e.cast(e.sub(e.scalar(size - 1, BY_NAME["int32"]), found), INT64)


@converter("Softmax", "LogSoftmax", "Hardmax")
def _softmax(n: Node) -> Result:
    """Along one axis; up to version 12 along everything from the axis on."""
    e, x = n.e, n.x()
    rank = len(x.shape)
    axis = n.axis(int(n.attrs.get("axis", 1 if n.version < 13 else -1)), rank)
    axes = tuple(range(axis, rank)) if n.version < 13 else (axis,)
    if n.op_type == "Hardmax":
        flat = x if len(axes) == 1 else e.reshape(x, (*x.shape[:axis], product(x.shape[axis:])))
        return e.reshape(_hardmax(e, flat, axis), x.shape)
    return softmax(e, x, axes, log=n.op_type == "LogSoftmax")


def softmax(e: Emitter, x: Value, axes: Sequence[int], *, log: bool = False) -> Value:
    """exp(x - max) / sum, or its logarithm x - max - log(sum)."""
    shifted = e.sub(x, reduce(e, "Max", x, axes))
    powers = e.op("Exp", shifted)
    total = reduce(e, "Sum", powers, axes)
    return e.sub(shifted, e.op("Ln", total)) if log else e.div(powers, total)


def _hardmax(e: Emitter, x: Value, axis: int) -> Value:
    index = e.apply("ArgMax", x, axis=axis, keepdims=True, dtype="int32")
    shape = tuple(s if i == axis else const(1) for i, s in enumerate(x.shape))
    hit = e.op("Equal", e.iota(shape, axis, BY_NAME["int32"]), index)
    return e.select(hit, e.like(1, x), e.like(0, x))


@converter("CumSum", "CumProd")
def _running(n: Node) -> Result:
    x = n.x()
    axis = n.axis(n.ints(1, "the axis")[0], len(x.shape))
    if n.op_type == "CumSum":
        flags = {k: bool(n.attrs.get(k, 0)) for k in ("exclusive", "reverse")}
        return n.e.apply("CumSum", x, axis=axis, **flags)
    return _running_product(n, x, axis)


def _running_product(n: Node, x: Value, axis: int) -> Value:
    """Compute products of 2, 4, 8, ... neighbours: each step doubles the distance."""
    e, rank = n.e, len(x.shape)
    nothing = 1
    size, back = n.size(x, axis), bool(n.attrs.get("reverse", 0))

    def moved(v: Value, by: int) -> Value:
        part = e.part(v, axis, by if back else 0, size - by)
        border = [const(by if i == axis else 0) for i in range(rank)]
        none = [const(0)] * rank
        return e.pad(part, none, border, nothing) if back else e.pad(part, border, none, nothing)

    if n.attrs.get("exclusive", 0):
        x = moved(x, 1) if size > 1 else e.broadcast(e.like(nothing, x), x.shape)
    step = 1
    while step < size:
        x = e.op("Mul", x, moved(x, step))
        step *= 2
    return x


@converter("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(n: Node) -> Result:
    x = n.x()
    axes = tuple(range(2, len(x.shape)))
    return reduce(n.e, "Max" if n.op_type == "GlobalMaxPool" else "Mean", x, axes)


# losses ---------------------------------------------------------------------------------------


@converter("NegativeLogLikelihoodLoss")
def _nll(n: Node) -> Result:
    return _loss(n, n.x())


@converter("SoftmaxCrossEntropyLoss")
def _cross_entropy(n: Node) -> Result:
    logs = softmax(n.e, n.x(), (1,), log=True)
    return [_loss(n, logs), logs][: max(n.outputs, 1)]


def _loss(n: Node, logs: Value) -> Value:
    """-weight[t] * logs[:, t, ...] for the class t of each place, then none, sum or mean.

    The class is picked by comparing with 0, 1, 2, ... along axis 1: no gather.
    """
    e, target, weight = n.e, n.x(1), n.opt(2)
    rank = len(logs.shape)
    ignored = n.attrs.get("ignore_index")
    labels = e.cast(target, BY_NAME["int32"])
    wide = e.reshape(labels, (target.shape[0], const(1), *target.shape[1:]))
    classes = tuple(s if i == 1 else const(1) for i, s in enumerate(logs.shape))
    hit = e.op("Equal", e.iota(classes, 1, BY_NAME["int32"]), wide)
    if ignored is not None:
        kept = e.op("NotEqual", wide, e.scalar(int(ignored), BY_NAME["int32"]))
        hit = e.op("LogicalAnd", hit, kept)
    one, zero = e.like(1.0, logs), e.like(0.0, logs)
    per_class = (
        one if weight is None else e.reshape(weight, (logs.shape[1], *(const(1),) * (rank - 2)))
    )
    picked = e.select(hit, e.op("Neg", logs), zero)
    if weight is not None:
        picked = e.op("Mul", picked, per_class)
    loss = reduce(e, "Sum", picked, (1,), keepdims=False)
    how = n.attrs.get("reduction", "mean")
    if how == "none":
        return loss
    axes = tuple(range(rank - 1))
    total = reduce(e, "Sum", loss, axes, keepdims=False)
    if how == "sum":
        return total
    if weight is None and ignored is None:
        count = reduced_count(loss, axes)
        if count is not None:
            return e.div(total, e.like(float(count), logs))
    weights = e.select(hit, per_class, zero)
    if isinstance(weights, Known):
        raise n.error("AF1204", "the loss has no data")
    return e.div(total, reduce(e, "Sum", weights, tuple(range(rank)), keepdims=False))
