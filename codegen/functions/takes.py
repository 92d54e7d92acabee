"""``TakeRows``: elements of rows in UB, at the byte offsets that the second operand holds."""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Call, Count
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, product
from autofuse.schedule.legal.takes import is_of_rows
from autofuse.schedule.placement.taking import take_counts

__all__ = ["FUNCTIONS"]


def _call(s: FunctionSite) -> Call:
    """Return the call for a tile."""
    offsets = s.nodes[s.node.inputs[1]]
    return s.made(map(Count, take_counts(s.node, s.source, offsets, s.extent)))


def _covers(p: Proof) -> Findings:
    """Check that every element of the tile comes from its row, by its own offset."""
    y, rows = p.n.y, p.source
    offsets = p.kernel.nodes[p.n.inputs[1]]
    if len(p.counts) != 7 or not is_of_rows(rows):
        yield p.wrong(f"{p.api} takes elements of {rows.name}, which loads no rows")
        return
    groups, count, cols, pitch, to, start, at = p.counts
    outer = rows.y.vectorized_axis[:-1]
    own = y.vectorized_axis[len(outer) :]
    if y.vectorized_axis[: len(outer)] != outer or not own:
        yield p.wrong(f"{p.n.name} does not vary along the axes of {rows.name}")
        return
    loaded = p.extent(rows.y.vectorized_axis[-1])
    yield from p.same(loaded, rows.size("row"), f"elements of a row of {rows.name}")
    yield from p.same(groups, product(p.extent(a) for a in outer), f"rows of {p.api}")
    yield from p.same(count * cols, _elements(p, own), f"elements of a row of {p.api}")
    strides = dict(zip(y.vectorized_axis, y.vectorized_strides, strict=True))
    yield from _nest(p, [strides[a] for a in outer], outer, to, f"rows of {p.n.name}")
    yield from _nest(p, rows.y.vectorized_strides[:-1], outer, start, f"rows of {rows.name}")
    # Elements of a row are one run, or runs along the last axis that are `pitch` apart.
    inside = own if count == ONE else own[:-1]
    step = ONE if count == ONE else pitch
    yield from _nest(p, [strides[a] for a in inside], inside, step, f"elements of {p.n.name}")
    if count != ONE:
        yield from p.same(cols, p.extent(own[-1]), f"elements of a run of {p.api}")
    have = offsets.y.vectorized_axis
    if have == y.vectorized_axis and outer:
        yield from p.same(at, to, f"distance of offsets of {p.api}")
    elif have == own:
        yield from p.same(at, ZERO, f"distance of offsets of {p.api}")
    else:
        yield p.wrong(f"{offsets.name} has no offset for every element of {p.n.name}")
    for a, stride in zip(have, offsets.y.vectorized_strides, strict=True):
        yield from p.same(
            stride, strides[a], f"distance along {p.kernel.axes[a].name} in {offsets.name}"
        )


def _elements(p: Proof, axes: tuple[int, ...]) -> Expr:
    return product(p.extent(a) for a in axes)


def _nest(
    p: Proof, strides: tuple[Expr, ...] | list[Expr], axes: tuple[int, ...], step: Expr, what: str
) -> Findings:
    """Check that the strides of a view along ``axes`` are those of one loop of ``step`` elements."""
    for a, stride in zip(reversed(axes), reversed(strides), strict=True):
        yield from p.same(stride, step, f"distance of {what}")
        step = step * p.extent(a)


def _fits(p: Proof) -> Findings:
    """Check that rows, offsets and results fit their buffers, and that rows start at blocks."""
    if len(p.counts) != 7:
        return  # Reported separately.
    outer, rows, cols, pitch, to, start, at = p.counts
    size = p.n.y.dtype.itemsize
    if rows != ONE:
        yield from p.aligned(pitch * size, f"rows of {p.api}")
    if outer != ONE:
        yield from p.aligned(to * size, f"rows of {p.api}")
        yield from p.aligned(start * size, f"rows of {p.source.name}")
    inside = (rows - 1) * pitch + cols
    last = p.extent(p.source.y.vectorized_axis[-1])
    yield from p.fit(
        (
            ((outer - 1) * to + inside) * size,
            ((outer - 1) * start + last) * size,
            ((outer - 1) * at + inside) * 4,
        )
    )


FUNCTIONS = {"TakeRows": DeviceFunction("take", _call, _covers, _fits)}
