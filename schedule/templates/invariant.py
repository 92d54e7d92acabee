"""Templates of *invariant* kernels: the bits of a result depend on the sizes of what is reduced for it, and no others.

A sum of floats depends on its order.  Elsewhere that follows from the tile, which the host solves for, from the
template, and from how many rows there are.  Here a group with such reductions has one template, chosen by what is
reduced alone, in which the order is fixed:

* *reduce_all* where everything that is reduced has a known size and fits UB: one call per run of axes for a tile of
  rows along the innermost axis that is kept, however many these are.
* else the loop *reduce*, or *scan* for running sums.  Where the innermost axis is reduced, its tiles have a constant
  length (the last one has the rest).  Where it is kept, a tile has a constant number of what is reduced, by a block of
  neighbours; or a step of the loop is one element of each sum.

No family is tried on a group whose order can make no difference, as one of integers: those have any template.
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

#: The attribute of a reduction that takes one order for any number of rows.
IN_ORDER = "in_order"
#: Suffix of a loop whose tiles have a constant length.
FIXED = "fixed"
#: Elements of a tile along the innermost axis, and of what is reduced outside of it: the first ones that fit.
LENGTHS = (2048, 1024, 512, 256, 128, 64)
OUTSIDE = (64, 32, 16, 8)


def depends_on_order(n: Node) -> bool:
    """Return True if a node reduces, or sums up, numbers whose order decides the bits of the result.

    Integers wrap around, so any order gives the same result.  For floats even a maximum counts: which of two zeros, or
    of two NaN, it returns depends on their order.
    """
    return n.op in (*REDUCES, SCAN) and is_float(n.y.dtype)


def invariant_families(g: GroupInput) -> tuple[Family, ...]:
    """The families to try for a group whose order must be fixed, none for another group."""
    if not g.target.invariant or not any(depends_on_order(n) for n in g.nodes):
        return ()
    return (_SCAN if g.scans else _REDUCE,)


def with_fixed_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, of which those that reduce floats take one order for any number of rows in a tile."""
    return tuple(
        replace(n, attrs={**n.attrs, IN_ORDER: 1}) if n.op in REDUCES and depends_on_order(n) else n
        for n in nodes
    )


def is_invariant(impl: ImplGraph) -> bool:
    """Return True if a template of these families fits for all sizes of the kept axes."""
    spec = impl.tiling
    if fits_every_size(spec):
        return True
    # A tile of one length has to fit where the axis is as long as that.
    return impl.suffix != FIXED and impl.r_axis is not None and takes_every_size(spec)


class _Reduce(Reduce):
    def candidates(self, g: GroupInput) -> Candidates:
        """Whole rows where it is known how long they are, then loops of fixed steps."""
        whole, loops = tiled(g, ALL, LOOP)
        known = all(g.size(a).is_const for a in g.reduced)
        return (whole[:1] if known else []) + _columns(g) + _steps(g, loops)


class _Scan(Scan):
    def candidates(self, g: GroupInput) -> Candidates:
        """Loops of fixed steps."""
        return _steps(g, tiled(g, ALL, SCAN_LOOP)[1])


_REDUCE, _SCAN = _Reduce(), _Scan()


def _steps(g: GroupInput, loops: Candidates) -> Candidates:
    """The loop whose tiles lie along the innermost axis: of a constant length where that is reduced."""
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
    """Blocks of neighbours that are kept, by a constant number of what is reduced around them."""
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
        return []  # what is kept in between would lie in the tile as a whole
    return [
        (
            group,
            Candidate(LOOP, FIXED, place, padding, lengths=TileLengths(fixed=length)),
        )
        for length in OUTSIDE
    ]
