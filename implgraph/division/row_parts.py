"""Sums of columns beside what is computed for each row, in one pass over the rows.

The gradient of a norm sums along rows for each row's own gradient, and along columns for those of the weights.  A group
reduces either rows or columns, so it would read the rows twice.  Here a column is summed in parts: a group that walks
whole rows adds up every ``part`` of them and writes one row per part to a workspace.  A small group sums these::

    x [rows, columns] -> ReduceSum of every part -> [parts, columns] -> ReduceSum -> [columns]

The first of the two has the attribute :data:`~autofuse.implgraph.ops.rows.reductions.PART`.  The last part may be
shorter, so the number of rows may be any, and known at run time only.

:mod:`autofuse.implgraph.division.worth` proposes the form.  With known sizes the scheduler compares it with others;
otherwise the host does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from autofuse.implgraph.division.online_parts import axes_of
from autofuse.implgraph.division.split_reductions import flattened
from autofuse.implgraph.division.worth import Worth
from autofuse.implgraph.expr.expression import CeilDiv, Expr, ExprError, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import AttrValue, FusionGraph, FusionNode, Operand, Tensor
from autofuse.implgraph.ops.rows.reductions import PART, REDUCES
from autofuse.targets import TargetSpec

__all__ = ["in_row_parts"]


def in_row_parts(graph: FusionGraph, target: TargetSpec) -> FusionGraph:
    """Return the graph with column sums in parts of rows; the graph itself without any beside other work on the rows.

    Args:
        graph: a graph without composite ops.
        target: the chip; gives the number of cores and the cost of a barrier.
    """
    hints = {s.name: s.hint for s in graph.symbols if s.hint is not None}

    def typical(size: Expr) -> int | None:
        try:
            return size.evaluate(hints) if size.symbols() <= hints.keys() else None
        except ExprError:
            return None  # it divides by a size that is 0 at the hints

    columns = dict(_column_sums(graph))
    worth, others = Worth(target), _other_work(graph, columns)
    parts = {
        name: worth.rows_per_part(typical(shape[0]), typical(product(shape) * itemsize))
        for name, (shape, itemsize) in columns.items()
        if product(shape) in others
    }
    if not any(parts.values()):
        return graph
    tensors = dict(graph.tensors)
    taken = {n.name for n in graph.nodes} | set(tensors)
    nodes: list[FusionNode] = []

    def put(
        n: FusionNode, what: str, op: str, x: str, dims: tuple[Expr, ...], **attrs: AttrValue
    ) -> str:
        name = f"{n.name}_{what}"
        while name in taken:
            name += "_"
        taken.add(name)
        tensors[name] = Tensor(name, tensors[x].dtype, dims, origin=n.origin)
        nodes.append(FusionNode(name, op, (x,), (name,), attrs, n.origin))
        return name

    for n in graph.nodes:
        part = parts.get(n.name, 0)
        if not part:
            nodes.append(n)
            continue
        (x,) = n.inputs
        assert isinstance(x, str)
        shape, _ = columns[n.name]
        few = (CeilDiv(shape[0], part), *shape[1:])
        flat = put(n, "rows", "Reshape", x, shape, shape=shape)
        partial = put(n, "parts", n.op, flat, few, axes=(0,), keepdims=False, **{PART: part})
        whole = put(n, "whole", n.op, partial, shape[1:], axes=(0,), keepdims=False)
        attrs: dict[str, AttrValue] = {"shape": tensors[n.outputs[0]].shape}
        nodes.append(FusionNode(n.name, "Reshape", (whole,), n.outputs, attrs, n.origin))
    return replace(graph, nodes=tuple(nodes), tensors=tensors)


def _column_sums(graph: FusionGraph) -> Iterator[tuple[str, tuple[tuple[Expr, ...], int]]]:
    """Yield the reductions of all dimensions but the inner ones: name, shape [rows, columns], bytes of an element."""
    for n in graph.nodes:
        x = n.inputs[0] if n.op in REDUCES else None
        if isinstance(x, str):
            t = graph.tensors[x]
            shape, gone = flattened(t.shape, axes_of(n, len(t.shape)))
            if gone == (0,) and len(shape) > 1:
                yield n.name, ((shape[0], product(shape[1:])), t.dtype.itemsize)


def _other_work(graph: FusionGraph, columns: Collection[str]) -> set[Expr]:
    """Return the sizes of tensors that are stored, or reduced in another way, and need none of these reductions."""
    late: set[str] = set()
    reduced: list[Operand] = []
    for n in graph.nodes:
        if n.name in columns or not late.isdisjoint(x for x in n.inputs if isinstance(x, str)):
            late.update(n.outputs)
        elif n.op in REDUCES:
            reduced += n.inputs[:1]
    found = (*reduced, *(o.tensor for o in graph.outputs))
    return {product(graph.tensors[x].shape) for x in found if isinstance(x, str) and x not in late}
