"""``ScanInner`` and ``ScanOuter``: running sums in UB, carried from tile to tile."""

from __future__ import annotations

from autofuse.codegen.functions.definition import DeviceFunction, Findings, FunctionSite, Proof
from autofuse.codegen.ir.calls import Call, Count, Form, Phases
from autofuse.implgraph.expr.expression import ONE, Expr, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.functions.scratch import scan_inner_bytes, scan_outer_bytes
from autofuse.schedule.placement.scan import (
    SCANNED_TOGETHER,
    scan_run,
)

__all__ = ["FUNCTIONS"]


def _call(s: FunctionSite) -> Call:
    """Return the call of running sums along a run of axes of the tile; without one, along the tiles."""
    n, run, carry = s.node, scan_run(s.node, s.extents.axes), s.operands[1:]
    form, counts = s.along(n.y, run)
    if carry:
        counts = counts[1:2] if form == "Inner" else counts[1:]
    return s.made(map(Count, counts), form, _flags(n, form), carry)


def _flags(n: Node, form: Form) -> tuple[bool, ...]:
    """Return the flags of a Scan: exclusive, reverse and, if set, rows summed side by side."""
    together = (True,) if form == "Inner" and n.attrs.get("together") else ()
    return (bool(n.attrs["exclusive"]), bool(n.attrs["reverse"]), *together)


def _counts(p: Proof) -> tuple[Expr, Expr, Expr | None] | None:
    """Return ``(outer, n, inner or pitch)``; with a carry there is one row or matrix, and no pitch."""
    carry, inner = len(p.n.inputs) > 1, p.call.form == "Inner"
    if len(p.counts) != (3 - carry - (carry and inner)):
        return None
    if not carry:
        return p.counts[0], p.counts[1], p.counts[2]
    return ONE, p.counts[0], None if inner else p.counts[1]


def _covers(p: Proof) -> Findings:
    """Check that the call sums along the axes of its node: all of the tile, and none of its padding."""
    found, run = _counts(p), scan_run(p.n, p.kernel.axes)
    source, y = p.source.y, p.n.y
    axes, strides = y.vectorized_axis, y.vectorized_strides
    if found is None or run != list(range(run[0], run[-1] + 1) if run else ()):
        yield p.wrong(f"{p.api} adds up along no run of axes")
        return
    if (source.vectorized_axis, source.vectorized_strides) != (axes, strides):
        yield p.wrong(f"{p.api} reads another layout than it writes")
    outer, length, third = found
    sizes = [p.extent(a) for a in axes]
    total = sizes[0] * strides[0] if axes else ONE
    if (bool(run) and run[-1] + 1 == len(axes)) != (p.call.form == "Inner"):
        yield p.wrong(f"{p.api} adds up along other axes than {p.n.name}")
        return
    if not run:
        if len(p.n.inputs) < 2:
            yield p.wrong(f"{p.api} adds up nothing")
        yield from p.same(length, ONE, f"rows of {p.api}")
        assert third is not None
        yield from p.same(third, total, f"elements of {p.api}")
        return
    for i in run[:-1]:
        below = sizes[i + 1] * strides[i + 1]
        yield from p.same(strides[i], below, f"rows of {p.api} without padding")
    yield from p.same(length, product(sizes[i] for i in run), f"what {p.api} adds up")
    if p.call.form == "Outer":
        assert third is not None
        yield from p.same(third, strides[run[-1]], f"elements of a row of {p.api}")
        if run[0] > 0:
            step = strides[run[0] - 1]
            yield from p.same(length * third, step, f"rows of a sum of {p.api}")
        yield from p.same(outer * length * third, total, f"elements of {p.api}")
        return
    if run[0] > 0 and third is not None:
        yield from p.same(third, strides[run[0] - 1], f"pitch of {p.api}")
        yield from p.same(outer * third, total, f"elements of {p.api}")
    else:
        yield from p.same(outer, ONE, f"rows of {p.api}")
    for i in range(run[0] if third is None else 0):
        yield from p.same(sizes[i], ONE, f"rows of {p.api} with a carry")


def _fits(p: Proof) -> Findings:
    """Check that operand, result, carry and scratch space fit their buffers, with rows at 32-byte addresses."""
    found = _counts(p)
    if found is None:
        return  # Reported separately.
    outer, length, third = found
    size = p.n.y.dtype.itemsize
    if p.call.form == "Outer":
        assert third is not None
        if length != 1:
            yield from p.aligned(third * size, f"rows of {p.api}")
        used = [outer * length * third * size] * 2
        kept = third * size
        scratch = scan_outer_bytes(p.n.y.dtype, outer, length, third, p.arch)
    else:
        row = length if third is None else third
        if third is not None:
            yield from p.aligned(third * size, f"rows of {p.api}")
            yield from p.at_least(third, length, f"pitch of {p.api}")
        used = [outer * row * size] * 2
        kept = Expr.of(size)
        few = p.kernel.prover.nonneg(SCANNED_TOGETHER - 1 - outer)
        together = bool(p.n.attrs.get("together", False))
        scratch = scan_inner_bytes(p.n.y.dtype, outer, length, p.arch, few=few, together=together)
    used += [align_up(kept, p.block)] if len(p.n.inputs) > 1 else []
    yield from p.fit([*used, scratch])


def _phases(s: Call) -> Phases:
    dst, tmp, *carry = s.writes
    if s.form == "Inner":
        # It begins with a barrier, and ends with a copy from its scratch space.
        return (((), ()), (s.reads, s.writes), ((tmp,), (dst, tmp)))
    if not carry:
        return ((s.reads, s.writes),)
    # The carry is updated at the end, from the results or from the sums beside them.
    exclusive = s.of[0]
    return ((s.reads, (dst, tmp)), ((*s.reads, tmp) if exclusive else (dst,), (*carry,)))


_NAMES = (
    ("kInclusiveSums", "kExclusiveSums"),
    ("kForward", "kBackward"),
    ("kRowsInTurn", "kRowsTogether"),
)
FUNCTIONS = {
    "Scan": DeviceFunction(
        "scan", _call, _covers, _fits, _flags, _phases, carries=True, flags=_NAMES
    )
}
