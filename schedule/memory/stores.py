"""Rewrites of a loop's nodes for memory planning: when results are stored, and from which copies."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Api, Node

__all__ = ["copy_for_store", "copy_in_ub", "stored_behind_uses"]

_VECTOR = Api("Compute", "elewise", "Vector")


def copy_in_ub(n: Node, name: str) -> Node:
    """Return a copy in UB of a node's result."""
    return replace(n, name=name, op="UbCopy", inputs=(n.name,), attrs={}, joins=None, api=_VECTOR)


def stored_behind_uses(looped: Sequence[Node]) -> list[Node]:
    """Return the nodes with every Store after the calls of its loop that use the stored result."""
    uses: dict[str, int] = {}
    loop = {n.name: n.loop for n in looped}
    for i, n in enumerate(looped):
        for x in n.inputs if n.op != "Store" else ():
            if loop.get(x) == loop[n.name]:
                uses[x] = i
    place = {
        n.name: max(i, uses.get(n.inputs[0], i)) for i, n in enumerate(looped) if n.op == "Store"
    }
    order = {n.name: (place.get(n.name, i), n.name in place) for i, n in enumerate(looped)}
    return sorted(looped, key=lambda n: order[n.name])


def copy_for_store(looped: Sequence[Node], ops: frozenset[str]) -> list[Node]:
    """Add a copy to store from for results of ``ops`` that are both stored and used by vector calls."""
    made = {n.name: n for n in looped if n.op in ops}
    used = {x for n in looped if n.op != "Store" for x in n.inputs if x in made}
    if not used:
        return list(looped)
    out: list[Node] = []
    copied: set[str] = set()
    for n in looped:
        if n.op == "Store" and n.inputs[0] in used:
            source = made[n.inputs[0]]
            name = f"{source.name}_copy"
            if name not in copied:
                copied.add(name)
                out.append(copy_in_ub(source, name))
            n = replace(n, inputs=(name,))
        out.append(n)
    return out
