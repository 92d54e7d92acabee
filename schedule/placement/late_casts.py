"""Rows shared by all tiles, kept in the type in which they were loaded and converted in every tile.

A float16 scale is converted to float32 and spread over the tile once per core, before the loop.  If rows nearly fill
UB, that space would be needed for double buffering: then the scale is spread as loaded, in half the bytes, and each
tile converts it.
"""

from __future__ import annotations

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node
from autofuse.schedule.placement.placement import Placed

__all__ = ["with_late_casts"]


def with_late_casts(placed: Placed) -> Placed | None:
    """Return the nodes with casts to wider types moved into the loop, or None without such casts."""
    before = {n.name: n for n in placed.hoisted}
    users: dict[str, list[Node]] = {}
    for n in (*placed.hoisted, *placed.looped):
        for x in n.inputs:
            users.setdefault(x, []).append(n)
    spread: dict[str, Node] = {}
    gone: set[str] = set()
    #: By the first node that uses it.
    late: dict[str, list[Node]] = {}
    for n in placed.hoisted:
        cast = before.get(n.inputs[0]) if n.op == "Broadcast" else None
        if cast is None or cast.op != "Cast" or len(users[cast.name]) > 1:
            continue
        load = before.get(cast.inputs[0])
        if load is None or not _is_narrower(load, cast):
            continue
        needed = users.get(n.name, [])
        if len({u.loop for u in needed}) != 1 or needed[0].name in before:
            continue
        first = needed[0]
        gone.add(cast.name)
        spread[n.name] = replace(n, inputs=(load.name,), y=replace(n.y, dtype=load.y.dtype))
        made = replace(cast, inputs=(n.name,), y=n.y, axis=n.axis)
        made = replace(made, loop_axis=first.loop_axis, loop_pass=first.loop_pass)
        late.setdefault(first.name, []).append(made)
    if not spread:
        return None
    names = {made.inputs[0]: made.name for nodes in late.values() for made in nodes}
    looped: list[Node] = []
    for n in placed.looped:
        looped += late.get(n.name, [])
        looped.append(replace(n, inputs=tuple(names.get(x, x) for x in n.inputs)))
    hoisted = [spread.get(n.name, n) for n in placed.hoisted if n.name not in gone]
    return replace(placed, hoisted=tuple(hoisted), looped=tuple(looped))


def _is_narrower(load: Node, cast: Node) -> bool:
    """Return True if a tensor is loaded in 16 bits, which can be spread, and is then cast to a wider type."""
    return load.op == "Load" and load.y.dtype.bits == 16 < cast.y.dtype.bits
