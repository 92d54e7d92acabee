"""Reductions over dimensions on both sides of what is kept, in two steps: the outer dimensions first.

A sum of ``[n, c, h, w]`` over n, h and w reads rows of h * w elements.  Unless these start at cache lines of GM, each
is copied by itself, into a place of its own in UB, which takes up to twice as long.  What is summed over n alone is
dense: runs of c * h * w elements, however long.  What that leaves, ``[c, h, w]``, goes through a workspace and is
little beside the operand::

    x [n, c, h, w] -> ReduceSum over n -> [c, h, w] -> ReduceSum over h, w -> [c]

Bytes tell here what might be worth it; the scheduler compares both forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.implgraph.expr import ONE, Expr, product
from autofuse.implgraph.frozen import replace
from autofuse.implgraph.fusion import AttrValue, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.online_parts import axes_of
from autofuse.implgraph.reduce_rows import REDUCES
from autofuse.targets import TargetSpec

__all__ = ["outer_first"]

#: Elements that the first step makes one of, from which on its result is little beside its operand.
_FEWEST = 8


def outer_first(graph: FusionGraph, target: TargetSpec) -> FusionGraph:
    """The graph with such reductions in two steps; the graph itself if there are none.

    Args:
        graph: without compositions; with symbols in the shape of an operand, a reduction stays.
        target: the chip, which says how long a cache line is.
    """
    tensors = dict(graph.tensors)
    nodes: list[FusionNode] = []
    taken = {n.name for n in graph.nodes} | set(tensors)
    for n in graph.nodes:
        inner = _inner(n, tensors, target.cache_line_bytes)
        if inner is None:
            nodes.append(n)
            continue
        (x,) = n.inputs
        assert isinstance(x, str)
        shape, dtype = tensors[x].shape, tensors[x].dtype
        axes = axes_of(n, len(shape))
        outer = tuple(d for d in axes if d < inner)
        kept = tuple(s for d, s in enumerate(shape) if d not in outer)
        last = tuple(range(inner - len(outer), len(kept)))
        first, whole = (_name(f"{n.name}_{what}", taken) for what in ("outer", "inner"))
        tensors[first] = Tensor(first, dtype, kept, origin=n.origin)
        nodes.append(_reduction(first, n, x, outer))
        tensors[whole] = Tensor(whole, dtype, kept[: last[0]], origin=n.origin)
        nodes.append(_reduction(whole, n, first, last))
        attrs: dict[str, AttrValue] = {"shape": tensors[n.outputs[0]].shape}
        nodes.append(FusionNode(n.name, "Reshape", (whole,), n.outputs, attrs, n.origin))
    if len(nodes) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def _reduction(name: str, n: FusionNode, x: str, axes: Sequence[int]) -> FusionNode:
    attrs: dict[str, AttrValue] = {"axes": tuple(axes), "keepdims": False}
    return FusionNode(name, n.op, (x,), (name,), attrs, n.origin)


def _inner(n: FusionNode, tensors: Mapping[str, Tensor], line: int) -> int | None:
    """The first of the innermost dimensions that a node reduces, where it may be worth it to reduce others first."""
    x = n.inputs[0] if n.inputs else None
    if n.op not in REDUCES or not isinstance(x, str):
        return None
    shape = tensors[x].shape
    if not all(s.is_const for s in shape) or product(shape) == 0:
        return None
    axes = {d for d in axes_of(n, len(shape)) if shape[d] != ONE}
    inner = len(shape)
    while inner - 1 in axes or (inner and shape[inner - 1] == ONE):
        inner -= 1
    outer = [d for d in axes if d < inner]
    row = _size(shape[inner:])
    few = _size([shape[d] for d in outer]) < _FEWEST
    if not outer or few or row == 1 or row * tensors[x].dtype.itemsize % line == 0:
        return None
    return inner


def _size(dims: Sequence[Expr]) -> int:
    return product(dims).value


def _name(stem: str, taken: set[str]) -> str:
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name
