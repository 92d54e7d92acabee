"""Invariants of data placement: loads and stores, tensors, queues and buffers in UB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from autofuse.implgraph.check.groups import Finding
from autofuse.implgraph.expr.expression import ZERO
from autofuse.implgraph.ir.graph import (
    AllocType,
    BufferKind,
    BufferPlan,
    Hardware,
    HintGraph,
    ImplGraph,
    Node,
    Position,
)
from autofuse.implgraph.ops.registry import find

__all__ = ["CHECKS"]

#: Nodes whose result is in GM and can be loaded.
_MEMORY = ("Data", "Output", "Workspace")

Graph: TypeAlias = HintGraph | ImplGraph


def loads_and_stores_connect(g: Graph) -> Iterator[Finding]:
    """Load goes from GM to UB, Store from UB to GM; Data and Output are in GM, all others in UB."""
    nodes = g.by_name()
    for n in g.nodes:
        most = 2 if n.op == "Load" else 1
        if n.op in ("Load", "Store") and not 1 <= len(n.inputs) <= most:
            yield Finding(f"{n.op} has {len(n.inputs)} inputs, not 1", n.name)
        if isinstance(g, HintGraph):
            if n.op == "Load" and any(nodes[i].op not in _MEMORY for i in n.inputs[:1]):
                yield Finding("Load reads a tensor that is not in GM", n.name)
            continue
        in_gm = n.op in (*_MEMORY, "Store")
        if n.y.mem is not None and (n.y.mem.hardware is Hardware.GM) != in_gm:
            yield Finding(f"the result of {n.op} is in {n.y.mem.hardware.value}", n.name)
        for i in n.inputs:
            mem = nodes[i].y.mem
            if mem is None or n.op in ("Output", "Workspace"):
                continue
            want = Hardware.GM if n.op == "Load" and i == n.inputs[0] else Hardware.UB
            # The scalar unit may read a one-element tensor from GM.
            scalar = n.op != "Store" and not nodes[i].y.varies()
            if mem.hardware is not want and not scalar:
                yield Finding(f"{n.op} reads {i}, which is in {mem.hardware.value}", n.name)


def tensors_have_one_place(g: Graph) -> Iterator[Finding]:
    """A tensor in UB has one queue or one buffer, one in GM has none, and ``mem`` says the same."""
    if not isinstance(g, ImplGraph):
        return
    for n in g.nodes:
        mem, que, buf = n.y.mem, n.y.que, n.y.buf
        if mem is None:
            # A one-element Load may hold the element in a register only.
            if n.op != "Scalar" and not (n.op == "Load" and n.attrs.get("scalar") == "alone"):
                yield Finding("the tensor has no memory", n.name)
            continue
        places = (que is not None) + (buf is not None)
        if mem.hardware is Hardware.UB and places != 1:
            yield Finding(f"a tensor in UB has {places} queues and buffers, not 1", n.name)
        if mem.hardware is Hardware.GM and places:
            yield Finding("a tensor in GM has a queue or a buffer", n.name)
        if (mem.hardware is Hardware.GM) != (mem.position is Position.GM):
            yield Finding(f"{mem.hardware.value} does not fit {mem.position.value}", n.name)
        want = AllocType.QUEUE if que else AllocType.GLOBAL if buf is None else AllocType.BUFFER
        if mem.alloc_type is not want:
            yield Finding(f"alloc_type is {mem.alloc_type.value}, not {want.value}", n.name)


def tensor_ids_are_unique(g: Graph) -> Iterator[Finding]:
    """Each ``tensor_id`` is unique; an Output or Workspace shares the id of the tensor its Stores write."""
    ids: dict[int, str] = {}
    sinks = {i: n for n in g.nodes if n.op in ("Output", "Workspace") for i in n.inputs}
    for n in g.nodes:
        if n.y.mem is None or (n.op in ("Output", "Workspace") and n.inputs):
            continue
        sink = sinks.get(n.name)
        # Several Stores may write pieces of one Output.
        name = n.name if sink is None else f"{sink.op} {sink.attrs.get('index')}"
        other = ids.setdefault(n.y.mem.tensor_id, name)
        if other != name:
            yield Finding(f"tensor_id {n.y.mem.tensor_id} also belongs to {other}", n.name)


def plan_lists_tensors(g: Graph) -> Iterator[Finding]:
    """A buffer lists exactly the tensors that refer to it, in order, and matches their fields."""
    if not isinstance(g, ImplGraph):
        return
    plan = {(b.kind, b.id): b for b in g.buffers}
    if len(plan) != len(g.buffers):
        yield Finding("two buffers of the plan have the same kind and id")
    users: dict[tuple[BufferKind, int], list[str]] = {key: [] for key in plan}
    for n in g.nodes:
        keys = [(BufferKind.QUEUE, n.y.que.id)] if n.y.que is not None else []
        keys += [(BufferKind.BUF, n.y.buf)] if n.y.buf is not None else []
        for key in keys:
            if key not in plan:
                yield Finding(f"{key[0].value} {key[1]} is not in the plan", n.name)
                continue
            users[key].append(n.name)
            yield from _described(n, plan[key])
        for t in n.tmp_buffers:
            if (BufferKind.BUF, t.id) not in plan:
                yield Finding(f"tmp buffer {t.id} is not in the plan", n.name)
    for key, b in plan.items():
        if list(b.tensors) != users[key]:
            have, want = ", ".join(b.tensors), ", ".join(users[key])
            text = f"lists {have or 'nothing'}, but holds {want or 'nothing'}"
            yield Finding(f"{b.kind.value} {b.id} {text}")


def _described(n: Node, b: BufferPlan) -> Iterator[Finding]:
    mem, que = n.y.mem, n.y.que
    if mem is not None and mem.position is not b.position:
        text = f"the position is {mem.position.value}, that of {b.kind.value} {b.id} {b.position.value}"
        yield Finding(text, n.name)
    if (
        b.kind is BufferKind.QUEUE
        and que is not None
        and (que.depth, que.buf_num) != (b.depth, b.buf_num)
    ):
        text = f"depth {que.depth} and buf_num {que.buf_num}"
        yield Finding(f"{text}; those of queue {b.id} are {b.depth} and {b.buf_num}", n.name)


def buffers_are_counted(g: Graph) -> Iterator[Finding]:
    """Buffer counts and depths of queues are positive."""
    if not isinstance(g, ImplGraph):
        return
    for b in g.buffers:
        if b.buf_num < 1 or (b.kind is BufferKind.QUEUE and b.depth < 1):
            yield Finding(f"{b.kind.value} {b.id} has depth {b.depth} and {b.buf_num} buffers")


def ub_is_the_sum_of_buffers(g: Graph) -> Iterator[Finding]:
    """``tiling.ub`` is the sum of ``buf_num * nbytes``."""
    if isinstance(g, ImplGraph):
        total = ZERO
        for b in g.buffers:
            total = total + b.nbytes * b.buf_num
        if g.tiling.ub != total:
            yield Finding(f"tiling.ub is {g.tiling.ub}, the sum of the buffers {total}")


def buffers_are_not_shared_in_time(g: Graph) -> Iterator[Finding]:
    """Live ranges are disjoint within one ``buf`` and among tensors that take over the buffer of a Load's queue.

    A tensor is live from its node to its last user; a tensor made before the loops and used inside them is live to the
    end.  An op may overwrite its operand where its call allows that, and the accumulator that it updates, which is live
    until then.  A tmp buffer is live during its call, along with the call's operands and result.
    """
    if not isinstance(g, ImplGraph):
        return
    last = {n.name: i for i, n in enumerate(g.nodes)}
    before = {n.name for n in g.nodes if n.loop_axis is None}
    for i, n in enumerate(g.nodes):
        last.update((name, i) for name in (*n.inputs, *_joined(n)))
        if n.loop_axis is not None:
            kept = before.intersection((*n.inputs, *_joined(n)))
            last.update((name, len(g.nodes)) for name in kept)
    lives: dict[str, list[tuple[int, int, Node]]] = {}
    hosts = {n.over for n in g.nodes}
    for i, n in enumerate(g.nodes):
        end = last[n.name]
        place = "" if n.y.buf is None else f"buf {n.y.buf}"
        if n.name in hosts or n.over is not None:
            place = f"the queue of {n.over or n.name}"
        if place:
            for start, other_end, other in lives.get(place, ()):
                if i < other_end or (i == other_end and not _may_overwrite(n, other)):
                    text = f"{other.name} lives in {place} from {start} to {other_end}"
                    yield Finding(f"{text}; this node writes there at {i}", n.name)
            lives.setdefault(place, []).append((i, end, n))
    for i, n in enumerate(g.nodes):
        for t in n.tmp_buffers:
            for start, end, other in lives.get(f"buf {t.id}", ()):
                if start <= i <= end:
                    yield Finding(f"tmp buffer {t.id} holds {other.name} at that time", n.name)


def _joined(n: Node) -> tuple[str, ...]:
    """Return the initial value of the accumulator that the node overwrites."""
    return () if n.joins is None else (n.joins,)


def _may_overwrite(n: Node, operand: Node) -> bool:
    row = find(n.op)
    if operand.name in _joined(n):
        return True
    if row is None or operand.name not in n.inputs:
        return False
    return row.call is not None and row.call.inplace


CHECKS: tuple[Callable[[Graph], Iterator[Finding]], ...] = (
    loads_and_stores_connect,
    tensors_have_one_place,
    tensor_ids_are_unique,
    plan_lists_tensors,
    buffers_are_counted,
    ub_is_the_sum_of_buffers,
    buffers_are_not_shared_in_time,
)
