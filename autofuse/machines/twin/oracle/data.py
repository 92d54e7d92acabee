"""Random inputs that exercise a graph: mostly finite results, some ties, zeros and extremes.

The stream of numbers of an input depends on the seed and the input's name only.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.oracle.indices import bring_inside, indexing_inputs, rounded_places
from autofuse.machines.twin.oracle.oracle import largest, shape_of

__all__ = [
    "POISON",
    "buffer_extent",
    "divisors",
    "indexing_inputs",
    "narrows_floats",
    "poisoned",
    "positive_inputs",
    "random_inputs",
    "strided_buffer",
    "strided_copy",
]

Array: TypeAlias = npt.NDArray[Any]

#: Byte patterns of unwritten memory; an element is unwritten if it shows the pattern of each of two runs.
POISON = (0xFF, 0x7F)

_TIE_RATE = 0.08
_EXTREME_RATE = 0.004
#: Binades of the magnitudes, mantissa bits, and the bit pattern of the smallest magnitude.
_BINADES, _MANTISSA = 6, 23
_FIRST_BITS = (127 - 3) << _MANTISSA
#: Bytes of a true bool: all but 0 are true, and callers pass others than 1.
_TRUE = np.array([1, 1, 2, 128, 255], np.uint8)
#: Elements per special value in a tensor that contains all of them.
_ROOM = 5
#: Replacement for a divisor of 0.
_FOR_ZERO = 0.5
_PROBE = np.array([1e-3, 0.25, 0.75, 1.0, 1.5, 3.0, 40.0])


def random_inputs(
    graph: FusionGraph,
    symbols: Mapping[str, int],
    seed: int,
    *,
    special: bool = False,
    given: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Return a fresh array per input; strided inputs are views into a poisoned buffer.

    Indices are in bounds, whether an input holds them or they are computed from it.

    Args:
        graph: the graph.
        symbols: a value per symbol.
        seed: makes the result reproducible.
        special: mix infinities, NaN, negative zero, subnormal and huge numbers into the floats, and give true bools
            other bytes than 1.
        given: arrays of inputs that are not random; they are returned unchanged.
    """
    positive, nonzero = positive_inputs(graph), divisors(graph)
    extents, rounded = indexing_inputs(graph), rounded_places(graph)
    out: dict[str, Array] = {}
    given = given or {}
    for name in graph.inputs:
        if name in given:
            out[name] = given[name]
            continue
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
        if special and tensor.dtype.kind == "f" and name not in rounded:
            _mix_special(rng, data, tensor.dtype)
        elif special and tensor.dtype.kind == "b":
            data = (data * rng.choice(_TRUE, data.size)).view(np.bool_)
        data = data.reshape(shape)
        out[name] = (
            data
            if tensor.strides is None and tensor.offset is None
            else strided_copy(data, tensor, symbols)
        )

    def fitting(name: str, x: Array) -> Array:
        x = np.abs(x) if name in positive else x
        return np.where(x == 0, x.dtype.type(_FOR_ZERO), x) if name in nonzero else x

    bring_inside(graph, out, symbols, seed, fixed=given, fitting=fitting)
    return out


# values ---------------------------------------------------------------------------------------


def _values(rng: np.random.Generator, dtype: DType, n: int, positive: bool) -> Array:
    np_type = numpy_dtype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, n, dtype=np.uint8).astype(np.bool_))
    if dtype.kind in "iu":
        return _integers(rng, np_type, n)
    # Magnitudes from 1/8 to 8, uniform over the exponents and within each binade: the bits of a number are linear in
    # its exponent. ``exp2`` would differ in the last bit between CPUs.
    # In place: the random numbers of a large tensor are as large as the tensor.
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


def _mix_special(rng: np.random.Generator, x: Array, dtype: DType) -> None:
    """Put special values at random places: a few per cent, and each at least once if there is room."""
    top = largest(dtype)
    tiny = 2.0**-24 if x.dtype == np.float16 else 2.0**-133
    values = [np.inf, -np.inf, np.nan, -0.0, 0.0, tiny, -tiny, top, -top]
    choice = np.array(values).astype(x.dtype)
    at = rng.random(x.size, dtype=np.float32) < 0.02
    x[at] = choice[rng.integers(0, choice.size, int(np.count_nonzero(at)))]
    if x.size >= _ROOM * choice.size:
        x[rng.permutation(x.size)[: choice.size]] = choice


def _indices(
    rng: np.random.Generator,
    tensor: Tensor,
    shape: tuple[int, ...],
    extent: int,
    symbols: Mapping[str, int],
) -> Array:
    """Return indices along a dimension, counted from either end; both ends are included if there is room."""
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
    """Return an array whose bytes all are ``pattern``."""
    n = int(np.prod(shape, dtype=np.int64)) * np_type.itemsize
    return np.full(n, pattern, np.uint8).view(np_type).reshape(shape)


def buffer_extent(tensor: Tensor, symbols: Mapping[str, int]) -> tuple[int, tuple[int, ...], int]:
    """Return offset, strides, and length from the start of the buffer, all in elements."""
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
    """Return ``data`` with the tensor's strides and offset, in a buffer that is poison elsewhere."""
    return strided_buffer(data, tensor, symbols)[1]


def strided_buffer(data: Array, tensor: Tensor, symbols: Mapping[str, int]) -> tuple[Array, Array]:
    """Return the whole buffer of :func:`strided_copy`, flat, and the view of it that holds ``data``."""
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
    """Return the inputs that must be positive so that no op leaves its domain.

    The domain is found by evaluating the op's reference on a negative number. The requirement propagates backwards
    through ops that give positive results for positive operands, and ends at ops that are always positive.
    """
    need: set[str] = set()
    for node in reversed(graph.nodes):
        # A condition or an index operand has no such requirement.
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
    """Return the inputs that make many results infinite or NaN where they are 0; they are drawn nonzero.

    An operand is a divisor if the op's reference is not finite at 0 and finite nearby, or if the op maps 0 to 0 and its
    result is a divisor. A zero divisor of many elements, or of quotients that are reduced, would leave a result that
    agrees with any error. Quotients that are not combined keep their share of zeros.
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


def narrows_floats(graph: FusionGraph) -> bool:
    """Return True if some cast gives a dtype that lacks the infinities, NaN or large numbers of its operand."""
    casts = (n for n in graph.nodes if n.op == "Cast" and _floats(graph, n))
    pairs = (
        (graph.tensors[_floats(graph, n)[0]].dtype, graph.tensors[n.outputs[0]].dtype)
        for n in casts
    )
    return any(to is not source and to.name != "float32" and to.kind != "b" for source, to in pairs)


def _floats(graph: FusionGraph, node: FusionNode) -> list[str]:
    return [x for x in node.inputs if isinstance(x, str) and graph.tensors[x].dtype.kind == "f"]


def _probe(node: FusionNode, first: Array, others: Array) -> Array:
    """Evaluate the reference of the node on a few numbers; constants keep their value."""
    if lookup(node.op).reference is None:
        return first
    return _referred(node, [first if i == 0 else others for i in range(len(node.inputs))])


def _referred(node: FusionNode, operands: Sequence[Array]) -> Array:
    """Evaluate the reference of the node for these operands and its constants; NaN if it has none or refuses them."""
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
    """Evaluate the reference of the node where one operand is 0 (or close to it) and the others are not."""
    at = np.full(_PROBE.shape, beside)
    return _referred(node, [at if i == place else _PROBE for i in range(len(node.inputs))])


def _divides(node: FusionNode, place: int) -> bool:
    """Return True if the result is finite for small numbers, but not for 0."""
    at_zero, beside = _with_zero(node, place), _with_zero(node, place, 0.125)
    return bool(np.all(np.isfinite(beside)) and not np.isfinite(at_zero).any())


def _is_zero_at_zero(node: FusionNode, place: int) -> bool:
    return bool(np.all(_with_zero(node, place) == 0))


def _try(node: FusionNode, kind: str) -> bool:
    """Return True if all probed results are positive: for positive operands, or (other kinds) for negative ones."""
    if kind == "positive":
        sets = [(_PROBE, _PROBE), (_PROBE, _PROBE[::-1])]
    else:
        sets = [(-_PROBE, _PROBE), (_PROBE, -_PROBE), (-_PROBE, -_PROBE)]
    return all(bool(np.all(_probe(node, a, b) > 0)) for a, b in sets)


def _defined_below_zero(node: FusionNode) -> bool:
    """Return False if the first operand must not be negative (roots, logarithms, powers)."""
    below = _probe(node, -_PROBE, np.full(_PROBE.shape, 0.5))
    above = _probe(node, _PROBE, np.full(_PROBE.shape, 0.5))
    return bool(np.all(np.isfinite(below) | ~np.isfinite(above)))
