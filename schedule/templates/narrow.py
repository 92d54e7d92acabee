"""*narrow*: groups whose tensors have short rows in GM and long rows in UB.

:mod:`autofuse.schedule.placement.lacing` converts between them.

The short axes lie inside the tile, outside the axis of the long rows.  The host solves for the tile of that axis, or,
in the ``outer`` variants, for the tile of an axis around whole long rows: the next unreduced one, and, if that is
short, as ``outer_2``, the one after it.  The ``rows`` variant has a loop over long rows that share data, as in
:mod:`autofuse.schedule.templates.general`.
"""

from __future__ import annotations

from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import AxisType, Node
from autofuse.implgraph.ir.iteration_space import contiguous_strides
from autofuse.implgraph.lowering.partition import MIN_ROWS, SHORT_ROW
from autofuse.schedule.axes.tiling_axes import (
    Candidate,
    GroupInput,
    Padding,
    reordered,
    with_unit_axis,
)
from autofuse.schedule.placement.scan import SCAN
from autofuse.schedule.placement.stacking import STACK, stacked
from autofuse.schedule.placement.transposition import contiguous_axis
from autofuse.schedule.templates.family import ELEMENTWISE, REDUCTION, Candidates, InLoops
from autofuse.schedule.templates.general import cut_into_rows

__all__ = ["NAME", "NARROW"]

NAME = "narrow"
#: Maximum bytes of short rows, above which moving them one by one is faster; minimum elements of long rows.
MOST, LEAST = SHORT_ROW, MIN_ROWS


class _Narrow(InLoops):
    kinds = ELEMENTWISE | REDUCTION

    def candidates(self, g: GroupInput) -> Candidates:
        """Return the group with its short axes inside a tile of long rows, if its tensors allow it."""
        columns = stacked(g)
        if columns is not None and _has_long_columns(columns):
            g = columns
        if len(g.order) < 2 or g.within:
            return []
        if any(n.op in ("Iota", SCAN) or (n.op == "Load" and len(n.inputs) > 1) for n in g.nodes):
            return []
        short = _short_axes(g)
        # The parts of an axis may differ in length, so a tile holds one.
        parts = {a for a in g.order if g.axes[a].type is AxisType.TILE_OUT}
        if not short or not parts.isdisjoint(short):
            return []
        *around, long = (a for a in g.order if a not in short)
        if not any(_is_run(n, short, long) for n in g.nodes) or not all(
            _can_be_moved(n, short, long) for n in g.nodes
        ):
            return []
        turned = reordered(g, (*around, *short, long))
        shared: Candidates = []
        if not g.reduced:
            # Short axes lie inside the tile as reduced ones do.
            turned = replace(turned, reduced=short)
            # A loop over long rows that share data, as in the template *general*.
            shared = cut_into_rows(
                turned, around, Candidate(NAME, "", -1, Padding.INNERMOST, short=short)
            )
        elif long in g.reduced and set(g.reduced).issuperset(around):
            turned = with_unit_axis(turned)
        places = [len(turned.order) - 1]
        for i, a in enumerate(reversed(around), 1):
            if a in parts:
                break
            if a not in g.reduced:
                places.append(places[0] - len(short) - i)
                # If there are few long rows, a tile holds all of them, and several of the next axis.
                if _constant(g, a) >= LEAST:
                    break
        names = ["", "outer", *(f"outer_{i}" for i in range(2, len(places)))]
        return [
            (turned, Candidate(NAME, name, place, Padding.INNERMOST, short=short))
            for name, place in zip(names, places, strict=False)
        ] + shared


NARROW = _Narrow()


def _short_axes(g: GroupInput) -> tuple[int, ...]:
    """Return the axes of short rows, in order: those along which tensors are contiguous and all inside the long one."""
    sizes = [n.y.dtype.itemsize for n in g.nodes if n.op in ("Load", "Store")]
    most = MOST // min(sizes)
    first = {
        k
        for n in g.nodes
        if n.op in ("Load", "Store")
        and len(axes := [a for a in g.order if n.y.varies_along(a)]) > 1
        for k in [contiguous_axis(n.y, reversed(axes))]
        if k is not None and _constant(g, k) <= most
    }
    if len(first) > 1:
        # The longest of several is the long row.
        first.discard(max(sorted(first), key=lambda a: _constant(g, a)))
    found = set(first)
    while found:
        left = [a for a in g.order if a not in found]
        if not left:
            return ()
        if _constant(g, left[-1]) >= LEAST:
            break
        found.add(left[-1])
    size = product(g.size(a) for a in found).as_int() or 0
    return tuple(a for a in g.order if a in found) if 1 < size <= most else ()


def _has_long_columns(g: GroupInput) -> bool:
    """Return True if the column axis, the last one, is inside a tile, and long rows are inside all columns."""
    short = _short_axes(g)
    left = [a for a in g.order if a not in short]
    return g.axes[-1].id in short and all(
        n.y.varies_along(left[-1]) for n in g.nodes if n.op == STACK
    )


def _constant(g: GroupInput, axis: int) -> int:
    """Return the size of an axis; if unknown, a value above any short one."""
    size = g.size(axis).as_int()
    return MOST + 1 if size is None else size


def _is_run(n: Node, short: tuple[int, ...], long: int) -> bool:
    """Return True if the short rows of a Load or Store are one run along the long axis, or a Load's lie in one."""
    if n.op not in ("Load", "Store") or not n.y.varies_along(long):
        return False
    own = [a for a in short if n.y.varies_along(a)]
    gm = dict(zip(n.y.axis, n.y.strides, strict=True))
    size = dict(zip(n.y.axis, n.y.repeats, strict=True))
    inner = contiguous_strides([size[a] for a in own])
    whole, step = product(size[a] for a in own), gm[long].as_int()
    if tuple(gm[a] for a in own) != inner or step is None:
        return False
    apart = n.op == "Load" and whole.value < step <= MOST // n.y.dtype.itemsize
    return apart or (bool(own) and step == whole)


def _can_be_moved(n: Node, short: tuple[int, ...], long: int) -> bool:
    """Return True if a node is not a copy, or copies a run, elements of a run, or long rows."""
    if n.op not in ("Load", "Store"):
        return True
    gm = dict(zip(n.y.axis, n.y.strides, strict=True))
    if not n.y.varies_along(long) or gm[long] == 1:
        return True
    return n.y.dtype.bits < 64 and _is_run(n, short, long)
