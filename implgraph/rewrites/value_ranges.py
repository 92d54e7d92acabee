"""Intervals of the integers in a FusionGraph, from its constants, dtypes and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import Expr, ExprError, product
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Operand
from autofuse.implgraph.ops.infer import operand_dtypes
from autofuse.implgraph.ops.rows.reductions import reduced_axes

__all__ = ["MOVES", "Interval", "Ranges", "limits"]

Interval: TypeAlias = tuple[int, int]

#: Ops whose elements are all elements of their operands.
MOVES = frozenset({"Reshape", "Broadcast", "Identity", "Slice", "Transpose", "Concat"})


def limits(d: DType) -> Interval:
    """Return the smallest and largest number of an integer dtype or bool."""
    if d.kind in "bm":
        return 0, 1
    return (
        (-(1 << (d.bits - 1)), (1 << (d.bits - 1)) - 1) if d.kind == "i" else (0, (1 << d.bits) - 1)
    )


class Ranges:
    """Closed intervals that contain all elements, for every value of the symbols; integers and bools only."""

    def __init__(self, graph: FusionGraph) -> None:
        self.graph = graph
        self.symbols = graph.symbol_ranges()
        self._of: dict[str, Interval] = {}
        for name in graph.inputs:
            self._enter(name, None)
        for n in graph.nodes:
            rule = _RULES.get(n.op)
            try:
                made = None if rule is None else rule(self, n, [self.of(n, x) for x in n.inputs])
            except (ExprError, _NoRangeError):
                made = None
            for name in n.outputs:
                self._enter(name, made)

    def _enter(self, name: str, made: Interval | None) -> None:
        d = self.graph.tensors[name].dtype
        if d.kind not in "iub":
            return
        low, high = limits(d)
        # Values beyond the dtype wrap and may become anything.
        inside = made is not None and low <= made[0] <= made[1] <= high
        self._of[name] = made if inside and made is not None else (low, high)

    def of(self, n: FusionNode, x: Operand) -> Interval | None:
        """Return the interval of an operand of ``n``; None for floats."""
        if isinstance(x, str):
            return self._of.get(x)
        operands = [self.graph.tensors[o] if isinstance(o, str) else o for o in n.inputs]
        at = next(i for i, o in enumerate(n.inputs) if o is x)
        return self.constant(x, operand_dtypes(operands)[at])

    def constant(self, c: Constant, d: DType) -> Interval | None:
        """Return the interval of a constant of dtype ``d``; None for floats."""
        if d.kind not in "iub":
            return None
        if c.expr is None:
            return int(c.value), int(c.value)
        try:
            return self.size(c.expr)
        except ExprError:
            return limits(d)

    def tensor(self, name: str) -> Interval | None:
        """Return the interval of a tensor; None for floats."""
        return self._of.get(name)

    def size(self, e: Expr) -> Interval:
        """Return the bounds of a size."""
        return bounds(e, self.symbols)

    def reduced(self, n: FusionNode) -> Interval:
        """Return the bounds of the number of elements per result of a ReduceX, CumSum or ArgX."""
        x = n.inputs[0]
        shape = self.graph.tensors[x].shape if isinstance(x, str) else ()
        attrs: Mapping[str, Any] = n.attrs
        axes: Sequence[int] = (attrs["axis"],) if "axis" in attrs else attrs.get("axes", ())
        return self.size(product(shape[a] for a in reduced_axes(axes, len(shape))))


class _NoRangeError(Exception):
    """An operand is not an integer."""


_Rule: TypeAlias = Callable[[Ranges, FusionNode, list[Interval | None]], Interval | None]


def _whole(xs: Sequence[Interval | None]) -> list[Interval]:
    out = [x for x in xs if x is not None]
    if len(out) < len(xs):
        raise _NoRangeError
    return out


def _of(fn: Callable[..., Interval]) -> _Rule:
    """Return a rule that needs only the operands' intervals."""
    return lambda r, n, xs: fn(*_whole(xs))


def _mul(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _union(*xs: Interval) -> Interval:
    return min(x[0] for x in xs), max(x[1] for x in xs)


def _abs(a: Interval) -> Interval:
    low = 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return low, max(abs(a[0]), abs(a[1]))


def _sign(a: Interval) -> Interval:
    return (a[0] > 0) - (a[0] < 0), (a[1] > 0) - (a[1] < 0)


def _maximum(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def _minimum(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def _add(*xs: Interval) -> Interval:
    return sum(x[0] for x in xs), sum(x[1] for x in xs)


def _quotient(a: Interval, b: Interval) -> Interval:
    """Return the interval of a quotient under any rounding; division by 0 gives 0."""
    if a[0] >= 0 and b[0] >= 1:
        return a[0] // b[1], a[1] // b[0]
    most = max(abs(a[0]), abs(a[1]))
    return -most, most


def _remainder(a: Interval, b: Interval) -> Interval:
    """Return the interval of a remainder under any sign rule: below the divisor; at most a nonnegative dividend."""
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(most, a[1])
    return (0, most) if b[0] >= 1 and a[0] >= 0 else (-most, most)


def _iota(r: Ranges, n: FusionNode, xs: list[Interval | None]) -> Interval:
    attrs: Mapping[str, Any] = n.attrs
    shape = attrs["shape"]
    start, step = attrs.get("start", 0), attrs.get("step", 1)
    last = start + step * max(r.size(shape[attrs["axis"] % len(shape)])[1] - 1, 0)
    return min(start, last), max(start, last)


def _cast(r: Ranges, n: FusionNode, xs: list[Interval | None]) -> Interval | None:
    to = r.graph.tensors[n.outputs[0]].dtype
    if xs[0] is None or to.kind == "b":
        return None
    return xs[0]


def _pad(r: Ranges, n: FusionNode, xs: list[Interval | None]) -> Interval:
    attrs: Mapping[str, Any] = n.attrs
    value = int(attrs.get("value", 0))
    return _union(*_whole(xs), (value, value))


def _sum(r: Ranges, n: FusionNode, xs: list[Interval | None]) -> Interval:
    (x,) = _whole(xs)
    most = r.reduced(n)[1]
    return min(x[0], 0) * most, max(x[1], 0) * most


def _extreme(r: Ranges, n: FusionNode, xs: list[Interval | None]) -> Interval | None:
    # For no elements it is an end of the dtype.
    return xs[0] if r.reduced(n)[0] >= 1 else None


def _arg(r: Ranges, n: FusionNode, xs: list[Interval | None]) -> Interval:
    return 0, max(r.reduced(n)[1] - 1, 0)


_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(MOVES, _of(_union)),
    "Pad": _pad,
    "Gather": lambda r, n, xs: xs[0],
    "GatherElements": lambda r, n, xs: xs[0],
    "Iota": _iota,
    "Cast": _cast,
    "Add": _of(_add),
    "AddN": _of(_add),
    "Sub": _of(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "Mul": _of(_mul),
    "Square": _of(lambda a: (_abs(a)[0] ** 2, _abs(a)[1] ** 2)),
    "Neg": _of(lambda a: (-a[1], -a[0])),
    "Abs": _of(_abs),
    "Sign": _of(_sign),
    "Relu": _of(lambda a: _maximum(a, (0, 0))),
    "Maximum": _of(_maximum),
    "Minimum": _of(_minimum),
    "ClipByValue": _of(lambda x, low, high: _minimum(_maximum(x, low), high)),
    "Select": lambda r, n, xs: _union(*_whole(xs[1:])),
    "MaskedFill": lambda r, n, xs: _union(*_whole([xs[0], xs[2]])),
    "FloorDiv": _of(_quotient),
    "TruncDiv": _of(_quotient),
    "Remainder": _of(_remainder),
    "Fmod": _of(_remainder),
    "Mod": _of(_remainder),
    "ReduceSum": _sum,
    "CumSum": _sum,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "ArgMax": _arg,
    "ArgMin": _arg,
}
