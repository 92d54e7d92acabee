"""Converters of element-wise ops that have no registry row of the same name."""

from __future__ import annotations

import math

import numpy as np

from autofuse.frontends.onnx import tables
from autofuse.frontends.onnx.context import Node, Result, converter
from autofuse.frontends.onnx.values import Known, Value
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType, numpy_dtype
from autofuse.implgraph.ops import registry

__all__: list[str] = []

BOOL = BY_NAME["bool"]
FLOAT = BY_NAME["float32"]
INT32 = BY_NAME["int32"]


def _target(n: Node, number: int) -> DType:
    name = tables.type_name(number)
    if name not in BY_NAME:
        raise n.error("AF1203", f"no kernel holds elements of type {name}")
    return BY_NAME[name]


@converter("Cast")
def _cast(n: Node) -> Result:
    n.dtype()
    return n.e.cast(n.x(), _target(n, int(n.attrs["to"])))


@converter("BitCast")
def _bit_cast(n: Node) -> Result:
    n.dtype()
    return n.e.op("BitCast", n.x(), dtype=_target(n, int(n.attrs["to"])).name)


@converter("CastLike")
def _cast_like(n: Node) -> Result:
    n.dtype()
    return n.e.cast(n.x(), n.dtype(1))


@converter("PRelu")
def _prelu(n: Node) -> Result:
    x, slope = n.all()
    if n.version < 7 and len(slope.shape) == 1 and len(x.shape) > 2:
        # One per channel.
        slope = n.e.reshape(slope, (slope.shape[0], *(const(1),) * (len(x.shape) - 2)))
    return n.e.select(n.e.op("Less", x, n.e.like(0, x)), n.e.mul(x, slope), x)


@converter("Max", "Min")
def _extremum(n: Node) -> Result:
    op = "Maximum" if n.op_type == "Max" else "Minimum"
    return _chain(n, op)


@converter("Sum")
def _sum(n: Node) -> Result:
    return _chain(n, "Add")


@converter("Mean")
def _mean(n: Node) -> Result:
    total = _chain(n, "Add")
    return n.e.mul(total, n.e.like(1.0 / len(n.inputs), total)) if len(n.inputs) > 1 else total


def _chain(n: Node, op: str) -> Value:
    xs = n.all()
    out = xs[0]
    for x in xs[1:]:
        out = n.e.op(op, out, x)
    return out


@converter("Clip")
def _clip(n: Node) -> Result:
    e, x = n.e, n.x()
    low, high = n.opt(1), n.opt(2)
    if n.version < 11:
        low = e.like(n.attrs["min"], x) if "min" in n.attrs else None
        high = e.like(n.attrs["max"], x) if "max" in n.attrs else None
    out = x if low is None else e.op("Maximum", x, low)
    return out if high is None else e.op("Minimum", out, high)


@converter("Pow")
def _pow(n: Node) -> Result:
    """Convert Pow: the exponent may have its own type and is not rounded to the base's, which is the result's."""
    e, x, y = n.e, n.x(), n.x(1)
    base, exponent = e.dtype(x), e.dtype(y)
    if base == exponent or (base.kind == "f" and exponent.kind in "iu" and not _holds(base, y)):
        return e.op("Pow", x, y)
    if exponent.kind == "f":
        wide = exponent if base.kind != "f" else base if _holds(base, y) else FLOAT
    elif base.kind == "u" and exponent.kind == "i":
        wide = BY_NAME["int64"]
    else:
        wide = exponent if base.kind != "f" and exponent.bits >= base.bits else base
    return e.cast(e.op("Pow", e.cast(x, wide), e.cast(y, wide)), base)


def _holds(dtype: DType, x: Value) -> bool:
    """Return True if a float type represents every value of an operand: constants, sizes, or a shorter float type."""
    if isinstance(x, Known) and x.array.dtype != object:
        with np.errstate(all="ignore"):
            there = x.array.astype(numpy_dtype(dtype)).astype(np.float64)
        return np.array_equal(there, x.array, equal_nan=x.array.dtype.kind == "f")
    short = x.dtype is not None and x.dtype.kind == "f" and x.dtype.bits < dtype.bits
    return isinstance(x, Known) or short


@converter("Div")
def _div(n: Node) -> Result:
    return n.e.op("Div" if n.dtype().kind == "f" else "TruncDiv", n.x(), n.x(1))


@converter("Mod")
def _mod(n: Node) -> Result:
    """Convert Mod: ``fmod`` takes the sign of the dividend, otherwise the divisor's."""
    return n.e.op("Fmod" if n.attrs.get("fmod") else "FloorMod", n.x(), n.x(1))


@converter("BitShift")
def _shift(n: Node) -> Result:
    """Convert BitShift; a negative amount shifts everything out."""
    e, x, by = n.e, n.x(), n.x(1)
    right = n.attrs["direction"] == "RIGHT"
    out = e.op("RShift" if right else "LShift", x, by)
    if e.dtype(x).kind == "u":
        return out
    zero = e.like(0, x)
    gone = e.select(e.op("Less", x, zero), e.like(-1, x), zero) if right else zero
    return e.select(e.op("Less", by, e.like(0, by)), gone, out)


@converter("IsInf")
def _is_inf(n: Node) -> Result:
    e, x = n.e, n.x()
    signs = [s for s in ("positive", "negative") if n.attrs.get(f"detect_{s}", 1)]
    found = [e.op("Equal", x, e.like(np.inf if s == "positive" else -np.inf, x)) for s in signs]
    if not found:
        return e.broadcast(e.scalar(False, BOOL), x.shape)
    return found[0] if len(found) == 1 else e.op("LogicalOr", *found)


@converter("IsNaN")
def _is_nan(n: Node) -> Result:
    return n.e.op("NotEqual", n.x(), n.x())


@converter("Sign")
def _sign(n: Node) -> Result:
    e, x = n.e, n.x()
    if registry.find("Sign") is not None:
        return e.op("Sign", x)
    zero = e.like(0, x)
    if e.dtype(x).kind == "u":
        return e.select(e.op("Greater", x, zero), e.like(1, x), zero)
    below = e.select(e.op("Less", x, zero), e.like(-1, x), x)
    return e.select(e.op("Greater", x, zero), e.like(1, x), below)


@converter("Softplus")
def _softplus(n: Node) -> Result:
    """log(1 + exp(x)) without overflow: max(x, 0) + log(1 + exp(-abs(x)))."""
    e, x = n.e, n.x()
    small = e.op("Exp", e.op("Neg", e.op("Abs", x)))
    return e.add(e.op("Relu", x), e.op("Ln", e.add(small, e.like(1, x))))


@converter("Gelu")
def _gelu(n: Node) -> Result:
    """With the error function, or the formula with tanh."""
    e, x = n.e, n.x()
    if n.attrs.get("approximate", "none") == "none":
        return e.op("Gelu", x)
    cubic = e.mul(e.op("Mul", e.op("Mul", x, x), x), e.like(0.044715, x))
    inner = e.mul(e.add(x, cubic), e.like(math.sqrt(2 / math.pi), x))
    return e.op("Mul", e.mul(x, e.like(0.5, x)), e.add(e.op("Tanh", inner), e.like(1.0, x)))


@converter("Not")
def _not(n: Node) -> Result:
    return n.e.op("LogicalNot", n.x())


@converter("Xor")
def _xor(n: Node) -> Result:
    return n.e.op("LogicalXor", n.x(), n.x(1))


@converter("Equal")
def _equal(n: Node) -> Result:
    return n.e.op("Equal", n.x(), n.x(1))


@converter("Dropout")
def _dropout(n: Node) -> Result:
    """Inference; training with a ratio of 0 is the same."""
    e, x = n.e, n.x()
    if n.opt(2) is not None and bool(n.known(2, "training_mode").reshape(-1)[0]):
        ratio = float(n.known(1, "the ratio").reshape(-1)[0]) if n.opt(1) is not None else 0.5
        if ratio != 0:
            raise n.error("AF1201", "random numbers")
    kept = e.broadcast(e.scalar(True, BOOL), x.shape)
    return [x, kept][: max(n.outputs, 1)]


@converter("Identity")
def _identity(n: Node) -> Result:
    return n.x()


@converter("Binarizer")
def _binarizer(n: Node) -> Result:
    e, x = n.e, n.x()
    over = e.op("Greater", x, e.like(float(n.attrs.get("threshold", 0.0)), x))
    return e.select(over, e.like(1, x), e.like(0, x))


@converter("BitwiseNot")
def _bitwise_not(n: Node) -> Result:
    return n.e.op("BitwiseNot", n.x())


# quantisation ---------------------------------------------------------------------------------


@converter("QuantizeLinear")
def _quantize(n: Node) -> Result:
    """saturate(round(x / scale) + zero point)."""
    e, x = n.e, n.x()
    number = int(n.attrs.get("output_dtype", 0))
    zero = n.opt(2)
    to = e.dtype(zero) if zero is not None else _target(n, number or 2)
    if to.kind not in "iu":
        raise n.error("AF1203", f"{to} is not an integer type")
    scale = _along(n, e.cast(n.x(1), FLOAT), x)
    rounded = e.op("Round", e.div(e.cast(x, FLOAT), scale))
    if zero is not None:
        rounded = e.add(rounded, _along(n, e.cast(zero, FLOAT), x))
    limits = np.iinfo(to.name)
    low = e.op("Maximum", rounded, e.scalar(float(limits.min), FLOAT))
    return e.cast(e.op("Minimum", low, e.scalar(float(limits.max), FLOAT)), to)


@converter("DequantizeLinear")
def _dequantize(n: Node) -> Result:
    """(x - zero point) * scale."""
    e, x, scale = n.e, n.x(), n.x(1)
    n.dtype()
    number = int(n.attrs.get("output_dtype", 0))
    to = _target(n, number) if number else e.dtype(scale)
    out = e.cast(x, FLOAT)
    zero = n.opt(2)
    if zero is not None:
        out = e.sub(out, _along(n, e.cast(zero, FLOAT), x))
    return e.cast(e.mul(out, _along(n, e.cast(scale, FLOAT), x)), to)


def _along(n: Node, p: Value, x: Value) -> Value:
    """Align a scale or zero point with the data: one, one per index of an axis, or one per block."""
    e, rank = n.e, len(x.shape)
    block = int(n.attrs.get("block_size", 0))
    if not block and (len(p.shape) != 1 or p.shape[0] == 1):
        return e.reshape(p, ()) if len(p.shape) == 1 else p
    axis = n.axis(int(n.attrs.get("axis", 1)), rank)
    if block:
        size = n.size(x, axis)
        count = n.size(p, axis)
        inner = p.shape[axis + 1 :]
        wide = e.reshape(p, (*p.shape[: axis + 1], const(1), *inner))
        wide = e.broadcast(wide, (*p.shape[: axis + 1], const(block), *inner))
        flat = e.reshape(wide, (*p.shape[:axis], const(count * block), *inner))
        return flat if count * block == size else e.part(flat, axis, 0, size)
    return e.reshape(p, (p.shape[0], *(const(1),) * (rank - axis - 1)))


# optimisers -----------------------------------------------------------------------------------


def _update_count(n: Node, x: Value) -> Value:
    """Return an optimiser's counter T in the dtype of the data, because the chip cannot compare int64."""
    return n.e.cast(n.x(1), n.e.dtype(x))


@converter("Momentum")
def _momentum(n: Node) -> Result:
    e, rate, count = n.e, n.x(0), (len(n.inputs) - 2) // 3
    alpha, beta, norm = (float(n.attrs[k]) for k in ("alpha", "beta", "norm_coefficient"))
    xs, vs = [], []
    for i in range(count):
        x, g, v = (n.x(2 + k * count + i) for k in range(3))
        g = e.add(e.mul(x, e.like(norm, x)), g)
        first = e.op("Equal", _update_count(n, x), e.like(0.0, x))
        part = e.select(first, e.like(1.0, x), e.like(beta, x))
        new = e.add(e.mul(v, e.like(alpha, x)), e.op("Mul", g, part))
        nesterov = n.attrs["mode"] == "nesterov"
        step = e.add(g, e.mul(new, e.like(alpha, x))) if nesterov else new
        xs.append(e.sub(x, e.op("Mul", step, rate)))
        vs.append(new)
    return [*xs, *vs]


@converter("Adagrad")
def _adagrad(n: Node) -> Result:
    e, count = n.e, (len(n.inputs) - 2) // 3
    decay, epsilon, norm = (
        float(n.attrs[k]) for k in ("decay_factor", "epsilon", "norm_coefficient")
    )
    xs, hs = [], []
    for i in range(count):
        x, g, h = (n.x(2 + k * count + i) for k in range(3))
        slower = e.add(e.mul(_update_count(n, x), e.like(decay, x)), e.like(1.0, x))
        rate = e.div(n.x(0), slower)
        g = e.add(e.mul(x, e.like(norm, x)), g)
        new = e.add(h, e.op("Mul", g, g))
        root = e.add(e.op("Sqrt", new), e.like(epsilon, x))
        xs.append(e.sub(x, e.div(e.op("Mul", g, rate), root)))
        hs.append(new)
    return [*xs, *hs]


@converter("Adam")
def _adam(n: Node) -> Result:
    e, count = n.e, (len(n.inputs) - 2) // 4
    alpha, beta, epsilon, norm, after = (
        float(n.attrs.get(k, d))
        for k, d in (
            ("alpha", 0.9),
            ("beta", 0.999),
            ("epsilon", 0.0),
            ("norm_coefficient", 0.0),
            ("norm_coefficient_post", 0.0),
        )
    )
    xs, vs, hs = [], [], []
    for i in range(count):
        x, g, v, h = (n.x(2 + k * count + i) for k in range(4))
        g = e.add(e.mul(x, e.like(norm, x)), g)
        new_v = e.add(e.mul(v, e.like(alpha, x)), e.mul(g, e.like(1 - alpha, x)))
        new_h = e.add(e.mul(h, e.like(beta, x)), e.mul(e.op("Mul", g, g), e.like(1 - beta, x)))
        root = e.add(e.op("Sqrt", new_h), e.like(epsilon, x))
        t = _update_count(n, x)
        one = e.like(1.0, x)
        up = e.op("Sqrt", e.sub(one, e.op("Pow", e.like(beta, x), t)))
        down = e.sub(one, e.op("Pow", e.like(alpha, x), t))
        corrected = e.op("Mul", n.x(0), e.div(up, down))
        started = e.op("Greater", t, e.like(0.0, x))
        rate = e.select(started, corrected, n.x(0))
        moved = e.sub(x, e.div(e.op("Mul", new_v, rate), root))
        xs.append(e.mul(moved, e.like(1 - after, x)))
        vs.append(new_v)
        hs.append(new_h)
    return [*xs, *vs, *hs]
