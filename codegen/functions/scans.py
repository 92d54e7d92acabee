"""``ScanInner`` and ``ScanOuter``: running sums in UB, and how tiles go on from each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autofuse.codegen.functions.definition import (
    DeviceFunction,
    Extent,
    Findings,
    FunctionSite,
    Phases,
    locals_of,
    room_of,
)
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.ir.kernel_ir import Call, Count, Form
from autofuse.implgraph.expr.expression import ONE, Expr, align_up, product
from autofuse.implgraph.ir.graph import AxisType, Node
from autofuse.schedule.axes.layout import BLOCK
from autofuse.schedule.functions.scratch import scan_inner_bytes, scan_outer_bytes
from autofuse.schedule.placement.scan import (
    SCAN,
    SCANNED_TOGETHER,
    goes_backwards,
    scan_run,
    scanned_axes,
)

if TYPE_CHECKING:
    from autofuse.codegen.verification.model import Kernel

__all__ = ["SCAN_ROWS", "sums_go_on_in_order"]


def _call(s: FunctionSite) -> Call:
    """Running sums along a run of axes of the tile; along none of them, of the tiles."""
    n, y, run = s.node, s.node.y, scan_run(s.node, s.extents.axes)
    carry = s.operands[1:]
    own, padded = [s.extent(a) for a in y.vectorized_axis], s.padded(y)
    strides = y.vectorized_strides
    form: Form = "Inner" if run and run[-1] + 1 == len(own) else "Outer"
    counts: list[Expr]
    if not run:
        counts = [ONE, ONE, product(padded)]
    elif form == "Inner":
        pitch = strides[run[0] - 1] if run[0] else None
        if pitch is None:
            whole = product(s.extents.in_ub(y, i, True) for i in run)
            pitch = align_up(whole, BLOCK // y.dtype.itemsize)
        counts = [product(padded[: run[0]]), product(own[i] for i in run), pitch]
    else:
        counts = [product(padded[: run[0]]), product(own[i] for i in run), strides[run[-1]]]
    if carry:
        counts = counts[1:2] if form == "Inner" else counts[1:]
    return s.made(map(Count, counts), form, _flags(n, form), carry)


def _flags(n: Node, form: Form) -> tuple[bool, ...]:
    """What a Scan leaves out and where it begins, and that rows are summed side by side."""
    together = (True,) if form == "Inner" and n.attrs.get("together") else ()
    return (bool(n.attrs["exclusive"]), bool(n.attrs["reverse"]), *together)


def _counts(s: Call, n: Node, counts: Sequence[Expr]) -> tuple[Expr, Expr, Expr | None] | None:
    """``(outer, n, inner or pitch)``: with a carry there is one row or matrix, and no pitch."""
    carry, inner = len(n.inputs) > 1, s.form == "Inner"
    if len(counts) != (3 - carry - (carry and inner)):
        return None
    if not carry:
        return counts[0], counts[1], counts[2]
    return ONE, counts[0], None if inner else counts[1]


def _covers(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Extent) -> Findings:
    """The call adds up along the axes of its node: all of the tile, and nothing of its padding."""
    found, run = _counts(s, n, counts), scan_run(n, kernel.axes)
    source, y = kernel.nodes[n.inputs[0]].y, n.y
    axes, strides = y.vectorized_axis, y.vectorized_strides
    if found is None or run != list(range(run[0], run[-1] + 1) if run else ()):
        yield Finding(f"{s.api} adds up along no run of axes", n.name)
        return
    if (source.vectorized_axis, source.vectorized_strides) != (axes, strides):
        yield Finding(f"{s.api} reads another layout than it writes", n.name)
    outer, length, third = found
    sizes = [extent(a) for a in axes]
    total = sizes[0] * strides[0] if axes else ONE
    if (bool(run) and run[-1] + 1 == len(axes)) != (s.form == "Inner"):
        yield Finding(f"{s.api} adds up along other axes than {n.name}", n.name)
        return
    if not run:
        if len(n.inputs) < 2:
            yield Finding(f"{s.api} adds up nothing", n.name)
        yield from kernel.same(length, ONE, f"rows of {s.api}", n.name)
        assert third is not None
        yield from kernel.same(third, total, f"elements of {s.api}", n.name)
        return
    for i in run[:-1]:
        below = sizes[i + 1] * strides[i + 1]
        yield from kernel.same(strides[i], below, f"rows of {s.api} without padding", n.name)
    yield from kernel.same(length, product(sizes[i] for i in run), f"what {s.api} adds up", n.name)
    if s.form == "Outer":
        assert third is not None
        yield from kernel.same(third, strides[run[-1]], f"elements of a row of {s.api}", n.name)
        if run[0] > 0:
            step = strides[run[0] - 1]
            yield from kernel.same(length * third, step, f"rows of a sum of {s.api}", n.name)
        yield from kernel.same(outer * length * third, total, f"elements of {s.api}", n.name)
        return
    if run[0] > 0 and third is not None:
        yield from kernel.same(third, strides[run[0] - 1], f"pitch of {s.api}", n.name)
        yield from kernel.same(outer * third, total, f"elements of {s.api}", n.name)
    else:
        yield from kernel.same(outer, ONE, f"rows of {s.api}", n.name)
    for i in range(run[0] if third is None else 0):
        yield from kernel.same(sizes[i], ONE, f"rows of {s.api} with a carry", n.name)


def _fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Findings:
    """Operand, result, carry and scratch space lie in their buffers, rows at 32-byte addresses."""
    found = _counts(s, n, counts)
    if found is None:
        return  # a finding of its own
    locals_ = locals_of(s)
    rooms = [room_of(kernel, x) for x in locals_]
    outer, length, third = found
    size = n.y.dtype.itemsize
    if s.form == "Outer":
        assert third is not None
        if length != 1:
            yield from kernel.multiple(third * size, BLOCK, f"rows of {s.api}", n.name)
        used = [outer * length * third * size] * 2
        kept = third * size
        scratch = scan_outer_bytes(n.y.dtype, outer, length, third)
    else:
        row = length if third is None else third
        if third is not None:
            yield from kernel.multiple(third * size, BLOCK, f"rows of {s.api}", n.name)
            yield from kernel.at_least(third, length, f"pitch of {s.api}", n.name)
        used = [outer * row * size] * 2
        kept = Expr.of(size)
        few = kernel.prover.nonneg(SCANNED_TOGETHER - 1 - outer)
        together = bool(n.attrs.get("together", False))
        scratch = scan_inner_bytes(n.y.dtype, outer, length, few=few, together=together)
    used += [align_up(kept, BLOCK)] if len(n.inputs) > 1 else []
    for local, room, nbytes in zip(locals_, rooms, [*used, scratch], strict=True):
        yield from kernel.at_least(room, nbytes, f"bytes of {local} in {s.api}", n.name)


def _phases(s: Call) -> Phases:
    dst, tmp, *carry = s.writes
    if s.form == "Inner":
        # It begins with a barrier, and ends with a copy from its scratch space.
        return (((), ()), (s.reads, s.writes), ((tmp,), (dst, tmp)))
    if not carry:
        return ((s.reads, s.writes),)
    # What is carried on is brought up to date at the end, from the results or from the sums beside them.
    exclusive = s.of[0]
    return ((s.reads, (dst, tmp)), ((*s.reads, tmp) if exclusive else (dst,), (*carry,)))


SCAN_ROWS = DeviceFunction("scan", _call, _covers, _fits, _flags, _phases, carries=True)


def sums_go_on_in_order(kernel: Kernel) -> Findings:
    """A loop over the axes of a sum goes through them in the order of its elements, from the end if the sum does.

    Of the axes that a tile does not hold whole, those of the loop are the outer ones, outermost first; a carry is set
    before the loop, and its call is in it.
    """
    impl = kernel.impl
    for n in impl.nodes:
        if n.op != SCAN:
            continue
        axes = [impl.axes[a] for a in scanned_axes(n)]
        inside = {i for a in n.y.vectorized_axis for i in (a, *kernel.axes[a].origin)}
        looped = [a.origin[0] if a.type is AxisType.TILE_OUT else a.id for a in kernel.looped]
        if n.loop_axis == impl.r_axis and impl.r_axis is not None:
            if looped != [a.id for a in axes[: len(looped)]]:
                yield Finding("the loop goes through other axes than the sum", n.name)
            if bool(n.attrs["reverse"]) != goes_backwards(impl):
                yield Finding("the loop goes in another direction than the sum", n.name)
            carry = kernel.nodes.get(n.inputs[1]) if len(n.inputs) > 1 else None
            if carry is None or carry.op != "Duplicate" or carry.loop_axis == impl.r_axis:
                yield Finding("nothing is carried from tile to tile", n.name)
            elif _value(kernel, carry) != 0:
                yield Finding("the sum does not begin with 0", n.name)
        elif len(n.inputs) > 1:
            yield Finding("a carry goes from one sum to another", n.name)
        else:
            looped = []
        rest = [a for a in axes if a.id not in looped and a.size != 1]
        whole = [a.id for a in rest if a.id not in inside]
        if whole:
            yield Finding(f"a tile does not hold all of {impl.axes[whole[0]].name}", n.name)
        order = [i for i in n.y.vectorized_axis if i in {a.id for a in rest}]
        if order != [a.id for a in rest if a.id in order]:
            yield Finding("the axes of the sum are in another order in UB", n.name)


def _value(kernel: Kernel, carry: Node) -> object:
    return kernel.nodes[carry.inputs[0]].attrs.get("value")
