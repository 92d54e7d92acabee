"""Decomposes composite ops: rewrites a FusionGraph into one of ops that lowering supports.

* Mean is a sum divided by the count; Any and All are the maximum and minimum of 0 and 1.
* ArgMax selects the indices of the largest elements and takes the smallest; in float32 where that holds all indices.
* Softmax subtracts the largest element first.  It is computed entirely in float32.
* A sum or product of float16 or bfloat16 is computed in float32 and rounded once; the maximum of a narrow type without
  a vector instruction is computed in a wider type, which is exact.  Sums of int8, uint8 and 64-bit integers stay as
  they are: no chip computes them, and a Cast to int32 or float32 is left to the user.
* An empty reduction is its neutral element; one along dimensions of size 1 is a Reshape; two adjacent reductions of a
  kind become one.
* A float power with an integer exponent is the power of the base's absolute value, with its sign if the exponent is
  odd.
* Pad is a concatenation with constant tensors.
* GatherElements is a Gather from its flattened data; a Gather with a constant scalar index is a Slice, one with a known
  index of few runs a Concat of Slices.  Along the innermost dimension both may be a Take, whose rows are loaded whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Operand, Tensor
from autofuse.implgraph.ir.iteration_space import contiguous_strides
from autofuse.implgraph.ops.infer import infer_node, operand_dtypes
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.device import MOVED
from autofuse.implgraph.ops.rows.reductions import REDUCES, neutral, reduced_axes
from autofuse.implgraph.rewrites.frames import framed, same_everywhere
from autofuse.implgraph.rewrites.integer_reductions import INDIRECT, integer_reduction
from autofuse.implgraph.rewrites.known_gathers import known_gather

__all__ = ["decompose"]

F32, I32 = BY_NAME["float32"], BY_NAME["int32"]
HALVES = ("float16", "bfloat16")
#: float32 holds integers up to this exactly.
EXACT = 1 << 24
#: Types whose maximum is computed, exactly, in another type.
WIDER = {"bfloat16": "float32", "int8": "float16", "uint8": "float16"}


def decompose(
    graph: FusionGraph,
    *,
    gather_rows: bool = False,
    frames: bool = False,
    compare_places: bool = False,
    native_integers: bool = False,
    masks: bool = False,
    rows_in_ub: tuple[int, int] = (0, 0),
) -> FusionGraph:
    """Return the graph without composite ops; the graph itself without any.  Output names stay.

    Args:
        graph: the graph; not changed.
        gather_rows: keep a Gather along a dimension other than the innermost, even if its index is known.
        frames: turn constants around a tensor along the innermost dimension into a mask
            (:mod:`autofuse.implgraph.rewrites.frames`).
        compare_places: GatherElements of one element per line is the sum of the elements whose position equals the
            index.
        native_integers: keep reductions and running sums of every integer type.
        masks: like ``frames`` along any dimension, for kernels with masked loads.
        rows_in_ub: elements along the innermost dimension are taken from rows in UB: the most bytes of a row whose
            length is within them for all sizes, and of one that is so for some sizes.
    """
    if not any(n.op in _RULES for n in graph.nodes):
        return graph
    indirect = frozenset() if native_integers else INDIRECT
    made = _Rewriter(
        graph, gather_rows, frames or masks, compare_places, indirect, masks, rows_in_ub
    )
    for n in graph.nodes:
        rule = _RULES.get(n.op)
        if rule is None:
            made.keep(n)
        else:
            made.finish(n, rule(made, n))
    return replace(graph, nodes=tuple(made.nodes), tensors=made.tensors)


class _Rewriter:
    """The new graph under construction."""

    def __init__(
        self,
        graph: FusionGraph,
        gather_rows: bool,
        frames: bool,
        compare_places: bool,
        indirect: frozenset[str],
        masked: bool,
        rows_in_ub: tuple[int, int],
    ) -> None:
        self.graph = graph
        self.rows_in_ub = rows_in_ub
        self.compare_places = compare_places
        #: Integer types whose reductions are decomposed.
        self.indirect = indirect
        self.gather_rows = gather_rows
        self.frames = frames
        self.masked = masked
        self.masks: dict[tuple[Any, ...], str] = {}
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.nodes: list[FusionNode] = []
        self.ranges = graph.symbol_ranges()
        self.node: FusionNode = graph.nodes[0]
        self.makers: dict[str, FusionNode] = {}
        self.uses: dict[str, int] = {}
        for n in graph.nodes:
            for x in n.inputs:
                if isinstance(x, str):
                    self.uses[x] = self.uses.get(x, 0) + 1
        for o in graph.outputs:
            self.uses[o.tensor] = self.uses.get(o.tensor, 0) + 1
        self._taken = {n.name for n in graph.nodes} | set(graph.tensors)

    def keep(self, n: FusionNode) -> None:
        """Keep a node as it is."""
        self.nodes.append(n)
        self.makers.update(dict.fromkeys(n.outputs, n))

    def finish(self, n: FusionNode, last: FusionNode) -> None:
        """Add ``last``, which produces the result of ``n``."""
        self.keep(replace(last, name=n.name, outputs=n.outputs))

    def last(self, op: str, inputs: Sequence[Operand], **attrs: Any) -> FusionNode:
        """Return the node that produces the result."""
        return FusionNode("", op, tuple(inputs), (), attrs, self.node.origin)

    def emit(self, op: str, inputs: Sequence[Operand], **attrs: Any) -> str:
        """Add a node with a new result, and return its name."""
        operands = [self.tensors[x] if isinstance(x, str) else x for x in inputs]
        dtype, shape = infer_node(lookup(op), operands, attrs)
        name = self._fresh(f"{self.node.name}_{op.lower()}")
        self.tensors[name] = Tensor(name, dtype, shape, origin=self.node.origin)
        self.keep(FusionNode(name, op, tuple(inputs), (name,), attrs, self.node.origin))
        return name

    def _fresh(self, name: str) -> str:
        new, k = name, 1
        while new in self._taken:
            k += 1
            new = f"{name}_{k}"
        self._taken.add(new)
        return new

    def cast(self, x: str, to: DType) -> str:
        """Return ``x`` in another dtype."""
        return x if self.tensors[x].dtype == to else self.emit("Cast", [x], dtype=to.name)

    def source(self, n: FusionNode) -> tuple[str, Tensor]:
        """Return the operand of a unary node."""
        self.node = n
        x = n.inputs[0]
        if isinstance(x, Constant):  # a constant has no dimensions
            x = self.emit("Broadcast", [x], shape=())
        return x, self.tensors[x]

    def result(self, n: FusionNode) -> Tensor:
        """Return the tensor that a node produces."""
        return self.tensors[n.outputs[0]]


def _attrs(n: FusionNode) -> Mapping[str, Any]:
    return n.attrs


def _value(dtype: DType, value: float | int) -> Constant:
    held = float(value) if dtype.kind == "f" else bool(value) if dtype.kind == "b" else int(value)
    return Constant(held, dtype)


def _size(dtype: DType, size: Expr) -> Constant:
    return _value(dtype, size.value) if size.is_const else Constant(0, dtype, size)


# reductions -----------------------------------------------------------------------------------


def _reduce(r: _Rewriter, n: FusionNode) -> FusionNode:
    x, t = r.source(n)
    axes = reduced_axes(_attrs(n).get("axes", ()), len(t.shape))
    x, axes = _chained(r, n.op, x, axes)
    return _reduction(r, n.op, x, axes, r.result(n))


def _reduction(r: _Rewriter, op: str, x: str, axes: tuple[int, ...], result: Tensor) -> FusionNode:
    """Add a reduction of one of the four kinds; ``result`` has its shape and dtype."""
    t = r.tensors[x]
    dtype = t.dtype
    of_nothing = any(t.shape[a] == 0 for a in axes)
    # ReduceMax and ReduceMin accept no axis of size 0, even if the result is empty.
    if of_nothing and (product(result.shape) != 0 or op in ("ReduceMax", "ReduceMin")):
        return r.last("Broadcast", [_value(dtype, neutral(op, dtype))], shape=result.shape)
    if all(t.shape[a] == 1 for a in axes):
        return r.last("Reshape", [x], shape=result.shape)
    if dtype.name in r.indirect:
        whole = integer_reduction(
            r, op, x, axes, lambda kind, y, over: _total(r, kind, y, over, True)
        )
        return r.last("Reshape", [whole], shape=result.shape)
    wide = dtype
    if op in ("ReduceSum", "ReduceProd") and dtype.name in HALVES:
        wide = F32
    elif op in ("ReduceMax", "ReduceMin") and dtype.name in WIDER:
        wide = BY_NAME[WIDER[dtype.name]]
    x = r.cast(x, wide)
    kept = tuple(ONE if d in axes else s for d, s in enumerate(t.shape))
    attrs = {"axes": axes, "keepdims": kept == result.shape}
    gone = tuple(s for d, s in enumerate(t.shape) if d not in axes)
    if wide == dtype and result.shape in (kept, gone):
        return r.last(op, [x], **attrs)
    total = r.emit(op, [x], **attrs)
    if result.shape not in (kept, gone):  # of two merged reductions, only one kept its dimensions
        total = r.emit("Reshape", [total], shape=result.shape)
    return r.last("Cast", [total], dtype=dtype.name)


def _chained(r: _Rewriter, op: str, x: str, axes: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Merge a reduction with one of the same kind that only it uses into one over all their axes."""
    inner = r.makers.get(x)
    while inner is not None and inner.op == op and r.uses.get(x, 0) == 1:
        source = inner.inputs[0]
        assert isinstance(source, str)
        rank = len(r.tensors[source].shape)
        gone = reduced_axes(_attrs(inner).get("axes", ()), rank)
        kept = [a for a in range(rank) if a not in gone]
        same = len(r.tensors[x].shape) == rank
        axes = tuple(sorted({*(a if same else kept[a] for a in axes), *gone}))
        r.nodes.remove(inner)
        x, inner = source, r.makers.get(source)
    return x, axes


def _mean(r: _Rewriter, n: FusionNode) -> FusionNode:
    x, t = r.source(n)
    axes = reduced_axes(_attrs(n).get("axes", ()), len(t.shape))
    count = product(t.shape[a] for a in axes)
    wide = F32 if t.dtype.name in HALVES else t.dtype
    total = _total(r, "ReduceSum", r.cast(x, wide), axes, bool(_attrs(n).get("keepdims", False)))
    operands: list[Operand] = [total, _size(wide, count)]
    if wide == t.dtype:
        return r.last("Div", operands)
    return r.last("Cast", [r.emit("Div", operands)], dtype=t.dtype.name)


def _total(r: _Rewriter, op: str, x: str, axes: Sequence[int], keepdims: bool) -> str:
    """Add a reduction as an intermediate step."""
    row = lookup(op)
    attrs = {"axes": tuple(axes), "keepdims": keepdims}
    t = r.tensors[x]
    nothing = any(t.shape[a] == 0 for a in axes)
    rule = lookup("ReduceSum") if nothing else row
    dtype, shape = infer_node(rule, [t], attrs)
    last = _reduction(r, op, x, tuple(axes), Tensor("", dtype, shape))
    return r.emit(last.op, last.inputs, **last.attrs)


def _truth(r: _Rewriter, n: FusionNode) -> FusionNode:
    x, t = r.source(n)
    axes = reduced_axes(_attrs(n).get("axes", ()), len(t.shape))
    op = "ReduceMax" if n.op == "ReduceAny" else "ReduceMin"
    half = BY_NAME["float16"]
    if t.dtype.kind != "b":
        x = r.emit("NotEqual", [x, _value(t.dtype, 0)])
    edge = _total(r, op, r.cast(x, half), axes, bool(_attrs(n).get("keepdims", False)))
    return r.last("Greater", [edge, _value(half, 0)])


def _arg(r: _Rewriter, n: FusionNode) -> FusionNode:
    x, t = r.source(n)
    axis = int(_attrs(n)["axis"]) % len(t.shape)
    x = r.cast(x, BY_NAME[WIDER.get(t.dtype.name, t.dtype.name)])
    op = "ReduceMax" if n.op == "ArgMax" else "ReduceMin"
    best = _total(r, op, x, (axis,), True)
    found = r.emit("Equal", [x, best])
    if t.dtype.kind == "f":
        found = r.emit("LogicalOr", [found, r.emit("NotEqual", [x, x])])
    shape = tuple(s if d == axis else ONE for d, s in enumerate(t.shape))
    # The minimum of float32 takes fewer calls than that of int32 (autofuse_reduce.h).
    exact = bounds(t.shape[axis], r.ranges)[1] <= EXACT
    kind, behind = (F32, float(EXACT)) if exact else (I32, (1 << 31) - 1)
    index = r.emit("Iota", [], shape=shape, axis=axis, dtype=kind.name)
    place = r.emit("Select", [found, index, _value(kind, behind)])
    keep = bool(_attrs(n).get("keepdims", False))
    wanted = r.result(n)
    if wanted.dtype == kind:
        return _reduction(r, "ReduceMin", place, (axis,), wanted)
    return r.last("Cast", [_total(r, "ReduceMin", place, (axis,), keep)], dtype=wanted.dtype.name)


def _softmax(r: _Rewriter, n: FusionNode) -> FusionNode:
    x, t = r.source(n)
    if product(t.shape) == 0:
        return r.last("Identity", [x])
    axis = int(_attrs(n)["axis"]) % len(t.shape)
    wide = F32 if t.dtype.name in HALVES else t.dtype
    x = r.cast(x, wide)
    shifted = r.emit("Sub", [x, _total(r, "ReduceMax", x, (axis,), True)])
    e = r.emit("Exp", [shifted])
    total = _total(r, "ReduceSum", e, (axis,), True)
    if n.op == "Softmax":
        op, pair = "Div", (e, total)
    else:
        op, pair = "Sub", (shifted, r.emit("Ln", [total]))
    if wide == t.dtype:
        return r.last(op, pair)
    return r.last("Cast", [r.emit(op, pair)], dtype=t.dtype.name)


def _cumsum(r: _Rewriter, n: FusionNode) -> FusionNode:
    """Sum halves in float32, integers like their total; a sum along size 1 is 0 or the element."""
    x, t = r.source(n)
    attrs = {**_attrs(n), "axis": int(_attrs(n)["axis"]) % len(t.shape)}
    if product(t.shape) == 0:
        return r.last("Identity", [x])
    if t.shape[attrs["axis"]] == 1:
        if attrs.get("exclusive", False):
            return r.last("Broadcast", [_value(t.dtype, 0)], shape=t.shape)
        return r.last("Identity", [x])
    if t.dtype.name in HALVES:
        total = r.emit("CumSum", [r.cast(x, F32)], **attrs)
        return r.last("Cast", [total], dtype=t.dtype.name)
    if t.dtype.name not in r.indirect:
        return r.last("CumSum", [x], **attrs)

    def native(op: str, y: str, axes: Sequence[int]) -> str:
        return r.emit("CumSum", [y], **attrs)

    # Partial sums fit the digits that hold the total.
    sums = integer_reduction(r, "ReduceSum", x, (attrs["axis"],), native)
    return r.last("Identity", [sums])


# powers ---------------------------------------------------------------------------------------


def _pow(r: _Rewriter, n: FusionNode) -> FusionNode:
    """Expand a power: float32 holds 16-bit exponents; for larger ones the last bit gives the sign.

    For any base but 1, an exponent of 2^31 gives 0 or infinity, so the exponent is clamped to int32.  Beyond float32
    precision it is split in two, both with its sign: neither power is farther from 1 than the result.
    """
    r.node = n
    have, kind = _dtypes(r, n)
    if have.kind != "f" or kind.kind == "f":
        return n
    base, y = (_tensor(r, x, d) for x, d in zip(n.inputs, (have, kind), strict=True))
    base = r.cast(base, F32)
    if kind.bits <= 16:
        return r.last("Cast", [r.emit("Pow", [base, r.cast(y, F32)])], dtype=have.name)
    at, top = y, (1 << 31) - 1
    if kind.name != "int32":
        at = r.emit("Minimum", [at, _value(kind, top)])
        at = at if kind.kind == "u" else r.emit("Maximum", [at, _value(kind, -top)])
        at = r.cast(at, I32)
    rest = r.emit("Fmod", [at, _value(I32, 256)])
    far = r.emit("GreaterEqual", [r.emit("Abs", [r.cast(at, F32)]), _value(F32, EXACT)])
    rest = r.emit("Select", [far, rest, _value(I32, 0)])
    size = r.emit("Abs", [base])
    parts = (r.emit("Sub", [at, rest]), rest)
    powers = [r.emit("Pow", [size, r.cast(part, F32)]) for part in parts]
    power = r.emit("Mul", powers)
    odd = r.emit("NotEqual", [r.emit("BitwiseAnd", [y, _value(kind, 1)]), _value(kind, 0)])
    signed = r.emit("Select", [odd, r.emit("CopySign", [power, base]), power])
    return r.last("Cast", [signed], dtype=have.name)


def _dtypes(r: _Rewriter, n: FusionNode) -> list[DType]:
    return operand_dtypes([r.tensors[x] if isinstance(x, str) else x for x in n.inputs])


def _tensor(r: _Rewriter, x: Operand, dtype: DType) -> str:
    """Return an operand as a tensor; a number as a 0-d tensor."""
    return x if isinstance(x, str) else r.emit("Broadcast", [replace(x, dtype=dtype)], shape=())


# moves ----------------------------------------------------------------------------------------


def _pad(r: _Rewriter, n: FusionNode) -> FusionNode:
    x, t = r.source(n)
    attrs = _attrs(n)
    value = _value(t.dtype, attrs.get("value", 0.0))
    low, high = attrs["low"], attrs["high"]
    last: FusionNode | None = None
    # From the innermost dimension outwards, so that the frame of an outer one consists of whole rows.
    for d in reversed(range(len(t.shape))):
        if low[d] == ZERO and high[d] == ZERO:
            continue
        if last is not None:
            x = r.emit(last.op, last.inputs, **last.attrs)
        shape = r.tensors[x].shape
        pieces: list[str] = [x]
        for size, at in ((low[d], 0), (high[d], 2)):
            if size != ZERO:
                frame = (*shape[:d], size, *shape[d + 1 :])
                pieces.insert(at, r.emit("Broadcast", [value], shape=frame))
        last = _joined(r, pieces, d)
    return last if last is not None else r.last("Identity", [x])


def _transpose(r: _Rewriter, n: FusionNode) -> FusionNode:
    """Turn a Transpose that moves only dimensions of size 1 into a Reshape."""
    x, t = r.source(n)
    perm = [p % len(t.shape) for p in _attrs(n)["perm"]]
    moved = [p for p in perm if t.shape[p] != 1]
    if moved == sorted(moved):
        return r.last("Reshape", [x], shape=r.result(n).shape)
    return r.last("Transpose", [x], perm=tuple(perm))


def _slice(r: _Rewriter, n: FusionNode) -> FusionNode:
    """Turn a Slice of everything into a copy."""
    x, t = r.source(n)
    attrs = _attrs(n)
    steps = attrs.get("steps") or (1,) * len(t.shape)
    shape = r.result(n).shape
    if shape == t.shape and all(
        a == ZERO and (s == 1 or size == const(1))
        for a, s, size in zip(attrs["starts"], steps, shape, strict=True)
    ):
        return r.last("Identity", [x])
    return r.last("Slice", [x], **{**attrs, "steps": tuple(steps)})


def _concat(r: _Rewriter, n: FusionNode) -> FusionNode:
    """Leave out empty pieces of a Concat."""
    r.node = n
    rank = len(r.result(n).shape)
    axis = int(_attrs(n)["axis"]) % rank
    pieces = [x for x in n.inputs if isinstance(x, str) and r.tensors[x].shape[axis] != 0]
    if len(pieces) < 2:
        return r.last("Identity", pieces or n.inputs[:1])
    return _joined(r, pieces, axis)


def _joined(r: _Rewriter, pieces: Sequence[str], axis: int) -> FusionNode:
    """Join nonempty pieces and return the last node."""
    frame = framed(r, pieces, axis, masked=r.masked) if r.frames else None
    return frame or r.last("Concat", pieces, axis=axis)


def _gather(r: _Rewriter, n: FusionNode) -> FusionNode:
    """Turn a Gather into a Slice if its index is one number everywhere that is in-bounds for all sizes."""
    x, t = r.source(n)
    index, axis = n.inputs[1], int(_attrs(n)["axis"]) % len(t.shape)
    if isinstance(index, str):
        same = same_everywhere(r, index)
        number = None if same is None else int(same.value)
        if number is None or not 0 <= number < bounds(t.shape[axis], r.ranges)[0]:
            rows = r.gather_rows and product(t.shape[axis + 1 :]) != 1
            moved = None if rows else known_gather(r, x, index, axis)
            if moved is not None:
                return r.last("Reshape", [moved], shape=r.result(n).shape)
            taken = _taken(r, x, index, axis, 0)
            return taken or r.last("Gather", [x, index], axis=axis)
        row = tuple(ONE if d == axis else s for d, s in enumerate(t.shape))
        starts = tuple(const(number) if d == axis else ZERO for d in range(len(row)))
        one = r.emit("Slice", [x], starts=starts, shape=row, steps=(1,) * len(row))
        ones = (ONE,) * len(r.tensors[index].shape)
        one = r.emit("Reshape", [one], shape=(*row[:axis], *ones, *row[axis + 1 :]))
        return r.last("Broadcast", [one], shape=r.result(n).shape)
    at = const(int(index.value)) if index.expr is None else index.expr
    at = at + t.shape[axis] if at.is_const and at.value < 0 else at
    if at.is_const and (
        at.value < 0 or (t.shape[axis].is_const and at.value >= t.shape[axis].value)
    ):
        raise AutofuseError.of(
            "AF1204",
            Wording(
                "the index {} is outside of dimension {}, which has {}",
                index.value,
                axis,
                counted(t.shape[axis], "element"),
            ),
            where=Where(pointer=n.origin, node=n.label),
        )
    starts = tuple(at if d == axis else ZERO for d in range(len(t.shape)))
    shape = tuple(ONE if d == axis else s for d, s in enumerate(t.shape))
    one = r.emit("Slice", [x], starts=starts, shape=shape, steps=(1,) * len(shape))
    return r.last("Reshape", [one], shape=r.result(n).shape)


def _gather_elements(r: _Rewriter, n: FusionNode) -> FusionNode:
    """Expand to a Gather from the flattened data: the position of an element combines those along all dimensions."""
    x, t = r.source(n)
    index, axis = n.inputs[1], int(_attrs(n)["axis"]) % len(t.shape)
    assert isinstance(index, str)
    if r.compare_places and _is_one_of_line(t, r.tensors[index], axis):
        return _compared(r, n, x, index, axis)
    taken = _taken(r, x, index, axis, axis)
    if taken is not None:
        return taken
    total = product(t.shape)
    few = bounds(total, r.graph.symbol_ranges())[1] < 1 << 31
    whole = I32 if few else BY_NAME["int64"]
    shape = r.tensors[index].shape
    at = _inside(r, index, t.shape[axis], whole)
    place: str | None = None
    for d, stride in enumerate(contiguous_strides(t.shape)):
        line = at
        if d != axis:
            if shape[d] == 1:
                continue
            ones = tuple(s if k == d else ONE for k, s in enumerate(shape))
            line = r.emit("Iota", [], shape=ones, axis=d, dtype=whole.name)
        if stride != 1:
            line = r.emit("Mul", [line, _size(whole, stride)])
        place = line if place is None else r.emit("Add", [place, line])
    assert place is not None
    flat = r.emit("Reshape", [x], shape=(total,))
    return r.last("Gather", [flat, place], axis=0)


def _taken(r: _Rewriter, x: str, index: str, axis: int, shared: int) -> FusionNode | None:
    """Return a Take of elements along the innermost dimension; None if its rows may be too long, or are not vectors.

    Args:
        r: receives the offsets.
        x: the data.
        index: the positions, more than one per row.
        axis: the indexed dimension.
        shared: leading dimensions of the data that the index has too.
    """
    t, at = r.tensors[x], r.tensors[index]
    size, bytes_each = t.shape[axis], t.dtype.itemsize
    least, most = (end * bytes_each for end in bounds(size, r.ranges))
    all_of, some_of = r.rows_in_ub
    fits = most <= all_of or (some_of > 0 and least <= some_of)
    single = not at.shape or at.shape[-1] == 1 or size == 1
    if axis + 1 < len(t.shape) or single or not fits or t.dtype.name not in MOVED:
        return None
    offsets = r.emit("Mul", [_inside(r, index, size, I32), _value(I32, bytes_each)])
    return r.last("Take", [x, offsets], shared=shared, size=bytes_each)


def _inside(r: _Rewriter, index: str, size: Expr, kind: DType) -> str:
    """Return the position of an index in a dimension, as ``autofuse::IndexIn`` does; ``kind`` holds the size.

    A larger type is narrowed only after out-of-bounds positions are clamped, since narrowing would change them.  But
    rounding to float32 moves no number across the bounds that it holds, and it compares in fewer calls.
    """
    have = r.tensors[index].dtype
    if have.name == "int64" and have.name in r.indirect and bounds(size, r.ranges)[1] <= EXACT:
        return r.cast(_inside(r, r.cast(index, F32), size, F32), kind)
    at = r.cast(index, kind) if have.bits < kind.bits else index
    have = r.tensors[at].dtype
    at = r.emit("Maximum", [at, _size(have, -size)])
    at = r.cast(r.emit("Minimum", [at, _size(have, size - 1)]), kind)
    below = r.emit("Less", [at, _value(kind, 0)])
    return r.emit("Select", [below, r.emit("Add", [at, _size(kind, size)]), at])


def _is_one_of_line(data: Tensor, index: Tensor, axis: int) -> bool:
    """Return True if an index selects one element per line, of a known size and a type that has sums."""
    lines = tuple(ONE if d == axis else s for d, s in enumerate(data.shape))
    summed = data.dtype.name in HALVES or data.dtype.name in ("float32", "int32")
    size = data.shape[axis]
    return summed and index.shape == lines and size.is_const and 1 < size.value < 1 << 31


def _compared(r: _Rewriter, n: FusionNode, x: str, index: str, axis: int) -> FusionNode:
    """Return the sum of a line's elements with all but one replaced by -0, the neutral value."""
    t = r.tensors[x]
    size = t.shape[axis].value
    at = _inside(r, index, const(size), I32)
    line = tuple(s if d == axis else ONE for d, s in enumerate(t.shape))
    place = r.emit("Iota", [], shape=line, axis=axis, dtype="int32")
    chosen = r.emit("Select", [r.emit("Equal", [place, at]), x, _value(t.dtype, -0.0)])
    return _reduction(r, "ReduceSum", chosen, (axis,), r.result(n))


_RULES: Mapping[str, Callable[[_Rewriter, FusionNode], FusionNode]] = {
    **dict.fromkeys(REDUCES, _reduce),
    "ReduceMean": _mean,
    "ReduceAny": _truth,
    "ReduceAll": _truth,
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "CumSum": _cumsum,
    "Pow": _pow,
    "Pad": _pad,
    "Transpose": _transpose,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Concat": _concat,
}
