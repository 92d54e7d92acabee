"""Transpositions in UB: copies whose innermost axis in the tile is not the contiguous axis in GM.

The tile of such a Load or Store has a separate layout in UB.  If one of its axes is contiguous in GM, the DMA moves
rows along that axis: ``[a, b, k]`` for a tile ``[a, k, b]``, rows at 32-byte addresses.  Otherwise a Load takes the run
that contains the elements if they are close together (``picking``); else every element takes 32 bytes, like rows with a
``k`` of one element.  An ``UbTranspose`` node converts between the two layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import (
    ONE,
    Expr,
    FloorDiv,
    Func,
    Max,
    Min,
    align_up,
    product,
    quotient,
)
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Api, Attr, Condition, Node, TensorView
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import GroupInput, Split
from autofuse.schedule.legal.casts import exact_mode
from autofuse.schedule.legal.takes import is_of_rows
from autofuse.schedule.placement.lacing import apart_view, dense_view, lacing, unlacing
from autofuse.schedule.placement.permutation import is_permuted, stride_limits
from autofuse.schedule.placement.picking import is_run, picked_load, run_step
from autofuse.schedule.placement.taking import rows_load
from autofuse.targets import Architecture

__all__ = [
    "aligned_bytes",
    "by_elements",
    "contiguous_axis",
    "copied_by_elements",
    "copy_limits",
    "is_relaid",
    "rows_within",
    "smaller",
    "transpose_counts",
    "transposed_load",
    "transposed_store",
]

_VECTOR = Api("Compute", "elewise", "Vector")
_HALF, _INT32 = BY_NAME["float16"], BY_NAME["int32"]
#: The op that permutes elements in UB, and its attributes.
_Turning: TypeAlias = "tuple[str, dict[str, Attr]]"
_TRANSPOSED: _Turning = ("UbTranspose", {})


def contiguous_axis(y: TensorView, axes: Iterable[int]) -> int | None:
    """Return the one of ``axes`` along which the elements of a Load or Store are contiguous in GM."""
    strides = dict(zip(y.axis, y.strides, strict=True))
    return next((a for a in axes if strides[a] == 1), None)


def is_relaid(n: Node, vector: Sequence[int]) -> bool:
    """Return True if the UB layout of a Load or Store differs from that of its group's vector calls."""
    y = n.y
    here = tuple([a for a in vector if a in y.vectorized_axis])
    return bool(here) and (y.vectorized_axis != here or y.vectorized_strides[-1] != 1)


def copied_by_elements(n: Node, nodes: Sequence[Node], layout: Layout) -> bool:
    """Return True if a 64-bit tensor, which no call transposes, moves element by element from a Load to its Stores.

    Args:
        n: a Load.
        nodes: nodes of its group.
        layout: layout of tensors in UB.
    """
    if n.op != "Load" or n.y.dtype.bits != 64:
        return False
    users = [m for m in nodes if n.name in m.inputs]
    if any(m.op != "Store" for m in users):
        return False
    placed = replace(n, y=layout.place(n.y))
    picked = run_step(placed, layout) is not None
    views = [m.y for m in (*([] if picked else [n]), *users)]
    present = layout.present(layout.split.view(n.y))
    return bool(present) and any(
        contiguous_axis(layout.split.view(y), present[-1:]) is None for y in views
    )


def _moved_bytes(dtype: DType) -> int:
    """Return the bytes per element when transposed: 64 bits as two words."""
    return min(dtype.itemsize, 4)


def aligned_bytes(n: Node, g: GroupInput) -> int:
    """Return the element bytes that determine row alignment; if transposed for vector calls, the moved bytes."""
    along = n.y.varies()
    turned = n.op == "Load" and contiguous_axis(n.y, along) not in (None, *along[-1:])
    if turned and any(m.op != "Store" for m in g.nodes if n.name in m.inputs):
        return _moved_bytes(n.y.dtype)
    return n.y.dtype.itemsize


def by_elements(n: Node, layout: Layout, unit: int = 0) -> Node:
    """Return a Load or Store whose every element takes a separate block of UB, or the space of ``unit`` elements."""
    unit = unit or layout.arch.block_bytes // n.y.dtype.itemsize
    strides = tuple(s * unit for s in n.y.vectorized_strides)
    return replace(n, y=replace(n.y, vectorized_strides=strides))


def transposed_load(n: Node, layout: Layout) -> list[Node]:
    """Return the Load in a layout that a DMA can write, and the nodes that convert its result to that of ``n``.

    Only ``n`` if it is already contiguous.

    Raises:
        TemplateRejectedError: no call transposes the dtype, or rows would not start at 32-byte addresses.
    """
    if is_of_rows(n):
        return [rows_load(n, layout)]
    step = run_step(n, layout)
    if step is not None:
        return picked_load(n, step, layout.arch)
    apart = apart_view(n, layout)
    if apart is not None:
        view, k = apart
        attrs = {**n.attrs, "run": True, "beyond": k - 1}
        load = replace(n, name=f"{n.name}_run", y=view, axis=_nest(n, view), attrs=attrs)
        turning = unlacing(k, view.vectorized_strides[0].value)
        return [load, *_steps(n, load, n.name, n.y, turning, layout.arch)]
    dense = dense_view(n, layout)
    raw = _raw_view(n, layout) if dense is None else dense[0]
    if raw is None:
        return [n]
    load = replace(n, name=f"{n.name}_rows", y=raw, axis=_nest(n, raw))
    turning = _TRANSPOSED if dense is None else unlacing(dense[1], dense[1])
    return [load, *_steps(n, load, n.name, n.y, turning, layout.arch)]


def transposed_store(n: Node, source: Node, layout: Layout) -> list[Node]:
    """Return the nodes that convert ``source`` to a layout that a DMA can read, and the Store from there.

    Only ``n`` if it is already contiguous.

    Raises:
        TemplateRejectedError: as for a Load.
    """
    if source.op == "Load" and is_relaid(source, layout.split.vector):
        return [by_elements(n, layout)]
    dense = dense_view(n, layout)
    raw = _raw_view(n, layout) if dense is None else dense[0]
    if raw is None:
        return [n]
    turning = _TRANSPOSED if dense is None else lacing(dense[1])
    like = replace(n, y=replace(n.y, dtype=source.y.dtype))
    steps = _steps(like, source, f"{n.name}_rows", raw, turning, layout.arch)
    return [*steps, replace(n, inputs=(steps[-1].name,), y=raw, axis=_nest(n, raw))]


def _nest(n: Node, raw: TensorView) -> tuple[int, ...]:
    """Return the axes around a copy, with those of its tile in UB order."""
    inside = set(raw.vectorized_axis)
    return (*(a for a in n.axis if a not in inside), *raw.vectorized_axis)


def _raw_view(n: Node, layout: Layout) -> TensorView | None:
    """Return the view of a Load or Store with a UB layout that a DMA can move; None if it already has one.

    Raises:
        TemplateRejectedError: it cannot be transposed.
    """
    y, axes = n.y, n.y.vectorized_axis
    k = contiguous_axis(y, reversed(axes))
    if not axes or k == axes[-1]:
        return None
    block = layout.arch.block_bytes
    unit = block // _moved_bytes(y.dtype)
    if k is None:
        return by_elements(n, layout, unit).y
    after = axes[axes.index(k) + 1 :]
    row = product(layout.extent(a) for a in after) * _moved_bytes(y.dtype)
    if not layout.in_blocks(row) and not _is_last(after[-1], layout):
        raise TemplateRejectedError(
            Wording(
                "rows of {} of {} would be transposed to addresses that are not multiples of {}",
                counted(row, "byte"),
                n,
                block,
            )
        )
    order = (*(a for a in axes if a != k), k)
    sizes = [layout.extent(a) for a in order[:-1]] + [align_up(layout.extent(k), unit)]
    strides = tuple(product(sizes[i + 1 :]) for i in range(len(order)))
    return replace(y, vectorized_axis=order, vectorized_strides=strides)


def _is_last(axis: int, layout: Layout) -> bool:
    """Return True if a condition on the length of rows, or their padding, covers this axis."""
    return axis in layout.pitches or axis == layout.split.vector[-1]


def _steps(
    like: Node, source: Node, name: str, y: TensorView, turning: _Turning, arch: Architecture
) -> list[Node]:
    """Return the nodes that bring ``source`` to the view ``y``: bytes as halves, which are exact, 64 bits as words."""
    dtype, (op, turned) = y.dtype, turning

    def step(op: str, name: str, x: Node, view: TensorView, to: DType, **attrs: Attr) -> Node:
        view = replace(view, dtype=to, mem=None, que=None, buf=None)
        nest = _nest(like, view)
        return replace(
            like, name=name, op=op, inputs=(x.name,), y=view, axis=nest, attrs=attrs, api=_VECTOR
        )

    if dtype.bits == 64:
        low, high = (
            step(half, f"{name}_{half.lower()}", source, source.y, _INT32)
            for half in ("Low", "High")
        )
        words = [step(op, f"{w.name}_moved", w, y, _INT32, **turned) for w in (low, high)]
        whole = step("Join", name, low, y, dtype, dtype=dtype.name)
        return [low, high, *words, replace(whole, inputs=tuple(w.name for w in words))]
    if dtype.bits != 8:
        return [step(op, name, source, y, dtype, **turned)]
    wide = step(
        "Cast", f"{name}_half", source, source.y, _HALF, round=exact_mode(arch, dtype, _HALF)
    )
    moved = step(op, f"{name}_moved", wide, y, _HALF, **turned)
    back = exact_mode(arch, _HALF, dtype)
    return [wide, moved, step("Cast", name, moved, y, dtype, round=back)]


def copy_limits(
    g: GroupInput, nodes: Iterable[Node], split: Split
) -> tuple[list[Condition], Expr | None]:
    """Return limits that keep rows of transposed copies within one DMA command: conditions, longest tile or None."""
    most = g.target.arch.dma_block_count_max
    ranges = {s.name: (s.min, s.max) for s in g.symbols}
    conditions: list[Condition] = []
    longest: Expr | None = None
    for n in nodes:
        if is_permuted(n):
            conditions += stride_limits(n, ranges, g.target.arch)
        if n.op not in ("Load", "Store") or is_run(n) or not is_relaid(n, split.vector):
            continue
        y = n.y
        gm = dict(zip(y.axis, y.strides, strict=True))
        inside = zip(y.vectorized_axis, y.vectorized_strides, strict=True)
        if y.vectorized_strides[-1] == 1 and all(gm[a] == s for a, s in inside):
            continue  # one run
        rows = y.vectorized_axis if y.vectorized_strides[-1] != 1 else y.vectorized_axis[:-1]
        count = product(split.sizes[a] for a in rows if a != split.tile_in)
        if split.tile_in in rows:
            longest = smaller(longest, rows_within(most, count))
        elif bounds(count, ranges)[1] > most:
            conditions.append(Condition(count, at_most=most))
    return conditions, longest


def rows_within(most: int, count: Expr) -> Expr:
    """Return how many times ``count`` rows fit into ``most``; a count that may be 0, e.g. s0 - 3, then counts as 1."""
    rounded_down = any(isinstance(a, Func) and a.name in ("FloorDiv", "Mod") for a in count.atoms())
    may_be_nothing = rounded_down or any(c < 0 for _, c in count.terms)
    return FloorDiv(most, Max(count, 1) if may_be_nothing else count)


def smaller(a: Expr | None, b: Expr | None) -> Expr | None:
    """Return the smaller of two limits; None means no limit."""
    if a is None or b is None or a == b:
        return b if a is None else a
    return Min(a, b)


# costs ----------------------------------------------------------------------------------------
def transpose_counts(
    src: TensorView, dst: TensorView, extent: Callable[[int], Expr], arch: Architecture
) -> tuple[Expr, Expr, Expr, Expr, Expr]:
    """Return ``outer, rows, cols, src_pitch, dst_pitch`` of ``autofuse::TransposeRows``, in elements.

    Args:
        src: the operand.
        dst: the result.
        extent: iterations of a vectorised axis in this tile.
        arch: gives the length of a block.
    """
    unit = arch.block_bytes // src.dtype.itemsize
    have, want = src.vectorized_axis, dst.vectorized_axis
    if have == want:
        # One side has single elements in 32 bytes each.
        if src.vectorized_strides[-1] != 1:
            rows = extent(want[0]) * dst.vectorized_strides[0]
            return ONE, rows, ONE, src.vectorized_strides[-1], align_up(rows, unit)
        cols = extent(have[0]) * src.vectorized_strides[0]
        return ONE, ONE, cols, align_up(cols, unit), dst.vectorized_strides[-1]
    same = next(i for i, (a, b) in enumerate(zip(have, want, strict=True)) if a != b)
    turn = have.index(want[same])
    back = want.index(have[same])
    src_pitch, dst_pitch = src.vectorized_strides[turn - 1], dst.vectorized_strides[back - 1]
    if not same:
        rows = quotient(extent(have[0]) * src.vectorized_strides[0], src_pitch)
        cols = quotient(extent(want[0]) * dst.vectorized_strides[0], dst_pitch)
        return ONE, rows, cols, src_pitch, dst_pitch
    rows = quotient(src.vectorized_strides[same - 1], src_pitch)
    cols = quotient(dst.vectorized_strides[same - 1], dst_pitch)
    outer = extent(have[0]) * quotient(src.vectorized_strides[0], src.vectorized_strides[same - 1])
    return outer, rows, cols, src_pitch, dst_pitch
