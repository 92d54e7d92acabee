"""Templates of *invariant* kernels: the bits of a result depend only on the sizes that are reduced for it.

A sum of floats depends on its order.  In other kernels the order follows from the tile, which the host solves for, from
the template, and from the number of rows.  Here a group with such reductions has one template, chosen only by the
reduced sizes, with a fixed order:

* *reduce_all* if all reduced axes have known sizes and fit UB: one call per run of axes for a tile of any number of
  rows along the innermost kept axis.
* otherwise the loop *reduce*, or *scan* for running sums.  If the innermost axis is reduced, its tiles have a constant
  length (the last one has the rest).  If it is kept, a tile is a constant number of reduced elements by a block of
  neighbours, or a step of the loop is one element of each sum.

These families are not tried on a group whose order makes no difference, such as one of integers: it may use any
template.
"""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.implgraph.division.worth import ROW
from autofuse.implgraph.ir.dtypes import is_float
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.axes.tile_limits import fits_every_size, takes_every_size
from autofuse.schedule.axes.tiling_axes import (
    Candidate,
    GroupInput,
    Padding,
    TileLengths,
    with_tiles,
    with_unit_axis,
)
from autofuse.schedule.placement.scan import SCAN
from autofuse.schedule.templates.family import Candidates, Family
from autofuse.schedule.templates.reduce import ALL, LOOP, Reduce, tiled
from autofuse.schedule.templates.scan import LOOP as SCAN_LOOP
from autofuse.schedule.templates.scan import Scan

__all__ = ["IN_ORDER", "depends_on_order", "invariant_families", "is_invariant", "with_fixed_order"]

#: Attribute of a reduction that uses the same order for any number of rows.
IN_ORDER = "in_order"
#: Suffix of a loop whose tiles have a constant length.
FIXED = "fixed"
#: Tile elements along the innermost axis, and along reduced axes outside it; the first that fits is used.
LENGTHS = (2048, 1024, 512, 256, 128, 64)
OUTSIDE = (64, 32, 16, 8)


def depends_on_order(n: Node) -> bool:
    """Return True if a node reduces, or sums up, numbers whose order decides the bits of the result.

    Integers wrap around, so any order gives the same result.  For floats even a maximum counts: which of two zeros, or
    of two NaN, it returns depends on their order.
    """
    return n.op in (*REDUCES, SCAN) and is_float(n.y.dtype)


def invariant_families(g: GroupInput) -> tuple[Family, ...]:
    """Return the families to try for a group whose order must be fixed; none for other groups."""
    if not g.target.invariant or not any(depends_on_order(n) for n in g.nodes):
        return ()
    return (_SCAN if g.scans else _REDUCE,)


def with_fixed_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes, with float reductions marked to use the same order for any number of rows in a tile."""
    return tuple(
        replace(n, attrs={**n.attrs, IN_ORDER: 1}) if n.op in REDUCES and depends_on_order(n) else n
        for n in nodes
    )


def is_invariant(impl: ImplGraph) -> bool:
    """Return True if a template of these families fits for all sizes of the kept axes."""
    spec = impl.tiling
    if fits_every_size(spec):
        return True
    # A tile of fixed length must fit if the axis is that long.
    return impl.suffix != FIXED and impl.r_axis is not None and takes_every_size(spec)


class _Reduce(Reduce):
    def candidates(self, g: GroupInput) -> Candidates:
        """Return whole rows if their length is known, then loops of fixed steps."""
        whole, loops = tiled(g, ALL, LOOP)
        known = all(g.size(a).is_const for a in g.reduced)
        return (whole[:1] if known else []) + _columns(g) + _steps(g, loops)


class _Scan(Scan):
    def candidates(self, g: GroupInput) -> Candidates:
        """Return loops of fixed steps."""
        return _steps(g, tiled(g, ALL, SCAN_LOOP)[1])


_REDUCE, _SCAN = _Reduce(), _Scan()


def _steps(g: GroupInput, loops: Candidates) -> Candidates:
    """Return the loop with tiles along the innermost axis: of constant length if that axis is reduced."""
    if not loops:
        return []
    group, candidate = loops[0]
    if group.order[candidate.position] not in g.reduced:
        return [(group, candidate)]
    return [
        (group, replace(candidate, suffix=FIXED, lengths=TileLengths(fixed=length)))
        for length in LENGTHS
    ]


def _columns(g: GroupInput) -> Candidates:
    """Return tiles of a block of kept neighbours by a constant number of reduced elements around them."""
    last = g.order[-1]
    outside = [p for p, a in enumerate(g.order[:-1]) if a in g.reduced]
    if last in g.reduced or not outside or not g.target.arch.has_datacopypad:
        return []
    size = g.size(last).as_int()
    if size is None or size > ROW + ROW // 2:
        group, place, padding = with_tiles(g, last, ROW), 1 + outside[-1], Padding.EVERY_TENSOR
    elif all(a in g.reduced for a in g.order[: outside[-1]]):
        group, place, padding = with_unit_axis(g), 1 + outside[-1], Padding.INNERMOST
    else:
        group, place, padding = g, outside[-1], Padding.INNERMOST
    if place != len(group.order) - 2:
        return []  # kept axes in between would lie in the tile as a whole
    return [
        (
            group,
            Candidate(LOOP, FIXED, place, padding, lengths=TileLengths(fixed=length)),
        )
        for length in OUTSIDE
    ]
