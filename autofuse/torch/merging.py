"""Regions joined where that leaves no cycle: PyTorch's partitioner stops at the first set that it finds for a node.

What two regions both touch is moved once if they are one kernel, and twice if they are two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import torch

__all__ = ["merged"]

#: Regions that are looked at, in pairs, for one tensor.
_MOST_AT_ONE = 8


def merged(
    regions: Iterable[Iterable[torch.fx.Node]],
    size: Callable[[torch.fx.Node], int],
    most: int,
) -> list[set[torch.fx.Node]]:
    """Regions, with those joined that share the most bytes.

    Args:
        regions: sets of nodes of one graph; no cycle goes through any of them.
        size: bytes of a node's result.
        most: nodes, at most, of a region that was joined.
    """
    groups = {i: set(r) for i, r in enumerate(regions)}
    owner = {n: i for i, g in groups.items() for n in g}
    refused: set[tuple[int, int]] = set()
    while True:
        shared = _shared(groups, owner, size)
        for a, b in sorted(shared, key=lambda p: (-shared[p], p)):
            if (a, b) in refused or len(groups[a]) + len(groups[b]) > most:
                continue
            if _path(a, b, groups, owner) or _path(b, a, groups, owner):
                refused.add((a, b))
                continue
            groups[a] |= groups.pop(b)
            owner.update(dict.fromkeys(groups[a], a))
            # What was in the way of one of them may be inside now.
            refused = {p for p in refused if a not in p and b not in p}
            break
        else:
            return list(groups.values())


def _shared(
    groups: dict[int, set[torch.fx.Node]],
    owner: dict[torch.fx.Node, int],
    size: Callable[[torch.fx.Node], int],
) -> dict[tuple[int, int], int]:
    """Bytes that pairs of regions both read, or one makes for the other."""
    out: dict[tuple[int, int], int] = {}
    seen: set[torch.fx.Node] = set()
    for g in groups.values():
        for n in g:
            for x in (n, *n.all_input_nodes):
                if x in seen:
                    continue
                seen.add(x)
                touched = {owner[u] for u in (x, *x.users) if u in owner}
                for pair in combinations(sorted(touched)[:_MOST_AT_ONE], 2):
                    out[pair] = out.get(pair, 0) + size(x)
    return {p: n for p, n in out.items() if n > 0}


def _path(
    a: int, b: int, groups: dict[int, set[torch.fx.Node]], owner: dict[torch.fx.Node, int]
) -> bool:
    """Whether something outside of both is made from results of ``a`` and needed by ``b``."""

    def users(nodes: Sequence[torch.fx.Node] | set[torch.fx.Node]) -> list[torch.fx.Node]:
        return [u for n in nodes for u in n.users]

    waiting = [u for u in users(groups[a]) if owner.get(u) not in (a, b)]
    seen: set[torch.fx.Node] = set()
    while waiting:
        n = waiting.pop()
        at = owner.get(n)
        if at == b:
            return True
        if n in seen or at == a:
            continue
        step = {n} if at is None else groups[at]
        seen |= step
        waiting += users(step)
    return False
