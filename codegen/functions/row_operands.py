"""``WithRows``: a tensor [r, c] and an operand [r] with one element per row."""

from __future__ import annotations

from autofuse.codegen.functions.broadcasts import spreads
from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Call, Count, Form, Phases
from autofuse.implgraph.expr.expression import align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.functions.scratch import row_bytes
from autofuse.schedule.placement.row_operands import row_extents

__all__ = ["FUNCTIONS"]


def _call(s: FunctionSite) -> Call:
    """Return a call on a tensor and an operand with one element per row."""
    each = s.nodes[s.node.inputs[1]]
    rows, cols = row_extents(s.node, each, s.padded(s.node.y))
    return s.made((Count(product(rows)), Count(product(cols))), of=_operation(s.node, ""))


def _operation(n: Node, form: Form) -> tuple[str, ...]:
    return (n.op,)


def _covers(p: Proof) -> Findings:
    yield from _same_rows(p)
    yield from spreads(p, p.kernel.nodes[p.n.inputs[1]])


def _same_rows(p: Proof) -> Findings:
    """Check that tensor and result have one layout, and that the other operand has the axes around the rows."""
    x, each = (p.kernel.nodes[i] for i in p.n.inputs)
    if (x.y.vectorized_axis, x.y.dtype) != (p.n.y.vectorized_axis, p.n.y.dtype):
        yield p.wrong(f"{p.api} reads {x.name}, which has other rows")
        return
    for have, want in zip(x.y.vectorized_strides, p.n.y.vectorized_strides, strict=True):
        yield from p.same(have, want, f"distance of rows of {x.name}")
    axes = each.y.vectorized_axis
    if axes != p.n.y.vectorized_axis[: len(axes)] or each.y.dtype != p.n.y.dtype:
        yield p.wrong(f"{p.api} reads {each.name}, which has no element for each row")


def _fits(p: Proof) -> Findings:
    """Check that tensors and scratch space fit their buffers, with rows at 32-byte addresses."""
    if len(p.counts) != 2:
        yield p.wrong(f"{p.api} has {len(p.counts)} counts")
        return
    rows, cols = p.counts
    size = p.n.y.dtype.itemsize
    row, scratch = rows * cols * size, row_bytes(p.n.y.dtype, rows, cols, p.arch)
    yield from p.fit((row, row, align_up(rows, 8) * size, scratch))
    if rows != 1:
        yield from p.aligned(cols * size, f"rows of {p.api}")


def _phases(s: Call) -> Phases:
    (x, each), (dst, tmp) = s.reads, s.writes
    return (((each,), (tmp,)), ((tmp,), (tmp,)), ((tmp, x), (dst,)))


FUNCTIONS = {"WithRows": DeviceFunction("rows", _call, _covers, _fits, _operation, _phases)}
