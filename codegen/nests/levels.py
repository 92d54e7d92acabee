"""Passes over the columns of a nest, and the reductions of each pass.

Two consecutive reductions are one *item* if their partial results can be joined: a maximum with the sum of exponentials
relative to it, and a sum with the sum of squared differences from the mean
(:mod:`autofuse.implgraph.division.online_reductions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from autofuse.codegen.nests.nest import Nest, reduced
from autofuse.implgraph.division.online_reductions import Online, online_reductions
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["Item", "Join", "across_sums", "known_after", "passes"]


class Join(str, Enum):
    """Rule that joins partial results of an item."""

    PLAIN = "plain"
    EXPONENTIALS = "exponentials"
    MOMENTS = "moments"


@frozen
class Item:
    """One reduction over the columns, or two computed in one pass.

    Attributes:
        first: first reduction.
        second: second of two reductions, which needs the result of the first.
        rule: dependence of the second one on the first one.
    """

    first: Node
    second: Node | None = None
    rule: Online | None = None

    @property
    def join(self) -> Join:
        """Return the rule that joins partial results."""
        if self.rule is None:
            return Join.PLAIN
        return Join.EXPONENTIALS if self.rule.scales else Join.MOMENTS

    @property
    def results(self) -> tuple[Node, ...]:
        """Return the reductions that the item computes."""
        return (self.first,) if self.second is None else (self.first, self.second)

    def followed(self) -> tuple[Node, Online]:
        """Return the second reduction of two, and its rule."""
        assert self.second is not None
        assert self.rule is not None
        return self.second, self.rule


def passes(nest: Nest, *, join: bool = True) -> list[list[Item]]:
    """Return the items of every pass over the columns, in order; ``join``: fuse two reductions into one item."""
    named = nest.by_name()
    cols = frozenset(nest.cols)
    firsts: dict[str, Item] = {}
    seconds: dict[str, Item] = {}
    count = nest.count(nest.cols)
    rules = online_reductions(nest.nodes, cols, count, levels=True) if join and cols else {}
    for n in nest.nodes:
        if n.op in REDUCES and reduced(n, named) <= cols:
            rule = rules.get(n.name)
            if rule is not None and _is_made_in_loops(rule):
                first = firsts.get(rule.centres[0].reduction)
                if first is not None and first.second is None:
                    firsts[first.first.name] = seconds[n.name] = Item(first.first, n, rule)
                    continue
            firsts[n.name] = Item(n)
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
    """Return the number of passes after which each node can be computed; ``found``: the reductions of each pass."""
    made = {n.name: k for k, level in enumerate(found) for n in level}
    out: dict[str, int] = {}
    for n in nest.nodes:
        behind = max((out.get(i, 0) for i in n.inputs), default=0)
        out[n.name] = made[n.name] + 1 if n.name in made else behind
    return out


def across_sums(nest: Nest) -> list[Node]:
    """Return the sums over rows of the nest."""
    named = nest.by_name()
    cols = frozenset(nest.cols)
    return [n for n in nest.nodes if n.op in REDUCES and not reduced(n, named) <= cols]


def _is_made_in_loops(rule: Online) -> bool:
    """Return True if loops can join partial results by a rule; for products, only plain squares about one mean."""
    a, *others = rule.centres
    return rule.scales or ([a] == others and not any(rule.moves) and not rule.after)
