"""Sizes for the accuracy and performance tests of an operator.

Accuracy tests use KernelGen's list, from one element to four dimensions.  Performance tests use shapes with as many
elements as the three cubes in the write-up of its flow, or fewer if the tensors exceed the device's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.oracle import shape_of
from autofuse.machines.twin.oracle.sizes import MAX_ELEMENTS, fitted, largest_tensor, sizes_with

__all__ = [
    "ASSUMED_MEMORY",
    "HasGraph",
    "ShapeCase",
    "accuracy_shapes",
    "accuracy_sizes",
    "performance_shapes",
    "performance_sizes",
    "test_shapes",
]

#: Bytes of device memory assumed by default.
ASSUMED_MEMORY = 16 << 30
#: Shapes of KernelGen's accuracy tests.
_ACCURACY = ((512,), (64, 128), (8, 32, 64), (2, 4, 8, 16), (1,))
#: Sides of the cubes of the performance tests.
_SIDES = (512, 1024, 2048)
#: Memory divided by this is available for the tensors: results of the reference and temporary copies must fit as well.
_SHARE = 4
#: Larger sizes are multiples of this: 16 bytes or more.
_EVEN = 8


class HasGraph(Protocol):
    """The part of a definition that determines its sizes."""

    @property
    def graph(self) -> FusionGraph:
        """The formula."""


@dataclass(frozen=True, slots=True)
class ShapeCase:
    """Sizes for one test.

    Attributes:
        use: ``accuracy`` or ``performance``.
        sizes: sizes of the graph's symbols, by identifier, in elements.
        bytes: bytes of all inputs and outputs.
        note: why the sizes differ from the list; empty if they do not.
    """

    use: str
    sizes: Mapping[str, int]
    bytes: int
    note: str = ""


def accuracy_sizes(graph: FusionGraph) -> tuple[dict[str, int], ...]:
    """Return the symbols' sizes for accuracy tests; one empty dict for a graph without symbols."""
    return tuple(dict(s.sizes) for s in accuracy_shapes(graph))


def performance_sizes(
    graph: FusionGraph, memory_bytes: int = ASSUMED_MEMORY
) -> tuple[dict[str, int], ...]:
    """Return the symbols' sizes for performance tests, smallest first; one empty dict for a graph without symbols.

    Args:
        graph: the graph.
        memory_bytes: memory of the device.
    """
    return tuple(dict(s.sizes) for s in performance_shapes(graph, memory_bytes))


def test_shapes(definition: HasGraph, memory_bytes: int) -> tuple[dict[str, int], ...]:
    """Return the symbols' sizes for all tests of an operator: accuracy, then performance.

    Args:
        definition: definition of the operator.
        memory_bytes: memory of the device.
    """
    graph = definition.graph
    found = (*accuracy_sizes(graph), *performance_sizes(graph, memory_bytes))
    return tuple(dict(pairs) for pairs in dict.fromkeys(tuple(s.items()) for s in found))


def accuracy_shapes(graph: FusionGraph) -> tuple[ShapeCase, ...]:
    """Return :func:`accuracy_sizes` with their bytes and a note on changes."""
    if not graph.symbols:
        return (_shape(graph, "accuracy", {}, "the graph has only fixed sizes"),)
    out: list[ShapeCase] = []
    for listed in _ACCURACY:
        wanted = dict(
            zip((s.name for s in graph.symbols), _spread(listed, len(graph.symbols)), strict=True)
        )
        sizes = fitted(graph, wanted)
        if sizes is not None and all(s.sizes != sizes for s in out):
            limit = f"out of range, or with a tensor of more than {MAX_ELEMENTS} elements"
            note = "" if sizes == wanted else f"instead of {_in_words(graph, wanted)}, {limit}"
            out.append(_shape(graph, "accuracy", sizes, note))
    return tuple(out) or (_typical(graph, "accuracy"),)


def performance_shapes(
    graph: FusionGraph, memory_bytes: int = ASSUMED_MEMORY
) -> tuple[ShapeCase, ...]:
    """Return :func:`performance_sizes` with their bytes and a note on changes."""
    if not graph.symbols:
        return (_shape(graph, "performance", {}, "the graph has only fixed sizes"),)
    out: list[ShapeCase] = []
    for side in _SIDES:
        sizes = _filling(graph, side**3, memory_bytes // _SHARE)
        if sizes is None:
            continue
        if out and out[-1].sizes == sizes and out[-1].note:
            # Larger cubes are cut to the same sizes.
            out[-1] = replace(out[-1], note=f"{out[-1].note}; {side}^3 too")
            continue
        if out and out[-1].sizes == sizes:
            out.pop()
        note = _scaled(graph, sizes, side, memory_bytes)
        out.append(_shape(graph, "performance", sizes, note))
    return tuple(out) or (_typical(graph, "performance"),)


def _typical(graph: FusionGraph, use: str) -> ShapeCase:
    """Return the hints, or sizes close to them, for a graph that no listed shape fits.

    Raises:
        AutofuseError: AF1109, the graph is valid for none of the sizes tried.
    """
    return _shape(graph, use, sizes_with(graph, {}), "no listed shape fits the graph")


def _spread(listed: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return a shape as ``count`` sizes with as many elements: outer ones are multiplied together, or padded with 1."""
    if len(listed) <= count:
        return (1,) * (count - len(listed)) + listed
    head = len(listed) - count + 1
    return (prod(listed[:head]), *listed[head:])


def _filling(graph: FusionGraph, elements: int, nbytes: int) -> dict[str, int] | None:
    """Return the largest common size of all symbols within the limits on elements per tensor and on total bytes.

    If the smallest sizes already exceed them, return these; None if the graph is invalid for the sizes found.
    """
    low, high = 0, elements
    while low < high:
        middle = (low + high + 1) // 2
        if _is_within(graph, _equal(graph, middle), elements, nbytes):
            low = middle
        else:
            high = middle - 1
    side = low - low % _EVEN if low > _EVEN else low
    return fitted(graph, _equal(graph, side), max_elements=elements)


def _scaled(graph: FusionGraph, sizes: dict[str, int], side: int, memory_bytes: int) -> str:
    """Return the reason why there are fewer or more elements than in the cube; empty if about as many."""
    elements, wanted = largest_tensor(graph, sizes), side**3
    if elements > wanted:
        return f"the smallest sizes have {counted(elements, 'element')}, more than {side}^3"
    if 5 * elements >= 4 * wanted:
        return ""
    more = _equal(graph, max(sizes.values()) + _EVEN)
    limit = "the graph has"
    if more != sizes and not _is_within(graph, more, wanted, memory_bytes // _SHARE):
        limit = f"a quarter of {memory_bytes} bytes of memory holds"
    return f"{side}^3 made smaller: {limit} at most {elements} elements in one tensor"


def _equal(graph: FusionGraph, size: int) -> dict[str, int]:
    """Return one size for all symbols, as far as their ranges allow."""
    return {s.name: max(s.min, min(size, s.max)) for s in graph.symbols}


def _is_within(graph: FusionGraph, sizes: dict[str, int], elements: int, nbytes: int) -> bool:
    try:
        return largest_tensor(graph, sizes) <= elements and _bytes(graph, sizes) <= nbytes
    except ExprError:
        return True  # a size that is too small for the graph


def _bytes(graph: FusionGraph, sizes: Mapping[str, int]) -> int:
    """Return the bytes of inputs and outputs; an output that overwrites an input adds none."""
    names = (*graph.inputs, *(o.tensor for o in graph.outputs if o.inout is None))
    tensors = [graph.tensors[n] for n in names]
    return sum(prod(shape_of(t.shape, dict(sizes))) * t.dtype.itemsize for t in tensors)


def _shape(graph: FusionGraph, use: str, sizes: dict[str, int], note: str) -> ShapeCase:
    return ShapeCase(use, sizes, _bytes(graph, sizes), note)


def _in_words(graph: FusionGraph, sizes: Mapping[str, int]) -> str:
    labels = graph.symbol_labels()
    return ", ".join(f"{labels[n]} = {size}" for n, size in sizes.items())
