"""Large reductions to few elements in two steps, so that all cores take part.

The cores share what is kept, not what is reduced: a sum over all of a tensor would run on one of them.  Where little is
kept, a part of the reduced elements is kept in a first reduction, and reduced in a second one; the partial results go
through a workspace.  The order is fixed, so the result is the same whatever the number of cores.  Only where sizes are
known, and only of float32 and integers, of which partial results lose nothing.
"""

from __future__ import annotations

from dataclasses import replace

from autofuse.implgraph.expr import Expr, const, product
from autofuse.implgraph.fusion import AttrValue, FusionGraph, FusionNode, Tensor
from autofuse.implgraph.reduce_rows import REDUCES, reduced_axes

__all__ = ["split_reductions"]

#: Reductions of smaller tensors stay as they are: two groups and a barrier take longer.
MIN_ELEMENTS = 1 << 19
#: Tiles that the cores share; more of them occupy the cores.
MAX_TILES = 16
#: Elements of a row that a DMA command moves at a good rate.
ROW = 64
#: Partial results per result: enough for all cores, few enough for one of them to reduce.
PARTS = (48, 4096)


def split_reductions(graph: FusionGraph) -> FusionGraph:
    """The graph with large reductions in two steps; the graph itself if there are none."""
    nodes: list[FusionNode] = []
    tensors = dict(graph.tensors)
    for n in graph.nodes:
        made = _split(n, tensors) if n.op in REDUCES else None
        nodes += made if made is not None else [n]
    return (
        graph
        if len(nodes) == len(graph.nodes)
        else replace(graph, nodes=tuple(nodes), tensors=tensors)
    )


def _split(n: FusionNode, tensors: dict[str, Tensor]) -> list[FusionNode] | None:
    """The steps that replace a reduction; None if it stays."""
    x = n.inputs[0]
    if not isinstance(x, str) or any(not s.is_const for s in tensors[x].shape):
        return None
    source, result = tensors[x], tensors[n.outputs[0]]
    shape = [s.value for s in source.shape]
    named = n.attrs.get("axes", ())
    given = tuple(a for a in named if isinstance(a, int)) if isinstance(named, tuple) else ()
    axes = reduced_axes(given, len(shape))
    kept = [d for d in range(len(shape)) if d not in axes]
    tiles = product(shape[d] for d in kept).value
    if len(shape) - 1 in kept:
        tiles //= ROW  # neighbours share a tile
    few = tiles <= MAX_TILES
    if not few or product(shape).value < MIN_ELEMENTS:
        return None
    outer = axes[0]
    parts = shape[outer] if len(axes) > 1 and PARTS[0] <= shape[outer] <= PARTS[1] else 0
    parts = parts or _parts(shape[outer])
    if not parts:
        return None
    names = [f"{n.name}_{what}" for what in ("rows", "partial", "whole")]
    while any(name in tensors for name in names):
        names = [f"{name}_" for name in names]
    rows, partial, whole = names
    steps: list[FusionNode] = []

    def step(name: str, op: str, source_name: str, dims: list[int], **attrs: AttrValue) -> str:
        sizes: tuple[Expr, ...] = tuple(map(const, dims))
        tensors[name] = Tensor(name, result.dtype, sizes, origin=n.origin)
        own = {**attrs, "shape": sizes} if op == "Reshape" else attrs
        steps.append(FusionNode(name, op, (source_name,), (name,), own, n.origin))
        return name

    split = [*shape[:outer], parts, shape[outer] // parts, *shape[outer + 1 :]]
    first = step(rows, "Reshape", x, split)
    inner = tuple(outer + 1 if d == outer else d + 1 for d in axes)
    left = [s for d, s in enumerate(split) if d not in inner]
    second = step(partial, n.op, first, left, axes=inner)
    at = sum(d < outer for d in kept)
    final = step(whole, n.op, second, [s for d, s in enumerate(left) if d != at], axes=(at,))
    steps.append(
        FusionNode(n.name, "Reshape", (final,), n.outputs, {"shape": result.shape}, n.origin)
    )
    return steps


def _parts(size: int) -> int:
    """The divisor of a size that is closest to four tiles for each of 48 cores; 0 if none is in range."""
    low, high = PARTS
    found = [p for p in range(low, min(high, size) + 1) if size % p == 0]
    return min(found, key=lambda p: abs(p - 4 * low), default=0)
