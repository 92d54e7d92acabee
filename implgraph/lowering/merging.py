"""Merging of groups: the writer of a workspace and a reader of it become one group where their axes allow it.

Cutting a tensor gives it a group of its own.  Often one of its users could compute it along the way: then the workspace
serves only the other users, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.lowering.group import Group, Result, grown, settle
from autofuse.implgraph.lowering.normalise import INPUT

__all__ = ["merged"]

#: Pairs of groups that were tried; the values keep the ids in the keys alive.
Tried: TypeAlias = dict[tuple[int, int], tuple[Group, Group]]
#: Groups are merged only up to this number.
MAX_GROUPS = 48


def merged(found: Sequence[Group]) -> list[Group]:
    """Return the groups after all mergers; unread workspaces are removed, the others renumbered."""
    left = list(found)
    if not any(g.walk.reloads() for g in left):
        return left
    tried: Tried = {}
    while len(left) <= MAX_GROUPS and (pair := _pair(left, tried)) is not None:
        maker, user, whole = pair
        left = [whole if g is user else g for g in left if g is not maker]
    read = {t for g in left for t in g.walk.reloads()}
    used = [g for g in (_without_unread(g, read) for g in left) if g is not None]
    numbers: dict[int, int] = {}
    for g in used:
        for r in g.results:
            if r.workspace >= 0:
                numbers.setdefault(r.tensor, len(numbers))
    for g in used:
        g.results = [
            replace(r, workspace=numbers[r.tensor]) if r.workspace >= 0 else r for r in g.results
        ]
    return used


def _pair(left: Sequence[Group], tried: Tried) -> tuple[Group, Group, Group] | None:
    """Return two groups and their merger, where the second reads the first or neither needs the other."""
    reads, needs = _waiting(left)
    for m, maker in enumerate(left):
        for u, user in enumerate(left):
            key = (id(maker), id(user))
            if maker is user or key in tried or needs[m] >> u & 1:
                continue
            # A third group between the two could not run: it waits for one, and the other waits for it.
            others = (k for k in reads[u] if k != m) if m in reads[u] else reads[u]
            if any(needs[k] >> m & 1 for k in others) or _apart(maker, user):
                continue
            tried[key] = (maker, user)
            own = {r.tensor for r in maker.results} - maker.cuts  # it computes them along the way
            whole, missing = grown(user, maker.results, make=m in reads[u] or bool(own))
            if not missing:
                return maker, user, whole
    return None


def _apart(a: Group, b: Group) -> bool:
    """Return True if one group is a piece or a copy of an input, or the two are unrelated."""
    find, steps = a.program.find, a.program.steps
    copies = any(
        steps[r.tensor].kind == INPUT and r.workspace >= 0 for r in (*a.results, *b.results)
    )
    return a.part or b.part or copies or find(a.results[0].tensor) != find(b.results[0].tensor)


def _waiting(left: Sequence[Group]) -> tuple[list[set[int]], list[int]]:
    """Return, for every group, the groups whose workspaces it reads, and a bit mask of all groups it waits for."""
    makers: dict[int, list[int]] = {}
    for k, g in enumerate(left):
        for r in g.results:
            if r.workspace >= 0:
                makers.setdefault(r.tensor, []).append(k)
    reads = [{k for t in g.walk.reloads() for k in makers[t]} for g in left]
    needs = [sum(1 << k for k in some) for some in reads]
    changed = True
    while changed:
        changed = False
        for n, some in enumerate(reads):
            more = needs[n]
            for k in some:
                more |= needs[k]
            changed, needs[n] = changed or more != needs[n], more
    return reads, needs


def _without_unread(g: Group, read: set[int]) -> Group | None:
    """Return the group without unread workspaces; None if nothing is left of it."""
    keep = [k for k, r in enumerate(g.results) if r.workspace < 0 or r.tensor in read]
    if len(keep) == len(g.results):
        return g
    if not keep:
        return None
    results: list[Result] = [g.results[k] for k in keep]
    starts = [g.starts[k] for k in keep]
    # It still computes tensors for its own use: no other group does.
    cuts = g.cuts - {r.tensor for k, r in enumerate(g.results) if k not in keep}
    space = g.space.copy()
    walk = settle(g.program, space, starts, cuts)
    return Group(g.program, results, space, starts, walk, cuts)
