"""Placement of a node in the loops, and of its result in UB.

Nodes whose data do not change between tiles run once per core, before the loop.  A Broadcast in UB becomes one step per
run of neighbouring axes; a Broadcast over outer axes only is a no-op.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.expression import CeilDiv, Expr, align_up
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import Api, Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.schedule.axes.layout import Layout, Views
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, Padding, Split, split_axes
from autofuse.schedule.legal.ends import is_sink, is_source
from autofuse.schedule.legal.takes import is_of_rows
from autofuse.schedule.placement.broadcast import broadcast_steps
from autofuse.schedule.placement.permutation import is_permuted, permuted_load
from autofuse.schedule.placement.transposition import (
    aligned_bytes,
    by_elements,
    copied_by_elements,
    is_relaid,
    transposed_load,
    transposed_store,
)
from autofuse.targets import Architecture

__all__ = [
    "Placed",
    "alignment",
    "api_of",
    "buffer_bytes",
    "check_blocks",
    "holds_too_much",
    "is_one_input",
    "place",
]

MAX_RESIDENT = 16
STRUCTURAL = ("Data", "Output", "Scalar", "Workspace")


def alignment(g: GroupInput, last: int) -> int:
    """Return the number of elements per block in the narrowest tensor that varies along the axis ``last``.

    A tensor transposed as words on its way from GM counts as narrow as the words.
    """
    sizes = [
        aligned_bytes(n, g)
        for n in g.nodes
        if n.op not in STRUCTURAL and n.y.dtype.kind != "m" and n.y.varies_along(last)
    ]
    return g.target.arch.block_bytes // min(sizes, default=4)


@frozen
class Placed:
    """Nodes on the split axes.  ``hoisted`` run once per core, ``looped`` per tile; both in execution order."""

    split: Split
    layout: Layout
    structural: tuple[Node, ...]
    hoisted: tuple[Node, ...]
    looped: tuple[Node, ...]
    outputs: tuple[Node, ...]

    def nbytes(self, n: Node, granule: bool) -> Expr:
        """Return the UB bytes of the result; ``granule``: calls on it round their length up to whole repeats."""
        return buffer_bytes(self.layout.elements(n.y), n.y.dtype, granule, self.layout.arch)


@lru_cache(maxsize=1024)  # several plans are made, and most tensors share a few lengths
def buffer_bytes(elements: Expr, dtype: DType, granule: bool, arch: Architecture) -> Expr:
    """Return the bytes for ``elements`` of a dtype, in whole blocks or repeats; masks take one bit per element."""
    block = arch.block_bytes
    if dtype.kind == "m":
        return CeilDiv(elements, 8 * block) * block
    return align_up(elements * dtype.itemsize, arch.vector_bytes if granule else block)


def place(g: GroupInput, candidate: Candidate) -> Placed:
    """Split, hoist, resolve broadcasts and lay out one group.

    Tensors loaded or filled before the loop stay in UB to its end; with more than MAX_RESIDENT of them nothing is
    hoisted.

    Raises:
        TemplateRejectedError: a broadcast would have to write rows that do not start at a 32-byte address, or a DMA
            block is not contiguous in GM.
    """
    placed = _place(g, candidate, hoist=True)
    if holds_too_much(placed):
        placed = _place(g, candidate, hoist=False)
    return placed


def holds_too_much(placed: Placed) -> bool:
    """Return True if more than MAX_RESIDENT tensors are loaded or filled before the loop."""
    kept = [
        n
        for n in placed.hoisted
        if (n.op == "Load" and not is_one_input(n, placed.structural))
        or (n.op == "Duplicate" and n.y.vectorized_axis)
    ]
    return len(kept) > MAX_RESIDENT


def is_one_input(n: Node, structural: Iterable[Node]) -> bool:
    """Return True if a node loads one element of an input; ``structural`` includes the nodes that represent GM."""
    single = n.op == "Load" and len(n.inputs) == 1 and not n.y.varies() and not n.y.vectorized_axis
    return single and any(s.op == "Data" and s.name == n.inputs[0] for s in structural)


def _place(g: GroupInput, candidate: Candidate, *, hoist: bool) -> Placed:
    split = split_axes(g, candidate.position)
    layout = Layout(
        split,
        g.target.arch,
        _pitches(g, candidate, split),
        permuting=candidate.lengths.shortest if candidate.permuting else 0,
    )
    views = Views(layout)
    nest = (split.block_out, split.block_in, *split.vector)
    stored = {i for n in g.nodes if n.op == "Store" for i in n.inputs}
    moving = {split.tiled, *split.outer}
    uniform_group = all(not n.y.varies() for n in g.nodes if n.op == "Store")
    fixed: set[str] = set()
    alias: dict[str, str] = {}
    structural: list[Node] = []
    hoisted: list[Node] = []
    looped: list[Node] = []
    outputs: list[Node] = []
    placed: dict[str, Node] = {}
    for n in g.nodes:
        inputs = tuple([alias.get(i, i) for i in n.inputs]) if alias else n.inputs
        if n.op == "Scalar" or is_source(n):
            structural.append(n)
            fixed.add(n.name)
            continue
        if is_sink(n):
            outputs.append(n if inputs is n.inputs else replace(n, inputs=inputs))
            continue
        still = hoist and not uniform_group and n.op != "Store" and n.name not in stored
        still = still and fixed.issuperset(inputs)
        still = still and (n.op not in ("Load", "Iota") or moving.isdisjoint(n.y.varies()))
        node = replace(
            n,
            inputs=inputs,
            y=views.place(n.y),
            axis=nest,
            loop_axis=None if still else split.block_in,
            api=api_of(n.op),
        )
        made = [node]
        if n.op == "Load":
            single = copied_by_elements(n, g.nodes, layout)
            if layout.permuting and not is_of_rows(n):
                made = [permuted_load(node, layout)]
            else:
                made = [by_elements(node, layout)] if single else transposed_load(node, layout)
            check_blocks(made[0], layout)
        elif n.op == "Store":
            made = transposed_store(node, placed[inputs[0]], layout)
            check_blocks(made[-1], layout)
        elif n.op == "Broadcast":
            source = placed[inputs[0]]
            made = broadcast_steps(node, source, layout)
            if not made:
                alias[n.name] = source.name
                if source.name in fixed:
                    fixed.add(n.name)
                continue
        if still:
            fixed.update(m.name for m in made)
        (hoisted if still else looped).extend(made)
        placed.update((m.name, m) for m in made)
    return Placed(split, layout, tuple(structural), tuple(hoisted), tuple(looped), tuple(outputs))


def _pitches(g: GroupInput, candidate: Candidate, split: Split) -> dict[int, Expr]:
    """Return the pitches of padded axes: the innermost axis, or that of every tensor with several."""
    if candidate.padding is Padding.NONE or not split.inner:
        return {}
    axes = {g.order[-1]}
    if candidate.padding is Padding.EVERY_TENSOR:
        inside = (split.tiled, *split.inner)
        for n in g.nodes:
            if n.op not in STRUCTURAL:
                present = [a for a in inside if n.y.varies_along(a)]
                axes |= {present[-1]} if len(present) > 1 else set()
    axes.discard(split.tiled)
    return {a: align_up(split.sizes[a], alignment(g, a)) for a in axes}


def check_blocks(n: Node, layout: Layout) -> None:
    """Raise TemplateRejectedError unless a DMA command can move the tile of a Load or Store.

    A DMA block is contiguous in GM and starts at a 32-byte address in UB.
    """
    y, axes = n.y, n.y.vectorized_axis
    if not axes or is_relaid(n, layout.split.vector) or is_permuted(n):
        return
    gm = dict(zip(y.axis, y.strides, strict=True))
    if axes[-1] == layout.split.vector[-1] or axes[-1] in layout.pitches:
        return  # rows along the last axis are padded, or a multiple of 32 bytes, or one run in GM
    for i, (a, b) in enumerate(pairwise(axes)):
        size, (above, below) = layout.split.sizes[b], y.vectorized_strides[i : i + 2]
        one_run = gm[a] == gm[b] * size and above == below * size
        nbytes = above * y.dtype.itemsize
        if not one_run and not layout.in_blocks(nbytes):
            raise TemplateRejectedError(
                Wording(
                    "rows of {} of {} are not contiguous in GM and do not start at {}-byte addresses in UB",
                    counted(nbytes, "byte"),
                    n,
                    layout.arch.block_bytes,
                )
            )


@lru_cache(maxsize=1024)
def api_of(op: str) -> Api:
    """Return the Api that realises nodes of an op."""
    unit = {"Load": "MTE2", "Store": "MTE3"}.get(op, "Vector")
    return Api("Compute", lookup(op).compute_type, unit)
