"""What the checks of one kernel share: its meaning in a few variables, and the facts about them.

A template means this, with E the length of the tiled axis, t that of a tile, O the iterations of the loops outside::

    core  c in [0, cores)      tiles per core  b,  cores*b >= T       tiles  T = CeilDiv(E, t) * O
    loop  i in [0, Min(b, T - c*b))        tile number  k = c*b + i
    k in mixed radix over (outer axes ..., CeilDiv(E, t))  ->  indices of the outer axes, tile index j
    elements of the tile: [j*t, j*t + a)   with  a = Min(t, E - j*t)

``(c, i) -> k`` is one to one onto [0, T), for every k lies in exactly one of the blocks [c*b, c*b + b) and none beyond
T is run; ``k -> indices`` is one to one as the digits of a number are; the tiles of one row of the axis are neighbours,
not empty, and end at E.  So every element of the iteration space belongs to one element of one tile of one core.
What is left to check is that the statements say this and no other thing: a definition of the kernel that means one of
the variables above is replaced by it (``%k``, ``%j``, ``%a``, ``%<axis>``), and every further expression is compared,
or bounded, in terms of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from autofuse.codegen.kernel_ir import (
    BlockIndex,
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaLet,
    For,
    InitBuffer,
    KernelFn,
    Let,
    ReturnIfEmpty,
    Stmt,
)
from autofuse.codegen.verification.prover import Bound, Fact, Prover
from autofuse.implgraph.expr import (
    ONE,
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Func,
    Min,
    Mod,
    sym,
)
from autofuse.implgraph.fusion import FusionGraph
from autofuse.implgraph.graph import Axis, AxisType, ImplGraph, Node
from autofuse.targets import TargetSpec

__all__ = [
    "Finding",
    "Item",
    "Kernel",
    "at_loads",
    "legal_tiles",
    "node_of_copy",
    "small_sizes",
]

#: Cores that a launch may have.
MAX_CORES = 65535
K, J, A = "%k", "%j", "%a"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: an obligation that fails, or, with ``refuted`` False, one without a proof.

    ``values``: sizes for which it fails; None for a finding that does not depend on sizes, or is not refuted.
    """

    message: str
    node: str = ""
    refuted: bool = True
    values: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A statement with its expressions in terms of the variables.

    Attributes:
        rows: loops around it inside the main loop: variable and extent.
        inside: in the loop over tiles.
        values: expressions of the statement in the order of its fields.
    """

    stmt: Stmt
    inside: bool
    rows: tuple[tuple[str, Expr], ...] = ()
    values: tuple[Expr, ...] = ()
    block: DmaBlock | None = None


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

    def __post_init__(self) -> None:
        spec = self.impl.tiling
        self.spec = spec
        self.nodes = self.impl.by_name()
        self.locals = {f"{n.name}_local": n for n in self.impl.nodes}
        self.t, self.b = sym(spec.tile_size), sym(spec.block_size)
        self.axes = {a.id: a for a in self.impl.axes}
        self.tile_in, self.tile_out = self._axis(AxisType.TILE_IN), self._axis(AxisType.TILE_OUT)
        self.block_out = self._axis(AxisType.BLOCK_OUT)
        self.block_in = self._axis(AxisType.BLOCK_IN)
        loop = self.axes[self.block_out.origin[0]]
        parts = [self.axes[i] for i in loop.origin] if loop.type is AxisType.MERGED else [loop]
        self.outer = [a for a in parts if a.id != self.tile_out.id]
        self.per_axis = CeilDiv(spec.extent, self.t)
        self.tiles = self.per_axis * spec.outer
        #: No core has a tile, whatever the symbols are: nothing is moved, and nothing has to hold.
        self.empty = spec.extent * spec.outer * spec.row_elements == 0
        self.core = sym("%c")
        self.step = sym("%i")
        self.row_guard = self.loop_guard = False
        #: Index of every axis outside the vector call.
        self.index: dict[int, Expr] = {self.tile_out.id: sym(J if self.outer else K)}
        self.index |= {a.id: sym(f"%{a.name}") for a in self.outer}
        self.tile_index = self.index[self.tile_out.id]
        self._define()
        self._env: dict[str, Expr] = {}
        self._blocks: dict[str, DmaBlock] = {}
        self._buffers = _buffers(self.fn.body)
        self._cache: dict[Expr, Expr] = {}
        self._samples: list[dict[str, int]] | None = None
        self._proved: set[tuple[Expr, Expr]] = set()
        self._guards()
        self._few: tuple[dict[str, int], ...] | None = None
        self.prover = Prover(
            self._facts(),
            {c.value: c.multiple_of for c in spec.conditions},
            self._assumed(),
            self._examples,
        )
        self._resolve(self.fn.body, False, ())

    def _axis(self, kind: AxisType) -> Axis:
        return next(a for a in self.impl.axes if a.type is kind)

    # meaning ----------------------------------------------------------------------------------
    def _define(self) -> None:
        """Texts that mean a variable: expression in earlier variables -> variable."""
        k = sym(K)
        first = self.core * self.b
        self.loop_size = Min(self.b, self.tiles - first)
        self.meaning: dict[Expr, Expr] = {first + self.step: k}
        rest = k
        if self.outer:
            parts = [(self.tile_out.id, self.per_axis)]
            parts += [(a.id, a.size) for a in reversed(self.outer)]
            for number, (axis, size) in enumerate(parts):
                last = number == len(parts) - 1
                digit = rest if last else Mod(rest, size)
                if not digit.is_const and digit not in self.meaning:
                    self.meaning[digit] = self.index[axis]
                elif digit.is_const:
                    self.index[axis] = digit
                else:
                    self.index[axis] = self.meaning[digit]
                rest = FloorDiv(rest, size)
        self.tile_index = self.index[self.tile_out.id]
        self.meaning[Min(self.t, self.spec.extent - self.tile_index * self.t)] = sym(A)

    def _guards(self) -> None:
        """Which of the returns for nothing to do stand before the loop."""
        for s in self.fn.body:
            if isinstance(s, For):
                break
            if isinstance(s, Let):
                self._let(s, False)
            elif isinstance(s, BlockIndex):
                self._env[s.name] = self.core
            elif isinstance(s, ReturnIfEmpty):
                value = self.value(sym(s.value))
                self.loop_guard |= value == self.loop_size
                self.row_guard |= value == self.spec.row_elements

    def value(self, e: Expr) -> Expr:
        """``e`` in terms of the variables."""
        if e.is_const:
            return e
        found = self._cache.get(e)
        if found is None:
            found = e.substitute(self._env)
            found = self.meaning.get(found, found)
            self._cache[e] = found
        return found

    def _let(self, s: Let, inside: bool) -> Expr:
        name = str(s.value)
        if name.startswith("t.") and s.value == sym(name):
            self._env[s.name] = sym(name[2:])
        else:
            self._env[s.name] = self.value(s.value)
        return self._env[s.name]

    def _resolve(
        self, body: Iterable[Stmt], inside: bool, rows: tuple[tuple[str, Expr], ...]
    ) -> None:
        blocks = self._blocks
        for s in body:
            if isinstance(s, For):
                self._loop(s, inside, rows)
                continue
            values: tuple[Expr, ...] = ()
            block = None
            if isinstance(s, Let):
                values = (self._let(s, inside),)
            elif isinstance(s, BlockIndex):
                self._env[s.name] = self.core
            elif isinstance(s, InitBuffer):
                self.nbytes[s.name] = self.value(s.nbytes)
                values = (self.nbytes[s.name],)
            elif isinstance(s, DmaLet):
                blocks[s.name] = s.block
            elif isinstance(s, CopyIn | CopyOut):
                if s.block_name and s.block_name not in blocks:
                    text = f"the descriptor {s.block_name} is not defined yet"
                    self.problems.append(Finding(text, _node_of(s)))
                stated = blocks.get(s.block_name, s.block) if s.block_name else s.block
                if stated != s.block:
                    self.problems.append(
                        Finding(f"the copy states another block than {s.block_name}", _node_of(s))
                    )
                values = (self.value(s.local_offset), self.value(s.gm_offset))
                parts = (stated.count, stated.length, stated.gm_gap, stated.ub_gap)
                count, length, gm_gap, ub_gap = map(self.value, parts)
                block = DmaBlock(count, length, gm_gap, ub_gap)
            self.items.append(Item(s, inside, rows, values, block))

    def _loop(self, s: For, inside: bool, rows: tuple[tuple[str, Expr], ...]) -> None:
        extent = self.value(s.extent)
        if not inside and s.var == self.block_in.name:
            self.loops += 1
            self._env[s.var] = self.step
            if extent != self.loop_size:
                text = f"the loop runs {s.extent} times, which is not {self.loop_size}"
                self.problems.append(Finding(text))
            self._resolve(s.body, True, ())
            return
        var = f"%{len(rows)}row{len(self.items)}"
        rank = 60 + len(rows)
        self.prover.facts[var] = Fact(upper=((ONE, extent - 1),), rank=rank)
        self.prover.ranges[var] = (0, 1 << 62)
        self._env[s.var] = sym(var)
        self._cache = {e: v for e, v in self._cache.items() if s.var not in e.symbols()}
        self._resolve(s.body, inside, (*rows, (var, extent)))

    # facts ------------------------------------------------------------------------------------
    def _facts(self) -> dict[str, Fact]:
        """Facts that hold in the loop and behind the returns for nothing to do."""
        spec, facts = self.spec, {}
        one: set[str] = set()
        for e in (spec.extent, spec.outer) if self.loop_guard else ():
            one |= _factors(e)
        one |= _factors(spec.row_elements) if self.row_guard else set()
        for s in self.impl.symbols:
            facts[s.name] = Fact(max(s.min, 1) if s.name in one else s.min, max(s.max, 1))
        uppers: list[Bound] = []
        uppers.append((ONE, spec.extent))
        if spec.tile_max is not None:
            uppers.insert(0, (ONE, spec.tile_max))
        multiple = 1
        length = spec.extent.as_int()
        if length is not None:
            # A tile is a multiple of the granule, or the whole axis; so is what a tail leaves of it.
            whole = length <= spec.granule
            multiple = max(length, 1) if whole else math.gcd(length, spec.granule)
        facts[spec.tile_size] = Fact(
            1,
            max(length, 1) if length is not None else 1 << 62,
            upper=tuple(uppers),
            rank=10,
            multiple=multiple,
        )
        facts[spec.block_size] = Fact(1, rank=15)
        facts["%c"] = Fact(0, MAX_CORES - 1, rank=20)
        facts["%i"] = Fact(
            0,
            upper=((ONE, self.b - 1), (ONE, self.tiles - self.core * self.b - 1)),
            rank=22,
        )
        facts[K] = Fact(0, upper=((ONE, self.tiles - 1),), rank=25)
        for n, a in enumerate(self.outer):
            facts[f"%{a.name}"] = Fact(
                0,
                _top(a.size.as_int()),
                upper=((ONE, a.size - 1),),
                rank=30 + n,
            )
        # E - j*t >= 1: no tile is empty.
        tile = ((self.t, spec.extent - 1), (ONE, self.per_axis - 1))
        name = J if self.outer else K
        facts[name] = Fact(0, upper=tile, rank=40)
        facts[A] = Fact(
            1,
            facts[spec.tile_size].high,
            upper=((ONE, self.t), (ONE, spec.extent - self.tile_index * self.t)),
            rank=50,
            multiple=multiple,
        )
        return facts

    def _assumed(self) -> list[Expr]:
        """``t <= FloorDiv(most, rows)`` means ``t*rows <= most``, and with ``t >= 1`` ``rows <= most``."""
        out = []
        for a in self.spec.tile_max.atoms() if self.spec.tile_max is not None else ():
            if isinstance(a, Func) and a.name == "FloorDiv" and str(a) == str(self.spec.tile_max):
                out += [a.args[0] - a.args[1], a.args[0] - a.args[1] * self.t]
        return out

    def _examples(self) -> tuple[dict[str, int], ...]:
        if self._few is None:
            self._few = tuple(itertools.islice(self._sample(), 24))[::4]
        return self._few

    # counterexamples --------------------------------------------------------------------------
    def samples(self) -> list[dict[str, int]]:
        """Small legal values of all variables."""
        if self._samples is None:
            self._samples = list(itertools.islice(self._sample(), 400))
        return self._samples

    def _sample(self) -> Iterator[dict[str, int]]:
        for sizes in small_sizes(self.impl):
            for t in legal_tiles(self.impl, sizes):
                base = {**sizes, self.spec.tile_size: t}
                tiles = self.tiles.evaluate(base)
                if tiles < 1 or self.spec.row_elements.evaluate(base) < 1:
                    continue
                per_core = max(1, -(-tiles // 3))
                for k in sorted({0, 1, tiles // 2, tiles - 1}):
                    if not 0 <= k < tiles:
                        continue
                    env = {**base, self.spec.block_size: per_core, K: k}
                    env |= {"%c": k // per_core, "%i": k % per_core}
                    for text, name in self.meaning.items():
                        if name != sym(K):
                            env[str(name)] = text.evaluate(env)
                    yield env

    def refute(self, e: Expr, rows: tuple[tuple[str, Expr], ...] = ()) -> dict[str, int] | None:
        """Values for which ``e`` is negative."""
        for env in self.samples():
            for last in (True, False):
                at = dict(env)
                for var, extent in rows:
                    at[var] = extent.evaluate(at) - 1 if last else 0
                try:
                    if all(at[v] >= 0 for v, _ in rows) and e.evaluate(at) < 0:
                        return at
                except ExprError:
                    continue
        return None

    @property
    def proved(self) -> frozenset[tuple[Expr, Expr]]:
        """Pairs ``(a, b)`` of which ``a >= b`` was proved, in terms of the variables."""
        return frozenset(self._proved)

    # obligations ------------------------------------------------------------------------------
    def at_least(
        self, a: Expr, b: Expr, what: str, node: str = "", item: Item | None = None
    ) -> Iterator[Finding]:
        """The obligation ``a >= b``."""
        if self.empty or (a, b) in self._proved:
            return
        if a == b or self.prover.nonneg(a - b):
            self._proved.add((a, b))
            return
        values = self.refute(a - b, item.rows if item else ())
        yield Finding(f"{what}: {a} >= {b}", node, values is not None, values)

    def same(
        self, a: Expr, b: Expr, what: str, node: str = "", item: Item | None = None
    ) -> Iterator[Finding]:
        """The obligation ``a == b``."""
        if self.empty or a == b:
            return
        if self.prover.equal(a, b):
            self._proved |= {(a, b), (b, a)}
            return
        rows = item.rows if item else ()
        values = self.refute(a - b, rows) or self.refute(b - a, rows)
        yield Finding(f"{what}: {a} == {b}", node, values is not None, values)

    def multiple(self, e: Expr, n: int, what: str, node: str = "") -> Iterator[Finding]:
        """The obligation that ``n`` divides ``e``."""
        if self.empty or self.prover.divides(n, e):
            return
        values = self.refute(-(e - FloorDiv(e, n) * n))
        yield Finding(f"{what}: {e} is a multiple of {n}", node, values is not None, values)

    # helpers ----------------------------------------------------------------------------------
    def buffer_of(self, local: str) -> str:
        """The queue or TBuf whose memory the tensor ``local`` is in; empty if it has none."""
        return self._buffers.get(local, "")

    def extent(self, axis: int) -> Expr:
        """Iterations of a vectorised axis in this tile."""
        return sym(A) if axis == self.tile_in.id else self.axes[axis].size


def _buffers(body: Iterable[Stmt]) -> dict[str, str]:
    from autofuse.codegen.kernel_ir import Alloc, GetBuf

    out: dict[str, str] = {}
    for s in body:
        if isinstance(s, For):
            out |= _buffers(s.body)
        elif isinstance(s, GetBuf):
            out[s.local] = s.buf
        elif isinstance(s, Alloc):
            out[s.local] = s.queue
    return out


def _top(size: int | None) -> int:
    return 1 << 62 if size is None else max(size - 1, 0)


def _node_of(s: CopyIn | CopyOut) -> str:
    return s.local.removesuffix("_local")


def _factors(e: Expr) -> set[str]:
    """Symbols that are at least 1 if ``e`` is: those of a product."""
    if len(e.terms) != 1:
        return set()
    out: set[str] = set()
    for a, _ in e.terms[0][0]:
        if isinstance(a, Func):
            if a.name == "CeilDiv":
                out |= _factors(a.args[0])
        else:
            out.add(a.name)
    return out


# legal values ---------------------------------------------------------------------------------
_SIZES = (1, 2, 3, 5, 8, 17, 64, 129, 0, 1000)


def small_sizes(impl: ImplGraph) -> Iterator[dict[str, int]]:
    """Some values of the graph's symbols within their ranges and the template's conditions."""
    names = [s.name for s in impl.symbols]
    choices: list[list[int]] = []
    step = max((c.multiple_of for c in impl.tiling.conditions), default=1)
    for s in impl.symbols:
        own = [v for v in _SIZES if s.min <= v <= s.max] or [s.min]
        own += [step * v for v in (1, 2, 3) if step > 1 and s.min <= step * v <= s.max]
        choices.append(list(dict.fromkeys(own)))
    for values in _mixed(choices):
        env = dict(zip(names, values, strict=True))
        if all(c.value.evaluate(env) % c.multiple_of == 0 for c in impl.tiling.conditions):
            yield env


def _mixed(choices: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Some of the product: every value of every list, in changing company."""
    if not choices:
        yield ()
        return
    seen = set()
    for shift in range(8):
        for i in range(max(map(len, choices))):
            row = tuple(c[(i + shift * n) % len(c)] for n, c in enumerate(choices))
            if row not in seen:
                seen.add(row)
                yield row


def legal_tiles(impl: ImplGraph, sizes: Mapping[str, int], most: int = 6) -> list[int]:
    """Tile lengths that the host may choose for these sizes: ends of the range, and some that leave short tails."""
    spec = impl.tiling
    extent = spec.extent.evaluate(sizes)
    if not extent * spec.outer.evaluate(sizes) * spec.row_elements.evaluate(sizes):
        return []
    top = min(extent, spec.tile_max.evaluate(sizes) if spec.tile_max is not None else extent)

    def fits(t: int) -> bool:
        return spec.ub.evaluate({**sizes, spec.tile_size: t}) <= spec.ub_limit

    if extent <= spec.granule:
        whole = max(extent, 1)
        ok = spec.tile_max is None or whole <= spec.tile_max.evaluate(sizes)
        return [whole] if ok and fits(whole) else []
    count = top // spec.granule
    wanted = {1, 2, 3, 7, count // 3, count // 2, count - 1, count}
    tiles = [n * spec.granule for n in sorted(wanted) if 1 <= n <= count]
    if top == extent:
        tiles.append(extent)
    tiles = [t for t in dict.fromkeys(tiles) if fits(t)]
    return tiles if len(tiles) <= most else [*tiles[: most - 2], *tiles[-2:]]


def at_loads(kernel: Kernel) -> Iterator[tuple[Item, CopyIn | CopyOut, DmaBlock]]:
    """All copies with their descriptors."""
    for item in kernel.items:
        if item.block is not None:
            assert isinstance(item.stmt, CopyIn | CopyOut)
            yield item, item.stmt, item.block


def node_of_copy(kernel: Kernel, s: CopyIn | CopyOut) -> list[Node]:
    """The Load of a copy, or the Stores that take its tensor to its parameter."""
    made = kernel.locals.get(s.local)
    if made is None:
        return []
    if isinstance(s, CopyIn):
        return [made] if made.op == "Load" else []
    return [n for n in kernel.impl.nodes if n.op == "Store" and n.inputs[0] == made.name]
