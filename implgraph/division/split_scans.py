"""Long running sums of few rows in two phases, so that all cores take part.

A row is divided as reductions divide it (:mod:`autofuse.implgraph.division.split_reductions`).  The cores first sum
their parts.  An exclusive running sum of these few totals, in the same type, gives the offset of every part; then each
core reads its part a second time::

    x -> parts [parts, length] -> ReduceSum -> [parts] -> CumSum, exclusive -+
                 |                                                           v
                 +-> CumSum -> [parts, length] ----------------------------> Add -+-> Concat -> result
    x -> rest -> CumSum -> Add: the total of all parts ---------------------------+

Sums from the end work the same way, with the rest first: its total is added to all parts.  The order of additions does
not depend on which core finishes first.
"""

from __future__ import annotations

from autofuse.implgraph.division.online_parts import Builder, Half
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr
from autofuse.implgraph.ir.fusion import AttrValue, Constant, FusionNode, Operand

__all__ = ["divided_scan"]


def divided_scan(
    b: Builder, n: FusionNode, x: str, shape: tuple[Expr, ...], main: Half, short: Half | None
) -> str:
    """Compute the running sums of ``x`` from those of its parts; return their tensor, with the axes of the halves.

    Args:
        b: the graph under construction.
        n: a CumSum.
        x: its operand.
        shape: shape of the operand, with the axes of the halves.
        main: the equal parts; the axis of the sums follows that of the parts.
        short: the short part, or None.
    """
    dtype, axis = b.tensors[x].dtype, main.lined
    backwards = bool(n.attrs.get("reverse", False))
    flags: dict[str, AttrValue] = {
        "exclusive": bool(n.attrs.get("exclusive", False)),
        "reverse": backwards,
    }

    def put(what: str, op: str, operands: list[Operand], half: Half, **attrs: AttrValue) -> str:
        """Add a node whose result has the elements of ``half``."""
        return b.put(n, what, op, operands, half.full, dtype, attrs)

    def total(what: str, x: str, half: Half) -> str:
        """Return the sum of each part."""
        dims = half.results(half.full)
        if all(half.full[d] == ONE for d in half.gone):
            return b.put(n, what, "Reshape", [x], dims, dtype, {"shape": dims})
        return b.put(n, what, "ReduceSum", [x], dims, dtype, {"axes": half.gone})

    def shifted(what: str, x: str, by: str, half: Half) -> str:
        """Add to ``x`` one number for each of its parts, or for each row."""
        y = b.put(n, what, "Reshape", [by], half.kept, dtype, {"shape": half.kept})
        return put(what, "Add", [x, y], half)

    parts = b.half_of(n, x, main)
    totals = total("totals", parts, main)
    dims = b.tensors[totals].shape
    before = b.put(
        n,
        "before",
        "CumSum",
        [totals],
        dims,
        dtype,
        {"axis": axis, "exclusive": True, "reverse": backwards},
    )
    sums = put("sums", "CumSum", [parts], main, axis=axis + 1, **flags)
    if short is None:
        return _joined(b, n, shifted("sums", sums, before, main), main)
    rest = b.half_of(n, x, short)
    if backwards:
        rows = main.results(main.rows)
        last = total("last", rest, short)
        last = b.put(n, "last", "Reshape", [last], rows, dtype, {"shape": rows})
        before = b.put(n, "before", "Add", [before, last], dims, dtype, {})
    if short.full[axis] != ONE:
        tail = put("rest", "CumSum", [rest], short, axis=axis, **flags)
    elif flags["exclusive"]:
        zero = Constant(0.0 if dtype.kind == "f" else 0, dtype)
        tail = put("rest", "Broadcast", [zero], short, shape=short.full)
    else:
        tail = rest
    if not backwards:
        lasts = [_last(b, n, y, axis) for y in (before, totals)]
        whole = b.put(n, "whole", "Add", lasts, b.tensors[lasts[0]].shape, dtype, {})
        tail = shifted("rest", tail, whole, short)
    first = _joined(b, n, shifted("sums", sums, before, main), main)
    return b.put(n, "joined", "Concat", [first, tail], shape, dtype, {"axis": axis})


def _last(b: Builder, n: FusionNode, x: str, axis: int) -> str:
    """Return the last of the numbers along an axis."""
    shape, rank = b.tensors[x].shape, len(b.tensors[x].shape)
    dims = tuple(ONE if d == axis else s for d, s in enumerate(shape))
    starts = tuple(shape[axis] - 1 if d == axis else ZERO for d in range(rank))
    attrs: dict[str, AttrValue] = {"starts": starts, "shape": dims, "steps": (1,) * rank}
    return b.put(n, "last", "Slice", [x], dims, b.tensors[x].dtype, attrs)


def _joined(b: Builder, n: FusionNode, x: str, main: Half) -> str:
    """Return the parts as one row."""
    at = main.lined
    dims = (*main.full[:at], main.full[at] * main.full[at + 1], *main.full[at + 2 :])
    return b.put(n, "parts", "Reshape", [x], dims, b.tensors[x].dtype, {"shape": dims})
