"""*transpose*: groups whose tensors are contiguous in GM along different axes.

All these axes lie inside the tile, so that every copy moves contiguous rows; transposition happens in UB
(``schedule/placement/transposition.py``).  The host solves for the tile of one axis; the others of these axes, if long,
are cut into tiles of a constant length.

If the chip has multi-dimensional loads, the ``permuted`` variants use these instead of rows and transpositions
(``schedule/placement/permutation.py``), and unpadded tiles if no node requires padding.
"""

from __future__ import annotations

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.iteration_space import contiguous_strides
from autofuse.implgraph.ops.registry import lookup
from autofuse.schedule.axes.tiling_axes import (
    Candidate,
    GroupInput,
    Padding,
    TileLengths,
    reordered,
    with_tiles,
)
from autofuse.schedule.placement.placement import alignment
from autofuse.schedule.placement.transposition import contiguous_axis
from autofuse.schedule.templates.family import ELEMENTWISE, Candidates, Family
from autofuse.schedule.templates.reduce import Reduce, whole_or_in_loops

__all__ = ["CUT_REDUCE", "NAME", "TRANSPOSE", "contiguous_axes"]

NAME = "transpose"
#: Elements of a constant tile for a pair of axes, largest first; three or more axes use the smallest.
LENGTHS = (128, 64, 32)
#: Kinds of nodes that do not depend on where rows begin in UB.
_OF_ANY_ROWS = frozenset({"elewise", "load", "store", "data", "output", "scalar", "workspace"})
#: Maximum axes around the contiguous ones that may be in the tile as well.
AROUND = 2


def contiguous_axes(g: GroupInput) -> tuple[int, ...]:
    """Return the axes along which multi-axis Loads and Stores are contiguous in GM, in order.

    Empty if each is contiguous along its innermost axis: then nothing needs transposing.
    """
    found: set[int] = set()
    apart = False
    for n in g.nodes:
        if n.op not in ("Load", "Store"):
            continue
        varies = n.y.varies()
        axes = [a for a in g.order if a in varies]
        if len(axes) < 2:
            continue
        k = contiguous_axis(n.y, reversed(axes))
        if k is not None:
            found.add(k)
            apart = apart or k != axes[-1]
    return tuple(a for a in g.order if a in found) if apart else ()


class _Transpose(Family):
    kinds = ELEMENTWISE

    def candidates(self, g: GroupInput) -> Candidates:
        """Return tiles of several lengths with each of the contiguous axes as the innermost one."""
        inside = contiguous_axes(g)
        if len(inside) < 2:
            return []
        out: Candidates = []
        for last in reversed(inside):
            others = [a for a in inside if a != last]
            around = [a for a in g.order if a not in inside]
            group = reordered(g, (*around, *others, last))
            permuting = _stores_along(g, last)
            for position in range(len(around), max(-1, len(around) - 1 - AROUND), -1):
                made: set[tuple[int, ...]] = set()
                for length in LENGTHS if len(inside) < 3 else (32,):
                    cut = [
                        a
                        for a in (*others, last)[position == len(around) :]
                        if _is_long(g, a, length)
                    ]
                    if tuple(cut) in made and not cut:
                        continue
                    made.add(tuple(cut))
                    tried = _candidate(group, position, cut, length)
                    out.append(tried)
                    if permuting:
                        out.append(_permuting(*tried))
        # If rows are whole blocks, padding changes nothing.
        padded = {(h.order, c.position) for h, c in out if c.permuting and _in_blocks(h)}
        return [*out, *(p for p in _unpadded(g) if (p[0].order, p[1].position) not in padded)]


def _stores_along(g: GroupInput, last: int) -> bool:
    """Return True if multi-dimensional loads can bring all data to the order of the Stores, along axis ``last``."""
    return g.target.arch.dma_dims > 0 and all(
        contiguous_axis(n.y, reversed(g.order)) == last for n in g.nodes if n.op == "Store"
    )


def _permuting(g: GroupInput, c: Candidate) -> tuple[GroupInput, Candidate]:
    """Return a candidate with multi-dimensional loads; runs along the tiled axis are cache lines."""
    tiled, line = g.order[c.position], g.target.arch.cache_line_bytes
    along = [
        n.y.dtype.itemsize
        for n in g.nodes
        if n.op == "Load" and contiguous_axis(n.y, reversed(g.order)) == tiled
    ]
    shortest = max((line // size for size in along), default=1)
    suffix = f"{c.suffix}_permuted".lstrip("_")
    lengths = TileLengths(shortest=shortest)
    return g, replace(c, suffix=suffix, permuting=True, lengths=lengths)


def _in_blocks(g: GroupInput) -> bool:
    last = g.order[-1]
    return g.size(last).as_int() is not None and g.size(last).value % alignment(g, last) == 0


def _unpadded(g: GroupInput) -> Candidates:
    """Return tiles in the order of all Stores, each of which is one run: rows of any length need no padding."""
    if not g.target.arch.dma_dims:
        return []
    for n in g.nodes:
        if lookup(n.op).compute_type not in _OF_ANY_ROWS and n.op != "Duplicate":
            return []
        if n.op == "Store":
            own = [(n.y.repeats[i], n.y.strides[i]) for i, a in enumerate(n.y.axis) if a in g.order]
            if [s for _, s in own] != list(contiguous_strides([size for size, _ in own])):
                return []
    first = max(len(g.order) - g.target.arch.dma_dims, 0)
    return [
        _permuting(g, Candidate(NAME, "", position))
        for position in range(len(g.order) - 2, first - 1, -1)
    ]


class _CutReduce(Reduce):
    def candidates(self, g: GroupInput) -> Candidates:
        """Return the same axes inside the tile for a group with reductions; only kept axes may be cut."""
        inside = contiguous_axes(g)
        kept = [a for a in inside if a not in g.reduced]
        if len(inside) < 2 or not kept:
            return []
        out: Candidates = []
        last = kept[-1]
        others = [a for a in inside if a != last]
        around = [a for a in g.order if a not in inside]
        for length in LENGTHS[1:]:
            cut = [a for a in kept if a != others[0] and _is_long(g, a, length)]
            if not cut:
                continue
            group = reordered(g, (*around, *others, last))
            for a in cut:
                group = with_tiles(group, a, length)
            place = group.order.index(others[0])
            out += [
                (h, replace(c, suffix=f"{c.suffix}cut_{length}", padding=Padding.EVERY_TENSOR))
                for h, c in whole_or_in_loops(group)
                if c.position - (len(h.order) - len(group.order)) == place
            ]
        return out


TRANSPOSE, CUT_REDUCE = _Transpose(), _CutReduce()


def _is_long(g: GroupInput, axis: int, length: int) -> bool:
    size = g.size(axis).as_int()
    return size is None or size > length + length // 2


def _candidate(
    g: GroupInput, position: int, cut: list[int], length: int
) -> tuple[GroupInput, Candidate]:
    """Return a candidate with axes in ``cut`` in tiles of ``length`` and the axis at ``position`` tiled by the host."""
    name = next(a.name for a in g.axes if a.id == g.order[-1])
    tiled = g.order[position]
    for a in cut:
        g = with_tiles(g, a, length)
    suffix = f"{name}_{length}" if cut else name
    position = g.order.index(tiled)
    return g, Candidate(NAME, suffix, position, Padding.EVERY_TENSOR)
