"""Recognises reversed or exclusive running sums that a graph writes with Slices and a Concat around CumSum.

``flip(CumSum(flip(x)))`` is ``CumSum(x, reverse)``, and ``Concat(0, CumSum(x without its last element))`` is
``CumSum(x, exclusive)``: one pass over x instead of several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from autofuse.implgraph.expr.expression import ONE, Expr
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode

__all__ = ["with_whole_running_sums"]


def with_whole_running_sums(graph: FusionGraph) -> FusionGraph:
    """Return the graph with each CumSum absorbing the Slices or Concat around it."""
    found = _Sums(graph)
    nodes = [found.whole(n) for n in graph.nodes]
    if nodes == list(graph.nodes):
        return graph
    used = {o.tensor for o in graph.outputs}
    kept: list[FusionNode] = []
    for n in reversed(nodes):
        if not used.isdisjoint(n.outputs):
            kept.append(n)
            used.update(x for x in n.inputs if isinstance(x, str))
    tensors = {name: t for name, t in graph.tensors.items() if name in used or name in graph.inputs}
    return replace(graph, nodes=tuple(reversed(kept)), tensors=tensors)


class _Sums:
    def __init__(self, graph: FusionGraph) -> None:
        self.graph = graph
        self.makers = {t: n for n in graph.nodes for t in n.outputs}

    def whole(self, n: FusionNode) -> FusionNode:
        """Return a node, or an equivalent CumSum of an earlier tensor."""
        if n.op == "Slice" and (axis := self._flipped(n)) is not None:
            total = self._made(n.inputs[0], "CumSum")
            inner = total and self._made(total.inputs[0], "Slice")
            if total and inner and self._axis(total) == axis == self._flipped(inner):
                attrs = dict(total.attrs) | {"reverse": not total.attrs.get("reverse", False)}
                return replace(n, op="CumSum", inputs=inner.inputs, attrs=attrs)
        if n.op == "Concat" and len(n.inputs) == 2:
            total = self._made(n.inputs[1], "CumSum")
            inner = total and self._made(total.inputs[0], "Slice")
            if total and inner and self._fills(n, total) and self._without_last(inner, total, n):
                attrs = dict(total.attrs) | {"exclusive": True}
                return replace(n, op="CumSum", inputs=inner.inputs, attrs=attrs)
        return n

    def _made(self, tensor: object, op: str) -> FusionNode | None:
        """Return the node that produces a tensor, if it has this op."""
        maker = self.makers.get(tensor) if isinstance(tensor, str) else None
        return maker if maker is not None and maker.op == op else None

    def _shape(self, tensor: object) -> tuple[Expr, ...]:
        return self.graph.tensors[str(tensor)].shape

    def _axis(self, n: FusionNode) -> int:
        return int(str(n.attrs["axis"])) % len(self._shape(n.outputs[0]))

    def _flipped(self, n: FusionNode) -> int | None:
        """Return the axis along which a Slice only reverses a whole tensor; None for any other Slice."""
        shape = self._shape(n.inputs[0])
        if self._shape(n.outputs[0]) != shape:
            return None
        turned = [k for k, (_, step) in enumerate(self._ways(n)) if step == -1]
        whole = all(
            (step == 1 and start == 0) or (step == -1 and start == extent - ONE)
            for (start, step), extent in zip(self._ways(n), shape, strict=True)
        )
        return turned[0] if whole and len(turned) == 1 else None

    def _ways(self, n: FusionNode) -> Iterator[tuple[Expr, int]]:
        """Return start and step of a Slice along every axis."""
        starts = cast("tuple[Expr, ...]", n.attrs["starts"])
        steps = cast("tuple[int, ...]", n.attrs.get("steps") or (1,) * len(starts))
        return zip(starts, steps, strict=True)

    def _fills(self, n: FusionNode, total: FusionNode) -> bool:
        """Return True if a Concat prepends one 0 to an inclusive sum from the start."""
        zeros = self._made(n.inputs[0], "Broadcast")
        constant = zeros.inputs[0] if zeros else None
        return (
            isinstance(constant, Constant)
            and constant.value == 0
            and self._axis(n) == self._axis(total)
            and self._shape(n.inputs[0])[self._axis(n)] == ONE
            and not total.attrs.get("exclusive", False)
            and not total.attrs.get("reverse", False)
        )

    def _without_last(self, inner: FusionNode, total: FusionNode, n: FusionNode) -> bool:
        """Return True if a Slice drops only the last element along the axis of the sum."""
        axis, source = self._axis(total), self._shape(inner.inputs[0])
        return source == self._shape(n.outputs[0]) and all(
            start == 0 and step == 1 and kept == (extent - ONE if k == axis else extent)
            for k, ((start, step), kept, extent) in enumerate(
                zip(self._ways(inner), self._shape(inner.outputs[0]), source, strict=True)
            )
        )
