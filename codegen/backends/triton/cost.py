"""A model of the time of kernels on a card: no measurement.

The blocks of a kernel take turns: they load, compute, wait and store.  All of them share memory and, on their
multiprocessor, the units that compute; a block by itself takes the sum of all that, at the rate that one multiprocessor
reaches alone.  A kernel takes the longest of three bounds, rounded off where two are close: its bytes over the rate of
memory, its operations, and the turns of a block by itself over the number of blocks that have room at once.

A core of an Ascend chip goes over its blocks one after another, and loads the next one while it computes.  A kernel
takes the longest of: its bytes over the rate of memory, or over that of the cores that have a block; the vector calls
of all blocks of a core; and what the core waits for the loads of each block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from autofuse.codegen.backends.triton.blocks import MOST_REGISTERS, WARP, WINDOW
from autofuse.codegen.backends.triton.kernels import Form, Kernel, Program
from autofuse.codegen.backends.triton.summary import blocks_at, plan_summary
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import unit_axis, values_held, varies, walk
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.targets import GpuTarget, TargetSpec
from autofuse.targets.spec import load_chip

__all__ = ["KernelTime", "Work", "modelled", "time_of", "works"]

#: Bytes that memory moves at least.
_SECTOR = 32
#: Runs from which on what a run wastes is next to nothing.
_LONG = 4096
#: Operations of a thread that a multiprocessor starts in a clock.
_LANES = 128
#: Operations that an op of a special function takes; any other takes one.  Assumed.
_HEAVY = 4
#: Operations that a load of a window takes, whose elements the caches have: its place, and the load.  Fitted to the
#: pools of docs/measured_gpu.md.
_OF_WINDOW = 8
#: Nodes that take no operation of their own; loads and stores are counted as such.
_FREE = frozenset(("Load", "Store", "Scalar", "Broadcast"))
#: Share of L2 that still holds what was read, while other data stream through.  Assumed.
_KEPT = 0.5
#: How sharply the longest of the bounds decides.  Assumed.
_SHARPNESS = 3.0
#: Blocks of a multiprocessor, at most.
_MOST_BLOCKS = 32


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The modelled time of a kernel.

    Attributes:
        name: of its function.
        us: microseconds, by the model.
        bytes: of inputs, outputs and scratch, each element once.
        bottleneck: what takes most of it: ``launch``; ``bandwidth`` or ``L2``, whichever serves the bytes;
            ``instructions``; ``clusters``, blocks that wait for each other; ``parallelism``, too few blocks;
            ``registers``, too few of them fit a multiprocessor at once; ``latency``, a core waits for loads.
    """

    name: str
    us: float
    bytes: int
    bottleneck: str


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a kernel at given sizes, from which the figures of a card give a time.

    Attributes:
        name: of its function.
        bytes: bytes moved, each element counted once.
        runs: bytes moved, repeated reads included, and the length in bytes of the contiguous runs in which they are
            moved.
        blocks: thread blocks, those of clusters one by one.
        threads: threads of a block.
        values: values of a block that a thread holds in registers.
        turns: iterations of a block, each of which loads, computes and stores.
        stages: turns that a block has in flight at once.
        operations: operations of all threads.
        meets: meetings of the blocks of a cluster in a turn.
        late: values that a thread loads in a turn after a reduction, when its registers are full.
    """

    name: str
    bytes: int
    runs: tuple[tuple[int, int], ...]
    blocks: int
    threads: int
    values: int
    turns: int
    stages: int
    operations: int
    meets: int
    late: int


def modelled(program: Program, gpu: GpuTarget, sizes: Mapping[str, int]) -> tuple[KernelTime, ...]:
    """The modelled time of every kernel that is launched, in their order.

    Args:
        program: the plan of a graph.
        gpu: the card, or the cores of a chip.
        sizes: of the symbols of the graph, in elements.
    """
    if gpu.chip:
        chip = load_chip(gpu.chip)
        found = zip(program.kernels, plan_summary(program, sizes), strict=True)
        kernels = ((_Kernel(k, gpu, sizes), row) for k, row in found if row["launched"])
        return tuple(k.time_on_cores(row, chip) for k, row in kernels)
    return tuple(time_of(w, gpu) for w in works(program, gpu, sizes))


def works(program: Program, gpu: GpuTarget, sizes: Mapping[str, int]) -> Iterator[Work]:
    """Yield the work of every launched kernel; arguments as for :func:`modelled`."""
    for k, row in zip(program.kernels, plan_summary(program, sizes), strict=True):
        if row["launched"]:
            unique = row["input_bytes"] + row["output_bytes"] + row["scratch_bytes"]
            yield _Kernel(k, gpu, sizes).work(row["programs"], unique)


def time_of(w: Work, gpu: GpuTarget) -> KernelTime:
    """The modelled time of the work of a kernel on a card."""
    in_l2 = w.bytes <= _KEPT * gpu.l2_bytes
    rate = gpu.l2_gbs if in_l2 else gpu.copy_gbs
    used = max(1, min(gpu.multiprocessors, w.blocks))
    room = _room(w, gpu)
    at_once = min(room, max(1.0, w.blocks / used)) * w.stages
    turns = w.turns * w.blocks / used
    moved = sum(_moved(count, run, gpu.waste_bytes) for count, run in w.runs)
    memory = moved / rate / 1e3
    compute = w.operations / used / _LANES / gpu.clock_mhz
    meeting = turns * w.meets * gpu.meet_us
    late = turns * w.late * gpu.late_us
    alone = moved / used / gpu.alone_gbs / 1e3 + compute + meeting + late
    bounds = {
        "L2" if in_l2 else "bandwidth": memory,
        "instructions": compute,
        _why(w, gpu, room, meeting, alone): alone / at_once,
    }
    us, most = _longest(bounds, gpu)
    return KernelTime(w.name, us, w.bytes, most)


def _longest(bounds: dict[str, float], gpu: GpuTarget) -> tuple[float, str]:
    """Modelled microseconds, launch included, and the name of the longest bound."""
    us = sum(b**_SHARPNESS for b in bounds.values()) ** (1 / _SHARPNESS)
    bounds["launch"] = gpu.launch_us
    return gpu.launch_us + us, max(bounds, key=lambda name: bounds[name])


def _room(w: Work, gpu: GpuTarget) -> int:
    """Blocks that a multiprocessor has room for at once."""
    each = min(MOST_REGISTERS, gpu.thread_registers + w.values)
    by_registers = int(gpu.registers / (w.threads * each))
    return max(1, min(gpu.threads // w.threads, by_registers, _MOST_BLOCKS))


def _why(w: Work, gpu: GpuTarget, room: int, meeting: float, alone: float) -> str:
    """Why blocks do not hide what they wait for."""
    if meeting > alone / 2:
        return "clusters"
    return "parallelism" if w.blocks < room * gpu.multiprocessors else "registers"


def _moved(count: int, run: int, waste: float) -> float:
    """Bytes that memory spends on ``count`` bytes in runs of neighbours."""
    if run >= _LONG:
        return count
    return count * (_ceil_div(run, _SECTOR) * _SECTOR + waste) / run


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


class _Kernel:
    """One kernel at given sizes."""

    def __init__(self, k: Kernel, gpu: GpuTarget, sizes: Mapping[str, int]) -> None:
        self.kernel, self.gpu, self.sizes = k, gpu, sizes
        self.size = {a: k.nest.sizes[a].evaluate(sizes) for a in k.nest.axes}
        self.cols = frozenset(k.cols)
        self.blocks = blocks_at(k, self._count(k.rows), self._count(k.cols))
        self.passes = self._passes()
        self.windows = self._windows()

    def _count(self, axes: Sequence[int]) -> int:
        return prod(self.size[a] for a in axes)

    def work(self, programs: int, unique: int) -> Work:
        """Return the work of a grid of ``programs``; ``unique``: bytes moved, each element counted once."""
        k, b = self.kernel, self.blocks
        blocks = programs * b.parts
        elements, threads = b.rows * b.cols, WARP * b.warps
        each = _ceil_div(elements, threads)
        turns, stages = 1, 1
        if k.form is Form.LOOP:
            turns = _ceil_div(_ceil_div(self._count(k.cols), b.chunks), b.cols)
            stages = b.stages
        elif b.programs:
            turns = _ceil_div(_ceil_div(self._count(k.rows), b.rows), b.programs)
            stages = b.stages
        whole = k.form is Form.ROWS
        return Work(
            k.name,
            unique,
            tuple(self._runs(blocks)),
            blocks,
            threads,
            values_held(k.nest) * each if whole else 0,
            max(turns, 1),
            stages,
            blocks * max(turns, 1) * elements * sum(map(self._operations, self.passes)),
            len(k.passes) if b.parts > 1 else 0,
            each * self._late() if whole else 0,
        )

    def time_on_cores(self, row: Mapping[str, Any], chip: TargetSpec) -> KernelTime:
        """The modelled time on the cores of a chip; ``row``: the kernel in the summary of the plan."""
        gpu, model = self.gpu, chip.model
        unique = row["input_bytes"] + row["output_bytes"] + row["scratch_bytes"]
        work = self.work(row["programs"], unique)
        used = max(1, min(gpu.multiprocessors, work.blocks))
        turns = _ceil_div(work.blocks, used) * work.turns
        in_l2 = work.bytes <= _KEPT * gpu.l2_bytes
        moved = sum(_moved(count, run, 0) for count, run in work.runs)
        each = self.blocks.rows * self.blocks.cols
        vector = waits = 0.0
        for nodes in self.passes:
            loads = sum(n.op == "Load" for n in nodes)
            stores = sum(n.op == "Store" for n in nodes)
            waits += loads * model.load_issue + stores * model.store_issue
            waits += model.load_latency if loads else 0.0
            for cost in self._calls(nodes):
                call = chip.vector.get(cost, chip.vector["binary"])
                vector += call.head + each / call.rate32 if call.rate32 else 0.0
        core_rate = model.hot_core_rate if in_l2 else model.load_core_rate
        bounds = {
            "L2" if in_l2 else "bandwidth": moved / (gpu.l2_gbs if in_l2 else gpu.copy_gbs) / 1e3,
            "parallelism": moved / used / core_rate / gpu.clock_mhz
            if used < gpu.multiprocessors
            else 0.0,
            "instructions": turns * vector / gpu.clock_mhz,
            "latency": turns * (waits + model.loop) / gpu.clock_mhz,
        }
        us, most = _longest(bounds, gpu)
        return KernelTime(work.name, us, unique, most)

    def _calls(self, nodes: Sequence[Node]) -> Iterator[str]:
        """The row of the chip's table of vector calls for each node that computes on a block."""
        k = self.kernel
        along = {a for a in (k.cols or k.rows) if self.size[a] > 1}
        for n in nodes:
            if n.op in REDUCES:
                # Element by element, and folded once at the end.
                yield "binary"
            elif n.op not in _FREE and varies(n) & along:
                yield lookup(n.op).cost

    def _passes(self) -> list[list[Node]]:
        """The nodes of every pass over the columns; a loop goes over them for each level of reductions."""
        k = self.kernel
        nodes = k.nest.nodes
        if k.form is not Form.LOOP or k.partials:
            return [list(nodes)]
        found, known = [], set[str]()
        for items in k.passes:
            targets = [i.first.inputs[0] for i in items]
            found.append(list(walk(nodes, targets, frozenset(known))))
            known |= {r.name for i in items for r in i.results}
        stores = [n.name for n in nodes if n.op == "Store"]
        last = list(walk(nodes, stores, frozenset(known)))
        if any(n.op == "Store" and varies(n) & self.cols for n in last):
            return [*found, last]
        return [*found[:-1], [*found[-1], *last]]

    def _operations(self, nodes: Sequence[Node]) -> int:
        """Operations on an element of a block in a pass: those on what differs from element to element."""
        k = self.kernel
        along = {a for a in (k.cols or k.rows) if self.size[a] > 1}
        moves = sum(n.op in ("Load", "Store") for n in nodes)
        windows = sum(n.op == "Load" and self._memory(n).name in self.windows for n in nodes)
        return (
            moves
            + windows * (_OF_WINDOW - 1)
            + sum(
                _HEAVY if lookup(n.op).special else 1
                for n in nodes
                if n.op not in _FREE and (n.op in REDUCES or varies(n) & along)
            )
        )

    def _late(self) -> int:
        """Loads along the columns that no reduction needs."""
        nodes = self.kernel.nest.nodes
        first = [n.inputs[0] for n in nodes if n.op in REDUCES]
        early = {n.name for n in walk(nodes, first, frozenset())}
        late = (n for n in nodes if n.op == "Load" and n.name not in early)
        return sum(bool(varies(n) & self.cols) for n in late) if first else 0

    def _memory(self, n: Node) -> Memory:
        k = self.kernel
        return k.buffers[n.inputs[0]] if n.op == "Load" else k.targets[n.name]

    # bytes ------------------------------------------------------------------------------------
    def _windows(self) -> frozenset[str]:
        """Memory of which elements read windows that overlap: memory serves each element once, caches the rest."""
        loads = (n for n in self.kernel.nest.nodes if n.op == "Load" and varies(n))
        read = Counter(self._memory(n).name for n in loads)
        items = self.kernel.form is Form.ITEMS
        return frozenset(m for m, count in read.items() if items and count >= WINDOW)

    def _runs(self, blocks: int) -> Iterator[tuple[int, int]]:
        """Bytes that are moved, and in runs of how many."""
        before: set[object] = set()
        seen: set[str] = set()
        for nodes in self.passes:
            moves = {self._address(n): n for n in nodes if n.op in ("Load", "Store")}
            for address, n in moves.items():
                held = not varies(n) & self.cols or self._kept(n, blocks)
                memory = self._memory(n).name
                again = memory in self.windows and n.op == "Load" and memory in seen
                if (address not in before or not held) and not again:
                    yield self._bytes(n), self._run(n)
                seen.add(memory)
            before |= moves.keys()
        for p in self.kernel.partials:
            assert p.memory.size is not None
            yield p.memory.size.evaluate(self.sizes) * p.memory.dtype.itemsize, _LONG

    def _address(self, n: Node) -> object:
        """Equal for moves of the same elements."""
        y = n.y
        return n.op, self._memory(n).name, n.inputs[1:], y.repeats, y.strides, y.offset

    def _kept(self, n: Node, blocks: int) -> bool:
        """Return True if L2 still holds what an earlier pass over the columns has read."""
        threads = WARP * self.blocks.warps
        at_once = self.gpu.threads // threads or 1
        under_way = min(blocks, self.gpu.multiprocessors * at_once)
        row = self._count(self.kernel.cols) * n.y.dtype.itemsize
        return under_way * row <= _KEPT * self.gpu.l2_bytes

    def _bytes(self, n: Node) -> int:
        """Bytes of a Load or Store; of a run of elements also what is read again when L2 has lost it."""
        count = self._count(sorted(varies(n)))
        if n.op == "Load" and self.kernel.form is Form.ITEMS:
            axes = self.kernel.nest.axes
            for i, a in enumerate(axes):
                if a not in varies(n) and self._between(axes[i + 1 :]) > _KEPT * self.gpu.l2_bytes:
                    count *= self.size[a]
        return count * n.y.dtype.itemsize

    def _between(self, inner: Sequence[int]) -> int:
        """Bytes of all that is moved while the axes outside of ``inner`` stand still."""
        moves = (n for n in self.kernel.nest.nodes if n.op in ("Load", "Store"))
        return sum(n.y.dtype.itemsize * self._count(sorted(varies(n) & {*inner})) for n in moves)

    def _run(self, n: Node) -> int:
        """Bytes of neighbours in memory that a block moves together."""
        k, b = self.kernel, self.blocks
        unit = unit_axis(n)
        if k.form is Form.ITEMS or unit is None or not varies(n) & self.cols:
            return _LONG
        if unit not in self.cols:
            return min(b.rows, self.size[unit]) * n.y.dtype.itemsize
        return min(b.cols, self.size[unit]) * n.y.dtype.itemsize if k.form is Form.TILES else _LONG
