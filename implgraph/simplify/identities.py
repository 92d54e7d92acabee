"""Laws of truth values: ops on bools that give an operand, or a constant, for every other operand."""

from __future__ import annotations

from dataclasses import dataclass

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import HintGraph, Node

__all__ = ["TruthIdentities"]

#: The constant with which an op gives its other operand.
_UNIT = {"LogicalAnd": True, "LogicalOr": False, "LogicalXor": False}


@dataclass(frozen=True)
class TruthIdentities:
    """``x and true``, ``x or false``, ``x xor false`` and ``not not x`` are x; a constant selects one of two.

    ``x`` has the dtype and the axes of the result, so that nothing but a name changes. ``x and false`` and
    ``x or true`` are constants, which are not folded here: no frontend writes them.
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
    """The truth that a node is everywhere."""
    known = n.op == "Scalar" and n.y.dtype.kind == "b" and "expr" not in n.attrs
    return bool(n.attrs["value"]) if known else None


def _same(n: Node, nodes: dict[str, Node]) -> Node | None:
    """The operand that ``n`` gives."""
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
    """Return True if ``x`` can stand for ``n``: of its dtype and shape, and no Scalar, which is never stored."""
    varies = [(r == 1, s == 0) for r, s in zip(x.y.repeats, x.y.strides, strict=True)]
    wanted = [(r == 1, s == 0) for r, s in zip(n.y.repeats, n.y.strides, strict=True)]
    return x.op != "Scalar" and x.y.dtype == n.y.dtype and x.axis == n.axis and varies == wanted
