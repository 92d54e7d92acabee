"""Checks of loop-carried values: reads of accumulators see the right value, counts are exact, sums stay in order.

Several statements of a reduce loop may read an accumulator before the one that joins it, and others after it.  All of
them name the same tensor, so the order of the statements decides which value they read.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.ir.calls import Call, SizeValue
from autofuse.codegen.ir.kernel_ir import ScalarRead
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, product, sym
from autofuse.implgraph.ir.graph import AxisType, Node
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.placement.scan import SCAN, goes_backwards, scanned_axes

__all__ = ["accumulators_are_read_in_order", "elements_are_counted", "sums_go_on_in_order"]


def _made(kernel: Kernel) -> Iterator[tuple[int, Item, Node]]:
    """Yield the calls that compute the result of a node, with their positions."""
    for place, item in enumerate(kernel.items):
        if isinstance(item.stmt, Call):
            node = kernel.maker(item, item.stmt.writes[0])
            if node is not None:
                yield place, item, node


def accumulators_are_read_in_order(kernel: Kernel) -> Iterator[Finding]:
    """In the loop that joins an accumulator, reads of the old value precede the join, the others follow it."""
    joined: dict[str, tuple[int, Item]] = {}
    for place, item, node in _made(kernel):
        if node.name in kernel.joins:
            if node.name in joined:
                yield Finding(f"{node.name} is joined twice in an iteration", node.name)
            joined[node.name] = place, item
    inits = {n.joins: n.name for n in kernel.joins.values() if n.joins is not None}
    for place, item, node in _made(kernel):
        for x in node.inputs:
            by = inits.get(x, x)
            if by not in joined or by == node.name or joined[by][1].place != item.place:
                continue
            late = place > joined[by][0]
            if late and x in inits:
                yield Finding(f"{node.name} reads {x} after {by} has overwritten it", node.name)
            elif not late and x not in inits:
                yield Finding(f"{node.name} reads {x} before it is made", node.name)
    for place, item in enumerate(kernel.items):
        s = item.stmt
        if isinstance(s, ScalarRead):
            for by, (at, other) in joined.items():
                if kernel.local_of(by) == s.local and other.place == item.place and place < at:
                    yield Finding(f"{s.name} is read before {by} is made", by)


def elements_are_counted(kernel: Kernel) -> Iterator[Finding]:
    """Check that a counting Scalar is the number of elements that the reduce loop has processed."""
    for _, item, node in _made(kernel):
        scalars = [kernel.nodes[x] for x in node.inputs if kernel.nodes[x].op == "Scalar"]
        counted = [x for x in scalars if x.attrs.get("count")]
        if not counted:
            continue
        assert isinstance(item.stmt, Call)
        have = [a for a in item.stmt.args if isinstance(a, SizeValue)]
        if len(have) != len(counted) or item.number is None:
            yield Finding(f"{item.stmt.api} does not count elements", node.name)
            continue
        for a, x in zip(have, counted, strict=True):
            want = _done(kernel, after=x.attrs["count"] == "after")
            yield from kernel.same(
                kernel.value(a.value), want, f"elements that {x.name} counts", node.name
            )


def _done(kernel: Kernel, *, after: bool) -> Expr:
    """Return the elements along the reduced axes in the reduce loop's iterations before this one, or up to it."""
    spec = kernel.spec
    gone = {
        a
        for n in kernel.impl.nodes
        if n.op in REDUCES
        for a in kernel.nodes[n.inputs[0]].y.vectorized_axis
        if a not in n.y.vectorized_axis
    }
    inner = product(kernel.axes[a].size for a in gone if a != kernel.tile_in.id)
    done, step = ZERO, ONE
    for axis in reversed(kernel.looped):
        if axis.id == kernel.tile_out.id:
            done, step = kernel.index[axis.id] * kernel.t, spec.opened.extent
        else:
            done, step = done + kernel.index[axis.id] * step, step * axis.size
    here = sym("%a") if spec.reduce_tiles else ONE
    return (done + here) * inner if after else done * inner


def sums_go_on_in_order(kernel: Kernel) -> Iterator[Finding]:
    """A loop over the axes of a sum visits them in the order of its elements, reversed if the sum is.

    Among the axes that a tile does not hold whole, those of the loop are the outer ones, outermost first; a carry is
    initialised before the loop, and its call is in it.
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
