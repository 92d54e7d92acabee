"""``ReduceInner`` and ``ReduceOuter``: [o, r] -> [o] and [o, r, i] -> [o, i] in UB."""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Call, Count, Form
from autofuse.implgraph.expr.expression import ONE, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.functions.scratch import reduce_inner_bytes, reduce_outer_bytes
from autofuse.schedule.templates.invariant import IN_ORDER

__all__ = ["FUNCTIONS"]


def _call(s: FunctionSite) -> Call:
    """Return the call, which reduces one run of axes."""
    y, left = s.source.y, set(s.node.y.vectorized_axis)
    form, counts = s.along(y, [i for i, a in enumerate(y.vectorized_axis) if a not in left])
    return s.made(map(Count, counts), form, _operation(s.node, form))


def _operation(n: Node, form: Form) -> tuple[str, ...]:
    name = n.op.removeprefix("Reduce")
    return ("SumInOrder" if n.attrs.get(IN_ORDER) and name == "Sum" else f"{name}Of",)


def _covers(p: Proof) -> Findings:
    """Check that the call reduces exactly the missing axes: all of the tile, and none of its padding."""
    y, left = p.source.y, set(p.n.y.vectorized_axis)
    run = [i for i, a in enumerate(y.vectorized_axis) if a not in left]
    if len(p.counts) != 3 or not run or run != list(range(run[0], run[-1] + 1)):
        yield p.wrong(f"{p.api} reduces no run of axes")
        return
    outer, length, third = p.counts
    strides = y.vectorized_strides
    sizes = [p.extent(a) for a in y.vectorized_axis]
    result, source = p.span(p.n.y), p.span(y)
    for i in run[:-1]:
        below = sizes[i + 1] * strides[i + 1]
        yield from p.same(strides[i], below, f"rows of {p.api} without padding")
    if (run[-1] + 1 < len(strides)) != (p.call.form == "Outer"):
        yield p.wrong(f"{p.api} reduces other axes than {p.n.name}")
        return
    if p.call.form == "Outer":
        yield from p.same(third, strides[run[-1]], f"elements of a row of {p.api}")
        yield from p.same(length, product(sizes[i] for i in run), f"rows that {p.api} reduces")
        if run[0] > 0:
            yield from p.same(
                length * third, strides[run[0] - 1], f"elements between results of {p.api}"
            )
        yield from p.same(outer * length * third, source, f"elements of {p.api}")
        yield from p.at_least(outer * third, result, f"results of {p.api}")
        return
    yield from p.same(length, product(sizes[i] for i in run), f"elements that {p.api} reduces")
    if run[0] > 0:
        yield from p.same(third, strides[run[0] - 1], f"pitch of {p.api}")
        yield from p.same(outer * third, source, f"elements of {p.api}")
    else:
        yield from p.same(outer, ONE, f"rows of {p.api}")
    yield from p.at_least(outer, result, f"results of {p.api}")


def _fits(p: Proof) -> Findings:
    """Check that source, result and scratch space fit their buffers, with nonempty rows at 32-byte addresses."""
    if len(p.counts) != 3:
        return  # Reported separately.
    outer, length, third = p.counts
    dtype = p.n.y.dtype
    size = dtype.itemsize
    yield from p.at_least(length, ONE, f"elements that {p.api} reduces")
    yield from p.aligned(third * size, f"rows of {p.api}")
    if p.call.form == "Outer":
        used = (outer * third * size, outer * length * third * size)
        scratch = reduce_outer_bytes(dtype, outer, length, third, p.arch)
    else:
        yield from p.at_least(third, length, f"pitch of {p.api}")
        used = (align_up(outer * size, p.block), outer * third * size)
        scratch = reduce_inner_bytes(p.n.op, dtype, outer, length, third, p.arch)
    yield from p.fit((*used, scratch))


FUNCTIONS = {"Reduce": DeviceFunction("reduce", _call, _covers, _fits, _operation)}
