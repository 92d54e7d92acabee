"""Converters of ops that pick elements by index.

A Gather reads row by row, with one DMA command per row. If a row is a single element of a small table, it is instead
picked by comparing the index with 0, 1, 2, ... and summing: vector work that takes less time than a command.
"""

from __future__ import annotations

import numpy as np

from autofuse.frontends.onnx.context import Node, Result, converter
from autofuse.frontends.onnx.emit import Emitter
from autofuse.frontends.onnx.values import Known, Value
from autofuse.implgraph.expr.expression import Expr, const, product
from autofuse.implgraph.ir.dtypes import BY_NAME

__all__: list[str] = []

INT32 = BY_NAME["int32"]
#: Largest table searched by comparing.
_FEW = 64
#: Element types that can be added up.
_SUMMED = frozenset({"float32", "float16", "bfloat16", "int32"})


def _from_the_front(e: Emitter, index: Value, size: int) -> Value:
    """Return the index as int32, counted from the front."""
    if isinstance(index, Known) and index.array.dtype != object:
        at = index.array.astype(np.int32)
        return Known(np.where(at < 0, at + size, at).astype(np.int32), index.name)
    at32 = e.cast(index, INT32)
    below = e.op("Less", at32, e.scalar(0, INT32))
    return e.select(below, e.add(at32, e.scalar(size, INT32)), at32)


def _place(e: Emitter, index: Value, size: int) -> Value:
    """Clamp an index into its dimension, as a Gather takes it."""
    if not isinstance(index, Known):
        index = e.op("Minimum", index, e.like(size - 1, index))
        index = e.op("Maximum", index, e.like(-size, index))
    return _from_the_front(e, index, size)


def _inside(n: Node, index: Value, size: Expr) -> None:
    """Raise AF1204 for a known index that is out of bounds."""
    extent = size.as_int()
    if extent is None or not isinstance(index, Known) or index.array.dtype == object:
        return
    outside = index.array[(index.array < -extent) | (index.array >= extent)]
    if outside.size:
        raise n.error(
            "AF1204", f"the index {outside[0]} is out of range for a dimension of size {extent}"
        )


def _picked(e: Emitter, data: Value, at: Value, axis: int) -> Value:
    """Sum along an axis the elements whose position equals the index; both are aligned."""
    ones = tuple(s if i == axis else const(1) for i, s in enumerate(data.shape))
    hit = e.op("Equal", e.iota(ones, axis, INT32), at)
    return e.reduce("ReduceSum", e.select(hit, data, e.like(0, data)), (axis,), keepdims=False)


@converter("Gather")
def _gather(n: Node) -> Result:
    x, index = n.x(), n.x(1)
    axis = n.axis(int(n.attrs.get("axis", 0)), len(x.shape))
    if isinstance(index, Known) and index.array.size == 1 and index.array.dtype != object:
        at, size = int(index.array.reshape(-1)[0]), n.size(x, axis)
        found = n.e.part(x, axis, at + size if at < 0 else at, 1)
        return n.e.reshape(found, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return _gathered(n, x, index, axis)


@converter("ArrayFeatureExtractor")
def _features(n: Node) -> Result:
    x, index = n.x(), n.x(1)
    flat = n.e.reshape(index, (product(index.shape),))
    found = _gathered(n, x, flat, len(x.shape) - 1)
    return found if len(x.shape) > 1 else n.e.reshape(found, (const(1), *found.shape))


def _gathered(n: Node, x: Value, index: Value, axis: int) -> Value:
    e = n.e
    _inside(n, index, x.shape[axis])
    if not _is_compared(e, x, axis):
        return e.apply("Gather", x, index, axis=axis)
    rows = n.size(x, axis)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    ones = (const(1),) * len(index.shape)
    data = e.reshape(x, (*before, *ones, x.shape[axis], *after))
    at = _place(e, index, rows)
    wide = e.reshape(at, (*index.shape, const(1), *(const(1),) * len(after)))
    return _picked(e, data, wide, axis + len(ones))


def _is_compared(e: Emitter, x: Value, axis: int) -> bool:
    """Return True if elements are picked by comparing indices: the table has few rows of one element."""
    rows, run = x.shape[axis].as_int(), product(x.shape[axis + 1 :])
    return rows is not None and rows <= _FEW and run == 1 and e.dtype(x).name in _SUMMED


@converter("GatherElements")
def _gather_elements(n: Node) -> Result:
    e, x, index = n.e, n.x(), n.x(1)
    rank = len(x.shape)
    axis = n.axis(int(n.attrs.get("axis", 0)), rank)
    _inside(n, index, x.shape[axis])
    few = x.shape[axis].as_int()
    if few is None or few > _FEW or e.dtype(x).name not in _SUMMED:
        return e.apply("GatherElements", x, index, axis=axis)
    rows = tuple(x.shape[i] if i == axis else index.shape[i] for i in range(rank))
    x = e.slice(x, [const(0)] * rank, rows, [1] * rank)
    at = _place(e, index, n.size(x, axis))
    data = e.reshape(x, (*rows[:axis], const(1), *rows[axis:]))
    wide = e.reshape(at, (*index.shape[: axis + 1], const(1), *index.shape[axis + 1 :]))
    return _picked(e, data, wide, axis + 1)


@converter("GatherND")
def _gather_nd(n: Node) -> Result:
    """Merge the indexed dimensions into one, and the indices likewise."""
    e, x, index = n.e, n.x(), n.x(1)
    batch = int(n.attrs.get("batch_dims", 0))
    depth = n.size(index, len(index.shape) - 1)
    sizes = [n.size(x, i) for i in range(batch + depth)]
    places = index.shape[:-1]
    at: Value | None = None
    for k in range(depth):
        part = e.reshape(e.part(index, len(places), k, 1), places)
        _inside(n, part, const(sizes[batch + k]))
        here = _place(e, part, sizes[batch + k])
        at = here if at is None else e.add(e.mul(at, e.scalar(sizes[batch + k], INT32)), here)
    if at is None:
        raise n.error("AF1204", "the indices name no dimension")
    inner = int(np.prod(sizes[batch:], dtype=np.int64))
    for b in range(batch):
        stride = int(np.prod(sizes[b + 1 : batch], dtype=np.int64)) * inner
        line = tuple(s if i == b else const(1) for i, s in enumerate(places))
        at = e.add(at, e.mul(e.iota(line, b, INT32), e.scalar(stride, INT32)))
    rest = x.shape[batch + depth :]
    flat = e.reshape(x, (product(x.shape[: batch + depth]), *rest))
    return _gathered(n, flat, at, 0)


@converter("ReverseSequence")
def _reverse_sequence(n: Node) -> Result:
    """Element t of a row of length n becomes n-1-t, or stays t beyond the end."""
    e, x = n.e, n.x()
    time, batch = int(n.attrs.get("time_axis", 0)), int(n.attrs.get("batch_axis", 1))
    line = tuple(s if i == time else const(1) for i, s in enumerate(x.shape))
    row = tuple(s if i == batch else const(1) for i, s in enumerate(x.shape))
    t = e.iota(line, time, INT32)
    length = e.reshape(e.cast(n.x(1), INT32), row)
    mirrored = e.sub(e.sub(length, e.scalar(1, INT32)), t)
    at = e.select(e.op("Less", t, length), mirrored, t)
    data = e.reshape(x, (*x.shape[:time], const(1), *x.shape[time:]))
    wide = e.reshape(at, (*at.shape[: time + 1], const(1), *at.shape[time + 1 :]))
    return _picked(e, data, wide, time + 1)


@converter("OneHot")
def _one_hot(n: Node) -> Result:
    e, index, values = n.e, n.x(), n.x(2)
    depth = n.ints(1, "the depth")[0]
    rank = len(index.shape)
    axis = n.axis(int(n.attrs.get("axis", -1)), rank + 1)
    at = _from_the_front(e, index, depth)
    wide = e.reshape(at, (*index.shape[:axis], const(1), *index.shape[axis:]))
    ones = tuple(const(depth if i == axis else 1) for i in range(rank + 1))
    hit = e.op("Equal", e.iota(ones, axis, INT32), wide)
    off, on = (e.reshape(e.part(values, 0, i, 1), ()) for i in (0, 1))
    return e.select(hit, on, off)
