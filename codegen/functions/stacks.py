"""``StackRows``: row ``(o, r)`` of operand ``c`` is ``(o*k + c)*unit + r`` of the result."""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Arg, Call, Count, LocalArg
from autofuse.implgraph.expr.expression import align_up, const, product
from autofuse.schedule.placement.stacking import stack_counts

__all__ = ["FUNCTIONS"]


def _call(s: FunctionSite) -> Call:
    """Return a call that places tensors side by side."""
    counts = map(Count, stack_counts(s.node, s.extent, s.source))
    args: tuple[Arg, ...] = (LocalArg(s.dst), *counts, *map(LocalArg, s.operands))
    return Call(s.row.api, args, (s.dst,), s.operands)


def _covers(p: Proof) -> Findings:
    """Check that each operand is exactly one column, with the result's layout except for the columns."""
    axes, sources = p.n.y.vectorized_axis, [p.kernel.nodes[i] for i in p.n.inputs]
    own = [i for i, a in enumerate(axes) if a not in sources[0].y.vectorized_axis]
    if len(p.counts) != 3 or len(own) != 1 or own[0] + 1 == len(axes):
        yield p.wrong(f"{p.api} does not place rows side by side")
        return
    outer, row, unit = p.counts
    at = own[0]
    column, inside, around = axes[at], axes[at + 1 :], axes[:at]
    strides = dict(zip(axes, p.n.y.vectorized_strides, strict=True))
    k = const(len(sources))
    yield from p.same(p.extent(column), k, f"operands of {p.api}")
    yield from p.same(strides[column], unit, f"distance of columns of {p.api}")
    yield from p.same(outer, product(p.extent(a) for a in around), f"rows of {p.api}")
    whole = p.extent(inside[0]) * strides[inside[0]]
    yield from p.same(row, whole, f"elements of a row of {p.api}")
    wanted = {a: strides[a] for a in inside}
    step = unit
    for a in reversed(around):
        yield from p.same(strides[a], step * k, f"distance of rows of {p.api}")
        wanted[a] = step
        step = step * p.extent(a)
    for x in sources:
        if x.y.vectorized_axis != (*around, *inside) or x.y.dtype.cpp != p.n.y.dtype.cpp:
            yield p.wrong(f"{x.name} is no column of {p.n.name}")
            continue
        for a, have in zip(x.y.vectorized_axis, x.y.vectorized_strides, strict=True):
            yield from p.same(have, wanted[a], f"distance of rows of {x.name}")


def _fits(p: Proof) -> Findings:
    """Check that columns and operands fit their buffers, rows rounded up to 32 bytes included."""
    if len(p.counts) != 3:
        return  # Reported separately.
    outer, row, unit = p.counts
    size = p.n.y.dtype.itemsize
    last = align_up(row, p.block // size)
    yield from p.aligned(unit * size, f"columns of {p.api}")
    yield from p.at_least(unit, last, f"elements of a column of {p.api}")
    columns = (len(p.n.inputs), *(1 for _ in p.n.inputs))
    yield from p.fit([((outer * k - 1) * unit + last) * size for k in columns])


FUNCTIONS = {"StackRows": DeviceFunction("lace", _call, _covers, _fits)}
