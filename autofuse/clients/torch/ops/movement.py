"""Rows of views, data movement, and tensors determined by attributes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from autofuse.base.wording import counted
from autofuse.clients.torch.emit import BOOL, Indexed, Value
from autofuse.clients.torch.ops.row import Call, Kind, row
from autofuse.clients.torch.refusal import RefusedError
from autofuse.implgraph.expr.expression import Expr, const

__all__: list[str] = []


# views ----------------------------------------------------------------------------------------


_SAME_ORDER = """
    view.default reshape.default _unsafe_view.default unsqueeze.default squeeze.default squeeze.dim squeeze.dims
    alias.default detach.default flatten.using_ints view.dtype"""


@row(*(f"aten.{name}" for name in _SAME_ORDER.split()), "prims.view_of.default", kind=Kind.VIEW)
def _view(c: Call) -> Value:
    if c.dtype != c.x().dtype:
        raise RefusedError("it reinterprets the bits as another element type")
    return c.e.reshape(c.x(), c.shape)


@row("aten.as_strided.default", kind=Kind.VIEW)
def _as_strided(c: Call) -> Value:
    """Lower as_strided only if it is a reshape of dense memory."""
    source, result = c.meta_of(0), c.meta
    offset = c.arg(3, "storage_offset")
    # An offset counts from the start of the storage.
    here = offset is None or c.expr(offset) == c.expr(source.storage_offset()) == 0
    same = here and c.e.sizes.holds(source.numel() == result.numel())
    if not (same and source.is_contiguous() and result.is_contiguous()):
        raise RefusedError("the result depends on strides")
    return c.e.reshape(c.x(), c.shape)


@row(
    "aten.clone.default", "aten.contiguous.default", "aten.lift_fresh_copy.default", kind=Kind.COPY
)
def _clone(c: Call) -> Value:
    return c.x()


@row("aten.permute.default", kind=Kind.VIEW)
def _permute(c: Call) -> Value:
    rank = len(c.x().shape)
    return c.e.transpose(c.x(), [int(d) % rank for d in c.arg(1, "dims")])


@row("aten.expand.default", kind=Kind.VIEW)
def _expand(c: Call) -> Value:
    return c.e.broadcast(c.x(), c.shape)


# Indices may count from the end.  A kernel handles one sign only; a guard keeps calls with the other sign away.


def _bound(c: Call, arg: Any, axis: int, default: Any = 0) -> Any:
    """Return the start or end of a slice, clamped to the axis."""
    size = c.meta_of(0).shape[axis]
    at = default if arg is None else c.size(arg)
    holds = c.e.sizes.holds
    if holds(at < 0):
        at = at + size
    if holds(at < 0):
        return 0
    return size if holds(at > size) else at


def _place(c: Call, arg: Any, axis: int) -> Expr:
    """Return an index into a dimension, counted from its start."""
    size, at = c.meta_of(0).shape[axis], c.size(arg)
    holds = c.e.sizes.holds
    if holds(at < 0):
        at = at + size
    if holds(at < 0) or holds(at >= size):
        raise RefusedError(
            f"the place {c.size(arg)} is out of range for a dimension of size {size}"
        )
    return c.expr(at)


@row("aten.slice.Tensor", kind=Kind.VIEW)
def _slice(c: Call) -> Value:
    x = c.x()
    axis = int(c.arg(1, "dim", 0)) % len(x.shape)
    step = c.integer(c.arg(4, "step", 1), "the step")
    size = c.shape[axis]
    start = const(0) if size == 0 else c.expr(_bound(c, c.arg(2, "start"), axis))
    if size == 0:
        return c.e.full(c.shape, 0, x.dtype)
    return c.e.part(x, axis, start, size, step)


@row("aten.select.int", kind=Kind.VIEW)
def _select(c: Call) -> Value:
    x = c.x()
    axis = int(c.arg(1, "dim")) % len(x.shape)
    at = _place(c, c.arg(2, "index"), axis)
    return c.e.reshape(c.e.part(x, axis, at, const(1)), c.shape)


def _pieces(c: Call, sizes: Sequence[Expr], axis: int) -> list[Value]:
    start, out = const(0), []
    for size in sizes:
        piece = c.e.part(c.x(), axis, start, size)
        out.append(piece if size != 0 else c.e.full(piece.shape, 0, piece.dtype))
        start = start + size
    return out


@row("aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int", kind=Kind.VIEW)
def _split(c: Call) -> list[Value]:
    name = str(c.node.target)
    rank = len(c.x().shape)
    axis = int(c.arg(1, "dim", 0) if "unbind" in name else c.arg(2, "dim", 0)) % rank
    if "unbind" in name:
        count = len(c.meta)
        pieces = _pieces(c, [const(1)] * count, axis)
        return [
            c.e.reshape(p, c.e.sizes.shape(m.shape)) for p, m in zip(pieces, c.meta, strict=True)
        ]
    return _pieces(c, [c.e.sizes.expr(m.shape[axis]) for m in c.meta], axis)


# copies ---------------------------------------------------------------------------------------


@row("aten.cat.default", kind=Kind.COPY)
def _cat(c: Call) -> Value:
    parts = [p for p in c.node.args[0] if tuple(p.meta["val"].shape) != (0,)]  # type: ignore[union-attr]
    if not parts:
        return c.e.full(c.shape, 0, c.dtype)
    axis = int(c.arg(1, "dim", 0)) % len(c.shape)
    return c.e.concat([c.e.cast(c.value(p), c.dtype) for p in parts], axis)


@row("aten.repeat.default", kind=Kind.COPY)
def _repeat(c: Call) -> Value:
    """Insert an axis before each one, broadcast it, and merge the two."""
    x, times = c.x(), [c.expr(t) for t in c.arg(1, "repeats")]
    own = (const(1),) * (len(times) - len(x.shape)) + x.shape
    split = tuple(e for size in own for e in (const(1), size))
    wide = tuple(e for pair in zip(times, own, strict=True) for e in pair)
    if any(e == 0 for e in wide):
        return c.e.full(c.shape, 0, x.dtype)
    return c.e.reshape(c.e.broadcast(c.e.reshape(x, split), wide), c.shape)


@row("aten.constant_pad_nd.default", kind=Kind.COPY)
def _pad(c: Call) -> Value:
    """Pad a tensor; a negative width crops."""
    x, rank = c.x(), len(c.x().shape)
    sizes, widths = c.meta_of(0).shape, [c.size(w) for w in c.arg(1, "pad")]
    number = c.number(c.arg(2, "value", 0), "the value")
    starts, ends, before, behind = ([const(0)] * rank for _ in range(4))
    holds = c.e.sizes.holds
    kept = list(x.shape)
    for i in range(len(widths) // 2):
        axis, left = rank - 1 - i, sizes[rank - 1 - i]
        for w, cut, more in zip(
            widths[2 * i : 2 * i + 2], (starts, ends), (before, behind), strict=True
        ):
            if holds(w < 0):
                left, cut[axis] = left + w, c.expr(-w)
            else:
                more[axis] = c.expr(w)
        if holds(left < 0):
            raise RefusedError(
                f"more is cut off than the {counted(sizes[axis], 'element')} of a dimension"
            )
        kept[axis] = c.expr(left)
    if any(s == 0 for s in (*c.shape, *kept)):
        return c.e.full(c.shape, number, x.dtype)
    if any(s != 0 for s in (*starts, *ends)):
        x = c.e.slice(x, starts, tuple(kept), [1] * rank)
    return c.e.pad(x, before, behind, float(number))


@row("aten.flip.default", "prims.rev.default", kind=Kind.COPY)
def _flip(c: Call) -> Value:
    x, rank = c.x(), len(c.x().shape)
    dims = {int(d) % max(rank, 1) for d in c.arg(1, "dims")}
    if not x.shape or any(s == 0 for s in x.shape):
        return x
    starts = [s - 1 if i in dims else const(0) for i, s in enumerate(x.shape)]
    return c.e.slice(x, starts, x.shape, [-1 if i in dims else 1 for i in range(rank)])


def _replaced(c: Call, x: Value, source: Value, axis: int, start: Expr) -> Value:
    """Replace a range of one axis with another tensor."""
    end = start + source.shape[axis]
    parts = [
        c.e.part(x, axis, const(0), start),
        c.e.cast(source, x.dtype),
        c.e.part(x, axis, end, x.shape[axis] - end),
    ]
    return c.e.concat(parts, axis)


@row("aten.slice_scatter.default", kind=Kind.COPY)
def _slice_scatter(c: Call) -> Value:
    x, source = c.x(), c.x(1)
    if c.arg(5, "step", 1) != 1:
        raise RefusedError("scattered writes")
    axis = int(c.arg(2, "dim", 0)) % len(x.shape)
    start = _bound(c, c.arg(3, "start"), axis)
    end = _bound(c, c.arg(4, "end"), axis, c.meta_of(0).shape[axis])
    if not c.e.sizes.holds(end - start == c.meta_of(1).shape[axis]):
        raise RefusedError("the size of the written tensor does not match its place")
    return _replaced(c, x, source, axis, c.expr(start))


@row("aten.select_scatter.default", kind=Kind.COPY)
def _select_scatter(c: Call) -> Value:
    x, source = c.x(), c.x(1)
    axis = int(c.arg(2, "dim")) % len(x.shape)
    shape = (*x.shape[:axis], const(1), *x.shape[axis + 1 :])
    at = _place(c, c.arg(3, "index"), axis)
    return _replaced(c, x, c.e.reshape(source, shape), axis, at)


# indices --------------------------------------------------------------------------------------


def _index(c: Call, arg: Any, axis: int, *, wraps: bool = False) -> Value:
    """Return indices into an axis of the first operand; with ``wraps`` they may count from its end."""
    index, shape = c.value(arg), c.x().shape
    if index.dtype.name not in ("int32", "int64"):
        raise RefusedError(f"the index is {index.dtype}")
    c.e.indices.append(Indexed(index, shape[axis % len(shape)] if shape else const(1), wraps))
    return index


@row("aten.gather.default")
def _gather(c: Call) -> Value:
    x, index = c.x(), _index(c, c.node.args[2], int(c.arg(1, "dim")))
    if not x.shape or not index.shape:
        return c.e.broadcast(x, c.shape) if not x.shape else c.e.reshape(x, c.shape)
    return c.e.apply("GatherElements", x, index, axis=int(c.arg(1, "dim")) % len(x.shape))


@row("aten.embedding.default")
def _embedding(c: Call) -> Value:
    return c.e.apply("Gather", c.x(), _index(c, c.node.args[1], 0), axis=0)


@row("aten.index_select.default")
def _index_select(c: Call) -> Value:
    x, index = c.x(), _index(c, c.node.args[2], int(c.arg(1, "dim")))
    if not x.shape:
        return x
    flat = c.e.reshape(index, (const(1),)) if not index.shape else index
    return c.e.apply("Gather", x, flat, axis=int(c.arg(1, "dim")) % len(x.shape))


@row("aten.index.Tensor", "aten._unsafe_index.Tensor")
def _index_tensor(c: Call) -> Value:
    given = [(i, n) for i, n in enumerate(c.node.args[1]) if n is not None]  # type: ignore[arg-type,union-attr]
    if len(given) != 1:
        index = [_index(c, n, axis, wraps=True) for axis, n in given]
        return _outer_index(c, [axis for axis, _ in given], index)
    axis, node = given[0]
    return c.e.apply("Gather", c.x(), _index(c, node, axis, wraps=True), axis=axis)


def _outer_index(c: Call, axes: Sequence[int], index: Sequence[Value]) -> Value:
    """Index several dimensions, each along its own dimension of the result, with one gather after the other."""
    rank = max((len(v.shape) for v in index), default=0)
    along: dict[int, int] = {}
    flat: list[Value] = []
    last = rank
    for axis, v in zip(axes, index, strict=True):
        wide = [rank - len(v.shape) + d for d, s in enumerate(v.shape) if s != 1]
        if len(wide) > 1 or (wide and wide[0] in along.values()):
            raise RefusedError("data-dependent index in several dimensions")
        # A single index is along no dimension; its position among the others does not matter.
        along[axis] = wide[0] if wide else last
        last += not wide
        flat.append(c.e.reshape(v, tuple(s for s in v.shape if s != 1) or (const(1),)))
    x = c.x()
    for axis, v in zip(axes, flat, strict=True):
        x = c.e.apply("Gather", x, v, axis=axis)
    others = [d for d in range(len(x.shape)) if d not in along]
    together = list(axes) == list(range(axes[0], axes[0] + len(axes))) if axes else False
    before = axes[0] if together else 0
    order = [*others[:before], *sorted(axes, key=lambda a: along[a]), *others[before:]]
    return c.e.reshape(c.e.transpose(x, order), c.shape)


@row("aten.scatter.value", "aten.scatter.src", "aten.scatter_add.default")
def _scatter(c: Call) -> Value:
    """Scatter to one index per row, as a selection by comparing indices."""
    e, x, index = c.e, c.x(), _index(c, c.node.args[2], int(c.arg(1, "dim")))
    axis = int(c.arg(1, "dim")) % max(len(x.shape), 1)
    rest = [i for i in range(len(x.shape)) if i != axis]
    if not x.shape or index.shape[axis] != 1 or any(index.shape[i] != x.shape[i] for i in rest):
        raise RefusedError("scattered writes")
    source = c.cast(c.node.args[3], x.dtype)
    if source.shape:
        source = e.part(source, axis, const(0), const(1))
        if any(source.shape[i] != x.shape[i] for i in rest):
            raise RefusedError("scattered writes")
    if "scatter_add" in str(c.node.target):
        source = e.op("Add", x, source)
    line = e.iota((x.shape[axis],), 0, index.dtype, start=0, step=1)
    shape = tuple(s if i == axis else const(1) for i, s in enumerate(x.shape))
    here = e.op("Equal", e.reshape(line, shape), index)
    return e.select(here, source, x)


# tensors determined by attributes --------------------------------------------------------------


@row("aten.full.default", "aten.full_like.default", "aten.new_full.default", kind=Kind.CREATE)
def _full(c: Call) -> Value:
    at = 2 if "new_full" in str(c.node.target) else 1
    value = c.arg(at, "fill_value")
    if isinstance(value, torch.fx.Node):
        return c.e.broadcast(c.scalar(value, c.dtype), c.shape)
    return c.e.full(c.shape, c.number(value, "the value"), c.dtype)


@row(*(f"aten.{n}.default" for n in ("zeros", "zeros_like", "new_zeros")), kind=Kind.CREATE)
def _zeros(c: Call) -> Value:
    return c.e.full(c.shape, 0, c.dtype)


@row(*(f"aten.{n}.default" for n in ("ones", "ones_like", "new_ones")), kind=Kind.CREATE)
def _ones(c: Call) -> Value:
    return c.e.full(c.shape, 1, c.dtype)


@row("aten.scalar_tensor.default", kind=Kind.CREATE)
def _scalar_tensor(c: Call) -> Value:
    return c.cast(c.node.args[0], c.dtype)


@row("prims.iota.default", kind=Kind.CREATE)
def _iota(c: Call) -> Value:
    start = c.integer(c.arg(1, "start", 0), "the start")
    step = c.integer(c.arg(2, "step", 1), "the step")
    if any(s == 0 for s in c.shape):
        return c.e.full(c.shape, 0, c.dtype)
    return c.e.iota((c.shape[0],), 0, c.dtype, start=start, step=step)


@row("aten.arange.start_step", "aten.arange.default", "aten.arange.start", kind=Kind.CREATE)
def _arange(c: Call) -> Value:
    single = "default" in str(c.node.target)
    start = 0 if single else c.number(c.arg(0, "start"), "the start")
    step = c.number(c.arg(2, "step", 1), "the step") if "step" in str(c.node.target) else 1
    if not (isinstance(start, int) and isinstance(step, int)) or c.dtype == BOOL:
        raise RefusedError("a range of fractions")
    if any(s == 0 for s in c.shape):
        return c.e.full(c.shape, 0, c.dtype)
    return c.e.iota((c.shape[0],), 0, c.dtype, start=start, step=step)
