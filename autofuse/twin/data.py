"""Random inputs that exercise a graph: mostly finite results, some ties, zeros and extremes.

The stream of numbers of an input depends on the seed and the input's name only.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.dtypes import DType, numpy_dtype
from autofuse.implgraph.fusion import Constant, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ops import lookup
from autofuse.twin.oracle import shape_of

__all__ = [
    "POISON",
    "buffer_extent",
    "poisoned",
    "positive_inputs",
    "random_inputs",
    "strided_copy",
]

Array: TypeAlias = npt.NDArray[Any]

#: Byte patterns of memory that nobody has written; an element is unwritten if it shows the pattern
#: of each of two runs.
POISON = (0xFF, 0x7F)

_TIE_RATE = 0.08
_EXTREME_RATE = 0.004
_PROBE = np.array([1e-3, 0.25, 0.75, 1.0, 1.5, 3.0, 40.0])


def random_inputs(
    graph: FusionGraph, symbols: Mapping[str, int], seed: int, *, special: bool = False
) -> dict[str, Array]:
    """A fresh array per input; strided inputs are views into a poisoned buffer.

    Args:
        graph: whose inputs.
        symbols: a value per symbol.
        seed: makes the result reproducible.
        special: mix infinities, NaN, negative zero, subnormal and huge numbers into the floats.
    """
    positive = positive_inputs(graph)
    out: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        rng = np.random.Generator(np.random.SFC64([seed, zlib.crc32(name.encode())]))
        shape = shape_of(tensor.shape, symbols)
        data = _values(rng, tensor.dtype, int(np.prod(shape, dtype=np.int64)), name in positive)
        if special and tensor.dtype.kind == "f":
            _mix_special(rng, data)
        data = data.reshape(shape)
        out[name] = (
            data
            if tensor.strides is None and tensor.offset is None
            else strided_copy(data, tensor, symbols)
        )
    return out


# values ---------------------------------------------------------------------------------------


def _values(rng: np.random.Generator, dtype: DType, n: int, positive: bool) -> Array:
    np_type = numpy_dtype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, n, dtype=np.uint8).astype(np.bool_))
    if dtype.kind in "iu":
        return _integers(rng, np_type, n)
    # Magnitudes from 1/8 to 8, spread evenly over the exponents.
    x = np.exp2(rng.random(n, dtype=np.float32) * np.float32(6.0) - np.float32(3.0))
    if not positive:
        x[rng.random(n, dtype=np.float32) < 0.5] *= np.float32(-1.0)
    # Ties: equal numbers in different inputs, zeros, ones, halves.
    at = rng.random(n, dtype=np.float32) < _TIE_RATE
    grid = rng.integers(1 if positive else -6, 7, int(np.count_nonzero(at)))
    x[at] = grid.astype(np.float32) * np.float32(0.5)
    return np.asarray(x.astype(np_type))


def _integers(rng: np.random.Generator, np_type: np.dtype[Any], n: int) -> Array:
    limits = np.iinfo(np_type)
    low = max(int(limits.min), -100)
    x = rng.integers(low, min(int(limits.max), 100), n, endpoint=True).astype(np_type)
    at = rng.random(n, dtype=np.float32) < _EXTREME_RATE
    choice = np.array([limits.min, limits.max, limits.max - 1, limits.min + 1, 0, 1], dtype=np_type)
    x[at] = rng.choice(choice, int(np.count_nonzero(at)))
    return np.asarray(x)


def _mix_special(rng: np.random.Generator, x: Array) -> None:
    at = rng.random(x.size, dtype=np.float32) < 0.02
    huge = float(np.finfo(np.float16).max) if x.dtype == np.float16 else 3.0e38
    tiny = 2.0**-24 if x.dtype == np.float16 else 2.0**-133
    choice = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, tiny, -tiny, huge, -huge]).astype(
        x.dtype
    )
    x[at] = choice[rng.integers(0, choice.size, int(np.count_nonzero(at)))]


# memory ---------------------------------------------------------------------------------------


def poisoned(shape: tuple[int, ...], np_type: np.dtype[Any], pattern: int = POISON[0]) -> Array:
    """An array of which every byte is ``pattern``."""
    n = int(np.prod(shape, dtype=np.int64)) * np_type.itemsize
    return np.full(n, pattern, np.uint8).view(np_type).reshape(shape)


def buffer_extent(tensor: Tensor, symbols: Mapping[str, int]) -> tuple[int, tuple[int, ...], int]:
    """Offset, strides, and length from the start of the buffer, all in elements."""
    shape = shape_of(tensor.shape, symbols)
    offset = tensor.offset.evaluate(symbols) if tensor.offset is not None else 0
    if tensor.strides is None:
        strides = tuple(int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape)))
    else:
        strides = tuple(s.evaluate(symbols) for s in tensor.strides)
    if 0 in shape:
        return offset, strides, offset
    return (
        offset,
        strides,
        offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1,
    )


def strided_copy(data: Array, tensor: Tensor, symbols: Mapping[str, int]) -> Array:
    """``data`` with the tensor's strides and offset, in a buffer that is poison elsewhere."""
    offset, strides, extent = buffer_extent(tensor, symbols)
    base = poisoned((extent,), data.dtype)
    byte_strides = tuple(s * data.itemsize for s in strides)
    view: Array = np.lib.stride_tricks.as_strided(
        base[offset:], shape=data.shape, strides=byte_strides, writeable=True
    )
    view[...] = data
    return view


# domains --------------------------------------------------------------------------------------


def positive_inputs(graph: FusionGraph) -> frozenset[str]:
    """Inputs that must be positive so that no op leaves its domain.

    The domain comes from the op's reference: it is tried on a negative number.  The demand passes
    backwards through ops that give positive results for positive operands, and ends at ops that are
    positive anyway.
    """
    need: set[str] = set()
    for node in reversed(graph.nodes):
        tensors = [x for x in node.inputs if isinstance(x, str)]
        if not tensors or any(graph.tensors[t].dtype.kind != "f" for t in tensors):
            continue
        moves = lookup(node.op).compute_type not in ("elewise", "composite")
        if set(node.outputs) & need and (
            moves or (_try(node, "positive") and not _try(node, "anything"))
        ):
            need.update(tensors)
        if moves:
            continue
        first = node.inputs[0]
        if isinstance(first, str) and not _defined_below_zero(node):
            need.add(first)
    return frozenset(need & set(graph.inputs))


def _probe(node: FusionNode, first: Array, others: Array) -> Array:
    """The reference of the node on a few numbers; constants keep their value."""
    row = lookup(node.op)
    if row.reference is None:
        return first
    xs = [
        np.full(first.shape, float(x.value))
        if isinstance(x, Constant)
        else first
        if i == 0
        else others
        for i, x in enumerate(node.inputs)
    ]
    with np.errstate(all="ignore"):
        try:
            return np.asarray(row.reference(xs, node.attrs), dtype=np.float64)
        except (TypeError, ValueError, IndexError):
            return np.full(1, np.nan)


def _try(node: FusionNode, kind: str) -> bool:
    """Whether the results are positive for positive operands, or for any."""
    if kind == "positive":
        sets = [(_PROBE, _PROBE), (_PROBE, _PROBE[::-1])]
    else:
        sets = [(-_PROBE, _PROBE), (_PROBE, -_PROBE), (-_PROBE, -_PROBE)]
    return all(bool(np.all(_probe(node, a, b) > 0)) for a, b in sets)


def _defined_below_zero(node: FusionNode) -> bool:
    """False if the first operand must not be negative (roots, logarithms, powers)."""
    below = _probe(node, -_PROBE, np.full(_PROBE.shape, 0.5))
    above = _probe(node, _PROBE, np.full(_PROBE.shape, 0.5))
    return bool(np.all(np.isfinite(below) | ~np.isfinite(above)))
