"""Splits a graph that is too large for one kernel: into the fewest kernels, then with the fewest bytes between them.

``refusal``, the checks that rejected the whole graph, tells whether a part can be built.  Parts are runs of nodes in
graph order.  The search assumes that every sub-run of a buildable part is buildable, which holds for nearly all graphs;
in any case every part of the result has been checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.implgraph.cutting.cut import Cutter, Split
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode

__all__ = ["MAX_CHECKS", "Obstacle", "Refusal", "Uncut", "cut_after", "find_split"]

#: Returns the reason why a graph cannot be built, or None.
Refusal: TypeAlias = Callable[[FusionGraph], AutofuseError | None]

#: Limits of the search for better cuts once the number of kernels is known: parts to check, and the total number of
#: their nodes, as a number or as a multiple of the graph's.
MAX_CHECKS, _NODES, _TIMES = 64, 1000, 2


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A node that cannot be built even alone, and why."""

    node: FusionNode
    error: AutofuseError


@dataclass(frozen=True, slots=True)
class Uncut:
    """Result of a search in which no cut helps.

    Attributes:
        obstacles: the nodes in the way; only one unless all were requested.
        kernels: number of kernels for the remaining nodes, if all obstacles were requested.
    """

    obstacles: tuple[Obstacle, ...]
    kernels: int


def find_split(
    graph: FusionGraph,
    refusal: Refusal,
    *,
    every: bool = True,
    suspects: Sequence[str] = (),
    whole: AutofuseError | None = None,
) -> Split | Uncut:
    """Cut ``graph`` into the smallest number of parts, and of these splits the one with the fewest bytes of GM traffic.

    The number of checks grows with the number of parts times the logarithm of the number of nodes; the remaining work
    grows with the square of the number of nodes.

    Args:
        graph: a graph with at least one node that an output needs.
        refusal: called for every part considered.
        every: report every obstacle, not only the first one found.
        suspects: names of nodes to check first, if ``every`` is False.
        whole: the reason why the whole graph is refused, if already known.
    """
    search = _Search(Cutter(graph), refusal)
    if whole is not None and search.size == len(graph.nodes):
        search.answers[0, search.size] = whole
    return search.run(every, suspects)


def cut_after(graph: FusionGraph, names: Sequence[str]) -> Split:
    """Cut ``graph`` after the nodes with these names.

    Raises:
        AutofuseError: AF5007, there is no such node, or no node follows it.
    """
    cutter = Cutter(graph)
    position = {n.name: k + 1 for k, n in enumerate(cutter.nodes)}
    position |= {n.label: k + 1 for k, n in enumerate(cutter.nodes)}
    for name in names:
        if position.get(name, len(cutter.nodes)) == len(cutter.nodes):
            why = "it is the last one" if name in position else "there is no node of that name"
            raise AutofuseError.of(
                "AF5007", f"{graph.label} cannot be cut after node {name}: {why}"
            )
    return cutter.split([*sorted({position[x] for x in names}), len(cutter.nodes)])


class _Search:
    """One search; every part is checked once."""

    def __init__(self, cutter: Cutter, refusal: Refusal) -> None:
        self.cutter = cutter
        self.refusal = refusal
        self.size = len(cutter.nodes)
        self.answers: dict[tuple[int, int], AutofuseError | None] = {}
        #: Node -> end of the longest part that begins there, where known.
        self.reach: dict[int, int] = {}
        #: Position -> start of the longest part that ends there.
        self.begin: dict[int, int] = {}

    def run(self, every: bool, suspects: Sequence[str]) -> Split | Uncut:
        if not every:
            for n, node in enumerate(self.cutter.nodes):
                if node.name in suspects and not self._fits(n, n + 1):
                    error = self.answers[n, n + 1]
                    assert error is not None
                    return Uncut((Obstacle(node, error),), 0)
        ends: list[int] = []
        obstacles: list[Obstacle] = []
        kernels = first = 0
        while first < self.size:
            end = self._reach(first)
            error = self.answers[first, first + 1] if end == first else None
            if error is not None:
                obstacles.append(Obstacle(self.cutter.nodes[first], error))
                if not every:
                    break
                end = first + 1
            else:
                kernels += 1
            ends.append(end)
            first = end
        if obstacles:
            return Uncut(tuple(obstacles), kernels)
        return self.cutter.split(self._fewest_bytes())

    def _fits(self, first: int, end: int) -> bool:
        key = (first, end)
        if key not in self.answers:
            graph = self.cutter.part(first, end, self.cutter.graph.name)
            self.answers[key] = self.refusal(graph)
        return self.answers[key] is None

    def _reach(self, first: int) -> int:
        """Return the end of the longest part that begins at ``first``, or ``first`` if no part fits."""
        if first in self.reach:
            return self.reach[first]
        low, high = first, self.size + 1
        whole = self.answers.get((first, self.size))
        if whole is not None:
            high = self.size
        places = self._places(whole, first, self.size)
        end, step = min(self._near(first), high - 1), 1
        # Double the step while one side is open, then bisect.
        while high - low > 1 and low < self.size:
            places = [p for p in places if low < p < high]
            if places:
                end = places[0]
            if self._fits(first, end):
                low = end
                after = min(end + step, high - 1)
            else:
                if not any(low < p < end for p in places):
                    places = self._places(self.answers[first, end], first, end)
                high = end
                after = max(end - step, low + 1)
            is_open = high >= self.size or low == first
            end, step = after if is_open else (low + high) // 2, 2 * step
        length = 2
        while low == first and first + length <= self.size:
            # Not even one node: seldom, more of them are accepted.
            if self._fits(first, first + length):
                low = first + length
            length *= 2
        self.reach[first] = low
        return low

    def _near(self, first: int) -> int:
        """Guess the end of the part that begins at ``first``: that of the nearest earlier part, or its length away."""
        begun = max((f for f in self.reach if f < first), default=first)
        end = self.reach.get(begun, first)
        guess = end if end > first else first + end - begun
        return min(max(guess, first + 1), self.size)

    def _places(self, error: AutofuseError | None, first: int, end: int) -> list[int]:
        """Return ends to try for a part that begins at ``first`` if ``[first, end)`` is refused, shorter parts first.

        A refusal names the node at which a limit was exceeded, counted from the first node or from the last one.
        """
        if error is None:
            return []
        where = error.diagnostics[0].where
        lengths = [
            length
            for n in range(first, end)
            if self._is_at(n, where)
            for k in (n - first, end - n - 1)
            for length in (k, k + 1)
        ]
        return sorted({first + k for k in lengths if 0 < k < end - first})

    def _is_at(self, n: int, where: Where) -> bool:
        node = self.cutter.nodes[n]
        named = where.node in (node.name, node.label)
        return named or (where.pointer == node.origin and bool(node.origin))

    def _fewest_bytes(self) -> list[int]:
        """Return the ends of the parts of the best split, given that one exists."""
        costs = [self.cutter.traffic(i) for i in range(self.size)]
        before = set(self.answers)
        most = max(_NODES, _TIMES * self.size)
        while True:
            asked = self.answers.keys() - before
            if len(asked) >= MAX_CHECKS or sum(end - first for first, end in asked) >= most:
                break
            ends = self._shortest(costs, known=False)
            firsts = [0, *ends[:-1]]
            wrong = next((p for p in zip(firsts, ends, strict=True) if not self._fits(*p)), None)
            if wrong is None:
                return ends
            self._reach(wrong[0])
            self._begin(wrong[1])
        return self._shortest(costs, known=True)

    def _begin(self, end: int) -> None:
        """Find the first node of the longest part that ends at ``end``, given that the last node alone is a part."""
        low, high = -1, end - 1
        while high - low > 1 and end not in self.begin:
            middle = (low + high) // 2
            if self._fits(middle, end):
                high = middle
            else:
                low = middle
        self.begin.setdefault(end, high)

    def _shortest(self, costs: Sequence[Sequence[int]], *, known: bool) -> list[int]:
        """Return the path from 0 to the end with the fewest parts, then bytes; ``known``: over accepted parts only."""
        worst = (self.size + 1, 0)
        best = [worst] * self.size + [(0, 0)]
        step = [self.size] * self.size
        accepted: dict[int, list[int]] = {}
        for (first, end), error in self.answers.items():
            if error is None:
                accepted.setdefault(first, []).append(end)
        most = self.size
        # Parts that contain a refused part count as refused.
        shorter: dict[int, int] = {}
        for end, first in self.begin.items():
            shorter[first - 1] = min(shorter.get(first - 1, self.size), end - 1)
        for first in range(self.size - 1, -1, -1):
            most = min(most, self.reach.get(first, most), shorter.get(first, most))
            ends = set(accepted.get(first, ()))
            if not known:
                ends |= {e for e in range(first + 1, most + 1) if (first, e) not in self.answers}
            for end in sorted(ends, reverse=True):
                parts, traffic = best[end]
                found = (parts + 1, traffic + costs[first][end - first - 1])
                if found < best[first]:
                    best[first], step[first] = found, end
        path = [step[0]]
        while path[-1] < self.size:
            path.append(step[path[-1]])
        return path
