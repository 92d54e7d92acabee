"""Checks of data movement: outputs are written once, loads are in-bounds, copies move the regions of their nodes.

Three steps, for all legal sizes at once:

1. ``(core, loop, tile element)`` is a bijection onto the iteration space (``model.py``), given that the loop runs
   ``Min(b, T - c*b)`` times, that the indices are the digits of ``c*b + i``, and that a tail is ``Min(t, E - j*t)``.
2. A Store's strides are a mixed radix over the axes (each is the product of the sizes inside it) and the product of all
   sizes is the number of elements of the output; so the iteration space maps bijectively onto the output.
3. The offset and the descriptor of a copy match its node: the same start, and the same list of (size, GM stride, UB
   stride) after joining adjacent contiguous dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from autofuse.codegen.ir.kernel_ir import (
    WORKSPACE,
    CopyIn,
    CopyOut,
    DmaDims,
    GlobalDecl,
    IndexRead,
    ScalarRead,
)
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.model import Finding, Kernel, at_loads, node_of_copy
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up, const, product, sym
from autofuse.implgraph.ir.fusion import Tensor
from autofuse.implgraph.ir.graph import Axis, AxisType, Node
from autofuse.schedule.placement.picking import beyond
from autofuse.schedule.placement.scalars import is_scalar

__all__ = [
    "copies_move_their_region",
    "cores_share_the_tiles",
    "in_place_regions_agree",
    "indices_are_their_operands",
    "loads_are_inside_their_tensor",
    "stores_cover_their_output",
    "tensors_are_their_parameters",
]


def cores_share_the_tiles(kernel: Kernel) -> Iterator[Finding]:
    """A single loop over tiles runs once per tile of this core, and cores without a tile return before it."""
    yield from kernel.problems
    if kernel.loops != 1:
        yield Finding(f"there are {kernel.loops} loops over tiles")
    wanted = {n.loop_pass for n in kernel.impl.nodes if kernel.place_of(n)[1] is not None}
    if wanted != set(range(kernel.passes)):
        yield Finding(f"there are {kernel.passes} reduce loops, not {len(wanted)}")
    if not kernel.loop_guard:
        yield Finding("no return for cores without tiles stands before the loop")
    rows = kernel.spec.row_elements
    empty = any(s.min == 0 and s.name in rows.symbols() for s in kernel.impl.symbols)
    if empty and not kernel.row_guard and not kernel.prover.nonneg(rows - 1):
        yield Finding("no return for rows without elements stands before the loop")


# regions --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Dim:
    """Iterations, and strides in bytes in GM and in UB."""

    size: Expr
    gm: Expr
    ub: Expr


def _joined(kernel: Kernel, dims: list[_Dim]) -> list[_Dim]:
    """Drop dimensions of size 1, and join those that are contiguous on both sides."""
    same = kernel.prover.equal
    out: list[_Dim] = []
    for d in reversed(dims):
        if d.size == 1:
            continue
        if out and same(d.gm, out[0].gm * out[0].size) and same(d.ub, out[0].ub * out[0].size):
            out[0] = _Dim(d.size * out[0].size, out[0].gm, out[0].ub)
        else:
            out.insert(0, d)
    return out


def _of_node(kernel: Kernel, n: Node) -> tuple[Expr, list[_Dim]]:
    """Return the start in GM in elements, and the dimensions of a Load or Store in this tile."""
    y = n.y
    size = n.y.dtype.itemsize
    stride = dict(zip(y.axis, y.strides, strict=True))
    start = kernel.start_of(n)
    pitch = dict(zip(y.vectorized_axis, y.vectorized_strides, strict=True))
    # Each index of an index tensor has its own copies: these loops are the outermost ones.
    first = kernel.indexed_axes(n)
    order = [*first, *(a for a in y.vectorized_axis if a not in first)]
    dims = [_Dim(kernel.extent(a), stride[a] * size, pitch[a] * size) for a in order]
    if n.attrs.get("run"):
        return _of_run(kernel, start, dims, size, beyond(n))
    element = _Dim(const(size), ONE, ONE)
    dims.append(element)
    if beyond(n):
        dims = _joined(kernel, dims)
        # A single element of one byte is no dimension there.
        row = dims.pop() if dims[-1].gm == ONE else element
        dims.append(replace(row, size=row.size + beyond(n) * size))
    return start, dims


def _of_run(
    kernel: Kernel, start: Expr, dims: list[_Dim], size: int, more: int
) -> tuple[Expr, list[_Dim]]:
    """Return a Load of all elements from its first to its last, and ``more`` after them, in GM order.

    For a descending index the run begins at the last element, and every row is a separate run.
    """
    backwards = (dims[-1].gm.as_int() or 0) < 0
    outer, last = dims[:-1], dims[-1]
    if backwards:
        start = start + const(last.gm.value // size) * (last.size - 1)
    elif outer:
        *outer, last = _joined(kernel, dims) or [last]
    run = (last.size - 1) * last.ub + (1 + more) * size
    return start, [*outer, _Dim(run, ONE, ONE)]


def _of_copy(kernel: Kernel, item: Item) -> tuple[Expr, Expr, list[_Dim]]:
    """Return the starts in GM and UB in elements, and the dimensions of a copy with its surrounding loops."""
    s, block = item.stmt, item.block
    assert isinstance(s, CopyIn | CopyOut)
    assert block is not None
    size, unit = s.dtype.itemsize, kernel.arch.block_bytes
    ub, gm = item.values
    if isinstance(block, DmaDims):
        dims = [_Dim(d.size, d.gm * size, d.ub * size) for d in block.dims]
        return gm, ub, [*dims, _Dim(const(size), ONE, ONE)]
    dims = []
    for var, extent in item.rows:
        at, then = {var: ZERO}, {var: ONE}
        gm_step = gm.substitute(then) - gm.substitute(at)
        ub_step = ub.substitute(then) - ub.substitute(at)
        dims.append(_Dim(extent, gm_step * size, ub_step * size))
        gm, ub = gm.substitute(at), ub.substitute(at)
    pitch = align_up(block.length, unit) + block.ub_gap * unit
    dims.append(_Dim(block.count, block.length + block.gm_gap, pitch))
    dims.append(_Dim(block.length, ONE, ONE))
    return gm, ub, dims


def indices_are_their_operands(kernel: Kernel) -> Iterator[Finding]:
    """Check that a Load takes its elements at the index that its operand holds for that position in the tile.

    The index itself is only known to be in-bounds (``Kernel._place_read``).
    """
    reads = {i.stmt.load: i for i in kernel.items if isinstance(i.stmt, IndexRead)}
    for item, s, _ in at_loads(kernel):
        n = kernel.locals.get(s.local)
        if not isinstance(s, CopyIn) or n is None or len(n.inputs) < 2:
            continue
        at = reads.pop(n.name, None)
        if at is None:
            yield Finding("no statement reads the index of the elements", n.name)
            continue
        read = at.stmt
        assert isinstance(read, IndexRead)
        index = kernel.nodes[n.inputs[1]]
        if read.local != kernel.local_of(index.name) or read.dtype != index.y.dtype:
            yield Finding(f"{read.local} is read as the index, not {index.name}", n.name)
        axes = kernel.indexed_axes(n)
        if len(at.rows) != len(axes) or item.rows[: len(at.rows)] != at.rows:
            yield Finding("the index is not read in the loops of its axes", n.name)
            continue
        yield from kernel.same(at.values[1], n.size("extent"), "extent of what is indexed", n.name)
        yield from kernel.at_least(at.values[1], ONE, "extent of what is indexed", n.name)
        mine = dict(zip(n.y.vectorized_axis, n.y.vectorized_strides, strict=True))
        theirs = dict(zip(index.y.vectorized_axis, index.y.vectorized_strides, strict=True))
        if not set(theirs) <= set(axes):
            yield Finding(f"{index.name} varies along axes that the loops do not have", n.name)
            continue
        wanted, place = ZERO, item.values[0]
        for a, (var, extent) in zip(axes, at.rows, strict=True):
            yield from kernel.same(extent, kernel.extent(a), "indices of an axis", n.name, item)
            step = place.substitute({var: ONE}) - place.substitute({var: ZERO})
            yield from kernel.same(step, mine[a], "UB stride of an indexed axis", n.name, item)
            wanted = wanted + theirs.get(a, ZERO) * sym(var)
        yield from kernel.same(at.values[0], wanted, "UB offset of an index", n.name, at)
    for at in reads.values():
        assert isinstance(at.stmt, IndexRead)
        yield Finding(f"{at.stmt.name} is read for no copy")


def copies_move_their_region(kernel: Kernel) -> Iterator[Finding]:
    """Every Load and Store has exactly one copy, which moves the region of the node."""
    done: set[str] = set()
    for item, s, _ in at_loads(kernel):
        param = _param(kernel, s.gm)
        nodes = [n for n in node_of_copy(kernel, s) if _tensor(kernel, n) == param]
        if not nodes:
            yield Finding(f"no node moves {s.local} and {s.gm}", kernel.node_of(s.local))
            continue
        # Several Stores of one tensor to one parameter are copied in order.
        n = next((n for n in nodes if n.name not in done), nodes[0])
        if n.name in done:
            yield Finding(f"{n.name} is copied twice", n.name)
        done.add(n.name)
        if kernel.place_of(n) != item.place:
            yield Finding("the copy runs in other loops than the node", n.name)
        start, want = _of_node(kernel, n)
        gm, ub, have = _of_copy(kernel, item)
        yield from kernel.same(gm, start, "GM offset", n.name, item)
        yield from kernel.same(ub, ZERO, "UB offset", n.name, item)
        want, have = _joined(kernel, want), _joined(kernel, have)
        if len(want) != len(have):
            yield from _unlike(kernel, want, have, n)
            continue
        for d, w in zip(have, want, strict=True):
            yield from kernel.same(d.size, w.size, "size of a dimension of the copy", n.name)
            yield from kernel.same(d.gm, w.gm, "GM stride of a dimension, in bytes", n.name)
            yield from kernel.same(d.ub, w.ub, "UB stride of a dimension, in bytes", n.name)
    for item, read in _scalar_reads(kernel):
        n = kernel.nodes[read.load]
        if not is_scalar(n) or _tensor(kernel, n) != _param(kernel, read.gm):
            yield Finding(f"{read.name} is no element of {n.name}", n.name)
            continue
        if is_scalar(n, alone=True):
            done.add(n.name)
        yield from kernel.same(item.values[0], kernel.start_of(n), "GM offset", n.name, item)
        puts = (
            c for _, c, _ in at_loads(kernel) if isinstance(c, CopyIn) and c.local == read.local
        )
        if any(c.scalar != read.name for c in puts):
            yield Finding(f"{read.local} gets another element than {read.name}", n.name)
    for n in kernel.impl.nodes:
        if n.op in ("Load", "Store") and n.name not in done:
            yield Finding(f"no copy moves {n.name}", n.name)


def _scalar_reads(kernel: Kernel) -> Iterator[tuple[Item, ScalarRead]]:
    """Yield the scalar unit's reads of GM."""
    for item in kernel.items:
        if isinstance(item.stmt, ScalarRead) and item.stmt.gm:
            yield item, item.stmt


def _unlike(kernel: Kernel, want: list[_Dim], have: list[_Dim], n: Node) -> Iterator[Finding]:
    """Compare descriptors of different form by the number of bytes that they move."""
    texts = ["x".join(f"({d.size}, {d.gm}, {d.ub})" for d in dims) for dims in (have, want)]
    moved, wanted = (product(d.size for d in dims) for dims in (have, want))
    found = list(kernel.same(moved, wanted, "bytes of the copy", n.name))
    yield from found
    if not found:
        yield Finding(f"the copy moves {texts[0]}, the node is {texts[1]}", n.name, False)


# tensors --------------------------------------------------------------------------------------
def _param(kernel: Kernel, gm: str) -> str:
    for item in kernel.items:
        s = item.stmt
        if isinstance(s, GlobalDecl) and s.name == gm:
            return _memory(s)
    return ""


def _memory(s: GlobalDecl) -> str:
    """Return a parameter, or a part of the workspace."""
    return f"workspace + {s.offset}" if s.param == WORKSPACE else s.param


def _output(kernel: Kernel, n: Node) -> Node:
    ends = (o for o in kernel.impl.nodes if o.op in ("Output", "Workspace"))
    return next(o for o in ends if n.name in o.inputs)


def _end(kernel: Kernel, n: Node) -> Node:
    """Return the Data, Output or Workspace node of a Load or Store."""
    return kernel.nodes[n.inputs[0]] if n.op == "Load" else _output(kernel, n)


def _tensor(kernel: Kernel, n: Node) -> str:
    """Return the parameter that a Load reads or a Store writes."""
    end = _end(kernel, n)
    if end.op == "Workspace":
        return f"workspace + {end.size('offset')}"
    params = kernel.fn.params
    return (params.inputs if n.op == "Load" else params.outputs)[end.number("index")]


def _declared(kernel: Kernel, n: Node) -> Tensor | None:
    """Return the graph's tensor for that parameter."""
    graph, end = kernel.graph, _end(kernel, n)
    if end.op == "Workspace":
        return Tensor(end.name, end.y.dtype, (end.size("size"),))
    if graph is None:
        return None
    if n.op == "Load":
        return graph.tensors[graph.inputs[kernel.nodes[n.inputs[0]].number("index")]]
    out = graph.outputs[_output(kernel, n).number("index")]
    made = graph.tensors[out.tensor]
    if out.inout is None:
        return replace(made, strides=None, offset=None)
    over = graph.tensors[out.inout]
    return replace(made, strides=over.strides, offset=over.offset)


def tensors_are_their_parameters(kernel: Kernel) -> Iterator[Finding]:
    """Every GlobalTensor has the element type of its parameter, and begins at that or at its workspace."""
    dtypes = {}
    for n in kernel.impl.nodes:
        if n.op in ("Load", "Store"):
            dtypes[_tensor(kernel, n)] = (n.y.dtype, n.name)
    for item in kernel.items:
        s = item.stmt
        if isinstance(s, GlobalDecl):
            dtype, name = dtypes.get(_memory(s), (s.dtype, ""))
            if s.offset != 0 and (s.param != WORKSPACE or _memory(s) not in dtypes):
                yield Finding(f"{s.name} begins at byte {s.offset} of {s.param}", name)
            if dtype.itemsize != s.dtype.itemsize:
                yield Finding(f"{s.name} is declared as {s.dtype}, its tensor is {dtype}", name)
        elif isinstance(s, CopyIn | CopyOut) and not _param(kernel, s.gm):
            yield Finding(f"{s.gm} is not declared", kernel.node_of(s.local))


def _whole(kernel: Kernel, n: Node) -> list[tuple[Expr, Expr]]:
    """Return (size, GM stride) of all axes of a Load or Store, with split axes as before the split.

    The tiles of an axis are an axis of their own for a tensor with one element per tile.
    """
    y = n.y
    rows: list[tuple[Expr, Expr]] = []
    stride = dict(zip(y.axis, y.strides, strict=True))
    repeat = dict(zip(y.axis, y.repeats, strict=True))
    per_tile = {tiles.id for tiles, step in _cut_steps(kernel, stride) if step == ZERO}
    for a in y.axis:
        axis: Axis = kernel.axes[a]
        if repeat[a] == 1 and stride[a] == ZERO:
            continue
        if axis.type is AxisType.TILE_IN:
            while axis.type is AxisType.TILE_IN:
                axis = kernel.axes[axis.origin[0]]
            rows.append((axis.size, stride[a]))
        elif a in per_tile or axis.type not in (
            AxisType.TILE_OUT,
            AxisType.BLOCK_OUT,
            AxisType.BLOCK_IN,
        ):
            rows.append((axis.size, stride[a]))
    return rows


def _split_is_sound(kernel: Kernel, n: Node) -> Iterator[Finding]:
    """Check that the strides of the split axes follow from the stride of the tile's elements."""
    stride = dict(zip(n.y.axis, n.y.strides, strict=True))
    step = stride.get(kernel.tile_in.id, ZERO)
    for axis, want in (
        (kernel.tile_out.id, step * kernel.t),
        (kernel.block_in.id, step * kernel.t),
        (kernel.block_out.id, step * kernel.t * kernel.b),
    ):
        if axis in stride:
            yield from kernel.same(
                stride[axis], want, f"stride along {kernel.axes[axis].name}", n.name
            )
    for tiles, whole in _cut_steps(kernel, stride):
        if stride.get(tiles.id, ZERO) != whole and whole != ZERO:
            yield Finding(f"the stride along {tiles.name} is not that of its tiles", n.name)
    varies = n.y.vectorized_axis
    if step != ZERO and kernel.tile_in.id not in varies:
        yield Finding(f"{n.name} varies along the tile, which is not vectorised", n.name)


def _cut_steps(kernel: Kernel, stride: Mapping[int, Expr]) -> Iterator[tuple[Axis, Expr]]:
    """Yield the tiles of a constant length with the GM elements from one to the next; 0 for one element per tile."""
    for tiles, inside in kernel.impl.cut_axes():
        # The axis inside may be tiled once more.
        own = kernel.tile_in.id if inside.id == kernel.spec.opened.axis else inside.id
        yield tiles, stride.get(own, ZERO) * inside.size


def stores_cover_their_output(kernel: Kernel) -> Iterator[Finding]:
    """A Store maps the iteration space bijectively onto the elements of its output."""
    for n in kernel.impl.nodes:
        if n.op != "Store":
            continue
        yield from _split_is_sound(kernel, n)
        yield from _is_written_once(kernel, n)
        declared = _declared(kernel, n)
        end = _end(kernel, n)
        if end.attrs.get("pieces"):
            yield from _is_apart(kernel, n)
        elif declared is not None and declared.strides is not None:
            yield from _covers_view(kernel, n, declared)
        else:
            yield from _covers_whole(kernel, n, declared)
        source = kernel.nodes[n.inputs[0]].y
        mine = [(a, s) for a, s in zip(n.y.vectorized_axis, n.y.vectorized_strides, strict=True)]
        made = dict(zip(source.vectorized_axis, source.vectorized_strides, strict=True))
        for a, s in mine:
            if kernel.axes[a].size != 1:
                yield from kernel.same(
                    made.get(a, ZERO), s, f"UB stride of {n.inputs[0]} and its Store", n.name
                )


def _is_written_once(kernel: Kernel, n: Node) -> Iterator[Finding]:
    """Check that a Store varies along every surrounding loop: no two iterations write the same elements."""
    repeat = dict(zip(n.y.axis, n.y.repeats, strict=True))
    loops = [*kernel.blocked, *(kernel.looped if kernel.place_of(n)[1] is not None else ())]
    for axis in loops:
        tiles = axis.id == kernel.tile_out.id
        a, size = (kernel.tile_in.id, kernel.spec.opened.extent) if tiles else (axis.id, axis.size)
        if repeat.get(a, ONE) == 1 and size != 1:
            yield Finding(f"{n.name} is written again for every index of {axis.name}", n.name)


def _covers_whole(kernel: Kernel, n: Node, declared: Tensor | None) -> Iterator[Finding]:
    """Check that a contiguous output is covered: its axes are a mixed radix over all of its elements."""
    yield from kernel.same(n.y.offset, ZERO, "offset of an output", n.name)
    inside = ONE
    left = [row for row in reversed(_whole(kernel, n)) if row[0] != 1]
    while left:
        # The split axes may be in another order than the output's: take the next one by its stride.
        fits = (row for row in left if kernel.prover.equal(row[1], inside))
        size, stride = row = next(fits, left[0])
        left.remove(row)
        yield from kernel.same(
            stride, inside, "stride of an output: the product of the sizes inside", n.name
        )
        inside = inside * size
    if declared is not None:
        elements = product(declared.shape)
        yield from kernel.same(
            inside, elements, "elements of an output, written and declared", n.name
        )


def _is_apart(kernel: Kernel, n: Node) -> Iterator[Finding]:
    """Check that the indices of a piece of an output map to distinct elements."""
    rows = [row for row in _whole(kernel, n) if row[0] != 1]
    # Large ones as well: for small sizes a quotient may be 1, like the stride inside it.
    samples = [
        {s.name: max(s.min, min(s.max, v)) for s in kernel.impl.symbols} for v in (64, 1 << 16)
    ]
    span = ONE
    for size, stride in sorted(rows, key=lambda row: [row[1].evaluate(v) for v in samples]):
        yield from kernel.at_least(stride, span, "stride of a piece without overlaps", n.name)
        span = span + (size - 1) * stride


def _covers_view(kernel: Kernel, n: Node, declared: Tensor) -> Iterator[Finding]:
    """Check that the strided view of an in-place output is covered: by the same dimensions, without overlap."""
    assert declared.strides is not None
    offset = ZERO if declared.offset is None else declared.offset
    yield from kernel.same(n.y.offset, offset, "offset of an in-place output", n.name)
    have = _joined(kernel, [_Dim(size, s, s) for size, s in _whole(kernel, n)])
    view = zip(declared.shape, declared.strides, strict=True)
    want = _joined(kernel, [_Dim(size, s, s) for size, s in view])
    if len(have) != len(want):
        text = ", ".join(f"({d.size}, {d.gm})" for d in have)
        yield Finding(
            f"the store covers {text}, which is not the view it overwrites", n.name, False
        )
        return
    inside = ONE
    for h, w in zip(reversed(have), reversed(want), strict=True):
        yield from kernel.same(h.size, w.size, "size of an in-place output", n.name)
        yield from kernel.same(h.gm, w.gm, "stride of an in-place output", n.name)
        yield from kernel.at_least(h.gm, inside, "stride of a view without overlaps", n.name)
        inside = inside + (h.size - 1) * h.gm


def loads_are_inside_their_tensor(kernel: Kernel) -> Iterator[Finding]:
    """No copy accesses GM outside its tensor."""
    for item, s, block in at_loads(kernel):
        param = _param(kernel, s.gm)
        nodes = [n for n in node_of_copy(kernel, s) if _tensor(kernel, n) == param]
        declared = _declared(kernel, nodes[0]) if nodes else None
        if declared is None:
            continue
        node, size = nodes[0].name, s.dtype.itemsize
        elements = _elements(declared)
        start = item.values[1]
        yield from kernel.at_least(start, ZERO, f"first element of {s.gm}", node, item)
        if isinstance(block, DmaDims):
            end = (start + block.gm_span) * size
        else:
            end = start * size + block.length
            if block.count != 1:
                end = end + (block.count - 1) * (block.length + block.gm_gap)
        yield from kernel.at_least(elements * size, end, f"bytes of {s.gm}", node, item)
    for item, read in _scalar_reads(kernel):
        declared, (start,) = _declared(kernel, kernel.nodes[read.load]), item.values
        if declared is not None:
            what = f"first element of {read.gm}"
            yield from kernel.at_least(start, ZERO, what, read.load, item)
            elements = _elements(declared)
            yield from kernel.at_least(elements, start + 1, what, read.load, item)


def _elements(t: Tensor) -> Expr:
    """Return the number of elements that the memory of a tensor spans, with its offset and gaps."""
    elements = ONE
    if t.strides is None:
        elements = product(t.shape)
    else:
        for d, stride in zip(t.shape, t.strides, strict=True):
            elements = elements + (d - 1) * stride
    return elements + (ZERO if t.offset is None else t.offset)


def in_place_regions_agree(kernel: Kernel) -> Iterator[Finding]:
    """Check that a tile reads exactly what its Store overwrites in place, if this function reads it at all."""
    for out in kernel.impl.nodes:
        index = out.number("inout", -1)
        if out.op != "Output" or index < 0:
            continue
        store = kernel.nodes[out.inputs[0]]
        for n in kernel.impl.nodes:
            source = kernel.nodes[n.inputs[0]] if n.op == "Load" else None
            if source is None or source.op != "Data" or source.number("index") != index:
                continue
            if n.loop_axis is None:
                yield Finding(
                    f"{n.name} is loaded before the loop in which it is overwritten", n.name
                )
                continue
            # Of a run the tile takes its own elements; what lies between them is not used.
            own = {k: v for k, v in n.attrs.items() if k not in ("run", "beyond")}
            taken = replace(n, attrs=own)
            mine, theirs = _of_node(kernel, taken), _of_node(kernel, store)
            yield from kernel.same(
                mine[0], theirs[0], "start of a tile read and overwritten", n.name
            )
            a, b = _joined(kernel, mine[1]), _joined(kernel, theirs[1])
            if [(d.size, d.gm) for d in a] != [(d.size, d.gm) for d in b]:
                yield Finding(
                    f"{n.name} reads another region than {store.name} overwrites", n.name, False
                )
