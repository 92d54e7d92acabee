"""ImplGraph -> KernelIR: one device function per template.

Everything that is decided comes from the ImplGraph: split axes, order, buffers, strides.  What is added here is the
spelling of a schedule: loops, tails, DMA descriptors, the queue protocol, and the syncs of the part before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofuse.codegen.intrinsics import SCALAR_INPUTS, STYLES, CallSite
from autofuse.codegen.kernel_ir import (
    Alloc,
    BlockIndex,
    BufDecl,
    Call,
    Comment,
    CopyIn,
    CopyOut,
    Count,
    DeQue,
    DmaBlock,
    EnQue,
    For,
    Free,
    GetBuf,
    GlobalDecl,
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
    Stmt,
    Sync,
)
from autofuse.implgraph.dtypes import DType
from autofuse.implgraph.expr import (
    ONE,
    ZERO,
    CeilDiv,
    Expr,
    FloorDiv,
    Min,
    Mod,
    bounds,
    divide_exact,
    product,
    sym,
)
from autofuse.implgraph.graph import Axis, AxisType, BufferPlan, ImplGraph, Node, TensorView
from autofuse.implgraph.ops import lookup
from autofuse.targets import TargetSpec

__all__ = ["lower_kernel"]

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


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension of a DMA: iterations, GM and UB strides in elements."""

    size: Expr
    gm: Expr
    ub: Expr


class _Lowering:
    def __init__(self, impl: ImplGraph, tensors: tuple[str, ...], target: TargetSpec) -> None:
        self.impl = impl
        self.tensors = tensors
        self.target = target
        self.nodes = impl.by_name()
        self.axes = {a.id: a for a in impl.axes}
        self.outputs = {
            n.inputs[0]: int(str(n.attrs["index"])) for n in impl.nodes if n.op == "Output"
        }
        self.inputs = len(tensors) - _output_count(impl, tensors)
        self.tile_in = self._only(AxisType.TILE_IN)
        self.tile_out = self._only(AxisType.TILE_OUT)
        self.block_out = self._only(AxisType.BLOCK_OUT)
        self.block_in = self._only(AxisType.BLOCK_IN)
        self.loop = self.axes[self.block_out.origin[0]]
        self.scalars: dict[str, ScalarVar] = {}
        self.vector_before_loop = False
        #: Events since which no instruction was issued that a scalar read would have to wait for.
        self.synced: set[str] = set()
        self.last: dict[str, int] = {}
        for i, n in enumerate(impl.nodes):
            for x in n.inputs:
                self.last[x] = i
        self.position = {n.name: i for i, n in enumerate(impl.nodes)}

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
        loop: list[Stmt] = self._indices()
        for n in inside:
            loop += self._in_loop(n)
        body.append(For(self.block_in.name, sym(f"{self.block_in.name}_loop_size"), tuple(loop)))
        used = {s.param for s in body if isinstance(s, GlobalDecl)}
        title = (
            f"{self.impl.name}: {self.axes[spec.tile_axis].name} in tiles of {spec.tile_size}, "
            f"{self.loop.name} in blocks of {spec.block_size} per core.",
        )
        return KernelFn(
            self.impl.name,
            self.tensors,
            tuple(body),
            title,
            tuple(t for t in self.tensors if t not in used),
        )

    def _sizes(self) -> list[Stmt]:
        spec = self.impl.tiling
        known = {spec.tile_size, spec.block_size, *(s.name for s in self.impl.symbols)}
        wanted = [s.name for s in self.impl.symbols] + [spec.tile_size, spec.block_size]
        out: list[Stmt] = [Let(name, sym(f"t.{name}")) for name in wanted if name in known]
        total = f"{self.loop.name}_axis_size"
        tiles = CeilDiv(spec.extent, sym(spec.tile_size)) * spec.outer
        first = sym(self.block_out.name) * sym(spec.block_size)
        if bounds(spec.row_elements, {s.name: (s.min, s.max) for s in self.impl.symbols})[0] < 1:
            out += [Let("row_size", spec.row_elements), ReturnIfEmpty("row_size")]
        out += [
            Let(total, tiles),
            BlockIndex(self.block_out.name),
            Let(f"{self.block_in.name}_loop_size", Min(sym(spec.block_size), sym(total) - first)),
            ReturnIfEmpty(f"{self.block_in.name}_loop_size"),
        ]
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
                out.append(GlobalDecl(gm, n.y.dtype, self._param(n)))
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
        if n.op == "Load":
            return self.tensors[int(str(self.nodes[n.inputs[0]].attrs["index"]))]
        return self.tensors[self.inputs + self.outputs[n.name]]

    def _gm(self, n: Node) -> str:
        name = self._param(n).removeprefix(f"{self.impl.graph}_")
        return f"{name}_gm"

    def _tensors_of_bufs(self, nodes: Sequence[Node]) -> list[Stmt]:
        out: list[Stmt] = []
        for n in nodes:
            if n.op != "Store" and n.y.buf is not None:
                out.append(GetBuf(_local(n), f"buf{n.y.buf}", n.y.dtype))
            out.extend(GetBuf(f"{n.name}_tmp", f"buf{t.id}", _BYTES) for t in n.tmp_buffers)
        return out

    # before the loop --------------------------------------------------------------------------
    def _before_loop(self, before: Sequence[Node], inside: Sequence[Node]) -> list[Stmt]:
        out: list[Stmt] = []
        loads = [n for n in before if n.op == "Load"]
        for n in loads:
            out += [_origin(n), *self._copies(n, _local(n), whole=True)]
        if loads:
            out.append(Sync("MTE2_V"))
        for n in before:
            if n.op != "Load":
                out.append(_origin(n))
                out += self._scalar_reads(n)
                out += self._vector(n, whole=True)
                self.vector_before_loop = True
                self.synced.clear()
        for n in inside:
            out += [s for s in self._scalar_reads(n, before_loop=True)]
        return out

    def _scalar_reads(self, n: Node, *, before_loop: bool = False) -> list[Stmt]:
        """Reads of uniform tensors that ``n`` takes as scalars, behind the sync that they need."""
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
            if before_loop and x.loop_axis is not None:
                continue  # made in the loop, read there
            name = f"{x.name}_scalar"
            # The vector pipe has waited for all loads before the loop, so the scalar unit waits for it alone.
            event = "V_S" if self.vector_before_loop or x.op != "Load" else "MTE2_S"
            if event not in self.synced or x.loop_axis is not None:
                out.append(Sync(event))
                self.synced.add(event)
            out.append(ScalarRead(name, _local(x), x.y.dtype))
            if x.loop_axis is None:
                self.scalars[x.name] = ScalarVar(name)
        return out

    def _as_scalar(self, n: Node, i: int) -> bool:
        """Whether input ``i`` is an operand that the call takes as a scalar here."""
        x = self.nodes[n.inputs[i]]
        if n.op != "SelectMask":
            return True
        return not x.y.vectorized_axis and bool(n.y.vectorized_axis)

    # loop -------------------------------------------------------------------------------------
    def _indices(self) -> list[Stmt]:
        spec = self.impl.tiling
        loop, t = self.loop, sym(spec.tile_size)
        out: list[Stmt] = [
            Let(
                loop.name, sym(self.block_out.name) * sym(spec.block_size) + sym(self.block_in.name)
            )
        ]
        if loop.type is AxisType.MERGED:
            rest = sym(loop.name)
            parts = [self.axes[a] for a in loop.origin]
            for k, part in enumerate(reversed(parts)):
                size = CeilDiv(spec.extent, t) if part.id == self.tile_out.id else part.size
                last = k == len(parts) - 1
                out.append(Let(part.name, rest if last else Mod(rest, size)))
                rest = FloorDiv(rest, size)
        actual = Min(t, spec.extent - sym(self.tile_out.name) * t)
        out.append(Let(self._actual_name(), actual))
        return out

    def _actual_name(self) -> str:
        return f"{self.tile_in.name}_actual_size"

    def _in_loop(self, n: Node) -> list[Stmt]:
        out: list[Stmt] = [_origin(n)]
        if n.op == "Load":
            queue = f"que{_queue(n)}"
            out.append(Alloc(_local(n), queue, n.y.dtype))
            out += self._copies(n, _local(n), whole=False)
            out += [EnQue(_local(n), queue, n.y.dtype), DeQue(_local(n), queue, n.y.dtype)]
        elif n.op == "Store":
            out += self._store(n)
        else:
            out += self._scalar_reads(n)
            if n.y.que is not None:
                out.append(Alloc(_local(n), f"que{_queue(n)}", n.y.dtype))
            out += self._vector(n, whole=False)
        return out + self._frees(n)

    def _store(self, n: Node) -> list[Stmt]:
        source = self.nodes[n.inputs[0]]
        out: list[Stmt] = []
        first = next(m for m in self.impl.nodes if m.op == "Store" and m.inputs[0] == source.name)
        if source.op != "Load" and first.name == n.name:
            queue = f"que{_queue(source)}"
            out += [
                EnQue(_local(source), queue, source.y.dtype),
                DeQue(_local(source), queue, source.y.dtype),
            ]
        if any(load not in self._needed_by(n) for load in self._overwritten_by(n)):
            # The copy to GM overwrites what an earlier copy from GM reads, and no data tie the two together.
            out.append(Sync("MTE2_S"))
        return out + self._copies(n, _local(source), whole=False)

    def _overwritten_by(self, store: Node) -> list[str]:
        """Loads in the loop that read the memory which this store writes."""
        output = next(o for o in self.impl.nodes if o.op == "Output" and o.inputs[0] == store.name)
        data = f"Data_{output.attrs.get('inout', -1)}"
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
            if source.op != "Store" and source.y.que is not None and self.last.get(x, here) == here:
                out.append(Free(_local(source), f"que{_queue(source)}"))
        return out

    # copies -----------------------------------------------------------------------------------
    def _extent(self, axis: int, whole: bool) -> Expr:
        if axis == self.tile_in.id:
            return sym(self.impl.tiling.tile_size) if whole else sym(self._actual_name())
        return self.axes[axis].size

    def _copies(self, n: Node, local: str, whole: bool) -> list[Stmt]:
        """The DMA commands of a Load or Store: contiguous dimensions joined, one loop per dimension beyond two."""
        y = n.y
        stride = dict(zip(y.axis, y.strides, strict=True))
        dims = [
            _Dim(self._extent(a, whole), stride[a], ub)
            for a, ub in zip(y.vectorized_axis, y.vectorized_strides, strict=True)
        ]
        # A tail changes only the outermost dimension, so dimensions may be joined by their full sizes.
        dims = _join(dims)
        offset = y.offset
        for a, s in zip(y.axis, y.strides, strict=True):
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
        for k, d in enumerate(outer):
            var = f"row{k}"
            loops.append((var, d.size))
            gm, ub = gm + d.gm * sym(var), ub + d.ub * sym(var)
        stmts: list[Stmt] = [self._dma(n, local, gm, ub, inner)]
        for var, size in reversed(loops):
            stmts = [For(var, size, tuple(stmts))]
        return stmts

    def _gap_fits(self, rows: _Dim, row: _Dim, size: int) -> bool:
        """Whether the bytes between two rows in GM fit the 32 bits of a descriptor; else every row is a command."""
        ranges = {s.name: (s.min, s.max) for s in self.impl.symbols}
        ranges[self._actual_name()] = ranges[self.impl.tiling.tile_size] = (1, 1 << 62)
        return bounds((rows.gm - row.size) * size, ranges)[1] < 1 << 32

    def _index(self, axis: int) -> Expr:
        return sym(self.axes[axis].name)

    def _dma(self, n: Node, local: str, gm: Expr, ub: Expr, dims: Sequence[_Dim]) -> Stmt:
        size = n.y.dtype.itemsize
        if len(dims) == 2:
            rows, row = dims
            length = row.size * size
            block = DmaBlock(
                rows.size,
                length,
                (rows.gm - row.size) * size,
                FloorDiv(rows.ub * size, BLOCK) - CeilDiv(length, BLOCK),
            )
        else:
            count = dims[0].size if dims else ONE
            block = DmaBlock(ONE, count * size, ZERO, ZERO)
        kind = CopyIn if n.op == "Load" else CopyOut
        return kind(local, ub, self._gm(n), gm, n.y.dtype, block, pad=self.target.has_datacopypad)

    # vector calls -----------------------------------------------------------------------------
    def _elements(self, y: TensorView, whole: bool) -> Expr:
        """Elements of a call on the whole tensor: the outermost extent times its UB stride."""
        if not y.vectorized_axis:
            return ONE
        axis, stride = y.vectorized_axis[0], y.vectorized_strides[0]
        if axis == self.tile_in.id:
            return self._extent(axis, whole) * stride
        return self._span(y)

    def _span(self, y: TensorView) -> Expr:
        return self.axes[y.vectorized_axis[0]].size * y.vectorized_strides[0]

    def _vector(self, n: Node, whole: bool) -> list[Stmt]:
        if n.op == "Broadcast":
            return [self._broadcast(n, whole)]
        row = lookup(n.op).calls[self.target.arch]
        tensors: dict[int, tuple[str, DType]] = {}
        scalars: dict[int, Number | ScalarVar] = {}
        for i, name in enumerate(n.inputs):
            x = self.nodes[name]
            as_scalar = i in SCALAR_INPUTS.get(row.style, ()) and self._as_scalar(n, i)
            if x.op == "Scalar":
                value = x.attrs["value"]
                assert isinstance(value, (int, float))
                scalars[i] = Number(value, x.y.dtype)
            elif as_scalar:
                scalars[i] = self.scalars.get(name) or ScalarVar(f"{name}_scalar")
            else:
                tensors[i] = (_local(x), x.y.dtype)
        tmp = f"{n.name}_tmp" if n.tmp_buffers else None
        site = CallSite(n, row, _local(n), tensors, scalars, self._elements(n.y, whole), tmp)
        return [STYLES[row.style](site)]

    def _broadcast(self, n: Node, whole: bool) -> Call:
        """One run of axes appears: [outer, 1, inner] -> [outer, mid, inner]."""
        source = self.nodes[n.inputs[0]]
        axes, have = n.y.vectorized_axis, set(source.y.vectorized_axis)
        run = [i for i, a in enumerate(axes) if a not in have]
        extents = [self._extent_in_ub(n.y, i, whole) for i in range(len(axes))]
        outer, mid = product(extents[: run[0]]), product(extents[run[0] : run[-1] + 1])
        inner = product(extents[run[-1] + 1 :])
        dst, src = LocalArg(_local(n)), LocalArg(_local(source))
        if run[-1] + 1 == len(axes):
            tmp = f"{n.name}_tmp"
            args = (dst, src, LocalArg(tmp), Count(outer), Count(mid))
            return Call("autofuse::BroadcastInner", args, (_local(n), tmp), (_local(source),))
        args2 = (dst, src, Count(outer), Count(mid), Count(inner))
        return Call("autofuse::BroadcastOuter", args2, (_local(n),), (_local(source),))

    def _extent_in_ub(self, y: TensorView, i: int, whole: bool) -> Expr:
        """Extent along vectorised axis ``i`` in UB: the quotient of neighbouring strides, padding included."""
        axis = y.vectorized_axis[i]
        if axis == self.tile_in.id:
            return self._extent(axis, whole)
        if i == 0:
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


def _output_count(impl: ImplGraph, tensors: Sequence[str]) -> int:
    return sum(1 for t in tensors if t.startswith(f"{impl.graph}_Output_"))


def _exact(a: Expr, b: Expr) -> Expr:
    q = divide_exact(a, b)
    assert q is not None, f"UB strides {a} and {b} do not nest"
    return q


def _join(dims: list[_Dim]) -> list[_Dim]:
    out: list[_Dim] = []
    for d in reversed(dims):
        if out:
            below = out[0]
            if d.gm == below.gm * below.size and d.ub == below.ub * below.size:
                out[0] = _Dim(d.size * below.size, below.gm, below.ub)
                continue
        elif d.gm != 1:
            # The innermost dimension is not contiguous in GM: single elements, each in a 32-byte slot of its own.
            out.insert(0, _Dim(ONE, ONE, ONE))
        out.insert(0, d)
    return out


def _local(n: Node) -> str:
    return f"{n.name}_local"


def _buffer(b: BufferPlan) -> str:
    return f"{'que' if b.kind == 'queue' else 'buf'}{b.id}"


def _declaration(b: BufferPlan) -> Stmt:
    if b.kind == "queue":
        return QueueDecl(_buffer(b), b.position, b.depth, b.copy)
    return BufDecl(_buffer(b), b.position)


def _queue(n: Node) -> int:
    assert n.y.que is not None, f"{n.name} has no queue"
    return n.y.que.id


def _origin(n: Node) -> Comment:
    place = f" ({n.origin})" if n.origin else ""
    return Comment(f"from: {n.name}: {n.op}{place}")
