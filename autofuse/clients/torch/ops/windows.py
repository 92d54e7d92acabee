"""Pooling: each window element is a strided slice of the padded tensor, and the slices are combined.

A kernel loads the interior with masks.  Without masks, padding costs more than PyTorch's own op.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from autofuse.clients.torch.emit import FLOAT32, Value
from autofuse.clients.torch.ops.row import Call, dtype_of, row
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.sizes import Shape
from autofuse.implgraph.expr.expression import Expr, const

#: Maximum elements of a window: a kernel has a statement for each, and neighbours share loads only through L1.
_MOST = 32


class _Windows:
    """The windows of a node along the last dimensions of its operand, whose sizes are all known.

    Args:
        c: the node.
        dims: number of dimensions of a window.
        dilated: the fifth argument is the dilation.

    Raises:
        RefusedError: a size is known only at run time, or a window has too many elements.
    """

    def __init__(self, c: Call, dims: int, *, dilated: bool) -> None:
        self.c, self.rank = c, len(c.x().shape)
        self.axes = range(self.rank - dims, self.rank)
        self.size = self._numbers(1, "kernel_size")
        self.stride = self._numbers(2, "stride") or self.size
        self.before = self._numbers(3, "padding") or [0] * dims
        self.step = (self._numbers(4, "dilation") if dilated else []) or [1] * dims
        self.given = [_known(c.x().shape[a]) for a in self.axes]
        if math.prod(self.size) > _MOST:
            raise RefusedError(f"a sliding window of more than {_MOST} elements")

    def _numbers(self, at: int, name: str) -> list[int]:
        given = self.c.arg(at, name, ())
        listed = given if isinstance(given, list | tuple) else (given,)
        found = [self.c.integer(n, f"the {name}") for n in listed]
        return found * len(self.axes) if len(found) == 1 else found

    def elements(self, x: Value, shape: Shape, border: float) -> Iterator[Value]:
        """Yield the first element of all windows, the second one, ...; ``shape`` is the result's."""
        made = [_known(shape[a]) for a in self.axes]
        low, high = [const(0)] * self.rank, [const(0)] * self.rank
        for k, a in enumerate(self.axes):
            last = (made[k] - 1) * self.stride[k] + (self.size[k] - 1) * self.step[k]
            low[a] = const(self.before[k])
            high[a] = const(max(0, last + 1 - self.before[k] - self.given[k]))
        framed = self.c.e.pad(x, low, high, border)
        steps = [1] * self.rank
        steps[self.axes[0] :] = self.stride
        for places in itertools.product(*map(range, self.size)):
            starts = [const(0)] * self.rank
            for a, place, step in zip(self.axes, places, self.step, strict=True):
                starts[a] = const(place * step)
            yield self.c.e.slice(framed, starts, shape, steps)

    def counts(self, shape: Shape, *, with_frame: bool) -> Value | int:
        """Return the number of elements per window inside the tensor or (``with_frame``) its padding as well."""
        e, total = self.c.e, None
        whole = math.prod(self.size)
        for k, a in enumerate(self.axes):
            made = _known(shape[a])
            edge = self.before[k] if with_frame else 0
            first, last = -self.before[k], (made - 1) * self.stride[k] - self.before[k]
            if first >= -edge and last + self.size[k] <= self.given[k] + edge:
                continue
            line = tuple(shape[a] if d == a else const(1) for d in range(self.rank))
            start = e.iota(line, a, FLOAT32, start=first, step=self.stride[k])
            end = e.op("Minimum", e.op("Add", start, self.size[k]), self.given[k] + edge)
            count = e.op("Sub", end, e.op("Maximum", start, -edge))
            total = count if total is None else e.op("Mul", total, count)
            whole //= self.size[k]
        return whole if total is None else e.op("Mul", total, whole)


def _known(size: Expr) -> int:
    found = size.as_int()
    if found is None:
        raise RefusedError("a size of an image is known only at run time")
    return found


def _largest(c: Call, dims: int) -> list[Value]:
    if any(n.target is operator.getitem and n.args[1] == 1 and n.users for n in c.node.users):
        raise RefusedError("a sliding window: the indices of the largest elements")
    windows, x = _Windows(c, dims, dilated=True), c.x()
    if x.dtype.kind != "f":
        raise RefusedError(f"a sliding window over {x.dtype}")
    shape = c.e.sizes.shape(c.meta[0].shape)
    found = _together(c, "Maximum", windows.elements(x, shape, -math.inf))
    # The indices are unused.
    return [found, c.e.full(shape, 0, dtype_of(c.meta[1].dtype))]


def _together(c: Call, op: str, elements: Iterator[Value]) -> Value:
    found = next(elements)
    for x in elements:
        found = c.e.op(op, found, x)
    return found


def _mean(c: Call, dims: int) -> Value:
    windows, x = _Windows(c, dims, dilated=False), c.x()
    if x.dtype.kind != "f":
        raise RefusedError(f"a sliding window over {x.dtype}")
    total = _together(c, "Add", windows.elements(c.e.cast(x, FLOAT32), c.shape, 0.0))
    divisor: Any = c.arg(6, "divisor_override")
    if divisor is not None:
        divisor = c.integer(divisor, "the divisor")
    else:
        divisor = windows.counts(c.shape, with_frame=bool(c.arg(5, "count_include_pad", True)))
    return c.e.cast(c.e.op("Div", total, divisor), x.dtype)


def _add_rows(pairs: Sequence[tuple[str, str]]) -> None:
    for dims, (largest, mean) in enumerate(pairs, start=2):
        row(f"aten.{largest}.default", masks=True)(lambda c, dims=dims: _largest(c, dims))
        row(f"aten.{mean}.default", masks=True)(lambda c, dims=dims: _mean(c, dims))


_add_rows(
    (("max_pool2d_with_indices", "avg_pool2d"), ("max_pool3d_with_indices", "avg_pool3d")),
)
