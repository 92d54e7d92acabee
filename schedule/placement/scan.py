"""Placement of the nodes of a group with running sums.

The axes of the sum are handled like reduced ones: inside the tile, or in a loop of one core.  In the loop a tensor in
UB, the *carry*, holds the sum of all earlier tiles; every call adds it to its results and updates it.  Sums from the
end run the loop backwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse.base.wording import Wording
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up, const, product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Api, Axis, ImplGraph, Node, TensorView
from autofuse.schedule.axes.layout import Layout, Views
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import Candidate, GroupInput, Split, split_axes
from autofuse.schedule.legal.ends import is_sink, is_source
from autofuse.schedule.placement.broadcast import broadcast_runs, broadcast_steps
from autofuse.schedule.placement.placement import (
    STRUCTURAL,
    Placed,
    alignment,
    api_of,
    check_blocks,
)
from autofuse.schedule.placement.transposition import transposed_load, transposed_store

__all__ = [
    "SCAN",
    "SCANNED_TOGETHER",
    "goes_backwards",
    "place_scan",
    "scan_extents",
    "scan_run",
    "scanned_axes",
]

SCAN = "Scan"
#: Minimum rows for ``ScanInner`` to transpose all of them instead of summing one after the other.
SCANNED_TOGETHER = 16
#: Levels: before the loops, in the loop over tiles, in the loop over the axes of the sum.
ONCE, TILE, LOOP = range(3)


def scanned_axes(n: Node) -> tuple[int, ...]:
    """Return the ids of the axes along which a Scan adds up, outermost first."""
    axes = n.attrs["axes"]
    assert isinstance(axes, tuple)
    return axes


def scan_run(n: Node, axes: Mapping[int, Axis] | Sequence[Axis]) -> list[int]:
    """Return the positions, among the vectorised axes of a Scan, of those that it adds up along."""
    gone = set(scanned_axes(n))
    return [
        i
        for i, a in enumerate(n.y.vectorized_axis)
        if a in gone or (axes[a].origin and set(axes[a].origin) <= gone)
    ]


def goes_backwards(impl: ImplGraph) -> bool:
    """Return True if the loop over the axes of the sums starts at their end."""
    return any(
        n.op == SCAN and n.loop_axis == impl.r_axis and n.attrs["reverse"] for n in impl.nodes
    )


def place_scan(g: GroupInput, candidate: Candidate) -> Placed:
    """Split, lay out and order one group with running sums.

    Raises:
        TemplateRejectedError: a DMA block is not contiguous in GM, or the axes of a sum are not adjacent in UB.
    """
    split = split_axes(g, candidate.position, all_load=candidate.all_load)
    return _Placer(g, split, candidate).run()


class _Placer:
    def __init__(self, g: GroupInput, split: Split, candidate: Candidate) -> None:
        self.g, self.split, self.candidate = g, split, candidate
        self.axes = split.axes
        self.nodes = [n for n in g.nodes if not is_source(n) and not is_sink(n)]
        self.by_name = {n.name: n for n in g.nodes}
        self.structural = [n for n in g.nodes if n.op == "Scalar" or is_source(n)]
        self.layout = Layout(split, g.target.arch, self._pitches(), candidate.lengths.longest)
        self.views = Views(self.layout)
        self.made: dict[str, Node] = {}
        self.hoist = any(split.sizes[a] != 1 for a in split.blocked)

    # layout -----------------------------------------------------------------------------------
    def _present(self, n: Node) -> tuple[int, ...]:
        repeat = dict(zip(n.y.axis, n.y.repeats, strict=True))
        tiled = {self.split.tile_in: self.split.tiled}
        return tuple(a for a in self.split.vector if repeat.get(tiled.get(a, a), 1) != 1)

    def _tensors(self) -> Iterator[tuple[int, ...]]:
        """Yield the vectorised axes of all tensors, including intermediate steps of UB broadcasts, and carries."""
        for n in self.nodes:
            axes = self._present(n)
            yield axes
            if n.op == "Broadcast":
                have = set(self._present(self.by_name[n.inputs[0]]))
                for run in broadcast_runs(axes, have):
                    have |= set(run)
                    yield tuple(a for a in axes if a in have)

    def _pitches(self) -> dict[int, Expr]:
        """Return the pitches: the innermost axis of any multi-axis tensor is padded in all tensors."""
        split, out = self.split, dict[int, Expr]()
        for a in {axes[-1] for axes in self._tensors() if len(axes) > 1}:
            tiled = split.tiled if a == split.tile_in else a
            size = split.sizes[a]
            out[a] = size if a == split.tile_in else align_up(size, alignment(self.g, tiled))
        return out

    # making nodes -----------------------------------------------------------------------------
    def run(self) -> Placed:
        split = self.split
        levels = self._levels()
        hoisted: list[Node] = []
        tiles: list[Node] = []
        inside: list[Node] = []
        for n in self.nodes:
            if n.op == "Scalar":
                continue
            level = levels[n.name]
            (hoisted, tiles, inside)[level].extend(self._made(n, level, tiles))
        outputs = [
            replace(n, inputs=tuple(self.made[i].name for i in n.inputs))
            for n in self.g.nodes
            if is_sink(n)
        ]
        return Placed(
            split,
            self.layout,
            tuple(self.structural),
            tuple(hoisted),
            (*tiles, *inside),
            tuple(outputs),
        )

    def _levels(self) -> dict[str, int]:
        blocked, looped = self.split.blocked, self.split.looped
        out: dict[str, int] = {}
        for n in self.g.nodes:
            own = frozenset(n.y.varies())
            level = max((out[i] for i in n.inputs), default=ONCE)
            if n.op not in STRUCTURAL:
                sums = bool(looped) and n.op == SCAN
                level = max(
                    level, LOOP if sums or own & looped else TILE if own & blocked else ONCE
                )
                if not self.hoist or n.op in ("Store", SCAN):
                    level = max(level, TILE)
            out[n.name] = level
        return out

    def _place(self, n: Node, level: int) -> Node:
        split = self.split
        loops = {ONCE: None, TILE: split.block_in, LOOP: split.reduce_loop}
        inner = () if split.reduce_loop is None or level != LOOP else (split.reduce_loop,)
        return replace(
            n,
            y=self.views.place(n.y),
            axis=(split.block_out, split.block_in, *inner, *split.vector),
            loop_axis=loops[level],
            api=api_of(n.op),
        )

    def _source(self, name: str) -> Node:
        return self.made.get(name) or self.by_name[name]

    def _made(self, n: Node, level: int, tiles: list[Node]) -> list[Node]:
        sources = [self._source(i) for i in n.inputs]
        node = self._place(replace(n, inputs=tuple(s.name for s in sources)), level)
        made = [node]
        if n.op == "Load":
            made = transposed_load(node, self.layout)
            check_blocks(made[0], self.layout)
        elif n.op == "Store":
            made = transposed_store(node, sources[0], self.layout)
            check_blocks(made[-1], self.layout)
            made = [*self._to_store(made[-1], sources[0]), *made] if len(made) == 1 else made
            if len(made) == 2 and made[0].op == "UbCopy":
                made[-1] = replace(made[-1], inputs=(made[0].name,))
        elif n.op == "Broadcast":
            made = broadcast_steps(node, sources[0], self.layout)
        elif n.op == SCAN:
            made = [self._scan(node, sources[0], level, tiles)]
        self.made[n.name] = made[-1] if made else sources[0]
        return made

    def _to_store(self, store: Node, source: Node) -> list[Node]:
        """Return a copy of a result that is stored in another loop: a result's queue belongs to one loop."""
        if store.loop_axis == source.loop_axis:
            return []
        y = replace(source.y, mem=None, que=None, buf=None)
        name = f"{store.name}_source"
        api = Api("Compute", "elewise", "Vector")
        return [replace(store, name=name, op="UbCopy", inputs=(source.name,), y=y, api=api)]

    # sums -------------------------------------------------------------------------------------
    def _scan(self, n: Node, source: Node, level: int, tiles: list[Node]) -> Node:
        """Return the call, with a carry if it is in the loop."""
        run = scan_run(n, self.axes)
        axes = n.y.vectorized_axis
        if source.y.vectorized_axis != axes:
            raise TemplateRejectedError(Wording("{} does not vary along all axes of {}", source, n))
        if run and run != list(range(run[0], run[-1] + 1)):
            raise TemplateRejectedError(Wording("the axes of the sum {} are not adjacent", n))
        # Rows that are summed element by element have no separate distance to those of the next sum.
        between = bool(run) and run[0] > 0 and run[-1] + 1 < len(axes)
        apart = run if between else run[1:]
        if any(self.layout.padded(axes[i]) for i in apart):
            raise TemplateRejectedError(
                Wording("there is padding between the elements that {} adds up", n)
            )
        if level != LOOP:
            return self._side_by_side(n, run)
        outside = [i for i in range(len(axes)) if run and i < run[0]]
        if any(self.split.sizes[axes[i]] != 1 for i in outside):
            raise TemplateRejectedError(
                Wording("a tile of {} has several rows, each continued in the next tile", n)
            )
        carry = self._carry(self.by_name[n.name])
        tiles.append(carry)
        return replace(n, inputs=(source.name, carry.name))

    def _side_by_side(self, n: Node, run: Sequence[int]) -> Node:
        """Return ``n``, marked to sum all rows at once even in the last tile if all other tiles have enough rows."""
        axes = n.y.vectorized_axis
        outer, _, _ = scan_extents(n, [self.layout.extent(a) for a in axes], run)
        tile = str(self.split.t)
        least = outer.substitute({tile: const(self.candidate.lengths.shortest)}).as_int()
        inner = bool(run) and run[-1] + 1 == len(axes)
        if not inner or tile not in outer.symbols() or (least or 0) < SCANNED_TOGETHER:
            return n
        return replace(n, attrs={**n.attrs, "together": True})

    def _carry(self, n: Node) -> Node:
        """Return the node that sets the carry before the first tile: zeros."""
        gone = set(scanned_axes(n))
        y = self._without(n.y, gone)
        like = self.split.view(y)
        name = f"{n.name}_nothing"
        ones, zeros = tuple(ONE for _ in like.axis), tuple(ZERO for _ in like.axis)
        zero = 0.0 if n.y.dtype.kind == "f" else 0
        self.structural.append(
            Node(name, "Scalar", (), TensorView(n.y.dtype, like.axis, ones, zeros), {"value": zero})
        )
        init = replace(n, name=f"{n.name}_carry", op="Duplicate", inputs=(name,), attrs={}, y=y)
        return self._place(init, TILE)

    def _without(self, y: TensorView, gone: set[int]) -> TensorView:
        keep = [a not in gone for a in y.axis]
        return replace(
            y,
            repeats=tuple(r if k else ONE for r, k in zip(y.repeats, keep, strict=True)),
            strides=tuple(s if k else ZERO for s, k in zip(y.strides, keep, strict=True)),
        )


def scan_extents(n: Node, sizes: Sequence[Expr], run: Sequence[int]) -> tuple[Expr, Expr, Expr]:
    """Return ``(outer, n, inner)`` of a Scan in UB; ``inner`` is 1 if it adds up along the innermost axis.

    Args:
        n: the Scan.
        sizes: elements reserved along its vectorised axes, with padding.
        run: positions of the axes along which it adds up; empty if a tile has one element of each sum.
    """
    if not run:
        return ONE, ONE, product(sizes)
    first, after = run[0], run[-1] + 1
    return product(sizes[:first]), product(sizes[first:after]), product(sizes[after:])
