"""Extents of ``autofuse::ReduceInner`` and ``ReduceOuter``: [o, r] -> [o] and [o, r, i] -> [o, i] in UB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autofuse.codegen.ir.kernel_ir import Call, LocalArg
from autofuse.codegen.verification.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up, product
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.scratch import reduce_inner_bytes, reduce_outer_bytes

__all__ = ["is_reduction", "reduces_as_its_node", "reduction_covers", "reduction_fits"]

_INNER, _OUTER = "autofuse::ReduceInner<", "autofuse::ReduceOuter<"


def is_reduction(s: Call) -> bool:
    """Whether the call is one of the two functions."""
    return s.api.startswith((_INNER, _OUTER))


def reduces_as_its_node(s: Call, n: Node) -> bool:
    """Whether the function and its operation are those of the node ``ReduceSum``, ``ReduceMax``, and so on."""
    return is_reduction(s) and s.api.endswith(f"<autofuse::{n.op.removeprefix('Reduce')}Of>")


def reduction_covers(
    kernel: Kernel,
    s: Call,
    n: Node,
    counts: Sequence[Expr],
    sizes: Sequence[Expr],
    elements: tuple[Expr, Expr],
) -> Iterator[Finding]:
    """The axes that go are those that the call reduces, all of the tile and nothing of its padding.

    ``sizes`` are the iterations of the vectorised axes of the source in this tile; ``elements`` those of UB from the
    first to the last of the result, and of the source.
    """
    y, left = kernel.nodes[n.inputs[0]].y, set(n.y.vectorized_axis)
    run = [i for i, a in enumerate(y.vectorized_axis) if a not in left]
    if len(counts) != 3 or not run or run != list(range(run[0], run[-1] + 1)):
        yield Finding(f"{s.api} reduces no run of axes", n.name)
        return
    outer, length, third = counts
    strides = y.vectorized_strides
    result, source = elements
    for i in run[:-1]:
        below = sizes[i + 1] * strides[i + 1]
        yield from kernel.same(strides[i], below, f"rows of {s.api} without padding", n.name)
    if (run[-1] + 1 < len(strides)) != s.api.startswith(_OUTER):
        yield Finding(f"{s.api} reduces other axes than {n.name}", n.name)
        return
    if s.api.startswith(_OUTER):
        yield from kernel.same(third, strides[run[-1]], f"elements of a row of {s.api}", n.name)
        yield from kernel.same(
            length, product(sizes[i] for i in run), f"rows that {s.api} reduces", n.name
        )
        if run[0] > 0:
            yield from kernel.same(
                length * third, strides[run[0] - 1], f"elements between results of {s.api}", n.name
            )
        yield from kernel.same(outer * length * third, source, f"elements of {s.api}", n.name)
        yield from kernel.at_least(outer * third, result, f"results of {s.api}", n.name)
        return
    yield from kernel.same(
        length, product(sizes[i] for i in run), f"elements that {s.api} reduces", n.name
    )
    if run[0] > 0:
        yield from kernel.same(third, strides[run[0] - 1], f"pitch of {s.api}", n.name)
        yield from kernel.same(outer * third, source, f"elements of {s.api}", n.name)
    else:
        yield from kernel.same(outer, ONE, f"rows of {s.api}", n.name)
    yield from kernel.at_least(outer, result, f"results of {s.api}", n.name)


def reduction_fits(kernel: Kernel, s: Call, n: Node, counts: Sequence[Expr]) -> Iterator[Finding]:
    """Source, result and scratch space lie in their buffers, rows at 32-byte addresses, and no row is empty."""
    if len(counts) != 3:
        return  # a finding of its own
    locals_ = [a.local for a in s.args if isinstance(a, LocalArg)]
    rooms = [kernel.nbytes.get(kernel.buffer_of(x), ZERO) for x in locals_]
    outer, length, third = counts
    dtype = n.y.dtype
    size = dtype.itemsize
    yield from kernel.at_least(length, ONE, f"elements that {s.api} reduces", n.name)
    yield from kernel.multiple(third * size, kernel.arch.block_bytes, f"rows of {s.api}", n.name)
    if s.api.startswith(_OUTER):
        used = (outer * third * size, outer * length * third * size)
        scratch = reduce_outer_bytes(dtype, outer, length, third, kernel.arch)
    else:
        yield from kernel.at_least(third, length, f"pitch of {s.api}", n.name)
        used = (align_up(outer * size, kernel.arch.block_bytes), outer * third * size)
        scratch = reduce_inner_bytes(n.op, dtype, outer, length, third, kernel.arch)
    for local, room, nbytes in zip(locals_, rooms, used, strict=False):
        yield from kernel.at_least(room, nbytes, f"bytes of {local} in {s.api}", n.name)
    yield from kernel.at_least(rooms[2], scratch, f"scratch space of {s.api}", n.name)
