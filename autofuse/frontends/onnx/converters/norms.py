"""Converters of the normalisations: one reduction, a broadcast, element-wise ops around them."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.base.wording import counted
from autofuse.frontends.onnx import tables
from autofuse.frontends.onnx.context import Node, Result, converter
from autofuse.frontends.onnx.converters.reductions import mean, reduce
from autofuse.frontends.onnx.emit import Emitter
from autofuse.frontends.onnx.values import Value
from autofuse.implgraph.expr.expression import const, product
from autofuse.implgraph.ir.dtypes import BY_NAME

__all__: list[str] = []


def _normalised(
    e: Emitter, x: Value, axes: Sequence[int], epsilon: float
) -> tuple[Value, Value, Value]:
    """((x - mean) / sqrt(variance + epsilon), mean, 1 / that root)."""
    middle = mean(e, x, axes)
    centred = e.sub(x, middle)
    variance = mean(e, e.op("Mul", centred, centred), axes)
    root = e.op("Sqrt", e.add(variance, e.like(epsilon, x)))
    return e.div(centred, root), middle, e.op("Reciprocal", root)


def _stash(n: Node, x: Value) -> Value:
    """Return the operand in the type of the statistics."""
    name = tables.type_name(int(n.attrs.get("stash_type", 1)))
    dtype = n.e.dtype(x)
    return n.e.cast(x, BY_NAME[name]) if name in BY_NAME and dtype.kind == "f" else x


@converter("LayerNormalization")
def _layer(n: Node) -> Result:
    e, x = n.e, n.x()
    rank = len(x.shape)
    axes = tuple(range(n.axis(int(n.attrs.get("axis", -1)), rank), rank))
    out, middle, scale = _normalised(e, _stash(n, x), axes, float(n.attrs.get("epsilon", 1e-5)))
    out = e.op("Mul", e.cast(out, e.dtype(x)), n.x(1))
    bias = n.opt(2)
    if bias is not None:
        out = e.add(out, bias)
    return [out, middle, scale][: max(n.outputs, 1)]


@converter("RMSNormalization")
def _rms(n: Node) -> Result:
    e, x = n.e, n.x()
    rank = len(x.shape)
    axes = tuple(range(n.axis(int(n.attrs.get("axis", -1)), rank), rank))
    wide = _stash(n, x)
    squares = mean(e, e.op("Mul", wide, wide), axes)
    root = e.op("Sqrt", e.add(squares, e.like(float(n.attrs.get("epsilon", 1e-5)), wide)))
    return e.op("Mul", e.cast(e.div(wide, root), e.dtype(x)), n.x(1))


def _per_channel(e: Emitter, p: Value, rank: int) -> Value:
    """Align a vector with axis 1."""
    return e.reshape(p, (p.shape[0], *(const(1),) * (rank - 2)))


@converter("BatchNormalization")
def _batch(n: Node) -> Result:
    e, x = n.e, n.x()
    rank = len(x.shape)
    epsilon = float(n.attrs.get("epsilon", 1e-5))
    training = bool(n.attrs.get("training_mode", 0)) or (n.version < 14 and n.outputs > 1)
    scale, bias, old_mean, old_var = (n.x(i) for i in range(1, 5))
    if not training:
        centred = e.sub(x, _per_channel(e, old_mean, rank))
        root = e.op("Sqrt", e.add(old_var, e.like(epsilon, old_var)))
        out = e.div(centred, _per_channel(e, root, rank))
        out = e.op("Mul", out, _per_channel(e, scale, rank))
        return e.add(out, _per_channel(e, bias, rank))
    axes = tuple(i for i in range(rank) if i != 1)
    middle = mean(e, x, axes)
    centred = e.sub(x, middle)
    variance = mean(e, e.op("Mul", centred, centred), axes)
    out = e.div(centred, e.op("Sqrt", e.add(variance, e.like(epsilon, x))))
    out = e.add(e.op("Mul", out, _per_channel(e, scale, rank)), _per_channel(e, bias, rank))
    keep = float(n.attrs.get("momentum", 0.9))
    results = [out]
    for old, new in ((old_mean, middle), (old_var, variance)):
        flat = e.reshape(new, old.shape)
        results.append(e.add(e.mul(old, e.like(keep, old)), e.mul(flat, e.like(1 - keep, old))))
    return results[: max(n.outputs, 1)]


@converter("InstanceNormalization")
def _instance(n: Node) -> Result:
    e, x = n.e, n.x()
    rank = len(x.shape)
    axes = tuple(range(2, rank))
    out, _, _ = _normalised(e, x, axes, float(n.attrs.get("epsilon", 1e-5)))
    out = e.op("Mul", out, _per_channel(e, n.x(1), rank))
    return e.add(out, _per_channel(e, n.x(2), rank))


@converter("GroupNormalization")
def _group(n: Node) -> Result:
    e, x = n.e, n.x()
    rank, groups = len(x.shape), int(n.attrs["num_groups"])
    channels = n.size(x, 1)
    if groups < 1 or channels % groups:
        raise n.error(
            "AF1205",
            f"{counted(channels, 'channel does', 'channels do')} not make {counted(groups, 'equal group')}",
        )
    inner = product(x.shape[2:]) * (channels // groups)
    flat = e.reshape(_stash(n, x), (x.shape[0], const(groups), inner))
    out, _, _ = _normalised(e, flat, (2,), float(n.attrs.get("epsilon", 1e-5)))
    if n.version < 21:  # one scale per group
        wide = [e.reshape(n.x(i), (const(groups), const(1))) for i in (1, 2)]
        out = e.cast(out, e.dtype(x))
        return e.reshape(e.add(e.op("Mul", out, wide[0]), wide[1]), x.shape)
    out = e.cast(e.reshape(out, x.shape), e.dtype(x))
    out = e.op("Mul", out, _per_channel(e, n.x(1), rank))
    return e.add(out, _per_channel(e, n.x(2), rank))


@converter("MeanVarianceNormalization")
def _mean_variance(n: Node) -> Result:
    e, x = n.e, n.x()
    axes = tuple(n.axis(int(a), len(x.shape)) for a in n.attrs.get("axes", (0, 2, 3)))
    middle = mean(e, x, axes)
    centred = e.sub(x, middle)
    root = e.op("Sqrt", mean(e, e.op("Mul", centred, centred), axes))
    return e.div(centred, e.add(root, e.like(1e-9, x)))


@converter("LpNormalization")
def _lp(n: Node) -> Result:
    e, x = n.e, n.x()
    axis = (n.axis(int(n.attrs.get("axis", -1)), len(x.shape)),)
    if int(n.attrs.get("p", 2)) == 1:
        norm = reduce(e, "Sum", e.op("Abs", x), axis)
    else:
        norm = e.op("Sqrt", reduce(e, "Sum", e.op("Mul", x, x), axis))
    zero = e.like(0, x)
    # Rows of zeros stay zero.
    return e.select(e.op("Equal", norm, zero), zero, e.div(x, norm))


@converter("LRN")
def _lrn(n: Node) -> Result:
    """Divide by (bias + alpha/size * sum of the squares of neighbouring channels) ** beta."""
    e, x = n.e, n.x()
    size = int(n.attrs["size"])
    channels, rank = n.size(x, 1), len(x.shape)
    if not 1 <= size <= 2 * channels + 1:
        raise n.error("AF1205", f"a window of {size} of {counted(channels, 'channel')}")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    low = [const(before if i == 1 else 0) for i in range(rank)]
    high = [const(after if i == 1 else 0) for i in range(rank)]
    padded = e.pad(e.op("Mul", x, x), low, high, 0.0)
    total = e.part(padded, 1, 0, channels)
    for k in range(1, size):
        total = e.add(total, e.part(padded, 1, k, channels))
    alpha, beta, bias = (
        float(n.attrs.get(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    base = e.add(e.mul(total, e.like(alpha / size, x)), e.like(bias, x))
    return e.div(x, e.op("Pow", base, e.like(beta, x)))
