"""Groups of a HintGraph as loop nests: the reduced axes, and the nodes at each level.

The nodes of a *nest* share axes.  Its ``cols`` are the axes of reductions and running sums, its ``rows`` the others.
Sums over rows computed together with whole rows (the gradients of weights with that of a norm's input) are the
``across`` of a nest; :mod:`~autofuse.codegen.backends.triton.beside` moves them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse.implgraph.expr.expression import ONE, Expr, product
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.implgraph.ir.group_order import groups
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["Nest", "nests", "reduced", "unit_axis", "values_held", "varies", "walk"]


@frozen
class Nest:
    """Nodes that share axes.

    Attributes:
        axes: axis ids, outermost first.
        sizes: elements along these axes.
        nodes: nodes in execution order, without Data, Output and Workspace.
        cols: axes of reductions or running sums; none for element-wise work.
        across: axes of the nest's other reductions; a subset of the rows.
    """

    axes: tuple[int, ...]
    sizes: Mapping[int, Expr]
    nodes: tuple[Node, ...]
    cols: tuple[int, ...]
    across: tuple[int, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the axes that are not in ``cols``."""
        return tuple(a for a in self.axes if a not in self.cols)

    def count(self, axes: Sequence[int]) -> Expr:
        """Return the number of elements along axes."""
        return product(self.sizes[a] for a in axes)

    def by_name(self) -> dict[str, Node]:
        """Return the nodes by name."""
        return {n.name: n for n in self.nodes}


def varies(n: Node) -> frozenset[int]:
    """Return the axes along which the elements of a node's result differ."""
    return frozenset(n.y.varies())


def reduced(n: Node, nodes: Mapping[str, Node]) -> frozenset[int]:
    """Return the axes that a reduction reduces."""
    return varies(nodes[n.inputs[0]]) - varies(n)


def unit_axis(n: Node) -> int | None:
    """Return the contiguous axis: the last one of stride 1 along which a Load or Store varies."""
    found = [
        a
        for a, stride, repeat in zip(n.y.axis, n.y.strides, n.y.repeats, strict=True)
        if stride == ONE and repeat != ONE
    ]
    return found[-1] if found else None


def nests(hint: HintGraph) -> list[Nest]:
    """Return the nests of a graph, in execution order."""
    return [_nest(hint, nodes) for nodes in groups(hint)]


def _nest(hint: HintGraph, nodes: Sequence[Node]) -> Nest:
    named = {n.name: n for n in nodes}
    axes = nodes[0].axis
    sets = [reduced(n, named) for n in nodes if n.op in REDUCES]
    scanned = [frozenset(_scanned(n)) for n in nodes if n.op == "Scan"]
    inner = _cols(axes, [*sets, *scanned])
    across = frozenset().union(*(s for s in sets if not s <= inner))
    return Nest(
        axes,
        {a: hint.axes[a].size for a in axes},
        tuple(nodes),
        tuple(a for a in axes if a in inner),
        tuple(a for a in axes if a in across),
    )


def _scanned(n: Node) -> tuple[int, ...]:
    axes = n.attrs["axes"]
    assert isinstance(axes, tuple)
    return axes


def _cols(axes: Sequence[int], sets: Sequence[frozenset[int]]) -> frozenset[int]:
    """Return the one of two sets of reduced axes with the innermost axis; the other one is ``across``."""
    found = [s for s in sets if s]
    return max(found, key=lambda s: max(axes.index(a) for a in s), default=frozenset())


def walk(nodes: Sequence[Node], targets: Sequence[str], known: frozenset[str]) -> Iterator[Node]:
    """Yield the nodes that targets need and that are not known, in execution order."""
    needed = set(targets)
    for n in reversed(nodes):
        if n.name in needed and n.name not in known:
            needed.update(n.inputs)
    for n in nodes:
        if n.name in needed and n.name not in known:
            yield n


def values_held(nest: Nest) -> int:
    """Return the most values per element that a reduction keeps live: computed before it and used after it."""
    cols = frozenset(nest.cols)
    last = {i: k for k, n in enumerate(nest.nodes) for i in n.inputs}
    free = {n.name for n in nest.nodes if n.op in ("Scalar", "Broadcast")}
    most = 1
    for k, n in enumerate(nest.nodes):
        if n.op in REDUCES:
            before = (m for m in nest.nodes[:k] if varies(m) & cols and m.name not in free)
            most = max(most, sum(last.get(m.name, -1) > k for m in before))
    return most
