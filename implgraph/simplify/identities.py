"""Boolean identities: ops on bools that return an operand, whatever its value."""

from __future__ import annotations

from dataclasses import dataclass

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import HintGraph, Node

__all__ = ["TruthIdentities"]

#: The constant operand for which an op returns its other operand.
_UNIT = {"LogicalAnd": True, "LogicalOr": False, "LogicalXor": False}


@dataclass(frozen=True)
class TruthIdentities:
    """Simplifies ``x and true``, ``x or false``, ``x xor false``, ``not not x`` to x, and a Select by a constant.

    ``x`` has the dtype and the axes of the result, so that only a name changes.  ``x and false`` and ``x or true`` are
    not folded here: no frontend writes them.
    """

    name: str = "truth-identities"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Replace."""
        names: dict[str, str] = {}
        nodes: dict[str, Node] = {}
        out: list[Node] = []
        for old in ir.nodes:
            n = old
            if not names.keys().isdisjoint(n.inputs):
                n = replace(n, inputs=tuple(names.get(i, i) for i in n.inputs))
            same = _same(n, nodes)
            if same is not None and _is_like(same, n):
                names[n.name] = same.name
                continue
            nodes[n.name] = n
            out.append(n)
        return replace(ir, nodes=tuple(out)) if names else ir


def _truth(n: Node) -> bool | None:
    """Return the truth value of a constant node, or None."""
    known = n.op == "Scalar" and n.y.dtype.kind == "b" and "expr" not in n.attrs
    return bool(n.attrs["value"]) if known else None


def _same(n: Node, nodes: dict[str, Node]) -> Node | None:
    """Return the operand that ``n`` returns, or None."""
    if n.op in _UNIT:
        a, b = (nodes[i] for i in n.inputs)
        for x, other in ((a, b), (b, a)):
            if _truth(other) is _UNIT[n.op]:
                return x
    elif n.op == "LogicalNot":
        inner = nodes[n.inputs[0]]
        return nodes[inner.inputs[0]] if inner.op == "LogicalNot" else None
    elif n.op == "Select":
        held = _truth(nodes[n.inputs[0]])
        return None if held is None else nodes[n.inputs[1 if held else 2]]
    return None


def _is_like(x: Node, n: Node) -> bool:
    """Return True if ``x`` can replace ``n``: same dtype and shape, and not a Scalar, which is never stored."""
    varies = [(r == 1, s == 0) for r, s in zip(x.y.repeats, x.y.strides, strict=True)]
    wanted = [(r == 1, s == 0) for r, s in zip(n.y.repeats, n.y.strides, strict=True)]
    return x.op != "Scalar" and x.y.dtype == n.y.dtype and x.axis == n.axis and varies == wanted
