"""Memory plan of a template, in bytes: queues for what crosses pipes, TBufs for the rest.

Every tensor gets a live range over the execution order; one that is made before a loop and used in it lives to the end
of the loop.  An accumulator has the buffer of its initial value.  Loads live in VECIN queues, stored results in VECOUT
queues, a load that goes straight to a store in a TQueBind; everything else, and all that is made before the loop, in
TBufs that are used again as soon as their tensor is dead.  A result takes over the buffer of an operand that dies with
it where the call allows that.

Where UB is tight, loads and results share as well: the buffer of a load that is dead when a result of the same loop is
made becomes that of the result, and holds other tensors in between.  Its queue is a TQueBind that goes from the load to
the vector calls, and from these to the store.

Where it can choose, the plan puts the two operands of a call into buffers of different halves of the banks
(``autofuse.schedule.cost.banks``); where it cannot, it tries other choices.  Addresses follow from lengths and order,
since a TPipe hands them out one after another.

For a target without queues there are only buffers: arrays that calls read and write, without scratch space.

One file: one class plans, and each of its decisions leaves less room to the next one.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

from autofuse.implgraph.expr.expression import Expr, total
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import (
    AllocType,
    Api,
    BufferPlan,
    Hardware,
    Mem,
    Node,
    Position,
    Queue,
    TmpBuffer,
)
from autofuse.implgraph.ops.registry import find_call
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.cost.banks import Halves, halves_of, in_halves
from autofuse.schedule.functions import function_of
from autofuse.schedule.memory.buffer_sizes import granule_tensors, larger, scratch_bytes, weight
from autofuse.schedule.placement.placement import Placed
from autofuse.targets import TargetSpec

__all__ = ["MemoryPlan", "buffer_title", "least_memory", "plan_memory"]

#: Ways to choose among buffers, tried where the first one leaves a bank conflict; those from 8 on take a further buffer
#: where none suits, if UB grows by no more than this part of it.
_ORDERS, _SPARE = 16, 6
#: Tensors of all orders together: of more than a thousand, fewer orders are tried.
_TRIED = 16_000
#: Members that every tensor asks for; the interpreter takes long to look them up.
_BUFFER, _QUEUE, _UB = AllocType.BUFFER, AllocType.QUEUE, Hardware.UB
_VECIN, _VECOUT, _VECCALC = Position.VECIN, Position.VECOUT, Position.VECCALC


@frozen
class _Place:
    """The memory of a tensor in UB: a queue or a TBuf by its number, scratch space, and whose buffer it takes over."""

    position: Position
    queue: Queue | None
    buf: int | None
    tmp: tuple[TmpBuffer, ...]
    over: str | None

    def given_to(self, n: Node, tensor: int) -> Node:
        """The node with this memory; ``tensor`` is the id of its tensor."""
        kind = _BUFFER if self.queue is None else _QUEUE
        number = self.buf if self.queue is None else self.queue.id
        assert number is not None
        mem = Mem(tensor, kind, _UB, self.position, reuse_id=number)
        y = replace(n.y, mem=mem, que=self.queue, buf=self.buf)
        if self.over is not None:
            return replace(n, y=y, tmp_buffers=self.tmp, attrs={**n.attrs, "over": self.over})
        return replace(n, y=y, tmp_buffers=self.tmp)


@frozen
class MemoryPlan:
    """The buffers, the UB sum in bytes as a function of the tile symbols, and the memory of every node.

    Most plans are thrown away for their UB sum alone, so nodes get their memory when they are asked for.
    """

    bare: tuple[Node, ...]
    places: Mapping[str, _Place]
    buffers: tuple[BufferPlan, ...]
    ub: Expr

    def nodes(self, first_tensor: int = 0) -> list[Node]:
        """All nodes in execution order with their memory, tensors numbered from ``first_tensor`` on.

        Stores stay as they are: their memory is GM.
        """
        number = itertools.count(first_tensor)
        return [
            n if n.op == "Store" else self.places[n.name].given_to(n, next(number))
            for n in self.bare
        ]


@dataclass(slots=True)
class _Slot:
    """A queue or TBuf while it is being filled."""

    id: int
    nbytes: Expr
    #: Its bytes where sizes are compared.
    weight: int = field(init=False)
    #: The loop in which its last tensor was made.
    loop: tuple[int | None, int] = (None, 0)
    free_at: int = -1
    tensors: list[str] = field(default_factory=list)
    #: Of a TBuf: a load before the loops fills it, whatever it holds when that is dead.
    loaded: bool = False
    #: The tensor that decides in which half of the banks it is.
    leader: str = ""

    def __post_init__(self) -> None:
        self.weight = weight(self.nbytes)

    @property
    def position(self) -> Position:
        """That of a TBuf."""
        return _VECIN if self.loaded else _VECCALC

    def hold(self, name: str, nbytes: Expr, until: int) -> None:
        self.tensors.append(name)
        self.leader = self.leader or name
        if self.nbytes is not nbytes:
            self.nbytes = larger(self.nbytes, nbytes)
            self.weight = weight(self.nbytes)
        self.free_at = until


def plan_memory(
    placed: Placed,
    target: TargetSpec,
    buf_num: int,
    *,
    share: bool = False,
    banks: bool = True,
    few: bool = False,
    cycles: Callable[[MemoryPlan], float] = lambda _: math.inf,
) -> MemoryPlan:
    """Give every UB tensor of a template its memory.

    Args:
        placed: the nodes on the split axes.
        target: queue and buffer limits.
        buf_num: buffers per queue, 2 or 1.
        share: results take over the buffers of loads.
        banks: buffers start and end where the operands of calls do not collide, which takes some bytes; nothing is
            done about it for a chip whose operands collide wherever they are.
        few: a load or result that is dead gives its queue to the next one, which waits for it, also where the chip
            has room for another queue.
        cycles: modelled cycles with a plan, which are asked for where a larger one has rows in its tiles.

    Raises:
        TemplateRejectedError: the chip's limits on queue buffers or on buffers in all are exceeded.
    """
    banks = banks and target.arch.bank_halves
    ready = _Planner(placed, target, buf_num, share=share, banks=banks, few=few)
    best = ready.with_order(0)
    best.run()
    if not best.missed:
        return best.plan()
    least = weight(best.ub)
    most = least + least // _SPARE
    # Tiles that have nothing inside can be a little shorter; of few rows in a tile, one less may be much.
    unasked = most if len(placed.layout.split.vector) == 1 else least
    for order in range(1, min(_ORDERS, max(2, _TRIED // len(ready.nodes)))):
        if not best.missed:
            break
        other = ready.with_order(order)
        other.run(best.missed)
        if other.missed >= best.missed or weight(other.ub) > most:
            continue
        if weight(other.ub) <= unasked or cycles(other.plan()) < cycles(best.plan()):
            best = other
    return best.plan()


def least_memory(placed: Placed, target: TargetSpec, env: Mapping[str, int]) -> tuple[int, int]:
    """Buffers, and bytes of UB, that no plan of a template can do without: of all tensors that are alive at one time.

    What a node makes counts from the next node on, as it may have the buffer of an operand that dies with it.

    Args:
        placed: the nodes on the split axes.
        target: the chip.
        env: values of all symbols.
    """
    plan = _Planner(placed, target, 2, share=False, banks=False)
    alive: list[tuple[int, int]] = []  # when it dies, bytes; what dies first is first
    buffers = most = now = 0
    for n in plan.nodes:
        while alive and alive[0][0] < plan.position[n.name]:
            now -= heapq.heappop(alive)[1]
        buffers, most = max(buffers, len(alive)), max(most, now)
        # An accumulator stays where its initial value is, which is alive as long.
        if n.op != "Store" and not n.attrs.get("joins"):
            size = plan.nbytes(n).evaluate(env)
            heapq.heappush(alive, (plan.last[n.name], size))
            now += size
    return buffers, most


class _Planner:
    def __init__(
        self,
        placed: Placed,
        target: TargetSpec,
        buf_num: int,
        *,
        share: bool,
        banks: bool,
        few: bool = False,
    ) -> None:
        self.placed = placed
        self.target = target
        self.buf_num = buf_num
        self.banks, self.few = banks, few
        #: Which of several buffers that are as good as each other is taken.
        self.from_last = self.last_operand = self.dead_first = self.spare = False
        #: Tensors in the wrong half of the banks.
        self.missed = 0
        self.layout = placed.layout
        self.looped = list(placed.looped)
        if target.queues:
            self.looped = _copy_for_store(self.looped, frozenset({"Load"}))
        if share:
            self.looped = _stored_behind_uses(self.looped)
        self._index()
        per_position = target.arch.queue_buffers_per_position
        straight = self._loads() if target.queues else []
        self.straight = {n.name for n in straight if n.name in self.stored}
        self.copy_slots = min(len(self.straight), max(1, per_position // buf_num // 4))
        # The sync behind the loads before the loop keeps one event of the position for itself.
        reserved = int(any(n.op == "Load" for n in placed.hoisted))
        self.room = (per_position - reserved) // buf_num - self.copy_slots
        if buf_num == 1 and target.queues:
            self._relieve_queues()
        self.granule = granule_tensors(self.nodes, target.arch)
        # Calls in loops come first, for not all of them may find a place.
        self.halves = halves_of([*self.looped, *self.placed.hoisted]) if banks else Halves()
        #: Load -> the result that takes over its buffer.
        self.heirs = self._heirs() if share and target.queues else {}
        self.over = {r.name: load for load, r in self.heirs.items()}
        self.room -= len(self.heirs)
        #: Tensor -> position, kind of its queue (None: a TBuf), number of the slot.
        self.homes: dict[str, tuple[Position, int | None, int]] = {}
        self.tmp: dict[str, tuple[TmpBuffer, ...]] = {}
        #: What the buffer of a Load with an heir holds.
        self.holder: dict[str, Node] = {}

    def with_order(self, order: int) -> _Planner:
        """A planner that has not run yet either, and chooses otherwise.

        What follows from the nodes alone is shared: it takes as long as a run.
        """
        other = copy(self)
        other.from_last, other.last_operand, other.dead_first, other.spare = (
            bool(order & bit) for bit in (1, 2, 4, 8)
        )
        other.halves, other.over = self.halves.copy(), dict(self.over)
        other.homes, other.tmp, other.holder = {}, {}, {}
        return other

    def _loads(self) -> list[Node]:
        return [n for n in self.looped if n.op == "Load"]

    def _index(self) -> None:
        self.nodes = [*self.placed.hoisted, *self.looped]
        self.by_name = {n.name: n for n in self.nodes}
        self.lengths: dict[str, Expr] = {}
        self.same: dict[Expr, Expr] = {}
        self.position = {n.name: 2 * i for i, n in enumerate(self.nodes)}
        end = 2 * len(self.nodes)
        ends: dict[tuple[int | None, int], int] = {}
        loop = {n.name: (n.loop_axis, n.loop_pass) for n in self.nodes}
        for n in self.nodes:
            ends[loop[n.name]] = self.position[n.name] + 1
        self.last = dict(self.position)
        for n in self.nodes:
            for x in n.inputs:
                if x in self.last:
                    use = self.position[n.name]
                    # What is made outside of a loop is needed in every iteration.
                    if loop[x] != loop[n.name] and self.position[x] < use:
                        if self.by_name[x].loop_axis is None:
                            use = end
                        elif n.loop_axis != self.placed.split.block_in:
                            use = ends[loop[n.name]]
                    self.last[x] = max(self.last[x], use)
            if n.attrs.get("joins"):
                for x in (n.name, str(n.attrs["joins"])):
                    self.last[x] = max(self.last[x], ends[loop[n.name]])
        self.stored = {x for n in self.looped if n.op == "Store" for x in n.inputs}

    # spilling ---------------------------------------------------------------------------------
    def _relieve_queues(self) -> None:
        """More tensors alive at once than queue buffers: the one needed last moves to a TBuf by a copy in UB."""
        if self._crowd([n for n in self.looped if n.name in self.stored and n.op != "Load"]):
            ops = frozenset(n.op for n in self.looped if n.op != "Load")
            self.looped = _copy_for_store(self.looped, ops)
            self._index()
        loads = [n for n in self._loads() if n.name not in self.stored]
        if self._crowd(loads):
            self._copy_after(self._moved(loads))

    def _crowd(self, tensors: Sequence[Node]) -> list[Node]:
        """The first set of more tensors alive at once than there is room for; empty if there is none."""
        alive: list[Node] = []
        for n in tensors:
            now = self.position[n.name]
            alive = [m for m in alive if self.last[m.name] >= now] + [n]
            if len(alive) > self.room:
                return alive
        return []

    def _moved(self, loads: Sequence[Node]) -> set[str]:
        """The loads that move, in one pass: one that has moved needs its queue for the copy alone."""
        moved: set[str] = set()
        alive: list[Node] = []
        for n in loads:
            now = self.position[n.name]
            alive = [m for m in alive if self.last[m.name] >= now] + [n]
            while len(alive) > self.room:
                left = [m for m in alive if m.name not in moved]
                if not left:
                    return moved
                most = max(left, key=lambda m: (self.last[m.name], self.position[m.name]))
                moved.add(most.name)
                if most is not n:
                    alive.remove(most)
            if n.name in moved:
                alive.remove(n)
        return moved

    def _copy_after(self, moved: set[str]) -> None:
        """Behind each of these loads a copy, which everything else uses."""
        out: list[Node] = []
        for n in self.looped:
            if not moved.isdisjoint(n.inputs):
                kept = tuple(f"{x}_kept" if x in moved else x for x in n.inputs)
                n = replace(n, inputs=kept)
            out.append(n)
            if n.name in moved:
                name, inputs = f"{n.name}_kept", (n.name,)
                out.append(replace(n, name=name, op="UbCopy", inputs=inputs, attrs={}, api=_VECTOR))
        self.looped = out
        self._index()

    # banks ------------------------------------------------------------------------------------
    def _suits(self, slot: _Slot, name: str) -> bool:
        """Whether a tensor may be in the half of the banks that the buffer is in."""
        return not slot.leader or self.halves.may_share(slot.leader, name)

    # sharing ----------------------------------------------------------------------------------
    def _heirs(self) -> dict[str, Node]:
        """Loads that are dead when a result that is stored is made, in the same loop and of the same size and type.

        The next load waits for the store of the result, not for calls that would read it after that.
        """
        found: dict[str, Node] = {}
        loads = [n for n in self._loads() if n.name not in self.stored]
        behind = {
            x: self.position[n.name] for n in self.looped if n.op == "Store" for x in n.inputs
        }
        results = [n for n in self.looped if n.name in self.stored and n.op != "Load"]
        # Each takes events of both positions; what has none of them needs a queue as well.
        most = self.room - int(max(len(loads), len(results)) > self.room)
        for r in results:
            if self.last[r.name] != behind[r.name]:
                continue
            if len(found) >= most:
                break
            fit = [
                load
                for load in loads
                if load.name not in found and self._is_like(load, r) and self._ends_at(load, r)
            ]
            suits = [load for load in fit if self.halves.may_share(load.name, r.name)]
            for load in (suits or fit)[:1]:
                found[load.name] = r
                self.halves.put(load.name, r.name, apart=False)
        return found

    def _is_like(self, n: Node, other: Node) -> bool:
        """Whether two tensors are made in one loop and have one size and type."""
        same = (n.loop_axis, n.loop_pass, n.y.dtype) == (
            other.loop_axis,
            other.loop_pass,
            other.y.dtype,
        )
        return same and self.nbytes(n) == self.nbytes(other)

    def _ends_at(self, n: Node, heir: Node) -> bool:
        """Whether ``n`` is dead when ``heir`` is made, or is an operand that its call may overwrite."""
        end, at = self.last[n.name], self.position[heir.name]
        call = find_call(heir.op, self.target.arch)
        over = call is not None and call.inplace and n.name in heir.inputs
        return end < at or (end == at and over and n.y.vectorized_axis == heir.y.vectorized_axis)

    def _guest(self, n: Node, now: int) -> str | None:
        """The Load whose buffer ``n`` may have until its heir is made."""
        found: str | None = None
        for load, heir in self.heirs.items():
            holder = self.holder.get(load)
            if holder is None or self.position[heir.name] < now:
                continue
            fits = self._is_like(n, heir) and self._ends_at(n, heir)
            if fits and self._ends_at(holder, n):
                if self.halves.may_share(load, n.name):
                    return load
                found = found or load
        return found

    # sizes ------------------------------------------------------------------------------------
    def nbytes(self, n: Node) -> Expr:
        """Bytes of UB that a tensor takes."""
        found = self.lengths.get(n.name)
        if found is None:
            f = function_of(n.op)
            found = f.result if f is not None else None
            if found is None:
                found = self.placed.nbytes(n, n.name in self.granule)
            # One object per length: slots compare lengths all the time.
            found = self.lengths[n.name] = self.same.setdefault(found, found)
        return found

    def _tmp_bytes(self, n: Node) -> Expr | None:
        return scratch_bytes(n, self.by_name, self.layout, self.target.arch)

    # assignment -------------------------------------------------------------------------------
    def run(self, most: int | None = None) -> None:
        """Assign everything, and add up.  Attributes: ``missed``, ``ub``.

        Args:
            most: so many missed tensors are too many: nothing is added up then.

        Raises:
            TemplateRejectedError: see :func:`plan_memory`.
        """
        vecin: list[_Slot] = []
        vecout: list[_Slot] = []
        copies: list[_Slot] = []
        shared: list[_Slot] = []
        bufs: list[_Slot] = []
        queues = self.target.queues
        for number, n in enumerate(self.nodes):
            if most is not None and self.missed >= most:
                return
            i = self.position[n.name]
            if queues:
                self._assign_tmp(n, i, bufs)
            if n.op == "Store":
                continue
            name, nbytes = n.name, self.nbytes(n)
            if number < len(self.placed.hoisted) and n.op == "Load":
                slot = _Slot(len(bufs), nbytes, loaded=True)
                bufs.append(slot)
                self._hold(slot, n)
                self._keep(n, slot, slot.position, None)
            elif name in self.heirs:
                slot = _Slot(len(shared), nbytes, (n.loop_axis, n.loop_pass))
                shared.append(slot)
                self._hold(slot, n)
                self._keep(n, slot, _VECOUT, 3)
                self.holder[name] = n
            elif name in self.over:
                self._inherit(n, shared)
            elif name in self.straight:
                slot = self._queue_slot(copies, self.copy_slots, nbytes, n, "stored loads")
                self._hold(slot, n)
                self._keep(n, slot, _VECOUT, 2)
            elif n.op == "Load" and queues:
                slot = self._queue_slot(vecin, self.room, nbytes, n, "loads")
                self._hold(slot, n)
                self._keep(n, slot, _VECIN, 0)
            elif name in self.stored and queues:
                slot = self._queue_slot(vecout, self.room, nbytes, n, "results to be stored")
                self._hold(slot, n)
                self._keep(n, slot, _VECOUT, 1)
            elif n.attrs.get("joins"):
                slot = bufs[self.homes[str(n.attrs["joins"])][2]]
                self._hold(slot, n)
                self._keep(n, slot, slot.position, None)
            else:
                taken = self._takeover(n, i, nbytes, bufs)
                guest = self._guest(n, i) if taken is None and self.heirs else None
                if guest is not None:
                    self.over[name] = guest
                    self._inherit(n, shared)
                    continue
                slot = self._slot(n, i, nbytes, bufs, taken)
                self._hold(slot, n)
                self._keep(n, slot, slot.position, None)
        if most is None or self.missed < most:
            self._finish(vecin, vecout, copies, shared, bufs)

    def _inherit(self, n: Node, shared: list[_Slot]) -> None:
        """The buffer of the Load that is over becomes that of ``n``."""
        load = self.over[n.name]
        slot = next(s for s in shared if load in s.tensors)
        self._hold(slot, n)
        self._keep(n, slot, _VECOUT, 3)
        self.holder[load] = n

    def _hold(self, slot: _Slot, n: Node) -> None:
        slot.hold(n.name, self.nbytes(n), self.last[n.name])
        if slot.leader != n.name:
            self.missed += not self.halves.put(slot.leader, n.name, apart=False)

    def _keep(self, n: Node, slot: _Slot, position: Position, queue: int | None) -> None:
        self.homes[n.name] = (position, queue, slot.id)

    def _queue_slot(self, slots: list[_Slot], room: int, nbytes: Expr, n: Node, what: str) -> _Slot:
        """A queue of its own while there is room, or that of another loop; then the free one that fits best.

        With few queues a free one of the same size comes before one of its own.
        """
        now, loop = self.position[n.name], (n.loop_axis, n.loop_pass)
        free = [s for s in slots if s.free_at < now]
        others = [s for s in free if (self.few or s.loop != loop) and s.nbytes == nbytes]
        if others:
            other = next((s for s in others if self._suits(s, n.name)), others[0])
            other.loop = loop
            return other
        if len(slots) < room:
            slots.append(_Slot(len(slots), nbytes, loop))
            return slots[-1]
        if not free:
            raise TemplateRejectedError(
                f"more than {room} {what} are alive at once with {self.buf_num} buffer(s) each; the chip has "
                f"{self.target.arch.queue_buffers_per_position} queue buffers per position: "
                + ", ".join(x for slot in slots for x in slot.tensors[-1:]),
                "AF3004",
            )
        return min(
            free,
            key=lambda s: (
                s.nbytes != nbytes,
                abs(weight(s.nbytes) - weight(nbytes)),
                not self._suits(s, n.name),
                s.free_at,
            ),
        )

    def _slot(
        self, n: Node, now: int, nbytes: Expr, bufs: list[_Slot], taken: _Slot | None
    ) -> _Slot:
        """The buffer ``taken`` of an operand that dies, in the right half of the banks if one is; else a dead one."""
        if taken is None:
            return self._free_slot(bufs, nbytes, now, n.name)
        if self._suits(taken, n.name) and not self.dead_first:
            return taken
        dead = (s for s in self._dead(bufs, now) if s.nbytes == nbytes)
        found = next((s for s in dead if self._suits(s, n.name)), taken)
        if self.spare and not self._suits(found, n.name):
            bufs.append(_Slot(len(bufs), nbytes))
            return bufs[-1]
        return found

    def _dead(self, bufs: list[_Slot], now: int) -> list[_Slot]:
        """The buffers that hold nothing any more."""
        dead = [s for s in bufs if s.free_at < now]
        return dead[::-1] if self.from_last else dead

    def _takeover(self, n: Node, now: int, nbytes: Expr, bufs: list[_Slot]) -> _Slot | None:
        call = find_call(n.op, self.target.arch)
        if call is None or not call.inplace:
            return None
        fit: list[_Slot] = []
        for x in reversed(n.inputs) if self.last_operand else n.inputs:
            if x not in self.homes or self.homes[x][1] is not None or self.last[x] != now:
                continue
            operand = self.by_name[x]
            same = operand.y.vectorized_axis == n.y.vectorized_axis
            same = same and operand.y.dtype.bits == n.y.dtype.bits
            if same and self.nbytes(operand) == nbytes:
                fit.append(bufs[self.homes[x][2]])
        return next((s for s in fit if self._suits(s, n.name)), fit[0] if fit else None)

    def _free_slot(self, bufs: list[_Slot], nbytes: Expr, now: int, name: str = "") -> _Slot:
        """A dead buffer of the same size, else one that is large enough, else a new one; ``name``: for which tensor."""
        free = self._dead(bufs, now)
        if self.spare and name:
            free = [s for s in free if self._suits(s, name)]
        same = [s for s in free if s.nbytes == nbytes]
        if not same:
            least = weight(nbytes)
            large = [s.weight for s in free if s.weight >= least]
            # A buffer that is too small grows: cheaper than a new one beside it.
            best = min(large) if large else max([s.weight for s in free], default=0)
            same = [s for s in free if s.weight == best]
        if same:
            return next((s for s in same if not name or self._suits(s, name)), same[0])
        bufs.append(_Slot(len(bufs), nbytes))
        return bufs[-1]

    def _assign_tmp(self, n: Node, now: int, bufs: list[_Slot]) -> None:
        nbytes = self._tmp_bytes(n)
        if nbytes is not None:
            slot = self._free_slot(bufs, nbytes, now)
            slot.hold("", nbytes, now)
            self.tmp[n.name] = (TmpBuffer(slot.id, nbytes),)

    def _finish(
        self,
        vecin: list[_Slot],
        vecout: list[_Slot],
        copies: list[_Slot],
        shared: list[_Slot],
        bufs: list[_Slot],
    ) -> None:
        """Number the queues through, put all buffers in order, check the limits, add up."""
        plans: list[BufferPlan] = []
        leaders: list[str] = []
        queue_id: dict[tuple[int, int], int] = {}
        for kind, slots, position in (
            (0, vecin, _VECIN),
            (2, copies, _VECOUT),
            (3, shared, _VECOUT),
            (1, vecout, _VECOUT),
        ):
            for s in slots:
                queue_id[kind, s.id] = len(plans)
                leaders.append(s.leader)
                names = tuple(s.tensors)
                plans.append(
                    BufferPlan(
                        "queue",
                        len(plans),
                        position,
                        self.buf_num,
                        self.buf_num,
                        s.nbytes,
                        names,
                        copy=kind in (2, 3),
                    )
                )
        for s in bufs:
            leaders.append(s.leader)
            names = tuple(t for t in s.tensors if t)
            plans.append(BufferPlan("buf", s.id, s.position, 1, 1, s.nbytes, names))
        if self.banks:
            wide = [n.name for n in self.nodes if n.y.vectorized_axis and n.y.dtype.kind != "m"]
            plans = in_halves(plans, leaders, self.halves, frozenset(wide), self.target.arch)
        count = sum(p.buf_num for p in plans)
        if count > self.target.arch.buffers_total:
            raise TemplateRejectedError(
                f"{count} buffers are needed; a TPipe has {self.target.arch.buffers_total}: "
                + "; ".join(f"{buffer_title(p)} x {p.buf_num}" for p in plans),
                "AF3004",
            )
        self.buffers, self.queue_id = tuple(plans), queue_id
        of_length: dict[Expr, int] = {}
        for p in plans:
            of_length[p.nbytes] = of_length.get(p.nbytes, 0) + p.buf_num
        self.ub = total(nbytes * number for nbytes, number in of_length.items())

    def plan(self) -> MemoryPlan:
        """What :meth:`run` found."""
        places = {}
        for name, (position, kind, slot) in self.homes.items():
            queue = None
            if kind is not None:
                queue = Queue(self.queue_id[kind, slot], self.buf_num, self.buf_num)
            buf = slot if kind is None else None
            tmp, over = self.tmp.get(name, ()), self.over.get(name)
            places[name] = _Place(position, queue, buf, tmp, over)
        return MemoryPlan(tuple(self.nodes), places, self.buffers, self.ub)


def buffer_title(b: BufferPlan) -> str:
    """What a buffer is and which tensors it holds, for messages."""
    names = ", ".join(b.tensors[:4]) + (", ..." if len(b.tensors) > 4 else "")
    other = "pad" if b.pad else "scratch"
    return f"{'TBuf' if b.kind == 'buf' else 'queue'} {b.id} ({names or other})"


_VECTOR = Api("Compute", "elewise", "Vector")


def _stored_behind_uses(looped: Sequence[Node]) -> list[Node]:
    """The nodes with every Store behind the calls of its loop that use what it stores."""
    uses: dict[str, int] = {}
    loop = {n.name: (n.loop_axis, n.loop_pass) for n in looped}
    for i, n in enumerate(looped):
        for x in n.inputs if n.op != "Store" else ():
            if loop.get(x) == loop[n.name]:
                uses[x] = i
    place = {
        n.name: max(i, uses.get(n.inputs[0], i)) for i, n in enumerate(looped) if n.op == "Store"
    }
    order = {n.name: (place.get(n.name, i), n.name in place) for i, n in enumerate(looped)}
    return sorted(looped, key=lambda n: order[n.name])


def _copy_for_store(looped: Sequence[Node], ops: frozenset[str]) -> list[Node]:
    """Results of ``ops`` that vector calls use and that are stored as well get a copy to store from."""
    stored = {x for n in looped if n.op == "Store" for x in n.inputs}
    both = {n.name: n for n in looped if n.op in ops and n.name in stored}
    used = {x for n in looped if n.op != "Store" for x in n.inputs if x in both}
    if not used:
        return list(looped)
    out: list[Node] = []
    copied: set[str] = set()
    for n in looped:
        if n.op == "Store" and n.inputs[0] in used:
            source = both[n.inputs[0]]
            name = f"{source.name}_copy"
            if name not in copied:
                copied.add(name)
                out.append(
                    replace(source, name=name, op="UbCopy", inputs=n.inputs, attrs={}, api=_VECTOR)
                )
            n = replace(n, inputs=(name,))
        out.append(n)
    return out
