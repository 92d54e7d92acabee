"""Sums over rows fused into the kernel that processes the same rows: one pass over the data computes both.

The gradients of a norm's weights are sums over rows of tensors that the gradient of its input needs as well; lowering
puts them in separate groups, since they reduce other axes.  The axes of both are still those of lowering: equal sizes
in the same order are the same axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from autofuse.codegen.nests.nest import reduced, unit_axis, varies
from autofuse.implgraph.expr.expression import Expr, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.implgraph.ir.group_order import groups
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["Fits", "beside"]

#: Tells whether rows of so many elements have room for so many sums beside them.
Fits = Callable[[Expr, int], bool]


def beside(hint: HintGraph, fits: Fits) -> HintGraph:
    """Merge groups of sums over rows into the group whose rows they sum, where both load the same tensors.

    Args:
        hint: graph with unmerged axes.
        fits: called with the elements of a row and the number of sums.
    """
    found = groups(hint)
    moved: dict[int, int] = {}
    for b in range(len(found)):
        for a in range(len(found)):
            free = a != b and a not in moved and b not in moved.values()
            if free and _Move(hint, found, a, b).is_possible(fits):
                moved[b] = a
                break
    if not moved:
        return hint
    behind: dict[str, list[Node]] = {}
    gone: set[str] = set()
    for b, a in moved.items():
        behind.setdefault(found[a][-1].name, []).extend(_Move(hint, found, a, b).nodes())
        gone |= {n.name for n in found[b]}
    order: list[Node] = []
    for n in hint.nodes:
        if n.name not in gone:
            order += [n, *behind.get(n.name, ())]
    return replace(hint, nodes=tuple(order))


class _Move:
    """Merge of group ``b`` into group ``a``, if possible."""

    def __init__(self, hint: HintGraph, found: Sequence[tuple[Node, ...]], a: int, b: int) -> None:
        self.hint, self.ours, self.theirs = hint, found[a], found[b]
        self.is_later = a > b
        self.early = {n.name for group in found[:a] for n in group}
        self.nodes_by_name = hint.by_name()
        self.axes, self.others = self.ours[0].axis, self.theirs[0].axis
        same = len(self.axes) == len(self.others)
        self.place: Mapping[int, int] = (
            dict(zip(self.others, self.axes, strict=True)) if same else {}
        )

    def is_possible(self, fits: Fits) -> bool:
        """Return True if ``b`` only sums data of ``a`` over rows, and depends on nothing in between."""
        sizes = [self.hint.axes[x].size for x in self.axes]
        if len(sizes) < 2 or sizes != [self.hint.axes[x].size for x in self.others]:
            return False
        sums = [n for n in self.theirs if n.op in REDUCES]
        if not sums or any(n.op == "Scan" for n in (*self.ours, *self.theirs)):
            return False
        kept = self._kept(sums)
        if kept is None or not fits(product(self.hint.axes[x].size for x in kept), len(sums)):
            return False
        loads = [n for n in self.theirs if n.op == "Load"]
        late = {n.name for n in sums}
        for n in self.theirs:
            if not late.isdisjoint(n.inputs):
                late.add(n.name)
                if not {self.place[x] for x in varies(n)} <= kept:
                    return False
        if not all(self._is_early(n) for n in loads) or (self.is_later and self._is_awaited()):
            return False
        mine = {self._address(n) for n in self.ours if n.op == "Load"}
        whole = [n for n in loads if len(varies(n)) == len(self.others)]
        return any(self._address(n) in mine or self._stored(n) for n in whole)

    def _kept(self, sums: Sequence[Node]) -> frozenset[int] | None:
        """Return the axes of ``a`` that the sums keep; None unless they are the axes of a row of ``a``."""
        named = {n.name: n for n in self.theirs}
        over = {frozenset(self.place[x] for x in reduced(n, named)) for n in sums}
        if len(over) != 1 or any(n.op != "ReduceSum" for n in sums):
            return None
        rows = next(iter(over))
        kept = frozenset(self.axes) - rows
        if not rows or not kept or rows != frozenset(self.axes[: len(rows)]):
            return None
        mine = {n.name: n for n in self.ours}
        own = {reduced(n, mine) for n in self.ours if n.op in REDUCES}
        units = [unit_axis(n) for n in self.ours if n.op in ("Load", "Store")]
        if own:
            return kept if own == {kept} else None
        return kept if all(u in kept for u in units if u is not None) else None

    def _is_early(self, load: Node) -> bool:
        """Return True if a Load's data exist before ``a`` runs, or ``a`` itself stores them at the same address."""
        source = self.nodes_by_name[load.inputs[0]]
        if source.op != "Workspace":
            return True
        return self.early.issuperset(source.inputs) or self._stored(load) is not None

    def _is_awaited(self) -> bool:
        """Return True if another group reads what ``b`` writes, or ``b`` overwrites an input of the graph."""
        stores = {n.name for n in self.theirs if n.op == "Store"}
        taken = (n for n in self.hint.nodes if not stores.isdisjoint(n.inputs))
        return any(n.op != "Output" or "inout" in n.attrs for n in taken)

    def _stored(self, load: Node) -> Node | None:
        """Return the Store of ``a`` that writes exactly the elements a Load of ``b`` reads, or None."""
        source = self.nodes_by_name[load.inputs[0]]
        if source.op != "Workspace" or len(source.inputs) != 1:
            return None
        stores = [n for n in self.ours if n.name == source.inputs[0]]
        same = (n for n in stores if self._address(n)[1:] == self._address(load)[1:])
        return next(same, None)

    def _address(self, n: Node) -> tuple[object, ...]:
        axis = tuple(self.place.get(x, x) for x in n.y.axis)
        return n.inputs, axis, n.y.repeats, n.y.strides, n.y.offset

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes of ``b`` on the axes of ``a``; values that ``a`` stores for them are used directly."""
        names: dict[str, str] = {}
        for n in self.theirs:
            store = self._stored(n) if n.op == "Load" else None
            if store is not None:
                names[n.name] = store.inputs[0]
                continue
            inputs = tuple(names.get(i, i) for i in n.inputs)
            yield replace(n, axis=self.axes, y=replace(n.y, axis=self.axes), inputs=inputs)
