"""The calls of nodes that pick elements of a run in UB."""

from __future__ import annotations

from collections.abc import Callable

from autofuse.codegen.ir.intrinsics import scratch
from autofuse.codegen.ir.kernel_ir import Arg, Call, Count, LocalArg, Role
from autofuse.implgraph.expr.expression import Expr, const, divide_exact
from autofuse.implgraph.ir.graph import Node

__all__ = ["pick_call", "pick_counts"]


def pick_call(n: Node, api: str, dst: str, operands: tuple[str, ...], counts: list[Expr]) -> Call:
    """The statement.

    Args:
        n: the node.
        api: the function.
        dst: the result.
        operands: the run, and the table of offsets if the function takes one.
        counts: as :func:`pick_counts` gives them.
    """
    tmp = tuple(scratch(n) for _ in n.tmp_buffers)
    args: tuple[Arg, ...] = (
        *(LocalArg(t) for t in (dst, *operands)),
        *(LocalArg(t, None, Role.SCRATCH) for t in tmp),
        *(Count(c) for c in counts),
    )
    return Call(api, args, (dst, *tmp), operands)


def pick_counts(n: Node, elements: Expr, extent: Callable[[int], Expr]) -> list[Expr]:
    """What a call states behind its tensors, in elements.

    ``count, step``, and ``first`` if it is not 0; of several rows that are gone through from their end
    ``rows, n, pitch, step``.

    Args:
        n: the node.
        elements: of the result, rows with their padding.
        extent: iterations of a vectorised axis in this tile.
    """
    step = const(n.number("step"))
    axes = n.y.vectorized_axis
    if n.op != "PickBack" or len(axes) < 2:
        first = n.number("first", 0)
        return [elements, step, *([const(first)] if first else [])]
    pitch = n.y.vectorized_strides[-2]
    rows = divide_exact(elements, pitch)
    assert rows is not None, f"rows of {pitch} elements do not make {elements}"
    return [rows, extent(axes[-1]), pitch, step]
