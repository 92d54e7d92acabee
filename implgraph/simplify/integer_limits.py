"""Removes clamps before a conversion to an integer, which saturates anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import HintGraph, Node

__all__ = ["IntegerLimits"]


@dataclass(frozen=True)
class IntegerLimits:
    """Removes a Maximum or Minimum with a number at or beyond the integer's end before a Cast from float to integer.

    The conversion clamps the same values, and NaN, which they propagate, becomes 0 either way.
    """

    name: str = "integer-limits"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Leave out."""
        nodes = {n.name: n for n in ir.nodes}
        out: list[Node] = []
        for n in ir.nodes:
            if n.op == "Cast" and n.y.dtype.kind in "iu":
                source = n.inputs[0]
                while (inner := _within(nodes[source], n.y.dtype, nodes)) is not None:
                    source = inner
                if source != n.inputs[0]:
                    n = replace(n, inputs=(source,))
            out.append(n)
        changed = any(a is not b for a, b in zip(out, ir.nodes, strict=True))
        return replace(ir, nodes=tuple(out)) if changed else ir


def _within(n: Node, to: DType, nodes: Mapping[str, Node]) -> str | None:
    """Return the operand that ``n`` clamps to no less than the range of ``to``, or None."""
    if n.op not in ("Maximum", "Minimum") or n.y.dtype.kind != "f":
        return None
    for x, limit in (n.inputs, n.inputs[::-1]):
        c = nodes[limit].attrs.get("value") if nodes[limit].op == "Scalar" else None
        if not isinstance(c, (int, float)) or nodes[x].y.repeats != n.y.repeats:
            continue
        low = -(1 << (to.bits - 1)) if to.kind == "i" else 0
        high = low + (1 << to.bits) - 1
        if (c >= high) if n.op == "Minimum" else (c <= low):
            return x
    return None
