"""Vector nodes of a tile as calls of the chip: their operands, counts and strides."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.codegen.ir.extents import Extents, size_of
from autofuse.codegen.ir.intrinsics import SCALAR_INPUTS, STYLES, CallSite, Scalar
from autofuse.codegen.ir.kernel_ir import Arg, Call, Count, LocalArg, Number, ScalarVar, SizeValue
from autofuse.codegen.lower.counting import elements_done
from autofuse.codegen.lower.picking import pick_call, pick_counts
from autofuse.codegen.lower.scanning import scan_call
from autofuse.implgraph.expr.expression import ZERO, align_up, product, sym
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.implgraph.ops.registry import call_of, find_call
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.placement.lacing import LACES, lace_counts
from autofuse.schedule.placement.picking import PICKS
from autofuse.schedule.placement.row_operands import ROWS, row_extents
from autofuse.schedule.placement.scan import SCAN, scan_run
from autofuse.schedule.placement.stacking import STACK, stack_counts
from autofuse.schedule.placement.transposition import transpose_counts
from autofuse.targets import Architecture

__all__ = ["VectorCalls"]


class VectorCalls:
    """The calls of an ImplGraph on one architecture; ``extents`` are those of its tiles."""

    def __init__(self, impl: ImplGraph, arch: Architecture, extents: Extents) -> None:
        self.impl = impl
        self.arch = arch
        self.extents = extents
        self.nodes = impl.by_name()
        #: Accumulators are the tensor of their initial value.
        self.same = {n.name: str(n.attrs["joins"]) for n in impl.nodes if n.attrs.get("joins")}
        #: The operands that the call of a node takes as scalars, by position, where there are any.
        self.scalar_inputs = {n.name: at for n in impl.nodes if (at := self._scalar_inputs(n))}

    def _scalar_inputs(self, n: Node) -> tuple[int, ...]:
        row = find_call(n.op, self.arch)
        places = () if row is None else SCALAR_INPUTS.get(row.style, ())
        if places and n.op == "SelectMask":
            varies = self.nodes[n.inputs[2]].y.vectorized_axis
            return places if n.y.vectorized_axis and not varies else ()
        return places

    def local(self, n: Node) -> str:
        """The tensor in UB that holds the result of a node."""
        return f"{self.same.get(n.name, n.name)}_local"

    def of(self, n: Node, whole: bool, known: Mapping[str, ScalarVar]) -> Call:
        """The call of a node; ``known`` are uniform tensors that were read as scalars."""
        if n.op == "Broadcast":
            return self._broadcast(n, whole)
        if n.op in REDUCES:
            return self._reduce(n, whole)
        if n.op == "UbTranspose":
            return self._transpose(n, whole)
        if n.op == SCAN:
            return self._scan(n, whole)
        if n.op in PICKS:
            return self._pick(n, whole)
        if n.op in LACES:
            return self._lace(n, whole)
        if n.op == STACK:
            return self._stack(n, whole)
        if n.op in ROWS:
            return self._with_rows(n, whole)
        row = call_of(n.op, self.arch)
        as_scalar = self.scalar_inputs.get(n.name, ())
        tensors: dict[int, tuple[str, DType]] = {}
        scalars: dict[int, Scalar] = {}
        if n.op == "Iota":
            scalars = dict(enumerate(self._line(n)))
        for i, name in enumerate(n.inputs):
            x = self.nodes[name]
            if x.op == "Scalar":
                scalars[i] = self._counted(x) if x.attrs.get("count") else _scalar(x)
            elif i in as_scalar:
                scalars[i] = known.get(name) or ScalarVar(f"{name}_scalar")
            else:
                tensors[i] = (self.local(x), x.y.dtype)
        tmp = f"{n.name}_tmp" if n.tmp_buffers else None
        count = self.extents.elements(n.y, whole)
        site = CallSite(n, row, self.local(n), tensors, scalars, count, tmp, self.arch)
        return STYLES[row.style](site)

    def _counted(self, x: Node) -> SizeValue:
        """The number that a Scalar counts."""
        after = x.attrs["count"] == "after"
        return SizeValue(
            elements_done(self.impl, self.extents.actual_name(), after=after), x.y.dtype
        )

    def _line(self, n: Node) -> tuple[SizeValue, SizeValue]:
        """First value and step of an Iota: what its index is at the start of the tile."""
        start, step = (size_of(n.attrs.get(k, d)) for k, d in (("start", 0), ("step", 1)))
        first = ZERO
        for a, s, r in zip(n.y.axis, n.y.strides, n.y.repeats, strict=True):
            if r == 1:
                continue
            if a == self.extents.block_in.id:
                first = first + s * sym(self.extents.tile_out.name)
            elif a != self.extents.block_out.id and a not in n.y.vectorized_axis:
                first = first + s * self.extents.index(a)
        dtype = n.y.dtype
        return SizeValue(start + step * first, dtype), SizeValue(step, dtype)

    def _broadcast(self, n: Node, whole: bool) -> Call:
        """One run of axes appears: [outer, 1, inner] -> [outer, mid, inner]."""
        source = self.nodes[n.inputs[0]]
        axes, have = n.y.vectorized_axis, set(source.y.vectorized_axis)
        run = [i for i, a in enumerate(axes) if a not in have]
        extents = [self.extents.in_ub(n.y, i, whole) for i in range(len(axes))]
        outer, mid = product(extents[: run[0]]), product(extents[run[0] : run[-1] + 1])
        inner = product(extents[run[-1] + 1 :])
        dst, src = LocalArg(self.local(n)), LocalArg(self.local(source))
        if run[-1] + 1 == len(axes):
            tmp = f"{n.name}_tmp"
            args = (dst, src, LocalArg(tmp), Count(outer), Count(mid))
            return Call(
                "autofuse::BroadcastInner", args, (self.local(n), tmp), (self.local(source),)
            )
        args2 = (dst, src, Count(outer), Count(mid), Count(inner))
        return Call("autofuse::BroadcastOuter", args2, (self.local(n),), (self.local(source),))

    def _with_rows(self, n: Node, whole: bool) -> Call:
        """A tensor and an operand that has an element per row of it."""
        x, each = (self.nodes[i] for i in n.inputs)
        places = range(len(n.y.vectorized_axis))
        rows, cols = row_extents(n, each, [self.extents.in_ub(n.y, i, whole) for i in places])
        dst, tmp = self.local(n), f"{n.name}_tmp"
        operands = (self.local(x), self.local(each))
        args: tuple[Arg, ...] = (
            *(LocalArg(a) for a in (dst, *operands, tmp)),
            Count(product(rows)),
            Count(product(cols)),
        )
        return Call(call_of(n.op, self.arch).api, args, (dst, tmp), operands)

    def _reduce(self, n: Node, whole: bool) -> Call:
        """One run of axes goes: [outer, n] -> [outer], or [outer, n, inner] -> [outer, inner]."""
        source = self.nodes[n.inputs[0]]
        y, left = source.y, set(n.y.vectorized_axis)
        run = [i for i, a in enumerate(y.vectorized_axis) if a not in left]
        extents = [self.extents.in_ub(y, i, whole) for i in range(len(y.vectorized_axis))]
        outer = product(extents[: run[0]])
        tmp = f"{n.name}_tmp"
        tensors = (LocalArg(self.local(n)), LocalArg(self.local(source)), LocalArg(tmp))
        tag = f"<autofuse::{n.op.removeprefix('Reduce')}Of>"
        if run[-1] + 1 < len(extents):
            length = product(self.extents.of(y.vectorized_axis[i], whole) for i in run)
            counts = (outer, length, y.vectorized_strides[run[-1]])
            name = f"autofuse::ReduceOuter{tag}"
        else:
            # Padding, if there is any, is behind all elements of the run.
            pitch = y.vectorized_strides[run[0] - 1] if run[0] else None
            if pitch is None:
                whole_run = product(self.extents.in_ub(y, i, True) for i in run)
                pitch = align_up(whole_run, self.arch.block_bytes // y.dtype.itemsize)
            length = product(self.extents.of(y.vectorized_axis[i], whole) for i in run)
            counts = (outer, length, pitch)
            name = f"autofuse::ReduceInner{tag}"
        args: tuple[Arg, ...] = (*tensors, *(Count(c) for c in counts))
        return Call(name, args, (self.local(n), tmp), (self.local(source),))

    def _scan(self, n: Node, whole: bool) -> Call:
        """Running sums along a run of axes of the tile; along none of them, of the tiles."""
        y, row = n.y, call_of(n.op, self.arch)
        moved = row.as_type.get(y.dtype.name)
        places = range(len(y.vectorized_axis))
        own = [self.extents.of(a, whole) for a in y.vectorized_axis]
        padded = [self.extents.in_ub(y, i, whole) for i in places]
        reserved = [self.extents.in_ub(y, i, True) for i in places]
        locals_ = [self.local(self.nodes[x]) for x in (n.name, *n.inputs)]
        dst, src, carry = (*locals_, "")[:3]
        return scan_call(
            n,
            (dst, src, carry, f"{n.name}_tmp"),
            BY_NAME[moved] if moved else None,
            scan_run(n, self.extents.axes),
            (own, padded, reserved),
            self.arch.block_bytes // y.dtype.itemsize,
        )

    def _pick(self, n: Node, whole: bool) -> Call:
        """Elements that lie apart, side by side."""
        elements = self.extents.elements(n.y, whole)
        counts = pick_counts(n, elements, lambda axis: self.extents.of(axis, whole))
        operands = tuple(self.local(self.nodes[i]) for i in n.inputs)
        return pick_call(n, call_of(n.op, self.arch).api, self.local(n), operands, counts)

    def _lace(self, n: Node, whole: bool) -> Call:
        """Short rows that are one run as long rows, or back."""
        source, row = self.nodes[n.inputs[0]], call_of(n.op, self.arch)
        counts = lace_counts(n, source, lambda axis: self.extents.of(axis, whole))
        dst, operands = self.local(n), tuple(self.local(self.nodes[i]) for i in n.inputs)
        args: tuple[Arg, ...] = (
            *(LocalArg(x) for x in (dst, *operands)),
            *(Count(c) for c in counts),
        )
        return Call(row.api, args, (dst,), operands)

    def _stack(self, n: Node, whole: bool) -> Call:
        """Tensors side by side."""
        sources = [self.nodes[i] for i in n.inputs]
        counts = stack_counts(n, lambda axis: self.extents.of(axis, whole), sources[0])
        dst, operands = self.local(n), tuple(map(self.local, sources))
        args: tuple[Arg, ...] = (
            LocalArg(dst),
            *(Count(c) for c in counts),
            *(LocalArg(x) for x in operands),
        )
        return Call(call_of(n.op, self.arch).api, args, (dst,), operands)

    def _transpose(self, n: Node, whole: bool) -> Call:
        """[outer, rows, cols] -> [outer, cols, rows], rows of both at their pitches."""
        source, row = self.nodes[n.inputs[0]], call_of(n.op, self.arch)
        counts = transpose_counts(
            source.y, n.y, lambda axis: self.extents.of(axis, whole), self.arch
        )
        moved = row.as_type.get(n.y.dtype.name)
        view = BY_NAME[moved] if moved else None
        dst, src, tmp = self.local(n), self.local(source), f"{n.name}_tmp"
        args = (LocalArg(dst, view), LocalArg(src, view), LocalArg(tmp))
        return Call(row.api, (*args, *(Count(c) for c in counts)), (dst, tmp), (src,))


def _scalar(x: Node) -> Number | SizeValue:
    """The value of a Scalar node."""
    text = x.attrs.get("expr")
    if text:
        return SizeValue(size_of(text), x.y.dtype)
    value = x.attrs["value"]
    assert isinstance(value, (int, float))
    return Number(value, x.y.dtype)
