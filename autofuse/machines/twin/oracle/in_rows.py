"""References of large tensors, a few rows at a time so that intermediate results stay in the caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autofuse.machines.twin.oracle.rounding import Array, Value, widened

__all__ = ["in_rows"]

#: Elements of a block of rows.
_BLOCK = 1 << 17


def in_rows(
    compute: Callable[[Sequence[Value]], Value], operands: Sequence[Value], rank: int
) -> Value:
    """Return the result of ``compute``, assembled from blocks of rows.

    Args:
        compute: a row of its result, along axis 0, depends only on that row of the operands; its arguments are wide
            (:func:`~autofuse.machines.twin.oracle.rounding.widen`).
        operands: wide or not; those of lower rank, or of one row, belong to every row.
        rank: rank of the operands after broadcasting.
    """
    sizes = [o.data.size for o in operands]
    rows = max((o.data.shape[0] for o in operands if o.data.ndim == rank > 0), default=1)
    if rows < 2 or max(sizes) <= 2 * _BLOCK:
        return compute([widened(o) for o in operands])
    step = max(_BLOCK * rows // max(sizes), 1)
    data: Array | None = None
    error: Array | None = None
    for start in range(0, rows, step):
        part = slice(start, start + step)
        found = compute([_part(o, rank, part) for o in operands])
        if data is None:
            data = np.empty((rows, *found.data.shape[1:]), found.data.dtype)
        data[part] = found.data
        if found.error is None:
            continue
        if error is None:  # rows without an error get zeros if other rows have one
            error = np.zeros((rows, *found.error.shape[1:]), found.error.dtype)
        error[part] = found.error
    assert data is not None
    return Value(data, error)


def _part(x: Value, rank: int, part: slice) -> Value:
    if x.data.ndim < rank or x.data.shape[0] == 1:
        return widened(x)
    return widened(Value(x.data[part], None if x.error is None else x.error[part]))
