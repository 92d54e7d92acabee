"""Moves gathers before element-wise work, so that it is computed for the gathered elements only.

``GatherElements(f(x, r), i)`` along an axis is ``f(GatherElements(x, i), r)`` where ``r`` does not vary along it: a
classification loss needs one logit and two numbers per row, not a row of logarithms in memory.
"""

from __future__ import annotations

from dataclasses import replace

from autofuse.implgraph.expr.expression import ONE
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, Operand, Tensor
from autofuse.implgraph.ops.registry import lookup

__all__ = ["with_early_gathers"]


def with_early_gathers(graph: FusionGraph) -> FusionGraph:
    """Return the graph with GatherElements of one element per line moved before the element-wise ops they follow."""
    makers = {t: n for n in graph.nodes for t in n.outputs}
    moved = _Moved(graph, makers)
    nodes: list[FusionNode] = []
    for n in graph.nodes:
        nodes += moved.before(n) if n.op == "GatherElements" else [n]
    if len(moved.tensors) == len(graph.tensors):
        return graph
    used = {o.tensor for o in graph.outputs}
    kept: list[FusionNode] = []
    for n in reversed(nodes):
        if not used.isdisjoint(n.outputs):
            kept.append(n)
            used.update(x for x in n.inputs if isinstance(x, str))
    tensors = {name: t for name, t in moved.tensors.items() if name in used or name in graph.inputs}
    return replace(graph, nodes=tuple(reversed(kept)), tensors=tensors)


class _Moved:
    """Moved gathers, and the tensors that move with them."""

    def __init__(self, graph: FusionGraph, makers: dict[str, FusionNode]) -> None:
        self.makers = makers
        self.tensors: dict[str, Tensor] = dict(graph.tensors)

    def before(self, gather: FusionNode) -> list[FusionNode]:
        """Return the replacement of a gather: gathers of the operands, and the op on their results."""
        source, index = gather.inputs
        assert isinstance(source, str)
        assert isinstance(index, str)
        shape, wanted = self.tensors[source].shape, self.tensors[index].shape
        axis = int(str(gather.attrs["axis"])) % len(shape)
        maker = self.makers.get(source)
        one = (
            wanted[axis] == ONE
            and wanted[:axis] == shape[:axis]
            and wanted[axis + 1 :] == shape[axis + 1 :]
        )
        if maker is not None and one and maker.op == "Reshape":
            return self._before_view(gather, maker, axis)
        if maker is None or not one or not self._is_elementwise(maker):
            return [gather]
        made: list[FusionNode] = []
        inputs: list[Operand] = []
        for k, x in enumerate(maker.inputs):
            if not isinstance(x, str):
                inputs.append(x)
                continue
            t = self.tensors[x]
            if t.shape == wanted or t.shape == ():
                inputs.append(x)
            elif t.shape == shape:
                name = self._fresh(f"{gather.name}_{k}")
                self.tensors[name] = replace(t, name=name, shape=wanted, strides=None, offset=None)
                made += self.before(
                    FusionNode(name, gather.op, (x, index), (name,), gather.attrs, gather.origin)
                )
                inputs.append(name)
            else:
                return [gather]
        last = FusionNode(
            gather.name,
            maker.op,
            tuple(inputs),
            gather.outputs,
            maker.attrs,
            gather.origin,
            gather.called,
        )
        return [*made, last]

    def _before_view(self, gather: FusionNode, view: FusionNode, axis: int) -> list[FusionNode]:
        """Return the replacement of a gather from a view that keeps the innermost dimension, along which it gathers."""
        source, (whole, index) = view.inputs[0], gather.inputs
        assert isinstance(source, str)
        assert isinstance(whole, str)
        assert isinstance(index, str)
        shape, seen = self.tensors[source].shape, self.tensors[whole].shape
        if axis + 1 != len(seen) or not shape or shape[-1] != seen[-1]:
            return [gather]
        lines = (*shape[:-1], ONE)
        places, taken = (self._fresh(f"{gather.name}_{what}") for what in ("places", "taken"))
        for name, like in ((places, index), (taken, source)):
            t = self.tensors[like]
            self.tensors[name] = replace(t, name=name, shape=lines, strides=None, offset=None)
        attrs = {"axis": len(shape) - 1}
        inner = FusionNode(taken, gather.op, (source, places), (taken,), attrs, gather.origin)
        wanted = self.tensors[gather.outputs[0]].shape
        return [
            FusionNode(places, "Reshape", (index,), (places,), {"shape": lines}, gather.origin),
            *self.before(inner),
            replace(gather, op="Reshape", inputs=(taken,), attrs={"shape": wanted}),
        ]

    def _is_elementwise(self, n: FusionNode) -> bool:
        row = lookup(n.op)
        return row.compute_type == "elewise" and len(n.outputs) == 1

    def _fresh(self, name: str) -> str:
        new, k = name, 0
        while new in self.tensors:
            k += 1
            new = f"{name}_{k}"
        return new
