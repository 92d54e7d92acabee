"""Random inputs that exercise a graph: mostly finite results, some ties, zeros and extremes.

The stream of numbers of an input depends on the seed and the input's name only.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.expr.expression import Expr, Min
from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ops.registry import lookup
from autofuse.twin.oracle.oracle import shape_of

__all__ = [
    "POISON",
    "buffer_extent",
    "divisors",
    "indexing_inputs",
    "poisoned",
    "positive_inputs",
    "random_inputs",
    "strided_buffer",
    "strided_copy",
]

Array: TypeAlias = npt.NDArray[Any]

#: Byte patterns of memory that nobody has written; an element is unwritten if it shows the pattern
#: of each of two runs.
POISON = (0xFF, 0x7F)

#: Ops that give elements of their operands.
_MOVED = frozenset({"view", "broadcast", "transpose", "slice", "concat", "gather"})

_TIE_RATE = 0.08
_EXTREME_RATE = 0.004
#: Powers of 2 that magnitudes are spread over, bits of a mantissa, and the bits of the smallest magnitude.
_BINADES, _MANTISSA = 6, 23
_FIRST_BITS = (127 - 3) << _MANTISSA
#: What divisors are in place of 0.
_FOR_ZERO = 0.5
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
    positive, nonzero = positive_inputs(graph), divisors(graph)
    extents = indexing_inputs(graph)
    out: dict[str, Array] = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        rng = np.random.Generator(np.random.SFC64([seed, zlib.crc32(name.encode())]))
        shape = shape_of(tensor.shape, symbols)
        extent = extents.get(name)
        if extent is not None:
            out[name] = _indices(rng, tensor, shape, extent.evaluate(symbols), symbols)
            continue
        data = _values(rng, tensor.dtype, int(np.prod(shape, dtype=np.int64)), name in positive)
        if name in nonzero:
            data[data == 0] = _FOR_ZERO
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
    # Magnitudes from 1/8 to 8, spread evenly over the exponents, and evenly between two powers of 2: the bits of a
    # number are a line in its exponent.  ``exp2`` would differ in the last bit from one CPU to another.
    # In place: what is drawn for a large tensor is as large as it.
    x = rng.random(n, dtype=np.float32)
    x *= np.float32(_BINADES << _MANTISSA)
    bits = x.view(np.int32)
    np.copyto(bits, x, casting="unsafe")
    bits += _FIRST_BITS
    drawn = np.empty(n, np.float32)
    if not positive:
        rng.random(dtype=np.float32, out=drawn)
        np.negative(x, out=x, where=drawn < 0.5)
    # Ties: equal numbers in different inputs, zeros, ones, halves.
    at = rng.random(dtype=np.float32, out=drawn) < _TIE_RATE
    grid = rng.integers(1 if positive else -6, 7, int(np.count_nonzero(at)))
    x[at] = grid.astype(np.float32) * np.float32(0.5)
    return np.asarray(x.astype(np_type, copy=False))


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


def _indices(
    rng: np.random.Generator,
    tensor: Tensor,
    shape: tuple[int, ...],
    extent: int,
    symbols: Mapping[str, int],
) -> Array:
    """Places along a dimension, from either end; both ends are among them where there is room."""
    top = max(extent, 1)
    data = rng.integers(-top, top, int(np.prod(shape, dtype=np.int64)))
    ends = np.array([0, top - 1, -top, -1])
    at = rng.permutation(data.size)[: ends.size]
    data[at] = ends[: at.size]
    data = data.astype(numpy_dtype(tensor.dtype)).reshape(shape)
    plain = tensor.strides is None and tensor.offset is None
    return data if plain else strided_copy(data, tensor, symbols)


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
    return strided_buffer(data, tensor, symbols)[1]


def strided_buffer(data: Array, tensor: Tensor, symbols: Mapping[str, int]) -> tuple[Array, Array]:
    """The same as the whole buffer, flat, and the view of it that holds ``data``."""
    offset, strides, extent = buffer_extent(tensor, symbols)
    base = poisoned((extent,), data.dtype)
    byte_strides = tuple(s * data.itemsize for s in strides)
    view: Array = np.lib.stride_tricks.as_strided(
        base[offset:], shape=data.shape, strides=byte_strides, writeable=True
    )
    view[...] = data
    return base, view


# domains --------------------------------------------------------------------------------------


def positive_inputs(graph: FusionGraph) -> frozenset[str]:
    """Inputs that must be positive so that no op leaves its domain.

    The domain comes from the op's reference: it is tried on a negative number.  The demand passes
    backwards through ops that give positive results for positive operands, and ends at ops that are
    positive anyway.
    """
    need: set[str] = set()
    for node in reversed(graph.nodes):
        # A condition or an index beside them asks nothing of the numbers.
        tensors = _floats(graph, node)
        if not tensors:
            continue
        moves = lookup(node.op).compute_type not in ("elewise", "composite")
        if set(node.outputs) & need and (
            moves or (_try(node, "positive") and not _try(node, "anything"))
        ):
            need.update(tensors)
        if moves:
            continue
        first = node.inputs[0]
        if first in tensors and not _defined_below_zero(node):
            need.add(first)
    return frozenset(need & set(graph.inputs))


def divisors(graph: FusionGraph) -> frozenset[str]:
    """Inputs that make many results infinite or NaN where they are 0, and are not drawn as 0.

    An operand is a divisor if the op's reference is not finite at 0 and finite beside it, or if the op gives 0 for 0
    and its result is a divisor.  One that many elements are divided by, or whose quotients are reduced, would leave a
    result that any error agrees with.  Quotients that nothing joins keep their share of zeros.
    """
    need: set[str] = set()
    joined: set[str] = set()
    for node in reversed(graph.nodes):
        moves = lookup(node.op).compute_type not in ("elewise", "composite")
        reduces = lookup(node.op).compute_type in ("reduce", "composite")
        tensors = _floats(graph, node)
        if reduces or set(node.outputs) & joined:
            joined.update(tensors)
        size = graph.tensors[node.outputs[0]].shape
        for i, x in enumerate(node.inputs):
            if not isinstance(x, str) or x not in tensors:
                continue
            spread = graph.tensors[x].shape != size
            passes = bool(set(node.outputs) & need) and (moves or _is_zero_at_zero(node, i))
            if passes or ((spread or x in joined) and not moves and _divides(node, i)):
                need.add(x)
    return frozenset(need & set(graph.inputs))


def _floats(graph: FusionGraph, node: FusionNode) -> list[str]:
    return [x for x in node.inputs if isinstance(x, str) and graph.tensors[x].dtype.kind == "f"]


def indexing_inputs(graph: FusionGraph) -> dict[str, Expr]:
    """Inputs whose elements are places along a dimension, and the smallest such dimension.

    Followed backwards from the ops that take an index through those that only move elements; what is computed from an
    input is data like any other.
    """
    known: dict[str, Expr] = {}
    for node in reversed(graph.nodes):
        row = lookup(node.op)
        if row.compute_type == "gather":
            data, index = node.inputs
            if isinstance(data, str) and isinstance(index, str):
                shape = graph.tensors[data].shape
                extent = shape[int(node.attrs["axis"]) % len(shape)]  # type: ignore[arg-type]
                known[index] = Min(known[index], extent) if index in known else extent
        if row.compute_type not in _MOVED and not (row.name == "Cast" or row.cost == "none"):
            continue
        for name in node.outputs:
            if name in known:
                moved = node.inputs[:1] if row.compute_type == "gather" else node.inputs
                for x in moved:
                    if isinstance(x, str):
                        known[x] = Min(known[x], known[name]) if x in known else known[name]
    return {x: e for x, e in known.items() if x in graph.inputs and _is_index(graph.tensors[x])}


def _is_index(t: Tensor) -> bool:
    return t.dtype.kind in "iu"


def _probe(node: FusionNode, first: Array, others: Array) -> Array:
    """The reference of the node on a few numbers; constants keep their value."""
    if lookup(node.op).reference is None:
        return first
    return _referred(node, [first if i == 0 else others for i in range(len(node.inputs))])


def _referred(node: FusionNode, operands: Sequence[Array]) -> Array:
    """The reference of the node for these operands, constants excepted; NaN if it has none or does not take them."""
    reference = lookup(node.op).reference
    if reference is None:
        return np.full(1, np.nan)
    xs = [
        np.full(_PROBE.shape, float(x.value)) if isinstance(x, Constant) else given
        for x, given in zip(node.inputs, operands, strict=True)
    ]
    with np.errstate(all="ignore"):
        try:
            return np.asarray(reference(xs, node.attrs), dtype=np.float64)
        except (TypeError, ValueError, IndexError):
            return np.full(1, np.nan)


def _with_zero(node: FusionNode, place: int, beside: float = 0.0) -> Array:
    """The reference of the node where one operand is 0 (or beside that), and the others are not."""
    at = np.full(_PROBE.shape, beside)
    return _referred(node, [at if i == place else _PROBE for i in range(len(node.inputs))])


def _divides(node: FusionNode, place: int) -> bool:
    """The result is finite for small numbers, but not for 0."""
    at_zero, beside = _with_zero(node, place), _with_zero(node, place, 0.125)
    return bool(np.all(np.isfinite(beside)) and not np.isfinite(at_zero).any())


def _is_zero_at_zero(node: FusionNode, place: int) -> bool:
    return bool(np.all(_with_zero(node, place) == 0))


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
