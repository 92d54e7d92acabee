"""An analytical model of kernel times on a card.

A block repeats a turn: load, compute, wait, store.  All blocks share memory bandwidth and, per multiprocessor, the
compute units; a single block takes the sum of these times, at the rate that one multiprocessor reaches alone.  The time
of a kernel is the largest of three bounds, smoothed where two are close: its bytes over the memory rate, its
operations, and the turns of a single block over the number of resident blocks.

A core of an Ascend chip processes its blocks in sequence, and loads the next one while it computes.  The time of a
kernel is the largest of: its bytes over the memory rate, or over the rate of the cores that have a block; the vector
calls of all blocks of a core; and the time that the core waits for each block's loads.
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

#: Smallest memory transaction in bytes.
_SECTOR = 32
#: Run length in bytes from which waste is negligible.
_LONG = 4096
#: Thread operations that a multiprocessor issues per clock.
_LANES = 128
#: Cost of a special function, relative to any other op.  Assumed.
_HEAVY = 4
#: Operations of a cached window load: the address and the load.  Fitted to the pools of docs/measured_gpu.md.
_OF_WINDOW = 8
#: Nodes without an operation of their own; loads and stores are counted separately.
_FREE = frozenset(("Load", "Store", "Scalar", "Broadcast"))
#: Share of L2 that retains earlier reads while other data stream through.  Assumed.
_KEPT = 0.5
#: Exponent of the smooth maximum of the bounds.  Assumed.
_SHARPNESS = 3.0
#: Most blocks of a multiprocessor.
_MOST_BLOCKS = 32


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Modelled time of a kernel.

    Attributes:
        name: function name.
        us: modelled microseconds.
        bytes: bytes of inputs, outputs and scratch, each element counted once.
        bottleneck: the largest contribution: ``launch``; ``bandwidth`` or ``L2``, whichever serves the bytes;
            ``instructions``; ``clusters``, blocks that wait for each other; ``parallelism``, too few blocks;
            ``registers``, too few resident blocks per multiprocessor; ``latency``, a core that waits for loads.
    """

    name: str
    us: float
    bytes: int
    bottleneck: str


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a kernel at given sizes; with the figures of a card it gives a time.

    Attributes:
        name: function name.
        bytes: bytes moved, each element counted once.
        runs: bytes moved, repeated reads included, with the length in bytes of the contiguous runs.
        blocks: thread blocks; the blocks of a cluster count separately.
        threads: threads of a block.
        values: block values that a thread holds in registers.
        turns: iterations of a block, each of which loads, computes and stores.
        stages: turns of a block in flight.
        operations: operations of all threads.
        meets: cluster barriers per turn.
        late: values that a thread loads per turn after a reduction, when its registers are full.
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
    """Return the modelled time of every launched kernel, in launch order.

    Args:
        program: plan of a graph.
        gpu: card, or the cores of a chip.
        sizes: sizes of the graph's symbols, in elements.
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
    """Return the modelled time of a kernel's work on a card."""
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
    """Return the modelled microseconds, launch included, and the name of the largest bound."""
    us = sum(b**_SHARPNESS for b in bounds.values()) ** (1 / _SHARPNESS)
    bounds["launch"] = gpu.launch_us
    return gpu.launch_us + us, max(bounds, key=lambda name: bounds[name])


def _room(w: Work, gpu: GpuTarget) -> int:
    """Return the number of resident blocks of a multiprocessor."""
    each = min(MOST_REGISTERS, gpu.thread_registers + w.values)
    by_registers = int(gpu.registers / (w.threads * each))
    return max(1, min(gpu.threads // w.threads, by_registers, _MOST_BLOCKS))


def _why(w: Work, gpu: GpuTarget, room: int, meeting: float, alone: float) -> str:
    """Return the reason why other blocks do not hide latency."""
    if meeting > alone / 2:
        return "clusters"
    return "parallelism" if w.blocks < room * gpu.multiprocessors else "registers"


def _moved(count: int, run: int, waste: float) -> float:
    """Return the bytes of memory traffic for ``count`` bytes in contiguous runs of ``run`` bytes."""
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
        """Return the modelled time on the cores of a chip; ``row``: the kernel's row in the plan summary."""
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
        """Yield the row of the chip's vector table for each node that computes on a block."""
        k = self.kernel
        along = {a for a in (k.cols or k.rows) if self.size[a] > 1}
        for n in nodes:
            if n.op in REDUCES:
                # Accumulated element by element, and reduced once at the end.
                yield "binary"
            elif n.op not in _FREE and varies(n) & along:
                yield lookup(n.op).cost

    def _passes(self) -> list[list[Node]]:
        """Return the nodes of every pass over the columns; a loop has one pass per level of reductions."""
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
        """Return the operations per element of a block in a pass; values constant within the block are free."""
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
        """Return the number of loads along the columns that no reduction needs."""
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
        """Return the memory read in overlapping windows, whose elements memory serves once and caches serve again."""
        loads = (n for n in self.kernel.nest.nodes if n.op == "Load" and varies(n))
        read = Counter(self._memory(n).name for n in loads)
        items = self.kernel.form is Form.ITEMS
        return frozenset(m for m, count in read.items() if items and count >= WINDOW)

    def _runs(self, blocks: int) -> Iterator[tuple[int, int]]:
        """Yield bytes moved, each with the length of their contiguous runs."""
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
        """Return a key that is equal for moves of the same elements."""
        y = n.y
        return n.op, self._memory(n).name, n.inputs[1:], y.repeats, y.strides, y.offset

    def _kept(self, n: Node, blocks: int) -> bool:
        """Return True if L2 still holds the data that an earlier pass over the columns read."""
        threads = WARP * self.blocks.warps
        at_once = self.gpu.threads // threads or 1
        under_way = min(blocks, self.gpu.multiprocessors * at_once)
        row = self._count(self.kernel.cols) * n.y.dtype.itemsize
        return under_way * row <= _KEPT * self.gpu.l2_bytes

    def _bytes(self, n: Node) -> int:
        """Return the bytes of a Load or Store; for a run of elements, including rereads after L2 evictions."""
        count = self._count(sorted(varies(n)))
        if n.op == "Load" and self.kernel.form is Form.ITEMS:
            axes = self.kernel.nest.axes
            for i, a in enumerate(axes):
                if a not in varies(n) and self._between(axes[i + 1 :]) > _KEPT * self.gpu.l2_bytes:
                    count *= self.size[a]
        return count * n.y.dtype.itemsize

    def _between(self, inner: Sequence[int]) -> int:
        """Return the bytes moved while the axes outside of ``inner`` are fixed."""
        moves = (n for n in self.kernel.nest.nodes if n.op in ("Load", "Store"))
        return sum(n.y.dtype.itemsize * self._count(sorted(varies(n) & {*inner})) for n in moves)

    def _run(self, n: Node) -> int:
        """Return the length in bytes of the contiguous runs that a block moves."""
        k, b = self.kernel, self.blocks
        unit = unit_axis(n)
        if k.form is Form.ITEMS or unit is None or not varies(n) & self.cols:
            return _LONG
        if unit not in self.cols:
            return min(b.rows, self.size[unit]) * n.y.dtype.itemsize
        return min(b.cols, self.size[unit]) * n.y.dtype.itemsize if k.form is Form.TILES else _LONG
