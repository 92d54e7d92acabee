"""The groups of a HintGraph as loop nests: which axes are reduced, and what is computed at which level.

A *nest* has nodes on common axes.  Its ``cols`` are the axes that reductions and running sums go over, its ``rows`` the
others.  Sums over rows beside work on whole rows (the gradients of weights beside that of a norm's input) are the
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
        axes: ids, outermost first.
        sizes: of these axes, in elements.
        nodes: in execution order, without Data, Output and Workspace.
        cols: axes that reductions or running sums go over; none for element-wise work.
        across: axes that other reductions of the nest go over; a subset of the rows.
    """

    axes: tuple[int, ...]
    sizes: Mapping[int, Expr]
    nodes: tuple[Node, ...]
    cols: tuple[int, ...]
    across: tuple[int, ...] = ()

    @property
    def rows(self) -> tuple[int, ...]:
        """The axes that are not in ``cols``."""
        return tuple(a for a in self.axes if a not in self.cols)

    def count(self, axes: Sequence[int]) -> Expr:
        """Elements along axes."""
        return product(self.sizes[a] for a in axes)

    def by_name(self) -> dict[str, Node]:
        """Nodes by name."""
        return {n.name: n for n in self.nodes}


def varies(n: Node) -> frozenset[int]:
    """Axes along which the elements of a node's result differ."""
    return frozenset(n.y.varies())


def reduced(n: Node, nodes: Mapping[str, Node]) -> frozenset[int]:
    """The axes that a reduction goes over."""
    return varies(nodes[n.inputs[0]]) - varies(n)


def unit_axis(n: Node) -> int | None:
    """The axis along which neighbours in memory lie: the last one of stride 1 along which a Load or Store varies."""
    found = [
        a
        for a, stride, repeat in zip(n.y.axis, n.y.strides, n.y.repeats, strict=True)
        if stride == ONE and repeat != ONE
    ]
    return found[-1] if found else None


def nests(hint: HintGraph) -> list[Nest]:
    """The nests of a graph, in the order in which they run."""
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
    """Of two sets of reduced axes the one that has the innermost axis; the other one goes across."""
    found = [s for s in sets if s]
    return max(found, key=lambda s: max(axes.index(a) for a in s), default=frozenset())


def walk(nodes: Sequence[Node], targets: Sequence[str], known: frozenset[str]) -> Iterator[Node]:
    """The nodes that targets need and that are not known, in execution order."""
    needed = set(targets)
    for n in reversed(nodes):
        if n.name in needed and n.name not in known:
            needed.update(n.inputs)
    for n in nodes:
        if n.name in needed and n.name not in known:
            yield n


def values_held(nest: Nest) -> int:
    """Values of an element that a reduction leaves in registers, at most: computed before it and used behind it."""
    cols = frozenset(nest.cols)
    last = {i: k for k, n in enumerate(nest.nodes) for i in n.inputs}
    free = {n.name for n in nest.nodes if n.op in ("Scalar", "Broadcast")}
    most = 1
    for k, n in enumerate(nest.nodes):
        if n.op in REDUCES:
            before = (m for m in nest.nodes[:k] if varies(m) & cols and m.name not in free)
            most = max(most, sum(last.get(m.name, -1) > k for m in before))
    return most
