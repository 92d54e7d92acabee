"""Where a node runs, and how its result lies in UB.

Nodes whose data do not change between tiles run once per core, before the loop.  A Broadcast in UB becomes one step per
run of neighbouring axes; one over outer axes only is no operation at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autofuse.implgraph.dtypes import DType
from autofuse.implgraph.expr import ONE, ZERO, CeilDiv, Expr, align_up, const, product
from autofuse.implgraph.graph import Api, Node, TensorView
from autofuse.implgraph.ops import lookup
from autofuse.schedule.tiling_axes import Choice, GroupInput, Split, split_axes

__all__ = ["Layout", "Placed", "TemplateRejectedError", "alignment", "place"]

BLOCK = 32
GRANULE = 256
MAX_RESIDENT = 16
STRUCTURAL = ("Data", "Output", "Scalar")


class TemplateRejectedError(Exception):
    """A template cannot realise the group; the text says why, with the numbers."""


def alignment(nodes: Sequence[Node], last: int) -> int:
    """Elements that make 32 bytes in the narrowest tensor that varies along the axis ``last``."""
    sizes = [
        n.y.dtype.itemsize
        for n in nodes
        if n.op not in STRUCTURAL and n.y.dtype.kind != "m" and last in n.y.varies()
    ]
    return BLOCK // min(sizes, default=4)


@dataclass(frozen=True, slots=True)
class Layout:
    """Extents of the vectorised axes in UB; ``pitch`` is that of the innermost one, a padded row."""

    split: Split
    pitch: Expr

    def extent(self, axis: int) -> Expr:
        """Elements reserved along the axis."""
        if axis == self.split.vector[-1] and len(self.split.vector) > 1:
            return self.pitch
        return self.split.sizes[axis]

    def present(self, y: TensorView) -> tuple[int, ...]:
        """Vectorised axes along which the tensor varies."""
        repeat = dict(zip(y.axis, y.repeats, strict=True))
        return tuple(a for a in self.split.vector if repeat[a] != 1)

    def vectorize(self, y: TensorView) -> TensorView:
        """``y`` with its vectorised axes and their UB strides: dense, innermost axis at the pitch."""
        axes = self.present(y)
        strides = [product(self.extent(b) for b in axes[i + 1 :]) for i in range(len(axes))]
        return replace(y, vectorized_axis=axes, vectorized_strides=tuple(strides))

    def elements(self, y: TensorView) -> Expr:
        """Elements that the tensor takes in UB for a whole tile."""
        return product(self.extent(a) for a in y.vectorized_axis)


@dataclass(frozen=True, slots=True)
class Placed:
    """Nodes on the split axes.  ``hoisted`` run once per core, ``looped`` per tile; both in execution order."""

    split: Split
    layout: Layout
    structural: tuple[Node, ...]
    hoisted: tuple[Node, ...]
    looped: tuple[Node, ...]
    outputs: tuple[Node, ...]

    def nbytes(self, n: Node, granule: bool) -> Expr:
        """Bytes of UB for the result; ``granule``: calls on it round their length up to 256 bytes."""
        return buffer_bytes(self.layout.elements(n.y), n.y.dtype, granule)


def buffer_bytes(elements: Expr, dtype: DType, granule: bool) -> Expr:
    """Bytes for ``elements`` of a dtype, a multiple of 32; masks take one bit per element."""
    if dtype.kind == "m":
        return CeilDiv(elements, 8 * BLOCK) * BLOCK
    return align_up(elements * dtype.itemsize, GRANULE if granule else BLOCK)


def place(g: GroupInput, choice: Choice) -> Placed:
    """Split, hoist, resolve broadcasts and lay out one group.

    Data that are loaded before the loop stay in UB to its end; with more than MAX_RESIDENT such loads nothing is
    hoisted.

    Raises:
        TemplateRejectedError: a broadcast would have to write rows that do not start at a 32-byte address.
    """
    placed = _place(g, choice, hoist=True)
    if sum(n.op == "Load" for n in placed.hoisted) > MAX_RESIDENT:
        placed = _place(g, choice, hoist=False)
    return placed


def _place(g: GroupInput, choice: Choice, *, hoist: bool) -> Placed:
    split = split_axes(g, choice.position)
    last = g.order[-1]
    pitch = split.sizes[split.vector[-1]]
    if choice.padded and split.inner:
        pitch = align_up(pitch, alignment(g.nodes, last))
    layout = Layout(split, pitch)
    stored = {i for n in g.nodes if n.op == "Store" for i in n.inputs}
    moving = {split.tiled, *split.outer}
    uniform_group = all(not n.y.varies() for n in g.nodes if n.op == "Store")
    fixed: set[str] = set()
    alias: dict[str, str] = {}
    structural: list[Node] = []
    hoisted: list[Node] = []
    looped: list[Node] = []
    outputs: list[Node] = []
    for n in g.nodes:
        inputs = tuple(alias.get(i, i) for i in n.inputs)
        if n.op in ("Data", "Scalar"):
            structural.append(n)
            fixed.add(n.name)
            continue
        if n.op == "Output":
            outputs.append(replace(n, inputs=inputs))
            continue
        varies = set(n.y.varies()) & moving
        still = hoist and not uniform_group and n.op != "Store" and n.name not in stored
        still = still and (not varies if n.op == "Load" else all(i in fixed for i in inputs))
        node = replace(
            n,
            inputs=inputs,
            y=layout.vectorize(split.view(n.y)),
            axis=(split.block_out, split.block_in, *split.vector),
            loop_axis=None if still else split.block_in,
            api=_api(n),
        )
        made = [node]
        if n.op == "Broadcast":
            source = next(m for m in (*hoisted, *looped) if m.name == inputs[0])
            made = _broadcast_steps(node, source, layout)
            if not made:
                alias[n.name] = source.name
                if source.name in fixed:
                    fixed.add(n.name)
                continue
        if still:
            fixed.update(m.name for m in made)
        (hoisted if still else looped).extend(made)
    hoisted, looped = _sink_fills(hoisted, looped, layout, split)
    return Placed(split, layout, tuple(structural), tuple(hoisted), tuple(looped), tuple(outputs))


def _api(n: Node) -> Api:
    unit = {"Load": "MTE2", "Store": "MTE3"}.get(n.op, "Vector")
    return Api("Compute", lookup(n.op).compute_type, unit)


def _sink_fills(
    hoisted: list[Node], looped: list[Node], layout: Layout, split: Split
) -> tuple[list[Node], list[Node]]:
    """Fills of constants stay before the loop while they are few; more than three would starve the tiles of UB."""
    fills = [n for n in hoisted if n.op == "Duplicate" and split.tile_in in n.y.vectorized_axis]
    if len(fills) <= 3:
        return hoisted, looped
    users: dict[str, list[str]] = {}
    for n in (*hoisted, *looped):
        for i in n.inputs:
            users.setdefault(i, []).append(n.name)
    in_loop = {n.name for n in looped}
    moved = {n.name: n for n in fills if all(u in in_loop for u in users.get(n.name, []))}
    out: list[Node] = []
    for n in looped:
        here = [i for i in dict.fromkeys(n.inputs) if i in moved]
        out.extend(replace(moved.pop(i), loop_axis=split.block_in) for i in here)
        out.append(n)
    gone = {n.name for n in out}
    return [n for n in hoisted if n.name not in gone], out


def _broadcast_steps(node: Node, source: Node, layout: Layout) -> list[Node]:
    """One node per run of new axes, innermost run first; none if UB already holds the result."""
    have = set(source.y.vectorized_axis)
    want = node.y.vectorized_axis
    runs: list[list[int]] = []
    for i, a in enumerate(want):
        if a in have:
            continue
        if runs and want[i - 1] == runs[-1][-1]:
            runs[-1].append(a)
        else:
            runs.append([a])
    steps: list[Node] = []
    name = source.name
    for k, run in enumerate(reversed(runs)):
        have |= set(run)
        last_step = k == len(runs) - 1
        # Repeats of a partial step: those of the target along the axes reached so far.
        keep = tuple(
            (r, s) if a not in layout.split.vector or a in have else (ONE, ZERO)
            for a, r, s in zip(node.y.axis, node.y.repeats, node.y.strides, strict=True)
        )
        y = replace(node.y, repeats=tuple(r for r, _ in keep), strides=tuple(s for _, s in keep))
        y = layout.vectorize(y)
        _check_rows(node, y, run, layout)
        made = replace(
            node, name=node.name if last_step else f"{node.name}_step{k}", inputs=(name,), y=y
        )
        steps.append(made)
        name = made.name
    return steps


def _check_rows(node: Node, y: TensorView, run: Sequence[int], layout: Layout) -> None:
    """Rows that a step writes must start at 32-byte addresses."""
    axes = y.vectorized_axis
    first, after = axes.index(run[0]), axes.index(run[-1]) + 1
    outer = product(layout.extent(a) for a in axes[:first])
    inner = product(layout.extent(a) for a in axes[after:])
    mid = product(layout.extent(a) for a in run)
    row = (inner if inner != 1 else mid) * y.dtype.itemsize
    if inner == 1 and outer == 1:
        return
    padded_last = layout.pitch != layout.split.sizes[layout.split.vector[-1]]
    if axes[-1] == layout.split.vector[-1] and (padded_last or _aligned(row)):
        return
    if axes[-1] == layout.split.vector[-1] and len(layout.split.vector) > 1:
        return  # the condition on the row length of the unpadded variant covers it
    if not _aligned(row):
        raise TemplateRejectedError(
            f"broadcast {node.name} would write rows of {row} bytes, which do not start at 32-byte addresses"
        )


def _aligned(nbytes: Expr) -> bool:
    return CeilDiv(nbytes, const(BLOCK)) * BLOCK == nbytes
