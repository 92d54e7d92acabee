"""Rewrites gathers whose index follows from the graph alone to concatenated slices.

A roll, a reflected border, a reversal or a repetition, written as arithmetic on an Iota, has a known index: the
references of the rows give its values.  Cut into runs of equal steps, the gather is a Concat of Slices, which needs no
index in UB, no address per element, and no data in GM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Constant, FusionNode, Operand, Tensor
from autofuse.implgraph.ops.infer import operand_dtypes
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.movement import inside
from autofuse.implgraph.rewrites.interpret import apply

__all__ = ["MAX_RUNS", "Run", "known_gather", "runs_of"]

Array = Any

#: Maximum elements of an index that are computed at build time.
MAX_ELEMENTS = 1 << 16
#: Maximum runs of an index: each is a separate group.
MAX_RUNS = 8


class Builder(Protocol):
    """The rewriter interface used here; operands are tensor names."""

    tensors: dict[str, Tensor]
    makers: dict[str, FusionNode]
    ranges: dict[str, tuple[int, int]]

    def emit(self, op: str, inputs: Sequence[Operand], **attrs: Any) -> str:
        """Add a node with a new result, and return its name."""


@frozen
class Run:
    """``count`` positions ``start``, ``start + step``, ..."""

    start: int
    count: int
    step: int


def known_gather(r: Builder, x: str, index: str, axis: int) -> str | None:
    """Build the result of a Gather from Slices; dimension ``axis`` of the result is the flattened index.

    Args:
        r: receives the new nodes; none if this returns None.
        x: the data.
        index: the positions.
        axis: the indexed dimension of the data.

    Returns:
        None if the index depends on more than constants and known sizes, holds positions that depend on the sizes of a
        call, or has more than :data:`MAX_RUNS` runs.
    """
    extent = r.tensors[x].shape[axis]
    at = _values(r, index)
    if at is None or at.size == 0 or extent == ZERO:
        return None
    at = np.asarray(at, dtype=np.int64).reshape(-1)
    if extent.is_const:
        at = inside(at, extent.value)
    elif at.min() < 0 or at.max() >= bounds(extent, r.ranges)[0]:
        return None  # the size decides which positions wrap or are clamped
    each = _equal_neighbours(at)
    whole = _period(at)
    runs = runs_of(at)
    for line, before in ((at[::each], False), (at[:whole], True)):
        if line.size == at.size:
            continue
        fewer = runs_of(line)
        if fewer is not None and (runs is None or len(fewer) < len(runs)):
            one = _joined(r, x, axis, fewer)
            return _repeated(r, one, axis, at.size // line.size, before)
    return None if runs is None else _joined(r, x, axis, runs)


# values ---------------------------------------------------------------------------------------


def _values(r: Builder, x: Operand) -> Array | None:
    """Compute the elements of a tensor by the references of its ops; None if it depends on an input."""
    found: dict[str, Array | None] = {}
    todo = [x] if isinstance(x, str) else []
    while todo:
        name = todo[-1]
        if name in found:
            todo.pop()
            continue
        maker = r.makers.get(name)
        shape = r.tensors[name].shape
        if maker is None or not _is_small(shape) or lookup(maker.op).reference is None:
            return None
        missing = [i for i in maker.inputs if isinstance(i, str) and i not in found]
        if missing:
            todo += missing
            continue
        found[name] = _value(r, maker, found)
        todo.pop()
    return found.get(x) if isinstance(x, str) else None


def _is_small(shape: Sequence[Expr]) -> bool:
    """Return True if a tensor has few elements, and their number is known."""
    count = 1
    for s in shape:
        if not s.is_const:
            return False
        count *= s.value
    return count <= MAX_ELEMENTS


def _value(r: Builder, n: FusionNode, found: Mapping[str, Array | None]) -> Array | None:
    given = [r.tensors[i] if isinstance(i, str) else i for i in n.inputs]
    operands: list[Array] = []
    for i, dtype in zip(n.inputs, operand_dtypes(given), strict=True):
        if not isinstance(i, Constant):
            operands.append(found[i])
        elif i.expr is not None:
            return None
        else:
            operands.append(np.asarray(i.value).astype(numpy_dtype(dtype)))
    result = r.tensors[n.outputs[0]]
    shape = tuple(s.value for s in result.shape)
    if n.op == "Broadcast":
        return np.broadcast_to(operands[0], shape)
    if n.op in ("Reshape", "Identity"):
        return operands[0].reshape(shape)
    return apply(n.op, operands, n.attrs, result.dtype)


# runs -----------------------------------------------------------------------------------------


def runs_of(at: Array) -> tuple[Run, ...] | None:
    """Split a line of positions into runs of equal steps; None if it has more than :data:`MAX_RUNS`.

    A position that ends one run and could begin the next goes to the longer one, so that the middle of a reflected or
    repeated border covers its whole dimension.
    """
    steps = np.diff(at)
    # ends[k]: the last position of the k-th stretch of equal steps; the next stretch begins there.
    ends = [*(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(at) - 1]
    if len(ends) > 4 * MAX_RUNS:
        return None
    runs: list[Run] = []
    first, k = 0, 0
    while first < len(at):
        while ends[k] < first or (ends[k] == first and k + 1 < len(ends)):
            k += 1
        last = ends[k]
        if k + 1 < len(ends) and ends[k + 1] - last > last - first:
            last -= 1
        count = last - first + 1
        runs.append(Run(int(at[first]), count, int(steps[first]) if count > 1 else 1))
        first = last + 1
    return tuple(runs) if len(runs) <= MAX_RUNS else None


def _equal_neighbours(at: Array) -> int:
    """Return the maximum number of consecutive repeats shared by all positions of a line."""
    changes = np.flatnonzero(np.diff(at)) + 1
    return int(np.gcd.reduce([at.size, *changes.tolist()]))


def _period(at: Array) -> int:
    """Return the period of a line; its length if it is not periodic."""
    size = at.size
    again = [p for p in np.flatnonzero(at == at[0]).tolist() if p and size % p == 0]
    return next((p for p in again if (at.reshape(-1, p) == at[:p]).all()), size)


# nodes ----------------------------------------------------------------------------------------


def _joined(r: Builder, x: str, axis: int, runs: Sequence[Run]) -> str:
    """Return the concatenated runs of a dimension."""
    pieces = [_run(r, x, axis, run) for run in runs]
    return pieces[0] if len(pieces) == 1 else r.emit("Concat", pieces, axis=axis)


def _run(r: Builder, x: str, axis: int, run: Run) -> str:
    """Return the elements of one run."""
    shape = r.tensors[x].shape
    once = run.step == 0
    if run == Run(0, run.count, 1) and shape[axis] == run.count:
        return x
    starts = tuple(const(run.start) if d == axis else ZERO for d in range(len(shape)))
    part = (*shape[:axis], ONE if once else const(run.count), *shape[axis + 1 :])
    steps = tuple(run.step if d == axis and not once else 1 for d in range(len(shape)))
    piece = r.emit("Slice", [x], starts=starts, shape=part, steps=steps)
    if not once:
        return piece
    wide = (*shape[:axis], const(run.count), *shape[axis + 1 :])
    return r.emit("Broadcast", [piece], shape=wide)


def _repeated(r: Builder, x: str, axis: int, times: int, before: bool) -> str:
    """Repeat every element of a dimension, or the whole line (``before``), several times."""
    shape = r.tensors[x].shape
    at = axis if before else axis + 1
    thin = r.emit("Reshape", [x], shape=(*shape[:at], ONE, *shape[at:]))
    wide = r.emit("Broadcast", [thin], shape=(*shape[:at], const(times), *shape[at:]))
    long = (*shape[:axis], shape[axis] * times, *shape[axis + 1 :])
    return r.emit("Reshape", [wide], shape=long)
