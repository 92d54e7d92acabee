"""Regions of a graph that become one kernel each: sets of nodes, joined where that saves bytes.

A region is convex: it contains every node on a path between two of its nodes. The graph is accessed through
:class:`GraphView`, so its nodes may be of any type; the reader decides how much a join saves and how large a region may
be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

import networkx as nx

__all__ = ["GraphView", "Partition", "components", "grow", "merged"]

N = TypeVar("N", bound=Hashable)

#: Most regions considered, in pairs, for one tensor.
_MOST_AT_ONE = 8


@dataclass(frozen=True, slots=True)
class GraphView(Generic[N]):
    """A graph without cycles.

    Attributes:
        place: number of a node in a topological order.
        operands: the nodes whose results a node reads.
        users: the nodes that read its result.
    """

    place: Callable[[N], int]
    operands: Callable[[N], Iterable[N]]
    users: Callable[[N], Iterable[N]]


class Partition(Generic[N]):
    """Disjoint regions of a graph.

    Args:
        view: the graph.
        regions: sets of nodes; no cycle goes through any of them.
        fits: whether nodes may be one region, as far as limits go.

    Attributes:
        members: number of a region -> its nodes.
        home: node -> the number of its region; other nodes are in none.
    """

    def __init__(
        self,
        view: GraphView[N],
        regions: Iterable[Iterable[N]],
        fits: Callable[[frozenset[N]], bool],
    ) -> None:
        self.view = view
        self.fits = fits
        self.members = {i: set(r) for i, r in enumerate(regions)}
        self.home = {n: i for i, r in self.members.items() for n in r}
        self._apart: set[tuple[int, int]] = set()

    def join(self, a: int, b: int) -> bool:
        """Merge ``b`` into ``a`` if they fit and the result is convex; return True if they are merged."""
        if a == b:
            return True
        if (a, b) in self._apart or not self.fits(frozenset(self.members[a] | self.members[b])):
            return False
        if self._around(a, b) or self._around(b, a):
            self._apart.add((a, b))
            return False
        self.members[a] |= self.members.pop(b)
        self.home.update(dict.fromkeys(self.members[a], a))
        # A node that blocked one of them may be inside now.
        self._apart = {p for p in self._apart if a not in p and b not in p}
        return True

    def _around(self, a: int, b: int) -> bool:
        """Return True if some path from ``a`` to ``b`` leads through nodes outside of both."""
        place, users = self.view.place, self.view.users
        last = max(map(place, self.members[b]))
        waiting = [u for n in self.members[a] for u in users(n) if self.home.get(u) not in (a, b)]
        seen: set[N] = set()
        while waiting:
            n = waiting.pop()
            at = self.home.get(n)
            if at == b:
                return True
            if n in seen or at == a:
                continue
            step = {n} if at is None else self.members[at]
            seen |= step
            # No path leads to b from nodes that all come after its last node.
            if min(map(place, step)) <= last:
                waiting += [u for m in step for u in users(m)]
        return False


def grow(
    needs: Mapping[int, Collection[int]],
    eligible: Collection[int],
    gain: Callable[[int, int], int],
    fits: Callable[[frozenset[int]], bool],
) -> list[tuple[int, ...]]:
    """Grow regions along the edges of the graph, from the first node to the last.

    Args:
        needs: node -> the nodes that it depends on; node numbers are a topological order.
        eligible: nodes that may be in a region.
        gain: the saving if a node and a dependency share a region; they are not joined if it is 0.
        fits: whether nodes may be one region, as far as limits go.

    Returns:
        The regions, each sorted, ordered by their first nodes.
    """
    users: dict[int, set[int]] = {n: set() for n in needs}
    for n, deps in needs.items():
        for d in deps:
            users[d].add(n)
    view = GraphView(int, needs.__getitem__, users.__getitem__)
    order = sorted(eligible)
    found = Partition(view, [(n,) for n in order], fits)
    for n in order:
        saved: dict[int, int] = {}
        for d in needs[n]:
            if d in found.home and (more := gain(d, n)) > 0:
                saved[found.home[d]] = saved.get(found.home[d], 0) + more
        for a in sorted(saved, key=lambda a: (-saved[a], a)):
            found.join(a, found.home[n])
    return sorted(tuple(sorted(r)) for r in found.members.values())


def merged(
    view: GraphView[N],
    regions: Iterable[Iterable[N]],
    size: Callable[[N], int],
    fits: Callable[[frozenset[N]], bool],
) -> list[set[N]]:
    """Join regions that share the most bytes: one kernel moves a tensor once that both touch.

    Args:
        view: the graph.
        regions: sets of nodes; no cycle goes through any of them.
        size: bytes of a node's result.
        fits: whether nodes may be one region, as far as limits go.
    """
    found = Partition(view, regions, fits)
    while True:
        shared = _shared(found, size)
        if not any(found.join(*p) for p in sorted(shared, key=lambda p: (-shared[p], p))):
            return list(found.members.values())


def _shared(found: Partition[N], size: Callable[[N], int]) -> dict[tuple[int, int], int]:
    """Return the bytes that each pair of regions both read, or that one passes to the other."""
    out: dict[tuple[int, int], int] = {}
    for x in dict.fromkeys(x for n in found.home for x in (n, *found.view.operands(n))):
        touched = {found.home[u] for u in (x, *found.view.users(x)) if u in found.home}
        for pair in combinations(sorted(touched)[:_MOST_AT_ONE], 2):
            out[pair] = out.get(pair, 0) + size(x)
    return {p: n for p, n in out.items() if n > 0}


def components(nodes: Sequence[N], operands: Callable[[N], Iterable[N]]) -> list[list[N]]:
    """Return the connected components of the nodes, in their order."""
    at = {n: i for i, n in enumerate(nodes)}
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((x, n) for n in nodes for x in operands(n) if x in at)
    return [sorted(c, key=at.__getitem__) for c in nx.connected_components(graph)]
