"""Meaning of one kernel in a few variables, and the facts about them, shared by its checks.

With E the length of the tiled axis, t that of a tile, and O the iterations of the loops outside, a template means::

    core  c in [0, cores)      tiles per core  b,  cores*b >= T       tiles  T = CeilDiv(E, t) * O
    loop  i in [0, Min(b, T - c*b))        tile number  k = c*b + i
    k in mixed radix over (outer axes ..., CeilDiv(E, t))  ->  indices of the outer axes, tile index j
    elements of the tile: [j*t, j*t + a)   with  a = Min(t, E - j*t)

With a reduce loop (axes S, and the tiled one if that is reduced, when T = O) every k is done in *passes*, each a loop::

    step  q in [0, Q)   in mixed radix over (S ..., CeilDiv(E, t) if the tiled axis is reduced)  ->  indices, as above

In a *staggered* pass core c does the steps in another order: its r-th turn is step q = Mod(r + c, Q), which is a
bijection onto [0, Q), as r + c are Q consecutive integers.

``(c, i) -> k`` is a bijection onto [0, T), as every k lies in exactly one of the blocks [c*b, c*b + b), and no k beyond
T runs; ``k -> indices`` is one, as mixed-radix digits are; the tiles of one row of the axis are adjacent, nonempty, and
end at E.  So every element of the iteration space belongs to one element of one tile of one core.
It remains to check that the statements say this and nothing else: a definition of the kernel that means one of the
variables above is replaced by it (``%k``, ``%j``, ``%a``, ``%<axis>``), and every other expression is compared or
bounded in terms of these variables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from autofuse.codegen.ir.calls import Role, VectorFunction
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    BlockIndex,
    BufDecl,
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaDims,
    DmaLet,
    For,
    GetBuf,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    Loop,
    QueueDecl,
    ReturnIfEmpty,
    ScalarRead,
    Stmt,
    TilingField,
)
from autofuse.codegen.proofs.facts import A, J, K, Q, R, assumed, factors, facts
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.prover import Fact, Prover
from autofuse.codegen.proofs.samples import legal_tiles, small_sizes
from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Min,
    Mod,
    divide_exact,
    sym,
)
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Axis, AxisType, BufferKind, ImplGraph, Node
from autofuse.implgraph.ops.requirements import requirements
from autofuse.schedule.placement.copied import DmaDim
from autofuse.schedule.placement.scan import goes_backwards
from autofuse.targets import TargetSpec

__all__ = [
    "Finding",
    "Kernel",
    "at_loads",
    "legal_tiles",
    "node_of_copy",
    "small_sizes",
]


@dataclass
class Kernel:
    """One function with its template."""

    fn: KernelFn
    impl: ImplGraph
    graph: FusionGraph | None
    target: TargetSpec
    items: list[Item] = field(default_factory=list)
    nbytes: dict[str, Expr] = field(default_factory=dict)
    problems: list[Finding] = field(default_factory=list)
    loops: int = 0
    passes: int = 0

    def __post_init__(self) -> None:
        spec = self.impl.tiling
        self.spec, self.arch = spec, self.target.arch
        #: Conditions on the sizes that the host has checked.
        self.needed = () if self.graph is None else requirements(self.graph)
        self.nodes = self.impl.by_name()
        #: Accumulators, by name; each shares the tensor of its initial value.
        self.joins = {n.name: n for n in self.impl.nodes if n.joins is not None}
        #: Tensor in UB -> the node whose result, or scratch space, it holds.
        self.locals: dict[str, Node] = {}
        self.scratch: dict[str, Node] = {}
        #: Node -> its result tensor; scalar -> the tensor it is read from.
        self._results: dict[str, str] = {}
        self.scalars: dict[str, str] = {}
        #: Tensor -> the holder of its bytes, if that is another one.
        self._places: dict[str, str] = {}
        #: Tensor in UB -> its queue or TBuf; the plan's buffers by kind and id.
        self._buffers: dict[str, str] = {}
        self.planned: dict[tuple[str, int | None], str] = {}
        self._declare(self.fn.body)
        self.t, self.b = sym(spec.opened.symbol), sym(spec.block_size)
        self.axes = {a.id: a for a in self.impl.axes}
        self.tile_in = self.impl.tile(AxisType.TILE_IN)
        self.tile_out = self.impl.tile(AxisType.TILE_OUT)
        #: Axes in constant-length tiles with a shorter last one: inner axis -> its tiles.
        self.cut = {
            inside.id: tiles
            for tiles, inside in self.impl.cut_axes()
            if divide_exact(self.axes[inside.origin[0]].size, inside.size) is None
        }
        self.block_out = self._axis(AxisType.BLOCK_OUT)
        self.block_in = self._axis(AxisType.BLOCK_IN)
        loop = self.axes[self.block_out.origin[0]]
        parts = self._parts(loop)
        self.blocked = parts
        self.outer = [a for a in parts if a.id != self.tile_out.id]
        self.reduce_loop = None if self.impl.r_axis is None else self.axes[self.impl.r_axis]
        self.backwards = self.reduce_loop is not None and goes_backwards(self.impl)
        #: The number of a step of the reduce loop, counted from the start of its axes.
        self.place = "%p" if self.backwards else Q
        self.looped = self._parts(self.reduce_loop)
        self.outer += [a for a in self.looped if a.id != self.tile_out.id]
        self.per_axis = CeilDiv(spec.opened.extent, self.t)
        self.tiles = spec.tiles
        #: No core has a tile for any symbols: nothing is moved, and every obligation holds.
        self.empty = (
            ONE if spec.reduce_tiles else spec.opened.extent
        ) * spec.outer * spec.row_elements == 0
        self.core = sym("%c")
        self.step = sym("%i")
        self.row_guard = self.loop_guard = False
        #: Index of every axis outside the vector call.
        self.index: dict[int, Expr] = {}
        self._define()
        self._env: dict[str, Expr] = {}
        self._blocks: dict[str, DmaBlock] = {}
        self._cache: dict[Expr, Expr] = {}
        self._samples: list[dict[str, int]] | None = None
        self._proved: set[tuple[Expr, Expr]] = set()
        self._guards()
        self._provers: dict[frozenset[str], Prover] = {}
        self._few: tuple[dict[str, int], ...] | None = None
        #: Indices from index tensors, by name in the text: the variable, and the extent of the dimension.
        self.read: dict[str, tuple[str, Expr]] = {}
        #: These variables, by the Load that uses them.
        self.places: dict[str, Expr] = {}
        self.prover = Prover(
            facts(self),
            {c.value: c.multiple_of for c in spec.conditions if c.multiple_of != 1},
            assumed(self),
            self._examples,
        )
        self._resolve(self.fn.body, Item(self.fn.body[0], False))

    def _parts(self, loop: Axis | None) -> list[Axis]:
        """Return the axes that a loop axis was merged from, or the axis itself."""
        if loop is None:
            return []
        return [self.axes[i] for i in loop.origin] if loop.type is AxisType.MERGED else [loop]

    def _axis(self, kind: AxisType) -> Axis:
        return next(a for a in self.impl.axes if a.type is kind)

    def _declare(self, body: Iterable[Stmt]) -> None:
        """Record the node of every tensor in UB, and the buffers of the plan."""
        for s in body:
            if isinstance(s, For):
                self._declare(s.body)
            elif isinstance(s, QueueDecl | BufDecl):
                kind = BufferKind.QUEUE if isinstance(s, QueueDecl) else BufferKind.BUF
                self.planned[kind, s.id] = s.name
            elif isinstance(s, ScalarRead):
                self.scalars[s.name] = s.local
                if s.gm:
                    # The tensor of a Load, which may not exist in UB.
                    self._results.setdefault(s.load, s.local)
            elif isinstance(s, GetBuf | Alloc | Alias):
                self._declare_tensor(s)

    def _declare_tensor(self, s: GetBuf | Alloc | Alias) -> None:
        if isinstance(s, Alias):
            self._buffers[s.local] = self._buffers.get(s.of, "")
            self._places[s.local] = self._places.get(s.of, s.of)
        else:
            if isinstance(s, GetBuf):
                self._places[s.local] = s.buf
            self._buffers[s.local] = s.buf if isinstance(s, GetBuf) else s.queue
        n = self.nodes.get(s.node)
        scratch = isinstance(s, GetBuf) and s.role is Role.SCRATCH
        table = self.scratch if scratch else self.locals
        # An accumulator shares the tensor of its initial value.
        known = scratch or (
            s.node not in self.joins and self._results.setdefault(s.node, s.local) == s.local
        )
        if n is None or not known or table.setdefault(s.local, n) is not n:
            self.problems.append(
                Finding(f"{s.local} is declared for {s.node or 'no node'}", s.node)
            )

    # meaning ----------------------------------------------------------------------------------
    def _define(self) -> None:
        """Define the expressions that mean a variable: expression in earlier variables -> variable."""
        k = sym(K)
        first = self.core * self.b
        self.loop_size = Min(self.b, self.tiles - first)
        self.meaning: dict[Expr, Expr] = {first + self.step: k}
        self._digits(k, self.blocked)
        if self.backwards:
            self.meaning[self.spec.reduce_steps - 1 - sym(Q)] = sym(self.place)
        if self.spec.staggered:
            self.meaning[Mod(sym(R) + self.core, self.steps_here)] = sym(Q)
        self._digits(sym(self.place), self.looped)
        self.tile_index = self.index[self.tile_out.id]
        for a, tiles in self.cut.items():
            self.meaning[Min(self.axes[a].size, self.rest(a, tiles))] = self.extent(a)
        self.meaning[Min(self.t, self.tiled - self.tile_index * self.t)] = sym(A)

    @property
    def steps_here(self) -> Expr:
        """Return the steps of this tile's reduce loop; the last tile of a constant-length tiling may be shorter."""
        if len(self.looped) == 1 and self.looped[0].id in self.cut:
            return self.extent(self.looped[0].id)
        if self.spec.opened.axis in self.cut and [a.id for a in self.looped] == [self.tile_out.id]:
            return CeilDiv(self.tiled, self.t)
        return self.spec.reduce_steps

    @property
    def tiled(self) -> Expr:
        """Return the elements of the tiled axis; in the last tile of a constant length, those that are left."""
        opened = self.spec.opened
        return self.extent(opened.axis) if opened.axis in self.cut else opened.extent

    def rest(self, inside: int, tiles: Axis) -> Expr:
        """Return the elements of a divided axis from the first one of a tile on."""
        whole = self.axes[tiles.origin[0]].size
        return whole - self.index[tiles.id] * self.axes[inside].size

    def _digits(self, number: Expr, parts: list[Axis]) -> None:
        """Define the indices of the axes that one loop runs over."""
        rest = number
        for place, axis in enumerate(reversed(parts)):
            last = place == len(parts) - 1
            digit = rest if last else Mod(rest, axis.size)
            name = sym(J if axis.id == self.tile_out.id else f"%{axis.name}")
            if len(parts) == 1 or digit.is_const:
                self.index[axis.id] = digit
            else:
                self.index[axis.id] = self.meaning.setdefault(digit, name)
            if not last:
                rest = FloorDiv(rest, axis.size)

    def _guards(self) -> None:
        """Record the early returns before the loop."""
        for s in self.fn.body:
            if isinstance(s, For):
                break
            if isinstance(s, Let):
                self._bind(s.name, self.value(s.value))
            elif isinstance(s, TilingField):
                self._bind(s.name, sym(s.name))
            elif isinstance(s, BlockIndex):
                self._env[s.name] = self.core
            elif isinstance(s, ReturnIfEmpty):
                value = self.value(sym(s.value))
                self.loop_guard |= value == self.loop_size
                self.row_guard |= value == self.spec.row_elements

    def value(self, e: Expr) -> Expr:
        """Return ``e`` in terms of the variables."""
        if e.is_const:
            return e
        found = self._cache.get(e)
        if found is None:
            found = e.substitute(self._env)
            found = self.meaning.get(found, found)
            self._cache[e] = found
        return found

    def _bind(self, name: str, meant: Expr) -> Expr:
        if self._env.get(name, meant) != meant:  # A variable of an earlier loop.
            self._cache = {e: v for e, v in self._cache.items() if name not in e.symbols()}
        self._env[name] = meant
        return meant

    def _resolve(self, body: Iterable[Stmt], at: Item) -> None:
        """Resolve the statements of a block; ``at`` holds the loops around it."""
        blocks, inside = self._blocks, at.inside
        for s in body:
            if isinstance(s, For):
                self._loop(s, at)
                continue
            values: tuple[Expr, ...] = ()
            block: DmaBlock | DmaDims | None = None
            if isinstance(s, Let):
                values = (self._bind(s.name, self.value(s.value)),)
            elif isinstance(s, TilingField):
                values = (self._bind(s.name, sym(s.name)),)
            elif isinstance(s, BlockIndex):
                self._env[s.name] = self.core
            elif isinstance(s, InitBuffer):
                self.nbytes[s.name] = self.value(s.nbytes)
                values = (self.nbytes[s.name],)
            elif isinstance(s, ScalarRead):
                values = (self.value(s.offset),)
            elif isinstance(s, IndexRead):
                values = (self.value(s.offset), self.value(s.extent))
                self._place_read(s, values[1], len(at.rows))
            elif isinstance(s, DmaLet):
                blocks[s.name] = s.block
            elif isinstance(s, CopyIn | CopyOut):
                if s.block_name and s.block_name not in blocks:
                    text = f"the descriptor {s.block_name} is not defined yet"
                    self.problems.append(Finding(text, self.node_of(s.local)))
                stated = blocks.get(s.block_name, s.block) if s.block_name else s.block
                if stated != s.block:
                    self.problems.append(
                        Finding(
                            f"the copy states another block than {s.block_name}",
                            self.node_of(s.local),
                        )
                    )
                values = (self.value(s.local_offset), self.value(s.gm_offset))
                block = self._block(stated)
            self.items.append(Item(s, inside, at.rows, values, block, at.number))
            if isinstance(s, VectorFunction):
                of = Item(s, inside, at.rows, (), None, at.number, s)
                self.items += [replace(of, stmt=call) for call in s.calls]

    def _block(self, stated: DmaBlock | DmaDims) -> DmaBlock | DmaDims:
        """Return a descriptor with resolved fields."""
        if isinstance(stated, DmaDims):
            dims = [DmaDim(*map(self.value, (d.size, d.gm, d.ub))) for d in stated.dims]
            return DmaDims(tuple(dims))
        return DmaBlock(*map(self.value, stated.exprs()))

    def _loop(self, s: For, at: Item) -> None:
        extent, rows = self.value(s.extent), at.rows
        if not at.inside and s.over is Loop.TILES:
            self.loops += 1
            self._env[s.var] = self.step
            if extent != self.loop_size:
                text = f"the loop runs {s.extent} times, which is not {self.loop_size}"
                self.problems.append(Finding(text))
            self._resolve(s.body, replace(at, inside=True))
            return
        staggered = self.passes in self.spec.staggered
        if at.inside and at.number is None and not rows and s.over is Loop.STEPS:
            self._env[s.var] = sym(R if staggered else Q)
            self._cache = {e: v for e, v in self._cache.items() if s.var not in e.symbols()}
            if extent != self.steps_here:
                text = f"a reduce loop runs {s.extent} times, which is not {self.steps_here}"
                self.problems.append(Finding(text))
            self._resolve(s.body, replace(at, number=self.passes))
            self.passes += 1
            return
        var = f"%{len(rows)}row{len(self.items)}"
        rank = 60 + len(rows)
        self.prover.facts[var] = Fact(upper=((ONE, extent - 1),), rank=rank)
        self.prover.ranges[var] = (0, 1 << 62)
        self._env[s.var] = sym(var)
        self._cache = {e: v for e, v in self._cache.items() if s.var not in e.symbols()}
        self._resolve(s.body, replace(at, rows=(*rows, (var, extent))))

    def _place_read(self, s: IndexRead, extent: Expr, depth: int) -> None:
        """Assume that ``autofuse::IndexIn`` returns an in-bounds index, for nonempty dimensions.

        The tensor's contents are data.  The function clamps an out-of-bounds index; the twin reports such an index in
        checked mode.
        """
        var = f"%{s.name}"
        self.prover.facts[var] = Fact(upper=((ONE, extent - 1),), rank=70 + depth)
        self.prover.ranges[var] = (0, 1 << 62)
        self.read[s.name] = (var, extent)
        self.places[s.load] = sym(var)
        self._env[s.name] = sym(var)
        self._cache = {e: v for e, v in self._cache.items() if s.name not in e.symbols()}

    def _examples(self) -> tuple[dict[str, int], ...]:
        if self._few is None:
            self._few = tuple(itertools.islice(self._sample(), 24))[::4]
        return self._few

    # counterexamples --------------------------------------------------------------------------
    def samples(self) -> list[dict[str, int]]:
        """Return small legal values of all variables."""
        if self._samples is None:
            self._samples = list(itertools.islice(self._sample(), 400))
        return self._samples

    def _sample(self) -> Iterator[dict[str, int]]:
        for sizes in small_sizes(self.impl, self.needed):
            for t in legal_tiles(self.impl, sizes):
                base = {**sizes, self.spec.opened.symbol: t}
                tiles = self.tiles.evaluate(base)
                if tiles < 1 or self.spec.row_elements.evaluate(base) < 1:
                    continue
                per_core = max(1, -(-tiles // 3))
                for k in sorted({0, 1, tiles // 2, tiles - 1}):
                    if not 0 <= k < tiles:
                        continue
                    env = {**base, self.spec.block_size: per_core, K: k}
                    env |= {"%c": k // per_core, "%i": k % per_core}
                    if self.spec.reduce_steps.evaluate(env) < 1:
                        continue  # A dimension of 0, by which indices in it would be divided.
                    steps = self.steps_here.evaluate(self._at_step(env, 0, 1))
                    for q in sorted({0, steps - 1}):
                        yield self._at_step(env, q, steps)

    def _at_step(self, env: Mapping[str, int], q: int, steps: int) -> dict[str, int]:
        """Return the values of all variables in a step of the reduce loop."""
        at = {**env, Q: q, R: (q - env["%c"]) % steps}
        for text, name in self.meaning.items():
            if name not in (sym(K), sym(Q)):
                at[str(name)] = text.evaluate(at)
        return at

    def refute(self, e: Expr, rows: tuple[tuple[str, Expr], ...] = ()) -> dict[str, int] | None:
        """Return values for which ``e`` is negative, or None."""
        for env in self.samples():
            # The last row, the first, and the second, where a row pitch appears unscaled.
            for row in (None, 0, 1):
                at = dict(env)
                for var, extent in (*rows, *self.read.values()):
                    last = extent.evaluate(at) - 1
                    at[var] = last if row is None else min(row, max(last, 0))
                try:
                    if all(at[v] >= 0 for v, _ in rows) and e.evaluate(at) < 0:
                        return at
                except ExprError:
                    continue
        return None

    @property
    def proved(self) -> frozenset[tuple[Expr, Expr]]:
        """Return the pairs ``(a, b)`` for which ``a >= b`` was proved, in terms of the variables."""
        return frozenset(self._proved)

    # obligations ------------------------------------------------------------------------------
    def at_least(
        self, a: Expr, b: Expr, what: str, node: str = "", item: Item | None = None
    ) -> Iterator[Finding]:
        """Check the obligation ``a >= b``."""
        if self.empty or (a, b) in self._proved:
            return
        if a == b or self.prover.nonneg(a - b):
            self._proved.add((a, b))
            return
        if item is not None and self._in_loops(item).nonneg(a - b):
            return
        values = self.refute(a - b, item.rows if item else ())
        yield Finding(f"{what}: {a} >= {b}", node, values is not None, values)

    def iterations(self, item: Item) -> tuple[Expr, ...]:
        """Return the iterations of each loop around a statement: at least one, if the statement runs."""
        loops = (self.tiles,) if item.inside else ()
        if item.number is not None:
            loops = (*loops, self.spec.reduce_steps)
        return (*loops, *(extent for _, extent in item.rows))

    def _in_loops(self, item: Item) -> Prover:
        """Return a prover that knows which symbols are nonzero because the loops around a statement run."""
        found = {name for n in self.iterations(item) for name in factors(n)}
        ones = frozenset(
            s for s in found & self.prover.facts.keys() if self.prover.facts[s].low < 1
        )
        if not ones:
            return self.prover
        if ones not in self._provers:
            known = {s: replace(f, low=1) if s in ones else f for s, f in self.prover.facts.items()}
            self._provers[ones] = Prover(
                known,
                self.prover.multiples,
                self.prover.assumed,
                lambda: [v for v in self._examples() if all(v.get(s, 1) >= 1 for s in ones)],
            )
        return self._provers[ones]

    def same(
        self, a: Expr, b: Expr, what: str, node: str = "", item: Item | None = None
    ) -> Iterator[Finding]:
        """Check the obligation ``a == b``."""
        if self.empty or a == b:
            return
        if self.prover.equal(a, b):
            self._proved |= {(a, b), (b, a)}
            return
        rows = item.rows if item else ()
        values = self.refute(a - b, rows) or self.refute(b - a, rows)
        yield Finding(f"{what}: {a} == {b}", node, values is not None, values)

    def multiple(
        self, e: Expr, n: int, what: str, node: str = "", item: Item | None = None
    ) -> Iterator[Finding]:
        """Check the obligation that ``n`` divides ``e``."""
        if self.empty or self.prover.divides(n, e):
            return
        values = self.refute(-(e - FloorDiv(e, n) * n), item.rows if item else ())
        yield Finding(f"{what}: {e} is a multiple of {n}", node, values is not None, values)

    # small parts ----------------------------------------------------------------------------------
    def turn(self, repeats: int = 2) -> Iterator[Item]:
        """Yield one iteration of the loop over tiles in execution order; reduce loops run ``repeats`` times."""
        inside = [i for i in self.items if i.inside]
        for number, run in itertools.groupby(inside, key=lambda i: i.number):
            members = list(run)
            for _ in range(1 if number is None else repeats):
                yield from members

    def place_of(self, n: Node) -> tuple[bool, int | None]:
        """Return the loops that a node must be in, as in ``Item.place`` of its statements."""
        if n.loop_axis is None:
            return False, None
        return True, n.loop_pass if n.loop_axis == self.impl.r_axis else None

    def maker(self, item: Item, local: str) -> Node | None:
        """Return the node whose result a statement writes to ``local``."""
        found = self.locals.get(local)
        for n in self.joins.values() if item.number is not None else ():
            if found is not None and n.joins == found.name:
                return n
        return found

    def local_of(self, name: str) -> str:
        """Return the tensor in UB that holds the result of a node."""
        n = self.joins.get(name)
        made = (n.joins if n is not None else None) or name
        return self._results.get(made, f"no tensor of {made}")

    def scratch_of(self, n: Node) -> str:
        """Return the tensor in UB that is the scratch space of a node."""
        return next((x for x, of in self.scratch.items() if of is n), f"no scratch of {n.name}")

    def node_of(self, local: str) -> str:
        """Return the node that a tensor in UB was declared for; empty for none."""
        n = self.locals.get(local) or self.scratch.get(local)
        return "" if n is None else n.name

    def start_of(self, n: Node) -> Expr:
        """Return the GM offset, in elements, of the first element of a node's tensor in this tile."""
        start = n.y.offset
        for a, s in zip(n.y.axis, n.y.strides, strict=True):
            if a == self.block_in.id:
                start = start + s * sym(K)
            elif a != self.block_out.id and a not in n.y.vectorized_axis:
                start = start + s * self.index.get(a, ZERO)
        if n.op == "Load" and len(n.inputs) > 1:
            start = start + self.places.get(n.name, ZERO) * n.size("stride")
        return start

    def indexed_axes(self, n: Node) -> list[int]:
        """Return the axes in this tile along which an index tensor selects the elements of a Load."""
        if n.op != "Load" or len(n.inputs) < 2:
            return []
        stride = dict(zip(n.y.axis, n.y.strides, strict=True))
        return [a for a in n.y.vectorized_axis if stride[a] == ZERO]

    def is_whole(self, n: Node) -> bool:
        """Return True if a node covers a full tile: before the loops, or for all tiles of a reduce loop."""
        whole = self.spec.reduce_tiles and n.loop_axis == self.block_in.id
        return n.loop_axis is None or whole

    def buffer_of(self, local: str) -> str:
        """Return the queue or TBuf that holds the tensor ``local``, or an empty text."""
        return self._buffers.get(local, "")

    def shares(self, a: str, b: str) -> bool:
        """Return True if two tensors share their bytes in UB."""
        return self._places.get(a, a) == self._places.get(b, b)

    def extent(self, axis: int) -> Expr:
        """Return the iterations of a vectorised axis in this tile."""
        if axis in self.cut:
            return sym(f"{A}{self.axes[axis].name}")
        return sym(A) if axis == self.tile_in.id else self.axes[axis].size


def at_loads(kernel: Kernel) -> Iterator[tuple[Item, CopyIn | CopyOut, DmaBlock | DmaDims]]:
    """Yield all copies with their descriptors."""
    for item in kernel.items:
        if item.block is not None:
            assert isinstance(item.stmt, CopyIn | CopyOut)
            yield item, item.stmt, item.block


def node_of_copy(kernel: Kernel, s: CopyIn | CopyOut) -> list[Node]:
    """Return the Load of a copy, or the Stores of its tensor."""
    if isinstance(s, CopyIn):
        made = kernel.locals.get(s.local)
        return [made] if made is not None and made.op == "Load" else []
    return [
        n for n in kernel.impl.nodes if n.op == "Store" and kernel.local_of(n.inputs[0]) == s.local
    ]
