"""Calls of ``autofuse::ScanInner`` and ``ScanOuter``: running sums in UB, and how tiles go on from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autofuse.codegen.ir.kernel_ir import Call, LocalArg
from autofuse.codegen.lower.scanning import scan_name
from autofuse.codegen.verification.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up, product
from autofuse.implgraph.ir.graph import AxisType, Node
from autofuse.implgraph.ops.scratch import SCANNED_TOGETHER, scan_inner_bytes, scan_outer_bytes
from autofuse.schedule.placement.scan import SCAN, goes_backwards, scan_run, scanned_axes

__all__ = ["is_scan", "scan_covers", "scan_fits", "scans_as_its_node", "sums_go_on_in_order"]

_INNER, _OUTER = "autofuse::ScanInner<", "autofuse::ScanOuter<"


def is_scan(s: Call) -> bool:
    """Whether the call is one of the two functions."""
    return s.api.startswith((_INNER, _OUTER))


def scans_as_its_node(s: Call, n: Node) -> bool:
    """Whether the function leaves out what its node does, and begins at the same end."""
    return n.op == SCAN and s.api in (scan_name(n, True), scan_name(n, False))


def _counts(s: Call, n: Node, counts: Sequence[Expr]) -> tuple[Expr, Expr, Expr | None] | None:
    """``(outer, n, inner or pitch)``: with a carry there is one row or matrix, and no pitch."""
    carry, inner = len(n.inputs) > 1, s.api.startswith(_INNER)
    if len(counts) != (3 - carry - (carry and inner)):
        return None
    if not carry:
        return counts[0], counts[1], counts[2]
    return ONE, counts[0], None if inner else counts[1]


def scan_covers(
    kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr], extent: Callable[[int], Expr]
) -> Iterator[Finding]:
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
    if (bool(run) and run[-1] + 1 == len(axes)) != s.api.startswith(_INNER):
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
    if s.api.startswith(_OUTER):
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


def scan_fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Iterator[Finding]:
    """Operand, result, carry and scratch space lie in their buffers, rows at 32-byte addresses."""
    found = _counts(s, n, counts)
    if found is None:
        return  # a finding of its own
    locals_ = [a.local for a in s.args if isinstance(a, LocalArg)]
    rooms = [kernel.nbytes.get(kernel.buffer_of(x), ZERO) for x in locals_]
    outer, length, third = found
    size = n.y.dtype.itemsize
    if s.api.startswith(_OUTER):
        assert third is not None
        if length != 1:
            yield from kernel.multiple(
                third * size, kernel.arch.block_bytes, f"rows of {s.api}", n.name
            )
        used = [outer * length * third * size] * 2
        kept = third * size
        scratch = scan_outer_bytes(n.y.dtype, outer, length, third, kernel.arch)
    else:
        row = length if third is None else third
        if third is not None:
            yield from kernel.multiple(
                third * size, kernel.arch.block_bytes, f"rows of {s.api}", n.name
            )
            yield from kernel.at_least(third, length, f"pitch of {s.api}", n.name)
        used = [outer * row * size] * 2
        kept = Expr.of(size)
        few = kernel.prover.nonneg(SCANNED_TOGETHER - 1 - outer)
        together = bool(n.attrs.get("together", False))
        scratch = scan_inner_bytes(
            n.y.dtype, outer, length, kernel.arch, few=few, together=together
        )
    used += [align_up(kept, kernel.arch.block_bytes)] if len(n.inputs) > 1 else []
    for local, room, nbytes in zip(locals_, rooms, [*used, scratch], strict=True):
        yield from kernel.at_least(room, nbytes, f"bytes of {local} in {s.api}", n.name)


def sums_go_on_in_order(kernel: Kernel) -> Iterator[Finding]:
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
