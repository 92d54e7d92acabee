"""Which reductions of a nest are made in one pass over its columns.

Two reductions that follow each other are one *item* where their partial results can be joined: the sum of
``exp(x - max(x))`` with the maximum, and the sum of squared differences from the mean with the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from autofuse.codegen.nests.nest import Nest, reduced
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["Item", "Join", "across_sums", "known_after", "passes"]


class Join(str, Enum):
    """How partial results of an item are joined."""

    PLAIN = "plain"
    EXPONENTIALS = "exponentials"
    MOMENTS = "moments"


@frozen
class Item:
    """One reduction over the columns, or two that one pass makes.

    Attributes:
        join: what joins partial results.
        first: the reduction.
        second: of two, the one that needs the result of the first.
    """

    join: Join
    first: Node
    second: Node | None = None

    @property
    def results(self) -> tuple[Node, ...]:
        """The reductions that are known when the item is."""
        return (self.first,) if self.second is None else (self.first, self.second)


def passes(nest: Nest, *, join: bool = True) -> list[list[Item]]:
    """The items of every pass over the columns, in order; ``join``: two reductions may be one item."""
    named = nest.by_name()
    cols = frozenset(nest.cols)
    firsts: dict[str, Item] = {}
    seconds: dict[str, Item] = {}
    for n in nest.nodes:
        if n.op in REDUCES and reduced(n, named) <= cols:
            item = _pair(nest, n, named) if join else None
            if item is not None and item.first.name in firsts:
                first = firsts[item.first.name]
                if first.second is None:
                    firsts[item.first.name] = seconds[n.name] = item
                    continue
            firsts[n.name] = Item(Join.PLAIN, n)
    made: dict[str, int] = {}
    known: dict[str, int] = {}
    for n in nest.nodes:
        behind = max((known.get(i, 0) for i in n.inputs), default=0)
        if n.name in seconds:
            known[n.name] = made[seconds[n.name].first.name] + 1
        elif n.name in firsts:
            made[n.name] = behind
            known[n.name] = behind + 1
        else:
            known[n.name] = behind
    depth = max(made.values(), default=-1) + 1
    return [[firsts[name] for name, k in made.items() if k == level] for level in range(depth)]


def known_after(nest: Nest, found: Sequence[Sequence[Node]]) -> dict[str, int]:
    """For every node the number of passes after which it can be computed; ``found``: the reductions of each."""
    made = {n.name: k for k, level in enumerate(found) for n in level}
    out: dict[str, int] = {}
    for n in nest.nodes:
        behind = max((out.get(i, 0) for i in n.inputs), default=0)
        out[n.name] = made[n.name] + 1 if n.name in made else behind
    return out


def across_sums(nest: Nest) -> list[Node]:
    """The sums over rows beside them."""
    named = nest.by_name()
    cols = frozenset(nest.cols)
    return [n for n in nest.nodes if n.op in REDUCES and not reduced(n, named) <= cols]


def _pair(nest: Nest, second: Node, named: Mapping[str, Node]) -> Item | None:
    """The item that a sum makes with a reduction before it, if it does."""
    if second.op != "ReduceSum":
        return None
    value = _behind_broadcasts(named, second.inputs[0])
    if value.op == "Exp":
        return _exponentials(second, value, named)
    if value.op == "Square" or (value.op == "Mul" and value.inputs[0] == value.inputs[1]):
        return _moments(nest, second, value, named)
    return None


def _exponentials(second: Node, value: Node, named: Mapping[str, Node]) -> Item | None:
    shifted = named[value.inputs[0]]
    if shifted.op != "Sub":
        return None
    first = _behind_broadcasts(named, shifted.inputs[1])
    x = named[shifted.inputs[0]]
    same = first.op == "ReduceMax" and first.inputs[0] == x.name
    return Item(Join.EXPONENTIALS, first, second) if same else None


def _moments(nest: Nest, second: Node, value: Node, named: Mapping[str, Node]) -> Item | None:
    centred = named[value.inputs[0]]
    if centred.op != "Sub":
        return None
    x, mean = named[centred.inputs[0]], _behind_broadcasts(named, centred.inputs[1])
    if mean.op not in ("Div", "Mul") or len(mean.inputs) != 2:
        return None
    first, scale = named[mean.inputs[0]], named[mean.inputs[1]]
    if first.op != "ReduceSum" or first.inputs[0] != x.name or scale.op != "Scalar":
        return None
    if reduced(first, named) != frozenset(nest.cols):
        return None
    count = nest.count(nest.cols)
    divides = mean.op == "Div" and _is(scale, count)
    scales = mean.op == "Mul" and count.is_const and _inverse(scale, count.value)
    return Item(Join.MOMENTS, first, second) if divides or scales else None


def _behind_broadcasts(named: Mapping[str, Node], name: str) -> Node:
    while named[name].op == "Broadcast":
        name = named[name].inputs[0]
    return named[name]


def _is(scalar: Node, count: Expr) -> bool:
    if "expr" in scalar.attrs:
        return scalar.attrs["expr"] == count
    return count.is_const and scalar.attrs["value"] == count.value


def _inverse(scalar: Node, count: int) -> bool:
    value = scalar.attrs.get("value")
    return isinstance(value, int | float) and count > 0 and abs(value * count - 1) < 1e-6
