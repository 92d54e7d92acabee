"""Rows of the ops that move data: transpose, slice, concatenation, padding, gather; and of index tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attr, Attrs, Call, OpDef, OpError, Shape
from autofuse.implgraph.ops.rows.reductions import reduced_axes
from autofuse.implgraph.ops.rules import any_dtype, same_dtype

__all__ = ["MAX_PIECES", "ROWS", "inside"]

Array = Any

#: Largest number of tensors that one Concat joins.
MAX_PIECES = 64


def _text(shape: Sequence[object]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _ints(values: Sequence[object]) -> tuple[int, ...]:
    """Return the numbers of an attribute whose symbols have values."""
    return tuple(v.value if isinstance(v, Expr) else int(v) for v in values)  # type: ignore[call-overload]


def _same_rank(name: str, what: str, given: Sequence[object], rank: int) -> None:
    if len(given) != rank:
        raise OpError(
            "AF1205",
            f"{what!r} of {name} has {counted(len(given), 'entry', 'entries')}; the tensor has "
            f"{counted(rank, 'dimension')}",
        )


# shape and dtype rules ------------------------------------------------------------------------


def _transpose_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    perm, rank = attrs["perm"], len(shapes[0])
    _same_rank("Transpose", "perm", perm, rank)
    order = [p + rank if p < 0 else p for p in perm]
    if sorted(order) != list(range(rank)):
        raise OpError(
            "AF1205", f"{_text(perm)} is not a permutation of {counted(rank, 'dimension')}"
        )
    return tuple(shapes[0][p] for p in order)


def _slice_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    source, starts, shape = shapes[0], attrs["starts"], attrs["shape"]
    steps = attrs.get("steps") or (1,) * len(source)
    for what, given in (("starts", starts), ("shape", shape), ("steps", steps)):
        _same_rank("Slice", what, given, len(source))
    if 0 in steps:
        raise OpError("AF1205", f"the step along dimension {steps.index(0)} is 0")
    return tuple(shape)


def _slice_inside(shapes: Sequence[Shape], attrs: Attrs) -> Iterator[tuple[Expr, str]]:
    steps = attrs.get("steps") or (1,) * len(shapes[0])
    rows = zip(shapes[0], attrs["starts"], attrs["shape"], steps, strict=True)
    for d, (size, start, count, step) in enumerate(rows):
        if count == 0:
            continue
        last = start + (count - 1) * step
        what = f"takes elements {start} to {last} of dimension {d}, which has {size}"
        first, end = (start, last) if step > 0 else (last, start)
        yield first, what
        yield size - 1 - end, what


def _pad_inside(shapes: Sequence[Shape], attrs: Attrs) -> Iterator[tuple[Expr, str]]:
    for d, pair in enumerate(zip(attrs["low"], attrs["high"], strict=True)):
        for count in pair:
            yield count, f"adds {counted(count, 'element')} along dimension {d}"


def _gather_elements_inside(shapes: Sequence[Shape], attrs: Attrs) -> Iterator[tuple[Expr, str]]:
    data, index = shapes
    axis = attrs["axis"] % len(data)
    for d, (size, wanted) in enumerate(zip(data, index, strict=True)):
        if d != axis:
            yield (
                size - wanted,
                f"has an index of {wanted} along dimension {d}, which has size {size}",
            )


def _concat_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    rank = len(shapes[0])
    if rank == 0:
        raise OpError("AF1204", "Concat needs tensors with at least one dimension")
    axis = reduced_axes((attrs["axis"],), rank, "Concat")[0]
    total = shapes[0][axis]
    for s in shapes[1:]:
        rest = (*s[:axis], *s[axis + 1 :])
        if len(s) != rank or rest != (*shapes[0][:axis], *shapes[0][axis + 1 :]):
            raise OpError(
                "AF1204", f"{_text(shapes[0])} and {_text(s)} differ in more than dimension {axis}"
            )
        total = total + s[axis]
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


def _pad_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    low, high = attrs["low"], attrs["high"]
    for what, given in (("low", low), ("high", high)):
        _same_rank("Pad", what, given, len(shapes[0]))
    for e in (*low, *high):
        if e.is_const and e.value < 0:
            raise OpError(
                "AF1205", f"a Pad adds {counted(e, 'element')}", "use a Slice to remove elements"
            )
    return tuple(a + s + b for a, s, b in zip(low, shapes[0], high, strict=True))


def _frame_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    shape, axis = shapes[0], attrs["axis"]
    return (*shape[:axis], shape[axis] + attrs["low"] + attrs["high"], *shape[axis + 1 :])


def _pad_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    value, d = attrs.get("value", 0.0), dtypes[0]
    if d.kind == "f":
        return d
    low = -(1 << (d.bits - 1)) if d.kind == "i" else 0
    high = 1 if d.kind == "b" else low + (1 << d.bits) - 1
    if not np.isfinite(value) or value != int(value) or not low <= value <= high:
        raise OpError("AF1205", f"the value {value} does not fit {d}")
    return d


def _iota_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    shape: Shape = attrs["shape"]
    if not shape:
        raise OpError("AF1204", "Iota needs a shape with at least one dimension")
    reduced_axes((attrs["axis"],), len(shape), "Iota")
    return shape


def _iota_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    d = BY_NAME[attrs["dtype"]]
    if d.kind not in "fiu":
        raise OpError("AF1203", f"{d} is not a number type")
    return d


def _gather_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    data, indices = shapes
    if not data:
        raise OpError("AF1204", "Gather needs data with at least one dimension")
    axis = reduced_axes((attrs["axis"],), len(data), "Gather")[0]
    if data[axis] == 0 and all(s != 0 for s in (*indices, *data[:axis], *data[axis + 1 :])):
        raise OpError("AF1204", f"nothing can be gathered from dimension {axis}, which has size 0")
    return (*data[:axis], *indices, *data[axis + 1 :])


def _indexed_extent(shapes: Sequence[Shape], attrs: Attrs) -> tuple[Expr, ...]:
    """Return the size of the indexed dimension, which must not be 0."""
    return (shapes[0][attrs["axis"] % len(shapes[0])],)


def _gather_dtype(dtypes: Sequence[DType], attrs: Attrs) -> DType:
    if dtypes[1].name not in ("int32", "int64"):
        raise OpError(
            "AF1203",
            f"the indices of a Gather are int32 or int64, not {dtypes[1]}",
            "insert a Cast",
        )
    return dtypes[0]


def _elements_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    data, indices = shapes
    if not data:
        raise OpError("AF1204", "GatherElements needs data with at least one dimension")
    axis = reduced_axes((attrs["axis"],), len(data), "GatherElements")[0]
    if len(indices) != len(data):
        raise OpError(
            "AF1204",
            f"data of {counted(len(data), 'dimension')} needs an index with as many, not {len(indices)}",
        )
    for d, (have, want) in enumerate(zip(data, indices, strict=True)):
        lacking = d != axis and have.is_const and want.is_const and want.value > have.value
        if lacking or (d == axis and have == 0 and all(s != 0 for s in indices)):
            raise OpError(
                "AF1204",
                f"the index has {counted(want, 'element')} along dimension {d}, data {have}",
            )
    return indices


# references -----------------------------------------------------------------------------------


def _transpose(xs: Sequence[Array], attrs: Attrs) -> Array:
    return np.transpose(xs[0], attrs["perm"])


def _slice(xs: Sequence[Array], attrs: Attrs) -> Array:
    starts, shape = _ints(attrs["starts"]), _ints(attrs["shape"])
    steps = attrs.get("steps") or (1,) * len(starts)
    x = xs[0]
    for d, (start, count, step) in enumerate(zip(starts, shape, steps, strict=True)):
        x = np.take(x, start + step * np.arange(count), axis=d)
    return np.asarray(x)


def _concat(xs: Sequence[Array], attrs: Attrs) -> Array:
    return np.concatenate(xs, axis=attrs["axis"])


def _pad(xs: Sequence[Array], attrs: Attrs) -> Array:
    width = list(zip(_ints(attrs["low"]), _ints(attrs["high"]), strict=True))
    return np.pad(xs[0], width, constant_values=attrs.get("value", 0.0)) if width else xs[0]


def _frame(xs: Sequence[Array], attrs: Attrs) -> Array:
    width = [(0, 0)] * xs[0].ndim
    width[attrs["axis"]] = (attrs["low"], attrs["high"])
    return np.pad(xs[0], width)


def _iota(xs: Sequence[Array], attrs: Attrs) -> Array:
    shape = _ints(attrs["shape"])
    axis = reduced_axes((attrs["axis"],), len(shape), "Iota")[0]
    line = attrs.get("start", 0) + attrs.get("step", 1) * np.arange(shape[axis])
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def inside(index: Array, extent: int) -> Array:
    """Return positions along a dimension: negative ones count from the end; out-of-bounds ones are clamped."""
    at = np.asarray(index, dtype=np.int64)
    return np.clip(np.where(at < 0, at + extent, at), 0, max(extent - 1, 0))


def _gather(xs: Sequence[Array], attrs: Attrs) -> Array:
    axis = attrs["axis"]
    return np.take(xs[0], inside(xs[1], xs[0].shape[axis]), axis=axis)


def _gather_elements(xs: Sequence[Array], attrs: Attrs) -> Array:
    axis = attrs["axis"] % xs[0].ndim
    at = inside(xs[1], xs[0].shape[axis])
    cut = tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(at.shape))
    if xs[0].shape[axis] == 0:  # nothing is indexed
        return np.zeros(at.shape, xs[0].dtype)
    return np.take_along_axis(xs[0][cut], at, axis=axis)


def _take_shape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    data, offsets = shapes
    shared = attrs["shared"]
    return (*offsets[:shared], *data[shared:-1], *offsets[shared:])


def _take(xs: Sequence[Array], attrs: Attrs) -> Array:
    data, at = xs[0], xs[1] // attrs["size"]
    shared = attrs["shared"]
    if not shared:
        return np.take(data, at, axis=-1)
    cut = data[tuple(slice(n) for n in at.shape[:shared])]
    return np.take_along_axis(cut, at, axis=-1)


# rows -----------------------------------------------------------------------------------------


def _move(
    name: str,
    arity: tuple[int, int],
    shape: Any,
    reference: Any,
    attrs: tuple[Attr, ...],
    doc: str,
    **kw: Any,
) -> OpDef:
    gathers = name in ("Gather", "GatherElements")
    rules = {"Concat": same_dtype, "Pad": _pad_dtype}
    kw |= {"source": _COST_OF_ELEMENTS} if gathers else {}
    dtype = _gather_dtype if gathers else rules.get(name, any_dtype)
    kind, cost = ("gather", "gather") if gathers else (name.lower(), "none")
    return OpDef(
        name,
        arity,
        dtype,
        shape,
        kind,
        reference,
        attrs=attrs,
        cost=cost,
        ulp=0.0,
        doc=doc,
        nonempty=_indexed_extent if gathers else None,
        inside=_INSIDE.get(name),
        **kw,
    )


_INSIDE = {
    "Slice": _slice_inside,
    "Pad": _pad_inside,
    "GatherElements": _gather_elements_inside,
}
_COST_OF_ELEMENTS = (
    "on Ascend: one DMA command per row of the dimensions inside the indexed one; elements of 16 or 32 bits along the "
    "innermost dimension come from whole rows in UB if a row takes at most an eighth of it, about 5 per cycle and core"
)
_AXIS = Attr("axis", "int", doc="the dimension; a negative one counts from the end")

ROWS: tuple[OpDef, ...] = (
    _move(
        "Transpose",
        (1, 1),
        _transpose_shape,
        _transpose,
        (Attr("perm", "ints", doc="dimension of the input for every dimension of the result"),),
        "permuted dimensions",
        errors="relative",
    ),
    _move(
        "Slice",
        (1, 1),
        _slice_shape,
        _slice,
        (
            Attr("starts", "shape", doc="first element along every dimension"),
            Attr("shape", "shape", doc="number of elements along every dimension"),
            Attr(
                "steps",
                "ints",
                (),
                doc="step along every dimension; negative: backwards; none: 1",
            ),
        ),
        "a strided part of a tensor",
        errors="relative",
    ),
    _move(
        "Concat",
        (1, MAX_PIECES),
        _concat_shape,
        _concat,
        (_AXIS,),
        "tensors concatenated along a dimension",
    ),
    _move(
        "Pad",
        (1, 1),
        _pad_shape,
        _pad,
        (
            Attr("low", "shape", doc="elements to add before, along every dimension"),
            Attr("high", "shape", doc="elements to add after, along every dimension"),
            Attr("value", "float", 0.0, doc="their value"),
        ),
        "a tensor padded with a constant",
    ),
    OpDef(
        "Frame",
        (1, 1),
        any_dtype,
        _frame_shape,
        "frame",
        _frame,
        attrs=(
            Attr("axis", "int", doc="the dimension, not negative"),
            Attr("low", "int", doc="elements before it"),
            Attr("high", "int", doc="elements after it"),
        ),
        cost="none",
        ulp=0.0,
        user=False,
        doc="a tensor with unused elements around it, whose values are unspecified",
    ),
    OpDef(
        "Take",
        (2, 2),
        lambda dtypes, attrs: dtypes[0],
        _take_shape,
        "gather",
        _take,
        attrs=(
            Attr(
                "shared",
                "int",
                doc="leading dimensions of the first input that the second has too: 0, or all but 1",
            ),
            Attr("size", "int", doc="bytes of an element"),
        ),
        cost="gather",
        ulp=0.0,
        user=False,
        doc="elements of rows of the first input at the offsets in bytes in the second, all inside of a row",
        nonempty=lambda shapes, attrs: (shapes[0][-1],),
    ),
    OpDef(
        "Iota",
        (0, 0),
        _iota_dtype,
        _iota_shape,
        "iota",
        _iota,
        attrs=(
            Attr("shape", "shape", doc="shape of the result"),
            Attr("axis", "int", doc="the dimension along which the numbers grow"),
            Attr("dtype", "dtype", doc="dtype of the result"),
            Attr("start", "int", 0, doc="the first number"),
            Attr("step", "int", 1, doc="the step"),
        ),
        call=Call(
            "Arange", "iota", frozenset({"int16", "int32", "float16", "float32"}), inplace=False
        ),
        cost="unary",
        doc="start + step * index along a dimension",
    ),
    _move(
        "Gather",
        (2, 2),
        _gather_shape,
        _gather,
        (_AXIS,),
        "elements of the first input at the indices in the second along a dimension; negative ones count from the end",
    ),
    _move(
        "GatherElements",
        (2, 2),
        _elements_shape,
        _gather_elements,
        (_AXIS,),
        "elements of the first input along a dimension, each at the index that the second has at its place",
    ),
)
