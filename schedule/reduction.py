"""Where the nodes of a group with reductions run.

A node whose data change with the reduce loop runs in it, one whose data change with the tiles of the cores in the loop
around it, everything else once before both.  A reduction over the axes of the reduce loop becomes an accumulator: set
to the neutral value before the loop, joined with the partial result of every iteration.  What needs the result comes
behind the loop; if it goes through the reduced axes again, it does so in a further loop (a *pass*), for which loads and
what is computed from them are repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from autofuse.implgraph.dtypes import DType
from autofuse.implgraph.expr import Expr, align_up
from autofuse.implgraph.graph import Api, Node, TensorView
from autofuse.implgraph.ops import lookup
from autofuse.implgraph.reduce_rows import REDUCES, neutral
from autofuse.schedule.broadcast import broadcast_runs, broadcast_steps
from autofuse.schedule.ends import is_sink, is_source
from autofuse.schedule.layout import Layout
from autofuse.schedule.placement import (
    MAX_RESIDENT,
    STRUCTURAL,
    Placed,
    alignment,
    check_blocks,
)
from autofuse.schedule.reduce_steps import reduce_runs, reduce_steps
from autofuse.schedule.rejection import TemplateRejectedError
from autofuse.schedule.tiling_axes import Choice, GroupInput, Split, split_axes
from autofuse.schedule.transposition import transposed_load, transposed_store

__all__ = ["place_reduction"]

#: Levels: before the loops, in the loop over tiles, in a reduce loop.
ONCE, TILE, LOOP = range(3)
#: What joins two partial results.
JOIN = {"ReduceSum": "Add", "ReduceMax": "Maximum", "ReduceMin": "Minimum", "ReduceProd": "Mul"}
_VECTOR = Api("Compute", "elewise", "Vector")


def place_reduction(g: GroupInput, choice: Choice) -> Placed:
    """Split, lay out and order one group with reductions.

    Raises:
        TemplateRejectedError: a DMA block is not contiguous in GM, or what is reduced is empty.
    """
    split = split_axes(g, choice.position, all_load=choice.all_load)
    single = all(split.sizes[a] == 1 for a in split.blocked)
    placed = _Placer(g, split, hoist=not single).run()
    if sum(n.op == "Load" for n in placed.hoisted) > MAX_RESIDENT:
        placed = _Placer(g, split, hoist=False).run()
    return placed


class _Placer:
    def __init__(self, g: GroupInput, split: Split, *, hoist: bool) -> None:
        self.g, self.split, self.hoist = g, split, hoist
        self.nodes = [n for n in g.nodes if not is_source(n) and not is_sink(n)]
        self.by_name = {n.name: n for n in g.nodes}
        self.users: dict[str, list[Node]] = {n.name: [] for n in g.nodes}
        for n in g.nodes:
            for i in dict.fromkeys(n.inputs):
                self.users[i].append(n)
        self.level: dict[str, int] = {}
        #: Number of the pass in which a reduction is joined.
        self.joined: dict[str, int] = {}
        #: Passes that must be over before a node may run.
        self.stage: dict[str, int] = {}
        self.made: dict[str, Node] = {}
        self.taken: set[str] = set()
        self.structural = [n for n in g.nodes if n.op == "Scalar" or is_source(n)]
        self.dense = self._dense_axes()
        self.layout = Layout(split, self._pitches())

    # layout -----------------------------------------------------------------------------------
    def _present(self, n: Node) -> tuple[int, ...]:
        repeat = dict(zip(n.y.axis, n.y.repeats, strict=True))
        split = self.split
        tiled = {split.tile_in: split.tiled}
        return tuple(a for a in split.vector if repeat.get(tiled.get(a, a), 1) != 1)

    def _alignment(self, axis: int) -> int:
        split = self.split
        return alignment(self.g.nodes, split.tiled if axis == split.tile_in else axis)

    def _dense_axes(self) -> frozenset[int]:
        """Axes that have no padding even where their rows start at 32-byte addresses."""
        size = self.split.sizes
        inside = [a for a in self.split.vector if a != self.split.tile_in]
        return frozenset(a for a in inside if align_up(size[a], self._alignment(a)) == size[a])

    def _pitches(self) -> dict[int, Expr]:
        """The innermost axis of every tensor with several of them is padded, in all tensors alike."""
        last = {axes[-1] for axes in self._tensors() if len(axes) > 1}
        return {
            a: self.split.t
            if a == self.split.tile_in
            else align_up(self.split.sizes[a], self._alignment(a))
            for a in self.split.vector
            if a in last
        }

    def _tensors(self) -> Iterator[tuple[int, ...]]:
        """Vectorised axes of all tensors, also of the steps in which UB reduces and broadcasts."""
        for n in self.nodes:
            axes = self._present(n)
            yield axes
            if n.op in REDUCES:
                have = self._present(self.by_name[n.inputs[0]])
                for run in reduce_runs(have, self._gone(), self.dense):
                    have = tuple(a for a in have if a not in run)
                    yield have
            elif n.op == "Broadcast":
                source = set(self._present(self.by_name[n.inputs[0]]))
                for broad in broadcast_runs(axes, source):
                    source |= set(broad)
                    yield tuple(a for a in axes if a in source)

    def _gone(self) -> frozenset[int]:
        """Vectorised axes that are reduced."""
        gone = set(self.g.reduced)
        tile = {self.split.tile_in} if self.split.tile_reduced else set()
        return frozenset(a for a in self.split.vector if a in gone or a in tile)

    # levels and passes ------------------------------------------------------------------------
    def _classify(self) -> None:
        """Level and stage of every node."""
        blocked, looped = self.split.blocked, self.split.looped
        moves: dict[str, frozenset[int]] = {}
        for n in self.g.nodes:
            own = frozenset(n.y.varies()) & (blocked | looped)
            inputs = frozenset[int]().union(*(moves[i] for i in n.inputs))
            if n.op in STRUCTURAL:
                move: frozenset[int] = frozenset()
            elif n.op in ("Load", "Iota"):
                move = own
            elif n.op == "Store":
                move = own | inputs
            elif n.op in REDUCES:
                move = inputs - frozenset(self.g.reduced)
            else:
                move = inputs
            moves[n.name] = move
            level = LOOP if move & looped else TILE if move & blocked else ONCE
            joins = n.op in REDUCES and bool(looped)
            if n.op == "Store" or joins or not self.hoist:
                level = max(level, TILE)
            # A reduction of equal numbers does not change from tile to tile, but is joined in the loop over them.
            level = max([level, *(min(self.level[i], TILE) for i in n.inputs)])
            self.level[n.name] = level
            stage = max((self.stage[i] for i in n.inputs), default=0)
            if joins:
                self.joined[n.name] = stage
                stage += 1
            self.stage[n.name] = stage
        self._delay_overwrites()
        self._delay_tiles()

    def _delay_overwrites(self) -> None:
        """A Store that overwrites an input waits for the last pass that reads it."""
        over = {
            o.inputs[0]: f"Data_{o.attrs['inout']}"
            for o in self.g.nodes
            if o.op == "Output" and int(str(o.attrs.get("inout", -1))) >= 0
        }
        changed = True
        while changed:
            changed = False
            for store, data in over.items():
                for n in self.nodes:
                    if n.op != "Load" or n.inputs[0] != data:
                        continue
                    last = self._last_pass(n)
                    if last > self.stage[store]:
                        self.stage[store] = last
                        changed = True

    def _last_pass(self, n: Node) -> int:
        """The last pass in which a node runs, or before which it does."""
        if self.level[n.name] != LOOP:
            return self.stage[n.name]
        return max((p for p in self._passes() if n.name in self._slice(p)), default=0)

    def _passes(self) -> range:
        return range(max(self.stage.values(), default=0) + 1)

    def _sinks(self, number: int) -> list[Node]:
        """What a pass is for: reductions that it joins, and stores."""
        return [
            n
            for n in self.nodes
            if self.joined.get(n.name) == number
            or (n.op == "Store" and self.level[n.name] == LOOP and self.stage[n.name] == number)
        ]

    def _slice(self, number: int) -> set[str]:
        """Nodes that run in this pass."""
        out = {n.name for n in self._sinks(number)}
        todo = [i for name in out for i in self.by_name[name].inputs]
        while todo:
            name = todo.pop()
            if self.level[name] == LOOP and name not in out:
                out.add(name)
                todo += self.by_name[name].inputs
        return out

    def _delay_tiles(self) -> None:
        """What runs in the loop over tiles runs as late as its users allow: it takes UB from then on."""
        slices = {p: self._slice(p) for p in self._passes()}
        for n in reversed(self.nodes):
            if self.level[n.name] != TILE or n.op == "Store" or n.name in self.joined:
                continue
            wanted: list[int] = []
            for u in self.users[n.name]:
                if self.level[u.name] == TILE and u.name not in self.joined:
                    wanted.append(self.stage[u.name])
                wanted += [p for p, names in slices.items() if u.name in names]
            if wanted:
                self.stage[n.name] = max(self.stage[n.name], min(wanted))

    # making nodes -----------------------------------------------------------------------------
    def run(self) -> Placed:
        self._classify()
        hoisted = self._emit([n for n in self.nodes if self.level[n.name] == ONCE], ONCE, 0)
        inside: list[Node] = []
        for p in self._passes():
            ready = [
                n for n in self.nodes if self.level[n.name] == TILE and n.name not in self.joined
            ]
            inside += self._emit([n for n in ready if self.stage[n.name] == p], TILE, p)
            names = self._slice(p)
            if names:
                for n in self.nodes:
                    if self.joined.get(n.name) == p:
                        inside.append(self._initial(n))
                inside += self._emit([n for n in self.nodes if n.name in names], LOOP, p)
        outputs = [
            replace(n, inputs=tuple(self.made[i].name for i in n.inputs))
            for n in self.g.nodes
            if is_sink(n)
        ]
        return Placed(
            self.split,
            self.layout,
            tuple(self.structural),
            tuple(hoisted),
            tuple(inside),
            tuple(outputs),
        )

    def _emit(self, nodes: Iterable[Node], level: int, number: int) -> list[Node]:
        out: list[Node] = []
        for n in nodes:
            if n.op == "Scalar":
                continue
            if n.name in self.joined:
                out += self._join(n, number)
            else:
                out += self._plain(n, level, number)
        return out

    def _place(self, n: Node, level: int, number: int) -> Node:
        split = self.split
        loops = {ONCE: None, TILE: split.block_in, LOOP: split.reduce_loop}
        inner = () if split.reduce_loop is None or level != LOOP else (split.reduce_loop,)
        row = lookup(n.op)
        unit = {"Load": "MTE2", "Store": "MTE3"}.get(n.op, "Vector")
        return replace(
            n,
            y=self.layout.vectorize(split.view(n.y)),
            axis=(split.block_out, split.block_in, *inner, *split.vector),
            loop_axis=loops[level],
            loop_pass=number if level == LOOP else 0,
            api=Api("Compute", row.compute_type, unit),
        )

    def _fresh(self, name: str, number: int) -> str:
        """The name of a node in this pass; it may stand for itself in one pass only."""
        fresh = name if name not in self.taken else f"{name}_pass{number}"
        self.taken.add(name)
        return fresh

    def _source(self, name: str) -> Node:
        return self.made.get(name) or self.by_name[name]

    def _plain(self, n: Node, level: int, number: int) -> list[Node]:
        sources = [self._source(i) for i in n.inputs]
        node = self._place(replace(n, inputs=tuple(s.name for s in sources)), level, number)
        if level == LOOP and n.op != "Store":
            node = replace(node, name=self._fresh(n.name, number))
        made = [node]
        if n.op == "Load":
            made = transposed_load(node, self.layout)
            check_blocks(made[0], self.layout)
        elif n.op == "Store":
            made = transposed_store(node, sources[0], self.layout)
            check_blocks(made[-1], self.layout)
        elif n.op == "Broadcast":
            made = broadcast_steps(node, sources[0], self.layout)
        elif n.op in REDUCES:
            self._not_empty()
            made = reduce_steps(node, sources[0], self.layout, self._gone(), self.dense)
        if n.op == "Store" and len(made) == 1:
            made = [*self._to_store(node, sources[0]), node]
            made[-1] = replace(node, inputs=(made[0].name,)) if len(made) > 1 else node
        self.made[n.name] = made[-1] if made else sources[0]
        return made

    def _to_store(self, store: Node, source: Node) -> list[Node]:
        """A copy of what is made elsewhere than it is stored: the queue of a result belongs to one loop."""
        here = (store.loop_axis, store.loop_pass) == (source.loop_axis, source.loop_pass)
        if here and not source.attrs.get("joins"):
            return []
        y = replace(source.y, mem=None, que=None, buf=None)
        return [
            replace(
                store,
                name=f"{store.name}_source",
                op="UbCopy",
                inputs=(source.name,),
                y=y,
                api=_VECTOR,
            )
        ]

    def _not_empty(self) -> None:
        for a in self._gone():
            if self.split.sizes[a] == 0:
                raise TemplateRejectedError(f"nothing is left along axis {a} to reduce")

    # accumulators -----------------------------------------------------------------------------
    def _initial(self, n: Node) -> Node:
        """The neutral value, in the buffer of the accumulator."""
        scalar = self._scalar(f"{n.name}_neutral", n.y, neutral(n.op, n.y.dtype))
        init = replace(n, name=f"{n.name}_acc", op="Duplicate", inputs=(scalar,), attrs={})
        init = self._place(init, TILE, 0)
        self.made[init.name] = init
        return init

    def _scalar(self, name: str, like: TensorView, value: float | int) -> str:
        one: DType = like.dtype
        view = self.split.view(like)
        ones = tuple(Expr.of(1) for _ in view.axis)
        zeros = tuple(Expr.of(0) for _ in view.axis)
        self.structural.append(
            Node(name, "Scalar", (), TensorView(one, view.axis, ones, zeros), {"value": value})
        )
        return name

    def _join(self, n: Node, number: int) -> list[Node]:
        """The partial result of an iteration, and the call that joins it with the accumulator."""
        source = self._source(n.inputs[0])
        part = self._place(replace(n, name=f"{n.name}_part", inputs=(source.name,)), LOOP, number)
        steps = reduce_steps(part, source, self.layout, self._gone(), self.dense)
        init = self.made[f"{n.name}_acc"]
        last = steps[-1] if steps else source
        join = replace(n, op=JOIN[n.op], inputs=(init.name, last.name), attrs={"joins": True})
        join = self._place(join, LOOP, number)
        self.made[n.name] = join
        return [*steps, join]
