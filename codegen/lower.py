"""ImplGraph -> KernelIR: one device function per template.

Everything that is decided comes from the ImplGraph: split axes, order, buffers, strides.  What is added here is the
spelling of a schedule: loops, tails, DMA descriptors, the queue protocol, and the sync between copies to and from the
same memory.  The other syncs and all barriers come from passes, which see what touches which bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from autofuse.codegen.counting import elements_done
from autofuse.codegen.dma import Dim, dma_block, join_dims
from autofuse.codegen.intrinsics import SCALAR_INPUTS, STYLES, CallSite, Scalar
from autofuse.codegen.kernel_ir import (
    Alias,
    Alloc,
    Arg,
    BlockIndex,
    BufDecl,
    Call,
    Comment,
    CopyIn,
    CopyOut,
    Count,
    DeQue,
    EnQue,
    For,
    Free,
    GetBuf,
    GlobalDecl,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    LocalArg,
    Number,
    PipeDecl,
    QueueDecl,
    ReturnIfEmpty,
    ScalarRead,
    ScalarVar,
    SizeValue,
    Stmt,
    Sync,
)
from autofuse.codegen.scanning import scan_call
from autofuse.codegen.transposing import transpose_counts
from autofuse.implgraph.dtypes import BY_NAME, DType
from autofuse.implgraph.expr import (
    ONE,
    ZERO,
    Expr,
    FloorDiv,
    Min,
    Mod,
    align_up,
    bounds,
    divide_exact,
    product,
    sym,
)
from autofuse.implgraph.expr_parser import parse
from autofuse.implgraph.graph import Axis, AxisType, BufferPlan, ImplGraph, Node, TensorView
from autofuse.implgraph.ops import lookup
from autofuse.implgraph.reduce_rows import REDUCES
from autofuse.schedule.scan import SCAN, goes_backwards, scan_run
from autofuse.targets import TargetSpec

__all__ = ["lower_kernel", "size_of"]

PIPE = "tpipe"
BLOCK = 32


def lower_kernel(impl: ImplGraph, tensors: Sequence[str], target: TargetSpec) -> KernelFn:
    """The device function of one template.

    Args:
        impl: a scheduled graph.
        tensors: names of the kernel's GM parameters, inputs then outputs; Data and Output nodes index into them.
        target: dialect (which DMA call) and architecture (which vector calls).
    """
    return _Lowering(impl, tuple(tensors), target).function()


class _Lowering:
    def __init__(self, impl: ImplGraph, tensors: tuple[str, ...], target: TargetSpec) -> None:
        self.impl = impl
        self.tensors = tensors
        self.target = target
        self.nodes = impl.by_name()
        self.axes = {a.id: a for a in impl.axes}
        #: Where every Store goes: an Output, or a Workspace.
        self.sinks = {i: n for n in impl.nodes if n.op in ("Output", "Workspace") for i in n.inputs}
        self.inputs = len(tensors) - _output_count(impl, tensors)
        self.tile_in = impl.tile(AxisType.TILE_IN)
        self.tile_out = impl.tile(AxisType.TILE_OUT)
        #: Axes whose tiles have a constant length, by what is inside: the extent of a tile, if not always the same.
        self.tails = {
            inside.id: Min(inside.size, self._whole_size(inside) - sym(tiles.name) * inside.size)
            for tiles, inside in impl.cut_axes()
            if divide_exact(self._whole_size(inside), inside.size) is None
        }
        self.block_out = self._only(AxisType.BLOCK_OUT)
        self.block_in = self._only(AxisType.BLOCK_IN)
        self.loop = self.axes[self.block_out.origin[0]]
        self.reduce_loop = None if impl.r_axis is None else self.axes[impl.r_axis]
        #: Accumulators are the tensor of their initial value.
        self.same = {n.name: str(n.attrs["joins"]) for n in impl.nodes if n.attrs.get("joins")}
        #: Loads whose memory results take over.
        self.hosts = {str(n.attrs["over"]) for n in impl.nodes if n.attrs.get("over")}
        self.scalars: dict[str, ScalarVar] = {}
        self.last: dict[str, int] = {}
        for i, n in enumerate(impl.nodes):
            for x in n.inputs:
                self.last[x] = i
        self.position = {n.name: i for i, n in enumerate(impl.nodes)}
        self.now = 0

    def _whole_size(self, inside: Axis) -> Expr:
        return self.axes[inside.origin[0]].size

    def _only(self, kind: AxisType) -> Axis:
        return next(a for a in self.impl.axes if a.type is kind)

    # function ---------------------------------------------------------------------------------
    def function(self) -> KernelFn:
        spec = self.impl.tiling
        body: list[Stmt] = [*self._sizes(), *self._memory()]
        before = [n for n in self.impl.nodes if n.loop_axis is None and n.api is not None]
        inside = [n for n in self.impl.nodes if n.loop_axis is not None]
        body += self._tensors_of_bufs(before + inside)
        body += self._before_loop(before, inside)
        loop = [*self._indices(), *self._tile(inside)]
        body.append(For(self.block_in.name, sym(f"{self.block_in.name}_loop_size"), tuple(loop)))
        used = {s.param for s in body if isinstance(s, GlobalDecl)}
        title = (
            f"{self.impl.name}: {self.axes[spec.tile_axis].name} in tiles of {spec.tile_size}, "
            f"{self.loop.name} in blocks of {spec.block_size} per core.",
            *self._reduce_title(),
        )
        return KernelFn(
            self.impl.name,
            self.tensors,
            tuple(body),
            title,
            tuple(t for t in self.tensors if t not in used),
        )

    def _reduce_title(self) -> tuple[str, ...]:
        if self.reduce_loop is None:
            return ()
        passes = {n.loop_pass for n in self.impl.nodes if n.loop_axis == self.reduce_loop.id}
        times = "once" if len(passes) == 1 else f"{len(passes)} times"
        return (f"{self.reduce_loop.name} is gone through {times} for each of them.",)

    def _sizes(self) -> list[Stmt]:
        spec = self.impl.tiling
        known = {spec.tile_size, spec.block_size, *(s.name for s in self.impl.symbols)}
        wanted = [s.name for s in self.impl.symbols] + [spec.tile_size, spec.block_size]
        out: list[Stmt] = [Let(name, sym(f"t.{name}")) for name in wanted if name in known]
        total = f"{self.loop.name}_axis_size"
        first = sym(self.block_out.name) * sym(spec.block_size)
        if bounds(spec.row_elements, {s.name: (s.min, s.max) for s in self.impl.symbols})[0] < 1:
            out += [Let("row_size", spec.row_elements), ReturnIfEmpty("row_size")]
        out += [
            Let(total, spec.tiles),
            BlockIndex(self.block_out.name),
            Let(f"{self.block_in.name}_loop_size", Min(sym(spec.block_size), sym(total) - first)),
            ReturnIfEmpty(f"{self.block_in.name}_loop_size"),
        ]
        if self.reduce_loop is not None:
            out.append(Let(f"{self.reduce_loop.name}_loop_size", self.reduce_loop.size))
        return out

    def _memory(self) -> list[Stmt]:
        out: list[Stmt] = []
        declared: set[str] = set()
        for n in self.impl.nodes:
            if n.op not in ("Load", "Store"):
                continue
            gm = self._gm(n)
            if gm not in declared:
                declared.add(gm)
                offset = size_of(self._end(n).attrs.get("offset", 0))
                out.append(GlobalDecl(gm, n.y.dtype, self._param(n), offset))
        out.append(PipeDecl(PIPE))
        out.extend(_declaration(b) for b in self.impl.buffers)
        sizes: dict[Expr, Expr] = {}
        for b in self.impl.buffers:
            if not b.nbytes.is_const and b.nbytes not in sizes:
                sizes[b.nbytes] = sym(f"bytes{len(sizes)}")
                out.append(Let(f"bytes{len(sizes) - 1}", b.nbytes))
        for b in self.impl.buffers:
            number = b.buf_num if b.kind == "queue" else 0
            out.append(InitBuffer(PIPE, _buffer(b), number, sizes.get(b.nbytes, b.nbytes)))
        return out

    def _param(self, n: Node) -> str:
        end = self._end(n)
        if end.op == "Workspace":
            return "workspace"
        return self.tensors[int(str(end.attrs["index"])) + (self.inputs if n.op == "Store" else 0)]

    def _end(self, n: Node) -> Node:
        """The node that stands for the GM of a Load or Store."""
        return self.nodes[n.inputs[0]] if n.op == "Load" else self.sinks[n.name]

    def _gm(self, n: Node) -> str:
        end = self._end(n)
        if end.op == "Workspace":
            return f"{end.name}_gm"
        name = self._param(n).removeprefix(f"{self.impl.graph}_")
        return f"{name}_gm"

    def _tensors_of_bufs(self, nodes: Sequence[Node]) -> list[Stmt]:
        out: list[Stmt] = []
        for n in nodes:
            if n.op != "Store" and n.y.buf is not None and n.name not in self.same:
                out.append(GetBuf(self._local(n), f"buf{n.y.buf}", n.y.dtype))
            out.extend(GetBuf(f"{n.name}_tmp", f"buf{t.id}", _BYTES) for t in n.tmp_buffers)
        return out

    # before the loop --------------------------------------------------------------------------
    def _before_loop(self, before: Sequence[Node], inside: Sequence[Node]) -> list[Stmt]:
        out: list[Stmt] = []
        loads = [n for n in before if n.op == "Load" and len(n.inputs) == 1]
        for n in loads:
            out += [_origin(n), *self._copies(n, self._local(n), whole=True)]
        for n in before:
            if n in loads:
                continue
            if n.op == "Load":
                out += [_origin(n), *self._copies(n, self._local(n), whole=True)]
            else:
                out.append(_origin(n))
                out += self._scalar_reads(n)
                out += self._vector(n, whole=True)
        self.now = self.position[inside[0].name]
        for n in inside:
            out += self._scalar_reads(n, before_loop=True)
        return out

    def _scalar_reads(self, n: Node, *, before_loop: bool = False) -> list[Stmt]:
        """Reads of uniform tensors that ``n`` takes as scalars; ``before_loop``: those made outside of its loop."""
        out: list[Stmt] = []
        call = lookup(n.op).calls.get(self.target.arch)
        if call is None:
            return out
        for i in sorted(SCALAR_INPUTS.get(call.style, ())):
            x = self.nodes[n.inputs[i]]
            if (
                x.op == "Scalar"
                or x.name in self.scalars
                or x.y.vectorized_axis
                or not self._as_scalar(n, i)
            ):
                continue
            if before_loop and not self._is_made(x):
                continue  # made in the loop, read there
            name = f"{x.name}_scalar"
            out.append(ScalarRead(name, self._local(x), x.y.dtype))
            self.scalars[x.name] = ScalarVar(name)
        return out

    def _as_scalar(self, n: Node, i: int) -> bool:
        """Whether input ``i`` is an operand that the call takes as a scalar here."""
        x = self.nodes[n.inputs[i]]
        if n.op != "SelectMask":
            return True
        return not x.y.vectorized_axis and bool(n.y.vectorized_axis)

    def _is_made(self, x: Node) -> bool:
        """Whether statements that make ``x`` stand before what is being written now."""
        return self.position[x.name] < self.now

    # loop -------------------------------------------------------------------------------------
    def _tile(self, nodes: Sequence[Node]) -> list[Stmt]:
        """What is done for one tile: its nodes in order, those of a pass in a loop of their own."""
        out: list[Stmt] = []
        known = dict(self.scalars)
        runs = itertools.groupby(nodes, key=lambda n: (n.loop_axis, n.loop_pass))
        for (axis, _), run in runs:
            members = list(run)
            self.now = self.position[members[0].name]
            if axis == self.block_in.id:
                for n in members:
                    out += self._in_loop(n)
            else:
                out += self._pass(members)
        self.scalars = known
        return out

    def _pass(self, members: Sequence[Node]) -> list[Stmt]:
        """One loop over the reduced axes."""
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
        body += self._digits(loop)
        if self.impl.tiling.reduce_tiles:
            body.append(self._actual())
        for n in members:
            body += self._in_loop(n)
        self.scalars = known
        out.append(For(var, sym(f"{loop.name}_loop_size"), tuple(body)))
        names = {n.name for n in members}
        inside = range(self.position[members[0].name], self.position[members[-1].name] + 1)
        for x in dict.fromkeys(i for n in members for i in n.inputs if i not in names):
            source = self.nodes[x]
            if source.y.que is not None and self.last[x] in inside:
                out.append(Free(self._local(source), f"que{_queue(source)}"))
        return out

    def _indices(self) -> list[Stmt]:
        spec, loop = self.impl.tiling, self.loop
        out: list[Stmt] = [
            Let(
                loop.name, sym(self.block_out.name) * sym(spec.block_size) + sym(self.block_in.name)
            )
        ]
        out += self._digits(loop)
        if not spec.reduce_tiles:
            out.append(self._actual())
        out += [Let(_actual_size(self.axes[a]), length) for a, length in self.tails.items()]
        return out

    def _digits(self, loop: Axis) -> list[Stmt]:
        """The indices of the axes that a loop axis was merged from."""
        if loop.type is not AxisType.MERGED:
            return []
        out: list[Stmt] = []
        rest = sym(loop.name)
        parts = [self.axes[a] for a in loop.origin]
        for k, part in enumerate(reversed(parts)):
            last = k == len(parts) - 1
            out.append(Let(part.name, rest if last else Mod(rest, part.size)))
            rest = FloorDiv(rest, part.size)
        return out

    def _actual(self) -> Stmt:
        """The length of this tile."""
        spec = self.impl.tiling
        t = sym(spec.tile_size)
        return Let(self._actual_name(), Min(t, spec.extent - sym(self.tile_out.name) * t))

    def _actual_name(self) -> str:
        return _actual_size(self.tile_in)

    def _in_loop(self, n: Node) -> list[Stmt]:
        out: list[Stmt] = [_origin(n)]
        if n.op == "Load":
            queue, link = f"que{_queue(n)}", "in" if n.name in self.hosts else ""
            out.append(Alloc(self._local(n), queue, n.y.dtype))
            out += self._copies(n, self._local(n), whole=self._whole(n))
            out += [
                EnQue(self._local(n), queue, n.y.dtype, link),
                DeQue(self._local(n), queue, n.y.dtype, link),
            ]
        elif n.op == "Store":
            out += self._store(n)
        else:
            out += self._scalar_reads(n)
            if n.attrs.get("over"):
                out.append(Alias(self._local(n), f"{n.attrs['over']}_local", n.y.dtype))
            elif n.y.que is not None:
                out.append(Alloc(self._local(n), f"que{_queue(n)}", n.y.dtype))
            out += self._vector(n, whole=self._whole(n))
        return out + self._frees(n)

    def _whole(self, n: Node) -> bool:
        """Whether the node is made for a tile of full length, since it serves all tiles of the reduce loop."""
        return self.impl.tiling.reduce_tiles and n.loop_axis == self.block_in.id

    def _store(self, n: Node) -> list[Stmt]:
        source = self.nodes[n.inputs[0]]
        out: list[Stmt] = []
        first = next(m for m in self.impl.nodes if m.op == "Store" and m.inputs[0] == source.name)
        if source.op != "Load" and first.name == n.name:
            queue, link = f"que{_queue(source)}", "out" if source.attrs.get("over") else ""
            out += [
                EnQue(self._local(source), queue, source.y.dtype, link),
                DeQue(self._local(source), queue, source.y.dtype, link),
            ]
        if any(load not in self._needed_by(n) for load in self._overwritten_by(n)):
            # The copy to GM overwrites what an earlier copy from GM reads, and no data tie the two together.
            out.append(Sync("MTE2_S"))
        return out + self._copies(n, self._local(source), whole=False)

    def _overwritten_by(self, store: Node) -> list[str]:
        """Loads in the loop that read the memory which this store writes."""
        data = f"Data_{self.sinks[store.name].attrs.get('inout', -1)}"
        return [n.name for n in self.impl.nodes if n.op == "Load" and n.inputs[0] == data]

    def _needed_by(self, n: Node) -> set[str]:
        """Names of all nodes that ``n`` depends on."""
        seen: set[str] = set()
        todo = list(n.inputs)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.nodes[name].inputs
        return seen

    def _frees(self, n: Node) -> list[Stmt]:
        """Queue tensors whose last use is this node go back to their queue."""
        out: list[Stmt] = []
        here = self.position[n.name]
        for x in dict.fromkeys((*n.inputs, n.name)):
            source = self.nodes[x]
            if (source.loop_axis, source.loop_pass) != (n.loop_axis, n.loop_pass):
                continue  # freed behind the loop
            if not self._ends_its_queue(source):
                continue  # freed with what takes over its memory
            if source.op != "Store" and source.y.que is not None and self.last.get(x, here) == here:
                out.append(Free(self._local(source), f"que{_queue(source)}"))
        return out

    def _ends_its_queue(self, n: Node) -> bool:
        """Whether nothing takes over the buffer of a queue from ``n``: the last of them is the one that is stored."""
        if not n.attrs.get("over"):
            return n.name not in self.hosts
        return any(m.op == "Store" and n.name in m.inputs for m in self.impl.nodes)

    # copies -----------------------------------------------------------------------------------
    def _extent(self, axis: int, whole: bool) -> Expr:
        if axis == self.tile_in.id:
            return sym(self.impl.tiling.tile_size) if whole else sym(self._actual_name())
        return sym(_actual_size(self.axes[axis])) if axis in self.tails else self.axes[axis].size

    def _copies(self, n: Node, local: str, whole: bool) -> list[Stmt]:
        """The DMA commands of a Load or Store: contiguous dimensions joined, one loop per dimension beyond two.

        Where a tensor says which elements are loaded, a loop per axis along which it does so is around the commands.
        """
        y = n.y
        stride = dict(zip(y.axis, y.strides, strict=True))
        dims: list[Dim] = []
        indexed: list[tuple[int, Dim]] = []
        for a, pitch in zip(y.vectorized_axis, y.vectorized_strides, strict=True):
            d = Dim(self._extent(a, whole), stride[a], pitch)
            if n.op == "Load" and len(n.inputs) > 1 and stride[a] == ZERO:
                indexed.append((a, d))
            else:
                dims.append(d)
        # A tail changes only the outermost dimension, so dimensions may be joined by their full sizes.
        dims = join_dims(dims)
        offset = y.offset
        for a, s, r in zip(y.axis, y.strides, y.repeats, strict=True):
            if r == 1:
                continue
            if a == self.block_in.id:
                # Blocks of tiles: the index of the tile holds both the core and its loop.
                offset = offset + s * sym(self.tile_out.name)
            elif a != self.block_out.id and a not in y.vectorized_axis:
                offset = offset + s * self._index(a)
        inner, outer = dims[-2:], dims[:-2]
        if len(inner) == 2 and not self._gap_fits(inner[0], inner[1], n.y.dtype.itemsize):
            inner, outer = dims[-1:], dims[:-1]
        gm, ub = offset, ZERO
        loops: list[tuple[str, Expr]] = []
        for k, d in enumerate((*(d for _, d in indexed), *outer)):
            var = f"row{k}"
            loops.append((var, d.size))
            gm, ub = gm + d.gm * sym(var), ub + d.ub * sym(var)
        read: list[Stmt] = []
        if n.op == "Load" and len(n.inputs) > 1:
            at = self._index_read(n, {a: sym(f"row{k}") for k, (a, _) in enumerate(indexed)})
            gm = gm + sym(at.name) * size_of(n.attrs["stride"])
            read = [at]
        stmts: list[Stmt] = [self._dma(n, local, gm, ub, inner)]
        for k in reversed(range(len(loops) + 1)):
            if k == len(indexed):
                stmts = [*read, *stmts]
            if k:
                var, size = loops[k - 1]
                stmts = [For(var, size, tuple(stmts))]
        return stmts

    def _index_read(self, n: Node, rows: Mapping[int, Expr]) -> IndexRead:
        """Which element of the indexed dimension a Load takes; ``rows`` are the indices of the axes in this tile."""
        index = self.nodes[n.inputs[1]]
        offset = ZERO
        for a, pitch in zip(index.y.vectorized_axis, index.y.vectorized_strides, strict=True):
            offset = offset + pitch * rows[a]
        extent = size_of(n.attrs["extent"])
        return IndexRead(f"{n.name}_at", self._local(index), offset, index.y.dtype, extent)

    def _gap_fits(self, rows: Dim, row: Dim, size: int) -> bool:
        """Whether the bytes between two rows in GM fit the 32 bits of a descriptor, which has no sign.

        Else every row is a command.
        """
        ranges = {s.name: (s.min, s.max) for s in self.impl.symbols}
        ranges[self._actual_name()] = ranges[self.impl.tiling.tile_size] = (1, 1 << 62)
        ranges |= {_actual_size(self.axes[a]): (1, self.axes[a].size.value) for a in self.tails}
        forward = bounds(rows.gm, ranges)[0] >= 0
        return forward and bounds((rows.gm - row.size) * size, ranges)[1] < 1 << 32

    def _index(self, axis: int) -> Expr:
        return sym(self.axes[axis].name)

    def _dma(self, n: Node, local: str, gm: Expr, ub: Expr, dims: Sequence[Dim]) -> Stmt:
        block = dma_block(dims, n.y.dtype.itemsize)
        kind = CopyIn if n.op == "Load" else CopyOut
        return kind(local, ub, self._gm(n), gm, n.y.dtype, block, pad=self.target.has_datacopypad)

    # vector calls -----------------------------------------------------------------------------
    def _elements(self, y: TensorView, whole: bool) -> Expr:
        """Elements of a call on the whole tensor: the outermost extent times its UB stride."""
        if not y.vectorized_axis:
            return ONE
        axis, stride = y.vectorized_axis[0], y.vectorized_strides[0]
        if axis == self.tile_in.id or axis in self.tails:
            return self._extent(axis, whole) * stride
        return self._span(y)

    def _span(self, y: TensorView) -> Expr:
        return self.axes[y.vectorized_axis[0]].size * y.vectorized_strides[0]

    def _vector(self, n: Node, whole: bool) -> list[Stmt]:
        if n.op == "Broadcast":
            return [self._broadcast(n, whole)]
        if n.op in REDUCES:
            return [self._reduce(n, whole)]
        if n.op == "UbTranspose":
            return [self._transpose(n, whole)]
        if n.op == SCAN:
            return [self._scan(n, whole)]
        row = lookup(n.op).calls[self.target.arch]
        tensors: dict[int, tuple[str, DType]] = {}
        scalars: dict[int, Scalar] = {}
        if n.op == "Iota":
            scalars = dict(enumerate(self._line(n)))
        for i, name in enumerate(n.inputs):
            x = self.nodes[name]
            as_scalar = i in SCALAR_INPUTS.get(row.style, ()) and self._as_scalar(n, i)
            if x.op == "Scalar":
                scalars[i] = self._counted(x) if x.attrs.get("count") else _scalar(x)
            elif as_scalar:
                scalars[i] = self.scalars.get(name) or ScalarVar(f"{name}_scalar")
            else:
                tensors[i] = (self._local(x), x.y.dtype)
        tmp = f"{n.name}_tmp" if n.tmp_buffers else None
        site = CallSite(n, row, self._local(n), tensors, scalars, self._elements(n.y, whole), tmp)
        return [STYLES[row.style](site)]

    def _counted(self, x: Node) -> SizeValue:
        """The number that a Scalar counts."""
        after = x.attrs["count"] == "after"
        return SizeValue(elements_done(self.impl, self._actual_name(), after=after), x.y.dtype)

    def _line(self, n: Node) -> tuple[SizeValue, SizeValue]:
        """First value and step of an Iota: what its index is at the start of the tile."""
        start, step = (size_of(n.attrs.get(k, d)) for k, d in (("start", 0), ("step", 1)))
        first = ZERO
        for a, s, r in zip(n.y.axis, n.y.strides, n.y.repeats, strict=True):
            if r == 1:
                continue
            if a == self.block_in.id:
                first = first + s * sym(self.tile_out.name)
            elif a != self.block_out.id and a not in n.y.vectorized_axis:
                first = first + s * self._index(a)
        dtype = n.y.dtype
        return SizeValue(start + step * first, dtype), SizeValue(step, dtype)

    def _broadcast(self, n: Node, whole: bool) -> Call:
        """One run of axes appears: [outer, 1, inner] -> [outer, mid, inner]."""
        source = self.nodes[n.inputs[0]]
        axes, have = n.y.vectorized_axis, set(source.y.vectorized_axis)
        run = [i for i, a in enumerate(axes) if a not in have]
        extents = [self._extent_in_ub(n.y, i, whole) for i in range(len(axes))]
        outer, mid = product(extents[: run[0]]), product(extents[run[0] : run[-1] + 1])
        inner = product(extents[run[-1] + 1 :])
        dst, src = LocalArg(self._local(n)), LocalArg(self._local(source))
        if run[-1] + 1 == len(axes):
            tmp = f"{n.name}_tmp"
            args = (dst, src, LocalArg(tmp), Count(outer), Count(mid))
            return Call(
                "autofuse::BroadcastInner", args, (self._local(n), tmp), (self._local(source),)
            )
        args2 = (dst, src, Count(outer), Count(mid), Count(inner))
        return Call("autofuse::BroadcastOuter", args2, (self._local(n),), (self._local(source),))

    def _reduce(self, n: Node, whole: bool) -> Call:
        """One run of axes goes: [outer, n] -> [outer], or [outer, n, inner] -> [outer, inner]."""
        source = self.nodes[n.inputs[0]]
        y, left = source.y, set(n.y.vectorized_axis)
        run = [i for i, a in enumerate(y.vectorized_axis) if a not in left]
        extents = [self._extent_in_ub(y, i, whole) for i in range(len(y.vectorized_axis))]
        outer = product(extents[: run[0]])
        tmp = f"{n.name}_tmp"
        tensors = (LocalArg(self._local(n)), LocalArg(self._local(source)), LocalArg(tmp))
        tag = f"<autofuse::{n.op.removeprefix('Reduce')}Of>"
        if run[-1] + 1 < len(extents):
            length = product(self._extent(y.vectorized_axis[i], whole) for i in run)
            counts = (outer, length, y.vectorized_strides[run[-1]])
            name = f"autofuse::ReduceOuter{tag}"
        else:
            # Padding, if there is any, is behind the last axis of the run.
            last = self._extent(y.vectorized_axis[-1], whole)
            pitch = y.vectorized_strides[run[0] - 1] if run[0] else None
            if pitch is None:
                whole_run = product(self._extent_in_ub(y, i, True) for i in run)
                pitch = align_up(whole_run, BLOCK // y.dtype.itemsize)
            counts = (outer, product(extents[i] for i in run[:-1]) * last, pitch)
            name = f"autofuse::ReduceInner{tag}"
        args: tuple[Arg, ...] = (*tensors, *(Count(c) for c in counts))
        return Call(name, args, (self._local(n), tmp), (self._local(source),))

    def _scan(self, n: Node, whole: bool) -> Call:
        """Running sums along a run of axes of the tile; along none of them, of the tiles."""
        y, row = n.y, lookup(n.op).calls[self.target.arch]
        moved = row.as_type.get(y.dtype.name)
        places = range(len(y.vectorized_axis))
        own = [self._extent(a, whole) for a in y.vectorized_axis]
        padded = [self._extent_in_ub(y, i, whole) for i in places]
        reserved = [self._extent_in_ub(y, i, True) for i in places]
        locals_ = [self._local(self.nodes[x]) for x in (n.name, *n.inputs)]
        dst, src, carry = (*locals_, "")[:3]
        return scan_call(
            n,
            (dst, src, carry, f"{n.name}_tmp"),
            BY_NAME[moved] if moved else None,
            scan_run(n, self.axes),
            (own, padded, reserved),
        )

    def _transpose(self, n: Node, whole: bool) -> Call:
        """[outer, rows, cols] -> [outer, cols, rows], rows of both at their pitches."""
        source, row = self.nodes[n.inputs[0]], lookup(n.op).calls[self.target.arch]
        counts = transpose_counts(source.y, n.y, lambda axis: self._extent(axis, whole))
        moved = row.as_type.get(n.y.dtype.name)
        view = BY_NAME[moved] if moved else None
        dst, src, tmp = self._local(n), self._local(source), f"{n.name}_tmp"
        args = (LocalArg(dst, view), LocalArg(src, view), LocalArg(tmp))
        return Call(row.api, (*args, *(Count(c) for c in counts)), (dst, tmp), (src,))

    def _local(self, n: Node) -> str:
        """The tensor in UB that holds the result of a node."""
        return f"{self.same.get(n.name, n.name)}_local"

    def _extent_in_ub(self, y: TensorView, i: int, whole: bool) -> Expr:
        """Extent along vectorised axis ``i`` in UB: the quotient of neighbouring strides, padding included."""
        axis = y.vectorized_axis[i]
        if i == 0:
            if axis == self.tile_in.id or axis in self.tails:
                return self._extent(axis, whole)
            return (
                self._innermost_pitch(axis) if len(y.vectorized_axis) == 1 else self.axes[axis].size
            )
        above, own = y.vectorized_strides[i - 1], y.vectorized_strides[i]
        return _exact(above, own)

    def _innermost_pitch(self, axis: int) -> Expr:
        """Extent of a tensor that varies along one axis only; the pitch where others have one."""
        for n in self.impl.nodes:
            y = n.y
            if len(y.vectorized_axis) > 1 and y.vectorized_axis[-1] == axis:
                return y.vectorized_strides[-2]
        return self.axes[axis].size


_BYTES = DType("uint8", 8, "u", "uint8_t")


def _actual_size(inside: Axis) -> str:
    """The variable that holds the length of this tile of an axis."""
    return f"{inside.name}_actual_size"


def _output_count(impl: ImplGraph, tensors: Sequence[str]) -> int:
    return sum(1 for t in tensors if t.startswith(f"{impl.graph}_Output_"))


def _exact(a: Expr, b: Expr) -> Expr:
    q = divide_exact(a, b)
    assert q is not None, f"UB strides {a} and {b} do not nest"
    return q


def _buffer(b: BufferPlan) -> str:
    return f"{'que' if b.kind == 'queue' else 'buf'}{b.id}"


def _declaration(b: BufferPlan) -> Stmt:
    if b.kind == "queue":
        return QueueDecl(_buffer(b), b.position, b.depth, b.copy)
    return BufDecl(_buffer(b), b.position)


def _queue(n: Node) -> int:
    assert n.y.que is not None, f"{n.name} has no queue"
    return n.y.que.id


def _scalar(x: Node) -> Number | SizeValue:
    """The value of a Scalar node."""
    text = x.attrs.get("expr")
    if text:
        return SizeValue(size_of(text), x.y.dtype)
    value = x.attrs["value"]
    assert isinstance(value, (int, float))
    return Number(value, x.y.dtype)


def size_of(value: object) -> Expr:
    """An attribute that is an integer, or the text of an expression of sizes."""
    return Expr.of(value) if isinstance(value, int) else parse(str(value))


def _origin(n: Node) -> Comment:
    place = f" ({n.origin})" if n.origin else ""
    return Comment(f"from: {n.name}: {n.op}{place}")
