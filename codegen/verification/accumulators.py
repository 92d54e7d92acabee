"""Checks of accumulators: what is read of them is what they held at that time, and elements are counted as they go by.

Several statements of a reduce loop may read an accumulator before the one that joins it, and others after it.  All of
them name the same tensor, so that it is the order of the statements that decides which value they get.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.ir.kernel_ir import Call, ScalarRead, SizeValue
from autofuse.codegen.verification.model import Finding, Item, Kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, product, sym
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["accumulators_are_read_in_order", "elements_are_counted"]


def _made(kernel: Kernel) -> Iterator[tuple[int, Item, Node]]:
    """The calls that make the result of a node, with their places."""
    for place, item in enumerate(kernel.items):
        if isinstance(item.stmt, Call):
            node = kernel.maker(item, item.stmt.writes[0])
            if node is not None:
                yield place, item, node


def accumulators_are_read_in_order(kernel: Kernel) -> Iterator[Finding]:
    """In the loop that joins an accumulator its old value is read before that, its new one after it."""
    joined: dict[str, tuple[int, Item]] = {}
    for place, item, node in _made(kernel):
        if node.name in kernel.joins:
            if node.name in joined:
                yield Finding(f"{node.name} is joined twice in an iteration", node.name)
            joined[node.name] = place, item
    inits = {str(n.attrs["joins"]): n.name for n in kernel.joins.values()}
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
    """A Scalar that counts is the number of elements that the reduce loop has gone through."""
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
    """Elements along the reduced axes in the iterations of a reduce loop before this one, or with this one."""
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
            done, step = kernel.index[axis.id] * kernel.t, spec.extent
        else:
            done, step = done + kernel.index[axis.id] * step, step * axis.size
    here = sym("%a") if spec.reduce_tiles else ONE
    return (done + here) * inner if after else done * inner
