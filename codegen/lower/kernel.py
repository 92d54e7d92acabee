"""ImplGraph -> KernelIR: one device function per template.

The ImplGraph holds all decisions: split axes, order, buffers, strides.  Lowering only spells out the schedule: loops,
tails, DMA descriptors, the queue protocol, and the syncs between copies to and from the same memory.  Passes, which
track byte accesses, insert the other syncs and all barriers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from autofuse.codegen.ir.calls import Role, ScalarVar
from autofuse.codegen.ir.extents import Extents, actual_size
from autofuse.codegen.ir.kernel_ir import (
    WORKSPACE,
    Alias,
    Alloc,
    BlockIndex,
    BufDecl,
    BypassL2,
    Comment,
    CopyIn,
    CopyOut,
    DeQue,
    DmaBlock,
    DmaDims,
    EnQue,
    For,
    Free,
    GetBuf,
    GlobalDecl,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    Loop,
    Parameters,
    PipeDecl,
    QueueDecl,
    ReturnIfEmpty,
    ScalarRead,
    Stmt,
    Sync,
    TilingField,
)
from autofuse.codegen.lower.dma import dma_block
from autofuse.codegen.lower.names import Names, parameter_names
from autofuse.codegen.lower.vector_calls import VectorCalls
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ZERO, CeilDiv, Expr, FloorDiv, Min, Mod, sym
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Axis, AxisType, BufferKind, BufferPlan, ImplGraph, Node
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.cost.cache_hints import bypass_bytes
from autofuse.schedule.placement.copied import copied
from autofuse.schedule.placement.permutation import is_permuted
from autofuse.schedule.placement.picking import beyond, is_run
from autofuse.schedule.placement.scalars import is_scalar
from autofuse.schedule.placement.scan import goes_backwards
from autofuse.targets import TargetSpec

__all__ = ["lower_kernel", "lower_templates"]

#: A copy: offsets in GM and UB, the descriptor of a DMA command, and the loops around it.
_Moved: TypeAlias = "tuple[Expr, Expr, DmaBlock | DmaDims, Sequence[tuple[str, Expr]]]"

PIPE = "tpipe"


def lower_kernel(
    impl: ImplGraph,
    params: Parameters,
    target: TargetSpec,
    ops: Mapping[str, str] = MappingProxyType({}),
) -> KernelFn:
    """Return the device function of one template.

    Args:
        impl: scheduled graph.
        params: the kernel's GM parameters, indexed by Data and Output nodes.
        target: chip, for its dialect (DMA calls) and architecture (vector calls).
        ops: op at each location of the input file, for comments on the steps of an expanded op.
    """
    return _Lowering(impl, params, target, ops).function()


class _Lowering:
    def __init__(
        self, impl: ImplGraph, params: Parameters, target: TargetSpec, ops: Mapping[str, str]
    ) -> None:
        self.impl = impl
        made = Counter(n.origin for n in impl.nodes if n.api is not None)
        #: Ops that expand to several calls, by location.
        self.ops = {place: ops[place] for place, k in made.items() if k > 1 and place in ops}
        self.params = params
        self.target = target
        self.extents = Extents(impl)
        #: Ranges of all sizes that copies depend on: symbols, the tile, tails.
        self.ranges = self._ranges()
        self.names = Names(impl, params)
        self.calls = VectorCalls(impl, target.arch, self.extents, self.names)
        self.nodes = self.calls.nodes
        #: Destination of every Store: an Output, or a Workspace.
        self.sinks = {i: n for n in impl.nodes if n.op in ("Output", "Workspace") for i in n.inputs}
        #: GlobalTensor of every Load and Store.
        self.gm: dict[str, str] = {}
        self.loop = self.extents.axes[self.extents.block_out.origin[0]]
        #: First tile of this core.
        self.first = sym(self.extents.block_out.name) * sym(impl.tiling.block_size)
        self.reduce_loop = None if impl.r_axis is None else self.extents.axes[impl.r_axis]
        #: Loads whose memory a result reuses.
        self.hosts = {n.over for n in impl.nodes}
        #: Stored value -> its first Store.
        self.first_store: dict[str, str] = {}
        for n in impl.nodes:
            if n.op == "Store":
                self.first_store.setdefault(n.inputs[0], n.name)
        self.scalars: dict[str, ScalarVar] = {}
        #: DMA of a tile, by layout: most copies share one.
        self.moved: dict[tuple[object, ...], _Moved] = {}
        #: Last use of every result.
        self.last = {x: i for i, n in enumerate(impl.nodes) for x in n.inputs}
        #: Nodes with results in queues.
        self.queued = {n.name for n in impl.nodes if n.y.que is not None and n.op != "Store"}
        self.position = {n.name: i for i, n in enumerate(impl.nodes)}
        self.now = 0

    # function ---------------------------------------------------------------------------------
    def function(self) -> KernelFn:
        spec = self.impl.tiling
        body: list[Stmt] = [*self._sizes(), *self._memory()]
        before = [n for n in self.impl.nodes if n.loop_axis is None and n.api is not None]
        inside = [n for n in self.impl.nodes if n.loop_axis is not None]
        body += self._tensors_of_bufs(before + inside)
        body += self._before_loop(before, inside)
        loop = [*self._indices(), *self._tile(inside)]
        body.append(
            For(
                self.extents.block_in.name,
                sym(f"{self.extents.block_in.name}_loop_size"),
                tuple(loop),
                Loop.TILES,
            )
        )
        title = (
            f"{self.impl.name}: {self.extents.axes[spec.opened.axis].name} in tiles of {spec.opened.symbol}, "
            f"{self.loop.name} in blocks of {spec.block_size} per core.",
            *self._reduce_title(),
        )
        return KernelFn(
            self.impl.name, self.params, tuple(body), title, self.calls.arch, self.target
        )

    def _reduce_title(self) -> tuple[str, ...]:
        if self.reduce_loop is None:
            return ()
        passes = {n.loop_pass for n in self.impl.nodes if n.loop_axis == self.reduce_loop.id}
        times = {1: "once", 2: "twice"}.get(len(passes), f"{len(passes)} times")
        return (f"Loops over {self.reduce_loop.name} {times} per tile.",)

    def _sizes(self) -> list[Stmt]:
        spec = self.impl.tiling
        known = {spec.opened.symbol, spec.block_size, *(s.name for s in self.impl.symbols)}
        wanted = [s.name for s in self.impl.symbols] + [spec.opened.symbol, spec.block_size]
        out: list[Stmt] = [TilingField(name) for name in wanted if name in known]
        total = f"{self.loop.name}_axis_size"
        if bounds(spec.row_elements, {s.name: (s.min, s.max) for s in self.impl.symbols})[0] < 1:
            out += [Let("row_size", spec.row_elements), ReturnIfEmpty("row_size")]
        out += [
            Let(total, spec.tiles),
            BlockIndex(self.extents.block_out.name, spec.first_core),
            Let(
                f"{self.extents.block_in.name}_loop_size",
                Min(sym(spec.block_size), sym(total) - self.first),
            ),
            ReturnIfEmpty(f"{self.extents.block_in.name}_loop_size"),
        ]
        loop = self.reduce_loop
        if loop is not None and loop.id not in self.extents.tails and not self._is_cut(loop):
            out.append(Let(f"{loop.name}_loop_size", loop.size))
        return out

    def _memory(self) -> list[Stmt]:
        out: list[Stmt] = []
        declared: set[str] = set()
        bypassing: dict[Expr, list[str]] = {}
        for n in self.impl.nodes:
            if n.op not in ("Load", "Store"):
                continue
            end = self.nodes[n.inputs[0]] if n.op == "Load" else self.sinks[n.name]
            if end.op == "Workspace":
                param, gm = WORKSPACE, f"{end.name}_gm"
            else:
                index = end.number("index")
                param = (self.params.inputs if n.op == "Load" else self.params.outputs)[index]
                # The pieces of an output are written to one tensor.
                gm = f"{param}_gm"
            self.gm[n.name] = gm
            if gm not in declared:
                declared.add(gm)
                out.append(GlobalDecl(gm, n.y.dtype, param, end.size("offset", 0)))
                held = bypass_bytes(n)
                if held is not None:
                    bypassing.setdefault(held, []).append(gm)
        l2 = self.target.l2_bytes
        for held, names in bypassing.items():
            least, most = bounds(held, self.ranges)
            if most > l2:
                out.append(BypassL2(tuple(names), None if least > l2 else held, l2))
        out.append(PipeDecl(PIPE))
        out += [self._declaration(b) for b in self.impl.buffers]
        sizes: dict[Expr, Expr] = {}
        for b in self.impl.buffers:
            if not b.nbytes.is_const and b.nbytes not in sizes:
                name = self.names.size(b)
                sizes[b.nbytes] = sym(name)
                out.append(Let(name, b.nbytes))
        for b in self.impl.buffers:
            number = b.buf_num if b.kind is BufferKind.QUEUE else 0
            if b.pad:
                out.append(
                    Comment("Padding: the next buffer starts in the other half of the UB banks.")
                )
            nbytes = b.nbytes if b.nbytes.is_const else sizes[b.nbytes]
            out.append(InitBuffer(PIPE, self.names.declared(b), number, nbytes))
        return out

    def _declaration(self, b: BufferPlan) -> Stmt:
        name = self.names.declared(b)
        if b.kind is BufferKind.QUEUE:
            return QueueDecl(name, b.position, b.depth, b.copy, b.id)
        return BufDecl(name, b.position, b.id)

    def _tensors_of_bufs(self, nodes: Sequence[Node]) -> list[Stmt]:
        out: list[Stmt] = []
        for n in nodes:
            if n.op != "Store" and n.y.buf is not None and n.name not in self.calls.same:
                out.append(
                    GetBuf(self.names.local(n), self.names.buffer(n.y.buf), n.y.dtype, n.name)
                )
            out.extend(
                GetBuf(self.names.scratch(n), self.names.buffer(t.id), _BYTES, n.name, Role.SCRATCH)
                for t in n.tmp_buffers
            )
        return out

    # before the loop --------------------------------------------------------------------------
    def _before_loop(self, before: Sequence[Node], inside: Sequence[Node]) -> list[Stmt]:
        out: list[Stmt] = []
        loads = [n for n in before if n.op == "Load" and len(n.inputs) == 1]
        for n in loads:
            if is_scalar(n):
                out += [self._origin(n), *self._scalar_load(n)]
                continue
            out += [self._origin(n), *self._copies(n, self.names.local(n), whole=True)]
        for n in before:
            if n in loads:
                continue
            if n.op == "Load":
                out += [self._origin(n), *self._copies(n, self.names.local(n), whole=True)]
            else:
                out.append(self._origin(n))
                out += self._scalar_reads(n)
                out += [self.calls.of(n, True, self.scalars)]
        self.now = self.position[inside[0].name]
        for n in inside:
            out += self._scalar_reads(n, before_loop=True)
        return out

    def _scalar_reads(self, n: Node, *, before_loop: bool = False) -> list[Stmt]:
        """Return the reads of uniform tensors that ``n`` takes as scalars; ``before_loop``: those outside the loop."""
        out: list[Stmt] = []
        for i in self.calls.scalar_inputs.get(n.name, ()):
            x = self.nodes[n.inputs[i]]
            if x.op == "Scalar" or x.name in self.scalars or x.y.vectorized_axis:
                continue
            if before_loop and not self._is_made(x):
                continue  # Computed and read in the loop.
            name = self.names.scalar(x)
            out.append(ScalarRead(name, self.names.local(x), x.y.dtype))
            self.scalars[x.name] = ScalarVar(name)
        return out

    def _scalar_load(self, n: Node) -> list[Stmt]:
        """Return the element of a Load on the scalar unit, and its copy in UB if a call needs it there."""
        name, local, gm = self.names.scalar(n), self.names.local(n), self.gm[n.name]
        at, _, block, _ = self._moved(n, whole=True)
        self.scalars[n.name] = ScalarVar(name)
        read = ScalarRead(name, local, n.y.dtype, gm, at, n.name)
        if is_scalar(n, alone=True):
            return [read]
        return [read, CopyIn(local, ZERO, gm, at, n.y.dtype, block, scalar=name)]

    def _is_made(self, x: Node) -> bool:
        """Return True if the statements that compute ``x`` precede the current one."""
        return self.position[x.name] < self.now

    # loop -------------------------------------------------------------------------------------
    def _tile(self, nodes: Sequence[Node]) -> list[Stmt]:
        """Return the statements for one tile: its nodes in order, each pass in a loop of its own."""
        out: list[Stmt] = []
        known = dict(self.scalars)
        runs = itertools.groupby(nodes, key=lambda n: n.loop)
        for (axis, _), run in runs:
            members = list(run)
            self.now = self.position[members[0].name]
            if axis == self.extents.block_in.id:
                for n in members:
                    out += self._in_loop(n)
            else:
                out += self._pass(members)
        self.scalars = known
        return out

    def _pass(self, members: Sequence[Node]) -> list[Stmt]:
        """Return one loop over the reduced axes."""
        loop = self.reduce_loop
        assert loop is not None
        out: list[Stmt] = []
        for n in members:
            out += self._scalar_reads(n, before_loop=True)
        known = dict(self.scalars)
        body: list[Stmt] = []
        var = loop.name
        if goes_backwards(self.impl):
            var = f"{loop.name}_step"
            body.append(Let(loop.name, sym(f"{loop.name}_loop_size") - 1 - sym(var)))
        elif members[0].loop_pass in self.impl.tiling.staggered:
            # Cores that read one tensor start at different offsets.
            var = f"{loop.name}_step"
            place = sym(var) + sym(self.extents.block_out.name)
            body.append(Let(loop.name, Mod(place, self._steps(loop))))
        body += self._digits(loop)
        if self.impl.tiling.reduce_tiles:
            body.append(self._actual())
        for n in members:
            body += self._in_loop(n)
        self.scalars = known
        out.append(For(var, self._steps(loop), tuple(body), Loop.STEPS))
        names = {n.name for n in members}
        inside = range(self.position[members[0].name], self.position[members[-1].name] + 1)
        for x in dict.fromkeys(i for n in members for i in n.inputs if i not in names):
            source = self.nodes[x]
            if x in self.queued and self.last[x] in inside:
                out.append(Free(self.names.local(source), self.names.queue(source)))
        return out

    def _steps(self, loop: Axis) -> Expr:
        """Return the iterations of the reduce loop; with tiles of a constant length, as many as this tile has."""
        if loop.id in self.extents.tails:
            return sym(actual_size(loop))
        if self._is_cut(loop):
            return CeilDiv(self.extents.tiled, sym(self.impl.tiling.opened.symbol))
        return sym(f"{loop.name}_loop_size")

    def _is_cut(self, loop: Axis) -> bool:
        """Return True for the tiles of an axis that is a tile of a constant length itself, the last one shorter."""
        opened = self.impl.tiling.opened
        return loop.id == self.extents.tile_out.id and opened.axis in self.extents.tails

    def _indices(self) -> list[Stmt]:
        spec, loop = self.impl.tiling, self.loop
        out: list[Stmt] = [Let(loop.name, self.first + sym(self.extents.block_in.name))]
        out += self._digits(loop)
        if not spec.reduce_tiles:
            out.append(self._actual())
        out += [
            Let(actual_size(self.extents.axes[a]), length)
            for a, length in self.extents.tails.items()
        ]
        return out

    def _digits(self, loop: Axis) -> list[Stmt]:
        """Define the indices of the axes that a loop axis was merged from."""
        if loop.type is not AxisType.MERGED:
            return []
        out: list[Stmt] = []
        rest = sym(loop.name)
        parts = [self.extents.axes[a] for a in loop.origin]
        for k, part in enumerate(reversed(parts)):
            last = k == len(parts) - 1
            out.append(Let(part.name, rest if last else Mod(rest, part.size)))
            rest = FloorDiv(rest, part.size)
        return out

    def _actual(self) -> Stmt:
        """Return the length of this tile."""
        spec = self.impl.tiling
        t = sym(spec.opened.symbol)
        return Let(
            self.extents.actual_name(),
            Min(t, self.extents.tiled - sym(self.extents.tile_out.name) * t),
        )

    def _in_loop(self, n: Node) -> list[Stmt]:
        out: list[Stmt] = [self._origin(n)]
        if n.op == "Store":
            return [*out, *self._store(n), *self._frees(n)]
        local, dtype, whole = self.names.local(n), n.y.dtype, self._whole(n)
        if n.op == "Load":
            queue, link = self.names.queue(n), "in" if n.name in self.hosts else ""
            out.append(Alloc(local, queue, dtype, n.name))
            out += self._copies(n, local, whole=whole)
            out += [EnQue(local, queue, dtype, link), DeQue(local, queue, dtype, link)]
        else:
            out += self._scalar_reads(n)
            if n.over is not None:
                out.append(Alias(local, self.names.local(self.nodes[n.over]), dtype, n.name))
            elif n.y.que is not None:
                out.append(Alloc(local, self.names.queue(n), dtype, n.name))
            out.append(self.calls.of(n, whole, self.scalars))
        return out + self._frees(n)

    def _origin(self, n: Node) -> Comment:
        """Return a comment with the name and op of a node; a step of an expanded op names that op as well."""
        op = self.ops.get(n.origin, n.op)
        step = "" if op == n.op else f", a step of {op}"
        place = f" ({n.origin})" if n.origin else ""
        return Comment(f"from: {n.name}: {n.op}{step}{place}")

    def _whole(self, n: Node) -> bool:
        """Return True if the node covers a full tile, since it serves all tiles of the reduce loop."""
        return self.impl.tiling.reduce_tiles and n.loop_axis == self.extents.block_in.id

    def _store(self, n: Node) -> list[Stmt]:
        source = self.nodes[n.inputs[0]]
        local, dtype = self.names.local(source), source.y.dtype
        out: list[Stmt] = []
        if source.op != "Load" and self.first_store[source.name] == n.name:
            queue, link = self.names.queue(source), "out" if source.over is not None else ""
            out += [EnQue(local, queue, dtype, link), DeQue(local, queue, dtype, link)]
        if any(load not in self._needed_by(n) for load in self._overwritten_by(n)):
            # The copy to GM overwrites the source of an earlier copy from GM, without a data dependence between them.
            out.append(Sync("MTE2", "S"))
        return out + self._copies(n, local, whole=False)

    def _overwritten_by(self, store: Node) -> list[str]:
        """Return the loads in the loop that read the memory this store overwrites."""
        over = self.sinks[store.name].attrs.get("inout", -1)
        if over == -1:
            return []
        return [n.name for n in self.impl.nodes if n.op == "Load" and self._reads(n, over)]

    def _reads(self, load: Node, index: object) -> bool:
        """Return True if a Load reads the kernel input with this index."""
        source = self.nodes[load.inputs[0]]
        return source.op == "Data" and source.attrs["index"] == index

    def _needed_by(self, n: Node) -> set[str]:
        """Return the names of all nodes that ``n`` depends on."""
        seen: set[str] = set()
        todo = list(n.inputs)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.nodes[name].inputs
        return seen

    def _frees(self, n: Node) -> list[Stmt]:
        """Return the statements that free queue tensors last used by this node."""
        out: list[Stmt] = []
        here = self.position[n.name]
        for x in dict.fromkeys((*n.inputs, n.name)):
            if x not in self.queued or self.last.get(x, here) != here:
                continue
            source = self.nodes[x]
            if source.loop != n.loop:
                continue  # freed after the loop
            if self._ends_its_queue(source):  # else freed with the tensor that reuses its memory
                out.append(Free(self.names.local(source), self.names.queue(source)))
        return out

    def _ends_its_queue(self, n: Node) -> bool:
        """Return True if no node reuses the queue buffer of ``n``; of several nodes, the stored one is the last."""
        if n.over is None:
            return n.name not in self.hosts
        return n.name in self.first_store

    # copies -----------------------------------------------------------------------------------
    def _copies(self, n: Node, local: str, whole: bool) -> list[Stmt]:
        """Return the DMA commands of a Load or Store: contiguous dimensions joined, one loop per dimension beyond two.

        For indexed loads, a loop per axis that an index tensor varies along surrounds the commands.
        """
        y, is_indexed = n.y, n.op == "Load" and len(n.inputs) > 1
        indices: list[int] = []
        if is_indexed:
            stride = dict(zip(y.axis, y.strides, strict=True))
            indices = [a for a in y.vectorized_axis if stride[a] == ZERO]
        where = (y.dtype.itemsize, y.axis, y.repeats, y.strides, y.offset)
        lies = (*where, y.vectorized_axis, y.vectorized_strides)
        key = (lies, whole, is_run(n), beyond(n), *indices)
        moved = self.moved.get(key)
        if moved is None:
            moved = self.moved[key] = self._moved(n, whole=whole)
        gm, ub, block, loops = moved
        read: list[Stmt] = []
        if is_indexed:
            at = self._index_read(n, {a: sym(f"row{k}") for k, a in enumerate(indices)})
            gm = gm + sym(at.name) * n.size("stride")
            read = [at]
        stmts: list[Stmt] = [self._dma(n, local, gm, ub, block)]
        if not (loops or read):
            return stmts
        for k in reversed(range(len(loops) + 1)):
            if k == len(indices):
                stmts = [*read, *stmts]
            if k:
                var, size = loops[k - 1]
                stmts = [For(var, size, tuple(stmts))]
        return stmts

    def _moved(self, n: Node, *, whole: bool) -> _Moved:
        """Return the DMA of a Load's or Store's tile."""
        y, moved = n.y, copied(n, lambda a: self.extents.of(a, whole))
        offset = y.offset + moved.first
        for a, s, r in zip(y.axis, y.strides, y.repeats, strict=True):
            if r.number == 1:
                continue
            if a == self.extents.block_in.id:
                # Blocks of tiles: the tile index combines the core and its loop.
                offset = offset + s * sym(self.extents.tile_out.name)
            elif a != self.extents.block_out.id and a not in y.vectorized_axis:
                offset = offset + s * self.extents.index(a)
        if is_permuted(n):
            return offset, ZERO, DmaDims(moved.dims), []
        last = len(moved.dims) - moved.in_command(self.target.arch, self.ranges)
        outer, inner = moved.dims[:last], moved.dims[last:]
        gm, ub = offset, ZERO
        loops: list[tuple[str, Expr]] = []
        for k, d in enumerate((*moved.directed, *outer)):
            var = f"row{k}"
            loops.append((var, d.size))
            gm, ub = gm + d.gm * sym(var), ub + d.ub * sym(var)
        return gm, ub, dma_block(inner, y.dtype.itemsize, self.target.arch.block_bytes), loops

    def _index_read(self, n: Node, rows: Mapping[int, Expr]) -> IndexRead:
        """Return the read of the index that a Load takes; ``rows`` are the indices of the axes in this tile."""
        index = self.nodes[n.inputs[1]]
        offset = ZERO
        for a, pitch in zip(index.y.vectorized_axis, index.y.vectorized_strides, strict=True):
            offset = offset + pitch * rows[a]
        extent = n.size("extent")
        return IndexRead(
            self.names.place(n), self.names.local(index), offset, index.y.dtype, extent, n.name
        )

    def _ranges(self) -> dict[str, tuple[int, int]]:
        opened = self.impl.tiling.opened
        return {
            **{s.name: (s.min, s.max) for s in self.impl.symbols},
            opened.symbol: (1, 1 << 62),
            self.extents.actual_name(): (1, opened.extent.as_int() or 1 << 62),
            **{
                actual_size(self.extents.axes[a]): (1, self.extents.axes[a].size.value)
                for a in self.extents.tails
            },
        }

    def _dma(self, n: Node, local: str, gm: Expr, ub: Expr, block: DmaBlock | DmaDims) -> Stmt:
        where, pad = (local, ub, self.gm[n.name], gm, n.y.dtype), self.target.arch.has_datacopypad
        if n.op == "Load":
            return CopyIn(*where, block, pad)
        assert isinstance(block, DmaBlock)
        return CopyOut(*where, block, pad)


_BYTES = DType("uint8", 8, "u", "uint8_t")


def lower_templates(
    graph: FusionGraph, results: Iterable[ScheduleResult], target: TargetSpec
) -> dict[str, KernelFn]:
    """Return the KernelIR of every template by name, before any pass."""
    tensors, ops = parameter_names(graph), {n.origin: n.op for n in graph.nodes}
    impls = {i.name: i for r in results for g in r.groups for i in g.impls}
    return {name: lower_kernel(i, tensors, target, ops) for name, i in impls.items()}
