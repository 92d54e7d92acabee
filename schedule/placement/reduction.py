"""Placement of the nodes of a group with reductions.

A node whose data change in the reduce loop runs in it; one whose data change with the tiles of the cores runs in the
loop around it; everything else runs once before both.  A reduction over the axes of the reduce loop becomes an
accumulator: set to the neutral value before the loop, updated with the partial result of every iteration.  Users of the
result come after the loop; if they run over the reduced axes again, they do so in a further loop (a *pass*), which
repeats the loads and the computations from them.

A reduction that depends on an earlier one need not wait for the next pass if
``implgraph/division/online_reductions.py`` has a rule for it: then the nodes between the two run in the loop as well,
on the running value of the earlier one (as *running* copies), and the accumulator is corrected whenever that value
moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autofuse.base.wording import Wording
from autofuse.implgraph.division.online_reductions import LOWEST, Centre, Online
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Api, Attr, AxisType, Node, TensorView
from autofuse.implgraph.ops.rows.reductions import JOIN, REDUCES, neutral
from autofuse.schedule.axes.layout import Layout, Views
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import Candidate, Split, split_axes
from autofuse.schedule.legal.casts import cast_mode
from autofuse.schedule.legal.ends import is_sink
from autofuse.schedule.placement.broadcast import broadcast_runs, broadcast_steps
from autofuse.schedule.placement.data_flow import DataFlow
from autofuse.schedule.placement.placement import (
    Placed,
    alignment,
    api_of,
    check_blocks,
    holds_too_much,
)
from autofuse.schedule.placement.reduce_steps import reduce_runs, reduce_steps
from autofuse.schedule.placement.transposition import transposed_load, transposed_store

__all__ = ["place_reduction"]

#: Levels: before the loops, in the loop over tiles, in a reduce loop.
ONCE, TILE, LOOP = range(3)
_VECTOR = Api("Compute", "elewise", "Vector")


def place_reduction(flow: DataFlow, candidate: Candidate) -> Placed:
    """Split, lay out and order one group with reductions.

    Raises:
        TemplateRejectedError: a DMA block is not contiguous in GM, or the reduced elements are empty.
    """
    split = split_axes(
        flow.g,
        candidate.position,
        all_load=candidate.all_load,
        rows=(*candidate.rows, *candidate.short),
    )
    single = all(split.sizes[a] == 1 for a in split.blocked)
    placed = _Placer(flow, split, candidate.short, hoist=not single).run()
    if holds_too_much(placed):
        placed = _Placer(flow, split, candidate.short, hoist=False).run()
    return placed


@dataclass(frozen=True, slots=True)
class _Moving:
    """A centre in the loop in which it moves: its move, and the node that makes rows without a centre NaN."""

    move: str
    lost: Node | None


class _Placer:
    def __init__(
        self, flow: DataFlow, split: Split, short: tuple[int, ...], *, hoist: bool
    ) -> None:
        self.flow, self.split, self.hoist = flow, split, hoist
        self.g = g = flow.g
        self.nodes, self.by_name = flow.nodes, flow.by_name
        self.level: dict[str, int] = {}
        #: Reduction -> number of the pass that accumulates it.
        self.joined: dict[str, int] = {}
        #: Node -> number of passes that must finish before it.
        self.stage: dict[str, int] = {}
        self.made: dict[str, Node] = {}
        self.taken: set[str] = set()
        #: Reductions that follow earlier ones.
        self.follows: dict[str, Online] = {}
        #: The node that accumulates the result of an iteration, by reduction.
        self.joins: dict[str, Node] = {}
        self.moving: dict[Centre, _Moving] = {}
        #: Nodes of the loop over tiles that only running copies need.
        self.idle: set[str] = set()
        #: Nodes that run in each pass.
        self.slices: list[set[str]] = []
        self.structural = [*flow.structural]
        tiled = {split.tile_in: split.tiled}
        #: Number of elements per 32 bytes along the axes of a tile.
        self.aligned = {a: alignment(g, tiled.get(a, a)) for a in split.vector}
        #: Vectorised axes of tensors, by axes and repeats.
        self.present: dict[tuple[object, ...], tuple[int, ...]] = {}
        self.dense = self._dense_axes()
        #: Short axes that are not padded when innermost: all, unless a reduction runs along their rows.
        self.bare = frozenset(short)
        if any(not self._gone(n).isdisjoint(short) for n in self.nodes if n.op in REDUCES):
            self.bare = frozenset()
        self.layout = Layout(split, g.target.arch, self._pitches(), short=short)
        self.views = Views(self.layout)

    # layout -----------------------------------------------------------------------------------
    def _present(self, n: Node) -> tuple[int, ...]:
        key = (n.y.axis, n.y.repeats)
        found = self.present.get(key)
        if found is None:
            split, varies = self.split, n.y.varies()
            tiled = {split.tile_in: split.tiled}
            found = tuple(a for a in split.vector if tiled.get(a, a) in varies)
            self.present[key] = found
        return found

    def _dense_axes(self) -> frozenset[int]:
        """Return the axes without padding even if their rows start at 32-byte addresses."""
        size = self.split.sizes
        inside = [a for a in self.split.vector if a != self.split.tile_in]
        return frozenset(a for a in inside if align_up(size[a], self.aligned[a]) == size[a])

    def _pitches(self) -> dict[int, Expr]:
        """Return the pitches: the innermost axis of any multi-axis tensor is padded in all tensors, unless bare."""
        several = (axes for axes in self._tensors() if len(axes) > 1)
        last = {axes[-1] for axes in several} - self.bare
        return {
            a: self.split.t
            if a == self.split.tile_in
            else align_up(self.split.sizes[a], self.aligned[a])
            for a in self.split.vector
            if a in last
        }

    def _tensors(self) -> Iterator[tuple[int, ...]]:
        """Yield the vectorised axes of all tensors, including intermediate steps of UB reductions and broadcasts."""
        for n in self.nodes:
            axes = self._present(n)
            yield axes
            if n.op in REDUCES:
                have = self._present(self.by_name[n.inputs[0]])
                for run in reduce_runs(have, self._gone(n), self.dense, self.bare):
                    have = tuple(a for a in have if a not in run)
                    yield have
            elif n.op == "Broadcast":
                source = set(self._present(self.by_name[n.inputs[0]]))
                for broad in broadcast_runs(axes, source):
                    source |= set(broad)
                    yield tuple(a for a in axes if a in source)

    def _gone(self, n: Node) -> frozenset[int]:
        """Return the vectorised axes that a reduction reduces."""
        gone = self.flow.gone[n.name]
        tiled = {self.split.tile_in: self.split.tiled}
        return frozenset(a for a in self.split.vector if tiled.get(a, a) in gone)

    # levels and passes ------------------------------------------------------------------------
    def _classify(self) -> None:
        """Determine the level and stage of every node."""
        blocked, looped = self.split.blocked, self.split.looped
        # The last tile of a cut axis is shorter, so tensors with its length depend on the tile.
        cut = {a.id for a in self.g.axes if a.type is AxisType.TILE_IN}
        for n in self.g.nodes:
            move = self.flow.moves[n.name]
            level = LOOP if move & looped else TILE if move & blocked else ONCE
            joins = n.op in REDUCES and not looped.isdisjoint(self.flow.gone[n.name])
            if level == ONCE:
                here = n.op == "Store" or joins or not self.hoist or self.flow.varies[n.name] & cut
                # A reduction of equal numbers does not change between tiles, but is accumulated in the loop over them.
                level = TILE if here or any([self.level[i] for i in n.inputs]) else ONCE
            self.level[n.name] = level
            stage = max([self.stage[i] for i in n.inputs], default=0)
            if joins:
                stage = self._join_pass(n, stage)
                self.joined[n.name] = stage
                stage += 1
            self.stage[n.name] = stage
        self._delay_overwrites()
        self._delay_tiles()

    def _join_pass(self, n: Node, stage: int) -> int:
        """Return the pass that accumulates a reduction: that of its centres, if it can follow them."""
        rule = self.flow.rules().get(n.name)
        if rule is None:
            return stage
        passes = {self.joined.get(c.reduction, stage) for c in rule.centres}
        early = {c.reduction for c in rule.centres}
        beside = {x for name in (*rule.path, n.name) for x in self.by_name[name].inputs}
        ready = max((self.stage[x] for x in beside - rule.path - early), default=0)
        if len(passes) > 1 or max(*passes, ready) >= stage:
            return stage
        self.follows[n.name] = rule
        return passes.pop()

    def _delay_overwrites(self) -> None:
        """Delay a Store that overwrites an input until the last pass that reads it."""
        inputs = {n.number("index"): n.name for n in self.g.nodes if n.op == "Data"}
        over = {
            o.inputs[0]: inputs.get(o.number("inout"))
            for o in self.g.nodes
            if o.op == "Output" and "inout" in o.attrs
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
        """Return the last pass in or before which a node runs."""
        if self.level[n.name] != LOOP:
            return self.stage[n.name]
        return max((p for p in self._passes() if n.name in self._slice(p)), default=0)

    def _passes(self) -> range:
        return range(max(self.stage.values(), default=0) + 1)

    def _sinks(self, number: int) -> list[Node]:
        """Return the nodes for which a pass exists: the reductions it accumulates, and stores."""
        return [
            n
            for n in self.nodes
            if self.joined.get(n.name) == number
            or (n.op == "Store" and self.level[n.name] == LOOP and self.stage[n.name] == number)
        ]

    def _slice(self, number: int) -> set[str]:
        """Return the nodes that run in this pass."""
        out = {n.name for n in self._sinks(number)}
        todo = [i for name in out for i in self.by_name[name].inputs]
        while todo:
            name = todo.pop()
            if self.level[name] == LOOP and name not in out:
                out.add(name)
                todo += self.by_name[name].inputs
        return out

    def _delay_tiles(self) -> None:
        """Delay nodes of the loop over tiles as far as their users allow, since they occupy UB from then on."""
        self.slices = [self._slice(p) for p in self._passes()]
        for n in reversed(self.nodes):
            if self.level[n.name] != TILE or n.op == "Store" or n.name in self.joined:
                continue
            wanted: list[int] = []
            for u in self.flow.users[n.name]:
                if u.name in self.idle:
                    continue
                if self.level[u.name] == TILE and u.name not in self.joined:
                    wanted.append(self.stage[u.name])
                # Earlier passes use a running copy.
                own = self.stage[n.name]
                wanted += [p for p, names in enumerate(self.slices) if u.name in names and p >= own]
            if wanted:
                self.stage[n.name] = max(self.stage[n.name], min(wanted))
            else:
                self.idle.add(n.name)
        for n in reversed(self.nodes):
            users = self.flow.users[n.name]
            if self.level[n.name] == ONCE and users and self.idle.issuperset(u.name for u in users):
                self.idle.add(n.name)

    # making nodes -----------------------------------------------------------------------------
    def run(self) -> Placed:
        self._classify()
        once = [n for n in self.nodes if self.level[n.name] == ONCE and n.name not in self.idle]
        hoisted = self._emit(once, ONCE, 0)
        inside: list[Node] = []
        apart = {*self.joined, *self.idle}
        ready = [n for n in self.nodes if self.level[n.name] == TILE and n.name not in apart]
        for p, names in enumerate(self.slices):
            inside += self._emit([n for n in ready if self.stage[n.name] == p], TILE, p)
            if names:
                inside += self._pass(p)
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

    def _pass(self, number: int) -> list[Node]:
        """Add one reduce loop after the initial values of its accumulators."""
        joined = [n for n in self.nodes if self.joined.get(n.name) == number]
        followers = [n for n in joined if n.name in self.follows]
        rules = [self.follows[n.name] for n in followers]
        centres = {c.value: c for rule in rules for c in rule.centres}
        running = {x for rule in rules for x in rule.path if self.level[x] == TILE}
        names = self.slices[number] | running
        before = [self._initial(n) for n in joined]
        inside: list[Node] = []
        for n in (n for n in self.nodes if n.name in names):
            if n.name in running:
                inside += self._running(n, centres.get(n.name), number)
            else:
                inside += self._emit([n], LOOP, number)
            if n.name in centres:
                hidden = any(r.hides for r in rules if centres[n.name] in r.centres)
                starts, steps = self._follow(centres[n.name], number, hidden=hidden)
                before += starts
                inside += steps
        # After the loop, nodes computed from a centre are recomputed; a maximum is the accumulator.
        for name in running:
            del self.made[name]
        after: list[Node] = []
        for n in joined:
            self.made[n.name] = join = self.joins[n.name]
            if self._is_wide(n):
                after += self._reduced(self._place(n, TILE, number, inputs=(join.name,)), join, n)
                self.made[n.name] = after[-1]
        return [*before, *inside, *after, *(x for n in followers for x in self._finished(n))]

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

    def _place(
        self,
        n: Node,
        level: int,
        number: int,
        *,
        name: str | None = None,
        inputs: tuple[str, ...] | None = None,
    ) -> Node:
        """Return a node on the split axes, optionally with another name and other inputs."""
        split = self.split
        loops = {ONCE: None, TILE: split.block_in, LOOP: split.reduce_loop}
        inner = () if split.reduce_loop is None or level != LOOP else (split.reduce_loop,)
        return replace(
            n,
            name=n.name if name is None else name,
            inputs=n.inputs if inputs is None else inputs,
            y=self.views.place(n.y),
            axis=(split.block_out, split.block_in, *inner, *split.vector),
            loop_axis=loops[level],
            loop_pass=number if level == LOOP else 0,
            api=api_of(n.op),
        )

    def _fresh(self, name: str, number: int) -> str:
        """Return the name of a node in this pass; it keeps its own name in one pass only."""
        fresh = name if name not in self.taken else f"{name}_pass{number}"
        self.taken.add(name)
        return fresh

    def _source(self, name: str) -> Node:
        return self.made.get(name) or self.by_name[name]

    def _plain(self, n: Node, level: int, number: int) -> list[Node]:
        sources = [self._source(i) for i in n.inputs]
        fresh = level == LOOP and n.op != "Store"
        name = self._fresh(n.name, number) if fresh else n.name
        node = self._place(n, level, number, name=name, inputs=tuple(s.name for s in sources))
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
            self._not_empty(n)
            made = self._reduced(node, sources[0], n)
        if n.op == "Store" and len(made) == 1:
            made = [*self._to_store(node, sources[0]), node]
            made[-1] = replace(node, inputs=(made[0].name,)) if len(made) > 1 else node
        self.made[n.name] = made[-1] if made else sources[0]
        return made

    def _reduced(self, node: Node, source: Node, n: Node) -> list[Node]:
        """Return the steps in UB of the reduction ``n``."""
        return reduce_steps(node, source, self.layout, self._gone(n), self.dense, self.bare)

    def _to_store(self, store: Node, source: Node) -> list[Node]:
        """Return a copy of a result that is stored in another loop: a result's queue belongs to one loop."""
        here = store.loop == source.loop
        if here and source.joins is None:
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

    def _not_empty(self, n: Node) -> None:
        for a in self._gone(n):
            if self.split.sizes[a] == 0:
                raise TemplateRejectedError(Wording("nothing is left along axis {} to reduce", a))

    # accumulators -----------------------------------------------------------------------------
    def _initial(self, n: Node) -> Node:
        """Return the nodes of the neutral value, in the buffer of the accumulator."""
        scalar = self._scalar(f"{n.name}_neutral", n.y, neutral(n.op, n.y.dtype))
        y = self.by_name[n.inputs[0]].y if self._is_wide(n) else n.y
        init = replace(n, name=f"{n.name}_acc", op="Duplicate", inputs=(scalar,), y=y, attrs={})
        init = self._place(init, TILE, 0)
        self.made[init.name] = init
        return init

    def _scalar(self, name: str, like: TensorView, value: float | int | dict[str, Attr]) -> str:
        axis = self.views.place(like).axis
        attrs = value if isinstance(value, dict) else {"value": value}
        y = TensorView(like.dtype, axis, (ONE,) * len(axis), (ZERO,) * len(axis))
        self.structural.append(Node(name, "Scalar", (), y, attrs))
        return name

    def _join(self, n: Node, number: int) -> list[Node]:
        """Return the partial result of an iteration, and the call that adds it to the accumulator."""
        source = self._source(n.inputs[0])
        if self._is_wide(n):
            init = self.made[f"{n.name}_acc"]
            like = replace(n, name=f"{n.name}_sums", y=self.by_name[n.inputs[0]].y)
            join = self._place(self._joining(like, init, init, source), LOOP, number)
            self.joins[n.name] = join
            return [join]
        part = self._place(n, LOOP, number, name=f"{n.name}_part", inputs=(source.name,))
        steps = self._reduced(part, source, n)
        init = self.made[f"{n.name}_acc"]
        last = steps[-1] if steps else source
        have = init
        rule = self.follows.get(n.name)
        if rule is not None and rule.scales:
            steps += self._scaled(n, rule, init, number)
            have = steps[-1]
        elif rule is not None:
            steps += self._shifted(n, rule, last, number)
            last = steps[-1]
        join = self._place(self._joining(n, init, have, last), LOOP, number)
        self.made[n.name] = self.joins[n.name] = join
        return [*steps, join]

    def _joining(self, n: Node, init: Node, have: Node, more: Node) -> Node:
        """Return the call that joins two partial results of a reduction in the buffer of ``init``."""
        inputs = (have.name, more.name)
        return replace(n, op=JOIN[n.op], inputs=inputs, attrs={}, joins=init.name)

    def _is_wide(self, n: Node) -> bool:
        """Return True if the accumulator holds a tile, which is reduced after the loop: with few rows in a tile.

        Then an iteration adds all rows in one call.
        """
        tiled, varies = self.split.tiled, self.flow.varies
        return bool(self.g.within) and tiled in varies[n.inputs[0]] and tiled not in varies[n.name]

    # centres that move ------------------------------------------------------------------------
    def _running(self, n: Node, centre: Centre | None, number: int) -> list[Node]:
        """Return a running copy of a node from after the loop, on the reductions' values so far."""
        out: list[Node] = []
        if centre is not None and centre.is_mean:
            # The mean of the elements read so far has a different count.
            fill = self.by_name[centre.count]
            count = self._count(self._new(f"{n.name}_count"), fill.y, "after")
            if fill.op != "Scalar":
                filled = replace(fill, name=self._new(f"{fill.name}_running"), inputs=(count,))
                out.append(self._place(filled, LOOP, number))
                count = filled.name
                self.made[count] = out[-1]
            inputs = tuple(count if x == centre.count else x for x in n.inputs)
            n = replace(n, inputs=inputs)
        name = f"{n.name}_running"
        while name in self.by_name:
            name += "_"
        copy = self._plain(replace(n, name=name), LOOP, number)
        self.made[n.name] = copy[-1] if copy else self._source(n.inputs[0])
        return [*out, *copy]

    def _follow(
        self, centre: Centre, number: int, *, hidden: bool
    ) -> tuple[list[Node], list[Node]]:
        """Return the nodes for a centre's move in this iteration: initial values, and steps that run after it.

        A maximum of -inf cannot be subtracted; the lowest finite number replaces it, giving a sum of 0.  The sum of
        such a row must be NaN, as the centre minus itself is: if the results would not be NaN anyway (``hidden``), that
        difference is added after the loop.
        """
        value = self.by_name[centre.value]
        now = self._source(centre.value)
        y, stem = value.y, centre.value
        steps: list[Node] = []
        starts: list[Node] = []
        lost: Node | None = None
        # The first move multiplies by 0, or has a count of 0: either way the sum starts at 0.
        start = 0.0 if centre.is_mean else float("-inf")
        if not centre.is_mean:
            if hidden:
                starts.append(self._start(value, "lost", 0.0))
                lost = self._step(value, f"{stem}_nan", "Sub", (now, now), number, starts[-1])
                steps.append(lost)
            if not centre.is_number:
                low = self._scalar(self._new(f"{stem}_lowest"), y, LOWEST[y.dtype.name])
                steps.append(self._step(value, f"{stem}_centre", "Maxs", (now, low), number))
                now = steps[-1]
                self.made[centre.value] = now
        before = self._start(value, "before", start)
        starts.append(before)
        steps.append(self._step(value, f"{stem}_move", "Sub", (before, now), number))
        self.moving[centre] = _Moving(steps[-1].name, lost)
        steps.append(self._step(value, f"{stem}_kept", "UbCopy", (now,), number, before))
        return starts, steps

    def _scaled(self, n: Node, rule: Online, init: Node, number: int) -> list[Node]:
        """Return the nodes that scale the accumulator of a sum of powers by the power of the centre's move."""
        out, moves = self._moves(n, rule, number)
        out.append(self._step(n, f"{n.name}_scaled", "Mul", (init, moves[0]), number))
        return out

    def _shifted(self, n: Node, rule: Online, part: Node, number: int) -> list[Node]:
        """Return the nodes of this iteration's addend to a sum of products about centres that moved.

        The part and the product of the moves are added first.  Next to the accumulator of a long row the product is so
        small that it would be rounded away, always in the same direction.
        """
        out, moves = self._moves(n, rule, number)
        # Multiply by the count first: in the first iteration it is 0, while the square of the move might overflow.
        count = self._count(self._new(f"{n.name}_count"), n.y, "before")
        y = replace(n.y, dtype=self.by_name[n.inputs[0]].y.dtype)
        wide = replace(n, y=y)
        out.append(self._step(wide, f"{n.name}_weighted", "Muls", (moves[0], count), number))
        out.append(self._step(wide, f"{n.name}_squared", "Mul", (out[-1], moves[1]), number))
        moved = self._through(n, out[-1], rule.after, out, number)
        out.append(self._step(n, f"{n.name}_shifted", "Add", (part, moved), number))
        return out

    def _moves(self, n: Node, rule: Online, number: int) -> tuple[list[Node], list[Node | str]]:
        """Return the nodes that transform the moves of a sum's centres like its operands, and the resulting moves."""
        out: list[Node] = []
        moves: list[Node | str] = []
        for k, (centre, names) in enumerate(zip(rule.centres, rule.moves, strict=True)):
            same = (centre, names) == (rule.centres[0], rule.moves[0])
            move = self.moving[centre].move
            moves.append(moves[0] if k and same else self._through(n, move, names, out, number))
        return out, moves

    def _through(
        self, n: Node, x: Node | str, names: Iterable[str], out: list[Node], number: int
    ) -> Node | str:
        """Apply copies of the named nodes, in the shape of ``n``, to ``x``; append them to ``out``."""
        for name in names:
            like = self.by_name[name]
            source = replace(like, y=replace(n.y, dtype=like.y.dtype))
            inputs = (x, *like.inputs[1:])
            out.append(self._step(source, f"{name}_move", like.op, inputs, number))
            x = out[-1]
        return x

    def _finished(self, n: Node) -> list[Node]:
        """Return the nodes that finish an accumulator after the loop: NaN for a row without a finite centre."""
        rule = self.follows[n.name]
        lost = self.moving[rule.centres[0]].lost
        if lost is None or not rule.hides:
            return []
        out: list[Node] = []
        have = lost.y.dtype
        if have != n.y.dtype:
            mode = cast_mode(self.layout.arch, have, n.y.dtype)
            assert mode is not None, "a narrower float has a rounding to nearest"
            attrs: dict[str, Attr] = {"round": mode}
            wide = replace(n, name=self._new(f"{lost.name}_wide"), op="Cast", attrs=attrs)
            lost = self._place(replace(wide, inputs=(lost.name,)), TILE, 0)
            out.append(lost)
        made = replace(n, name=self._new(f"{n.name}_sum"), op="Add", attrs={})
        made = self._place(replace(made, inputs=(self.joins[n.name].name, lost.name)), TILE, 0)
        self.made[n.name] = made
        return [*out, made]

    def _start(self, like: Node, what: str, value: float) -> Node:
        """Return the initial value of an accumulator that does not belong to a reduction."""
        name = self._new(f"{like.name}_{what}")
        scalar = self._scalar(self._new(f"{name}_start"), like.y, value)
        init = replace(like, name=name, op="Duplicate", inputs=(scalar,), attrs={})
        return self._place(init, TILE, 0)

    def _step(
        self,
        like: Node,
        name: str,
        op: str,
        inputs: tuple[Node | str, ...],
        number: int,
        into: Node | None = None,
    ) -> Node:
        """Return a call in the loop, in the shape of ``like``; ``into``: the accumulator that it overwrites."""
        operands = tuple(x if isinstance(x, str) else x.name for x in inputs)
        attrs = like.attrs if op == like.op else {}
        joins = None if into is None else into.name
        node = replace(like, name=self._new(name), op=op, inputs=operands, attrs=attrs, joins=joins)
        return self._place(node, LOOP, number)

    def _count(self, name: str, like: TensorView, when: str) -> str:
        """Return a Scalar with the number of elements read before this iteration, or after it."""
        return self._scalar(name, like, {"count": when})

    def _new(self, name: str) -> str:
        """Return an unused name."""
        while name in self.taken or name in self.by_name:
            name += "_"
        self.taken.add(name)
        return name
