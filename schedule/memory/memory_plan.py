"""Memory plan of a template, in bytes: queues for tensors that cross pipes, TBufs for the rest.

Every tensor gets a live range over the execution order; a tensor made before a loop and used in it is live to the end
of the loop.  An accumulator uses the buffer of its initial value.  Loads go to VECIN queues, stored results to VECOUT
queues, a load that goes straight to a store to a TQueBind; everything else, including all tensors made before the loop,
goes to TBufs that are reused as soon as their tensor is dead.  A result takes over the buffer of an operand whose live
range ends there if the call allows that.

If UB is tight, loads and results share buffers too: a result takes over the buffer of a load of the same loop that is
dead by then, and the buffer holds other tensors in between.  Its queue is a TQueBind from the load to the vector calls,
and from these to the store.

Where possible, the plan puts the two operands of a call into buffers of different halves of the banks
(``autofuse.schedule.cost.banks``).  Addresses follow from lengths and order, since a TPipe allocates them sequentially.

A target without queues has only buffers: arrays that calls read and write, without scratch space.

One file, because one class plans, and each decision constrains the next.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from autofuse.base.wording import Wording, counted, listed
from autofuse.implgraph.expr.expression import Expr, total
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import (
    AllocType,
    BufferKind,
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
from autofuse.schedule.memory.stores import copy_for_store, copy_in_ub, stored_behind_uses
from autofuse.schedule.placement.placement import Placed
from autofuse.schedule.placement.scalars import is_copied, is_scalar
from autofuse.targets import TargetSpec

__all__ = ["MemoryPlan", "buffer_title", "least_memory", "plan_memory"]

#: Enum members used for every tensor, bound once because the lookup is slow.
_BUFFER, _QUEUE, _UB = AllocType.BUFFER, AllocType.QUEUE, Hardware.UB
_VECIN, _VECOUT, _VECCALC = Position.VECIN, Position.VECOUT, Position.VECCALC


class _Queues(Enum):
    """Kinds of queues of a kernel by their contents, in numbering order."""

    LOADS = "loads"
    #: Loads that go straight to a store.
    COPIES = "stored loads"
    #: Loads that leave their buffers to results.
    SHARED = "loads and results"
    RESULTS = "results to be stored"

    @property
    def position(self) -> Position:
        """VECIN for loads used only by vector calls, VECOUT for everything that is stored."""
        return _VECIN if self is _Queues.LOADS else _VECOUT

    @property
    def bound(self) -> bool:
        """True if loads fill the queue and stores drain it: a TQueBind."""
        return self in (_Queues.COPIES, _Queues.SHARED)


@frozen
class _Place:
    """The memory of a UB tensor: number of its queue or TBuf, scratch space, the Load whose buffer it takes over."""

    position: Position
    queue: Queue | None
    buf: int | None
    tmp: tuple[TmpBuffer, ...]
    over: str | None

    def given_to(self, n: Node, tensor: int) -> Node:
        """Return the node with this memory; ``tensor`` is the id of its tensor."""
        kind = _BUFFER if self.queue is None else _QUEUE
        number = self.buf if self.queue is None else self.queue.id
        assert number is not None
        mem = Mem(tensor, kind, _UB, self.position, reuse_id=number)
        y = replace(n.y, mem=mem, que=self.queue, buf=self.buf)
        return replace(n, y=y, tmp_buffers=self.tmp, over=self.over)


@frozen
class MemoryPlan:
    """The buffers, the UB sum in bytes as a function of the tile symbols, and the memory of every node.

    Most plans are discarded based on their UB sum alone, so nodes get their memory lazily.
    """

    bare: tuple[Node, ...]
    places: Mapping[str, _Place]
    buffers: tuple[BufferPlan, ...]
    ub: Expr

    def nodes(self, first_tensor: int = 0) -> list[Node]:
        """Return all nodes in execution order with their memory, tensors numbered from ``first_tensor`` on.

        Stores stay unchanged, since their memory is GM, and so do elements that only the scalar unit holds.
        """
        number = itertools.count(first_tensor)
        return [
            self.places[n.name].given_to(n, next(number)) if n.name in self.places else n
            for n in self.bare
        ]


@dataclass(slots=True)
class _Slot:
    """A queue or TBuf while it is being filled."""

    id: int
    nbytes: Expr
    #: Its bytes for comparing sizes.
    weight: int = field(init=False)
    #: The loop in which its last tensor was made.
    loop: tuple[int | None, int] = (None, 0)
    free_at: int = -1
    tensors: list[str] = field(default_factory=list)
    #: For a TBuf: a load before the loops fills it, whatever it holds once that is dead.
    loaded: bool = False
    #: The tensor that determines its half of the banks.
    leader: str = ""

    def __post_init__(self) -> None:
        self.weight = weight(self.nbytes)

    @property
    def position(self) -> Position:
        """The position of a TBuf."""
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
) -> MemoryPlan:
    """Allocate the memory of every UB tensor of a template.

    Args:
        placed: the nodes on the split axes.
        target: queue and buffer limits.
        buf_num: buffers per queue, 2 or 1.
        share: let results take over the buffers of loads.
        banks: place buffers so that the operands of calls do not collide, at the cost of some bytes; ignored for a chip
            whose operands collide at any address.
        few: reuse the queue of a dead load or result, which makes the next one wait, even if the chip has room for
            another queue.

    Raises:
        TemplateRejectedError: the chip's limits on queue buffers or on all buffers are exceeded.
    """
    banks = banks and target.arch.bank_halves
    planner = _Planner(placed, target, buf_num, share=share, banks=banks, few=few)
    planner.run()
    return planner.plan()


def least_memory(placed: Placed, target: TargetSpec, env: Mapping[str, int]) -> tuple[int, int]:
    """Return lower bounds on the buffers and UB bytes of any plan: the maximum over simultaneously live tensors.

    A result counts from the next node on, as it may reuse the buffer of an operand whose live range ends there.

    Args:
        placed: the nodes on the split axes.
        target: the chip.
        env: values of all symbols.
    """
    plan = _Planner(placed, target, 2, share=False, banks=False)
    alive: list[tuple[int, int]] = []  # (end of the live range, bytes), earliest end first
    buffers = most = now = 0
    for n in plan.nodes:
        while alive and alive[0][0] < plan.position[n.name]:
            now -= heapq.heappop(alive)[1]
        buffers, most = max(buffers, len(alive)), max(most, now)
        # An accumulator stays in the buffer of its initial value, which is live as long.
        if n.op != "Store" and n.joins is None:
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
        self.layout = placed.layout
        #: Nodes that run before the loops and occupy UB.
        self.hoisted = [n for n in placed.hoisted if not is_scalar(n, alone=True)]
        self.looped = list(placed.looped)
        if target.queues:
            self.looped = copy_for_store(self.looped, frozenset({"Load"}))
        if share:
            self.looped = stored_behind_uses(self.looped)
        self._index()
        per_position = target.arch.queue_buffers_per_position
        straight = self._loads() if target.queues else []
        self.straight = {n.name for n in straight if n.name in self.stored}
        self.copy_slots = min(len(self.straight), max(1, per_position // buf_num // 4))
        # The sync after the loads before the loop reserves one event of the position.
        reserved = int(any(n.op == "Load" and is_copied(n) for n in placed.hoisted))
        self.room = (per_position - reserved) // buf_num - self.copy_slots
        if buf_num == 1 and target.queues:
            self._relieve_queues()
        self.granule = granule_tensors(self.nodes, target.arch)
        # Calls in loops come first, since not all calls may get conflict-free places.
        self.halves = halves_of([*self.looped, *self.hoisted]) if banks else Halves()
        #: Load -> the result that takes over its buffer.
        self.heirs = self._heirs() if share and target.queues else {}
        self.over = {r.name: load for load, r in self.heirs.items()}
        self.room -= len(self.heirs)
        self.queues: dict[_Queues, list[_Slot]] = {kind: [] for kind in _Queues}
        self.bufs: list[_Slot] = []
        #: Tensor -> its slot, and the kind of that queue; None for a TBuf.
        self.homes: dict[str, tuple[_Slot, _Queues | None]] = {}
        self.tmp: dict[str, tuple[TmpBuffer, ...]] = {}
        #: Current content of the buffer of a Load with an heir.
        self.holder: dict[str, Node] = {}

    def _loads(self) -> list[Node]:
        return [n for n in self.looped if n.op == "Load"]

    def _index(self) -> None:
        self.nodes = [*self.hoisted, *self.looped]
        self.by_name = {n.name: n for n in self.nodes}
        self.lengths: dict[str, Expr] = {}
        self.same: dict[Expr, Expr] = {}
        self.position = {n.name: 2 * i for i, n in enumerate(self.nodes)}
        end = 2 * len(self.nodes)
        ends: dict[tuple[int | None, int], int] = {}
        loop = {n.name: n.loop for n in self.nodes}
        for n in self.nodes:
            ends[loop[n.name]] = self.position[n.name] + 1
        self.last = dict(self.position)
        for n in self.nodes:
            for x in n.inputs:
                if x in self.last:
                    use = self.position[n.name]
                    # Tensors made outside a loop are needed in every iteration.
                    if loop[x] != loop[n.name] and self.position[x] < use:
                        if self.by_name[x].loop_axis is None:
                            use = end
                        elif n.loop_axis != self.placed.split.block_in:
                            use = ends[loop[n.name]]
                    self.last[x] = max(self.last[x], use)
            if n.joins is not None:
                for x in (n.name, n.joins):
                    self.last[x] = max(self.last[x], ends[loop[n.name]])
        self.stored = {x for n in self.looped if n.op == "Store" for x in n.inputs}

    # spilling ---------------------------------------------------------------------------------
    def _relieve_queues(self) -> None:
        """Spill while more tensors are live than there are queue buffers: copy the one needed last to a TBuf in UB."""
        if self._crowd([n for n in self.looped if n.name in self.stored and n.op != "Load"]):
            ops = frozenset(n.op for n in self.looped if n.op != "Load")
            self.looped = copy_for_store(self.looped, ops)
            self._index()
        loads = [n for n in self._loads() if n.name not in self.stored]
        if self._crowd(loads):
            self._copy_after(self._moved(loads))

    def _crowd(self, tensors: Sequence[Node]) -> list[Node]:
        """Return the first set of simultaneously live tensors that exceeds the room, or an empty set."""
        alive: list[Node] = []
        for n in tensors:
            now = self.position[n.name]
            alive = [m for m in alive if self.last[m.name] >= now] + [n]
            if len(alive) > self.room:
                return alive
        return []

    def _moved(self, loads: Sequence[Node]) -> set[str]:
        """Return the loads to spill, in one pass: a spilled load needs its queue only for the copy."""
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
        """Add a copy after each of these loads, which all other users read."""
        out: list[Node] = []
        for n in self.looped:
            if not moved.isdisjoint(n.inputs):
                kept = tuple(f"{x}_kept" if x in moved else x for x in n.inputs)
                n = replace(n, inputs=kept)
            out.append(n)
            if n.name in moved:
                out.append(copy_in_ub(n, f"{n.name}_kept"))
        self.looped = out
        self._index()

    # banks ------------------------------------------------------------------------------------
    def _suits(self, slot: _Slot, name: str) -> bool:
        """Return True if a tensor may be placed in the buffer's half of the banks."""
        return not slot.leader or self.halves.may_share(slot.leader, name)

    # sharing ----------------------------------------------------------------------------------
    def _heirs(self) -> dict[str, Node]:
        """Find loads that are dead when a stored result of the same loop, size and type is made.

        The next load waits for the store of the result, not for later calls that read the result.
        """
        found: dict[str, Node] = {}
        loads = [n for n in self._loads() if n.name not in self.stored]
        behind = {
            x: self.position[n.name] for n in self.looped if n.op == "Store" for x in n.inputs
        }
        results = [n for n in self.looped if n.name in self.stored and n.op != "Load"]
        # Each takes events of both positions; tensors without an heir need queues as well.
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
        """Return True if two tensors are made in one loop and have the same size and type."""
        same = n.loop == other.loop and n.y.dtype == other.y.dtype
        return same and self.nbytes(n) == self.nbytes(other)

    def _ends_at(self, n: Node, heir: Node) -> bool:
        """Return True if ``n`` is dead when ``heir`` is made, or is an operand that the heir's call may overwrite."""
        end, at = self.last[n.name], self.position[heir.name]
        call = find_call(heir.op, self.target.arch)
        over = call is not None and call.inplace and n.name in heir.inputs
        return end < at or (end == at and over and n.y.vectorized_axis == heir.y.vectorized_axis)

    def _guest(self, n: Node, now: int) -> str | None:
        """Return the Load whose buffer ``n`` may use until the heir is made."""
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
        """Return the bytes of UB that a tensor takes."""
        found = self.lengths.get(n.name)
        if found is None:
            f = function_of(n.op)
            found = f.result if f is not None else None
            if found is None:
                found = self.placed.nbytes(n, n.name in self.granule)
            # One object per length, since slots compare lengths frequently.
            found = self.lengths[n.name] = self.same.setdefault(found, found)
        return found

    # assignment -------------------------------------------------------------------------------
    def run(self) -> None:
        """Assign all memory and compute the UB sum.

        Raises:
            TemplateRejectedError: see :func:`plan_memory`.
        """
        queues = self.target.queues
        for number, n in enumerate(self.nodes):
            now, name = self.position[n.name], n.name
            if queues:
                self._assign_tmp(n, now)
            if n.op == "Store":
                continue
            if number < len(self.hoisted) and n.op == "Load":
                self._hold(n, self._new(self.bufs, n, loaded=True))
            elif name in self.heirs:
                self._hold(n, self._new(self.queues[_Queues.SHARED], n), _Queues.SHARED)
                self.holder[name] = n
            elif name in self.over:
                self._inherit(n)
            elif name in self.straight:
                self._enqueue(n, _Queues.COPIES, self.copy_slots)
            elif n.op == "Load" and queues:
                self._enqueue(n, _Queues.LOADS, self.room)
            elif name in self.stored and queues:
                self._enqueue(n, _Queues.RESULTS, self.room)
            elif n.joins is not None:
                self._hold(n, self.homes[n.joins][0])
            else:
                taken = self._takeover(n, now)
                guest = self._guest(n, now) if taken is None and self.heirs else None
                if guest is None:
                    self._hold(n, self._slot(n, now, taken))
                else:
                    self.over[name] = guest
                    self._inherit(n)
        self._finish()

    def _inherit(self, n: Node) -> None:
        """Let ``n`` take over the buffer of a dead Load."""
        load = self.over[n.name]
        self._hold(n, self.homes[load][0], _Queues.SHARED)
        self.holder[load] = n

    def _new(self, slots: list[_Slot], n: Node, *, loaded: bool = False) -> _Slot:
        """Return a new slot."""
        slots.append(_Slot(len(slots), self.nbytes(n), n.loop, loaded=loaded))
        return slots[-1]

    def _hold(self, n: Node, slot: _Slot, queues: _Queues | None = None) -> None:
        """Put the result of ``n`` into a slot: a queue of this kind, else a TBuf."""
        slot.hold(n.name, self.nbytes(n), self.last[n.name])
        if slot.leader != n.name:
            self.halves.put(slot.leader, n.name, apart=False)
        self.homes[n.name] = (slot, queues)

    def _enqueue(self, n: Node, kind: _Queues, room: int) -> None:
        self._hold(n, self._queue_slot(n, kind, room), kind)

    def _queue_slot(self, n: Node, kind: _Queues, room: int) -> _Slot:
        """Return a new queue while there is room, or one of another loop; then the free one that fits best.

        With ``few`` queues a free one of the same size takes precedence over a new one.
        """
        slots, nbytes = self.queues[kind], self.nbytes(n)
        now, loop = self.position[n.name], n.loop
        free = [s for s in slots if s.free_at < now]
        others = [s for s in free if (self.few or s.loop != loop) and s.nbytes == nbytes]
        if others:
            other = next((s for s in others if self._suits(s, n.name)), others[0])
            other.loop = loop
            return other
        if len(slots) < room:
            return self._new(slots, n)
        if not free:
            raise TemplateRejectedError(
                f"more than {room} {kind.value} are live at once with {counted(self.buf_num, 'buffer')} each; the "
                f"chip has {self.target.arch.queue_buffers_per_position} queue buffers per position: "
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

    def _slot(self, n: Node, now: int, taken: _Slot | None) -> _Slot:
        """Return the buffer ``taken`` of a dying operand, or a dead one; preferably in the right half of the banks."""
        nbytes = self.nbytes(n)
        if taken is None:
            return self._free_slot(nbytes, now, n.name)
        if self._suits(taken, n.name):
            return taken
        dead = (s for s in self.bufs if s.free_at < now and s.nbytes == nbytes)
        return next((s for s in dead if self._suits(s, n.name)), taken)

    def _takeover(self, n: Node, now: int) -> _Slot | None:
        """Return the buffer of an operand that dies with the call, if the call may overwrite it."""
        call = find_call(n.op, self.target.arch)
        if call is None or not call.inplace:
            return None
        fit: list[_Slot] = []
        for x in n.inputs:
            slot, queues = self.homes.get(x, (None, None))
            if slot is None or queues is not None or self.last[x] != now:
                continue
            operand = self.by_name[x]
            same = operand.y.vectorized_axis == n.y.vectorized_axis
            same = same and operand.y.dtype.bits == n.y.dtype.bits
            if same and self.nbytes(operand) == self.nbytes(n):
                fit.append(slot)
        return next((s for s in fit if self._suits(s, n.name)), fit[0] if fit else None)

    def _free_slot(self, nbytes: Expr, now: int, name: str = "") -> _Slot:
        """Return a dead buffer of the same size, else a large enough one, else a new one, for the tensor ``name``."""
        free = [s for s in self.bufs if s.free_at < now]
        same = [s for s in free if s.nbytes == nbytes]
        if not same:
            least = weight(nbytes)
            large = [s.weight for s in free if s.weight >= least]
            # Grow a buffer that is too small: cheaper than adding a new one.
            best = min(large) if large else max([s.weight for s in free], default=0)
            same = [s for s in free if s.weight == best]
        if same:
            return next((s for s in same if not name or self._suits(s, name)), same[0])
        self.bufs.append(_Slot(len(self.bufs), nbytes))
        return self.bufs[-1]

    def _assign_tmp(self, n: Node, now: int) -> None:
        nbytes = scratch_bytes(n, self.by_name, self.layout, self.target.arch)
        if nbytes is not None:
            slot = self._free_slot(nbytes, now)
            slot.hold("", nbytes, now)
            self.tmp[n.name] = (TmpBuffer(slot.id, nbytes),)

    def _finish(self) -> None:
        """Number the queues, order all buffers, check the limits, compute the UB sum."""
        plans: list[BufferPlan] = []
        leaders: list[str] = []
        for kind, slots in self.queues.items():
            for s in slots:
                s.id = len(plans)
                leaders.append(s.leader)
                plans.append(
                    BufferPlan(
                        BufferKind.QUEUE,
                        s.id,
                        kind.position,
                        self.buf_num,
                        self.buf_num,
                        s.nbytes,
                        tuple(s.tensors),
                        copy=kind.bound,
                    )
                )
        for s in self.bufs:
            leaders.append(s.leader)
            names = tuple(t for t in s.tensors if t)
            plans.append(BufferPlan(BufferKind.BUF, s.id, s.position, 1, 1, s.nbytes, names))
        if self.banks:
            wide = [n.name for n in self.nodes if n.y.vectorized_axis and n.y.dtype.kind != "m"]
            plans = in_halves(plans, leaders, self.halves, frozenset(wide), self.target.arch)
        count = sum(p.buf_num for p in plans)
        if count > self.target.arch.buffers_total:
            named = {n.name: n for n in self.nodes}
            raise TemplateRejectedError(
                Wording(
                    "{} needed; a TPipe has {}: {}",
                    counted(count, "buffer is", "buffers are"),
                    self.target.arch.buffers_total,
                    listed([Wording("{} x {}", buffer_title(p, named), p.buf_num) for p in plans]),
                ),
                "AF3004",
            )
        self.buffers = tuple(plans)
        of_length: dict[Expr, int] = {}
        for p in plans:
            of_length[p.nbytes] = of_length.get(p.nbytes, 0) + p.buf_num
        self.ub = total(nbytes * number for nbytes, number in of_length.items())

    def plan(self) -> MemoryPlan:
        """Return the plan that :meth:`run` found."""
        places = {}
        for name, (slot, kind) in self.homes.items():
            tmp, over = self.tmp.get(name, ()), self.over.get(name)
            if kind is None:
                places[name] = _Place(slot.position, None, slot.id, tmp, over)
            else:
                queue = Queue(slot.id, self.buf_num, self.buf_num)
                places[name] = _Place(kind.position, queue, None, tmp, over)
        bare = (*(n for n in self.placed.hoisted if is_scalar(n, alone=True)), *self.nodes)
        return MemoryPlan(bare, places, self.buffers, self.ub)


def buffer_title(b: BufferPlan, nodes: Mapping[str, Node]) -> Wording:
    """Return the kind of a buffer and the tensors that it holds, for messages.

    Args:
        b: the buffer.
        nodes: the nodes that produce its tensors, by name.
    """
    shown: list[object] = [nodes.get(t, t) for t in b.tensors[:4]] or [
        "pad" if b.pad else "scratch"
    ]
    shown += ["..."] if len(b.tensors) > 4 else []
    kind = "TBuf" if b.kind is BufferKind.BUF else "queue"
    return Wording(f"{kind} {b.id} ({{}})", listed(shown, ", "))
