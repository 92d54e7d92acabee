"""Facts about a group with reductions that do not depend on the axis split, computed once for all templates."""

from __future__ import annotations

from autofuse.implgraph.division.online_reductions import Online, online_reductions
from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.axes.tiling_axes import GroupInput
from autofuse.schedule.legal.ends import is_sink, is_source
from autofuse.schedule.placement.placement import STRUCTURAL

__all__ = ["DataFlow"]


class DataFlow:
    """Users of the nodes of a group, and the axes along which data change.

    Attributes:
        nodes: all nodes except those that represent GM.
        structural: nodes that represent GM inputs, and constants.
        users: node -> the nodes that use its result, each once.
        varies: node -> the axes along which its elements differ.
        moves: node -> the axes with which its result changes if all axes were loops.
        gone: reduction -> the axes that it reduces.
    """

    def __init__(self, g: GroupInput) -> None:
        self.g = g
        self.nodes = [n for n in g.nodes if not is_source(n) and not is_sink(n)]
        self.structural = [n for n in g.nodes if n.op == "Scalar" or is_source(n)]
        self.by_name = {n.name: n for n in g.nodes}
        self.users: dict[str, list[Node]] = {n.name: [] for n in g.nodes}
        self.varies: dict[str, frozenset[int]] = {}
        self.moves: dict[str, frozenset[int]] = {}
        self.gone: dict[str, frozenset[int]] = {}
        self._rules: dict[str, Online] | None = None
        for n in g.nodes:
            for i in dict.fromkeys(n.inputs):
                self.users[i].append(n)
            self.varies[n.name] = frozenset(n.y.varies())
            if n.op in REDUCES:
                inside = not self.varies[n.inputs[0]].isdisjoint(g.within) and self.varies[
                    n.name
                ].isdisjoint(g.within)
                self.gone[n.name] = frozenset(g.within if inside else g.reduced)
            self.moves[n.name] = self._move(n)

    def _move(self, n: Node) -> frozenset[int]:
        if n.op in STRUCTURAL:
            return frozenset()
        inputs = [self.moves[i] for i in n.inputs]
        if n.op in ("Load", "Iota", "Store"):
            return self.varies[n.name].union(*inputs)
        found = inputs[0] if len(inputs) == 1 else frozenset[int]().union(*inputs)
        return found.difference(self.gone.get(n.name, ()))

    def rules(self) -> dict[str, Online]:
        """Return the reductions that can run in the pass of those that they follow; computed on demand."""
        if self._rules is None:
            g = self.g
            count = product(map(g.size, g.reduced))
            looped = frozenset(g.reduced)
            # Sums beside reductions within a tile depend on these in other ways.
            self._rules = {} if g.within else online_reductions(g.nodes, looped, count)
        return self._rules
