"""Comparisons of a difference of integers with 0 as comparisons of its operands, where the difference does not wrap."""

from __future__ import annotations

from collections import Counter

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode
from autofuse.implgraph.rewrites.value_ranges import Ranges, limits

__all__ = ["COMPARISONS", "without_differences"]

COMPARISONS = frozenset({"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"})


def without_differences(graph: FusionGraph) -> FusionGraph:
    """Rewrite ``a - b <= 0`` as ``a <= b`` etc. for differences with no other use; return ``graph`` itself without any.

    Valid only for integers without overflow, which the intervals of ``a`` and ``b`` must prove.
    """
    if not any(n.op in COMPARISONS and any(map(_is_zero, n.inputs)) for n in graph.nodes):
        return graph
    ranges = Ranges(graph)
    uses = Counter(x for n in graph.nodes for x in n.inputs if isinstance(x, str))
    uses.update(o.tensor for o in graph.outputs)
    made: dict[str, FusionNode] = {}
    dropped: set[str] = set()
    nodes: list[FusionNode] = []
    for n in graph.nodes:
        if n.op == "Sub" and uses[n.outputs[0]] == 1 and _is_whole(ranges, n):
            made[n.outputs[0]] = n
        elif n.op in COMPARISONS:
            difference = next((x for x in n.inputs if isinstance(x, str) and x in made), None)
            if difference is not None and any(map(_is_zero, n.inputs)):
                a, b = made[difference].inputs
                # 0 < a - b is b < a.
                n = replace(n, inputs=(b, a) if _is_zero(n.inputs[0]) else (a, b))
                dropped.add(difference)
        nodes.append(n)
    if not dropped:
        return graph
    return replace(
        graph,
        nodes=tuple(n for n in nodes if n.outputs[0] not in dropped),
        tensors={name: t for name, t in graph.tensors.items() if name not in dropped},
    )


def _is_zero(x: object) -> bool:
    return isinstance(x, Constant) and x.expr is None and x.value == 0


def _is_whole(ranges: Ranges, n: FusionNode) -> bool:
    """Return True if a difference of integers never wraps in its dtype."""
    a, b = (ranges.of(n, x) for x in n.inputs)
    if a is None or b is None or all(isinstance(x, Constant) for x in n.inputs):
        return False
    low, high = limits(ranges.graph.tensors[n.outputs[0]].dtype)
    return low <= a[0] - b[1] and a[1] - b[0] <= high
