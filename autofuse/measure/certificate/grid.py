"""A structured grid of values per dtype, for measuring the accuracy of a kernel.

Unlike random data a grid has rare values: neighbours of powers of two, subnormal numbers, both zeros, the ends of the
range. The values of the first input vary fastest, those of the next one advance once per cycle of the first, and so on,
so that two inputs form all pairs if there are enough elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.data import (
    divisors,
    indexing_inputs,
    positive_inputs,
    random_inputs,
    strided_copy,
)
from autofuse.machines.twin.oracle.indices import computed_places
from autofuse.machines.twin.oracle.oracle import shape_of

__all__ = ["GRIDS", "grid_inputs", "grid_values"]

Array: TypeAlias = npt.NDArray[Any]

#: Name -> contents.
GRIDS = {
    "ordinary": "both signs of 2^-12 to 2^12, times 1, 1.25, 1.5 and the neighbours of 1 and 2; zeros",
    "range": "over the range of the dtype: subnormal numbers, both ends, zeros, infinities, NaN",
}
_ORDINARY = 12


def grid_values(dtype: DType, grid: str) -> Array:
    """Return the distinct values of one grid for a dtype, in a fixed order.

    Args:
        dtype: dtype of an input.
        grid: a key of :data:`GRIDS`.
    """
    kind = numpy_dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        return _integers(kind, grid)
    info: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    low, high = -_ORDINARY, _ORDINARY
    if grid == "range":
        low, high = int(info.minexp), int(info.maxexp) - 1
    eps = float(info.eps)
    mantissas = [1.0, 1.0 + eps, 1.25, 1.5, 2.0 - eps]
    step = 1 if high - low < 64 else 7
    exponents = [*range(low, high, step), high]
    positive = [m * 2.0**e for e in exponents for m in mantissas]
    if grid == "range":
        tiny = float(info.smallest_subnormal)
        positive += [tiny, 3 * tiny, float(info.smallest_normal) - tiny]
    with np.errstate(over="ignore"):
        found = np.array([0.0, -0.0, *positive, *(-x for x in positive)]).astype(kind)
    if grid == "range":
        found = np.concatenate([found, np.array([np.inf, -np.inf, np.nan]).astype(kind)])
    return found


def _integers(kind: np.dtype[Any], grid: str) -> Array:
    limits = np.iinfo(kind)
    if grid == "ordinary":
        return np.arange(max(int(limits.min), -32), 33).astype(kind)
    powers = [1 << k for k in range(int(limits.bits) - 1)]
    wanted = {0, *powers, *(p - 1 for p in powers), int(limits.max), int(limits.min)}
    wanted |= {-p for p in powers} if limits.min < 0 else set()
    return np.array(sorted(w for w in wanted if limits.min <= w <= limits.max), dtype=kind)


def grid_inputs(
    graph: FusionGraph, symbols: Mapping[str, int], grid: str, seed: int
) -> dict[str, Array]:
    """Return an array per input, filled with the values of a grid.

    If an op needs positive or nonzero numbers, the grid has no others. Index inputs, and inputs that indices are
    computed from, stay random.

    Args:
        graph: the graph.
        symbols: a value per symbol.
        grid: a key of :data:`GRIDS`.
        seed: seed of the indices.
    """
    positive, nonzero = positive_inputs(graph), divisors(graph)
    indices = {*indexing_inputs(graph), *computed_places(graph)}
    out = random_inputs(graph, symbols, seed)
    below = 1
    for name in graph.inputs:
        if name in indices:
            continue
        tensor = graph.tensors[name]
        values = grid_values(tensor.dtype, grid)
        if name in positive:
            values = values[values > 0]
        elif name in nonzero:
            values = values[values != 0]
        shape = shape_of(tensor.shape, symbols)
        count = int(np.prod(shape, dtype=np.int64))
        at = (np.arange(count) // below + np.arange(count) // (below * values.size)) % values.size
        below *= values.size if below * values.size <= max(count, 1) else 1
        data = values[at].reshape(shape)
        plain = tensor.strides is None and tensor.offset is None
        out[name] = data if plain else strided_copy(data, tensor, symbols)
    return out
