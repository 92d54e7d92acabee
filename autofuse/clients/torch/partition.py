"""Choice of the nodes of a graph that become kernels.

PyTorch's partitioner proposes sets of nodes without cycles, but stops at the first set that it finds for a node, so
sets that share data are merged (``autofuse.frontends.regions``).  This module splits the sets: independent pieces
become separate kernels, long ones are cut where the least data crosses, and PyTorch makes views that are needed
outside, where they move no data.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from autofuse.clients.torch.layouts import memory_order
from autofuse.clients.torch.ops.row import Kind
from autofuse.clients.torch.ops.table import find
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.sizes import hint_of, number_of_elements
from autofuse.frontends.regions import GraphView, Partition, components, merged

__all__ = [
    "Candidate",
    "apart",
    "bytes_of",
    "candidates",
    "cheapest_cut",
    "kind_of",
    "view_of",
    "views_kept_for_strides",
    "work_of",
]

#: PyTorch ops that depend on the memory layout of a tensor, not only on its elements.
_READ_STORAGE = ("as_strided", "as_strided_scatter", "as_strided_copy")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Nodes that may become a kernel.

    Attributes:
        nodes: the nodes in topological order, all needed for the outputs.
        outputs: nodes whose results the kernel writes.
        outside: views of these and of inputs that PyTorch makes, in topological order.
    """

    nodes: tuple[torch.fx.Node, ...]
    outputs: tuple[torch.fx.Node, ...]
    outside: tuple[torch.fx.Node, ...]

    def work(self) -> int:
        """Return the number of ops that compute or copy."""
        return work_of(self.nodes)


def kind_of(node: torch.fx.Node) -> Kind | None:
    """Return the effect of a node on memory: VIEW for an item of several results, None for an op without a row."""
    if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
        return Kind.VIEW
    row = find(node.target)
    return None if row is None else row.kind


def work_of(nodes: Iterable[torch.fx.Node]) -> int:
    """Return how many of the nodes compute or copy; views move nothing."""
    return sum(kind_of(n) in (Kind.COMPUTE, Kind.COPY) for n in nodes)


def views_kept_for_strides(
    nodes: Iterable[torch.fx.Node],
    fusible: Iterable[torch.fx.Node],
    returned: Iterable[torch.fx.Node] = (),
) -> dict[torch.fx.Node, str]:
    """Return the views that PyTorch must make because their strides, offset or storage are visible, with reasons.

    A kernel's output is contiguous and has its own storage.

    Args:
        nodes: nodes of a graph.
        fusible: nodes that can be in a kernel.
        returned: nodes whose results the caller of the compiled function gets.
    """
    inside = set(fusible)
    seen = [(n, "the caller") for n in returned if _is_piece(n)]
    for n in nodes:
        if n.op == "call_function" and n not in inside and _reads_storage(n.target):
            seen += [(x, str(n.target)) for x in n.all_input_nodes]
    out: dict[torch.fx.Node, str] = {}
    for x, who in seen:
        while x not in out and kind_of(x) is Kind.VIEW:
            out[x] = f"{who} needs the strides that PyTorch gives it"
            x = x.all_input_nodes[0]
    return out


def _is_piece(n: torch.fx.Node) -> bool:
    """Return True if a result has gaps, shares memory, or has a storage offset."""
    val = n.meta.get("val")
    if not isinstance(val, torch.Tensor):
        return False
    return memory_order(val) is None or hint_of(val.storage_offset()) != 0


def _reads_storage(target: Any) -> bool:
    if target is operator.getitem:
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return isinstance(target, torch._ops.HigherOrderOperator)
    if target.namespace in ("aten", "prims"):
        return target.overloadpacket.__name__ in _READ_STORAGE
    # A third-party op, which may depend on anything.
    return torch.Tag.flexible_layout not in target.tags


class _Support(OperatorSupportBase):
    def __init__(self, fusible: set[torch.fx.Node]) -> None:
        self.fusible = fusible

    def is_node_supported(self, submodules: Mapping[str, Any], node: torch.fx.Node) -> bool:
        return node in self.fusible


def candidates(
    gm: torch.fx.GraphModule,
    fusible: Iterable[torch.fx.Node],
    options: Options,
    cuts: Iterable[torch.fx.Node] = (),
) -> list[Candidate]:
    """Return the regions of a graph.

    Args:
        gm: the graph.
        fusible: nodes that can be in a kernel.
        options: limits.
        cuts: nodes after which a region ends, in graph order.
    """
    view = view_of(gm)
    wanted = {n for n in fusible if kind_of(n) is not Kind.CREATE}
    # Keep a multi-result node together with its items.
    for n in list(wanted):
        items = _items(n)
        if items and any(i.target is not operator.getitem for i in items):
            wanted.discard(n)
        elif items:
            wanted.update(items)
    for n in list(wanted):
        if n.target is operator.getitem and n.args[0] not in wanted:
            wanted.discard(n)
    found = CapabilityBasedPartitioner(
        gm, _Support(wanted), allows_single_node_partition=True
    ).propose_partitions()
    out = []
    # Nodes connected only through views of other nodes' results gain nothing together, and may block a better merge.
    connected = [
        c
        for p in found
        for c in components(sorted(p.nodes, key=view.place), view.operands)
        if any(kind_of(n) in (Kind.COMPUTE, Kind.COPY) for n in c)
    ]
    for joined in merged(view, connected, bytes_of, lambda ns: work_of(ns) <= options.max_ops):
        for piece in _pieces(view, _whole(sorted(joined, key=view.place)), options.max_ops):
            parts = _cut(piece, options.max_ops, set(cuts))
            if len(parts) > 1:
                # A cut may leave unconnected pieces.
                parts = [q for part in parts for q in _pieces(view, part, options.max_ops)]
            out += [made for c in parts if (made := _candidate(c, view)) is not None]
    return out


def view_of(gm: torch.fx.GraphModule) -> GraphView[torch.fx.Node]:
    """Return the partitioner's view of a graph."""
    order = {n: i for i, n in enumerate(gm.graph.nodes)}
    return GraphView(order.__getitem__, lambda n: n.all_input_nodes, lambda n: n.users)


def _items(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the users of a node with several results."""
    return list(node.users) if isinstance(node.meta.get("val"), list | tuple) else []


def _whole(nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """Return the nodes, without multi-result nodes whose items are elsewhere."""
    have = set(nodes)
    broken = {n for n in nodes if any(i not in have for i in _items(n))}
    return [
        n
        for n in nodes
        if n not in broken and not (n.target is operator.getitem and n.args[0] in broken)
    ]


# pieces ---------------------------------------------------------------------------------------


def _pieces(
    view: GraphView[torch.fx.Node], nodes: Sequence[torch.fx.Node], most: int
) -> list[list[torch.fx.Node]]:
    """Return connected pieces; pieces that read the same large tensor stay together while they are small.

    Otherwise two kernels would read that tensor twice.
    """
    pieces = components(nodes, view.operands)
    joined = Partition(view, pieces, lambda together: work_of(together) <= most)
    readers: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for piece in pieces:
        largest = max(map(bytes_of, piece))
        for x in dict.fromkeys(x for n in piece for x in n.all_input_nodes if x not in joined.home):
            if 2 * bytes_of(x) >= largest > 0:
                readers.setdefault(x, []).append(piece[0])
    for first, *others in readers.values():
        for n in others:
            joined.join(joined.home[first], joined.home[n])
    return sorted(
        (sorted(p, key=view.place) for p in joined.members.values()),
        key=lambda p: view.place(p[0]),
    )


def _cut(
    nodes: Sequence[torch.fx.Node], most: int, cuts: set[torch.fx.Node]
) -> list[list[torch.fx.Node]]:
    """Return runs of nodes of limited length that end at the given cuts."""
    at = next((i for i, n in enumerate(nodes[:-1], 1) if n in cuts), None)
    if at is None and work_of(nodes) > most:
        at = cheapest_cut(nodes, most)
    if at is None:
        return [list(nodes)]
    return [*_cut(nodes[:at], most, cuts), *_cut(nodes[at:], most, cuts)]


def cheapest_cut(nodes: Sequence[torch.fx.Node], most: int) -> int:
    """Return the cut crossed by the fewest bytes, in the second half of the first nodes with ``most`` ops."""
    end = min(_reach(nodes, most), len(nodes) - 1)
    places = range(max(end // 2, 1), max(end, 1) + 1)
    at = {n: i for i, n in enumerate(nodes)}
    last = {n: max((at[u] for u in n.users if u in at), default=-1) for n in nodes}

    def passed(k: int) -> tuple[int, int]:
        glued = any(n.target is operator.getitem and at.get(n.args[0], k) < k for n in nodes[k:])  # type: ignore[arg-type]
        crossing = sum(bytes_of(n) for n in nodes[:k] if last[n] >= k)
        return (int(glued), crossing)

    return min(places, key=lambda k: (*passed(k), -k))


def _reach(nodes: Sequence[torch.fx.Node], most: int) -> int:
    """Return the length of the longest prefix of the nodes with at most ``most`` ops."""
    done = accumulate(work_of([n]) for n in nodes)
    return sum(work <= most for work in done)


# outputs --------------------------------------------------------------------------------------


def _candidate(nodes: Sequence[torch.fx.Node], view: GraphView[torch.fx.Node]) -> Candidate | None:
    nodes = _whole(nodes)
    have = set(nodes)
    needed = [n for n in nodes if not _items(n) and any(u not in have for u in n.users)]
    outputs: dict[torch.fx.Node, None] = {}
    outside: set[torch.fx.Node] = set()
    for n in needed:
        root, views = _root(n, have, outputs)
        outside.update(views)
        if root is not None:
            outputs[root] = None
    live: set[torch.fx.Node] = set()
    waiting = list(outputs)
    while waiting:
        n = waiting.pop()
        if n in have and n not in live:
            live.add(n)
            waiting += n.all_input_nodes
    if not live:
        return None
    kept = tuple(n for n in nodes if n in live)
    return Candidate(
        kept,
        tuple(sorted(outputs, key=view.place)),
        tuple(sorted(outside, key=view.place)),
    )


def _root(
    node: torch.fx.Node, have: set[torch.fx.Node], outputs: Mapping[torch.fx.Node, None]
) -> tuple[torch.fx.Node | None, list[torch.fx.Node]]:
    """Return the base node of a view that an outer user needs, and the views in between.

    The kernel writes the base if it is one of its nodes; a piece of a large tensor that is not needed otherwise is
    written by itself.
    """
    views: list[torch.fx.Node] = []
    n = node
    while n in have and n not in outputs and kind_of(n) is Kind.VIEW:
        source = n.args[0]
        if not isinstance(source, torch.fx.Node):
            break
        if n.target is operator.getitem and kind_of(source) is not Kind.VIEW:
            break
        several = bool(_items(source))
        below = source.args[0] if several else source
        assert isinstance(below, torch.fx.Node)
        if below in have and below not in outputs and bytes_of(below) > bytes_of(n):
            break
        views += [n, source] if several else [n]
        n = below
    return (n if n in have else None), views


# bytes ----------------------------------------------------------------------------------------


def bytes_of(node: torch.fx.Node) -> int:
    """Return the bytes of a node's result, for the sizes at which the graph was traced."""
    val = node.meta.get("val")
    tensors = val if isinstance(val, list | tuple) else (val,)
    return sum(
        number_of_elements(t.shape) * t.dtype.itemsize
        for t in tensors
        if isinstance(t, torch.Tensor)
    )


def apart(c: Candidate) -> int:
    """Return the bytes that the ops of a region read and write if each runs by itself."""
    out = 0
    for n in c.nodes:
        if kind_of(n) in (Kind.COMPUTE, Kind.COPY):
            out += bytes_of(n) + sum(bytes_of(x) for x in n.all_input_nodes)
    return out
