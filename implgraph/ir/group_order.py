"""The groups of a HintGraph, and the ordering constraints between and within them."""

from __future__ import annotations

from autofuse.implgraph.ir.graph import HintGraph, Node

__all__ = ["group_order_hazards", "groups", "in_place_pairs"]


def groups(hint: HintGraph) -> list[tuple[Node, ...]]:
    """Return the nodes of every group in execution order, without Data, Output and Workspace nodes.

    Groups have disjoint axes; they run in this order.
    """
    found: dict[int, list[Node]] = {}
    for n in hint.nodes:
        if n.axis:
            found.setdefault(n.axis[0], []).append(n)
    return [tuple(v) for v in found.values()]


def group_order_hazards(hint: HintGraph) -> list[tuple[int, int]]:
    """Return the pairs (earlier, later) of groups that need a barrier in between.

    The later group overwrites an input that the earlier one reads, or reads a workspace that the earlier one writes.
    :func:`~autofuse.implgraph.lowering.lowering.lower` orders the groups so that ``earlier < later``.
    """
    nodes = hint.by_name()
    group_of = {n.name: g for g, found in enumerate(groups(hint)) for n in found}
    writers = _writers(hint)
    pairs: set[tuple[int, int]] = set()
    for n in hint.ops("Load"):
        source = nodes[n.inputs[0]]
        here = group_of[n.name]
        if source.op == "Workspace":
            pairs.update((group_of[store], here) for store in source.inputs)
        pairs.update((here, group_of[store]) for store in writers.get(source.name, ()))
    return sorted((a, b) for a, b in pairs if a != b)


def in_place_pairs(hint: HintGraph) -> list[tuple[str, str]]:
    """Return the pairs (Load, Store) of one group where the Store overwrites the memory that the Load reads.

    Both touch the same elements in the same iteration, so the Load must come first; where the stored value does not
    depend on it, the copy to GM must still wait for the copy from GM.
    """
    writers = _writers(hint)
    if not writers:
        return []
    axis = {n.name: n.axis for n in hint.ops("Store")}
    return [
        (n.name, store)
        for n in hint.ops("Load")
        for store in writers.get(n.inputs[0], ())
        if axis[store] == n.axis
    ]


def _writers(hint: HintGraph) -> dict[str, list[str]]:
    """Return the Stores that overwrite an input, by the name of the Data node."""
    out: dict[str, list[str]] = {}
    over = [o for o in hint.ops("Output") if "inout" in o.attrs]
    data = {n.number("index"): n.name for n in hint.ops("Data")} if over else {}
    for o in over:
        out.setdefault(data.get(o.number("inout"), ""), []).append(o.inputs[0])
    return out
