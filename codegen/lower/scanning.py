"""The call of a ``Scan`` node: ``autofuse::ScanInner`` or ``ScanOuter``, with a carry where it is in a loop."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.codegen.ir.kernel_ir import Arg, Call, Count, LocalArg
from autofuse.implgraph.expr.expression import ONE, Expr, align_up, product
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import Node

__all__ = ["scan_call", "scan_name"]


def scan_name(n: Node, inner: bool) -> str:
    """The function, with what a Scan leaves out and where it begins, and that rows are summed side by side."""
    flags = ["true" if n.attrs[k] else "false" for k in ("exclusive", "reverse")]
    flags += ["true"] if inner and n.attrs.get("together") else []
    return f"autofuse::Scan{'Inner' if inner else 'Outer'}<{', '.join(flags)}>"


def scan_call(
    n: Node,
    tensors: tuple[str, str, str, str],
    view: DType | None,
    run: Sequence[int],
    extents: tuple[Sequence[Expr], Sequence[Expr], Sequence[Expr]],
    unit: int,
) -> Call:
    """The statement.

    Args:
        n: the node.
        tensors: result, operand, carry (empty for none) and scratch space.
        view: the type that the tensors are reinterpreted to.
        run: places of the axes that it adds up along among its vectorised axes.
        extents: of the vectorised axes the elements in this tile, those with padding, and those of a whole tile.
        unit: elements of a block of UB.
    """
    dst, src, carry, tmp = tensors
    own, padded, whole = extents
    strides = n.y.vectorized_strides
    inner = bool(run) and run[-1] + 1 == len(own)
    counts: list[Expr]
    if not run:
        counts = [ONE, ONE, product(padded)]
    elif inner:
        pitch = strides[run[0] - 1] if run[0] else None
        if pitch is None:
            pitch = align_up(product(whole[i] for i in run), unit)
        counts = [product(padded[: run[0]]), product(own[i] for i in run), pitch]
    else:
        counts = [product(padded[: run[0]]), product(own[i] for i in run), strides[run[-1]]]
    if carry:
        counts = counts[1:2] if inner else counts[1:]
    args: tuple[Arg, ...] = (
        LocalArg(dst, view),
        LocalArg(src, view),
        *([LocalArg(carry, view)] if carry else []),
        LocalArg(tmp),
        *(Count(c) for c in counts),
    )
    kept = (carry,) if carry else ()
    return Call(scan_name(n, inner), args, (dst, tmp, *kept), (src, *kept))
