"""The UB buffers of a template, and the bank conflicts of its vector calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import BufferPlan, ImplGraph, Node
from autofuse.schedule.cost.banks import bank_conflict, data_operands
from autofuse.schedule.cost.cost import Conflict
from autofuse.targets import Architecture

__all__ = ["UbBuffer", "conflicts", "ub_map"]


@frozen
class UbBuffer:
    """Buffer in UB: ``count`` copies of ``nbytes`` bytes from ``offset``."""

    plan: BufferPlan
    offset: int
    nbytes: int

    @property
    def count(self) -> int:
        """Number of copies."""
        return self.plan.buf_num


def ub_map(impl: ImplGraph, sizes: Mapping[str, int], tile: int) -> tuple[UbBuffer, ...]:
    """Return the buffers in the order in which the kernel reserves them, from address 0."""
    env = {**sizes, impl.tiling.opened.symbol: tile}
    out: list[UbBuffer] = []
    offset = 0
    lengths = {e: e.evaluate(env) for e in {plan.nbytes for plan in impl.buffers}}
    for plan in impl.buffers:
        nbytes = lengths[plan.nbytes]
        out.append(UbBuffer(plan, offset, nbytes))
        offset += nbytes * plan.buf_num
    return tuple(out)


def conflicts(
    impl: ImplGraph, sizes: Mapping[str, int], tile: int, arch: Architecture
) -> tuple[tuple[Node, int, Conflict], ...]:
    """Return, for every element-wise vector call, the number of tensors read and the bank conflict."""
    places = _places(ub_map(impl, sizes, tile))
    named = impl.by_name()
    return tuple(
        [
            (n, len(read), _conflict(n, read, places, arch))
            for n in impl.nodes
            if (read := data_operands(n, named))
        ]
    )


def _places(buffers: Iterable[UbBuffer]) -> dict[str, tuple[int, ...]]:
    """Return, by node, the UB addresses of its result in each buffer of its queue."""
    out: dict[str, tuple[int, ...]] = {}
    for b in buffers:
        at = tuple([b.offset + k * b.nbytes for k in range(b.count)])
        out.update(dict.fromkeys(b.plan.tensors, at))
    return out


def _conflict(
    n: Node, read: Sequence[Node], places: Mapping[str, tuple[int, ...]], arch: Architecture
) -> Conflict:
    """Return the worst conflict of a call's tensors; queues cycle through their buffers in step."""
    found = Conflict.NONE
    if not read:
        return found
    # A result of another width advances slower or faster than the operands.
    bits = n.y.dtype.bits
    alike = n.name in places and all([x.y.dtype.bits == bits for x in read])
    turns = [places[x.name] for x in read] + ([places[n.name]] if alike else [])
    for turn in range(max(map(len, turns))):
        at = [t[turn % len(t)] for t in turns]
        now = bank_conflict(at[: len(read)], at[-1] if alike else None, arch)
        if now is Conflict.SOURCES:
            return now
        found = now if found is Conflict.NONE else found
    return found
