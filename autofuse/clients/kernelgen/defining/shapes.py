"""Sizes with which an operator is compared with its reference, and those with which it is timed.

Accuracy takes the list of KernelGen, from one element to four dimensions.  Times take the three cubes of the write-up
of its flow, each with as many elements as that cube: made smaller where the memory of the device does not hold the
tensors.
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

#: Bytes of device memory where nobody says how many: assumed.
ASSUMED_MEMORY = 16 << 30
#: Shapes of KernelGen's accuracy tests.
_ACCURACY = ((512,), (64, 128), (8, 32, 64), (2, 4, 8, 16), (1,))
#: Sides of the cubes of the performance tests.
_SIDES = (512, 1024, 2048)
#: Inputs, results, and the reference's results and copies on their way have to fit as well.
_SHARE = 4
#: Sizes of which there are more are multiples of it: 16 bytes or more.
_EVEN = 8


class HasGraph(Protocol):
    """A definition, as far as its sizes are concerned."""

    @property
    def graph(self) -> FusionGraph:
        """The formula."""


@dataclass(frozen=True, slots=True)
class ShapeCase:
    """Sizes for one test.

    Attributes:
        use: ``accuracy`` or ``performance``.
        sizes: of the symbols of the graph, by their identifiers, in elements.
        bytes: of all inputs and outputs.
        note: how the sizes came to be others than the list says; empty where they are not.
    """

    use: str
    sizes: Mapping[str, int]
    bytes: int
    note: str = ""


def accuracy_sizes(graph: FusionGraph) -> tuple[dict[str, int], ...]:
    """Sizes of the symbols for accuracy tests; one empty dict for a graph without symbols."""
    return tuple(dict(s.sizes) for s in accuracy_shapes(graph))


def performance_sizes(
    graph: FusionGraph, memory_bytes: int = ASSUMED_MEMORY
) -> tuple[dict[str, int], ...]:
    """Sizes of the symbols for performance tests, small ones first; one empty dict for a graph without symbols.

    Args:
        graph: whose symbols.
        memory_bytes: of the device.
    """
    return tuple(dict(s.sizes) for s in performance_shapes(graph, memory_bytes))


def test_shapes(definition: HasGraph, memory_bytes: int) -> tuple[dict[str, int], ...]:
    """Sizes of the symbols for all tests of an operator: those for accuracy, then those for performance.

    Args:
        definition: of the operator.
        memory_bytes: of the device.
    """
    graph = definition.graph
    found = (*accuracy_sizes(graph), *performance_sizes(graph, memory_bytes))
    return tuple(dict(pairs) for pairs in dict.fromkeys(tuple(s.items()) for s in found))


def accuracy_shapes(graph: FusionGraph) -> tuple[ShapeCase, ...]:
    """:func:`accuracy_sizes`, with the bytes of each and what was changed."""
    if not graph.symbols:
        return (_shape(graph, "accuracy", {}, "the graph has fixed sizes only"),)
    out: list[ShapeCase] = []
    for listed in _ACCURACY:
        wanted = dict(
            zip((s.name for s in graph.symbols), _spread(listed, len(graph.symbols)), strict=True)
        )
        sizes = fitted(graph, wanted)
        if sizes is not None and all(s.sizes != sizes for s in out):
            limit = f"out of range, or with a tensor of more than {MAX_ELEMENTS} elements"
            note = "" if sizes == wanted else f"in place of {_in_words(graph, wanted)}, {limit}"
            out.append(_shape(graph, "accuracy", sizes, note))
    return tuple(out) or (_typical(graph, "accuracy"),)


def performance_shapes(
    graph: FusionGraph, memory_bytes: int = ASSUMED_MEMORY
) -> tuple[ShapeCase, ...]:
    """:func:`performance_sizes`, with the bytes of each and what was changed."""
    if not graph.symbols:
        return (_shape(graph, "performance", {}, "the graph has fixed sizes only"),)
    out: list[ShapeCase] = []
    for side in _SIDES:
        sizes = _filling(graph, side**3, memory_bytes // _SHARE)
        if sizes is None:
            continue
        if out and out[-1].sizes == sizes and out[-1].note:
            # What the memory holds is the same for larger cubes.
            out[-1] = replace(out[-1], note=f"{out[-1].note}; {side}^3 likewise")
            continue
        if out and out[-1].sizes == sizes:
            out.pop()
        note = _scaled(graph, sizes, side, memory_bytes)
        out.append(_shape(graph, "performance", sizes, note))
    return tuple(out) or (_typical(graph, "performance"),)


def _typical(graph: FusionGraph, use: str) -> ShapeCase:
    """The hints, or what is near, for a graph that no listed shape comes near to.

    Raises:
        AutofuseError: AF1109, the graph has a meaning for no sizes that were tried.
    """
    return _shape(graph, use, sizes_with(graph, {}), "no listed shape fits the graph")


def _spread(listed: tuple[int, ...], count: int) -> tuple[int, ...]:
    """A shape as ``count`` sizes with as many elements: outer ones are multiplied, or are 1."""
    if len(listed) <= count:
        return (1,) * (count - len(listed)) + listed
    head = len(listed) - count + 1
    return (prod(listed[:head]), *listed[head:])


def _filling(graph: FusionGraph, elements: int, nbytes: int) -> dict[str, int] | None:
    """The largest equal sizes of all symbols with which tensors have no more elements, and all no more bytes.

    Where the smallest sizes already need more, these; None if the graph has no meaning for what is found.
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
    """Why there are fewer elements than the cube has, or more; empty where there are about as many."""
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
    """One size for all symbols, as far as their ranges allow."""
    return {s.name: max(s.min, min(size, s.max)) for s in graph.symbols}


def _is_within(graph: FusionGraph, sizes: dict[str, int], elements: int, nbytes: int) -> bool:
    try:
        return largest_tensor(graph, sizes) <= elements and _bytes(graph, sizes) <= nbytes
    except ExprError:
        return True  # a size that is too small for the graph


def _bytes(graph: FusionGraph, sizes: Mapping[str, int]) -> int:
    """Bytes of inputs and outputs; an output that overwrites an input has none of its own."""
    names = (*graph.inputs, *(o.tensor for o in graph.outputs if o.inout is None))
    tensors = [graph.tensors[n] for n in names]
    return sum(prod(shape_of(t.shape, dict(sizes))) * t.dtype.itemsize for t in tensors)


def _shape(graph: FusionGraph, use: str, sizes: dict[str, int], note: str) -> ShapeCase:
    return ShapeCase(use, sizes, _bytes(graph, sizes), note)


def _in_words(graph: FusionGraph, sizes: Mapping[str, int]) -> str:
    labels = graph.symbol_labels()
    return ", ".join(f"{labels[n]} = {size}" for n, size in sizes.items())
