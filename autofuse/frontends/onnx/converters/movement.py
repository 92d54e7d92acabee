"""Converters of ops that move data or generate them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autofuse.base.wording import counted
from autofuse.frontends.builder import MAX_NODES, Shape
from autofuse.frontends.onnx import tables
from autofuse.frontends.onnx.context import Node, Result, converter
from autofuse.frontends.onnx.values import Foreign, Known, Value
from autofuse.implgraph.expr.expression import CeilDiv, Expr, const, divide_exact, product, total
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

__all__: list[str] = []

BOOL = BY_NAME["bool"]
INT32 = BY_NAME["int32"]


# shapes ---------------------------------------------------------------------------------------


@converter("Reshape")
def _reshape(n: Node) -> Result:
    x = n.x()
    old = [const(int(v)) for v in n.attrs.get("shape", ())]
    wanted = tuple(old) if n.version < 5 else n.sizes(1, "the shape")
    sizes: list[Expr] = []
    for i, s in enumerate(wanted):
        copies = s == 0 and not n.attrs.get("allowzero", 0)
        if copies and i >= len(x.shape):
            raise n.error(
                "AF1205", f"dimension {i} is to be kept, but the operand has {len(x.shape)}"
            )
        sizes.append(x.shape[i] if copies else s)
    open_ = [i for i, s in enumerate(sizes) if s == -1]
    if len(open_) > 1:
        raise n.error("AF1205", "more than one dimension is -1")
    if open_:
        rest = product([s for s in sizes if s != -1])
        whole = product(x.shape)
        left = const(0) if rest == 0 else divide_exact(whole, rest)
        if left is None:
            raise n.error(
                "AF1204", f"{n.e.in_words(x.shape)} cannot be divided into rows of {rest}"
            )
        sizes[open_[0]] = left
    return n.e.reshape(x, tuple(sizes))


@converter("Flatten")
def _flatten(n: Node) -> Result:
    x = n.x()
    rank = len(x.shape)
    axis = int(n.attrs.get("axis", 1))
    if not -rank <= axis <= rank:
        raise n.error("AF1205", f"there is no position {axis} between {counted(rank, 'dimension')}")
    axis = axis + rank if axis < 0 else axis
    return n.e.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@converter("Squeeze")
def _squeeze(n: Node) -> Result:
    x = n.x()
    axes = n.axes(1, len(x.shape))
    if axes is None:
        axes = tuple(i for i, s in enumerate(x.shape) if s == 1)
    if any(x.shape[a] != 1 for a in axes):
        raise n.error("AF1204", f"an axis of {n.e.in_words(x.shape)} that is left out is not 1")
    return n.e.reshape(x, tuple(s for i, s in enumerate(x.shape) if i not in axes))


@converter("Unsqueeze")
def _unsqueeze(n: Node) -> Result:
    x = n.x()
    count = len(n.attrs["axes"]) if "axes" in n.attrs else n.known(1, "the axes").size
    rank = len(x.shape) + count
    axes = n.axes(1, rank) or ()
    if len(axes) != count:
        raise n.error("AF1205", "an axis is named twice")
    left = iter(x.shape)
    return n.e.reshape(x, tuple(const(1) if i in axes else next(left) for i in range(rank)))


@converter("Expand")
def _expand(n: Node) -> Result:
    """Convert Expand: both shapes are broadcast, so a 1 in the wanted shape keeps the dimension."""
    x, wanted = n.x(), n.sizes(1, "the shape")
    rank = max(len(wanted), len(x.shape))
    have = (const(1),) * (rank - len(x.shape)) + x.shape
    want = (const(1),) * (rank - len(wanted)) + wanted
    shape = tuple(h if w == 1 else w for h, w in zip(have, want, strict=True))
    return n.e.broadcast(x, shape)


@converter("Transpose")
def _transpose(n: Node) -> Result:
    x = n.x()
    rank = len(x.shape)
    perm = [int(p) for p in n.attrs.get("perm") or range(rank - 1, -1, -1)]
    if sorted(perm) != list(range(rank)):
        raise n.error("AF1205", f"{perm} is not a permutation of {counted(rank, 'axis', 'axes')}")
    return n.e.transpose(x, perm)


@converter("DepthToSpace", "SpaceToDepth")
def _depth_space(n: Node) -> Result:
    e, x, b = n.e, n.x(), int(n.attrs["blocksize"])
    batch, channels, height, width = x.shape
    size = n.size(x, 1)
    if n.op_type == "DepthToSpace":
        if size % (b * b):
            raise n.error(
                "AF1204", f"{counted(size, 'channel does', 'channels do')} not divide by {b * b}"
            )
        depth, by = const(size // (b * b)), const(b)
        if n.attrs.get("mode", "DCR") == "DCR":
            split, perm = (batch, by, by, depth, height, width), (0, 3, 4, 1, 5, 2)
        else:
            split, perm = (batch, depth, by, by, height, width), (0, 1, 4, 2, 5, 3)
        moved = e.transpose(e.reshape(x, split), perm)
        return e.reshape(moved, (batch, depth, height * b, width * b))
    rows, columns = n.size(x, 2), n.size(x, 3)
    if rows % b or columns % b:
        raise n.error("AF1204", f"{rows} x {columns} does not divide into blocks of {b}")
    h, w, by = const(rows // b), const(columns // b), const(b)
    if n.attrs.get("mode", "DCR") == "DCR":
        perm, deep = (0, 3, 5, 1, 2, 4), (batch, channels * (b * b), h, w)
    else:
        perm, deep = (0, 1, 3, 5, 2, 4), (batch, channels * (b * b), h, w)
    return e.reshape(e.transpose(e.reshape(x, (batch, channels, h, by, w, by)), perm), deep)


# pieces ---------------------------------------------------------------------------------------


@converter("Concat")
def _concat(n: Node) -> Result:
    xs = n.all()
    return n.e.concat(xs, n.axis(int(n.attrs.get("axis", 1)), len(xs[0].shape)))


@converter("Split")
def _split(n: Node) -> Result:
    x = n.x()
    axis = n.axis(int(n.attrs.get("axis", 0)), len(x.shape))
    if n.opt(1) is not None:
        sizes: Sequence[Expr] = n.sizes(1, "the split")
    elif "split" in n.attrs:
        sizes = [const(int(v)) for v in n.attrs["split"]]
    else:
        whole, count = n.size(x, axis), int(n.attrs.get("num_outputs", n.outputs))
        if count > MAX_NODES:
            raise n.error("AF1205", f"{counted(count, 'piece')}")
        each = math.ceil(whole / max(count, 1))
        sizes = [const(max(min(each, whole - i * each), 0)) for i in range(count)]
    together, length = total(sizes), x.shape[axis]
    if together != length and not _fixed(n, length, together):
        raise n.error(
            "AF1204",
            f"the pieces have {counted(together, 'element')} together, axis {axis} has {length}",
        )
    start, out = const(0), []
    for size in sizes:
        out.append(n.e.part(x, axis, start, size))
        start = start + size
    return out


def _fixed(n: Node, size: Expr, wanted: Expr) -> bool:
    """Restrict a symbolic size to the wanted number; return True if that is possible."""
    number, s = wanted.as_int(), n.e.symbols.get(str(size))
    if number is None or s is None or not s.min <= number <= s.max:
        return False
    n.e.symbols[s.name] = replace(s, min=number, max=number)
    return True


@converter("Slice")
def _slice(n: Node) -> Result:
    x = n.x()
    rank = len(x.shape)
    if n.version < 10:
        starts = list(n.attrs["starts"])
        ends = tuple(const(v) for v in n.attrs["ends"])
        axes = list(n.attrs.get("axes", range(len(starts))))
        steps = [1] * len(starts)
    else:
        starts, ends = n.ints(1, "the starts"), n.sizes(2, "the ends")
        axes = n.ints(3, "the axes") if n.opt(3) is not None else list(range(len(starts)))
        steps = n.ints(4, "the steps") if n.opt(4) is not None else [1] * len(starts)
    at, shape, by = [const(0)] * rank, list(x.shape), [1] * rank
    for start, upto, axis, step in zip(starts, ends, axes, steps, strict=True):
        a = n.axis(axis, rank)
        if step == 0:
            raise n.error("AF1205", "a step is 0")
        size = x.shape[a].as_int()
        end = upto.as_int()
        if end is None:
            if not (start == 0 and step == 1 and _within(n, upto, x.shape[a])):
                text = f"the ends depends on a size that is not fixed: {upto}"
                raise n.error("AF1205", text)
            shape[a] = upto
            continue
        if size is None and start == 0 and step == 1 and end >= 1 << 20:
            continue
        taken = range(n.size(x, a))[slice(start, end, step)]
        if not taken and start < 0 and step < 0:
            taken = range(0)
        at[a], shape[a], by[a] = const(taken.start), const(len(taken)), step
    if any(s == 0 for s in shape):
        return _nothing(n, x, tuple(shape))
    return n.e.slice(x, at, tuple(shape), by)


def _within(n: Node, end: Expr, size: Expr) -> bool:
    """Return True if a range from 0 to ``end`` stays inside an axis, for all sizes that the kernel takes.

    A symbol that could exceed the axis gets the axis's size as its maximum, as for a table of positions that is sliced
    to the length of the sequence.
    """
    if end == size:
        return True
    limit = size.as_int()
    if limit is None or len(end.symbols()) != 1:
        return False
    (name,) = end.symbols()
    symbols = n.e.symbols
    s = symbols[name]
    if str(end) != name or s.min > limit:
        return False
    symbols[name] = replace(s, max=min(s.max, limit))
    return True


def _nothing(n: Node, x: Value, shape: Shape) -> Value:
    """Return a result without elements."""
    return n.e.broadcast(n.e.reshape(n.e.like(0, x), (const(1),) * len(shape)), shape)


@converter("Tile")
def _tile(n: Node) -> Result:
    """Convert Tile: add an axis beside each repeated one, broadcast, and merge."""
    e, x, repeats = n.e, n.x(), n.sizes(1, "the repeats")
    split: list[Expr] = []
    wide: list[Expr] = []
    for size, times in zip(x.shape, repeats, strict=True):
        split += [const(1), size] if times != 1 else [size]
        wide += [times, size] if times != 1 else [size]
    out = e.broadcast(e.reshape(x, tuple(split)), tuple(wide))
    return e.reshape(out, tuple(s * t for s, t in zip(x.shape, repeats, strict=True)))


@converter("Pad")
def _pad(n: Node) -> Result:
    e, x = n.e, n.x()
    rank = len(x.shape)
    if n.version < 11:
        pads = [int(v) for v in n.attrs["pads"]]
        fill: Value | None = None
        value = n.attrs.get("value", 0.0)
    else:
        pads, fill, value = n.ints(1, "the pads"), n.opt(2), 0
    axes = n.ints(3, "the axes") if n.opt(3) is not None else list(range(rank))
    low, high = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        a = n.axis(axis, rank)
        low[a], high[a] = pads[k], pads[k + len(axes)]
    # A negative pad crops.
    cut = [const(max(-v, 0)) for v in low]
    shape = tuple(s + min(a, 0) + min(b, 0) for s, a, b in zip(x.shape, low, high, strict=True))
    x = e.slice(x, cut, shape, [1] * len(shape))
    low, high = [max(v, 0) for v in low], [max(v, 0) for v in high]
    mode = n.attrs.get("mode", "constant")
    if mode != "constant":
        for axis in range(rank):
            x = _border(n, x, axis, low[axis], high[axis], mode)
        return x
    if fill is not None:
        value = n.known(2, "the value").reshape(-1)[0]
    value = float(value) if n.dtype().kind == "f" else int(value)
    return e.pad(x, [const(v) for v in low], [const(v) for v in high], value)


def _border(n: Node, x: Value, axis: int, low: int, high: int, mode: str) -> Value:
    """Pad with the operand's own elements: ``edge``, ``reflect`` or ``wrap``."""
    e, size = n.e, n.size(x, axis)
    if not (low or high):
        return x
    if mode == "edge":
        ends = [e.part(x, axis, i, 1) for i in (0, size - 1)]
        wide = [
            tuple(const(k) if i == axis else s for i, s in enumerate(x.shape)) for k in (low, high)
        ]
        parts = [e.broadcast(p, w) for p, w, k in zip(ends, wide, (low, high), strict=True) if k]
        return e.concat([*parts[:1], x, *parts[1:]] if low else [x, *parts], axis)
    if mode == "wrap" and low <= size and high <= size:
        pieces = [e.part(x, axis, size - low, low), x, e.part(x, axis, 0, high)]
    elif mode == "reflect" and low < size and high < size:
        pieces = [_reversed(n, x, axis, low, low), x, _reversed(n, x, axis, size - 2, high)]
    else:
        raise n.error("AF1205", f"the mode {mode} with a border of {max(low, high)} around {size}")
    return e.concat([p for p, k in zip(pieces, (low, 1, high), strict=True) if k], axis)


def _reversed(n: Node, x: Value, axis: int, start: int, size: int) -> Value:
    if size == 0:
        return x
    rank = len(x.shape)
    starts = [const(start if i == axis else 0) for i in range(rank)]
    shape = tuple(const(size) if i == axis else s for i, s in enumerate(x.shape))
    return n.e.slice(x, starts, shape, [-1 if i == axis else 1 for i in range(rank)])


@converter("CenterCropPad")
def _center(n: Node) -> Result:
    e, x = n.e, n.x()
    wanted = n.ints(1, "the shape")
    rank = len(x.shape)
    given = n.attrs.get("axes")
    axes = [n.axis(int(a), rank) for a in given] if given is not None else list(range(rank))
    for a, want in zip(axes, wanted, strict=True):
        size = n.size(x, a)
        if want < size:
            x = e.part(x, a, (size - want) // 2, want)
        elif want > size:
            low = (want - size) // 2
            lows = [const(low if i == a else 0) for i in range(rank)]
            highs = [const(want - size - low if i == a else 0) for i in range(rank)]
            x = e.pad(x, lows, highs, 0)
    return x


# from nothing ---------------------------------------------------------------------------------


@converter("Constant")
def _constant(n: Node) -> Result:
    for kind in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        if kind in n.attrs:
            dtype = {"value": None, "value_float": np.float32, "value_floats": np.float32}.get(
                kind, np.int64
            )
            return Known(np.asarray(n.attrs[kind], dtype))
    raise n.error("AF1203", f"a constant with {', '.join(n.attrs) or 'no value'}")


@converter("ConstantOfShape")
def _constant_of_shape(n: Node) -> Result:
    shape = n.sizes(0, "the shape")
    value = np.asarray(n.attrs.get("value", np.zeros(1, np.float32))).reshape(())
    return n.e.broadcast(Known(value), shape)


@converter("Range")
def _range(n: Node) -> Result:
    names = ("start", "limit", "delta")
    arrays = [n.known(i, f"the {w}") for i, w in enumerate(names)]
    for name, array in zip(names, arrays, strict=True):
        if array.size != 1:
            raise n.error("AF1205", f"the {name} has {array.size} elements, not one")
    start, limit, delta = (a.reshape(-1)[0] for a in arrays)
    if delta == 0:
        raise n.error("AF1205", "the delta is 0")
    if any(a.dtype == object for a in arrays):
        return _counted(n, *map(_whole, (start, limit, delta)))
    if not np.all(np.isfinite([start, limit, delta])):
        raise n.error("AF1205", f"there is no range from {start} to {limit} by {delta}")
    size = max(math.ceil((limit - start) / delta), 0)
    if size > 1 << 20:
        raise n.error("AF1109", f"a range of {counted(size, 'element')}")
    return Known(np.asarray(start + np.arange(size) * delta, np.asarray(start).dtype))


def _whole(x: Expr | float) -> Expr | None:
    """Return an end of a range as a size; None if it is not one."""
    if isinstance(x, Expr):
        return x
    return const(int(x)) if float(x).is_integer() else None


def _counted(n: Node, start: Expr | None, limit: Expr | None, delta: Expr | None) -> Result:
    """Return the numbers of a range whose ends are sizes."""
    if start is None or limit is None or delta is None:
        raise n.error(
            "AF1205", "one end depends on a size that is not fixed, and another is not an integer"
        )
    step, first = delta.as_int(), start.as_int()
    if step is None or (first is None and step != 1):
        text = f"from {start} by {delta}: it depends on a size that is not fixed"
        raise n.error("AF1205", text)
    size = CeilDiv(limit - start, step) if step > 0 else CeilDiv(start - limit, -step)
    if first is not None:
        return n.e.iota((size,), 0, n.dtype(), start=first, step=step)
    # The numbers from 0 on, without the first ones.
    return n.e.part(n.e.iota((limit,), 0, n.dtype()), 0, start, size)


@converter("EyeLike")
def _eye(n: Node) -> Result:
    e, x = n.e, n.x()
    if isinstance(x, Foreign) and not n.attrs.get("dtype"):
        n.dtype()
    dtype = _numbered(n, int(n.attrs["dtype"])) if n.attrs.get("dtype") else n.dtype()
    rows, columns = x.shape
    at = e.add(e.iota((rows, const(1)), 0, INT32), e.scalar(int(n.attrs.get("k", 0)), INT32))
    hit = e.op("Equal", at, e.iota((const(1), columns), 1, INT32))
    return hit if dtype == BOOL else e.select(hit, e.scalar(1, dtype), e.scalar(0, dtype))


def _numbered(n: Node, number: int) -> DType:
    name = tables.type_name(number)
    if name not in BY_NAME:
        raise n.error("AF1203", f"no kernel holds elements of type {name}")
    return BY_NAME[name]


@converter("Trilu")
def _trilu(n: Node) -> Result:
    e, x = n.e, n.x()
    k = n.ints(1, "the diagonal k")[0] if n.opt(1) is not None else 0
    rows, columns = x.shape[-2:]
    if any(s == 0 for s in x.shape):
        return x
    k = max(min(k, 1 << 30), -(1 << 30))
    at = e.add(e.iota((rows, const(1)), 0, INT32), e.scalar(k, INT32))
    op = "GreaterEqual" if n.attrs.get("upper", 1) else "LessEqual"
    kept = e.op(op, e.iota((const(1), columns), 1, INT32), at)
    return e.select(kept, x, e.like(0, x))
